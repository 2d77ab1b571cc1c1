//! The problems of the server and of its table, in one group for each cause.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{Age, State};
use crate::model::problem::ROWS;
use crate::model::{ClusterName, Family, Level, Namespace, Problem, ProblemKind, ServiceKey};
use crate::table::Table;

/// Problems by cause: their kind, and the cluster that they concern.
#[derive(Clone, Default)]
pub struct Causes {
    pub(super) by_key: BTreeMap<CauseKey, Cause>,
}

/// The kind of problems, the cluster that they concern, and the kind of those that explain them.
pub(super) type CauseKey = (ProblemKind, Option<ClusterName>, Option<ProblemKind>);

/// Problems of one cause.
#[derive(Clone)]
pub(super) struct Cause {
    /// The first of them.
    pub first: Problem,
    /// Since when the cause exists: the age of its oldest problem.
    pub age: Age,
    pub counts: Counts,
    /// The namespace of all services that it affects, if it is one.
    pub namespace: Option<Namespace>,
}

/// What a cause affects.
#[derive(Clone, Copy, Default, Serialize)]
pub(super) struct Counts {
    /// The number of problems.
    pub count: u32,
    /// The number of services that it affects.
    pub services: u32,
    /// The number of endpoints that are down or not ready because of it.
    pub endpoints: u32,
    /// The number of services that clients cannot reach, and that it affects.
    pub failing: u32,
}

// === impl Causes ===

impl Causes {
    /// Groups the problems of a table, in which these services fail.
    pub(super) fn of(table: &Table, failing: &BTreeSet<&ServiceKey>) -> Self {
        let mut causes = Self::default();
        // The services that each cause affects.
        let mut affected: BTreeMap<CauseKey, BTreeSet<ServiceKey>> = BTreeMap::new();
        for problem in table.reported_problems() {
            causes.add(&problem);
            affected
                .entry(Self::key(&problem))
                .or_default()
                .extend(problem.service.clone());
        }
        for service in table.services() {
            for endpoint in &service.endpoints {
                let kind = endpoint.liveness.problem();
                let Some(key) = kind.map(|kind| (kind, endpoint.cluster.clone(), None)) else {
                    continue;
                };
                if let Some(cause) = causes.by_key.get_mut(&key) {
                    cause.counts.endpoints += 1;
                    affected.entry(key).or_default().insert(service.key.clone());
                }
            }
        }
        for (key, cause) in &mut causes.by_key {
            let services = affected.remove(key).unwrap_or_default();
            cause.counts.services = services.len() as u32;
            cause.counts.failing =
                services.iter().filter(|one| failing.contains(one)).count() as u32;
            // They are sorted.
            let [first, last] =
                [services.first(), services.last()].map(|one| Some(&one?.namespace));
            cause.namespace = first.filter(|_| first == last).cloned();
        }
        causes
    }

    /// Adds a problem.
    pub(super) fn add(&mut self, problem: &Problem) {
        let cause = self
            .by_key
            .entry(Self::key(problem))
            .or_insert_with(|| Cause {
                first: problem.clone(),
                age: Age::default(),
                counts: Counts::default(),
                namespace: None,
            });
        cause.counts.count += 1;
        cause.counts.services += u32::from(problem.service.is_some());
        cause.age = cause.age.earliest(problem.into());
        // A detail says more than none: a watch that was not tried yet has no reason.
        let first = &cause.first;
        if (problem.detail.is_empty(), problem) < (first.detail.is_empty(), first) {
            cause.first = problem.clone();
        }
    }

    /// Returns the key of the cause of a problem. The clusters of skipped objects are those of their labels, which anybody can
    /// invent.
    fn key(problem: &Problem) -> CauseKey {
        let is_of_cluster = problem.kind.row().family == Family::State;
        let cluster = problem.cluster.clone().filter(|_| is_of_cluster);
        (problem.kind, cluster, problem.cause)
    }

    /// Returns the number of problems of a kind.
    pub fn count(&self, kind: ProblemKind) -> u32 {
        let causes = self.by_key.range((kind, None, None)..);
        let causes = causes.take_while(|((one, ..), _)| *one == kind);
        causes.map(|(_, cause)| cause.counts.count).sum()
    }

    /// Returns the cause of an effect: of its cluster, or of all.
    pub(super) fn cause_of(&self, (_, cluster, cause): &CauseKey) -> Option<&Cause> {
        let of = |cluster| self.by_key.get(&((*cause)?, cluster, None));
        of(cluster.clone()).or_else(|| of(None))
    }

    /// Returns how bad the worst cause is.
    pub(super) fn state(&self) -> State {
        self.by_key
            .values()
            .map(Cause::state)
            .max()
            .unwrap_or_default()
    }

    /// Returns the numbers of problems by level.
    pub(super) fn levels(&self) -> BTreeMap<Level, u32> {
        let mut counts = BTreeMap::new();
        for row in &ROWS {
            *counts.entry(row.level).or_default() += self.count(row.kind);
        }
        counts
    }
}

// === impl Cause ===

impl Cause {
    /// Returns how bad it is.
    pub(super) fn state(&self) -> State {
        match self.first.kind.row().level {
            _ if self.counts.failing > 0 => State::Failing,
            Level::Error => State::Failing,
            Level::Warning => State::Attention,
            Level::Note => State::Ok,
        }
    }
}
