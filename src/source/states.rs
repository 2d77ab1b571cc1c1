//! Builds tables, and advances the states of their services (rules K7, K8), also when a delay ends.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use tracing::info;

use super::Feeds;
use crate::clock::unix_milliseconds;
use crate::model::ServiceKey;
use crate::table::failover::{Delays, Timestamp};
use crate::table::state::advance;
use crate::table::store::ServiceKeys;
use crate::table::{Built, Rules, Store, Table, build};

/// The delays, and the services with a delay that has not ended.
#[derive(Debug)]
pub(super) struct States<'f> {
    delays: Delays,
    feeds: &'f Feeds,
    wakes: BTreeMap<ServiceKey, Timestamp>,
    /// The start of this clock: Unix milliseconds, and an instant that the system clock does not change.
    start: (u64, Instant),
}

impl<'f> States<'f> {
    /// Starts without any service.
    pub(super) fn new(delays: Delays, feeds: &'f Feeds) -> Self {
        Self {
            delays,
            feeds,
            wakes: BTreeMap::new(),
            start: (unix_milliseconds(), Instant::now()),
        }
    }

    /// Builds the table that follows `last`, and advances the services that were built. The delay of a failover does not
    /// apply to the table of a snapshot and to the first complete table.
    pub(super) fn build(
        &mut self,
        last: &Table,
        store: &mut Store,
        dirty: &ServiceKeys,
        rules: &Rules,
        is_first: bool,
    ) -> Built {
        let delays = if is_first {
            Delays {
                failover: Duration::ZERO,
                ..self.delays
            }
        } else {
            self.delays
        };
        let built = build(last, store, dirty, rules);
        let advanced = advance(built, store, rules, self.now(), delays);
        for (service, wake) in advanced.wakes {
            match wake {
                Some(wake) => self.wakes.insert(service, wake),
                None => self.wakes.remove(&service),
            };
        }
        self.feeds.note_failovers(advanced.transitions.len());
        for service in &advanced.opened {
            info!(%service, "All expected clusters have been seen; the name of the service is answered");
        }
        advanced.built
    }

    /// Returns the time until the next delay ends.
    pub(super) fn next_wake(&self) -> Option<Duration> {
        let first = self.wakes.values().min()?;
        Some(Duration::from_millis(first.0.saturating_sub(self.now().0)))
    }

    /// Removes and returns the services with a delay that has ended.
    pub(super) fn take_due(&mut self) -> ServiceKeys {
        let now = self.now();
        let due = self.wakes.iter().filter(|(_, wake)| **wake <= now);
        let due: ServiceKeys = due.map(|(service, _)| service.clone()).collect();
        self.wakes.retain(|_, wake| *wake > now);
        due
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.start.0).after(self.start.1.elapsed())
    }
}

#[cfg(test)]
mod tests;
