//! The log lines of what a table changes, and of problems. The keys of changes go to open streams at once; events and lines wait until
//! the changes of one cluster and kind have been merged. A tenant cannot fill the log: lines about the objects of one namespace are
//! limited.
//!
//! The model is pure, so the lines of problems are written here, by everybody who finds one: the source, the update loop, and the
//! listeners.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use tracing::{Level as LogLevel, info};

use super::events::{TimedChange, Window};
use super::{Feeds, SteadyClock};
use crate::failures::Failures;
use crate::model::{
    ClusterName, Family, Level, MAX_LISTED, Namespace, Problem, ProblemKind, ServiceKey, Text,
    Timestamp, list_some,
};
use crate::table::change::Change;
use crate::table::diff::{diff, diff_links, diff_short_names};
use crate::table::store::ServiceKeys;
use crate::table::{Published, Table};

/// Maximum number of lines about problems of one kind that a table causes. The others are one line with their number:
/// thousands of services may wait for the same gateway.
const MAX_LOGGED: usize = 20;

/// The target of the lines, for filters.
const TARGET: &str = "global_dns::problem";

/// Logs a line with a level that is known at run time.
macro_rules! log_at {
    ($level:expr, $($fields:tt)+) => {
        match $level {
            LogLevel::ERROR => tracing::error!($($fields)+),
            LogLevel::WARN => tracing::warn!($($fields)+),
            LogLevel::INFO => tracing::info!($($fields)+),
            _ => tracing::debug!($($fields)+),
        }
    };
}

/// Returns the level of the lines of a kind. A setting that excludes a cluster skips all its objects.
fn level_of(kind: ProblemKind) -> LogLevel {
    match kind.row().level {
        Level::Note if kind == ProblemKind::LeftOut => LogLevel::DEBUG,
        Level::Note => LogLevel::INFO,
        Level::Warning => LogLevel::WARN,
        Level::Error => LogLevel::ERROR,
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
fn log_new(
    last: Option<&Table>,
    next: &Table,
    services: &[(&ServiceKey, Vec<Change>)],
    time: Timestamp,
    limiter: &mut LineLimiter,
) {
    let keys = || services.iter().map(|(key, _)| *key);
    let last_beside = last.map(|last| last.problems_beside(keys()).collect());
    let last_beside: BTreeSet<&Problem> = last_beside.unwrap_or_default();
    let mut new: Vec<&Problem> = next.problems_beside(keys()).collect();
    log_ended(last_beside.iter().copied(), new.iter().copied(), time);
    new.retain(|one| !last_beside.contains(one));
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

// === Changes ===

/// The log of changes and problems. A problem is logged once, when it appears.
#[derive(Debug, Default)]
pub(super) struct ChangeLog {
    window: Window,
    pub(super) limiter: LineLimiter,
}

impl ChangeLog {
    /// Tells what a table that was published after `last` changes. `changed` are the services that differ, and `time` is that of the
    /// clock of the process.
    pub(super) fn note_published(
        &mut self,
        last: &Published,
        now: &Arc<Published>,
        changed: &ServiceKeys,
        feeds: &Feeds,
        time: Timestamp,
    ) {
        let events = &feeds.events;
        let Some(next) = &now.table else { return };
        let last_table = last.table.as_ref();
        let mut of_services = Vec::with_capacity(changed.len());
        for key in changed {
            // In the first table, nothing changes.
            let changes = last_table.map(|last| diff(last.find(key), next.find(key)));
            of_services.push((key, changes.unwrap_or_default()));
        }
        log_new(last_table, next, &of_services, time, &mut self.limiter);
        // Each of the others has lines of its changes.
        let level = if last.generation == 0 {
            LogLevel::INFO
        } else {
            LogLevel::DEBUG
        };
        log_at!(
            level,
            generation = now.generation,
            serial = now.serial,
            services = changed.len(),
            "Published table"
        );
        let short_names = last_table.map(|last| diff_short_names(last, next, changed));
        let changes = diff_links(last_table, next)
            .into_iter()
            .chain(short_names.into_iter().flatten());
        for change in changes.chain(of_services.into_iter().flat_map(|(_, changes)| changes)) {
            events.count(change.kind);
            let undone = self.window.add(change, time);
            self.record(undone, feeds, time);
        }
        // After the lines, for commands that wait for the first table.
        events.note_table(now, last_table.map(|_| changed));
    }

    /// Records the changes that have waited until a time: now, or the end of time before the process ends. At the end of a minute,
    /// logs which services go on to flap.
    pub(super) fn record_until(&mut self, end: Timestamp, feeds: &Feeds, time: Timestamp) {
        let due = self.window.take_due(end);
        self.limiter.end_second(time);
        feeds.events.flapping().end_minute(time, &mut self.limiter);
        self.record(due, feeds, time);
    }

    /// Returns when [`Self::record_until`] has something to record.
    pub(super) fn next_due(&self, feeds: &Feeds) -> Option<Timestamp> {
        let due = self.window.next_due().into_iter();
        let ends = feeds.events.flapping().due().into_iter();
        due.chain(ends).chain(self.limiter.due()).min()
    }

    /// Logs and records changes. Those of services that change all the time have no line of their own.
    fn record(&mut self, changes: Vec<TimedChange>, feeds: &Feeds, time: Timestamp) {
        let flapping = feeds.events.flapping();
        let mut recorded = Vec::with_capacity(changes.len());
        for (moment, change) in changes {
            let moment = feeds.clock.wall(moment);
            let change = change.truncated();
            let namespace = change.namespace().map(Namespace::text);
            if !flapping.are_busy(&change.services) && self.limiter.admits(namespace, time) {
                log_change(&change, moment);
            }
            recorded.push((moment, change));
        }
        feeds.events.record(recorded);
    }
}

/// Logs a change, with the fields and the sentence of its event.
fn log_change(change: &Change, moment: Timestamp) {
    let level = if change.is_trouble() {
        LogLevel::WARN
    } else {
        LogLevel::INFO
    };
    log_at!(
        level,
        time = moment.to_exact_text(),
        kind = <&str>::from(change.kind),
        services = %list_some(&change.services, MAX_LISTED),
        cluster = change.cluster.as_ref().map(ClusterName::as_str),
        before = change.before.as_deref(),
        after = change.after.as_deref(),
        cause = change.cause.as_deref(),
        count = change.count,
        "{}",
        change.text
    );
}

// === Limits ===

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
    fn end_second(&mut self, now: Timestamp) {
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
    fn due(&self) -> Option<Timestamp> {
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
