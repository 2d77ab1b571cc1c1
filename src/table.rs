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

pub mod build;
mod hash;
pub mod inputs;
mod local;
mod members;
mod missing;
mod parts;
pub mod publish;
pub mod report;
pub mod shared;
mod short;
mod wishes;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::sync::Arc;

use rpds::RedBlackTreeMapSync;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::mirror::{
    ClusterName, GatewayDown, Hostname, Kind, Namespace, ObjectKey, ObjectName, ObjectRef, Ports,
    ServiceKey, ServiceName, Skip, Watch,
};

pub use build::{Built, LocalMembers, Rules, ShortNames, build};
pub use inputs::Inputs;
use inputs::Skipped;
pub use local::NonMember;
pub use missing::MissingHost;
pub use publish::{Published, Publisher};
use shared::SharedMap;

/// Everything that is answered at one moment. Copies are cheap, and share what they have in common.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    namespaces: SharedMap<Namespace, Arc<NamespaceTable>>,
    short_names: SharedMap<ServiceName, Arc<ShortName>>,
    /// Headless Services of this cluster that are no members: nothing is answered of them.
    non_members: SharedMap<ServiceKey, NonMember>,
    skipped: Skipped,
    /// Services by the addresses of their endpoints; empty unless there is a reverse zone.
    addresses: RedBlackTreeMapSync<IpAddr, Arc<BTreeSet<ServiceKey>>>,
    /// Conflicts between names of different services.
    conflicts: Arc<BTreeMap<Contested, Vec<Conflict>>>,
}

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

/// Which namespace answers `S.Z`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShortName {
    /// The owner, or why there is none.
    pub owner: Result<Namespace, NoOwner>,
    /// Every namespace that has the service, sorted.
    pub claimants: Box<[Namespace]>,
}

/// Why nobody owns a short name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoOwner {
    /// `--short-names off`.
    Off,
    /// `--short-name` pins it to a namespace that lacks the service.
    Pinned(Namespace),
    /// `--short-names pinned`, and no flag gives it to a namespace that has the service.
    Unpinned,
    /// Several namespaces have the service, and no flag says whose the name is.
    Contested,
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

/// One endpoint: a row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The cluster that the endpoint runs in, label `C`.
    pub cluster: ClusterName,
    /// The endpoint's name within its service and cluster, label `H`.
    pub hostname: Hostname,
    /// Its addresses, sorted, each once.
    pub addresses: SmallVec<[Address; 1]>,
    /// Its ports, sorted by number, name and protocol.
    pub ports: Ports,
    /// A gateway leads to it (rule M3); local endpoints need none.
    pub alive: bool,
    /// Where the endpoint comes from.
    pub origin: Origin,
    /// The objects that it was read from, which are in the namespace of its service.
    pub objects: SmallVec<[(Kind, ObjectName); 1]>,
}

/// How an endpoint is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A pod of this cluster, by its own address.
    Local,
    /// A synthetic endpoint IP, which only meshed clients can use.
    Mirror,
}

/// An address of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// IPv4 or IPv6.
    pub ip: IpAddr,
    /// Where else it occurs: an RRset holds a record once (RFC 2181 section 5).
    pub repeats: Repeats,
}

/// Whether an endpoint that precedes has the same address. Live endpoints precede those whose gateway is down, so that
/// leaving the latter out never loses an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// The first of its kind.
    Nothing,
    /// An endpoint of another cluster has it.
    Service,
    /// An endpoint of the same cluster has it.
    Cluster,
}

/// Something that contradicts something else. Never silent: logged, counted, listed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Conflict {
    /// The kind, a metric label.
    pub kind: ConflictKind,
    /// The service (`namespace/service`) or the owner name concerned.
    pub name: String,
    /// One sentence.
    pub detail: String,
}

/// The kinds of conflicts. A closed set, so that it can be a metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConflictKind {
    /// Several namespaces have a service of the same name, and no flag says whose the short name is: nobody's.
    ShortName,
    /// A canonical name hides a short one.
    Shadowed,
    /// Two sources of one cluster name (rule M6).
    ClusterName,
    /// Two objects claim to be one endpoint.
    Endpoint,
    /// A mirror was of something else before (rule M8): two links write one object.
    Identity,
    /// Headless in one cluster, and not in another.
    Headless,
    /// A Service of this cluster joins here, but is not exported: other clusters lack it.
    NotExported,
    /// Members ask for different things by annotation, or for something unreadable.
    Annotation,
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

// === impl Endpoint ===

impl Endpoint {
    /// Returns the objects that an endpoint of a service in `namespace` was read from.
    pub fn object_refs(&self, namespace: &Namespace) -> impl Iterator<Item = ObjectRef> {
        let namespace = namespace.text();
        self.objects.iter().map(move |(kind, name)| ObjectRef {
            kind: *kind,
            key: ObjectKey {
                namespace: namespace.clone(),
                name: name.clone(),
            },
        })
    }

    /// Tells whether another endpoint has the same cluster and hostname.
    pub fn is_host(&self, other: &Self) -> bool {
        self.cluster == other.cluster && self.hostname == other.hostname
    }

    /// Tells whether the endpoint has a port of this name and protocol.
    pub fn has_port(&self, name: &str, protocol: &str) -> bool {
        self.ports.iter().any(|port| port.is_named(name, protocol))
    }
}

// === impl ConflictKind ===

impl ConflictKind {
    /// Every kind, for metrics that show zeros too.
    pub const ALL: [Self; 8] = [
        Self::ShortName,
        Self::Shadowed,
        Self::ClusterName,
        Self::Endpoint,
        Self::Identity,
        Self::Headless,
        Self::NotExported,
        Self::Annotation,
    ];

    /// Returns the kind's name in logs, metrics and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::ShortName => "short-name",
            Self::Shadowed => "shadowed",
            Self::ClusterName => "cluster-name",
            Self::Endpoint => "endpoint",
            Self::Identity => "identity",
            Self::Headless => "headless",
            Self::NotExported => "not-exported",
            Self::Annotation => "annotation",
        }
    }
}

#[cfg(test)]
mod tests;
