//! What changed in the summary, for a client that has it and follows it in the stream of events.

use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use super::head::Head;
use super::state::AdminState;
use crate::model::ServiceKey;
use crate::report::ServiceRow;

/// The pause between two looks. In a storm of changes, each client gets one message per second.
const PAUSE: Duration = Duration::from_secs(1);

/// The time after which the problems of the server are looked at, if the table does not change.
const IDLE: Duration = Duration::from_secs(5);

/// A client that follows the summary.
pub(super) struct SummaryFollower {
    state: AdminState,
    /// The number of the table that the client knows.
    tables: u64,
    /// The head that the client knows. `None`: the one of its summary.
    head: Option<Head>,
    /// The next look at the earliest.
    next: Instant,
    /// Whether a look was put off until then.
    is_put_off: bool,
}

/// What changed in the summary.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct SummaryChanges {
    /// The number of tables since the start, as in the head.
    tables: u64,
    /// The rows that are new or differ.
    services: Vec<ServiceRow>,
    /// The services without a row, as `namespace/name`.
    removed: Vec<String>,
    /// The head, if it differs in more than the numbers of the table.
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<Head>,
}

/// More changed than is known by name, or all: the client must load the summary again.
#[derive(Debug, PartialEq)]
pub(super) struct TooMany;

// === impl SummaryFollower ===

impl SummaryFollower {
    pub(super) fn new(state: AdminState, tables: u64) -> Self {
        Self {
            state,
            tables,
            head: None,
            next: Instant::now(),
            is_put_off: false,
        }
    }

    /// Returns the time of the next look, if no event comes before.
    pub(super) fn next_look(&self) -> Instant {
        if self.is_put_off {
            self.next
        } else {
            Instant::now() + IDLE
        }
    }

    /// Returns what changed since the last look, if something did.
    pub(super) fn look(&mut self) -> Option<Result<SummaryChanges, TooMany>> {
        let moment = Instant::now();
        self.is_put_off = moment < self.next;
        if self.is_put_off {
            return None;
        }
        self.next = moment + PAUSE;
        // In this order, the table is at least as new as the list of changed services.
        let latest = self.state.feeds.events.latest();
        let changed = self.state.feeds.events.changed_after(self.tables);
        self.tables = latest.version;
        let now = self.state.reader.load();
        let head = Head::new(&self.state, &now, latest);
        let is_same = self.head.as_ref().is_some_and(|known| known.is_like(&head));
        self.head = Some(head.clone());
        let Some(changed) = changed else {
            return Some(Err(TooMany));
        };
        if is_same && changed.is_empty() {
            return None;
        }
        let find = |key: &ServiceKey| {
            let service = now.table.as_ref()?.find(key);
            service.filter(|service| service.is_listed())
        };
        let mut changes = SummaryChanges {
            tables: latest.version,
            services: Vec::new(),
            removed: Vec::new(),
            head: (!is_same).then_some(head),
        };
        for key in &changed {
            match find(key) {
                Some(service) => {
                    let row = ServiceRow::new(&self.state.zones, &now, service);
                    changes.services.push(row);
                }
                None => changes.removed.push(key.to_string()),
            }
        }
        Some(Ok(changes))
    }
}

#[cfg(test)]
mod tests;
