//! A [`Service`] of the table, and the rules that concern one name of it.

use super::endpoint::Endpoint;
use super::failover::Failover;
use super::gate::Gate;
use super::kind::ServiceKind;
use super::missing::MissingHost;
use super::own_name::{NameAddresses, SharedPort};
use super::times::{self, Times};
use crate::model::{
    ClusterName, GatewayDown, Hostname, Line, ObjectRef, Problem, ServiceKey, Timestamp,
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
    /// The addresses of its own name. They are computed in advance, because that name is queried most.
    pub name_addresses: NameAddresses,
    /// The ports of its cluster IPs, each once. Zones with the grammar `mcs` have one SRV record for each (rule K9). Empty
    /// without such a zone.
    pub shared_ports: Box<[SharedPort]>,
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
    /// without a flag.
    pub is_headless: bool,
    /// Its problems, sorted.
    pub problems: Box<[Problem]>,
    /// Since when its facts hold.
    pub(super) times: Times,
}

/// The reason for which the own name of a service fails (rules K5, K8). Names of its clusters and endpoints do not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameFailure {
    /// Expected clusters are missing.
    ExpectedClustersMissing,
    /// The step of the failover order that answers has no endpoint.
    StepWithoutEndpoint,
}

// === impl NameFailure ===

impl NameFailure {
    /// Returns the reason as part of a sentence, and for clients (RFC 8914, EXTRA-TEXT).
    pub fn reason(self) -> &'static str {
        match self {
            Self::ExpectedClustersMissing => "expected clusters are missing",
            Self::StepWithoutEndpoint => "the failover step that answers has no endpoint",
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
            name_addresses: NameAddresses::default(),
            shared_ports: Box::default(),
            not_ready: Box::default(),
            mirrors: Box::default(),
            federated: Box::default(),
            has_member: false,
            missing: Box::default(),
            is_known: false,
            is_headless: false,
            problems: Box::default(),
            times: Times::default(),
        }
    }

    /// Returns the endpoints of one cluster.
    pub fn in_cluster(&self, cluster: &str) -> &[Endpoint] {
        let start = self
            .endpoints
            .partition_point(|e| e.cluster.as_ref().map(ClusterName::as_str) < Some(cluster));
        let rest = &self.endpoints[start..];
        &rest[..rest.partition_point(|e| {
            e.cluster
                .as_ref()
                .is_some_and(|own| own.as_str() == cluster)
        })]
    }

    /// Returns the endpoints of one host: one or none.
    pub fn at_host(&self, cluster: &str, hostname: &str) -> &[Endpoint] {
        let endpoints = self.in_cluster(cluster);
        let host = |e: &Endpoint| {
            e.hostname
                .as_ref()
                .map(Hostname::as_str)
                .cmp(&Some(hostname))
        };
        let start = endpoints.partition_point(|e| host(e).is_lt());
        let rest = &endpoints[start..];
        &rest[..rest.partition_point(|e| host(e).is_eq())]
    }

    /// Returns the time since which an endpoint of the service is down or not ready, as far as this process knows.
    pub fn since(&self, endpoint: &Endpoint) -> Option<Timestamp> {
        self.times.get(times::hash_endpoint(endpoint))
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
        !self.endpoints.is_empty() || self.failure.is_some()
    }

    /// Returns whether names exist at or below some labels before the name of the service: none, `C`, or `H.C`.
    pub(super) fn has_names_at(&self, scope: &[&str]) -> bool {
        match scope {
            [] => self.has_names(),
            [cluster] => !self.in_cluster(cluster).is_empty(),
            [host, cluster] => !self.at_host(cluster, host).is_empty(),
            _ => false,
        }
    }

    /// Returns the clusters that it has mirrors, endpoints or members in. A cluster may occur several times.
    pub fn all_clusters(&self) -> impl Iterator<Item = &ClusterName> {
        let mirrors = self.mirrors.iter().map(|(cluster, _)| cluster);
        mirrors.chain(self.clusters()).chain(&*self.federated)
    }

    /// Returns the clusters that have endpoints, sorted.
    pub fn clusters(&self) -> impl Iterator<Item = &ClusterName> {
        let mut rest = &self.endpoints[..];
        let first_of_next = move || {
            let first = rest.first()?;
            rest = &rest[rest.partition_point(|e| e.cluster == first.cluster)..];
            Some(first)
        };
        std::iter::from_fn(first_of_next).filter_map(|first| first.cluster.as_ref())
    }
}
