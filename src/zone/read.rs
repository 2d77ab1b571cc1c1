//! Implements the grammar of owner names.
//!
//! | name | meaning |
//! |---|---|
//! | `S.N.Z`, `C.S.N.Z`, `H.C.S.N.Z` | all endpoints of a service, its endpoints in one cluster, one endpoint |
//! | `_P._R.` before any of these | the endpoints that have the port |
//! | `S.Z`, `C.S.Z`, `H.C.S.Z` and their `_P._R.` forms | short names: the same, for the namespace that `S` stands for |
//! | `Z`, `ns.dns.Z`, `dns-version.Z` | names of the zone itself |
//!
//! A name exists if it owns a record, or if an existing name is below it (RFC 8020). The existing name may be the apex
//! of another zone.
//!
//! Canonical names come before short names. If namespace `N` has a service `S`, then `S.N.Z` and all names below it
//! belong to that service, whether they exist or not. Otherwise, a service with the name of namespace `N`, in a cluster
//! with the name `S`, could answer for them. An empty non-terminal, such as `N.Z`, does not hide a short name. Neither
//! does a service without any mirror or member of this cluster, which is here for its settings.
//!
//! Zones with the grammar `mcs` have that of the Multi-Cluster Services API (KEP-1645, rule K9):
//!
//! | name | meaning |
//! |---|---|
//! | `S.N.svc.Z` | all endpoints of a service |
//! | `H.C.S.N.svc.Z` | one endpoint |
//! | `_P._R.S.N.svc.Z` | the endpoints that have the port |
//!
//! The specification allows no records at `C.S.N.svc.Z`. That name exists only if endpoints with a hostname are below
//! it. There are no short names.
//!
//! A zone of one cluster has its services without the members that an alias adds, and without the label of the cluster:
//!
//! | name | meaning |
//! |---|---|
//! | `S.N.Z`, `H.S.N.Z` | what `C.S.N` and `H.C.S.N` are in other zones |
//! | `_P._R.` before either | the endpoints that have the port |

use super::name::Name;
use super::reading::{Failure, MissingReason, Reading, Scope, Targets, View, selectable};
use super::{Grammar, Zone, Zones};
use crate::model::ClusterName;
use crate::table::{NameFailure, Property, Service, Table};

/// The label between namespace and zone, in zones with the grammar `mcs`.
const SVC: &str = "svc";

/// The labels of a port and a protocol before a name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Prefix<'n> {
    None,
    /// `_R.` alone. It is an empty non-terminal above the names of SRV records.
    Protocol(&'n str),
    /// `_P._R.`
    Port(&'n str, &'n str),
}

/// Interprets a name.
pub fn read<'t>(zones: &'t Zones, table: &'t Table, name: &Name) -> Reading<'t> {
    let Some((zone, below)) = zones.find(name) else {
        return Reading::Outside;
    };
    let reading = read_in(zones, zone, table, name, below);
    if matches!(reading, Reading::Missing(..)) && zones.has_apex_below(name) {
        return Reading::Empty(zone); // RFC 8020 section 2, RFC 4592 section 2.2.2
    }
    reading
}

/// Interprets a name with this number of labels below a zone.
fn read_in<'t>(
    zones: &'t Zones,
    zone: &'t Zone,
    table: &'t Table,
    name: &Name,
    below: usize,
) -> Reading<'t> {
    // The longest form is `_P._R.H.C.S.N`.
    let mut labels = [""; 6];
    let (Some(labels), Some(own)) = (labels.get_mut(..below), name.labels(below)) else {
        return Reading::Missing(zone, MissingReason::NoForm);
    };
    labels
        .iter_mut()
        .zip(own)
        .for_each(|(to, label)| *to = label);
    match (&*labels, &zone.grammar) {
        ([], _) => Reading::Apex(zone, zones.parent(zone)),
        (["ns", "dns"], _) => Reading::NsHost(zone),
        (["dns-version"], _) => Reading::Version(zone),
        (labels, Grammar::Global) => below_apex(zone, table, name, labels),
        (["dns"], _) => Reading::Empty(zone),
        (labels, Grammar::Mcs) => read_mcs(zone, table, name, labels),
        (labels, Grammar::Cluster(cluster)) => read_of_cluster(zone, cluster, table, name, labels),
    }
}

/// Interprets the labels below the apex of a zone: as a canonical name, or else as a short name.
fn below_apex<'t>(zone: &'t Zone, table: &'t Table, name: &Name, labels: &[&str]) -> Reading<'t> {
    let (prefix, path) = Prefix::split(labels);
    if prefix != Prefix::None && is_of_zone(path) {
        return Reading::Missing(zone, MissingReason::NoForm); // these names have no ports
    }
    let targets = |own: usize| Targets::SameFamily(name.start_of(labels.len() - own));
    if let [scope @ .., service, namespace] = path
        && let Some(service) = table.service(namespace, service)
        && !yields(table, service)
    {
        // The name belongs to the service of that namespace, even if it does not exist.
        return look_up(zone, service, scope, prefix, targets(2));
    }
    let [scope @ .., service] = path else {
        return Reading::Missing(zone, MissingReason::NoService);
    };
    let short = table.short_name(service);
    let owner = short.and_then(|short| table.owner(service, short));
    let reading = match (short, owner) {
        (Some(short), Some(owner)) => {
            // The names of one cluster are all hidden or none.
            let targets = if short.has_hidden() && scope.is_empty() {
                Targets::Canonical(name.start_of(labels.len()))
            } else {
                targets(1)
            };
            look_up(zone, owner, scope, prefix, targets)
        }
        (Some(_), None) => Reading::Missing(zone, MissingReason::NoOwner),
        (None, _) => Reading::Missing(zone, MissingReason::NoService),
    };
    match reading {
        Reading::Missing(..) if is_parent(table, labels) => Reading::Empty(zone),
        Reading::Missing(_, reason) => Reading::Missing(zone, reason.max(MissingReason::NoService)),
        reading => reading,
    }
}

/// Returns whether the labels are those of a name of the zone itself with records.
fn is_of_zone(labels: &[&str]) -> bool {
    matches!(labels, ["ns", "dns"] | ["dns-version"])
}

/// Returns whether the labels are those of `N.Z` or `dns.Z`, above existing names.
fn is_parent(table: &Table, labels: &[&str]) -> bool {
    matches!(labels, [label] if *label == "dns" || table.has_names_in(label))
}

/// Returns whether the names of a service belong to the short names of another one. Settings alone, or skipped objects,
/// hide no names: `east.db.Z` is then the cluster `east` of the service `db`, if that cluster has an endpoint.
pub fn yields(table: &Table, service: &Service) -> bool {
    let [cluster, short] = service.key.labels();
    !service.is_known
        && table
            .short_service(short)
            .is_some_and(|other| other.has_names_at(&[cluster]))
}

/// Interprets the labels below the apex of a zone with the grammar `mcs`.
fn read_mcs<'t>(zone: &'t Zone, table: &'t Table, name: &Name, labels: &[&str]) -> Reading<'t> {
    let (prefix, path) = Prefix::split(labels);
    let missing = |reason| Reading::Missing(zone, reason);
    let (exists, reason) = match path {
        [SVC] if prefix == Prefix::None => (table.has_names(), MissingReason::NoService),
        [namespace, SVC] if prefix == Prefix::None => {
            (table.has_names_in(namespace), MissingReason::NoService)
        }
        [cluster, service, namespace, SVC] if prefix == Prefix::None => {
            let service = table.service(namespace, service);
            let has_hosts = service.is_some_and(|service| has_hosts(service, cluster));
            (has_hosts, MissingReason::NoForm)
        }
        [scope @ .., service, namespace, SVC] if scope.is_empty() || prefix == Prefix::None => {
            let targets = Targets::Mcs(name.start_of(labels.len() - 3));
            return match table.service(namespace, service) {
                Some(service) => look_up(zone, service, scope, prefix, targets),
                None => missing(MissingReason::NoService),
            };
        }
        _ => (false, MissingReason::NoForm),
    };
    if exists {
        Reading::Empty(zone)
    } else {
        missing(reason)
    }
}

/// Interprets the labels below the apex of a zone of one cluster.
fn read_of_cluster<'t>(
    zone: &'t Zone,
    cluster: &ClusterName,
    table: &'t Table,
    name: &Name,
    labels: &[&str],
) -> Reading<'t> {
    let (prefix, path) = Prefix::split(labels);
    let missing = |reason| Reading::Missing(zone, reason);
    let [scope @ .., service, namespace] = path else {
        let is_parent = |namespace| table.has_names_of(cluster, namespace);
        return match path {
            [namespace] if prefix == Prefix::None && is_parent(namespace) => Reading::Empty(zone),
            _ => missing(MissingReason::NoService),
        };
    };
    if is_of_zone(path) {
        return missing(MissingReason::NoForm); // this name has no ports
    }
    let Some(service) = table.service(namespace, service) else {
        return missing(MissingReason::NoService);
    };
    let (service, cluster) = (service.without_alias(), cluster.as_str());
    let targets = Targets::OfCluster(name.start_of(labels.len() - 2));
    match scope {
        [] => look_up(zone, service, &[cluster], prefix, targets),
        [host] => look_up(zone, service, &[host, cluster], prefix, targets),
        _ => missing(MissingReason::NoForm),
    }
}

/// Returns whether a cluster has hosts, with or without an endpoint mirror, or is one that the name of the service waits for.
fn has_hosts(service: &Service, cluster: &str) -> bool {
    service
        .endpoints_at(&[cluster])
        .iter()
        .any(|endpoint| endpoint.hostname.is_some())
        || service.missing_at(&[cluster]).is_some()
        || service.awaits(cluster)
}

/// Reads the own name of a service, `S.N.Z`, in any zone. Another zone may hide the name.
///
/// # Errors
///
/// If the name stands for no part of the service: why it fails, or `None` if it does not exist.
pub fn read_own_name(service: &Service) -> Result<View<'_>, Option<Failure<'_>>> {
    let failure = Failure::of_service(service);
    if failure.is_some() || service.endpoints.is_empty() {
        return Err(failure);
    }
    let (covered, targets) = (service.range_at(&[]), Targets::SameFamily(0));
    Ok(View::new(service, Scope::Service, covered, None, targets))
}

/// Looks up a part of a service.
fn look_up<'t>(
    zone: &'t Zone,
    service: &'t Service,
    labels: &[&str],
    prefix: Prefix<'_>,
    targets: Targets,
) -> Reading<'t> {
    let missing = |reason| Reading::Missing(zone, reason);
    let scope = match labels {
        [] => Scope::Service,
        [_] => Scope::Cluster,
        [_, _] => Scope::Host,
        _ => return missing(MissingReason::NoForm),
    };
    let covered = service.range_at(labels);
    let failure = match scope {
        Scope::Service => Failure::of_service(service),
        Scope::Cluster | Scope::Host if !covered.is_empty() => None,
        Scope::Cluster | Scope::Host if labels.last().is_some_and(|one| service.awaits(one)) => {
            Some(Failure::Rule(NameFailure::ExpectedClustersMissing))
        }
        Scope::Cluster | Scope::Host => service.missing_at(labels).map(Failure::Missing),
    };
    if let Some(failure) = failure {
        return match prefix {
            Prefix::None | Prefix::Port(..) => Reading::Failing(zone, service, failure),
            Prefix::Protocol(_) => Reading::Empty(zone),
        };
    }
    if covered.is_empty() {
        return missing(reason_without_endpoint(service, labels));
    }
    // One port or property, and not all ports of the service: their number must not determine the time.
    let in_scope = |bits: &'t [u64]| selectable(service, scope, covered.clone(), bits);
    let port = match prefix {
        Prefix::None => None,
        Prefix::Protocol(protocol) => {
            let is_above = Property::of_protocol(protocol)
                .is_some_and(|it| !in_scope(&[]).requiring(it).is_empty());
            return if is_above {
                Reading::Empty(zone)
            } else {
                missing(MissingReason::NoPort)
            };
        }
        Prefix::Port(name, protocol) => {
            let mut named = service.names.named_ports(&service.endpoints);
            match named.find(|(port, _)| port.is_named(name, protocol)) {
                Some(port) if !in_scope(port.1).is_empty() => Some(port),
                _ => return missing(MissingReason::NoPort),
            }
        }
    };
    Reading::View(zone, View::new(service, scope, covered, port, targets))
}

/// Returns the reason why a scope covers no endpoint.
fn reason_without_endpoint(service: &Service, scope: &[&str]) -> MissingReason {
    match scope {
        _ if service.endpoints.is_empty() => MissingReason::NoEndpoint,
        [_, cluster] if !service.endpoints_at(&[*cluster]).is_empty() => MissingReason::NoHost,
        _ => MissingReason::NoCluster,
    }
}

// === impl Prefix ===

impl<'n> Prefix<'n> {
    /// Splits the labels with underscores from the others (RFC 2782).
    fn split<'l>(labels: &'l [&'n str]) -> (Self, &'l [&'n str]) {
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
}
