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

/// The meaning of a name in a zone, or why it does not exist.
type Lookup<'t> = Result<Reading<'t>, MissingReason>;

/// Interprets a name.
pub fn read<'t>(zones: &'t Zones, table: &'t Table, name: &Name) -> Reading<'t> {
    let Some((zone, below)) = zones.find(name) else {
        return Reading::Outside;
    };
    match read_in(zones, zone, table, name, below) {
        Ok(reading) => reading,
        // RFC 8020 section 2, RFC 4592 section 2.2.2
        Err(_) if zones.has_apex_below(name) => Reading::Empty(zone),
        Err(reason) => Reading::Missing(zone, reason),
    }
}

/// Interprets a name with this number of labels below a zone.
fn read_in<'t>(
    zones: &'t Zones,
    zone: &'t Zone,
    table: &'t Table,
    name: &Name,
    below: usize,
) -> Lookup<'t> {
    // The longest form is `_P._R.H.C.S.N`.
    let mut labels = [""; 6];
    let (Some(labels), Some(own)) = (labels.get_mut(..below), name.labels(below)) else {
        return Err(MissingReason::NoForm);
    };
    for (to, label) in labels.iter_mut().zip(own) {
        *to = label;
    }
    Ok(match (&*labels, &zone.grammar) {
        ([], _) => Reading::Apex(zone, zones.parent(zone)),
        (["ns", "dns"], _) => Reading::NsHost(zone),
        (["dns-version"], _) => Reading::Version(zone),
        (labels, Grammar::Global) => return below_apex(zone, table, name, labels),
        (["dns"], _) => Reading::Empty(zone),
        (labels, Grammar::Mcs) => return read_mcs(zone, table, name, labels),
        (labels, Grammar::Cluster(cluster)) => {
            return read_of_cluster(zone, cluster, table, name, labels);
        }
    })
}

/// Interprets the labels below the apex of a zone: as a canonical name, or else as a short name.
fn below_apex<'t>(zone: &'t Zone, table: &'t Table, name: &Name, labels: &[&str]) -> Lookup<'t> {
    let (prefix, path) = Prefix::split(labels);
    if prefix != Prefix::None && is_of_zone(path) {
        return Err(MissingReason::NoForm); // these names have no ports
    }
    if let [scope @ .., service, namespace] = path
        && let Some(service) = table.service(namespace, service)
        && !yields(table, service)
    {
        // The name belongs to the service of that namespace, even if it does not exist.
        let targets = Targets::SameFamily(name.start_of(labels.len() - 2));
        return look_up(zone, service, scope, prefix, targets);
    }
    match read_short(zone, table, name, labels.len(), prefix, path) {
        Err(_) if is_parent(table, labels) => Ok(Reading::Empty(zone)),
        Err(reason) => Err(reason.max(MissingReason::NoService)),
        found => found,
    }
}

/// Interprets a short name with this number of labels below the apex of a zone.
fn read_short<'t>(
    zone: &'t Zone,
    table: &'t Table,
    name: &Name,
    below: usize,
    prefix: Prefix<'_>,
    path: &[&str],
) -> Lookup<'t> {
    let (service, scope) = path.split_last().ok_or(MissingReason::NoService)?;
    let short = table.short_name(service).ok_or(MissingReason::NoService)?;
    let owner = table.owner(service, short).ok_or(MissingReason::NoOwner)?;
    // The names of one cluster are all hidden or none.
    let targets = if short.has_hidden() && scope.is_empty() {
        Targets::Canonical(name.start_of(below))
    } else {
        Targets::SameFamily(name.start_of(below - 1))
    };
    look_up(zone, owner, scope, prefix, targets)
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
fn read_mcs<'t>(zone: &'t Zone, table: &'t Table, name: &Name, labels: &[&str]) -> Lookup<'t> {
    let (prefix, path) = Prefix::split(labels);
    let (is_parent, reason) = match path {
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
            let service = table.service(namespace, service);
            let targets = Targets::Mcs(name.start_of(labels.len() - 3));
            let service = service.ok_or(MissingReason::NoService)?;
            return look_up(zone, service, scope, prefix, targets);
        }
        _ => (false, MissingReason::NoForm),
    };
    is_parent.then_some(Reading::Empty(zone)).ok_or(reason)
}

/// Interprets the labels below the apex of a zone of one cluster.
fn read_of_cluster<'t>(
    zone: &'t Zone,
    cluster: &ClusterName,
    table: &'t Table,
    name: &Name,
    labels: &[&str],
) -> Lookup<'t> {
    let (prefix, path) = Prefix::split(labels);
    let [scope @ .., service, namespace] = path else {
        return match path {
            [namespace] if prefix == Prefix::None && table.has_names_of(cluster, namespace) => {
                Ok(Reading::Empty(zone))
            }
            _ => Err(MissingReason::NoService),
        };
    };
    if is_of_zone(path) {
        return Err(MissingReason::NoForm); // this name has no ports
    }
    let service = table
        .service(namespace, service)
        .ok_or(MissingReason::NoService)?
        .without_alias();
    let targets = Targets::OfCluster(name.start_of(labels.len() - 2));
    match scope {
        [] => look_up(zone, service, &[cluster.as_str()], prefix, targets),
        [host] => look_up(zone, service, &[host, cluster.as_str()], prefix, targets),
        _ => Err(MissingReason::NoForm),
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

/// Looks up a part of a service.
fn look_up<'t>(
    zone: &'t Zone,
    service: &'t Service,
    labels: &[&str],
    prefix: Prefix<'_>,
    targets: Targets,
) -> Lookup<'t> {
    let scope = match labels {
        [] => Scope::Service,
        [_] => Scope::Cluster,
        [_, _] => Scope::Host,
        _ => return Err(MissingReason::NoForm),
    };
    let covered = service.range_at(labels);
    let failure = match labels {
        [] => Failure::of_service(service),
        _ if !covered.is_empty() => None,
        [.., cluster] if service.awaits(cluster) => {
            Some(Failure::Rule(NameFailure::ExpectedClustersMissing))
        }
        _ => service.missing_at(labels).map(Failure::Missing),
    };
    if let Some(failure) = failure {
        return Ok(match prefix {
            Prefix::None | Prefix::Port(..) => Reading::Failing(zone, service, failure),
            Prefix::Protocol(_) => Reading::Empty(zone),
        });
    }
    if covered.is_empty() {
        return Err(reason_without_endpoint(service, labels));
    }
    // One port or property, and not all ports of the service: their number must not determine the time.
    let in_scope = |bits: &'t [u64]| selectable(service, scope, covered.clone(), bits);
    let port = match prefix {
        Prefix::None => None,
        Prefix::Protocol(protocol) => {
            return Property::of_protocol(protocol)
                .filter(|property| !in_scope(&[]).requiring(*property).is_empty())
                .map(|_| Reading::Empty(zone))
                .ok_or(MissingReason::NoPort);
        }
        Prefix::Port(name, protocol) => {
            let port = service
                .names
                .named_ports(&service.endpoints)
                .find(|(port, _)| port.is_named(name, protocol))
                .filter(|(_, bits)| !in_scope(bits).is_empty());
            Some(port.ok_or(MissingReason::NoPort)?)
        }
    };
    let view = View::new(service, scope, covered, port, targets);
    Ok(Reading::View(zone, view))
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
