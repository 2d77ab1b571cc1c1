//! Inputs → table: rules M1–M10. Pure: values in, a value out; no clock, no I/O, no lock, no log.
//!
//! [`build`] makes the services anew that changed and shares the others with the table before. Building everything at
//! once gives the same table; a property test says so.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::inputs::{Dirty, Inputs};
use super::local::non_member_of;
use super::members::build_service;
use super::{Endpoint, Service, Table, short};
use crate::mirror::{ClusterName, GatewayDown, Namespace, Port, ServiceKey, ServiceName};

/// What the operator wants of the model: the flags that decide over membership and names.
#[derive(Clone, Debug)]
pub struct Rules {
    /// `--cluster-name`: this cluster's name, in every cluster the same.
    pub cluster_name: ClusterName,
    /// `--cluster-alias LINK=NAME`: names of links → names of clusters.
    pub cluster_aliases: BTreeMap<ClusterName, ClusterName>,
    /// `--exclude-cluster`, by the name after aliases.
    pub excluded_clusters: BTreeSet<ClusterName>,
    /// `--ttl`, seconds.
    pub ttl: u32,
    /// `--ttl-max`, seconds: what an annotation may ask for.
    pub ttl_max: u32,
    /// `--gateway-down`.
    pub gateway_down: GatewayDown,
    /// `--local-members`.
    pub local_members: LocalMembers,
    /// `--short-names`.
    pub short_names: ShortNames,
    /// `--short-name S=N`.
    pub pinned_names: BTreeMap<ServiceName, Namespace>,
    /// `--default-namespace`.
    pub default_namespace: Option<Namespace>,
    /// Octets of the longest zone's name on the wire: decides which names exceed DNS limits (RFC 1035 section 2.3.4).
    pub longest_zone: usize,
    /// `--reverse-zone`: names of addresses are asked for, which takes an index.
    pub has_reverse_zones: bool,
}

/// Which headless Services of this cluster join (rule M5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalMembers {
    /// Those that are exported or have a mirror of the same name.
    Matching,
    /// Those that are exported.
    Exported,
    /// None.
    Off,
}

/// Which names without a namespace are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShortNames {
    /// Every service's, unless several namespaces have it.
    On,
    /// Only those that a flag assigns to a namespace.
    Pinned,
    /// None.
    Off,
}

/// The outcome of a build.
#[derive(Debug)]
pub struct Built {
    /// The next table.
    pub table: Table,
    /// It answers some question otherwise than the one before.
    pub answers_moved: bool,
}

/// Builds the table that follows `last` after the services in `dirty` changed.
pub fn build(last: &Table, inputs: &Inputs, dirty: &Dirty, rules: &Rules) -> Built {
    let mut table = last.clone();
    table.skipped = inputs.skipped().clone();
    let mut answers_moved = false;
    let mut come_or_gone = Vec::new();
    for key in dirty {
        note_non_member(&mut table, key, inputs, rules);
        let old = last.service(key.namespace.as_str(), key.service.as_str());
        let new = build_service(key, inputs, rules);
        if old == new.as_ref() {
            continue;
        }
        answers_moved |= !same_answers(old, new.as_ref());
        if old.is_some() != new.is_some() {
            come_or_gone.push(key);
        }
        if rules.has_reverse_zones {
            index_addresses(&mut table, key, old, new.as_ref());
        }
        put(&mut table, key, new);
    }
    answers_moved |= short::assign(last, &mut table, dirty, rules);
    short::note_conflicts(&mut table, dirty);
    // Even a service without endpoints hides short names. If what it hides has itself come or gone, answers moved by that.
    let mut come_or_gone = come_or_gone.into_iter();
    answers_moved |= come_or_gone.any(|key| short::hides(&table, key));
    Built {
        table,
        answers_moved,
    }
}

/// Notes why the headless Service of this cluster with a service's name is no member, if it is none.
fn note_non_member(table: &mut Table, key: &ServiceKey, inputs: &Inputs, rules: &Rules) {
    let why = non_member_of(key, inputs, rules);
    if table.non_members.get(key) == why.as_ref() {
        return; // nothing is copied
    }
    match why {
        Some(why) => table.non_members.insert(key.clone(), why),
        None => table.non_members.remove(key),
    };
}

/// Notes which addresses lead to a service now.
fn index_addresses(
    table: &mut Table,
    key: &ServiceKey,
    old: Option<&Service>,
    new: Option<&Service>,
) {
    let ips = |service: Option<&Service>| -> BTreeSet<IpAddr> {
        let endpoints = service.into_iter().flat_map(|service| &service.endpoints);
        endpoints
            .flat_map(|endpoint| &endpoint.addresses)
            .map(|address| address.ip)
            .collect()
    };
    let (old, new) = (ips(old), ips(new));
    if old == new {
        return;
    }
    // Where they lie: thousands of services may have one address, and a copy of all of them for each would take for ever.
    let addresses = &mut table.addresses;
    for gone in old.difference(&new) {
        let Some(services) = addresses.get_mut(gone) else {
            continue;
        };
        let services = Arc::make_mut(services);
        services.remove(key);
        if services.is_empty() {
            addresses.remove_mut(gone);
        }
    }
    for added in new.difference(&old) {
        match addresses.get_mut(added) {
            Some(services) => {
                Arc::make_mut(services).insert(key.clone());
            }
            None => {
                let services = BTreeSet::from([key.clone()]);
                addresses.insert_mut(*added, Arc::new(services));
            }
        }
    }
}

/// Puts the new version of a service in the place of the old one.
fn put(table: &mut Table, key: &ServiceKey, service: Option<Service>) {
    let has_endpoints = |service: &Service| usize::from(!service.endpoints.is_empty());
    // Taken out, so that it is copied once for a build and not for each of its services.
    let mut namespace = table.namespaces.remove(&key.namespace).unwrap_or_default();
    let of_namespace = Arc::make_mut(&mut namespace);
    of_namespace.with_endpoints += service.as_ref().map_or(0, has_endpoints);
    let services = &mut of_namespace.services;
    let old = match service {
        Some(service) => services.insert(key.service.clone(), Arc::new(service)),
        None => services.remove(&key.service),
    };
    of_namespace.with_endpoints -= old.map_or(0, |old| has_endpoints(&old));
    if !of_namespace.services.is_empty() {
        table.namespaces.insert(key.namespace.clone(), namespace);
    }
}

// === Whether answers moved ===

/// Tells whether two versions of a service answer every question alike.
fn same_answers(one: Option<&Service>, other: Option<&Service>) -> bool {
    let endpoints = |service: Option<&Service>| service.map_or(0, |s| s.endpoints.len());
    match (one, other) {
        (Some(one), Some(other)) if !one.endpoints.is_empty() => {
            one.ttl == other.ttl
                && one.endpoints.len() == other.endpoints.len()
                && one
                    .endpoints
                    .iter()
                    .zip(&other.endpoints)
                    .all(|(a, b)| same_rows(a, b))
                && (same_liveness(one, other) || omitted(one) == omitted(other))
        }
        (one, other) => endpoints(one) == 0 && endpoints(other) == 0,
    }
}

fn same_rows(one: &Endpoint, other: &Endpoint) -> bool {
    let ips = |endpoint: &Endpoint| endpoint.addresses.iter().map(|a| a.ip).collect::<Vec<_>>();
    one.is_host(other) && one.ports == other.ports && ips(one) == ips(other)
}

fn same_liveness(one: &Service, other: &Service) -> bool {
    let pairs = one.endpoints.iter().zip(&other.endpoints);
    one.gateway_down == other.gateway_down && pairs.into_iter().all(|(a, b)| a.alive == b.alive)
}

/// Lists what owner names omit of the endpoints that they cover: the service's and the clusters' names, each with and
/// without each port. It numbers the endpoints of one name after the other.
pub(super) fn omitted(service: &Service) -> Vec<u32> {
    if service.endpoints.iter().all(|endpoint| endpoint.alive) {
        return Vec::new();
    }
    let clusters = service
        .clusters()
        .map(|cluster| service.in_cluster(cluster.as_str()));
    let (mut omitted, mut number) = (Vec::new(), 0);
    for scope in std::iter::once(service.endpoints.as_slice()).chain(clusters) {
        // By port, so that the work follows the ports that there are: who writes Services chooses how many.
        let mut names = BTreeMap::from([(None, scope.iter().collect::<Vec<_>>())]);
        for endpoint in scope {
            for Port { name, protocol, .. } in &endpoint.ports {
                if let Some(name) = name {
                    let name = Some((name, protocol));
                    names.entry(name).or_default().push(endpoint);
                }
            }
        }
        for covered in names.values() {
            let down = service.gateway_down;
            let shows_dead = down.shows_dead(false, covered.iter().copied());
            for endpoint in covered {
                if !endpoint.alive && !shows_dead {
                    omitted.push(number);
                }
                number += 1;
            }
        }
    }
    omitted
}

// === impl Rules ===

impl Rules {
    /// Returns the name of the cluster that a link leads to.
    pub fn name_of(&self, link: &ClusterName) -> ClusterName {
        self.cluster_aliases.get(link).unwrap_or(link).clone()
    }
}

#[cfg(test)]
mod tests;
