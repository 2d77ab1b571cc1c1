//! A [`Service`] of the table, and the rules that concern one name of it.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Range;

use strum::Display;

use super::endpoint::{Endpoint, MissingHost, ServiceKind};
use super::failover::{Failover, Gate};
use super::name_index::NameIndex;
use crate::model::{ClusterName, GatewayDown, Line, ObjectKey, Problem, ServiceKey};

/// One service with the endpoints of all its members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Namespace and name.
    pub key: ServiceKey,
    /// The kind of the endpoints of its own name. If they are of several kinds, the first of these (rule K1).
    pub kind: ServiceKind,
    /// Why its own name fails, if it does.
    pub failure: Option<NameFailure>,
    /// The failover order and the step that answers, if the service has an order (rule K5).
    pub failover: Option<Box<Failover>>,
    /// The expected clusters, if there are any (rule K8).
    pub gate: Option<Box<Gate>>,
    /// TTL of the records, seconds.
    pub ttl: u32,
    /// The treatment of endpoints with a gateway that is down (rule M4).
    pub gateway_down: GatewayDown,
    /// Endpoints that can be returned, sorted by cluster and hostname. Each pair is unique.
    pub endpoints: Box<[Endpoint]>,
    /// What its names return.
    pub names: NameIndex,
    /// Local endpoints that are not ready. They are never returned, and appear in reports only.
    pub not_ready: Box<[Endpoint]>,
    /// The headless mirrors of the service, with their clusters.
    pub mirrors: Box<[(ClusterName, ObjectKey)]>,
    /// The clusters of federated services, sorted.
    pub federated: Box<[ClusterName]>,
    /// Hosts that a headless mirror lists and that have no endpoint mirror.
    pub missing: Box<[MissingHost]>,
    /// The services with the names of hosts that a headless mirror lists and that have no endpoint mirror, also of an unlinked
    /// cluster, sorted. Such a service can stand for the host (rule M1b).
    pub hosts: Box<[ServiceKey]>,
    /// Whether a mirror or a member of this cluster exists. Such a service keeps its names, even if it has
    /// no endpoints. Without any of these, it is here for its settings or for skipped objects, and hides no name of another
    /// service.
    pub is_known: bool,
    /// Whether a headless mirror or a headless member of this cluster exists. Such a service claims its short name without a setting.
    pub is_headless: bool,
    /// Whether a headless Service of this cluster has its name, also one that only has settings.
    pub has_headless_own: bool,
    /// Its problems, sorted.
    pub problems: Box<[Problem]>,
    /// The hash of the answers at its names, if it has names.
    pub answers: Option<u64>,
    /// An alias without its sources, if there are zones of one cluster: these have what that cluster calls so.
    pub alone: Option<Box<Self>>,
    /// The clusters in whose own zones it has names.
    pub zone_clusters: Box<[ClusterName]>,
}

/// The reason for which the own name of a service fails. Names of its clusters and hosts fail only because of endpoint mirrors
/// that are missing. The texts are parts of sentences, and for clients (RFC 8914, EXTRA-TEXT).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
pub enum NameFailure {
    /// Expected clusters are missing.
    #[strum(to_string = "expected clusters are missing")]
    ExpectedClustersMissing,
    /// The step of the failover order that answers has no endpoint.
    #[strum(to_string = "the failover step that answers has no endpoint")]
    StepWithoutEndpoint,
    /// Its only endpoints are hosts whose endpoint mirrors are missing: Linkerd deletes and creates them again within half a
    /// second, and a cache would keep an NXDOMAIN.
    #[strum(to_string = "its endpoint mirrors are missing")]
    EndpointMirrorsMissing,
}

// === impl Service ===

impl Service {
    /// Returns the endpoints at or below some labels before the name of the service: none, `C`, or `H.C`. An empty `C` stands for
    /// the address of a federated service.
    pub fn endpoints_at(&self, scope: &[&str]) -> &[Endpoint] {
        &self.endpoints[self.range_at(scope)]
    }

    /// Returns the indexes of these endpoints.
    pub fn range_at(&self, scope: &[&str]) -> Range<usize> {
        range_at(&self.endpoints, Endpoint::labels, scope)
    }

    /// Returns the problem of endpoints of a cluster like this one, if they are down or not ready. Unlinked ones have that of their
    /// cluster.
    pub fn problem_of(&self, endpoint: &Endpoint) -> Option<&Problem> {
        let kind = endpoint.liveness.problem()?;
        self.problems
            .iter()
            .find(|one| one.kind == kind && one.cluster == endpoint.cluster)
    }

    /// Returns the expected clusters that its name waits for (rule K8). If there are any, the name fails.
    pub fn missing_clusters(&self) -> &[Line] {
        let gate = self.gate.as_ref();
        gate.filter(|gate| gate.closes_until.is_some())
            .map_or(&[], |gate| &gate.missing)
    }

    /// Returns whether its names in a cluster fail because its name waits for that cluster (rule K8): a seed that names one cluster or
    /// pod must not be believed absent.
    pub fn awaits(&self, cluster: &str) -> bool {
        self.missing_clusters().iter().any(|one| **one == *cluster)
    }

    /// Returns whether its name should answer: a mirror or a member is usable, an order was written for it, or a gate is closed. Reports
    /// list these services.
    pub fn should_answer(&self) -> bool {
        self.is_known || self.failure.is_some()
    }

    /// Returns the first host without an endpoint mirror at or below some labels before the name of the service: none, `C`, or
    /// `H.C`.
    pub fn missing_at(&self, scope: &[&str]) -> Option<&MissingHost> {
        self.missing[range_at(&self.missing, MissingHost::labels, scope)].first()
    }

    /// Returns whether names exist at or below some labels before the name of the service: none, `C`, or `H.C`.
    pub fn has_names_at(&self, scope: &[&str]) -> bool {
        let fails = match scope {
            [] => self.failure.is_some(),
            [.., cluster] => self.awaits(cluster),
        };
        fails || !self.range_at(scope).is_empty() || self.missing_at(scope).is_some()
    }

    /// Returns the service without the members that an alias adds. Its endpoints in one other cluster are mirrors from there.
    pub fn without_alias(&self) -> &Self {
        self.alone.as_deref().unwrap_or(self)
    }

    /// Returns the clusters in which it has a pod of this name, ready or not.
    pub fn clusters_of_host(&self, host: &str) -> BTreeSet<&str> {
        let mut clusters = BTreeSet::new();
        for endpoint in self.endpoints.iter().chain(&self.not_ready) {
            let [own, cluster] = endpoint.labels();
            if own == host && !host.is_empty() {
                clusters.insert(cluster);
            }
        }
        clusters
    }

    /// Returns the clusters that it has mirrors, endpoints or members in. A cluster may occur several times.
    pub fn all_clusters(&self) -> impl Iterator<Item = &ClusterName> {
        self.mirrors
            .iter()
            .map(|(cluster, _)| cluster)
            .chain(self.clusters())
            .chain(&*self.federated)
    }

    /// Returns the clusters that have endpoints, sorted.
    pub fn clusters(&self) -> impl Iterator<Item = &ClusterName> {
        self.by_cluster().filter_map(|of| of[0].cluster.as_ref())
    }

    /// Returns the endpoints of each cluster, which are not empty.
    pub(super) fn by_cluster(&self) -> impl Iterator<Item = &[Endpoint]> {
        self.endpoints
            .chunk_by(|one, other| one.cluster == other.cluster)
    }
}

/// Returns the indexes of the entries at or below some labels before the name of the service: none, `C`, or `H.C`. The entries
/// have the labels `H` and `C`, and are sorted by `C` and then by `H`.
fn range_at<T>(entries: &[T], labels: fn(&T) -> [&str; 2], scope: &[&str]) -> Range<usize> {
    let (cluster, hostname) = match *scope {
        [] => return 0..entries.len(),
        [cluster] => (cluster, None),
        [hostname, cluster] => (cluster, Some(hostname)),
        _ => return 0..0,
    };
    let place = |entry: &T| {
        let [own_hostname, own_cluster] = labels(entry);
        let by_hostname = || hostname.map_or(Ordering::Equal, |it| own_hostname.cmp(it));
        own_cluster.cmp(cluster).then_with(by_hostname)
    };
    let start = entries.partition_point(|one| place(one).is_lt());
    let rest = &entries[start..];
    start..start + rest.partition_point(|one| place(one).is_eq())
}
