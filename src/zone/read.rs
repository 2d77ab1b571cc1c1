//! Implements the grammar of owner names.
//!
//! | name | meaning |
//! |---|---|
//! | `S.N.Z`, `C.S.N.Z`, `H.C.S.N.Z` | all endpoints of a service, its endpoints in one cluster, one endpoint |
//! | `_P._R.` before any of these | the endpoints that have the port |
//! | `S.Z`, `C.S.Z`, `H.C.S.Z` and their `_P._R.` forms | short names: the same, for the namespace that owns `S` |
//! | `Z`, `ns.dns.Z`, `dns-version.Z` | names of the zone itself |
//!
//! A name exists if it owns a record, or if an existing name is below it (RFC 8020). The existing name may be the apex
//! of another zone.
//!
//! Canonical names come before short names. If namespace `N` has a service `S`, then `S.N.Z` and all names below it
//! belong to that service, whether they exist or not. Otherwise, a service with the name of namespace `N`, in a cluster
//! with the name `S`, could answer for them. An empty non-terminal, such as `N.Z`, does not hide a short name.

use super::cluster_set::read_cluster_set;
use super::name::Name;
use super::reading::{MissingReason, Reading, Scope, Targets, View};
use super::reverse::read_reverse;
use super::{Zone, ZoneKind, Zones};
use crate::mirror::{ClusterName, Port};
use crate::table::{Endpoint, Service, Table};

/// Interprets a name.
pub fn read<'t>(zones: &'t Zones, table: &'t Table, name: &Name) -> Reading<'t> {
    let Some(zone) = zones.find(name) else {
        return Reading::Outside;
    };
    let reading = read_in(zone, table, name);
    if matches!(reading, Reading::Missing(..)) && zones.has_apex_below(name) {
        return Reading::Empty(zone); // RFC 8020 section 2, RFC 4592 section 2.2.2
    }
    reading
}

fn read_in<'t>(zone: &'t Zone, table: &'t Table, name: &Name) -> Reading<'t> {
    let below = name.count() - count_zone_labels(zone);
    let is_own = below == 0 || name.label(below - 1) == Some("dns");
    let is_reverse = matches!(zone.kind, ZoneKind::Reverse(_));
    if is_reverse && !is_own {
        return read_reverse(zone, table, name);
    }
    // The longest form is `_P._R.H.C.S.N`.
    let mut labels = [""; 6];
    if below > labels.len() {
        return Reading::Missing(zone, MissingReason::NoForm);
    }
    for (index, to) in labels[..below].iter_mut().enumerate() {
        match name.label(index) {
            Some(label) => *to = label,
            None => return Reading::Missing(zone, MissingReason::NoForm),
        }
    }
    match &labels[..below] {
        [] => Reading::Apex(zone),
        ["ns", "dns"] => Reading::NsHost(zone),
        ["dns"] if zone.kind != ZoneKind::Forward => Reading::Empty(zone),
        _ if is_reverse => Reading::Missing(zone, MissingReason::NoForm),
        ["dns-version"] => Reading::Version(zone),
        labels if zone.kind == ZoneKind::ClusterSet => read_cluster_set(zone, table, name, labels),
        labels => below_apex(zone, table, name, labels),
    }
}

fn below_apex<'t>(zone: &'t Zone, table: &'t Table, name: &Name, labels: &[&str]) -> Reading<'t> {
    let (prefix, path) = Prefix::split(labels);
    let tail = |own: usize| name.start_of(labels.len() - own);
    let same_family = |own: usize| Targets::SameFamily(tail(own));
    let canonical = match path {
        [scope @ .., service, namespace] => {
            let service = table.service(namespace, service);
            match (service, look_up(service, scope, prefix, same_family(2))) {
                // The name belongs to the service of that namespace, even if it does not exist.
                (Some(_), Lookup::Empty) => return Reading::Empty(zone),
                (Some(_), Lookup::Missing(reason)) => return Reading::Missing(zone, reason),
                (_, lookup) => lookup,
            }
        }
        [namespace]
            if prefix.is_none() && (table.has_names_in(namespace) || *namespace == "dns") =>
        {
            Lookup::Empty
        }
        _ => Lookup::Missing(MissingReason::NoService),
    };
    let canonical = match canonical {
        Lookup::View(view) => return Reading::View(zone, view),
        Lookup::Awaiting(service) => return Reading::Awaiting(zone, service),
        Lookup::Empty => None,
        Lookup::Missing(reason) => Some(reason),
    };
    let short = match path {
        [scope @ .., service] => match look_up_short(table, service, scope, prefix, same_family(1))
        {
            Lookup::View(view) if hides_cluster(table, service, view.covered) => {
                let targets = Targets::Canonical(tail(0));
                Lookup::View(View { targets, ..view })
            }
            lookup @ (Lookup::View(_)
            | Lookup::Awaiting(_)
            | Lookup::Empty
            | Lookup::Missing(_)) => lookup,
        },
        [] => Lookup::Missing(MissingReason::NoForm),
    };
    match (canonical, short) {
        (_, Lookup::View(view)) => Reading::View(zone, view),
        (_, Lookup::Awaiting(service)) => Reading::Awaiting(zone, service),
        (None, _) | (_, Lookup::Empty) => Reading::Empty(zone),
        (Some(canonical), Lookup::Missing(short)) => Reading::Missing(zone, canonical.max(short)),
    }
}

/// Returns whether a canonical name hides the short name `C.S.Z` of a cluster: namespace `S` has a service `C`, which
/// owns the names below `C.S.Z`.
fn hides_cluster(table: &Table, namespace: &str, endpoints: &[Endpoint]) -> bool {
    let mut rest = endpoints;
    while let Some(Endpoint { cluster, .. }) = rest.first() {
        let label = cluster.as_ref().map(ClusterName::as_str);
        if label.is_some_and(|label| table.service(namespace, label).is_some()) {
            return true;
        }
        rest = &rest[rest.partition_point(|endpoint| endpoint.cluster == *cluster)..];
    }
    false
}

/// The labels of a port and a protocol before a name.
#[derive(Clone, Copy)]
pub(super) enum Prefix<'n> {
    None,
    /// `_R.` alone. It is an empty non-terminal above the names of SRV records.
    Protocol(&'n str),
    /// `_P._R.`
    Port(&'n str, &'n str),
}

/// The result of a lookup in one service.
pub(super) enum Lookup<'t> {
    View(View<'t>),
    Awaiting(&'t Service),
    Empty,
    Missing(MissingReason),
}

/// Looks up a short name in the namespace that owns it.
fn look_up_short<'t>(
    table: &'t Table,
    service: &str,
    scope: &[&str],
    prefix: Prefix<'_>,
    targets: Targets,
) -> Lookup<'t> {
    match table.short_name(service).map(|short| &short.owner) {
        Some(Ok(owner)) => look_up(
            table.service(owner.as_str(), service),
            scope,
            prefix,
            targets,
        ),
        Some(Err(_)) => Lookup::Missing(MissingReason::NoOwner),
        None => Lookup::Missing(MissingReason::NoService),
    }
}

/// Looks up a name in a service. `scope` are the labels before the name of the service, `prefix` those before `scope`.
pub(super) fn look_up<'t>(
    service: Option<&'t Service>,
    scope: &[&str],
    prefix: Prefix<'_>,
    targets: Targets,
) -> Lookup<'t> {
    let Some(service) = service else {
        return Lookup::Missing(MissingReason::NoService);
    };
    let Some((scope, covered, reason)) = covered_by(service, scope) else {
        return Lookup::Missing(MissingReason::NoForm);
    };
    if scope == Scope::Service && !service.awaited().is_empty() {
        return match prefix {
            Prefix::None | Prefix::Port(..) => Lookup::Awaiting(service),
            Prefix::Protocol(_) => Lookup::Empty,
        };
    }
    match covered {
        [] if service.endpoints.is_empty() => return Lookup::Missing(MissingReason::NoEndpoint),
        [] => return Lookup::Missing(reason),
        [_, ..] => {}
    }
    let port = match prefix {
        Prefix::None => None,
        Prefix::Protocol(protocol) => return look_up_protocol(scope, covered, protocol),
        Prefix::Port(name, protocol) => match find_port(scope, covered, name, protocol) {
            Some(port) => Some(port),
            None => return Lookup::Missing(MissingReason::NoPort),
        },
    };
    let mut view = View {
        service,
        scope,
        covered,
        port,
        targets,
        includes_down: true,
    };
    view.includes_down = match view.name_addresses() {
        Some(own) => own.includes_down,
        None => {
            let is_host = scope == Scope::Host;
            let down = service.gateway_down;
            down.includes_down(is_host, view.endpoints())
        }
    };
    Lookup::View(view)
}

/// Returns the endpoints that `scope` covers, and the reason that applies if there is none. Returns `None` if `scope`
/// has too many labels.
fn covered_by<'t>(
    service: &'t Service,
    scope: &[&str],
) -> Option<(Scope, &'t [Endpoint], MissingReason)> {
    Some(match scope {
        [] => (
            Scope::Service,
            &service.endpoints,
            MissingReason::NoEndpoint,
        ),
        [cluster] => (
            Scope::Cluster,
            service.in_cluster(cluster),
            MissingReason::NoCluster,
        ),
        [host, cluster] => {
            let reason = match service.in_cluster(cluster) {
                [] => MissingReason::NoCluster,
                [_, ..] => MissingReason::NoHost,
            };
            (Scope::Host, service.at_host(cluster, host), reason)
        }
        _ => return None,
    })
}

/// Returns the ports of the endpoints that a scope covers and that its name can return (rule K1).
fn ports_of(scope: Scope, covered: &[Endpoint]) -> impl Iterator<Item = &Port> {
    let is_included = move |endpoint: &&Endpoint| scope != Scope::Service || endpoint.is_selected;
    covered
        .iter()
        .filter(is_included)
        .flat_map(|endpoint| &endpoint.ports)
}

/// Looks up `_R.` before a name.
fn look_up_protocol<'t>(scope: Scope, covered: &[Endpoint], protocol: &str) -> Lookup<'t> {
    let mut ports = ports_of(scope, covered);
    match ports.any(|port| port.name.is_some() && port.protocol.label() == protocol) {
        true => Lookup::Empty,
        false => Lookup::Missing(MissingReason::NoPort),
    }
}

/// Returns the port of `_P._R.` before a name.
fn find_port<'t>(
    scope: Scope,
    covered: &'t [Endpoint],
    name: &str,
    protocol: &str,
) -> Option<&'t Port> {
    ports_of(scope, covered).find(|port| port.is_named(name, protocol))
}

// === impl Prefix ===

impl<'n> Prefix<'n> {
    /// Splits the labels with underscores from the others (RFC 2782).
    pub(super) fn split<'l>(labels: &'l [&'n str]) -> (Self, &'l [&'n str]) {
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

    pub(super) fn is_none(self) -> bool {
        match self {
            Self::None => true,
            Self::Protocol(_) | Self::Port(..) => false,
        }
    }
}

fn count_zone_labels(zone: &Zone) -> usize {
    zone.name.as_str().matches('.').count()
}
