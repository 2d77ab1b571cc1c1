//! `--shrink-guard`: a list that would drop most of the table is held until another one says the same.
//!
//! An API server that was restored from an empty backup, a proxy in front of another cluster, a file that was truncated:
//! each answers a list that is complete, well-formed, and wrong. What single events delete is never held: somebody deleted
//! it. Few services may shrink at once. But a list of the API server that would leave none of them is held, however few
//! there are. Files may lose few services altogether: who tries things out deletes everything, and waits for it.
//!
//! A list is judged by the services that it speaks of: those that its feed had objects of. It drops a service if it lacks
//! most of those objects, or if the service would lose most of its endpoints. So the mirrors of a service are not given
//! up because its local member remains, nor the state of its gateways because the mirrors do.
//!
//! Held means that nothing of the list is applied. [`Feeds`] asks the source for another list of the feed after a pause,
//! and whatever that one says is applied. The first lists after a start are judged as one, by the table that a snapshot or
//! a source that panicked has left; without one there is nothing to lose.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use super::backoff::jittered;
use super::{Feed, Feeds};
use crate::mirror::ServiceKey;
use crate::table::Table;
use crate::table::inputs::Loss;

/// Fewer services may shrink to any share, but for none.
const SMALLEST_TABLE: usize = 11;

/// How long a list is held before another one is asked for: with its spread of a fifth, and the time that a list takes,
/// within half a minute. Shorter, and both might come from the same hiccup; longer, and names that are gone for good
/// would be answered for longer than anybody expects.
const PAUSE: Duration = Duration::from_secs(20);

/// What may go at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShrinkGuard {
    /// The share of the services, and of what each of them has, in percent, that one list may drop; `None`: all.
    pub percent: Option<u8>,
    /// So many services may go altogether.
    pub may_empty: usize,
    /// How long, about, a list is held before another one is asked for.
    pub pause: Duration,
}

/// How many services a list speaks of, and how many of them it would leave. Those without endpoints do not count: they
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
    /// Makes the guard of a share in percent, for the lists of an API server.
    pub fn new(percent: Option<u8>) -> Self {
        Self {
            percent,
            may_empty: 0,
            pause: PAUSE,
        }
    }

    /// Makes it one for files.
    pub fn of_files(self) -> Self {
        Self {
            may_empty: SMALLEST_TABLE - 1,
            ..self
        }
    }

    /// Tells whether losing `lost` out of `there` services is more than may go at once.
    fn is_too_much(self, lost: usize, there: usize) -> bool {
        let is_guarded = match lost == there {
            true => there > self.may_empty,
            false => there >= SMALLEST_TABLE,
        };
        is_guarded && self.is_most(lost, there)
    }

    /// Tells whether `lost` is more than the share of `there`.
    fn is_most(self, lost: usize, there: usize) -> bool {
        self.percent
            .is_some_and(|percent| lost * 100 > usize::from(percent) * there)
    }
}

// === impl Shrinkage ===

impl Shrinkage {
    /// Compares two tables by the services in `losses`: by their endpoints, and by the objects that a list lacks.
    pub(super) fn between(
        last: &Table,
        next: &Table,
        losses: &BTreeMap<ServiceKey, Loss>,
        rule: ShrinkGuard,
    ) -> Self {
        let mut shrinkage = Self { there: 0, left: 0 };
        let endpoints = |table: &Table, key: &ServiceKey| {
            let service = table.service(key.namespace.as_str(), key.service.as_str());
            service.map_or(0, |service| service.endpoints.len())
        };
        for (key, loss) in losses {
            let (before, after) = (endpoints(last, key), endpoints(next, key));
            if before == 0 {
                continue;
            }
            let is_dropped = rule.is_most(loss.gone, loss.seen)
                || rule.is_most(before.saturating_sub(after), before);
            shrinkage.there += 1;
            shrinkage.left += usize::from(!is_dropped);
        }
        shrinkage
    }

    /// Tells whether this is more than may go at once.
    fn is_too_much(self, rule: ShrinkGuard) -> bool {
        rule.is_too_much(self.there - self.left, self.there)
    }
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

    /// Returns what may go at once.
    pub(super) fn rule(&self) -> ShrinkGuard {
        self.rule
    }

    /// Tells whether a list that lacks or changes `lost` objects needs a closer look: an object is of one service, so
    /// most lists never do. `leaves_none` tells whether none of its services is as it was.
    pub(super) fn suspects(&self, lost: usize, leaves_none: impl FnOnce() -> bool) -> bool {
        self.rule.is_too_much(lost, SMALLEST_TABLE)
            || (self.rule.is_too_much(lost, lost) && leaves_none())
    }

    /// Judges lists of `feeds`, by the first that would drop too much: holds them, or lets them pass.
    pub(super) fn judge(
        &mut self,
        feeds: &[Feed],
        would: impl IntoIterator<Item = Shrinkage>,
    ) -> Verdict {
        let mut would = would.into_iter();
        let Some(shrinkage) = would.find(|would| would.is_too_much(self.rule)) else {
            self.release(feeds, "A list that was held is not confirmed: dropped");
            return Verdict::Passes;
        };
        let now = Instant::now();
        let is_confirmed = |feed| self.held.get(feed).is_some_and(|due| now >= *due);
        if feeds.iter().all(is_confirmed) {
            self.release(feeds, "A list that was held is confirmed: applied");
            return Verdict::Passes;
        }
        self.hold(feeds, shrinkage, now + jittered(self.rule.pause));
        Verdict::Held
    }

    /// Holds lists of `feeds`; those that were not held yet, until `due`.
    fn hold(&mut self, feeds: &[Feed], Shrinkage { there, left }: Shrinkage, due: Instant) {
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
