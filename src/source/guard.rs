//! `--shrink-guard`: a list that would remove most of the table is held until a second list confirms it.
//!
//! A list may be complete, well-formed and wrong. Examples: an API server that was restored from an empty backup, a
//! proxy that leads to another cluster, a truncated file. Deletions by single watch events are never held.
//!
//! Ten or fewer services may lose any share, but not all: a list of the API server that would remove every service is
//! held. Files may lose up to ten services at once, because a user who tries things out deletes everything.
//!
//! The decision compares two tables: the current one, and the one that the list leads to. Endpoints of each
//! [origin](EndpointOrigin) are compared by themselves, so that the Services of this cluster do not hide that all mirrors are
//! missing.
//!
//! Endpoints with a [slice](has_slice) are compared by themselves, too. Without its slices, a mirror of a whole Service or an
//! exported Service with a cluster IP is down or not ready. A wrong list of slices would therefore take these endpoints out of names,
//! or let another step of a failover order answer. Without the slices of endpoint mirrors, all of them are alive (rule M3),
//! and such a list is applied.
//!
//! Nothing of a list that is held is applied. [`Feeds`] requests another list of the feed after a pause. That list is applied,
//! whether or not it confirms the held one. One decision covers all first lists after a start: they are compared with the
//! table of a snapshot, or with the table from before a panic. Without such a table, nothing is held.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use tracing::info;

use super::backoff::jittered;
use super::{Feed, Feeds, log_problem};
use crate::model::{Kind, Problem, ProblemKind, ServiceKey};
use crate::table::change::{Change, ChangeKind};
use crate::table::{Endpoint, EndpointLiveness, Service, ServiceKind, Table};

/// The smallest number of services to which the share applies. Fewer services may lose any share, but not all.
const MIN_GUARDED_SERVICES: usize = 11;

/// Time for which a list is held before another one is requested. With jitter of a fifth and the time that a list takes,
/// the second list is complete within half a minute. After a shorter pause, one outage could cause both lists. A longer
/// pause would keep answering names that are gone.
const PAUSE: Duration = Duration::from_secs(20);

/// The share of the table that one list may remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShrinkGuard {
    /// The share in percent that one list may remove, of the services and of each service's endpoints;
    /// `None`: everything.
    pub percent: Option<u8>,
    /// The largest number of services that one list may remove if no other remains.
    pub max_emptied: usize,
    /// Time for which a list is held before another one is requested, without jitter.
    pub pause: Duration,
}

/// The number of services that have the endpoints of one comparison, and how many of them keep these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shrinkage {
    total: usize,
    remaining: usize,
}

/// The objects that an endpoint comes from. A wrong list concerns one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EndpointOrigin {
    /// Mirrors of Linkerd.
    Mirror,
    /// A Service of this cluster, with a cluster IP.
    LocalService,
    /// Slices of this cluster, with pods.
    LocalSlice,
    /// A ServiceImport, with its addresses.
    Import,
    /// Slices of a ServiceImport.
    ImportSlice,
}

/// The endpoints of one comparison: their origin, and whether only those with a slice count.
type CountedEndpoints = (EndpointOrigin, bool);

/// The decision on lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// The lists are applied.
    Apply,
    /// The lists are not applied.
    Hold,
}

/// The guard against lists that remove too much of the table.
#[derive(Debug)]
pub(super) struct Guard {
    rule: ShrinkGuard,
    feeds: Feeds,
    /// Feeds whose list is held, and the time from which another list confirms it.
    held: BTreeMap<Feed, Instant>,
}

// === impl ShrinkGuard ===

impl ShrinkGuard {
    /// Creates the guard for lists of an API server, with a share in percent.
    pub fn new(percent: Option<u8>) -> Self {
        Self {
            percent,
            max_emptied: 0,
            pause: PAUSE,
        }
    }

    /// Adapts the guard to files.
    pub fn for_files(self) -> Self {
        Self {
            max_emptied: MIN_GUARDED_SERVICES - 1,
            ..self
        }
    }

    /// Returns whether one list must not remove `lost` of `total` services.
    fn is_too_much(self, lost: usize, total: usize) -> bool {
        let is_guarded = if lost == total {
            total > self.max_emptied
        } else {
            total >= MIN_GUARDED_SERVICES
        };
        is_guarded && self.is_over_share(lost, total)
    }

    /// Returns whether `lost` exceeds the allowed share of `total`.
    fn is_over_share(self, lost: usize, total: usize) -> bool {
        self.percent
            .is_some_and(|percent| lost * 100 > usize::from(percent) * total)
    }
}

// === impl Shrinkage ===

impl Shrinkage {
    /// Adds a service with endpoints, by their numbers in two tables.
    fn add(&mut self, before: usize, after: usize, rule: ShrinkGuard) {
        let is_removed = rule.is_over_share(before.saturating_sub(after), before);
        self.total += 1;
        self.remaining += usize::from(!is_removed);
    }

    /// Returns whether one list must not remove that many services.
    fn is_too_much(self, rule: ShrinkGuard) -> bool {
        rule.is_too_much(self.total - self.remaining, self.total)
    }
}

// === impl EndpointOrigin ===

impl EndpointOrigin {
    fn of(endpoint: &Endpoint) -> Self {
        let has_slices = || {
            let mut objects = endpoint.objects.iter();
            objects.all(|(kind, _)| *kind == Kind::EndpointSlice)
        };
        match endpoint.kind {
            ServiceKind::Import if has_slices() => Self::ImportSlice,
            ServiceKind::Import => Self::Import,
            ServiceKind::Local if has_slices() => Self::LocalSlice,
            ServiceKind::Local => Self::LocalService,
            ServiceKind::Headless
            | ServiceKind::Federated
            | ServiceKind::Gateway
            | ServiceKind::Flat => Self::Mirror,
        }
    }
}

/// Counts the endpoints of a service for each comparison.
fn count(service: &Service) -> BTreeMap<CountedEndpoints, usize> {
    let mut counts = BTreeMap::new();
    for endpoint in &service.endpoints {
        let origin = EndpointOrigin::of(endpoint);
        *counts.entry((origin, false)).or_default() += 1;
        if has_slice(endpoint) {
            *counts.entry((origin, true)).or_default() += 1;
        }
    }
    counts
}

/// Returns whether a slice says that the endpoint is alive, or that its gateway is down. Only endpoints that are down or not ready
/// without a slice count. One that is down or not ready for another reason may lack its slice.
fn has_slice(endpoint: &Endpoint) -> bool {
    let origin = EndpointOrigin::of(endpoint);
    let needs_slice =
        endpoint.kind == ServiceKind::Gateway || origin == EndpointOrigin::LocalService;
    needs_slice
        && matches!(
            endpoint.liveness,
            EndpointLiveness::Alive | EndpointLiveness::GatewayDown
        )
}

// === impl Guard ===

impl Guard {
    pub(super) fn new(rule: ShrinkGuard, feeds: Feeds) -> Self {
        Self {
            rule,
            feeds,
            held: BTreeMap::new(),
        }
    }

    /// Compares two tables by the endpoints of each origin, in the namespaces of `feeds`.
    pub(super) fn compare(&self, last: &Table, next: &Table, feeds: &[Feed]) -> Vec<Shrinkage> {
        let is_covered = |key: &ServiceKey| {
            let mut namespaces = feeds.iter().map(|feed| feed.namespace.as_ref());
            namespaces.any(|namespace| namespace.is_none_or(|name| *name == key.namespace))
        };
        let mut shrinkages: BTreeMap<CountedEndpoints, Shrinkage> = BTreeMap::new();
        for service in last.services().filter(|service| is_covered(&service.key)) {
            let key = &service.key;
            let after = next.service(key.namespace.as_str(), key.service.as_str());
            let after = after.map(count).unwrap_or_default();
            for (comparison, before) in count(service) {
                let after = after.get(&comparison).copied().unwrap_or_default();
                let shrinkage = shrinkages.entry(comparison).or_default();
                shrinkage.add(before, after, self.rule);
            }
        }
        shrinkages.into_values().collect()
    }

    /// Decides whether to apply or hold lists of `feeds`. If one list would remove too much, all of them are held.
    pub(super) fn decide(&mut self, feeds: &[Feed], shrinkages: Vec<Shrinkage>) -> Decision {
        let mut shrinkages = shrinkages.into_iter();
        let Some(shrinkage) = shrinkages.find(|one| one.is_too_much(self.rule)) else {
            let outcome = "was not confirmed; a later list is applied";
            self.release(feeds, "List was not confirmed; dropped it", outcome);
            return Decision::Apply;
        };
        let now = Instant::now();
        let is_confirmed = |feed| self.held.get(feed).is_some_and(|due| now >= *due);
        if feeds.iter().all(is_confirmed) {
            let outcome = "was confirmed and is applied";
            self.release(feeds, "List was confirmed; applied it", outcome);
            return Decision::Apply;
        }
        self.hold(feeds, shrinkage, now + jittered(self.rule.pause));
        Decision::Hold
    }

    /// Holds lists of `feeds`. A list that is not held yet is held until `due`.
    fn hold(&mut self, feeds: &[Feed], shrinkage: Shrinkage, due: Instant) {
        let Shrinkage { total, remaining } = shrinkage;
        for feed in feeds {
            let detail = format!(
                "it would leave {remaining} of {total} services; a second list must confirm it"
            );
            let problem = Problem::new(ProblemKind::ListHeld, detail).of_name(feed.to_string());
            let is_new = !self.held.contains_key(feed);
            if is_new {
                self.held.insert(feed.clone(), due);
                log_problem(&problem);
            }
            let event = is_new.then(|| Change::new(ChangeKind::ListHeld, problem.to_string()));
            let hold = || self.feeds.hold(feed, problem, self.held[feed]);
            self.feeds.events().record_with(event, hold);
        }
    }

    /// Drops held lists of `feeds`. For each, logs a line and records an event with the outcome.
    fn release(&mut self, feeds: &[Feed], line: &str, outcome: &str) {
        for feed in feeds {
            if self.held.remove(feed).is_some() {
                info!(%feed, "{line}");
                let text = format!("{feed}: the list {outcome}.");
                let event = Change::new(ChangeKind::ListAccepted, text);
                let release = || self.feeds.release(feed);
                self.feeds.events().record_with([event], release);
            }
        }
    }
}

#[cfg(test)]
mod tests;
