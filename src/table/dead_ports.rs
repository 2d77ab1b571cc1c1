//! Finds the ports of pods that no stream from another cluster reaches.
//!
//! For an endpoint mirror, Linkerd's gateway connects to the pod at the port of the Service, not at its `targetPort`. Mirrors
//! with a cluster IP are not affected.

use std::collections::BTreeSet;

use super::rules::Rules;
use super::store::Store;
use crate::model::{
    ClusterName, Hostname, Item, MAX_LISTED, MirroredHost, ObjectKey, Port, Ports, Problem,
    ProblemKind, Protocol, SliceContent, SliceEndpoint, list_some,
};

/// The TCP ports of a service in one cluster that its pods have under another number, each with that number.
#[derive(Debug, Default)]
pub(super) struct DeadPorts<'p>(BTreeSet<(&'p Port, u16)>);

// === impl DeadPorts ===

impl<'p> DeadPorts<'p> {
    /// Adds the ports of an endpoint mirror. A mirror keeps the ports that it was made with, so that those that the slices of
    /// its headless mirror list for its host are newer.
    pub(super) fn add_mirror(&mut self, mirror: &'p Item, host: &MirroredHost, listed: &[&Ports]) {
        // Most mirrors have the numbers of their pods.
        if !listed.is_empty() && listed.iter().all(|ports| **ports == mirror.ports) {
            return;
        }
        let of_pods = listed.iter().copied().chain([&host.pod_ports]);
        self.add(&mirror.ports, &Vec::from_iter(of_pods));
    }

    /// Adds the ports that have another number in the first list of ports of pods with their name.
    fn add(&mut self, ports: &'p Ports, of_pods: &[&Ports]) {
        for port in ports.iter().filter(|one| one.protocol == Protocol::Tcp) {
            let is_same = |one: &&Port| one.has_same_name(port);
            let mut same = of_pods.iter().flat_map(|ports| ports.iter().find(is_same));
            let of_pod = same.next().filter(|own| own.number != port.number);
            self.0.extend(of_pod.map(|own| (port, own.number)));
        }
    }

    /// Returns the problem of the cluster, if there is a port.
    pub(super) fn problem(self, cluster: &ClusterName) -> Option<Problem> {
        let of_pods = |(port, of_pods): &(&Port, u16)| {
            format!("port {} is {of_pods} in its pods", port.number)
        };
        let ports = list_some(self.0.iter().map(of_pods), MAX_LISTED);
        let problem = Problem::new(
            ProblemKind::DeadPort,
            format!("cluster '{cluster}': {ports}"),
        );
        (!self.0.is_empty()).then(|| problem.of_cluster(cluster))
    }
}

/// Returns the problem that other clusters have, or will have, with a headless Service that this cluster exports. Linkerd makes
/// endpoint mirrors only of pods with a hostname.
pub(super) fn exported_problem(
    object: &ObjectKey,
    item: &Item,
    store: &Store,
    rules: &Rules,
) -> Option<Problem> {
    item.own()
        .filter(|own| own.export.is_through_gateway() && own.is_headless())?;
    let mut dead = DeadPorts::default();
    let has_hostname = |pod: &SliceEndpoint| pod.hostname != Hostname::from_address(pod.address);
    for (_, slice) in store.slices_of(object) {
        if let SliceContent::Endpoints(listed) = &slice.content
            && listed.entries.iter().any(has_hostname)
        {
            dead.add(&item.ports, &[&listed.ports]);
        }
    }
    dead.problem(&rules.cluster_name)
}
