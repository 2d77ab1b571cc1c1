//! The step from the store to a table: the rules of [`table`](super). It is a pure function, without a clock, I/O, locks, or logs.
//!
//! [`build`] rebuilds the services that changed and shares all others with the previous table. A build of all services
//! gives the same table; a property test checks this.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::content::KnownClusters;
use super::diff::has_same_answers;
use super::items::Items;
use super::local::non_member;
use super::members::{BuildContext, build_service};
use super::rules::Rules;
use super::store::{ServiceKeys, Store};
use super::timers::{ServiceTimers, Timers};
use super::{Service, Table, index, short};
use crate::model::{ClusterName, Problem, ProblemKind, ServiceKey};

/// The outcome of a build.
#[derive(Debug)]
pub struct Built {
    /// The next table.
    pub table: Table,
    /// Whether answers or problems differ from those of the previous table.
    pub is_changed: bool,
    /// Whether answers differ.
    pub has_other_answers: bool,
    /// The services that were built: those that changed, and those that depend on them.
    pub services: ServiceKeys,
    /// What the next build remembers of these services.
    pub timers: Vec<(ServiceKey, ServiceTimers)>,
}

/// Builds the table that follows `last` after the services in `dirty` changed.
pub fn build(
    last: &Table,
    store: &Store,
    dirty: &ServiceKeys,
    rules: &Rules,
    timers: &Timers,
) -> Built {
    let listing = with_listing_services(last, dirty);
    let mut services = with_services_of_settings(last, with_aliases(listing, rules), rules);
    let mut table = last.clone();
    let known = known_clusters(store, rules);
    if *table.known_clusters.0 != known {
        services.extend(services_that_name(
            &(&*table.known_clusters.0 ^ &known),
            last,
        ));
        table.known_clusters = KnownClusters(Arc::new(known));
    }
    let dirty = &services;
    table.skipped = store.skipped().clone();
    table.links = timers.links.states().clone();
    let mut is_changed = table.skipped != last.skipped || table.links != last.links;
    let mut has_other_answers = false;
    let mut next_timers = Vec::new();
    for key in dirty {
        let items = Items::of(key, store);
        is_changed |= update_non_member(&mut table, key, &items, rules);
        let old = last.service(key.namespace.as_str(), key.service.as_str());
        let context = BuildContext {
            items: &items,
            store,
            rules,
            known_clusters: &table.known_clusters.0.clone(),
            timers,
            old,
        };
        let mut next = ServiceTimers::default();
        let new = build_service(key, context, &mut next).map(|new| {
            Arc::new(match timers.seen() {
                Some(now) => new.with_times(old, now),
                None => new,
            })
        });
        if timers.of(key).unwrap_or(&ServiceTimers::default()) != &next {
            next_timers.push((key.clone(), next));
        }
        if !table.services.replace(key, new.clone()) {
            continue;
        }
        is_changed = true;
        let new = new.as_deref();
        has_other_answers |= !has_same_answers(old, new);
        match new {
            Some(new) if !new.missing_clusters().is_empty() => {
                table.waiting.insert_mut(key.clone());
            }
            _ => _ = table.waiting.remove_mut(key),
        }
        let (hosts, new_hosts) = (index::listed_hosts(old), index::listed_hosts(new));
        index::update(&mut table.listed_hosts, key, &hosts, &new_hosts);
    }
    let has_other_owners = short::assign_owners(&mut table, dirty, rules);
    short::update_problems(&mut table, dirty, rules, timers);
    Built {
        table,
        is_changed: is_changed || has_other_owners,
        has_other_answers: has_other_answers || has_other_owners,
        services,
        timers: next_timers,
    }
}

/// Records why the headless Service of this cluster is not a member of a service. Returns whether the record changed.
fn update_non_member(
    table: &mut Table,
    key: &ServiceKey,
    items: &Items<'_>,
    rules: &Rules,
) -> bool {
    let new = non_member(items, rules);
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
    let listing = dirty
        .iter()
        .filter_map(|key| {
            let host = (key.namespace.clone(), key.service.text().clone());
            last.listed_hosts.get(&host)
        })
        .flat_map(|services| services.iter().cloned());
    dirty.iter().cloned().chain(listing).collect()
}

/// Adds the aliases of services that changed.
fn with_aliases(mut dirty: ServiceKeys, rules: &Rules) -> ServiceKeys {
    let aliases = dirty.iter().flat_map(|key| rules.aliases.of_source(key));
    let aliases: Vec<ServiceKey> = aliases.cloned().collect();
    dirty.extend(aliases);
    dirty
}

/// Returns the clusters that something here knows: by a mirror or a Link, and this cluster. Excluded clusters are none.
fn known_clusters(store: &Store, rules: &Rules) -> BTreeSet<ClusterName> {
    let links = store.links().map(|(_, cluster)| cluster);
    let remote = store.linked_clusters().chain(links);
    let remote = remote.map(|cluster| rules.name_of(cluster));
    let all = remote.chain([rules.cluster_name.clone()]);
    all.filter(|cluster| !rules.excluded_clusters.contains(cluster))
        .collect()
}

/// Returns the services with a failover order that names one of these clusters, or an unknown one: its problem says the
/// nearest name of all that are known (rule K5a). Reads every service, because a cluster appears rarely.
fn services_that_name(clusters: &BTreeSet<ClusterName>, last: &Table) -> Vec<ServiceKey> {
    let is_unknown = |problem: &Problem| problem.kind == ProblemKind::UnknownCluster;
    let names = |service: &&Service| {
        let failover = service.failover.as_ref();
        failover.is_some_and(|one| one.order.named().any(|name| clusters.contains(name)))
            || service.problems.iter().any(is_unknown)
    };
    let services = last.services().filter(names);
    services.map(|service| service.key.clone()).collect()
}

/// Adds the services that exist without an object, because the settings have an order or an alias for them (rule K5).
fn with_services_of_settings(last: &Table, mut dirty: ServiceKeys, rules: &Rules) -> ServiceKeys {
    let is_new = |key: &&ServiceKey| {
        last.service(key.namespace.as_str(), key.service.as_str())
            .is_none()
    };
    let ordered = rules.ordered_services();
    let of_settings = ordered.chain(rules.aliases.names());
    dirty.extend(of_settings.filter(is_new).cloned());
    dirty
}

#[cfg(test)]
mod tests;
