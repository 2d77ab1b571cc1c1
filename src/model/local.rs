//! Reads the Services of this cluster (rule M5, kind `local`).

use smallvec::SmallVec;

use super::fields::{cluster_addresses, ports, service_key, unusable};
use super::kube_object::ServiceSpec;
use super::{
    Clusters, Export, Item, ItemKind, KubeObject, Object, OwnForm, OwnService, Ports, Problem,
    ServiceSettings, key,
};

/// Returns whether a Service belongs to this cluster. An implementation of the Multi-Cluster Services API may make a Service
/// for each ServiceImport (Cilium), with labels of the exported Service.
pub(super) fn is_own(service: &KubeObject<'_>) -> bool {
    let has = |key| service.label(key).is_some();
    !has(key::MIRRORED_SERVICE) && !has(key::MCS_SERVICE)
}

/// Returns whether a Service has an annotation of this server, or one that looks like it.
fn has_settings(service: &KubeObject<'_>) -> bool {
    let has = |key: &&str| service.annotation(key).is_some();
    key::SETTINGS.iter().any(has) || service.unknown_settings().next().is_some()
}

/// Reads a Service of this cluster. Most Services are neither headless nor exported nor have settings; of these, it matters
/// only that they exist.
pub(super) fn read_service(service: &KubeObject<'_>) -> Result<Object, Problem> {
    let has_settings = has_settings(service);
    let spec = service.spec::<ServiceSpec<'_>>().map_err(unusable)?;
    if !has_settings && !spec.is_headless() && service.label(key::EXPORTED).is_none() {
        return Ok(Object::Plain);
    }
    let (form, addresses, ports) = if spec.is_headless() {
        let has_selector = spec.selector.as_ref().is_some_and(|keys| !keys.is_empty());
        let form = OwnForm::Headless { has_selector };
        (form, SmallVec::new(), ports(spec.ports.as_ref()))
    } else {
        match cluster_addresses(&spec) {
            Ok(addresses) => (OwnForm::ClusterIp, addresses, ports(spec.ports.as_ref())),
            // Its settings count, also without an address.
            Err(_) if has_settings => (OwnForm::Other, SmallVec::new(), Ports::interned([])),
            Err(problem) => return Err(problem),
        }
    };
    let export = match service.label(key::EXPORTED) {
        None => Export::No,
        Some("true") => Export::Gateway,
        Some("remote-discovery") => Export::RemoteDiscovery,
        Some(_) => Export::Other,
    };
    let kind = ItemKind::Own(OwnService {
        export,
        form,
        has_settings,
    });
    Ok(Object::from(Item {
        addresses,
        ports,
        settings: ServiceSettings::of_own(service).if_any(),
        created: service.created(),
        ..Item::new(kind, service_key(service, service.name())?, Clusters::Own)
    }))
}
