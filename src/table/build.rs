//! The step from the store to a table: the rules of [`table`](super). It is a pure function, without a clock, I/O, locks, or logs.
//!
//! [`build`] rebuilds the services that changed and shares all others with the previous table. A build of all services
//! gives the same table; a property test checks this.

use std::sync::Arc;

use super::items::Items;
use super::kind::Profile;
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

/// Builds the table that follows `last` after the services in `dirty` changed.
pub fn build(last: &Table, store: &Store, dirty: &ServiceKeys, rules: &Rules) -> Built {
    let services = with_expected_services(last, with_listing_services(last, dirty), rules);
    let dirty = &services;
    let mut table = last.clone();
    table.skipped = store.skipped().clone();
    if rules.has_cluster_sets {
        table.cluster_set.get_or_insert_default();
    }
    let mut is_changed = table.skipped != last.skipped;
    for key in dirty {
        is_changed |= update_non_member(&mut table, key, store, rules);
        let new = build_service(Profile::Global, key, store, rules).map(Arc::new);
        if let Some(services) = &mut table.cluster_set {
            // The gate opens for the zones of both profiles at once.
            let other = build_service(Profile::ClusterSet, key, store, rules).map(|other| {
                let gate = new.as_ref().and_then(|new| new.gate.clone());
                Arc::new(Service { gate, ..other })
            });
            let is_alike = other == new;
            is_changed |= services.replace(key, if is_alike { new.clone() } else { other });
        }
        let old = last.service(key.namespace.as_str(), key.service.as_str());
        if !table.global.replace(key, new.clone()) {
            continue;
        }
        is_changed = true;
        let new = new.as_deref();
        match new {
            Some(new) if !new.awaited().is_empty() => table.awaiting.insert_mut(key.clone()),
            _ => _ = table.awaiting.remove_mut(key),
        }
        if rules.has_reverse_zones {
            let (old, new) = (index::addresses(old), index::addresses(new));
            index::update(&mut table.addresses, key, &old, &new);
        }
        let (hosts, new_hosts) = (index::listed_hosts(old), index::listed_hosts(new));
        index::update(&mut table.listed_hosts, key, &hosts, &new_hosts);
    }
    is_changed |= short::assign_owners(last, &mut table, dirty, rules);
    short::update_problems(&mut table, dirty, rules);
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

#[cfg(test)]
mod tests;
