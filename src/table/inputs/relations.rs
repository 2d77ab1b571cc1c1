//! How objects belong together: which service they are of, and which Service a slice is of.

use crate::mirror::{EndpointMirror, HeadlessMirror, Object, ObjectKey, ServiceKey, Text};

/// Returns the headless mirror that an object is.
pub(super) fn headless_mirror(object: &Object) -> Option<&HeadlessMirror> {
    match object {
        Object::HeadlessMirror(mirror) => Some(mirror),
        Object::EndpointMirror(_)
        | Object::LocalService(_)
        | Object::GatewaySlice(_)
        | Object::ListedHosts(_)
        | Object::Slice(_)
        | Object::Skipped(_) => None,
    }
}

/// Returns the endpoint mirror that an object is.
pub(super) fn endpoint_mirror(object: &Object) -> Option<&EndpointMirror> {
    match object {
        Object::EndpointMirror(mirror) => Some(mirror),
        Object::HeadlessMirror(_)
        | Object::LocalService(_)
        | Object::GatewaySlice(_)
        | Object::ListedHosts(_)
        | Object::Slice(_)
        | Object::Skipped(_) => None,
    }
}

/// Returns the service that a mirror claims to be part of.
pub(super) fn claim(object: &Object) -> Option<&ServiceKey> {
    match object {
        Object::HeadlessMirror(mirror) => Some(&mirror.service),
        Object::EndpointMirror(mirror) => Some(&mirror.service),
        Object::Skipped(skip) => skip.other_kind().map(|(service, _)| service),
        Object::LocalService(_)
        | Object::GatewaySlice(_)
        | Object::ListedHosts(_)
        | Object::Slice(_) => None,
    }
}

/// Returns the Service that a slice belongs to.
pub(super) fn owner(key: &ObjectKey, object: &Object) -> Option<ObjectKey> {
    match object {
        Object::GatewaySlice(slice) => Some(beside(key, &slice.mirror)),
        Object::ListedHosts(listed) => Some(beside(key, &listed.mirror)),
        Object::Slice(slice) => Some(beside(key, &slice.service)),
        Object::HeadlessMirror(_)
        | Object::EndpointMirror(_)
        | Object::LocalService(_)
        | Object::Skipped(_) => None,
    }
}

/// Says of what an object is a mirror.
pub(super) fn identity(object: &Object) -> Option<String> {
    match object {
        Object::HeadlessMirror(mirror) => Some(format!(
            "{} in cluster '{}'",
            mirror.service, mirror.cluster
        )),
        Object::EndpointMirror(mirror) => {
            let (hostname, service, cluster) = (&mirror.hostname, &mirror.service, &mirror.cluster);
            Some(format!("'{hostname}' of {service} in cluster '{cluster}'"))
        }
        Object::LocalService(_)
        | Object::GatewaySlice(_)
        | Object::ListedHosts(_)
        | Object::Slice(_)
        | Object::Skipped(_) => None,
    }
}

// === Keys ===

/// Names another object in the namespace of one.
pub(super) fn beside(key: &ObjectKey, name: &Text) -> ObjectKey {
    ObjectKey {
        namespace: key.namespace.clone(),
        name: name.clone(),
    }
}

/// Names the local Service that a service is.
pub(super) fn object_key(service: &ServiceKey) -> ObjectKey {
    ObjectKey {
        namespace: service.namespace.text().clone(),
        name: service.service.text().clone(),
    }
}

/// Returns the service that a local Service is, or `None` if its name is no label of ours.
pub(super) fn service_key(key: &ObjectKey) -> Option<ServiceKey> {
    Some(ServiceKey {
        namespace: key.namespace.parse().ok()?,
        service: key.name.parse().ok()?,
    })
}
