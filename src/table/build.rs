//! The step from the store to a table: the rules of [`table`](super). It is a pure function, without a clock, I/O, locks, or logs.
//!
//! [`build`] rebuilds the services that changed and shares all others with the previous table. A build of all services
//! gives the same table; a property test checks this.

use std::sync::Arc;

use super::items::Items;
use super::local::non_member;
use super::members::build_service;
use super::rules::Rules;
use super::store::{ServiceKeys, Store};
use super::{Service, Table, index, short};
use crate::model::ServiceKey;

/// The outcome of a build.
#[derive(Debug)]
pub struct Built {
    /// The next table.
    pub table: Table,
    /// Whether the table differs from the previous one.
    pub is_changed: bool,
    /// The services that were built: those that changed, and those that depend on them.
    pub services: ServiceKeys,
}

/// Numbers of services that have names.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct NameCounts {
    /// In zones with the names of this server.
    pub(super) global: usize,
    /// In zones with the profile `mcs`.
    pub(super) cluster_set: usize,
}

/// Builds the table that follows `last` after the services in `dirty` changed.
pub fn build(last: &Table, store: &Store, dirty: &ServiceKeys, rules: &Rules) -> Built {
    let services = with_expected_services(last, with_listing_services(last, dirty), rules);
    let dirty = &services;
    let mut table = last.clone();
    table.skipped = store.skipped().clone();
    let mut is_changed = table.skipped != last.skipped;
    for key in dirty {
        is_changed |= update_non_member(&mut table, key, store, rules);
        let old = last.service(key.namespace.as_str(), key.service.as_str());
        let new = build_service(key, store, rules);
        if old == new.as_ref() {
            continue;
        }
        is_changed = true;
        if rules.has_reverse_zones {
            let (old, new) = (index::addresses(old), index::addresses(new.as_ref()));
            index::update(&mut table.addresses, key, &old, &new);
        }
        let (hosts, new_hosts) = (index::listed_hosts(old), index::listed_hosts(new.as_ref()));
        index::update(&mut table.listed_hosts, key, &hosts, &new_hosts);
        replace_service(&mut table, key, new);
    }
    is_changed |= short::assign_owners(last, &mut table, dirty, rules);
    short::update_conflicts(&mut table, dirty, rules);
    Built {
        table,
        is_changed,
        services,
    }
}

/// Records why the headless Service of this cluster is not a member of a service. Returns whether the record changed.
fn update_non_member(table: &mut Table, key: &ServiceKey, store: &Store, rules: &Rules) -> bool {
    let new = non_member(&Items::of(key, store), rules);
    if table.non_members.get(key) == new.as_ref() {
        return false; // the shared map is not copied
    }
    match new {
        Some(new) => table.non_members.insert(key.clone(), new),
        None => table.non_members.remove(key),
    };
    true
}

/// Adds the services that list a host with the name of a service that changed (rule M1b).
fn with_listing_services(last: &Table, dirty: &ServiceKeys) -> ServiceKeys {
    let listing = dirty.iter().filter_map(|key| {
        let host = (key.namespace.clone(), key.service.text().clone());
        last.listed_hosts.get(&host)
    });
    let listing = listing.flat_map(|services| services.iter().cloned());
    dirty.iter().cloned().chain(listing).collect()
}

/// Adds the services that exist without an object, because a flag expects clusters (rule K8).
fn with_expected_services(last: &Table, mut dirty: ServiceKeys, rules: &Rules) -> ServiceKeys {
    let is_new = |key: &&ServiceKey| {
        last.service(key.namespace.as_str(), key.service.as_str())
            .is_none()
    };
    let expected = rules.expected_clusters.keys().filter(is_new);
    dirty.extend(expected.cloned());
    dirty
}

/// Replaces a service with its new version.
fn replace_service(table: &mut Table, key: &ServiceKey, service: Option<Service>) {
    // The namespace is removed first, so that it is copied once for each build and not for each of its services.
    let mut namespace = table.namespaces.remove(&key.namespace).unwrap_or_default();
    let namespace_table = Arc::make_mut(&mut namespace);
    namespace_table.with_names.add(service.as_ref());
    match &service {
        Some(new) if !new.awaited().is_empty() => table.awaiting.insert_mut(key.clone()),
        _ => _ = table.awaiting.remove_mut(key),
    }
    let services = &mut namespace_table.services;
    let old = match service {
        Some(service) => services.insert(key.service.clone(), Arc::new(service)),
        None => services.remove(&key.service),
    };
    namespace_table.with_names.remove(old.as_deref());
    if !namespace_table.services.is_empty() {
        table.namespaces.insert(key.namespace.clone(), namespace);
    }
}

// === impl NameCounts ===

impl NameCounts {
    fn add(&mut self, service: Option<&Service>) {
        let [global, cluster_set] = Self::of(service);
        self.global += global;
        self.cluster_set += cluster_set;
    }

    fn remove(&mut self, service: Option<&Service>) {
        let [global, cluster_set] = Self::of(service);
        self.global -= global;
        self.cluster_set -= cluster_set;
    }

    /// Returns the counts of one service.
    fn of(service: Option<&Service>) -> [usize; 2] {
        let Some(service) = service else {
            return [0; 2];
        };
        let versions = [
            service,
            service.in_cluster_set.as_deref().unwrap_or(service),
        ];
        versions.map(|version| usize::from(version.has_names()))
    }
}

#[cfg(test)]
mod tests;
