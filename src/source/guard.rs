//! `--shrink-guard`: a list that would drop most of the table is held until another one says the same.
//!
//! An API server that was restored from an empty backup, a proxy in front of another cluster, a file that was truncated:
//! each answers a list that is complete, well-formed, and wrong. What single events delete is never held: somebody deleted
//! it. A table without a guard's worth of services is not worth a pause, and before the first table there is nothing to
//! lose.
//!
//! Held means that nothing of the list is applied. [`Feeds`] asks the source for another list of the feed after a pause,
//! and whatever that one says is applied.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use super::backoff::jittered;
use super::{Feed, Feeds};
use crate::table::{Service, Table};

/// Tables with fewer services may lose them all: who tries things out deletes everything.
const SMALLEST_TABLE: usize = 11;

/// How long a list is held before another one is asked for: with its spread of a fifth, and the time that a list takes,
/// within half a minute. Shorter, and both might come from the same hiccup; longer, and names that are gone for good
/// would be answered for longer than anybody expects.
const PAUSE: Duration = Duration::from_secs(20);

/// What may go at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShrinkGuard {
    /// The share of the services, in percent, that one list may drop; `None`: all of them.
    pub percent: Option<u8>,
    /// How long, about, a list is held before another one is asked for.
    pub pause: Duration,
}

/// How many services a table has, and how many of them it would have left. Those without endpoints do not count: they
/// answer nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shrinkage {
    pub(super) there: usize,
    pub(super) left: usize,
}

/// What becomes of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// They are applied.
    Passes,
    /// Nothing of them is.
    Held,
}

/// Judges lists.
#[derive(Debug)]
pub(super) struct Guard {
    rule: ShrinkGuard,
    feeds: Feeds,
    /// Feeds whose list is held, and from when on another one confirms it.
    held: BTreeMap<Feed, Instant>,
}

// === impl ShrinkGuard ===

impl ShrinkGuard {
    /// Makes the guard of a share in percent.
    pub fn new(percent: Option<u8>) -> Self {
        Self {
            percent,
            pause: PAUSE,
        }
    }

    /// Tells whether losing `lost` out of `there` services is more than may go at once.
    fn is_too_much(self, lost: usize, there: usize) -> bool {
        let is_share = |percent| lost * 100 > usize::from(percent) * there;
        there >= SMALLEST_TABLE && self.percent.is_some_and(is_share)
    }
}

// === impl Shrinkage ===

impl Shrinkage {
    /// Compares two tables, as far as lists of `feeds` can speak of them.
    pub(super) fn between(last: &Table, next: &Table, feeds: &[Feed]) -> Self {
        let has_endpoint = |service: &Service| {
            let (namespace, name) = (&service.key.namespace, &service.key.service);
            let service = next.service(namespace.as_str(), name.as_str());
            service.is_some_and(|service| !service.endpoints.is_empty())
        };
        let there = spoken_of(last, feeds);
        Self {
            there: spoken_of(last, feeds).count(),
            left: there.filter(|service| has_endpoint(service)).count(),
        }
    }
}

/// Returns the services with endpoints that lists of `feeds` can speak of: those of their namespaces, or all.
fn spoken_of<'t>(table: &'t Table, feeds: &[Feed]) -> impl Iterator<Item = &'t Service> {
    let is_spoken_of = |service: &Service| {
        let namespace = &service.key.namespace;
        let covers = |feed: &Feed| feed.namespace.as_ref().is_none_or(|of| of == namespace);
        feeds.iter().any(covers)
    };
    table
        .services()
        .filter(move |service| !service.endpoints.is_empty() && is_spoken_of(service))
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

    /// Tells whether lists need a closer look: whether those that lack or change `lost` objects could drop too much of
    /// the table. An object is of one service, so most lists never do.
    pub(super) fn suspects(&self, lost: usize, table: &Table, feeds: &[Feed]) -> bool {
        self.rule.is_too_much(lost, spoken_of(table, feeds).count())
    }

    /// Judges lists of `feeds`: holds them, or lets them pass.
    pub(super) fn judge(&mut self, feeds: &[Feed], would: Shrinkage) -> Verdict {
        let (there, left) = (would.there, would.left);
        if !self.rule.is_too_much(there - left, there) {
            self.release(feeds, "A list that was held is not confirmed: dropped");
            return Verdict::Passes;
        }
        let now = Instant::now();
        let is_confirmed = |feed| self.held.get(feed).is_some_and(|due| now >= *due);
        if feeds.iter().all(is_confirmed) {
            self.release(feeds, "A list that was held is confirmed: applied");
            return Verdict::Passes;
        }
        let due = now + jittered(self.rule.pause);
        for feed in feeds {
            if !self.held.contains_key(feed) {
                self.held.insert(feed.clone(), due);
                warn!(%feed, services = there, left, "Held a list that would drop most services: keeping the last \
                    table until another list says the same");
            }
            let sentence = format!(
                "a list that would leave {left} of {there} services is held until another one says the same"
            );
            self.feeds.hold(feed, sentence, self.held[feed]);
        }
        Verdict::Held
    }

    /// Forgets held lists of `feeds`, because of another one.
    pub(super) fn release(&mut self, feeds: &[Feed], why: &str) {
        for feed in feeds {
            if self.held.remove(feed).is_some() {
                info!(%feed, "{why}");
                self.feeds.release(feed);
            }
        }
    }
}

#[cfg(test)]
mod tests;
