//! What is served: an immutable [`Table`] of services, what it is built from, and the swap that makes it current.
//!
//! ```text
//! watch events → inputs → build → Table → publish
//! ```
//!
//! The table holds *services, not names*: every owner name is a view on a [`Service`], read from the labels of the
//! question by [`zone::read`](crate::zone::read()). So memory follows endpoints, not endpoints × names × ports. A table
//! never changes; [`build`](build::build) makes the next one aside and shares every service that did not change. The
//! table speaks DNS: it knows neither a Kubernetes client nor a DNS library.
//!
//! # Rules of membership
//!
//! An endpoint has a cluster, a hostname, addresses, ports, and is alive or not. All of it comes from objects that
//! Linkerd 2.11 and later write. Code refers to these rules by number.
//!
//! | rule | | tested in |
//! |---|---|---|
//! | M1 | A remote endpoint is an endpoint mirror: a Service with label `mirror.linkerd.io/headless-mirror-svc-name`. Its cluster is label `mirror.linkerd.io/cluster-name`; its hostname and service come from annotation `mirror.linkerd.io/remote-svc-fq-name`; its addresses are `spec.clusterIPs`; its ports are `spec.ports[].port`. The namespace is always `metadata.namespace`: an object whose annotation names another one is skipped, so that nobody joins another namespace's database. The slices of the headless mirror are not used: they carry the port of the remote pod, and stay not ready after a gateway has recovered. | `src/mirror/parse/tests.rs`, `src/zone/tests/namespaces.rs` |
//! | M2 | The parent that the label names exists in the same namespace, has `clusterIP: None`, and is of the same cluster and service. Without it, the endpoint mirror is an orphan and is skipped. | `src/table/build/tests.rs` |
//! | M3 | An endpoint is alive if one of its own EndpointSlices has a ready gateway address. Without a slice, or with slices without endpoints, it is alive. | `src/table/build/tests.rs`, `tests/integration/members/gateways.rs` |
//! | M4 | Endpoints whose gateway is down are omitted, unless all endpoints of the name are down: then all are returned. This is decided once for each owner name and never for a record type. `--gateway-down` and annotation `global-dns/gateway-down` change it: `include` omits none, `exclude` omits all. A name of one host is never filtered. | `src/zone/tests/edges.rs`, `tests/integration/members/gateways.rs` |
//! | M5 | A headless Service of this cluster joins the mirrors of its name. It joins if a headless mirror of the same name and namespace exists, or if it is exported (`--local-members`). Its endpoints are the ready ones of its slices, united over all slices; its port is the slice's. | `tests/integration/members/local_members.rs` |
//! | M6 | A cluster has one name: `--cluster-name` for this one, the label for another one, changed by `--cluster-alias`. Two sources of one name are united and reported. | `tests/integration/members/clusters.rs` |
//! | M7 | A name is never split at `-CLUSTER`. Without the annotation of M1, the exact suffix is removed once; otherwise the object is skipped. | `src/mirror/parse/tests.rs` |
//! | M8 | An update may change which service an object is of. It moves there, and is reported: two links write one object. | `src/table/build/tests.rs` |
//! | M9 | An object that cannot be used is skipped with a [reason](crate::mirror::SkipReason), counted, and shown by `explain`. It never stops a watch. An endpoint whose name exceeds the limits of DNS is skipped too. | `src/mirror/parse/tests.rs`, `src/table/tests.rs` |
//!
//! `tests/recordings` replays events of Linkerd's mirror controller against all of them.

pub mod build;
mod conflict;
mod endpoint;
mod hash;
pub mod inputs;
mod local;
mod members;
mod missing;
mod parts;
pub mod publish;
mod rules;
pub mod shared;
mod short;
mod unite;
mod wishes;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::sync::Arc;

use rpds::RedBlackTreeMapSync;

use crate::mirror::{
    ClusterName, GatewayDown, Namespace, ObjectKey, ObjectRef, ServiceKey, ServiceName, Skip, Watch,
};

pub use build::{Built, build};
pub use conflict::{Conflict, ConflictKind};
pub use endpoint::{Address, Endpoint, Origin, Repeats};
pub use inputs::Inputs;
use inputs::Skipped;
pub use local::NonMember;
pub use missing::MissingHost;
pub use publish::{Published, Publisher};
pub use rules::{LocalMembers, Rules, ShortNames};
use shared::SharedMap;
pub use short::{NoOwner, ShortName};

/// Everything that is answered at one moment. Copies are cheap, and share what they have in common.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    namespaces: SharedMap<Namespace, Arc<NamespaceTable>>,
    short_names: SharedMap<ServiceName, Arc<ShortName>>,
    /// Headless Services of this cluster that are no members: nothing is answered of them.
    non_members: SharedMap<ServiceKey, NonMember>,
    skipped: Skipped,
    /// Empty unless there is a reverse zone.
    addresses: Addresses,
    /// Conflicts between names of different services.
    conflicts: Arc<BTreeMap<Contested, Vec<Conflict>>>,
}

/// Services by the addresses of their endpoints.
type Addresses = RedBlackTreeMapSync<IpAddr, Arc<BTreeSet<ServiceKey>>>;

/// The services of one namespace.
#[derive(Clone, Debug, Default, PartialEq)]
struct NamespaceTable {
    services: SharedMap<ServiceName, Arc<Service>>,
    /// Services that have an endpoint: as long as there is one, names exist below the namespace's (RFC 8020).
    with_endpoints: usize,
}

/// What conflicts between names of different services are about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Contested {
    /// The names of the zone itself.
    Zone,
    /// A short name.
    ShortName(ServiceName),
    /// Canonical names in a namespace.
    Namespace(Namespace),
}

/// One headless service with the endpoints of all its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Namespace and name.
    pub key: ServiceKey,
    /// TTL of the records, seconds.
    pub ttl: u32,
    /// What becomes of endpoints whose gateway is down (rule M4).
    pub gateway_down: GatewayDown,
    /// What is answered, sorted by cluster and hostname, which together occur once.
    pub endpoints: Vec<Endpoint>,
    /// What its own name shows, made once because it is asked for most.
    pub own_name: OwnName,
    /// Local endpoints that are not ready: never answered, listed for whoever looks for them.
    pub not_ready: Vec<Endpoint>,
    /// The headless mirrors that make it known, with the clusters that they are of.
    pub mirrors: Vec<(ClusterName, ObjectRef)>,
    /// Hosts that Linkerd lists, and has no endpoint mirror of.
    pub missing: Box<[MissingHost]>,
    /// A mirror or an exported Service of this name exists: it counts as a claim on the short name, with or without
    /// endpoints.
    pub is_known: bool,
    /// Objects of this service that were left out.
    pub skipped: Vec<(ObjectRef, Skip)>,
    /// Contradictions between the members.
    pub conflicts: Vec<Conflict>,
}

/// What a service's own name, `S.N.Z`, shows: addresses, each once, in the table's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnName {
    /// Endpoints whose gateway is down are answered too (rule M4).
    pub shows_dead: bool,
    /// IPv4.
    pub v4: Box<[Ipv4Addr]>,
    /// IPv6.
    pub v6: Box<[Ipv6Addr]>,
}

// === impl Table ===

impl Table {
    /// Returns a service.
    pub fn service(&self, namespace: &str, service: &str) -> Option<&Service> {
        self.namespaces
            .get(namespace)?
            .services
            .get(service)
            .map(AsRef::as_ref)
    }

    /// Tells whether names exist below a namespace's, which makes it an empty non-terminal (RFC 8020).
    pub fn has_names_in(&self, namespace: &str) -> bool {
        self.namespaces
            .get(namespace)
            .is_some_and(|namespace| namespace.with_endpoints > 0)
    }

    /// Returns the service that answers a short name.
    pub fn short_service(&self, service: &str) -> Option<&Service> {
        let owner = self.short_name(service)?.owner.as_ref().ok()?;
        self.service(owner.as_str(), service)
    }

    /// Returns who claims a short name and who owns it, if a namespace has the service.
    pub fn short_name(&self, service: &str) -> Option<&ShortName> {
        self.short_names.get(service).map(AsRef::as_ref)
    }

    /// Returns a hash of everything that is answered, 53 bits long: a floating-point number holds it exactly. Tables that
    /// answer alike have the same hash, whatever came before, in every process and in every build.
    pub fn answers_hash(&self) -> u64 {
        hash::of_answers(self)
    }

    /// Returns why the headless Service of this cluster with a name is no member; `None` if there is none, or it is one.
    pub fn non_member(&self, key: &ServiceKey) -> Option<NonMember> {
        self.non_members.get(key).copied()
    }

    /// Returns the services that have an endpoint with this address.
    pub fn services_at(&self, address: IpAddr) -> Option<&BTreeSet<ServiceKey>> {
        self.addresses.get(&address).map(AsRef::as_ref)
    }

    /// Returns the addresses of endpoints within a range.
    pub fn addresses_in(&self, range: RangeInclusive<IpAddr>) -> impl Iterator<Item = IpAddr> {
        self.addresses.range(range).map(|(address, _)| *address)
    }

    /// Tells whether an endpoint has an address within a range.
    pub fn has_address_in(&self, range: RangeInclusive<IpAddr>) -> bool {
        self.addresses_in(range).next().is_some()
    }

    /// Returns every service, also those without endpoints, in no order.
    pub fn services(&self) -> impl Iterator<Item = &Service> {
        let namespaces = self.namespaces.iter();
        let services = namespaces.flat_map(|(_, namespace)| namespace.services.iter());
        services.map(|(_, service)| service.as_ref())
    }

    /// Returns every service, also those without endpoints, sorted by namespace and name.
    pub fn sorted_services(&self) -> Vec<&Service> {
        let mut services: Vec<_> = self.services().collect();
        services.sort_by_key(|service| &service.key);
        services
    }

    /// Returns why an object was skipped when it was parsed, if it was.
    pub fn skip_of(&self, watch: Watch, key: &ObjectKey) -> Option<&Skip> {
        let place = (watch, key.clone());
        self.skipped.get(&place).map(AsRef::as_ref)
    }

    /// Returns every object that was left out, with its reason, in no order.
    pub fn skipped(&self) -> impl Iterator<Item = (ObjectRef, &Skip)> {
        let unread = self.skipped.iter().map(|((watch, key), skip)| {
            let kind = watch.kind();
            let key = key.clone();
            (ObjectRef { kind, key }, skip.as_ref())
        });
        let unused = self.services().flat_map(|service| &service.skipped);
        unread.chain(unused.map(|(object, skip)| (object.clone(), skip)))
    }

    /// Returns the conflicts between names of different services.
    pub fn own_conflicts(&self) -> impl Iterator<Item = &Conflict> {
        self.conflicts.values().flatten()
    }

    /// Returns the conflicts between names of different services that an earlier table did not have. There may be as
    /// many as there are services: tables that share them are not looked through.
    pub fn new_conflicts(&self, last: &Self) -> Vec<&Conflict> {
        if Arc::ptr_eq(&self.conflicts, &last.conflicts) {
            return Vec::new();
        }
        let known: BTreeSet<&Conflict> = last.own_conflicts().collect();
        let new = self.own_conflicts();
        new.filter(|conflict| !known.contains(conflict)).collect()
    }

    /// Returns every conflict, in no order.
    pub fn conflicts(&self) -> impl Iterator<Item = &Conflict> {
        self.own_conflicts()
            .chain(self.services().flat_map(|service| &service.conflicts))
    }
}

// === impl OwnName ===

impl OwnName {
    /// Decides what the name of a service with these endpoints shows.
    pub fn of(endpoints: &[Endpoint], gateway_down: GatewayDown) -> Self {
        let shows_dead = gateway_down.shows_dead(false, endpoints.iter());
        let shown = endpoints.iter().filter(|e| e.alive || shows_dead);
        let addresses = shown.flat_map(|endpoint| &endpoint.addresses);
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for address in addresses.filter(|address| address.repeats == Repeats::Nothing) {
            match address.ip {
                IpAddr::V4(ip) => v4.push(ip),
                IpAddr::V6(ip) => v6.push(ip),
            }
        }
        Self {
            shows_dead,
            v4: v4.into(),
            v6: v6.into(),
        }
    }
}

impl GatewayDown {
    /// Decides, once for an owner name, whether endpoints whose gateway is down are answered (rule M4).
    ///
    /// `covered` are the endpoints that the name stands for. A name of one host is never emptied.
    pub fn shows_dead<'e>(
        self,
        is_host: bool,
        mut covered: impl Iterator<Item = &'e Endpoint>,
    ) -> bool {
        match self {
            Self::Include => true,
            Self::Exclude => is_host,
            Self::LastResort => !covered.any(|endpoint| endpoint.alive),
        }
    }
}

// === impl Service ===

impl Service {
    /// Returns the endpoints of one cluster.
    pub fn in_cluster(&self, cluster: &str) -> &[Endpoint] {
        let start = self
            .endpoints
            .partition_point(|e| e.cluster.as_str() < cluster);
        let rest = &self.endpoints[start..];
        &rest[..rest.partition_point(|e| e.cluster.as_str() == cluster)]
    }

    /// Returns the endpoint of one host, as a slice of one, or of none.
    pub fn at_host(&self, cluster: &str, hostname: &str) -> &[Endpoint] {
        let endpoints = self.in_cluster(cluster);
        match endpoints.binary_search_by(|e| e.hostname.as_str().cmp(hostname)) {
            Ok(found) => &endpoints[found..=found],
            Err(_) => &[],
        }
    }

    /// Returns the clusters that have endpoints, sorted.
    pub fn clusters(&self) -> impl Iterator<Item = &ClusterName> {
        let mut last = None;
        self.endpoints
            .iter()
            .map(|e| &e.cluster)
            .filter(move |c| last.replace(*c) != Some(*c))
    }
}

#[cfg(test)]
mod tests;
