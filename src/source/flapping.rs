//! Services that change too often: more than [`MAX_CHANGES`] events within a minute are the problem `flapping`. Meanwhile, the log has
//! one line a minute for the service instead of one for each change.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::{Problem, ProblemKind, ServiceKey, Timestamp};
use crate::table::change::Change;

/// Maximum number of events of a service in a minute.
const MAX_CHANGES: usize = 5;
const MINUTE: Duration = Duration::from_secs(60);

/// Counts the events of each service.
#[derive(Debug, Default)]
pub(super) struct Flapping {
    /// The start of the minute.
    minute: Timestamp,
    /// The events since then.
    counts: BTreeMap<ServiceKey, usize>,
    /// The services that flap, with the problem of each.
    problems: BTreeMap<ServiceKey, Problem>,
}

impl Flapping {
    /// Counts an event. Returns the problems that begin.
    pub(super) fn count(&mut self, change: &Change, now: Timestamp) -> Vec<Problem> {
        let mut new = Vec::new();
        for key in &change.services {
            let count = self.counts.entry(key.clone()).or_default();
            *count += 1;
            if *count > MAX_CHANGES && !self.problems.contains_key(key) {
                let problem = problem(key, *count).holds_since(now);
                self.problems.insert(key.clone(), problem.clone());
                new.push(problem);
            }
        }
        new
    }

    /// Ends the minute if it is over. A service that changed less does not flap any more. Returns the problems that stay.
    pub(super) fn end_minute(&mut self, now: Timestamp) -> Vec<Problem> {
        if now < self.minute.after(MINUTE) {
            return Vec::new();
        }
        self.minute = now;
        let counts = std::mem::take(&mut self.counts);
        let known = std::mem::take(&mut self.problems);
        for (key, last) in known {
            if let Some(count) = counts.get(&key).filter(|count| **count > MAX_CHANGES) {
                let problem = problem(&key, *count).holds_since(last.since());
                self.problems.insert(key, problem);
            }
        }
        self.problems.values().cloned().collect()
    }

    /// Returns the services that flap, with the problem of each.
    pub(super) fn services(&self) -> &BTreeMap<ServiceKey, Problem> {
        &self.problems
    }

    /// Returns whether a change concerns only services that flap.
    pub(super) fn has_all_of(&self, change: &Change) -> bool {
        let mut services = change.services.iter();
        !change.services.is_empty() && services.all(|key| self.problems.contains_key(key))
    }

    /// Returns the end of the minute, if a service flaps.
    pub(super) fn due(&self) -> Option<Timestamp> {
        (!self.problems.is_empty()).then(|| self.minute.after(MINUTE))
    }
}

fn problem(service: &ServiceKey, count: usize) -> Problem {
    let detail = format!("{count} changes within a minute");
    Problem::new(ProblemKind::Flapping, detail).of_service(service)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::change::ChangeKind;
    use crate::testing::service_keys;

    fn change(service: &str) -> Change {
        Change {
            services: service_keys(&[service]),
            ..Change::new(ChangeKind::Down, "")
        }
    }

    #[test]
    fn more_than_five_events_in_a_minute_are_a_problem_until_a_minute_has_fewer() {
        let mut flapping = Flapping::default();
        let at = |second: u64| Timestamp::from_seconds(1000 + second);
        flapping.end_minute(at(0));
        let mut count = |service: &str, second, times: usize| -> usize {
            let new = (0..times).map(|_| flapping.count(&change(service), at(second)).len());
            new.sum()
        };
        // The problem begins once.
        assert_eq!(
            (count("db", 1, 5), count("db", 2, 1), count("db", 3, 9)),
            (0, 1, 0)
        );
        assert_eq!(count("web", 3, 5), 0);
        assert!(flapping.has_all_of(&change("db")) && !flapping.has_all_of(&change("web")));
        assert_eq!(flapping.services().len(), 1);
        assert_eq!(flapping.end_minute(at(59)), []);
        assert_eq!(flapping.due(), Some(at(60)));
        let stays = flapping.end_minute(at(60));
        assert_eq!(stays.len(), 1);
        assert_eq!(
            stays[0].to_string(),
            "Service changes too often: prod/db: 15 changes within a minute"
        );
        assert_eq!(stays[0].since(), Some(at(2)));
        assert_eq!(flapping.end_minute(at(120)), []);
        assert_eq!((flapping.due(), flapping.services().len()), (None, 0));
    }
}
