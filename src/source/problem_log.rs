//! The log lines of problems. The model is pure, so the lines are written here, by everybody who finds a problem: the source,
//! the update loop, and the listeners.

use std::collections::{BTreeMap, BTreeSet};

use tracing::info;

use super::SteadyClock;
use super::line_limiter::LineLimiter;
use crate::failures::Failures;
use crate::model::{Family, Level, Problem, ProblemKind, ServiceKey, Timestamp};
use crate::table::Table;
use crate::table::change::Change;

/// Maximum number of lines about problems of one kind that a table causes. The others are one line with their number:
/// thousands of services may wait for the same gateway.
const MAX_LOGGED: usize = 20;

/// The target of the lines, for filters.
const TARGET: &str = "global_dns::problem";

/// Logs a line with a level that is known at run time.
macro_rules! log_at {
    ($level:expr, $($fields:tt)+) => {
        match $level {
            ::tracing::Level::ERROR => ::tracing::error!($($fields)+),
            ::tracing::Level::WARN => ::tracing::warn!($($fields)+),
            ::tracing::Level::INFO => ::tracing::info!($($fields)+),
            _ => ::tracing::debug!($($fields)+),
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

/// Logs the problems that a table has and the last one had not: of names, of links, and of services that changed. A problem that a
/// change of its service tells is left out. Logs the end of problems of the server.
pub(super) fn log_new(
    last: Option<&Table>,
    next: &Table,
    services: &[(&ServiceKey, Vec<Change>)],
    time: Timestamp,
    limiter: &mut LineLimiter,
) {
    let keys = || services.iter().map(|(key, _)| *key);
    let known = last
        .into_iter()
        .flat_map(|last| last.problems_beside(keys()));
    let known: BTreeSet<&Problem> = known.collect();
    let beside: Vec<&Problem> = next.problems_beside(keys()).collect();
    log_ended(known.iter().copied(), beside.iter().copied(), time);
    let mut new = beside;
    new.retain(|one| !known.contains(one));
    for (key, changes) in services {
        let old = last.and_then(|last| last.find(key));
        let known = old.map_or(&[][..], |old| &old.problems);
        let is_told = |one: &Problem| changes.iter().any(|change| tells(change, one));
        let problems = next.find(key).into_iter().flat_map(|next| &next.problems);
        new.extend(problems.filter(|one| !is_known(known, one) && !is_told(one)));
    }
    new.retain(|problem| limiter.admits(problem.namespace(), time));
    log_some(&new, next);
}

/// Logs problems of a table, at most [`MAX_LOGGED`] of each kind.
fn log_some(problems: &[&Problem], table: &Table) {
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

/// Returns whether a service had a problem. One of its state whose detail alone changed, such as the number of its hosts, is not new.
/// `known` is sorted and has each fact once.
fn is_known(known: &[Problem], problem: &Problem) -> bool {
    use ProblemKind::{IgnoredSetting, SettingWithoutEffect};
    let is_state = problem.kind.row().family == Family::State
        && !matches!(problem.kind, IgnoredSetting | SettingWithoutEffect);
    known
        .binary_search_by(|one| one.fact().cmp(&problem.fact()))
        .is_ok_and(|index| is_state || known[index] == *problem)
}

/// Returns whether a change of a service tells a problem of it.
fn tells(change: &Change, problem: &Problem) -> bool {
    let told_by = problem.kind.row().told_by;
    let is_of_cluster = problem.cluster.is_none() || change.cluster == problem.cluster;
    told_by.contains(&change.kind.into()) && is_of_cluster
}
