//! The check of gateways. An endpoint can be dead for two reasons: the gateway of its cluster is down, or the exported
//! Service has no ready endpoint there.
//!
//! A mirror with a cluster IP shows the difference: Linkerd keeps its EndpointSlice if the gateway is down, with no
//! ready address, and removes it if nothing is ready in the other cluster. An endpoint mirror stands for one pod, and
//! is dead only if the gateway is down.

use std::collections::{BTreeMap, BTreeSet};

use super::mirrors::mirror_endpoints;
use super::objects::MirrorSlice;
use super::{Check, Fact, Finding, count, list_some};
use crate::model::ClusterName;
use crate::table::{Endpoint, Service, ServiceKind, Table};

/// Why an endpoint is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    /// The gateway of the cluster is down.
    Gateway,
    /// Nothing is ready in the other cluster.
    NothingReady,
    /// One of the two: the slices could not be read.
    Unknown,
}

/// The dead endpoints of one cluster with one cause.
#[derive(Debug, Default)]
struct Dead {
    endpoints: usize,
    objects: BTreeSet<String>,
}

pub(super) fn check(table: &Fact<Table>, slices: &Fact<Vec<MirrorSlice>>) -> Vec<Finding> {
    match table {
        Ok(table) => check_table(table, slices),
        Err(reason) => vec![Check::Gateways.not_checked("gateways", reason)],
    }
}

fn check_table(table: &Table, slices: &Fact<Vec<MirrorSlice>>) -> Vec<Finding> {
    let all = count_endpoints(table);
    let dead = dead_endpoints(table, slices);
    let findings = [Cause::Gateway, Cause::NothingReady, Cause::Unknown].into_iter();
    let findings = findings.filter_map(|cause| {
        let own = dead.iter().filter(|((own, _), _)| *own == cause);
        let own = own.map(|((_, cluster), dead)| (*cluster, dead, all[*cluster]));
        let own: Vec<(&ClusterName, &Dead, usize)> = own.collect();
        (!own.is_empty()).then(|| cause.finding(&own))
    });
    let findings: Vec<Finding> = findings.collect();
    match (findings.is_empty(), all.is_empty()) {
        (false, _) => findings,
        (true, true) => vec![Check::Gateways.green("there are no gateways")],
        (true, false) => vec![Check::Gateways.green("no gateway is down")],
    }
}

impl Cause {
    /// Returns the cause of a dead endpoint.
    fn of(service: &Service, endpoint: &Endpoint, slices: &Fact<Vec<MirrorSlice>>) -> Self {
        let slices = match (endpoint.kind, slices) {
            (ServiceKind::Gateway, Ok(slices)) => slices,
            (ServiceKind::Gateway, Err(_)) => return Self::Unknown,
            (
                ServiceKind::Headless
                | ServiceKind::Federated
                | ServiceKind::Flat
                | ServiceKind::Local
                | ServiceKind::Import,
                _,
            ) => return Self::Gateway,
        };
        let namespace = service.key.namespace.as_str();
        let mut objects = endpoint.object_refs(&service.key.namespace);
        let has_slice = objects.any(|object| {
            let name = object.key.name.to_string();
            let mut slices = slices.iter();
            slices.any(|slice| slice.namespace == namespace && slice.service == name)
        });
        if has_slice {
            Self::Gateway
        } else {
            Self::NothingReady
        }
    }

    /// Makes the finding of the dead endpoints with this cause, by cluster with the number of all endpoints.
    fn finding(self, dead: &[(&ClusterName, &Dead, usize)]) -> Finding {
        let clusters = dead.iter().map(|(cluster, dead, all)| {
            let all = count(*all, "endpoint");
            format!("cluster '{cluster}' ({} of {all})", dead.endpoints)
        });
        let objects = || dead.iter().flat_map(|(_, dead, _)| &dead.objects);
        match self {
            Self::Gateway => Check::Gateways.yellow(
                format!("gateway down: {}", list_some(clusters)),
                "check the gateway in the other cluster and the network to it (linkerd multicluster gateways); --gateway-down \
                 decides the answers meanwhile",
            ),
            Self::NothingReady => Check::Gateways.yellow(
                format!("no endpoint is ready in the other cluster: {}", list_some(objects())),
                "the exported Service may be scaled to zero: check its pods in the other cluster; --gateway-down decides the \
                 answers meanwhile",
            ),
            Self::Unknown => Check::Gateways.yellow(
                format!(
                    "gateway down, or no endpoint is ready in the other cluster: {}",
                    list_some(objects())
                ),
                "EndpointSlices show which of the two, but could not be listed; check the gateway (linkerd multicluster \
                 gateways), and the pods in the other cluster",
            ),
        }
    }
}

/// Counts the endpoints of each cluster.
fn count_endpoints(table: &Table) -> BTreeMap<&ClusterName, usize> {
    let mut clusters = BTreeMap::new();
    for cluster in mirror_endpoints(table).filter_map(|endpoint| endpoint.cluster.as_ref()) {
        *clusters.entry(cluster).or_default() += 1;
    }
    clusters
}

/// Returns the dead endpoints, by cause and cluster.
fn dead_endpoints<'t>(
    table: &'t Table,
    slices: &Fact<Vec<MirrorSlice>>,
) -> BTreeMap<(Cause, &'t ClusterName), Dead> {
    let mut found: BTreeMap<_, Dead> = BTreeMap::new();
    for service in table.services() {
        let endpoints = service.endpoints.iter();
        let dead = endpoints.filter(|one| !one.alive && one.kind.is_mirrored());
        for endpoint in dead {
            let Some(cluster) = &endpoint.cluster else {
                continue; // a federated service is always alive
            };
            let cause = Cause::of(service, endpoint, slices);
            let entry = found.entry((cause, cluster)).or_default();
            entry.endpoints += 1;
            let objects = endpoint.object_refs(&service.key.namespace);
            entry
                .objects
                .extend(objects.map(|object| object.to_string()));
        }
    }
    found
}
