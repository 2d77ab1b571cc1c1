//! Changes of gateways, collected so that one sentence describes them.
//!
//! Linkerd's mirror controller writes the slice of each endpoint behind a gateway by itself, some 7 ms after the last one
//! (recordings 05 and 26). So a gateway with 120 endpoints needs a second and 120 tables. Answers change at once. Only the event and
//! the line of the log wait, until no further endpoint has followed for [`QUIET`], but not longer than [`MAX_WAIT`]. Their
//! time is that of the first change.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::model::{Hostname, ServiceKey, Timestamp};
use crate::table::change::{Change, of_gateway};

/// Time without a further endpoint after which the changes of a gateway are recorded.
const QUIET: Duration = Duration::from_millis(500);
/// Maximum time for which a change waits. Many thousands of endpoints have several sentences.
const MAX_WAIT: Duration = Duration::from_secs(3);

/// The changes that wait.
#[derive(Debug, Default)]
pub(super) struct GatewayChanges(Vec<Group>);

/// A change with the time of its event.
pub(super) type TimedChange = (Timestamp, Change);

/// Changes of one gateway in one direction.
#[derive(Debug)]
struct Group {
    /// The time of its event.
    moment: Timestamp,
    /// When the first and the last of its changes came.
    first: Timestamp,
    last: Timestamp,
    /// The first change.
    change: Change,
    endpoints: BTreeSet<(ServiceKey, Option<Hostname>)>,
}

impl GatewayChanges {
    /// Adds the change of an endpoint. `moment` is the time of its event, and `now` that of the clock of the process. Returns what
    /// must be recorded before it: that the same endpoint changed in the other direction.
    pub(super) fn add(
        &mut self,
        change: Change,
        moment: Timestamp,
        now: Timestamp,
    ) -> Vec<TimedChange> {
        let Some(service) = change.service.clone() else {
            return vec![(moment, change)];
        };
        let endpoint = (service, change.hostname.clone());
        let is_other_direction = |group: &Group| {
            let one = &group.change;
            one.cluster == change.cluster
                && one.kind != change.kind
                && group.endpoints.contains(&endpoint)
        };
        let recorded = self.take(is_other_direction);
        let is_same = |group: &&mut Group| {
            let one = &group.change;
            (&one.cluster, one.kind) == (&change.cluster, change.kind)
        };
        match self.0.iter_mut().find(is_same) {
            Some(group) => {
                group.last = now;
                group.endpoints.insert(endpoint);
            }
            None => self.0.push(Group {
                moment,
                first: now,
                last: now,
                change,
                endpoints: [endpoint].into(),
            }),
        }
        recorded
    }

    /// Returns the changes that have waited long enough.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Vec<TimedChange> {
        self.take(|group| group.due() <= now)
    }

    /// Returns all changes.
    pub(super) fn take_all(&mut self) -> Vec<TimedChange> {
        self.take(|_| true)
    }

    /// Returns when the next change has waited long enough.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.0.iter().map(Group::due).min()
    }

    fn take(&mut self, is_taken: impl Fn(&Group) -> bool) -> Vec<TimedChange> {
        let taken = self.0.extract_if(.., |group| is_taken(group));
        taken
            .map(|group| (group.moment, of_gateway(group.change, &group.endpoints)))
            .collect()
    }
}

impl Group {
    fn due(&self) -> Timestamp {
        self.last.after(QUIET).min(self.first.after(MAX_WAIT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::change::{ChangeCause, ChangeKind};

    fn change(kind: ChangeKind, cluster: &str, service: &str, host: usize) -> Change {
        let key = ServiceKey {
            namespace: "prod".parse().unwrap(),
            service: service.parse().unwrap(),
        };
        let cause = match kind {
            ChangeKind::GatewayUp => ChangeCause::GatewayReady,
            _ => ChangeCause::GatewayDown,
        };
        Change {
            cluster: Some(cluster.parse().unwrap()),
            hostname: Some(format!("db-{host}").parse().unwrap()),
            cause: Some(cause),
            object: Some(format!("Service/prod/db-{host}-{cluster}").into()),
            ..Change::of_service(kind, &key, format!("{cluster} {host}."))
        }
    }

    fn texts(recorded: &[TimedChange]) -> Vec<(u64, &str)> {
        recorded
            .iter()
            .map(|(moment, change)| (moment.0, &*change.text))
            .collect()
    }

    #[test]
    fn endpoints_of_a_gateway_that_follow_each_other_are_one_change() {
        let mut changes = GatewayChanges::default();
        let mut now = 0;
        for number in 0..120 {
            now = number * 7;
            let service = format!("db{}", number / 3);
            let down = change(ChangeKind::GatewayDown, "east", &service, number as usize);
            assert_eq!(changes.add(down, Timestamp(5000 + now), Timestamp(now)), []);
            assert_eq!(changes.take_due(Timestamp(now)), []);
        }
        let other = change(ChangeKind::GatewayDown, "west", "db0", 0);
        changes.add(other.clone(), Timestamp(9000), Timestamp(now));
        let due = changes.next_due().unwrap();
        assert_eq!(due, Timestamp(now).after(QUIET));
        assert_eq!(changes.take_due(Timestamp(due.0 - 1)), []);
        let recorded = changes.take_due(due);
        assert_eq!(
            texts(&recorded),
            [
                (
                    5000,
                    "The gateway of cluster east is down: 40 services, 120 endpoints."
                ),
                (9000, "west 0.")
            ]
        );
        let east = &recorded[0].1;
        assert_eq!(
            (east.count, east.cause),
            (120, Some(ChangeCause::GatewayDown))
        );
        assert_eq!(
            (&east.service, &east.hostname, &east.object),
            (&None, &None, &None)
        );
        // One alone keeps its sentence and its object.
        assert_eq!(recorded[1].1, other);
        assert_eq!(changes.next_due(), None);
    }

    #[test]
    fn endless_changes_are_told_after_the_longest_wait() {
        let mut changes = GatewayChanges::default();
        let mut recorded = Vec::new();
        for number in 0..1000 {
            let now = Timestamp(number * 10);
            recorded.extend(changes.take_due(now));
            let up = change(ChangeKind::GatewayUp, "east", "db", number as usize);
            changes.add(up, now, now);
        }
        recorded.extend(changes.take_all());
        let text = |count| {
            format!("The gateway of cluster east is ready again: {count} endpoints of prod/db.")
        };
        let (all, last) = (text(300), text(100));
        assert_eq!(
            texts(&recorded),
            [(0, &*all), (3000, &*all), (6000, &*all), (9000, &*last)]
        );
    }

    #[test]
    fn directions_of_one_endpoint_are_told_in_their_order() {
        let mut changes = GatewayChanges::default();
        let mut recorded = Vec::new();
        use ChangeKind::{GatewayDown as Down, GatewayUp as Up};
        // Another endpoint goes down while the first is up again.
        for (time, kind, host) in [(0, Down, 0), (1, Up, 0), (2, Down, 1), (3, Down, 0)] {
            let one = change(kind, "east", "db", host);
            recorded.extend(changes.add(one, Timestamp(time), Timestamp(time)));
        }
        recorded.extend(changes.take_all());
        let kinds: Vec<_> = recorded
            .iter()
            .map(|(moment, one)| (moment.0, one.kind, one.count))
            .collect();
        assert_eq!(kinds, [(0, Down, 1), (1, Up, 1), (2, Down, 2)]);
    }
}
