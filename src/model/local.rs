//! Reads the objects of this cluster: Services, and slices of Services (rule M5, kind `local`).

use smallvec::SmallVec;

use super::fields::{cluster_addresses, ports, service_key, undecodable};
use super::slice::{endpoints, has_addresses, readiness, slice_owner};
use super::{
    Clusters, Export, Item, ItemKind, KubeObject, Ports, Problem, Settings, Slice, SliceContent,
    key,
};

/// Returns whether a Service belongs to this cluster and matters. An implementation of the Multi-Cluster Services API may
/// make a Service for each ServiceImport (Cilium), with labels of the exported Service.
pub(super) fn matters(service: &KubeObject<'_>) -> bool {
    let has = |key| service.label(key).is_some();
    let is_used =
        service.is_headless() || has(key::EXPORTED) || service.label(key::POLICY) == Some("true");
    is_used && !has(key::MIRRORED_SERVICE) && !has(key::MCS_SERVICE)
}

/// Reads a Service of this cluster: a headless one, an exported one with a cluster IP, or one that only has settings.
pub(super) fn read_service(service: &KubeObject<'_>) -> Result<Item, Problem> {
    let spec = service.service_spec().map_err(undecodable)?;
    let (addresses, ports) = if service.is_headless() {
        (SmallVec::new(), Ports::interned([]))
    } else {
        (cluster_addresses(&spec)?, ports(&spec))
    };
    let export = match service.label(key::EXPORTED) {
        None => Export::No,
        Some("true") => Export::Gateway,
        Some("remote-discovery") => Export::RemoteDiscovery,
        Some(_) => Export::Other,
    };
    Ok(Item {
        kind: ItemKind::Own(export),
        service: service_key(service, service.name())?,
        clusters: Clusters::Own,
        host: None,
        addresses,
        ports,
        settings: Settings::of_own(service).if_any(),
        created: service.created(),
    })
}

/// Reads a slice of a headless Service.
pub(super) fn read_slice(slice: &KubeObject<'_>) -> Result<Slice, Problem> {
    let body = slice.slice_body().map_err(undecodable)?;
    let owner = slice_owner(slice)?;
    let content = SliceContent::Endpoints(Box::new(endpoints(&body)?));
    Ok(Slice { owner, content })
}

/// Reads a slice of an exported Service with a cluster IP.
pub(super) fn read_ready_slice(slice: &KubeObject<'_>) -> Result<Slice, Problem> {
    let body = slice.slice_body().map_err(undecodable)?;
    has_addresses(&body)?;
    Ok(readiness(slice_owner(slice)?, &body))
}
