//! Converts Kubernetes objects to domain types, or to the reason for which they are skipped (rules M1, M7, M9).
//!
//! The sources call [`reduce`] for every object of a watch, and [`select_and_parse`] for every object of a file. The file
//! of each kind parses its objects. An object that cannot be used becomes [`Object::Skipped`], so that one invalid object
//! never stops a watch. Only the labels and annotations of [`key`] are read: Linkerd copies even `last-applied-configuration` of
//! the remote object to its mirrors.

use std::sync::Arc;

use super::fields::{cluster, mirrored_service, undecodable};
use super::slice::{local_slice, mirror_slice, ready_slice};
use super::watch::{Kind, Watch};
use super::{
    ClusterName, EndpointMirror, FederatedService, HeadlessMirror, ImportSlice, KubeObject,
    LocalService, Object, ObjectKey, ServiceImport, ServiceKey, ServiceMirror, Skip, SkipReason,
    key,
};

/// Reduces an object that `watch` lists or reports to the fields in use. Returns `None` if the watch does not select it:
/// API servers without the field selector send more objects.
pub fn reduce(watch: Watch, object: &KubeObject<'_>) -> Option<(ObjectKey, Object)> {
    let is_selected = watch.selects(object);
    is_selected.then(|| Some((object.key()?, parse_object(watch, object))))?
}

/// Returns the watch that selects an object, and the parsed object. Selectors cannot be evaluated on an object without
/// a name or with a label that is not a string. Such an object is skipped as undecodable, so that it appears in
/// reports.
pub fn select_and_parse(kind: Kind, object: &KubeObject<'_>) -> Option<(Watch, Object)> {
    let Some(detail) = object.problem() else {
        return Watch::for_object(kind, object).map(|watch| (watch, parse_object(watch, object)));
    };
    let watch = Watch::ALL.into_iter().find(|watch| watch.kind() == kind)?;
    Some((watch, skipped(Skip::new(SkipReason::Undecodable, detail))))
}

/// Parses an object that `watch` selected.
pub fn parse_object(watch: Watch, object: &KubeObject<'_>) -> Object {
    let parsed = match watch {
        Watch::MirrorServices => is_of_linkerd(object).and_then(|()| {
            mirror(object).map_err(|skip| Skip {
                mirror_of: service_and_cluster(object),
                ..skip
            })
        }),
        Watch::LocalServices | Watch::ExportedServices | Watch::PolicyServices => {
            LocalService::parse(object).map(|local| Object::LocalService(Box::new(local)))
        }
        Watch::MirrorSlices => mirror_slice(object),
        Watch::LocalSlices | Watch::ForeignSlices => local_slice(object),
        Watch::ExportedSlices => ready_slice(object),
        Watch::ServiceImports => {
            ServiceImport::parse(object).map(|import| Object::ServiceImport(Box::new(import)))
        }
        Watch::ImportSlices => {
            ImportSlice::parse(object).map(|slice| Object::ImportSlice(Box::new(slice)))
        }
    };
    parsed.unwrap_or_else(skipped)
}

fn skipped(skip: Skip) -> Object {
    Object::Skipped(Arc::new(skip))
}

/// Rejects a Service that belongs to the Multi-Cluster Services API. Cilium copies labels of an exported Service to the
/// Service that it derives from a ServiceImport. Labels of Linkerd among them must not make it a mirror.
fn is_of_linkerd(service: &KubeObject<'_>) -> Result<(), Skip> {
    let Some(_) = service.label(key::MCS_SERVICE) else {
        return Ok(());
    };
    let detail = format!(
        "label {} says that it belongs to the Multi-Cluster Services API; it is not a mirror, despite its label {}",
        key::MCS_SERVICE,
        key::MIRRORED_SERVICE
    );
    Err(Skip::new(SkipReason::Internal, detail))
}

/// Parses a Service that Linkerd mirrored. The kinds are listed in the documentation of [`table`](crate::table).
fn mirror(service: &KubeObject<'_>) -> Result<Object, Skip> {
    let spec = service.service_spec().map_err(undecodable)?;
    Ok(if EndpointMirror::is(service) {
        Object::EndpointMirror(Box::new(EndpointMirror::parse(service, &spec)?))
    } else if service.label(key::CLUSTER_NAME).is_none() && FederatedService::is(service) {
        Object::FederatedService(Box::new(FederatedService::parse(service, &spec)?))
    } else if ServiceMirror::is(&spec) {
        Object::ServiceMirror(Box::new(ServiceMirror::parse(service, &spec)?))
    } else {
        Object::HeadlessMirror(Box::new(HeadlessMirror::parse(service)?))
    })
}

/// Returns the service and the cluster of a mirror that is skipped, if both can be read.
fn service_and_cluster(service: &KubeObject<'_>) -> Option<(ServiceKey, ClusterName)> {
    let cluster = cluster(service).ok()?;
    let key = match EndpointMirror::is(service) {
        true => EndpointMirror::service_of(service, &cluster),
        false => mirrored_service(service, &cluster),
    };
    Some((key.ok()?, cluster))
}

#[cfg(test)]
mod tests;
