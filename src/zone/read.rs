//! The grammar of owner names, the only one: a name → what it stands for.
//!
//! | name | stands for |
//! |---|---|
//! | `S.N.Z`, `C.S.N.Z`, `H.C.S.N.Z` | all endpoints of a service, those of a cluster, one |
//! | `_P._R.` before any of these | those having the port |
//! | `S.Z`, `C.S.Z`, `H.C.S.Z` and their `_P._R.` forms | the short family: the same, for the namespace that owns `S` |
//! | `Z`, `ns.dns.Z`, `dns-version.Z` | the zone itself |
//!
//! A name exists iff it owns a record or an existing name lies below it (RFC 8020), which the apex of another zone that is
//! served may be. Canonical names come before short ones: as long as anything in namespace `N` speaks of a service `S`,
//! `S.N.Z` and all names below it are that service's, whether they exist or not. Somebody who calls a service like a
//! namespace, and its cluster like a service there, would answer in its stead otherwise. An empty non-terminal, `N.Z`,
//! yields to a short name.

use super::name::Name;
use super::reverse::{Pointers, read_reverse};
use super::{Zone, ZoneKind, Zones};
use crate::mirror::Port;
use crate::table::{Endpoint, Service, Table};

/// What a name is read as.
#[derive(Clone, Debug)]
pub enum Reading<'t> {
    /// In none of our zones.
    Outside,
    /// A zone's apex.
    Apex(&'t Zone),
    /// `ns.dns.Z`: this server.
    NsHost(&'t Zone),
    /// `dns-version.Z` (Kubernetes DNS specification section 2.2).
    Version(&'t Zone),
    /// An empty non-terminal: no records, but names below.
    Empty(&'t Zone),
    /// A service, or a part of it.
    View(&'t Zone, View<'t>),
    /// An address, in a reverse zone.
    Pointers(&'t Zone, Pointers<'t>),
    /// No such name, and why.
    Missing(&'t Zone, Why),
}

/// A service as an owner name shows it.
#[derive(Clone, Debug)]
pub struct View<'t> {
    /// The service.
    pub service: &'t Service,
    /// Which of its endpoints the name stands for.
    pub scope: Scope,
    /// Those endpoints, before ports and liveness are looked at.
    pub covered: &'t [Endpoint],
    /// The port of a `_P._R.` name.
    pub port: Option<&'t Port>,
    /// What follows `H.C.` in an SRV target.
    pub targets: Targets,
    /// Endpoints whose gateway is down are answered too: decided once per owner name (rule M4).
    pub shows_dead: bool,
}

/// The names that SRV targets are: always names of the service itself, with its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Targets {
    /// Those of the family that was asked for: the question's name from label `S` on, which starts at this octet.
    Asked(usize),
    /// The canonical ones, because some of the short family are another service's: `S.N.`, and the zone, which starts
    /// at this octet of the question's name.
    Canonical(usize),
}

/// Which endpoints of a service an owner name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every cluster's.
    Service,
    /// One cluster's.
    Cluster,
    /// One endpoint.
    Host,
}

/// Why a name does not exist: how far it could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// No name of ours has this form.
    NoForm,
    /// No endpoint has such an address.
    NoAddress,
    /// There is no such service.
    NoService,
    /// A short name that belongs to no namespace.
    NoOwner,
    /// The service has no endpoint at all.
    NoEndpoint,
    /// The service has no endpoint in such a cluster.
    NoCluster,
    /// The cluster has no endpoint of such a name.
    NoHost,
    /// No endpoint has such a port.
    NoPort,
}

/// Reads a name.
pub fn read<'t>(zones: &'t Zones, table: &'t Table, name: &Name) -> Reading<'t> {
    let Some(zone) = zones.of(name) else {
        return Reading::Outside;
    };
    let reading = read_in(zone, table, name);
    if matches!(reading, Reading::Missing(..)) && zones.has_apex_below(name) {
        return Reading::Empty(zone); // RFC 8020 section 2, RFC 4592 section 2.2.2
    }
    reading
}

fn read_in<'t>(zone: &'t Zone, table: &'t Table, name: &Name) -> Reading<'t> {
    let below = name.count() - zone_labels(zone);
    let is_forward = zone.kind == ZoneKind::Forward;
    let is_own = below == 0 || name.label(below - 1) == Some("dns");
    if !is_forward && !is_own {
        return read_reverse(zone, table, name);
    }
    // `_P._R.H.C.S.N` is the longest form.
    let mut labels = [""; 6];
    if below > labels.len() {
        return Reading::Missing(zone, Why::NoForm);
    }
    for (index, to) in labels[..below].iter_mut().enumerate() {
        match name.label(index) {
            Some(label) => *to = label,
            None => return Reading::Missing(zone, Why::NoForm),
        }
    }
    match &labels[..below] {
        [] => Reading::Apex(zone),
        ["ns", "dns"] => Reading::NsHost(zone),
        ["dns"] if !is_forward => Reading::Empty(zone),
        _ if !is_forward => Reading::Missing(zone, Why::NoForm),
        ["dns-version"] => Reading::Version(zone),
        labels => below_apex(zone, table, name, labels),
    }
}

fn below_apex<'t>(zone: &'t Zone, table: &'t Table, name: &Name, labels: &[&str]) -> Reading<'t> {
    let (prefix, path) = Prefix::of(labels);
    let tail = |own: usize| name.start_of(labels.len() - own);
    let canonical = match path {
        [scope @ .., service, namespace] => {
            let service = table.service(namespace, service);
            match (service, find(service, scope, prefix, tail(2))) {
                // Nobody else's name, then.
                (Some(_), Found::Empty) => return Reading::Empty(zone),
                (Some(_), Found::Nothing(why)) => return Reading::Missing(zone, why),
                (_, found) => found,
            }
        }
        [namespace]
            if prefix.is_none() && (table.has_names_in(namespace) || *namespace == "dns") =>
        {
            Found::Empty
        }
        _ => Found::Nothing(Why::NoService),
    };
    let canonical = match canonical {
        Found::View(view) => return Reading::View(zone, view),
        Found::Empty => None,
        Found::Nothing(why) => Some(why),
    };
    let short = match path {
        [scope @ .., service] => match find_short(table, service, scope, prefix, tail(1)) {
            Found::View(view) if hides_a_cluster(table, service, view.covered) => {
                let targets = Targets::Canonical(tail(0));
                Found::View(View { targets, ..view })
            }
            found @ (Found::View(_) | Found::Empty | Found::Nothing(_)) => found,
        },
        [] => Found::Nothing(Why::NoForm),
    };
    match (canonical, short) {
        (_, Found::View(view)) => Reading::View(zone, view),
        (None, _) | (_, Found::Empty) => Reading::Empty(zone),
        (Some(canonical), Found::Nothing(short)) => Reading::Missing(zone, canonical.max(short)),
    }
}

/// Tells whether a namespace that is called like the service of a short name has a service that is called like a
/// cluster of it: the names below `C.S.Z` are that service's.
fn hides_a_cluster(table: &Table, namespace: &str, endpoints: &[Endpoint]) -> bool {
    let mut rest = endpoints;
    while let Some(Endpoint { cluster, .. }) = rest.first() {
        if table.service(namespace, cluster.as_str()).is_some() {
            return true;
        }
        rest = &rest[rest.partition_point(|endpoint| endpoint.cluster == *cluster)..];
    }
    false
}

/// What precedes the labels of a service's name.
#[derive(Clone, Copy)]
enum Prefix<'n> {
    None,
    /// `_R.` alone: an empty non-terminal above SRV names.
    Protocol(&'n str),
    /// `_P._R.`
    Port(&'n str, &'n str),
}

enum Found<'t> {
    View(View<'t>),
    Empty,
    Nothing(Why),
}

/// Finds a name of the short family: what [`find`] finds, for the namespace that owns the short name.
fn find_short<'t>(
    table: &'t Table,
    service: &str,
    scope: &[&str],
    prefix: Prefix<'_>,
    tail: usize,
) -> Found<'t> {
    match table.short_name(service).map(|short| &short.owner) {
        Some(Ok(owner)) => find(table.service(owner.as_str(), service), scope, prefix, tail),
        Some(Err(_)) => Found::Nothing(Why::NoOwner),
        None => Found::Nothing(Why::NoService),
    }
}

/// Finds what `scope`, the labels left of the service's, and `prefix` stand for.
fn find<'t>(
    service: Option<&'t Service>,
    scope: &[&str],
    prefix: Prefix<'_>,
    tail: usize,
) -> Found<'t> {
    let Some(service) = service else {
        return Found::Nothing(Why::NoService);
    };
    let (scope, covered, why) = match scope {
        [] => (
            Scope::Service,
            service.endpoints.as_slice(),
            Why::NoEndpoint,
        ),
        [cluster] => (Scope::Cluster, service.in_cluster(cluster), Why::NoCluster),
        [host, cluster] if service.in_cluster(cluster).is_empty() => {
            (Scope::Host, service.at_host(cluster, host), Why::NoCluster)
        }
        [host, cluster] => (Scope::Host, service.at_host(cluster, host), Why::NoHost),
        _ => return Found::Nothing(Why::NoForm),
    };
    if covered.is_empty() {
        return Found::Nothing(if service.endpoints.is_empty() {
            Why::NoEndpoint
        } else {
            why
        });
    }
    let ports = || covered.iter().flat_map(|endpoint| &endpoint.ports);
    let port = match prefix {
        Prefix::None => None,
        Prefix::Protocol(protocol) => {
            let exists = ports().any(|p| p.name.is_some() && p.protocol.label() == protocol);
            return if exists {
                Found::Empty
            } else {
                Found::Nothing(Why::NoPort)
            };
        }
        Prefix::Port(name, protocol) => match ports().find(|port| port.is_named(name, protocol)) {
            Some(port) => Some(port),
            None => return Found::Nothing(Why::NoPort),
        },
    };
    let mut view = View {
        service,
        scope,
        covered,
        port,
        targets: Targets::Asked(tail),
        shows_dead: true,
    };
    view.shows_dead = match view.own_name() {
        Some(own) => own.shows_dead,
        None => {
            let is_host = scope == Scope::Host;
            let down = service.gateway_down;
            down.shows_dead(is_host, view.endpoints())
        }
    };
    Found::View(view)
}

// === impl Prefix ===

impl<'n> Prefix<'n> {
    /// Splits the labels with underscores off (RFC 2782).
    fn of<'l>(labels: &'l [&'n str]) -> (Self, &'l [&'n str]) {
        let underscored = |label: &&'n str| label.strip_prefix('_');
        match (
            labels.first().and_then(underscored),
            labels.get(1).and_then(underscored),
        ) {
            (Some(port), Some(protocol)) => (Self::Port(port, protocol), &labels[2..]),
            (Some(protocol), None) => (Self::Protocol(protocol), &labels[1..]),
            (None, _) => (Self::None, labels),
        }
    }

    fn is_none(self) -> bool {
        match self {
            Self::None => true,
            Self::Protocol(_) | Self::Port(..) => false,
        }
    }
}

// === impl View ===

impl<'t> View<'t> {
    /// Returns the endpoints that the name answers with, dead or alive as rule M4 decided.
    pub fn endpoints(&self) -> impl Iterator<Item = &'t Endpoint> + Clone + use<'t> {
        let (shows_dead, port) = (self.shows_dead, self.port);
        let has_port = move |endpoint: &Endpoint| match port {
            None => true,
            Some(port) => endpoint.ports.iter().any(|own| same_port(own, port)),
        };
        self.covered
            .iter()
            .filter(move |e| (shows_dead || e.alive) && has_port(e))
    }
}

/// Tells whether two ports have one `_P._R.` form.
pub(super) fn same_port(one: &Port, other: &Port) -> bool {
    one.name == other.name && one.protocol == other.protocol
}

fn zone_labels(zone: &Zone) -> usize {
    zone.name.as_str().matches('.').count()
}
