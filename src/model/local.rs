//! Reads the Services of this cluster (rule M5, kind `local`).

use smallvec::SmallVec;

use super::fields::{cluster_addresses, ports, service_key, unusable};
use super::kube_object::ServiceSpec;
use super::{
    Export, Item, ItemKind, KubeObject, Object, OwnForm, OwnService, Ports, Problem,
    ServiceSettings, key,
};

/// Returns whether a Service belongs to this cluster. An implementation of the Multi-Cluster Services API may make a Service
/// for each ServiceImport (Cilium), with labels of the exported Service.
pub(super) fn is_own(service: &KubeObject<'_>) -> bool {
    let has = |key| service.label(key).is_some();
    !has(key::MIRRORED_SERVICE) && !has(key::MCS_SERVICE)
}

/// Reads a Service of this cluster. Most Services are neither headless nor exported nor have settings; of these, it matters
/// only that they exist.
pub(super) fn read_service(service: &KubeObject<'_>) -> Result<Object, Problem> {
    let spec = service.spec::<ServiceSpec<'_>>().map_err(unusable)?;
    let settings = ServiceSettings::of_own(service).if_any();
    if settings.is_none() && !spec.is_headless() && service.label(key::EXPORTED).is_none() {
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
            Err(_) if settings.is_some() => (OwnForm::Other, SmallVec::new(), Ports::interned([])),
            Err(problem) => return Err(problem),
        }
    };
    let export = match service.label(key::EXPORTED) {
        None => Export::No,
        Some("true") => Export::Gateway,
        Some("remote-discovery") => Export::RemoteDiscovery,
        Some(_) => Export::Other,
    };
    let kind = ItemKind::Own(OwnService { export, form });
    Ok(Object::from(Item {
        addresses,
        ports,
        settings,
        created: service.created(),
        has_own: true,
        ..Item::new(kind, service_key(service, service.name())?)
    }))
}
