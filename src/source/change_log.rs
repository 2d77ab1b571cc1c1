//! Tells what a table changes: the keys to open streams at once; events, and lines of the log, when the changes of one cluster and
//! kind have been merged.

use std::sync::Arc;

use tracing::{debug, info, warn};

use super::events::{Events, TimedChange, Window};
use super::problem_log::{log_new, log_problem};
use crate::clock::unix_milliseconds;
use crate::model::{ClusterName, ServiceKey, Timestamp, list_some};
use crate::table::change::Change;
use crate::table::diff::{diff, diff_links};
use crate::table::links::LinkStates;
use crate::table::store::ServiceKeys;
use crate::table::{Published, Service, Table};

/// Maximum number of services in a line of the log. The event has more.
const MAX_LOGGED_SERVICES: usize = 5;

/// The log of changes and problems. A problem is logged once, when it appears.
#[derive(Debug, Default)]
pub(super) struct ChangeLog {
    /// Whether the warning about the default cluster name was logged.
    warned_of_cluster_name: bool,
    window: Window,
}

impl ChangeLog {
    /// Tells what a table that was published after `last` changes. `built` are the services in which they may differ, and `time` is
    /// that of the clock of the process.
    pub(super) fn note_published(
        &mut self,
        last: &Published,
        now: &Arc<Published>,
        built: &ServiceKeys,
        events: &Events,
        time: Timestamp,
    ) {
        let Some(next) = &now.table else { return };
        let last_table = last.table.as_ref();
        let find = |table: Option<&'_ Table>, key: &ServiceKey| -> Option<*const Service> {
            table?.find(key).map(std::ptr::from_ref)
        };
        // Both tables share a service that did not change.
        let is_changed = |key: &&ServiceKey| find(last_table, key) != find(Some(next), key);
        let keys: Vec<&ServiceKey> = built.iter().filter(is_changed).collect();
        events.note_table(now, last_table.map(|_| &*keys));
        let changes = changes(last_table, next, &keys);
        log_new(last_table, next, &keys, &changes);
        self.warn_of_cluster_name(next, &keys);
        let (generation, serial, services) = (now.generation, now.serial, keys.len());
        // Each of the others has lines of its changes.
        if last.generation == 0 {
            info!(generation, serial, services, "Published table");
        } else {
            debug!(generation, serial, services, "Published table");
        }
        events.count(&changes);
        let moment = Timestamp(unix_milliseconds());
        for change in changes {
            let undone = self.window.add(change, moment, time);
            record(undone, events);
        }
    }

    /// Records the changes that have waited long enough.
    pub(super) fn record_due(&mut self, events: &Events, time: Timestamp) {
        record(self.window.take_due(time), events);
    }

    /// Records all changes that wait, before the process ends.
    pub(super) fn record_all(&mut self, events: &Events) {
        record(self.window.take_all(), events);
    }

    /// Returns when [`Self::record_due`] has something to record.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.window.next_due()
    }

    fn warn_of_cluster_name(&mut self, next: &Table, keys: &[&ServiceKey]) {
        if self.warned_of_cluster_name {
            return;
        }
        let mut services = keys.iter().filter_map(|key| next.find(key));
        if let Some(problem) = services.find_map(Service::default_cluster_name) {
            self.warned_of_cluster_name = true;
            log_problem(&problem);
        }
    }
}

/// Returns the changes of services and links. Those of the first table are the links that need attention.
fn changes(last: Option<&Table>, next: &Table, keys: &[&ServiceKey]) -> Vec<Change> {
    let Some(last) = last else {
        return diff_links(&LinkStates::default(), next.links());
    };
    let services = keys
        .iter()
        .flat_map(|key| diff(last.find(key), next.find(key)));
    let links = diff_links(last.links(), next.links());
    links.into_iter().chain(services).collect()
}

fn record(changes: Vec<TimedChange>, events: &Events) {
    for (moment, change) in &changes {
        log_change(change, *moment);
    }
    events.record(changes);
}

/// Logs a change, with the fields and the sentence of its event.
fn log_change(change: &Change, moment: Timestamp) {
    macro_rules! line {
        ($level:ident) => {
            $level!(
                time = moment.to_exact_text(),
                kind = <&str>::from(change.kind),
                services = %list_some(&change.services, MAX_LOGGED_SERVICES),
                cluster = change.cluster.as_ref().map(ClusterName::as_str),
                before = change.before.as_deref(),
                after = change.after.as_deref(),
                cause = change.cause.as_deref(),
                count = change.count,
                "{}",
                change.text
            )
        };
    }
    if change.is_trouble() {
        line!(warn);
    } else {
        line!(info);
    }
}
