//! Services of the Multi-Cluster Services API, KEP-1645 (kind `import`): ServiceImports and their EndpointSlices.
//!
//! An implementation of that API writes both, in the namespace of the exported Service and with its name. The slices
//! have label `multicluster.kubernetes.io/service-name`, and the cluster of their endpoints in label
//! `multicluster.kubernetes.io/source-cluster`. Versions v1alpha1 and v1beta1 have the same schema: `spec.type`,
//! `spec.ips`, `spec.ports` and `status.clusters` (kubernetes-sigs/mcs-api, `pkg/apis/v1beta1/serviceimport.go`).
//!
//! Slices are optional. Since 2026, KEP-1645 has the field `status.endpointSliceObjects`, by which an implementation says
//! whether they are `Present` or `Absent` in this cluster. Older implementations and definitions do not have it. It only
//! explains why there are no slices: slices that exist are read, whatever it says.
//!
//! | | Cilium | Submariner |
//! |---|---|---|
//! | source | cilium/cilium, `pkg/clustermesh/mcsapi` and `endpointslicesync` | submariner-io/lighthouse, `pkg/agent/controller` |
//! | ServiceImport | labels and annotations of the oldest export; `spec.ips` are the cluster IPs of the Service `derived-…`, which has the label of the slices, too | no labels; `spec.ips` is empty, unless ClusterSet IPs are enabled |
//! | slices of a headless service | for each cluster and family, at most 100 endpoints each; managed by `endpointslice-mesh-controller.cilium.io` (remote) or `endpointslice-local-mcsapi-controller.cilium.io` (this cluster, with endpoints that are not ready) | for each slice of the exported Service; managed by `lighthouse-agent.submariner.io`; annotation `lighthouse.submariner.io/publish-not-ready-addresses` |
//! | slices of a service with a cluster IP | none of other clusters by default | one for each cluster and family: its cluster IP, ready if the Service has a ready endpoint |
//! | objects for its own use | none | ServiceImports for each cluster, and objects of the broker, marked by `lighthouse.submariner.io/sourceNamespace` or `multicluster.kubernetes.io/service-name`; copies of slices, whose `sourceNamespace` is another namespace |
//!
//! The option `multicluster` of CoreDNS' plugin `kubernetes` reads the same objects (coredns/coredns,
//! `plugin/kubernetes`): ServiceImports of v1alpha1, and slices by their two labels. GKE's own API group is not read.

use super::fields::{list_of_ports, service_key, undecodable, usable_addresses};
use super::slice::endpoints;
use super::watch::controller;
use super::{
    ClusterName, ClusterSet, Clusters, Few, ImportEndpoints, Item, ItemKind, KubeObject, Problem,
    ProblemKind, Settings, Slice, SliceContent, SliceObjects, key,
};

/// Reads a ServiceImport: a service that at least one cluster exports.
pub(super) fn read_import(import: &KubeObject<'_>) -> Result<Item, Problem> {
    is_for_clients(import, &[key::SUBMARINER_NAMESPACE, key::MCS_SERVICE])?;
    let body = import.import_body().map_err(undecodable)?;
    let spec = &body.spec;
    let ips = usable_addresses(spec.ips.as_deref().unwrap_or_default())?;
    let (kind, addresses) = match spec.kind.as_deref() {
        Some("Headless") => {
            let slices = match body.slice_objects() {
                Some("Absent") => SliceObjects::Absent,
                // The specification may get further values.
                Some(_) | None => SliceObjects::Expected,
            };
            (ItemKind::HeadlessImport(slices), Few::default())
        }
        Some("ClusterSetIP") => (ItemKind::ClusterSetImport, ips),
        other => {
            let detail = format!(
                "type is '{}', neither ClusterSetIP nor Headless",
                other.unwrap_or_default()
            );
            return Err(Problem::new(ProblemKind::Undecodable, detail));
        }
    };
    let mut names: Vec<ClusterName> = body
        .clusters()
        .filter_map(|name| ClusterName::interned(name).ok())
        .collect();
    names.sort();
    names.dedup();
    let clusters = ClusterSet {
        names: names.into(),
        has_own: false,
    };
    Ok(Item {
        kind,
        service: service_key(import, import.name())?,
        clusters: Clusters::Several(Box::new(clusters)),
        host: None,
        addresses,
        ports: list_of_ports(spec.ports.as_ref()),
        settings: Settings::of_mirror(import).if_any(),
        created: import.created(),
    })
}

/// Reads a slice of a ServiceImport. A slice whose cluster is unknown has no endpoints. Kubernetes marks the endpoints of
/// a Service with `publishNotReadyAddresses` as ready; Submariner has an annotation for slices of other controllers.
pub(super) fn read_slice(slice: &KubeObject<'_>) -> Result<Slice, Problem> {
    is_for_clients(slice, &[])?;
    let body = slice.slice_body().map_err(undecodable)?;
    let name = slice.label(key::MCS_SERVICE).unwrap_or_default();
    let service = service_key(slice, name)?;
    let mut listed = endpoints(&body)?;
    let label = slice.label(key::SOURCE_CLUSTER);
    let cluster = label.and_then(|name| ClusterName::interned(name).ok());
    if slice.annotation(key::PUBLISH_NOT_READY) == Some("true") {
        let endpoints = listed.endpoints.iter_mut();
        endpoints.for_each(|endpoint| endpoint.ready = true);
    }
    if cluster.is_none() {
        listed.endpoints = Box::default();
        listed.left_out = [bad_cluster(label)].into();
    }
    Ok(Slice {
        owner: service.service.text().clone(),
        content: SliceContent::Import(Box::new(ImportEndpoints {
            service,
            cluster,
            is_from_submariner: slice.label(key::MANAGED_BY) == Some(controller::LIGHTHOUSE),
            listed,
        })),
    })
}

/// Returns the skip of a slice whose cluster is unknown.
fn bad_cluster(label: Option<&str>) -> Problem {
    let detail = match label {
        None => format!("label {} is missing", key::SOURCE_CLUSTER),
        Some(value) => format!(
            "label {} is '{value}', which is not a DNS label",
            key::SOURCE_CLUSTER
        ),
    };
    Problem::new(ProblemKind::BadName, detail)
}

/// Rejects the objects that an implementation keeps for its own use. Submariner has ServiceImports in a namespace of its
/// own, one for each cluster or service, and copies of slices. A label or an annotation names the exported Service.
fn is_for_clients(object: &KubeObject<'_>, internal: &[&str]) -> Result<(), Problem> {
    let mark = |key: &&str| {
        object
            .label(key)
            .or_else(|| object.annotation(key))
            .is_some()
    };
    if let Some(key) = internal.iter().copied().find(mark) {
        let detail = format!("{key} marks an object that Submariner keeps for its own use");
        return Err(Problem::new(ProblemKind::Internal, detail));
    }
    let own = object.namespace();
    match object.label(key::SUBMARINER_NAMESPACE) {
        Some(named) if named != own => Err(Problem::new(
            ProblemKind::Internal,
            format!(
                "label {} names namespace '{named}', but the object is in '{own}'",
                key::SUBMARINER_NAMESPACE
            ),
        )),
        Some(_) | None => Ok(()),
    }
}
