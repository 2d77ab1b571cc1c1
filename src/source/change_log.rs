//! Tells what a table changes: the keys to open streams at once; events, and lines of the log, when the changes of one cluster and
//! kind have been merged.

use std::collections::BTreeSet;
use std::sync::Arc;

use tracing::Level;

use super::Feeds;
use super::events::{TimedChange, Window};
use super::problem_log::{LineLimiter, log_at, log_ended, log_some};
use crate::model::{
    ClusterName, Family, MAX_LISTED, Namespace, Problem, ProblemKind, ServiceKey, Timestamp,
    list_some,
};
use crate::table::change::Change;
use crate::table::diff::{diff, diff_links, diff_short_names};
use crate::table::store::ServiceKeys;
use crate::table::{Published, Table};

/// The log of changes and problems. A problem is logged once, when it appears.
#[derive(Debug, Default)]
pub(super) struct ChangeLog {
    window: Window,
    pub(super) limiter: LineLimiter,
}

impl ChangeLog {
    /// Tells what a table that was published after `last` changes. `changed` are the services that differ, and `links` the clusters whose
    /// states do. `time` is that of the clock of the process.
    pub(super) fn note_published(
        &mut self,
        last: &Published,
        now: &Arc<Published>,
        changed: &ServiceKeys,
        links: &BTreeSet<ClusterName>,
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
            Level::INFO
        } else {
            Level::DEBUG
        };
        log_at!(
            level,
            generation = now.generation,
            serial = now.serial,
            services = changed.len(),
            "Published table"
        );
        let short_names = last_table.map(|last| diff_short_names(last, next, changed));
        let changes = diff_links(last_table, next, links)
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
        Level::WARN
    } else {
        Level::INFO
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
