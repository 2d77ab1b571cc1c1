//! Estimates of the memory that an earlier table needs: of what the next table does not share with it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::content::Table;
use super::endpoint::Endpoint;
use super::gate::Gate;
use super::index::{self, Index};
use super::links::ClusterLink;
use super::service::Service;
use super::shared::ALLOCATION;
use super::short_name::ShortName;
use super::store::ServiceKeys;
use crate::model::{ClusterName, Few, ObjectRef, Problem, ServiceKey, Timestamp};

/// Size of a node of an index, and the nodes on the way to it that a change copies.
const NODE: usize = 128;
const NODES: usize = 20;

/// Size of the smallest node of a set of services, and of an entry in a tree that is half empty.
const SET_NODE: usize = 11 * size_of::<ServiceKey>();
const SET_ENTRY: usize = 2 * size_of::<ServiceKey>();

/// Allocators round sizes up, and lists that shrink leave holes: measured, the resident memory of a service with 5,000 endpoints
/// is 1.4 times its size.
const ROUNDING: (usize, usize) = (3, 2);

// === impl Table ===

impl Table {
    /// Estimates the size of what it has and the next table does not share with it, in octets. Texts and lists of ports are
    /// interned, so that they cost nothing more. `changed` are the services of which the next table has another version.
    pub(super) fn unshared(&self, next: &Self, changed: &ServiceKeys) -> usize {
        let services = self
            .services
            .unshared(&next.services, |service| size(service));
        let short_names = self.short_names.unshared(&next.short_names, |own, other| {
            let is_shared = other.is_some_and(|other| Arc::ptr_eq(own, other));
            let namespaces = own.headless.len() + own.others.len() + own.failing.len();
            let size = 4 * ALLOCATION + size_of::<ShortName>() + namespaces * size_of::<usize>();
            if is_shared { 0 } else { size }
        });
        let non_members = self.non_members.unshared(&next.non_members, |_, _| 0);
        let skipped = self.skipped.unshared(&next.skipped, |own, other| {
            let is_shared = other.is_some_and(|other| Arc::ptr_eq(own, other));
            if is_shared { 0 } else { size_of_problem(own) }
        });
        let links = if Arc::ptr_eq(&self.links, &next.links) {
            0
        } else {
            let link = 2 * ALLOCATION + size_of::<ClusterName>() + size_of::<ClusterLink>();
            self.links.clusters.len() * link
        };
        let name_problems = if Arc::ptr_eq(&self.name_problems, &next.name_problems) {
            0
        } else {
            let problems = self.name_problems.values();
            let sizes = problems
                .map(|list| 4 * ALLOCATION + list.iter().map(size_of_problem).sum::<usize>());
            sizes.sum()
        };
        let sizes = [
            services,
            short_names,
            non_members,
            skipped,
            links,
            name_problems,
            self.unshared_indexes(next, changed),
        ];
        sizes.iter().sum::<usize>() * ROUNDING.0 / ROUNDING.1
    }

    /// Estimates the size of what its indexes of services do not share with those of the next table. The keys of an index that
    /// differ are keys of changed services.
    fn unshared_indexes(&self, next: &Self, changed: &ServiceKeys) -> usize {
        let find = |table: &Self, key: &ServiceKey| {
            let [name, namespace] = key.labels();
            table.services.shared(namespace, name).cloned()
        };
        let (mut hosts, mut waiting) = (BTreeSet::new(), 0);
        for key in changed {
            let versions = [self, next].map(|table| find(table, key));
            let [own, other] = versions.each_ref().map(Option::as_deref);
            hosts.extend(&index::listed_hosts(own) ^ &index::listed_hosts(other));
            waiting += usize::from(self.waiting.contains(key) != next.waiting.contains(key));
        }
        unshared_of_index(&self.listed_hosts, &hosts) + unshared_nodes(self.waiting.size(), waiting)
    }
}

/// Estimates the size of what an index does not share with the next one, in which the sets of these keys differ.
fn unshared_of_index<K: Ord>(own: &Index<K>, keys: &BTreeSet<K>) -> usize {
    let sets = keys.iter().filter_map(|key| own.get(key));
    let sizes = sets.map(|set| ALLOCATION + SET_NODE + set.len() * SET_ENTRY);
    unshared_nodes(own.size(), keys.len()) + sizes.sum::<usize>()
}

/// Estimates the size of the nodes that an index of a size does not share with the next one, in which some keys differ.
fn unshared_nodes(size: usize, changed: usize) -> usize {
    (changed * NODES).min(size) * NODE
}

/// Estimates the size of a service.
fn size(service: &Service) -> usize {
    let problems = service.problems.iter().map(size_of_problem);
    let endpoints = service.endpoints.iter().chain(&service.not_ready);
    let (v4, v6) = (&service.name_addresses.v4, &service.name_addresses.v6);
    let times = service.times.len() * size_of::<(u64, Timestamp)>();
    let mirrors = service.mirrors.len() * size_of::<(ClusterName, ObjectRef)>();
    let others = service.missing.len() + service.shared_ports.len();
    let settings = [service.failover.is_some(), service.gate.is_some()]
        .into_iter()
        .filter(|is_set| *is_set)
        .count();
    4 * ALLOCATION
        + size_of::<Service>()
        + endpoints.map(size_of_endpoint).sum::<usize>()
        + (v4.len() * 4 + v6.len() * 16)
        + (times + mirrors + others * 128)
        + settings * (size_of::<Gate>() + 512)
        + problems.sum::<usize>()
}

/// Estimates the size of an endpoint. It has its first address and object in place, if it has no other.
fn size_of_endpoint(endpoint: &Endpoint) -> usize {
    size_of::<Endpoint>() + size_of_few(&endpoint.addresses) + size_of_few(&endpoint.objects)
}

fn size_of_few<T>(few: &Few<T>) -> usize {
    match few.len() {
        0 | 1 => 0,
        len => ALLOCATION + len * size_of::<T>(),
    }
}

/// Estimates the size of a problem with its texts.
fn size_of_problem(problem: &Problem) -> usize {
    2 * ALLOCATION + size_of::<Problem>() + problem.detail.len()
}

#[cfg(test)]
mod tests;
