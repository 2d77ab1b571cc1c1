//! Services that change too often. After [`MAX_CHANGES`] changes of the answers of a service within a minute, the log has one line for
//! it at the end of the minute instead of one for each change, and the history one version. If answers also return again and again,
//! the service flaps, which is a problem.

use std::collections::{BTreeMap, VecDeque};
use std::mem::take;
use std::time::Duration;

use tracing::info;

use super::problem_log::{LineLimiter, log_limited};
use crate::model::{Problem, ProblemKind, ServiceKey, Timestamp};

/// Maximum number of changes of a service in a minute.
const MAX_CHANGES: usize = 5;
const MINUTE: Duration = Duration::from_secs(60);

/// The number of earlier answers of a service that are known.
const KNOWN: usize = 4;

/// The smallest number of answers in a minute that were known, of a service that flaps. Restarts of pods change addresses, which do
/// not return.
const MIN_RETURNS: usize = 2;

/// Counts the changes of the answers of each service.
#[derive(Debug, Default)]
pub(super) struct Flapping {
    /// The start of the minute.
    minute: Timestamp,
    counts: BTreeMap<ServiceKey, Count>,
    /// The services that flap, with the problem of each.
    problems: BTreeMap<ServiceKey, Problem>,
}

/// The changes of a service since the start of the minute.
#[derive(Debug, Default)]
struct Count {
    changes: usize,
    /// The answers that were among the last ones.
    returns: usize,
    /// The hashes of the last answers.
    last: VecDeque<Option<u64>>,
}

// === impl Flapping ===

impl Flapping {
    /// Counts a change of a service from answers with one hash to those with another one. Returns its problem if that begins.
    pub(super) fn count(
        &mut self,
        key: &ServiceKey,
        hashes: [Option<u64>; 2],
        now: Timestamp,
    ) -> Option<&Problem> {
        let [old, new] = hashes;
        let count = self.counts.entry(key.clone()).or_default();
        count.changes += 1;
        if count.last.back() != Some(&old) {
            count.last.push_back(old);
        }
        count.returns += usize::from(count.last.contains(&new));
        count.last.push_back(new);
        let surplus = count.last.len().saturating_sub(KNOWN);
        count.last.drain(..surplus);
        if !count.flaps() || self.problems.contains_key(key) {
            return None;
        }
        Some(
            self.problems
                .entry(key.clone())
                .or_insert(count.problem(key).holds_since(now)),
        )
    }

    /// Ends the minute if it is over, and logs which services changed too often. One that changed less does not flap any more.
    pub(super) fn end_minute(&mut self, now: Timestamp, limiter: &mut LineLimiter) {
        if now < self.minute.after(MINUTE) {
            return;
        }
        self.minute = now;
        let known = take(&mut self.problems);
        for (key, count) in take(&mut self.counts) {
            if count.flaps() {
                let since = known.get(&key).and_then(|one| one.since);
                let problem = count.problem(&key).holds_since(since);
                log_limited(&problem, limiter, now);
                self.problems.insert(key, problem);
            } else if count.is_busy() && limiter.admits(Some(key.namespace.text()), now) {
                info!(service = %key, count = count.changes, "Service changed often within a minute");
            }
        }
    }

    /// Returns the services that flap, with the problem of each.
    pub(super) fn services(&self) -> &BTreeMap<ServiceKey, Problem> {
        &self.problems
    }

    /// Returns whether some services are all ones that changed too often, also in the last minute if they flap.
    pub(super) fn are_busy<'k>(&self, services: impl IntoIterator<Item = &'k ServiceKey>) -> bool {
        let mut services = services.into_iter().peekable();
        let is_busy = |key| {
            self.problems.contains_key(key) || self.counts.get(key).is_some_and(Count::is_busy)
        };
        services.peek().is_some() && services.all(is_busy)
    }

    /// Returns the end of the minute, if it must be noted.
    pub(super) fn due(&self) -> Option<Timestamp> {
        (!self.counts.is_empty() || !self.problems.is_empty()).then(|| self.minute.after(MINUTE))
    }
}

// === impl Count ===

impl Count {
    fn is_busy(&self) -> bool {
        self.changes > MAX_CHANGES
    }

    fn flaps(&self) -> bool {
        self.is_busy() && self.returns >= MIN_RETURNS
    }

    fn problem(&self, service: &ServiceKey) -> Problem {
        let detail = format!("{} changes within a minute", self.changes);
        Problem::new(ProblemKind::Flapping, detail).of_service(service)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::service_keys;

    #[test]
    fn answers_that_return_are_a_problem_until_a_minute_has_fewer_changes() {
        let mut flapping = Flapping::default();
        let at = |second: u64| Timestamp::from_seconds(1000 + second);
        let key = |name: &str| service_keys(&[name]).pop_first().unwrap();
        let mut limiter = LineLimiter::default();
        flapping.end_minute(at(0), &mut limiter);
        // Its gateway comes and goes; its pods restart one after the other; it changes seldom.
        for (name, changes, answers) in [("db", 15, 2), ("pods", 15, 100), ("web", 5, 2)] {
            for number in 0..changes {
                let hashes = [number % answers, (number + 1) % answers].map(Some);
                flapping.count(&key(name), hashes, at(number));
            }
        }
        let busy = |flapping: &Flapping, names: &[&str]| flapping.are_busy(&service_keys(names));
        assert!(busy(&flapping, &["db", "pods"]));
        assert!(!busy(&flapping, &["db", "web"]) && !busy(&flapping, &[]));
        assert_eq!(flapping.services().keys().collect::<Vec<_>>(), [&key("db")]);
        flapping.end_minute(at(59), &mut limiter);
        assert_eq!(flapping.due(), Some(at(60)));
        flapping.end_minute(at(60), &mut limiter);
        let problem = &flapping.services()[&key("db")];
        assert_eq!(
            problem.to_string(),
            "Service changes too often: prod/db: 15 changes within a minute"
        );
        assert_eq!(problem.since, Some(at(5)));
        assert!(busy(&flapping, &["db"]) && !busy(&flapping, &["pods"]));
        flapping.end_minute(at(120), &mut limiter);
        assert_eq!((flapping.due(), flapping.services().len()), (None, 0));
    }
}
