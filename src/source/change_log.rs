//! Records what a table changes: the events, and the lines of the log about changes and problems.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tracing::{debug, info};

use super::events::Events;
use super::gateway_changes::{GatewayChanges, TimedChange};
use super::problem_log::{log_more, log_problem};
use crate::clock::unix_milliseconds;
use crate::model::{ClusterName, Hostname, ProblemKind, ServiceKey, Timestamp};
use crate::table::change::{Change, ChangeKind};
use crate::table::difference::Difference;
use crate::table::store::ServiceKeys;
use crate::table::{Built, Published, Rules, Table};

/// Maximum number of lines about problems of one kind that a table causes. The others are one line with their number:
/// thousands of services may wait for the same gateway.
const MAX_LOGGED: usize = 20;

/// Maximum number of lines about changes within [`LIMIT_INTERVAL`]. Each table has few, but there may be hundreds of tables.
const MAX_LINES: usize = 100;
/// The interval of [`MAX_LINES`].
const LIMIT_INTERVAL: Duration = Duration::from_secs(1);

/// The log of changes and problems. A problem is logged once, when it appears.
#[derive(Debug, Default)]
pub(super) struct ChangeLog {
    /// Whether the warning about the default cluster name was logged.
    warned_of_cluster_name: bool,
    gateways: GatewayChanges,
    lines: LineLimit,
}

/// Limits the lines about changes.
#[derive(Debug, Default)]
struct LineLimit {
    /// The start of the interval.
    start: Timestamp,
    /// The number of changes since then.
    count: usize,
}

impl ChangeLog {
    /// Publishes a table together with its events, and logs its differences from the last one. Events of gateways follow with
    /// [`Self::record_due`]. `time` is that of the clock of the process. Returns the number of failovers.
    pub(super) fn publish(
        &mut self,
        last: &Published,
        built: Built,
        rules: &Rules,
        events: &Events,
        time: Timestamp,
        publish: impl FnOnce(Built) -> Arc<Published>,
    ) -> usize {
        // The events are made before the table is visible. This copy shares its content.
        let next = built.table.clone();
        let services = built.services.clone();
        let own = &rules.cluster_name;
        let difference = Difference::between(last.table.as_ref(), &next, &services, own);
        let changes = difference.changes.clone();
        let now = events.note_published(last, changes, &services, || publish(built));
        let moment = Timestamp(unix_milliseconds());
        self.log_new(&difference, &next, &services);
        for change in &difference.changes {
            self.log_change(change, moment, time);
        }
        let (generation, serial) = (now.generation, now.serial);
        let changed_services = services.len();
        // Each of the others has lines of its changes.
        if last.generation == 0 {
            info!(generation, serial, changed_services, "Published table");
        } else if generation != last.generation {
            debug!(generation, serial, changed_services, "Published table");
        }
        for change in difference.gateways {
            let changes = self.gateways.add(change, moment, time);
            self.record(changes, events, time);
        }
        let failovers = difference
            .changes
            .iter()
            .filter(|change| change.kind == ChangeKind::Failover);
        failovers.map(|change| change.count).sum()
    }

    /// Records the changes of gateways that have waited long enough, and the number of changes that were not logged.
    pub(super) fn record_due(&mut self, events: &Events, time: Timestamp) {
        let changes = self.gateways.take_due(time);
        self.record(changes, events, time);
        self.lines.end(time);
    }

    /// Records all changes that wait, before the process ends.
    pub(super) fn record_all(&mut self, events: &Events, time: Timestamp) {
        let changes = self.gateways.take_all();
        self.record(changes, events, time);
    }

    /// Returns when [`Self::record_due`] has something to record.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let due = self.gateways.next_due().into_iter();
        due.chain(self.lines.due()).min()
    }

    fn record(&mut self, changes: Vec<TimedChange>, events: &Events, time: Timestamp) {
        if changes.is_empty() {
            return;
        }
        for (moment, change) in &changes {
            self.log_change(change, *moment, time);
        }
        events.record_timed(changes);
    }

    fn log_new(&mut self, difference: &Difference<'_>, next: &Table, services: &ServiceKeys) {
        let mut counts: BTreeMap<ProblemKind, usize> = BTreeMap::new();
        for problem in &difference.problems {
            let count = counts.entry(problem.kind).or_default();
            *count += 1;
            if *count <= MAX_LOGGED {
                log_problem(problem);
            }
        }
        for (kind, count) in counts {
            if let Some(more @ 1..) = count.checked_sub(MAX_LOGGED) {
                log_more(kind, more);
            }
        }
        if self.warned_of_cluster_name {
            return;
        }
        let find = |key: &ServiceKey| next.service(key.namespace.as_str(), key.service.as_str());
        let problem = services
            .iter()
            .find_map(|key| find(key)?.default_cluster_name());
        if let Some(problem) = problem {
            self.warned_of_cluster_name = true;
            log_problem(&problem);
        }
    }

    /// Logs a change, with the fields and the sentence of its event.
    fn log_change(&mut self, change: &Change, moment: Timestamp, time: Timestamp) {
        if !self.lines.admits(time) {
            return;
        }
        let service = change.service.as_ref();
        info!(
            time = moment.to_exact_text(),
            kind = <&str>::from(change.kind),
            namespace = service.map(|key| key.namespace.as_str()),
            service = service.map(|key| key.service.as_str()),
            cluster = change.cluster.as_ref().map(ClusterName::as_str),
            hostname = change.hostname.as_ref().map(Hostname::as_str),
            before = change.before.as_deref(),
            after = change.after.as_deref(),
            cause = change.cause.map(<&str>::from),
            object = change.object.as_deref(),
            count = change.count,
            "{}",
            change.text
        );
    }
}

// === impl LineLimit ===

impl LineLimit {
    /// Counts a change, and returns whether it may be logged.
    fn admits(&mut self, now: Timestamp) -> bool {
        self.end(now);
        if self.count == 0 {
            self.start = now;
        }
        self.count += 1;
        self.count <= MAX_LINES
    }

    /// Returns the end of the interval, if changes were not logged.
    fn due(&self) -> Option<Timestamp> {
        (self.count > MAX_LINES).then(|| self.start.after(LIMIT_INTERVAL))
    }

    /// Ends the interval if it is over, with a line about the changes that were not logged.
    fn end(&mut self, now: Timestamp) {
        if now < self.start.after(LIMIT_INTERVAL) {
            return;
        }
        let more = self.count.saturating_sub(MAX_LINES);
        self.count = 0;
        if more > 0 {
            info!(more, "More changes of answers; /api/v1/events has them");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_storm_are_limited_for_each_second() {
        let mut lines = LineLimit::default();
        let at = |second: u64| Timestamp(1_000_000 + 1000 * second);
        // Changes of 500 tables a second.
        for second in 0..3 {
            let admitted =
                (0..500).filter(|two_ms| lines.admits(Timestamp(at(second).0 + 2 * two_ms)));
            assert_eq!(admitted.count(), MAX_LINES);
            assert_eq!(lines.due(), Some(at(second + 1)));
        }
        lines.end(at(3));
        assert_eq!((lines.due(), lines.count), (None, 0));
        // A few have no end to tell.
        assert!(lines.admits(at(4)));
        assert_eq!(lines.due(), None);
    }
}
