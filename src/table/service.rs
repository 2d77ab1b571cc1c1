//! A [`Service`] of the table, and the rules that concern one name of it.

use std::cmp::Ordering;
use std::ops::Range;

use super::endpoint::Endpoint;
use super::failover::Failover;
use super::gate::Gate;
use super::kind::ServiceKind;
use super::missing::MissingHost;
use super::name_index::{NameIndex, cluster_ranges};
use crate::model::{
    ClusterName, GatewayDown, Hostname, Line, ObjectRef, Problem, ProblemKind, ServiceKey,
};

/// One service with the endpoints of all its members.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    pub mirrors: Box<[(ClusterName, ObjectRef)]>,
    /// The clusters of federated services, sorted.
    pub federated: Box<[ClusterName]>,
    /// Whether a headless Service of this cluster is a member.
    pub has_member: bool,
    /// Hosts that a headless mirror lists and that have no endpoint mirror.
    pub missing: Box<[MissingHost]>,
    /// Whether a mirror or a member of this cluster exists. Such a service keeps its names, even if it has
    /// no endpoints. Without any of these, it is here for its settings or for skipped objects, and hides no name of another
    /// service.
    pub is_known: bool,
    /// Whether a headless mirror or a headless member of this cluster exists. Such a service claims its short name
    /// without a setting.
    pub is_headless: bool,
    /// Its problems, sorted.
    pub problems: Box<[Problem]>,
}

/// The reason for which the own name of a service fails. Names of its clusters and hosts fail only because of endpoint mirrors
/// that are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameFailure {
    /// Expected clusters are missing.
    ExpectedClustersMissing,
    /// The step of the failover order that answers has no endpoint.
    StepWithoutEndpoint,
    /// Its only endpoints are hosts whose endpoint mirrors are missing: Linkerd deletes and creates them again within half a
    /// second, and a cache would keep an NXDOMAIN.
    EndpointMirrorsMissing,
}

// === impl NameFailure ===

impl NameFailure {
    /// Returns the reason as part of a sentence, and for clients (RFC 8914, EXTRA-TEXT).
    pub fn reason(self) -> &'static str {
        match self {
            Self::ExpectedClustersMissing => "expected clusters are missing",
            Self::StepWithoutEndpoint => "the failover step that answers has no endpoint",
            Self::EndpointMirrorsMissing => "its endpoint mirrors are missing",
        }
    }
}

// === impl Service ===

impl Service {
    /// Makes a service without anything.
    pub(super) fn new(key: ServiceKey) -> Self {
        Self {
            key,
            kind: ServiceKind::Local,
            failure: None,
            failover: None,
            gate: None,
            ttl: 0,
            gateway_down: GatewayDown::default(),
            endpoints: Box::default(),
            names: NameIndex::default(),
            not_ready: Box::default(),
            mirrors: Box::default(),
            federated: Box::default(),
            has_member: false,
            missing: Box::default(),
            is_known: false,
            is_headless: false,
            problems: Box::default(),
        }
    }

    /// Returns the endpoints of one cluster.
    pub fn in_cluster(&self, cluster: &str) -> &[Endpoint] {
        &self.endpoints[self.cluster_range(cluster)]
    }

    /// Returns the indexes of the endpoints of one cluster.
    pub fn cluster_range(&self, cluster: &str) -> Range<usize> {
        self.range(Some(cluster))
    }

    /// Returns the endpoints of one cluster, or those that belong to no single one.
    pub(super) fn of_cluster(&self, cluster: Option<&ClusterName>) -> &[Endpoint] {
        &self.endpoints[self.range(cluster.map(ClusterName::as_str))]
    }

    fn range(&self, cluster: Option<&str>) -> Range<usize> {
        let place = |endpoint: &Endpoint| {
            let own = endpoint.cluster.as_ref().map(ClusterName::as_str);
            own.cmp(&cluster)
        };
        range_of(&self.endpoints, 0..self.endpoints.len(), place)
    }

    /// Returns the endpoints of one host: one or none.
    pub fn at_host(&self, cluster: &str, hostname: &str) -> &[Endpoint] {
        &self.endpoints[self.host_range(cluster, hostname)]
    }

    /// Returns the indexes of the endpoints of one host.
    pub fn host_range(&self, cluster: &str, hostname: &str) -> Range<usize> {
        let place = |endpoint: &Endpoint| {
            let own = endpoint.hostname.as_ref().map(Hostname::as_str);
            own.cmp(&Some(hostname))
        };
        range_of(&self.endpoints, self.cluster_range(cluster), place)
    }

    /// Returns the problem of endpoints of a cluster like this one, if they are down or not ready. Unlinked ones have that of their
    /// cluster.
    pub fn problem_of(&self, endpoint: &Endpoint) -> Option<&Problem> {
        let not_ready = self.not_ready.as_ptr_range();
        let is_ready = !not_ready.contains(&std::ptr::from_ref(endpoint));
        let of_pod = (!is_ready).then_some(ProblemKind::PodNotReady);
        let kind = endpoint.liveness.problem().or(of_pod)?;
        let is_of_pods = kind == ProblemKind::PodNotReady;
        let is_it =
            |one: &&Problem| one.kind == kind && (is_of_pods || one.cluster == endpoint.cluster);
        self.problems.iter().find(is_it)
    }

    /// Returns the expected clusters that its name waits for (rule K8). If there are any, the name fails.
    pub fn missing_clusters(&self) -> &[Line] {
        self.gate
            .as_ref()
            .map_or(&[], |gate| gate.missing_clusters())
    }

    /// Returns whether reports list the service: it is known, or its name fails.
    pub fn is_listed(&self) -> bool {
        self.is_known || self.failure.is_some()
    }

    /// Returns whether names of the service exist, even if they fail.
    pub(super) fn has_names(&self) -> bool {
        !self.endpoints.is_empty() || !self.missing.is_empty() || self.failure.is_some()
    }

    /// Returns the first host without an endpoint mirror at or below some labels before the name of the service: none, `C`, or
    /// `H.C`.
    pub fn missing_at(&self, scope: &[&str]) -> Option<&MissingHost> {
        let (cluster, hostname) = match scope {
            [] => return self.missing.first(),
            [cluster] => (*cluster, ""),
            [hostname, cluster] => (*cluster, *hostname),
            _ => return None,
        };
        let first = self
            .missing
            .partition_point(|host| host.labels() < (cluster, hostname));
        let is_at = |host: &&MissingHost| {
            let (own_cluster, own_hostname) = host.labels();
            own_cluster == cluster && (hostname.is_empty() || own_hostname == hostname)
        };
        self.missing.get(first).filter(is_at)
    }

    /// Returns whether names exist at or below some labels before the name of the service: none, `C`, or `H.C`.
    pub fn has_names_at(&self, scope: &[&str]) -> bool {
        let has_endpoints = match scope {
            [] => self.has_names(),
            [cluster] => !self.in_cluster(cluster).is_empty(),
            [host, cluster] => !self.at_host(cluster, host).is_empty(),
            _ => false,
        };
        has_endpoints || self.missing_at(scope).is_some()
    }

    /// Returns the clusters that it has mirrors, endpoints or members in. A cluster may occur several times.
    pub fn all_clusters(&self) -> impl Iterator<Item = &ClusterName> {
        let mirrors = self.mirrors.iter().map(|(cluster, _)| cluster);
        mirrors.chain(self.clusters()).chain(&*self.federated)
    }

    /// Returns the clusters that have endpoints, sorted.
    pub fn clusters(&self) -> impl Iterator<Item = &ClusterName> {
        cluster_ranges(&self.endpoints)
            .filter_map(|range| self.endpoints[range.start].cluster.as_ref())
    }
}

/// Returns the part of a range of sorted endpoints that compares as equal.
fn range_of(
    endpoints: &[Endpoint],
    range: Range<usize>,
    place: impl Fn(&Endpoint) -> Ordering,
) -> Range<usize> {
    let within = &endpoints[range.clone()];
    let start = range.start + within.partition_point(|endpoint| place(endpoint).is_lt());
    let rest = &endpoints[start..range.end];
    start..start + rest.partition_point(|endpoint| place(endpoint).is_eq())
}
