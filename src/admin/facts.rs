//! What metrics and status say about the content of a table. It is computed once for each published table, by the first
//! request that needs it, because it takes milliseconds with 100,000 endpoints.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::model::{Problem, ProblemKind};
use crate::report::EndpointState;
use crate::table::links::LinkState;
use crate::table::{Published, Service, ServiceKind, Table};

/// Maximum number of clusters with metrics of their own: those with the most endpoints. Everybody who can create a
/// Service in a watched namespace can invent clusters.
pub(super) const MAX_CLUSTERS: usize = 100;

/// The name in metrics for all other clusters together.
const OTHER_CLUSTERS: &str = "other";

/// The facts about the current table. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct CurrentFacts(Arc<Mutex<Known>>);

/// The facts about the table that was asked for last. A weak reference does not keep that table in memory.
#[derive(Debug, Default)]
struct Known {
    table: Weak<Published>,
    facts: Arc<TableFacts>,
}

/// The facts about one table.
#[derive(Debug, Default, PartialEq)]
pub(super) struct TableFacts {
    /// The hash of all answers.
    pub(super) hash: u64,
    /// The numbers of services.
    pub(super) services: BTreeMap<ServiceKind, u32>,
    /// The numbers of endpoints by cluster and state.
    pub(super) endpoints: BTreeMap<(String, &'static str), u32>,
    /// The numbers of clusters of Linkerd's mirrors by the state of their Links.
    pub(super) clusters: BTreeMap<&'static str, u32>,
    /// The numbers of clusters that left a service: those of services that are not watched, and those of watched ones.
    pub(super) left: [u32; 2],
    /// The problems of objects and services.
    pub(super) problems: Groups,
}

/// Problems by kind: their number, and the first of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Groups(BTreeMap<ProblemKind, (u32, Problem)>);

// === impl Groups ===

impl Groups {
    /// Adds a problem.
    pub(super) fn add(&mut self, problem: &Problem) {
        let group = self.0.entry(problem.kind);
        let (count, first) = group.or_insert_with(|| (0, problem.clone()));
        *count += 1;
        if problem < first {
            *first = problem.clone();
        }
    }

    /// Returns the number of problems of a kind.
    pub(super) fn count(&self, kind: ProblemKind) -> u32 {
        self.0.get(&kind).map_or(0, |(count, _)| *count)
    }

    /// Returns the groups of problems that somebody should look at.
    pub(super) fn serious(&self) -> impl Iterator<Item = &(u32, Problem)> {
        self.0.values().filter(|(_, first)| first.is_serious())
    }
}

// === impl CurrentFacts ===

impl CurrentFacts {
    /// Returns the facts about a published table.
    pub(super) fn of(&self, now: &Arc<Published>) -> Arc<TableFacts> {
        let mut known = self.0.lock();
        if !std::ptr::eq(known.table.as_ptr(), Arc::as_ptr(now)) {
            let empty = Table::default();
            let facts = TableFacts::of(now.table.as_ref().unwrap_or(&empty));
            *known = Known {
                table: Arc::downgrade(now),
                facts: Arc::new(facts),
            };
        }
        known.facts.clone()
    }
}

// === impl TableFacts ===

impl TableFacts {
    fn of(table: &Table) -> Self {
        let mut services = BTreeMap::from(ServiceKind::ALL.map(|kind| (kind, 0)));
        for service in table.services().filter(|service| service.is_listed()) {
            *services.entry(service.kind).or_default() += 1;
        }
        let mut clusters = BTreeMap::from(LinkState::NAMES.map(|name| (name, 0)));
        for link in table.links().clusters.values() {
            *clusters.entry(link.state.name()).or_default() += 1;
        }
        let mut left = [0; 2];
        for service in table.services() {
            left[usize::from(service.is_watched)] += service.left.len() as u32;
        }
        let mut problems = Groups::default();
        table.problems().for_each(|problem| problems.add(&problem));
        let default_name = table.services().filter_map(Service::default_cluster_name);
        default_name.min().iter().for_each(|one| problems.add(one));
        Self {
            hash: table.answers_hash(),
            services,
            endpoints: count_endpoints(table),
            clusters,
            left,
            problems,
        }
    }
}

/// Counts the endpoints by cluster and state, those of small clusters together.
fn count_endpoints(table: &Table) -> BTreeMap<(String, &'static str), u32> {
    let mut clusters: BTreeMap<&str, BTreeMap<&'static str, u32>> = BTreeMap::new();
    for (endpoint, state) in table.services().flat_map(EndpointState::of_service) {
        let states = clusters.entry(endpoint.labels()[1]).or_default();
        *states.entry(state.name()).or_default() += 1;
    }
    let mut by_size: Vec<_> = clusters.keys().copied().collect();
    by_size.sort_by_cached_key(|name| Reverse(clusters[name].values().sum::<u32>()));
    let own: BTreeSet<&str> = by_size.into_iter().take(MAX_CLUSTERS).collect();
    let mut endpoints = BTreeMap::new();
    for (name, states) in &clusters {
        let name = own.get(name).copied().unwrap_or(OTHER_CLUSTERS);
        for (state, count) in states {
            *endpoints.entry((name.to_owned(), *state)).or_default() += count;
        }
    }
    endpoints
}
