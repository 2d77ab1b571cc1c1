//! The grammar of the Multi-Cluster Services API: names in zones with the profile `mcs` (KEP-1645, rule K9).
//!
//! | name | meaning |
//! |---|---|
//! | `S.N.svc.Z` | all endpoints of a service |
//! | `H.C.S.N.svc.Z` | one endpoint |
//! | `_P._R.S.N.svc.Z` | the endpoints that have the port |
//!
//! The specification allows no records at `C.S.N.svc.Z`. That name exists only if endpoints with a hostname are below it
//! (RFC 8020). There are no short names.

use super::Zone;
use super::name::Name;
use super::read::{Lookup, Prefix, look_up};
use super::reading::{MissingReason, Reading, Targets};
use crate::table::{Service, Table};

/// The label before the namespace's parent, the zone.
const SVC: &str = "svc";

/// Interprets the labels below the apex of a zone with the profile `mcs`.
pub(super) fn read_cluster_set<'t>(
    zone: &'t Zone,
    table: &'t Table,
    name: &Name,
    labels: &[&str],
) -> Reading<'t> {
    let (prefix, path) = Prefix::split(labels);
    let exists = |exists: bool, reason| match exists {
        true => Reading::Empty(zone),
        false => Reading::Missing(zone, reason),
    };
    let lookup = match path {
        [SVC] if prefix.is_none() => {
            return exists(
                table.has_cluster_set_names_in(None),
                MissingReason::NoService,
            );
        }
        [namespace, SVC] if prefix.is_none() => {
            let has_names = table.has_cluster_set_names_in(Some(namespace));
            return exists(has_names, MissingReason::NoService);
        }
        [cluster, service, namespace, SVC] if prefix.is_none() => {
            let service = table.service_in_cluster_set(namespace, service);
            let has_hosts = service.is_some_and(|service| has_hosts(service, cluster));
            return exists(has_hosts, MissingReason::NoForm);
        }
        [scope @ .., service, namespace, SVC] if scope.is_empty() || prefix.is_none() => {
            let targets = Targets::ClusterSet(name.start_of(labels.len() - 3));
            let service = table.service_in_cluster_set(namespace, service);
            look_up(service, scope, prefix, targets)
        }
        _ => Lookup::Missing(MissingReason::NoForm),
    };
    match lookup {
        Lookup::View(view) => Reading::View(zone, view),
        Lookup::Awaiting(service) => Reading::Awaiting(zone, service),
        Lookup::Empty => Reading::Empty(zone),
        Lookup::Missing(reason) => Reading::Missing(zone, reason),
    }
}

/// Returns whether a cluster has endpoints with a hostname.
fn has_hosts(service: &Service, cluster: &str) -> bool {
    let endpoints = service.in_cluster(cluster);
    endpoints.iter().any(|endpoint| endpoint.hostname.is_some())
}
