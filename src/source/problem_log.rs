//! The log lines of problems. The model is pure, so the lines are written here, by everybody who finds a problem: the source,
//! the update loop, and the listeners. A tenant cannot fill the log: lines about the objects of one namespace are limited.

use std::collections::BTreeMap;
use std::mem::take;
use std::time::Duration;

use tracing::info;

use super::SteadyClock;
use crate::failures::Failures;
use crate::model::{Family, Level, Problem, ProblemKind, Text, Timestamp};
use crate::table::Table;

/// Maximum number of lines about problems of one kind that a table causes. The others are one line with their number:
/// thousands of services may wait for the same gateway.
const MAX_LOGGED: usize = 20;

/// The target of the lines, for filters.
const TARGET: &str = "global_dns::problem";

/// Logs a line with a level that is known at run time.
macro_rules! log_at {
    ($level:expr, $($fields:tt)+) => {
        match $level {
            tracing::Level::ERROR => tracing::error!($($fields)+),
            tracing::Level::WARN => tracing::warn!($($fields)+),
            tracing::Level::INFO => tracing::info!($($fields)+),
            _ => tracing::debug!($($fields)+),
        }
    };
}

pub(super) use log_at;

/// Returns the level of the lines of a kind. A setting that excludes a cluster skips all its objects.
fn level_of(kind: ProblemKind) -> tracing::Level {
    match kind.row().level {
        Level::Note if kind == ProblemKind::LeftOut => tracing::Level::DEBUG,
        Level::Note => tracing::Level::INFO,
        Level::Warning => tracing::Level::WARN,
        Level::Error => tracing::Level::ERROR,
    }
}

/// Logs a problem with the level of its kind.
pub fn log_problem(problem: &Problem) {
    log_with_detail(problem, &problem.detail);
}

/// Logs a problem, if a line about its namespace may be logged.
pub(super) fn log_limited(problem: &Problem, limiter: &mut LineLimiter, now: Timestamp) {
    if limiter.admits(problem.namespace(), now) {
        log_problem(problem);
    }
}

fn log_with_detail(problem: &Problem, detail: &str) {
    let kind = &problem.kind;
    let sentence = kind.row().sentence;
    let subject = problem.subject();
    log_at!(level_of(*kind), target: TARGET, problem = kind.name(), %subject, %detail, "{sentence}");
}

/// Logs the problems of the server that were in `last` and are not in `next`. That of a service ends with a change of its answer.
pub fn log_ended<'p>(
    last: impl IntoIterator<Item = &'p Problem>,
    next: impl IntoIterator<Item = &'p Problem> + Clone,
    now: Timestamp,
) {
    for problem in last {
        let row = problem.kind.row();
        let mut next = next.clone().into_iter();
        if row.family == Family::Server && next.all(|one| one.fact() != problem.fact()) {
            let name = problem.kind.name();
            let subject = problem.subject();
            let seconds = problem.since.map(|since| now.since(since).as_secs());
            info!(target: TARGET, problem = name, %subject, seconds, "Problem is over: {}", row.sentence);
        }
    }
}

/// Returns the problem that there were failures since the start of the process, if there were any. `clock` is that of the process.
pub fn problem_of_failures(
    kind: ProblemKind,
    failures: &Failures,
    clock: SteadyClock,
) -> Option<Problem> {
    let count = failures.count();
    let since = clock.at(failures.first().filter(|_| count > 0)?);
    Some(Problem::new(kind, format!("{count} so far")).holds_since(since))
}

/// Logs problems of a table, at most [`MAX_LOGGED`] of each kind.
pub(super) fn log_some(problems: &[&Problem], table: &Table) {
    let mut counts: BTreeMap<ProblemKind, usize> = BTreeMap::new();
    for problem in problems {
        let count = counts.entry(problem.kind).or_default();
        *count += 1;
        if *count <= MAX_LOGGED {
            log_with_detail(problem, &table.detail_of(problem));
        }
    }
    for (kind, count) in counts {
        if let Some(more @ 1..) = count.checked_sub(MAX_LOGGED) {
            let sentence = kind.row().sentence;
            log_at!(level_of(kind), target: TARGET, problem = kind.name(), count = more, "{sentence}: {more} more");
        }
    }
}

/// Maximum number of lines about a namespace in a second.
const MAX_LINES: usize = 20;
const SECOND: Duration = Duration::from_secs(1);

/// Counts the lines about each namespace since the start of the second.
#[derive(Debug, Default)]
pub(super) struct LineLimiter {
    second: Timestamp,
    lines: BTreeMap<Text, usize>,
}

impl LineLimiter {
    /// Returns whether a line about a namespace may be logged. Lines about none are not limited.
    pub(super) fn admits(&mut self, namespace: Option<&Text>, now: Timestamp) -> bool {
        let Some(namespace) = namespace else {
            return true;
        };
        self.end_second(now);
        let lines = self.lines.entry(namespace.clone()).or_default();
        *lines += 1;
        *lines <= MAX_LINES
    }

    /// Ends the second if it is over, and logs how many lines were left out.
    pub(super) fn end_second(&mut self, now: Timestamp) {
        if now < self.second.after(SECOND) {
            return;
        }
        self.second = now;
        for (namespace, lines) in take(&mut self.lines) {
            if let Some(count @ 1..) = lines.checked_sub(MAX_LINES) {
                info!(%namespace, count, "Left out lines about a namespace");
            }
        }
    }

    /// Returns the end of the second, if lines were left out.
    pub(super) fn due(&self) -> Option<Timestamp> {
        let mut lines = self.lines.values();
        lines
            .any(|lines| *lines > MAX_LINES)
            .then(|| self.second.after(SECOND))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_has_twenty_lines_a_second() {
        let mut limiter = LineLimiter::default();
        let [tenant, other] = ["tenant", "other"].map(Text::from);
        let mut admitted = |namespace: Option<&Text>, second| {
            let now = Timestamp::from_seconds(second);
            let times = (0..100).filter(|_| limiter.admits(namespace, now)).count();
            (times, limiter.due())
        };
        let end = Some(Timestamp::from_seconds(8));
        assert_eq!(admitted(Some(&tenant), 7), (20, end));
        assert_eq!(admitted(Some(&other), 7), (20, end));
        assert_eq!(admitted(None, 7), (100, end));
        assert_eq!(admitted(Some(&tenant), 8).0, 20);
    }
}
