//! Converts Kubernetes objects to domain types, or to the reason for which they are skipped (rules M1, M7, M9).
//!
//! The sources call [`read`] for every object of a file or an event, and [`reduce`] for every object of a list. One reader for each
//! source of objects parses them. An object that cannot be used becomes [`Object::Skipped`], so that one invalid object never
//! stops a watch. Only the labels and annotations of [`key`] are read: Linkerd copies even
//! `last-applied-configuration` of the remote object to its mirrors.

use std::sync::Arc;

use super::keys::Kind;
use super::kube_object::unusable;
use super::{
    Export, Few, Item, ItemKind, KubeObject, Object, ObjectKey, OwnForm, OwnService, Problem,
    ServiceSettings, Slice, intern, key, linkerd, slice,
};

/// Returns the key of an object and what this server uses of it. Returns `None` if the object does not matter, such as a slice
/// of an ordinary Service, or has no name.
pub fn reduce(kind: Kind, object: &KubeObject<'_>) -> Option<(ObjectKey, Object)> {
    Some((object.key()?, read(kind, object)?))
}

/// Reads an object. Returns `None` if it does not matter. An object without a name, or with a label that is not a string,
/// may be of any kind of service. It is skipped as unusable, so that it appears in reports.
pub fn read(kind: Kind, object: &KubeObject<'_>) -> Option<Object> {
    try_read(kind, object).unwrap_or_else(|skip| Some(Object::Skipped(Arc::new(skip))))
}

fn try_read(kind: Kind, object: &KubeObject<'_>) -> Result<Option<Object>, Problem> {
    if let Some(detail) = object.problem() {
        return Err(unusable(detail));
    }
    Ok(match kind {
        Kind::Service if linkerd::is_mirror(object) => Some(linkerd::read_service(object)?.into()),
        Kind::Service if is_own(object) => Some(read_own_service(object)?),
        Kind::Service => None,
        Kind::EndpointSlice => read_slice(object)?.map(Object::Slice),
        Kind::Link => Some(Object::Link(linkerd::read_link(object)?)),
    })
}

/// Returns whether a Service belongs to this cluster. An implementation of the Multi-Cluster Services API may make a Service
/// for each ServiceImport (Cilium), with labels of the exported Service.
fn is_own(service: &KubeObject<'_>) -> bool {
    let has = |key| service.label(key).is_some();
    !has(key::MIRRORED_SERVICE) && !has(key::MCS_SERVICE)
}

/// Reads a Service of this cluster. Most Services are neither headless nor exported nor have settings; of these, it matters
/// only that they exist.
fn read_own_service(service: &KubeObject<'_>) -> Result<Object, Problem> {
    let spec = service.spec()?;
    let settings = ServiceSettings::of_own(service).if_any();
    if settings.is_none() && !spec.is_headless() && service.label(key::EXPORTED).is_none() {
        return Ok(Object::Plain);
    }
    let form = if spec.is_headless() {
        let has_selector = spec.selector.as_ref().is_some_and(|keys| !keys.is_empty());
        OwnForm::Headless { has_selector }
    } else {
        OwnForm::ClusterIp
    };
    let addresses = match spec.addresses() {
        // Its settings count, also without an address.
        _ if spec.is_headless() => Few::default(),
        Err(_) if settings.is_some() => Few::default(),
        addresses => addresses?,
    };
    let is_federated = spec.is_headless() && service.label(key::FEDERATED) == Some("member");
    let is_almost = |value: &str| {
        let value = value.to_ascii_lowercase();
        ["true", "yes", "remote-discovery", "remote_discovery"].contains(&&*value)
    };
    let export = match service.label(key::EXPORTED) {
        None if is_federated => Export::Federated,
        None => Export::No,
        Some("true") => Export::Gateway,
        Some("remote-discovery") => Export::RemoteDiscovery,
        Some(value) if is_almost(value) => Export::Misspelt,
        Some(_) => Export::Other,
    };
    let kind = ItemKind::Own(OwnService { export, form });
    Ok(Object::from(Item {
        addresses,
        ports: spec.ports(),
        settings,
        created: service.created(),
        has_own: true,
        ..Item::new(kind, service.service_key(service.name())?.service)
    }))
}

/// Reads a slice. Returns `None` if it does not matter. Its labels say so: the controllers of slices copy the labels of a Service
/// to its slices. Only slices of headless mirrors list hosts, unless they were overwritten with gateway addresses.
fn read_slice(slice: &KubeObject<'_>) -> Result<Option<Slice>, Problem> {
    let has = |key| slice.label(key).is_some();
    let manager = slice.label(key::MANAGED_BY);
    let is_mirror = linkerd::is_mirror(slice);
    let is_foreign =
        has(key::MIRRORED_SERVICE) || has(key::SOURCE_CLUSTER) || manager == Some(key::CILIUM_MESH);
    // Slices that somebody else writes for a Service without a selector have no headless label.
    let has_pods = has(key::HEADLESS) || manager != Some(key::KUBERNETES);
    let matters = is_mirror || !is_foreign && (has_pods || has(key::EXPORTED));
    if has(key::MCS_SERVICE) || !matters {
        return Ok(None);
    }
    let body = slice.body()?;
    let owner = slice
        .label(key::SERVICE_NAME)
        .ok_or_else(|| unusable(format!("label {} is missing", key::SERVICE_NAME)))?;
    let owner = intern(owner);
    if is_mirror && !has(key::HEADLESS_MIRROR) {
        let hosts = slice::listed(owner.clone(), &body, linkerd::listed_host);
        if !hosts.entries.is_empty() || !hosts.left_out.is_empty() {
            return Ok(Some(Slice::Hosts(hosts)));
        }
    }
    Ok(Some(if has_pods && !is_mirror {
        Slice::Endpoints(slice::listed(owner, &body, slice::endpoint))
    } else {
        slice::addresses(owner, &body)
    }))
}

#[cfg(test)]
mod tests;
