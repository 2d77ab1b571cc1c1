//! What metrics and status say about the content of a table. It is computed once for each published table, by the first
//! request that needs it, because it takes milliseconds with 100,000 endpoints.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use strum::{VariantArray as _, VariantNames as _};

use super::{Causes, EndpointState, NameReply, State, Verdict};
use crate::model::{ProblemKind, ServiceKey, Timestamp};
use crate::table::links::LinkState;
use crate::table::{Moment, Published, ServiceKind, Table};
use crate::zone::Zones;

/// Maximum number of clusters with metrics of their own: those with the most endpoints. Everybody who can create a
/// Service in a watched namespace can invent clusters.
pub const MAX_CLUSTERS: usize = 100;

/// The name in metrics for all other clusters together.
const OTHER: &str = "other";

/// Maximum number of failing services with a metric of their own. The problems have all of them.
pub const MAX_FAILING: usize = 100;

/// The interval of the moments at which answers are compared. It is much longer than that of scrapes, so that the last samples of
/// all replicas are usually of the same moment.
const COMPARED_EVERY: Duration = Duration::from_secs(300);

/// The facts about the current table. Clones share them.
#[derive(Clone, Default)]
pub struct CurrentFacts(Arc<Mutex<Known>>);

/// The facts about the table that was asked for last. A weak reference does not keep that table in memory.
#[derive(Default)]
struct Known {
    table: Weak<Published>,
    facts: Arc<TableFacts>,
    /// The last moment at which answers are compared, and their hash.
    compared: (Timestamp, Option<u64>),
}

/// The facts about one table.
#[derive(Default)]
pub struct TableFacts {
    /// The hash of all answers.
    pub hash: u64,
    /// The numbers of services.
    pub services: BTreeMap<ServiceKind, u32>,
    /// The numbers of services by their state.
    pub(super) states: BTreeMap<State, u32>,
    /// The numbers of endpoints. Those of small clusters are together.
    pub endpoints: BTreeMap<EndpointLabels, u32>,
    /// The numbers of clusters of Linkerd's mirrors by the state of their Links.
    pub clusters: BTreeMap<&'static str, u32>,
    /// The first services that fail, each with the kind of its problem, if one is known.
    pub failing: Vec<(Option<ProblemKind>, ServiceKey)>,
    /// The problems of objects and services.
    pub causes: Causes,
}

/// What endpoints are counted by. The name of a cluster is borrowed while they are counted.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EndpointLabels<C = String> {
    /// The cluster.
    pub cluster: C,
    /// The state.
    pub state: EndpointState,
    /// Whether the name of their service returns them.
    pub is_returned: bool,
}

// === impl CurrentFacts ===

impl CurrentFacts {
    /// Returns the facts about a published table.
    pub fn of(&self, zones: &Zones, now: &Arc<Published>) -> Arc<TableFacts> {
        let mut known = self.0.lock();
        if !std::ptr::eq(known.table.as_ptr(), Arc::as_ptr(now)) {
            known.facts = Arc::new(TableFacts::of(zones, now));
            known.table = Arc::downgrade(now);
        }
        known.facts.clone()
    }

    /// Returns the hash of all answers at the last moment at which replicas are compared: a multiple of five minutes of the
    /// clock. So replicas that are scraped at different times can be compared while answers change. Returns `None` if this
    /// process does not know its answers of that moment, which `at` returns.
    pub fn compared_hash(
        &self,
        now: Timestamp,
        at: impl FnOnce(Timestamp) -> Option<Moment>,
    ) -> Option<u64> {
        let interval = u64::try_from(COMPARED_EVERY.as_millis()).unwrap_or(u64::MAX);
        let moment = Timestamp(now.0 - now.0 % interval);
        let mut known = self.0.lock();
        if known.compared.0 != moment {
            let whole = at(moment).filter(|then| then.incomplete.is_empty());
            let hash = whole.and_then(|then| {
                let table = then.published.table.as_ref()?;
                // Usually, nothing has changed since.
                let is_known = std::ptr::eq(known.table.as_ptr(), Arc::as_ptr(&then.published));
                Some(if is_known {
                    known.facts.hash
                } else {
                    table.answers_hash()
                })
            });
            known.compared = (moment, hash);
        }
        known.compared.1
    }
}

// === impl TableFacts ===

impl TableFacts {
    /// Computes the facts.
    pub(super) fn of(zones: &Zones, now: &Published) -> Self {
        let empty = Table::default();
        let table = now.table.as_ref().unwrap_or(&empty);
        let mut services = count(ServiceKind::VARIANTS);
        let mut states = count(State::VARIANTS);
        let mut failing: BTreeMap<&ServiceKey, Option<ProblemKind>> = BTreeMap::new();
        for service in table.services() {
            let verdict = Verdict::of(zones, now, service);
            let Some(verdict) = verdict.filter(|_| service.should_answer()) else {
                continue;
            };
            *services.entry(service.kind).or_default() += 1;
            *states.entry(verdict.state).or_default() += 1;
            if verdict.state == State::Failing {
                failing.insert(&service.key, verdict.problem);
            }
        }
        let first = failing.iter().take(MAX_FAILING);
        let mut clusters = count(LinkState::VARIANTS);
        for link in table.links.by_name().into_values() {
            *clusters.entry(link.state.into()).or_default() += 1;
        }
        Self {
            hash: table.answers_hash(),
            services,
            states,
            endpoints: count_endpoints(zones, now, table),
            clusters,
            failing: first
                .map(|(key, kind)| (*kind, ServiceKey::clone(key)))
                .collect(),
            causes: Causes::of(table, &failing.keys().copied().collect()),
        }
    }

    /// Returns how bad the state of the worst service is.
    pub(super) fn worst_state(&self) -> State {
        let found = self.states.iter().filter(|(_, count)| **count > 0);
        found.map(|(state, _)| *state).max().unwrap_or_default()
    }
}

/// Returns zero for each of a set of values.
fn count<T: Copy + Ord>(all: &[T]) -> BTreeMap<T, u32> {
    all.iter().map(|one| (*one, 0)).collect()
}

/// Counts the endpoints.
fn count_endpoints(zones: &Zones, now: &Published, table: &Table) -> BTreeMap<EndpointLabels, u32> {
    let mut sizes: BTreeMap<&str, u32> = BTreeMap::new();
    for service in table.services() {
        for endpoint in service.endpoints.iter().chain(&service.not_ready) {
            *sizes.entry(endpoint.labels()[1]).or_default() += 1;
        }
    }
    let mut by_size: Vec<&str> = sizes.keys().copied().collect();
    by_size.sort_by_key(|name| Reverse(sizes[name]));
    let own: BTreeSet<&str> = by_size.into_iter().take(MAX_CLUSTERS).collect();
    let mut endpoints = BTreeMap::new();
    let listed = |service| NameReply::of_own_name(zones, now, service).endpoints(service);
    for one in table.services().flat_map(listed) {
        let labels = EndpointLabels {
            cluster: own.get(one.cluster()).copied().unwrap_or(OTHER),
            state: one.state,
            is_returned: one.is_returned,
        };
        *endpoints.entry(labels).or_default() += 1;
    }
    let owned = endpoints.into_iter().map(|(one, count)| {
        let labels = EndpointLabels {
            cluster: one.cluster.to_owned(),
            state: one.state,
            is_returned: one.is_returned,
        };
        (labels, count)
    });
    owned.collect()
}
