//! The [`Table`] of services, the step that builds it from objects, and the swap that makes it current.
//!
//! ```text
//! watch events → store → build → Table → publish
//! ```
//!
//! The table holds services, not names. [`zone::read`](crate::zone::read()) maps the labels of a question to a
//! [`Service`]. Memory therefore grows with the number of endpoints, not with endpoints × names × ports. A table is
//! immutable. [`build`](build::build) makes the next table and shares every service that did not change. The table
//! depends neither on a Kubernetes client nor on a DNS library.
//!
//! # Rules of membership
//!
//! An endpoint has a cluster, a hostname, addresses, ports, and a liveness. All of them come from objects that Linkerd
//! 2.11 and later write. The code refers to these rules by number.
//!
//! | rule | text | tested in |
//! |---|---|---|
//! | M1 | An endpoint mirror represents a remote endpoint. It is a Service with label `mirror.linkerd.io/headless-mirror-svc-name`. Its cluster is label `mirror.linkerd.io/cluster-name`. Its hostname and service come from annotation `mirror.linkerd.io/remote-svc-fq-name`. Its addresses are `spec.clusterIPs`, and its ports are `spec.ports[].port`. The namespace is always `metadata.namespace`. If the annotation names another namespace, the object is skipped, so that no object can add endpoints to a service of another namespace. The slices of the headless mirror give no endpoint, except by rule M1b: they contain the port of the remote pod and stay not ready after a gateway has recovered. | `src/model/parse/tests.rs`, `src/table/build/tests.rs`, `src/zone/tests/namespaces.rs` |
//! | M2 | An endpoint mirror needs a parent: the headless mirror that its label names. The parent is in the same namespace, has `clusterIP: None`, and has the same cluster and service. An endpoint mirror without a parent is skipped. | `src/table/build/tests.rs` |
//! | M3 | An endpoint is alive if one of its own EndpointSlices has a ready gateway address. Without a slice, or with slices without endpoints, it is alive. | `src/table/build/tests.rs`, `tests/integration/members/gateways.rs` |
//! | M4 | If a gateway is down, its endpoints are omitted. If all endpoints of a name are down, all are returned. This is decided once for each owner name, not for each record type. A `_P._R.` form has the endpoints of its name; if none of them has the port, it returns those that are down. `--gateway-down`, and annotation `global-dns/gateway-down` on the Service of this cluster (K6), change the rule: `include` omits none, `exclude` omits all. The name of one endpoint, `H.C.S.N.Z` or the `C.S.N.Z` of a cluster IP, is never emptied. | `src/zone/tests/edges.rs`, `tests/integration/members/gateways.rs` |
//! | M5 | A headless Service of this cluster is a member of the service with its name if it is exported, if it has an annotation of this server, or if a mirror of its name and namespace exists, of any kind (`--local-members`). One that is a member only because of a mirror leaves with the last mirror, and a note says so before. Its endpoints are the ready endpoints of all its slices. Its ports are those of the slices. Services without a selector count, too. | `tests/integration/members/local_members.rs` |
//! | M6 | A cluster has one name. `--cluster-name` names this cluster. The label names another cluster, and `--cluster-alias` can change that name. If two sources have one name, their endpoints are merged and a conflict is reported. | `tests/integration/members/clusters.rs` |
//! | M7 | The annotation of M1 gives the names. If it is absent, the exact suffix `-CLUSTER` is removed from the object's name once. If the name has no such suffix, the object is skipped. | `src/model/parse/tests.rs` |
//! | M8 | An update may change which service or endpoint an object mirrors. The object then moves to that service, and a conflict is reported, because two Links write one object. | `src/table/build/tests.rs` |
//! | M9 | An object that cannot be used is skipped with a [reason](crate::model::ProblemKind), counted, and shown by `explain`. It never stops a watch. An endpoint is also skipped if its name exceeds the limits of DNS. | `src/model/parse/tests.rs`, `src/table/tests.rs`, `tests/integration/file_source/errors.rs` |
//!
//! # Kinds of services
//!
//! M1 to M9 are the rules of headless services. Services of other kinds have cluster IPs. All decisions follow from the
//! objects of this moment. A process remembers only the timers of failovers (K7), and for ten seconds the settings of a
//! Service that is gone (K6).
//!
//! | kind | recognized by | endpoints | alive |
//! |---|---|---|---|
//! | `headless` | M1, M2 | one for each remote pod, `H.C.S.N.Z` | M3 |
//! | `gateway` | a mirror with a cluster IP and a cluster name | one for each cluster, `C.S.N.Z`: `spec.clusterIPs` | one of its own EndpointSlices has a ready address. Without a slice, the exported Service has no ready endpoint |
//! | `flat` | label `multicluster.linkerd.io/remote-discovery` | as `gateway` | always: the mesh finds the pods |
//! | `federated` | a mirror without a cluster name, with annotation `multicluster.linkerd.io/remote-discovery` or `…/local-discovery` | one address, which belongs to no cluster | always |
//! | `local` | M5; with a cluster IP, an exported Service | pods of a headless Service; `spec.clusterIPs` | one of its slices has a ready endpoint |
//! | `import` | `--mcs`: a ServiceImport of the Multi-Cluster Services API (KEP-1645) and its EndpointSlices with label `multicluster.kubernetes.io/service-name` | type `Headless`: one for each ready endpoint of the slices, `H.C.S.N.Z`; type `ClusterSetIP`: `spec.ips`, which belong to no cluster; if there are none, the cluster IPs in the slices of Submariner, one for each cluster | always; a cluster IP of Submariner: if it is ready |
//!
//! An object with label `multicluster.kubernetes.io/service-name` belongs to the Multi-Cluster Services API, also if it has
//! labels of Linkerd: an implementation may copy labels of the exported Service to it. Such a Service is skipped as
//! `internal`, and its slices are those of the ServiceImport.
//!
//! | rule | | tested in |
//! |---|---|---|
//! | M1b | A pod with an exported Service of its own has no endpoint mirror. The headless mirror lists the address of that Service's mirror under the hostname of the pod. It is an endpoint with that hostname. | `src/zone/tests/kinds.rs` |
//! | K1 | Each cluster is answered by its best candidate. A newcomer adds its own cluster and takes none away. A *candidate* is what one kind offers for a set of clusters: a headless mirror its pods (only with an endpoint), a mirror with a cluster IP its address, the Service of this cluster its pods or its address (M5; with a cluster IP only if it is exported), a federated service one address for the clusters that its annotations name, a headless ServiceImport the pods of each source cluster, a ServiceImport with a ClusterSetIP one address for the clusters of its status. An address that names no cluster counts as a cluster of its own. For each cluster, the first of these answers: pods, federated, cluster IP (gateway, flat, or of this cluster), import. In a zone with the profile `mcs`, import is the first (K9). Equal ranks unite. With a failover order, candidates for several clusters are left out before (K5). `S.N.Z` is the union of the chosen candidates, each address once. A name with several kinds has a note. Candidates that are not chosen keep the names of their cluster, except a ServiceImport beside mirrors. | `src/zone/tests/kinds.rs`, `src/zone/tests/imports.rs` |
//! | K2 | The target of an SRV record of a cluster IP is `C.S.N.Z`, and of a federated service `S.N.Z`. Its port is the one of `spec.ports`. | `src/zone/tests/kinds.rs` |
//! | K3 | Namespace, service and cluster follow M1. Labels of a flat mirror that disagree with them: the object is skipped. The name of a federated service is `metadata.name` without the suffix `-federated`. | `src/model/parse/tests.rs` |
//! | K4 | An object may change its kind in place, and a service its kind in one cluster only. A mirror may exist for some milliseconds before its slice, and may be deleted and added again with another address within milliseconds. | `tests/recordings` (25, 28) |
//! | K9 | A zone with the profile `mcs` has the names of KEP-1645 and no others (see [`zone`](crate::zone)). A ServiceImport is the first candidate of its clusters there (K1), and candidates that are not chosen have no names. Services of this cluster that are not exported do not join. The target of an SRV record of a cluster IP is the name of the service, and equal records occur once. | `src/zone/tests/imports.rs`, `tests/conformance/kep1645.rs` |
//!
//! # Failover and expected clusters
//!
//! These rules apply to `S.N.Z`, its short name and their `_P._R.` forms, after K1. Names of a cluster or an endpoint are not
//! affected.
//!
//! | rule | | tested in |
//! |---|---|---|
//! | K5 | A failover order has steps, separated by `:`: a cluster (its name after aliases), several joined by `+`, `local` (always this cluster), or `*` (all clusters that no step names), such as `local:east+west:*`. Spaces are ignored, `,` means `:`, and upper case is lower case. A name that is empty or cannot be read keeps its place, as a cluster without endpoints, and is an error; at the end of the order, an empty one is ignored. The order acts after K1 and K8 and before M4, which acts within the step; `include` chooses steps as `last-resort` does. Steps never answer together. If the chosen step has no endpoint, or `exclude` empties it, the name fails with SERVFAIL. If only candidates for several clusters exist, the name of a service with pods fails; for other services, the order does not apply, which is an error. | `src/model/failover_order.rs`, `src/zone/tests/failover.rs`, `tests/integration/members/failover_orders.rs` |
//! | K5a | Who decides that another step answers: annotation `global-dns/failover-mode` or `--failover-mode`. `hold`: a person. The first step answers, alive or not, and no other takes over. `auto`: the liveness. The first step with an endpoint that is alive answers; if there is none, the first step with endpoints. Without a setting: `hold` for a service with pods, `auto` for others, and a warning. A service has pods if this cluster has a headless Service of its name with a selector or an endpoint, or if a cluster that the order names (`*` names none) has a headless mirror or import of it, with or without endpoints. A step in a flat network is always alive; a warning says that no step after it is reached. | – |
//! | K6 | This cluster decides, never a mirror. Failover, its mode, expected clusters and the rule for gateways come from the first of these that is present, even if it is empty: the annotation on the Service of this cluster with that name (of any type and without any label, but neither a mirror nor derived by MCS), the flag for `NAMESPACE/SERVICE`, the flag for all services (`--failover ORDER` applies only to services without pods). A Service without endpoints is no candidate. Annotations of mirrors are ignored, except that `global-dns/ttl` of a mirror may lower the TTL. The settings of a Service that is deleted apply for ten more seconds, so that a Service that is replaced changes no answer. A setting that is removed from a Service ends at once. | `tests/integration/members/failover_orders.rs`, `tests/integration/members/ttls.rs`, `src/table/tests.rs` |
//! | K7 | Delays of orders in mode `auto`. A step that is down, with endpoints of which none is alive, answers for `--failover-delay` before it is left, except at the first table, and except with `exclude`, under which it has no address. A step without endpoints is left at once, and answers again at once if it has one within that time. An earlier step that was left answers again when it has been alive for `--failback-delay`; interruptions shorter than `--failover-delay` do not count, and there is no wait if the step that answers is not alive. An order that changes takes effect at once. The next timers are a pure function of the timers, the health of the steps, and the time. | `src/table/failover/tests.rs` |
//! | K8 | Clusters that a service expects during its bootstrap: annotation `global-dns/expected-clusters` on the Service of this cluster, or `--expected-clusters`. For `--bootstrap-window` after that Service was created, or after the time of annotation `global-dns/expected-since`, questions for A, AAAA, SRV and ANY at the name fail unless each of these clusters has an endpoint here, alive or not. Zero: until the setting is removed. A federated service counts the clusters of its members, and a ServiceImport with one address those of its status. A name that cannot be read is a missing cluster. After the window, the setting has no effect: a note says so, or a warning if a cluster is missing. Without a Service of this cluster, the flag does nothing and warns. | `src/model/expected_clusters.rs`, `src/table/gate/tests.rs`, `src/zone/tests/failover.rs` |
//!
//! `tests/recordings` replays events of Linkerd's mirror controller against all rules.

pub mod build;
mod candidates;
pub mod change;
mod cluster_ip;
pub mod difference;
mod endpoint;
pub mod failover;
pub mod gate;
mod hash;
mod headless;
mod import;
mod index;
mod items;
mod kind;
mod lists;
mod local;
mod members;
mod merge;
mod missing;
mod own_name;
mod problems;
pub mod publish;
mod rules;
pub(crate) mod services;
mod settings;
pub mod shared;
mod short;
pub mod store;
pub mod timers;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use rpds::RedBlackTreeSetSync;

use crate::model::{
    ClusterName, GatewayDown, Hostname, Line, Namespace, ObjectRef, Problem, ServiceKey,
    ServiceName,
};

pub use build::{Built, build};
pub use endpoint::{Address, Duplicate, Endpoint};
use failover::{Failover, Order};
use gate::Gate;
use index::{HostKey, Index};
pub use kind::{Profile, ServiceKind, list_clusters};
use local::NonMember;
pub use missing::MissingHost;
pub use own_name::{NameAddresses, SharedPort};
pub use problems::DEFAULT_CLUSTER_NAME;
pub use publish::{Published, Publisher};
pub use rules::{ChildZone, LocalMembers, Rules, ShortNames};
pub use services::Services;
use shared::SharedMap;
pub use short::{NoOwner, ShortName};
use store::Skipped;
pub use store::Store;
pub use timers::Timers;

/// All that is served at one time. A clone is cheap, because it shares its content with the original.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The services as zones with the names of this server answer them.
    global: Services,
    /// The services as zones with the profile `mcs` answer them, if there is such a zone. Services that both profiles answer
    /// alike are shared.
    cluster_set: Option<Services>,
    short_names: SharedMap<ServiceName, Arc<ShortName>>,
    /// Headless Services of this cluster that are not members. Their endpoints are not served.
    non_members: SharedMap<ServiceKey, NonMember>,
    skipped: Skipped,
    /// Empty unless there is a reverse zone.
    addresses: Index<IpAddr>,
    /// The services whose names wait for expected clusters (rule K8).
    awaiting: RedBlackTreeSetSync<ServiceKey>,
    /// Services by the hosts that their headless mirrors list and that have no endpoint mirror (rule M1b).
    listed_hosts: Index<HostKey>,
    /// Problems of names, which concern several services.
    name_problems: Arc<BTreeMap<NameScope, Vec<Problem>>>,
}

/// The names that a list of problems concerns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NameScope {
    /// The names of the zone itself.
    Zone,
    /// A short name.
    ShortName(ServiceName),
    /// Canonical names in a namespace.
    Namespace(Namespace),
}

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
    /// An order that does not apply, because the name returns an address that belongs to no single cluster (rule K5).
    pub unused_order: Option<Box<Order>>,
    /// The expected clusters, if there are any (rule K8).
    pub gate: Option<Box<Gate>>,
    /// TTL of the records, seconds.
    pub ttl: u32,
    /// The treatment of endpoints with a gateway that is down (rule M4).
    pub gateway_down: GatewayDown,
    /// Endpoints that can be returned, sorted by cluster and hostname. Each pair of both is unique.
    pub endpoints: Box<[Endpoint]>,
    /// The addresses of its own name. They are computed in advance, because that name is queried most.
    pub name_addresses: NameAddresses,
    /// The ports of its cluster IPs, each once. Zones with the profile `mcs` have one SRV record for each (rule K9). Empty
    /// without such a zone.
    pub shared_ports: Box<[SharedPort]>,
    /// Local endpoints that are not ready. They are never returned, and appear in reports only.
    pub not_ready: Box<[Endpoint]>,
    /// The headless mirrors of the service, with their clusters.
    pub mirrors: Box<[(ClusterName, ObjectRef)]>,
    /// The clusters of federated services, and of a ServiceImport with one address for all clusters, sorted.
    pub federated: Box<[ClusterName]>,
    /// Hosts that a headless mirror lists and that have no endpoint mirror.
    pub missing: Box<[MissingHost]>,
    /// Whether a mirror, a ServiceImport or a member of this cluster exists. Such a service keeps its names, even if it has
    /// no endpoints. Without any of these, it is here for its settings or for skipped objects, and hides no name of another
    /// service.
    pub is_known: bool,
    /// Whether a headless mirror or a headless member of this cluster exists. Such a service claims its short name
    /// without a flag.
    pub is_headless: bool,
    /// The problems that the build found, sorted. [`Self::problems()`] adds those of its state.
    pub problems: Box<[Problem]>,
}

/// The reason for which the own name of a service fails (rules K5, K8). Names of its clusters and endpoints do not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameFailure {
    /// Expected clusters are missing.
    AwaitedClusters,
    /// The step of the failover order that answers has no endpoint, or its endpoints are down and `exclude` omits them.
    StepWithoutEndpoint,
}

// === impl NameFailure ===

impl NameFailure {
    /// Returns the reason as part of a sentence, and for clients (RFC 8914, EXTRA-TEXT).
    pub fn reason(self) -> &'static str {
        match self {
            Self::AwaitedClusters => "expected clusters are missing",
            Self::StepWithoutEndpoint => "the failover step that answers has no endpoint",
        }
    }
}

// === impl Table ===

impl Table {
    /// Returns the services as zones with a profile answer them (rule K9).
    pub fn of(&self, profile: Profile) -> &Services {
        match (profile, &self.cluster_set) {
            (Profile::ClusterSet, Some(services)) => services,
            (Profile::ClusterSet, None) | (Profile::Global, _) => &self.global,
        }
    }

    /// Returns a service as zones with the names of this server answer it.
    pub fn service(&self, namespace: &str, service: &str) -> Option<&Service> {
        self.global.service(namespace, service)
    }

    /// Returns the service that owns a short name.
    pub fn short_service(&self, service: &str) -> Option<&Service> {
        let owner = self.short_name(service)?.owner.as_ref().ok()?;
        self.service(owner.as_str(), service)
    }

    /// Returns the owner and the claimants of a short name, if a namespace has the service.
    pub fn short_name(&self, service: &str) -> Option<&ShortName> {
        self.short_names.get(service).map(AsRef::as_ref)
    }

    /// Returns a hash of all answers. Tables with the same answers have the same hash, in every process and in every
    /// build. The hash has 53 bits, so that a floating-point number represents it exactly.
    pub fn answers_hash(&self) -> u64 {
        hash::hash_answers(self)
    }

    /// Returns the services that have an endpoint with this address.
    pub fn services_at(&self, address: IpAddr) -> Option<&BTreeSet<ServiceKey>> {
        self.addresses.get(&address).map(AsRef::as_ref)
    }

    /// Returns the addresses of endpoints within a range.
    pub fn addresses_in(&self, range: RangeInclusive<IpAddr>) -> impl Iterator<Item = IpAddr> {
        self.addresses.range(range).map(|(address, _)| *address)
    }

    /// Returns whether an endpoint has an address within a range.
    pub fn has_address_in(&self, range: RangeInclusive<IpAddr>) -> bool {
        self.addresses_in(range).next().is_some()
    }

    /// Returns all services, including those without endpoints, in no particular order.
    pub fn services(&self) -> impl Iterator<Item = &Service> {
        self.global.iter()
    }

    /// Returns all services, including those without endpoints, sorted by namespace and name.
    pub fn sorted_services(&self) -> Vec<&Service> {
        self.global.sorted()
    }
}

// === impl GatewayDown ===

impl GatewayDown {
    /// Decides for an owner name whether endpoints with a gateway that is down are included (rule M4).
    ///
    /// `covered` are the endpoints that the name stands for. The name of one endpoint is never emptied.
    pub fn includes_down<'e>(
        self,
        is_endpoint: bool,
        mut covered: impl Iterator<Item = &'e Endpoint>,
    ) -> bool {
        match self {
            Self::Include => true,
            Self::Exclude if !is_endpoint => false,
            Self::Exclude | Self::LastResort => !covered.any(|endpoint| endpoint.alive),
        }
    }
}

/// Returns whether the name of a cluster with these endpoints is also the name of one of them: of a cluster IP, which has no
/// hostname and comes first.
pub fn has_cluster_ip(cluster: &[Endpoint]) -> bool {
    let first = cluster.first();
    first.is_some_and(|first| first.hostname.is_none())
}

// === impl Service ===

impl Service {
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

    /// Returns the endpoint of one host: a slice of length one or zero.
    pub fn at_host(&self, cluster: &str, hostname: &str) -> &[Endpoint] {
        let endpoints = self.in_cluster(cluster);
        match endpoints.binary_search_by(|e| {
            e.hostname
                .as_ref()
                .map(Hostname::as_str)
                .cmp(&Some(hostname))
        }) {
            Ok(index) => &endpoints[index..=index],
            Err(_) => &[],
        }
    }

    /// Returns the expected clusters that its name waits for (rule K8). If there are any, the name fails.
    pub fn awaited(&self) -> &[Line] {
        self.gate.as_ref().map_or(&[], |gate| gate.awaited())
    }

    /// Returns whether reports list the service: it is known, or its name fails.
    pub fn is_listed(&self) -> bool {
        self.is_known || self.failure.is_some()
    }

    /// Returns whether names of the service exist, even if they fail.
    fn has_names(&self) -> bool {
        !self.endpoints.is_empty() || self.failure.is_some()
    }

    /// Returns whether names exist at or below some labels before the name of the service: none, `C`, or `H.C`.
    fn has_names_at(&self, scope: &[&str]) -> bool {
        match scope {
            [] => self.has_names(),
            [cluster] => !self.in_cluster(cluster).is_empty(),
            [host, cluster] => !self.at_host(cluster, host).is_empty(),
            _ => false,
        }
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

#[cfg(test)]
mod tests;
