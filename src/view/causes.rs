//! What needs attention: the problems of the server and of its table, in one group for each cause.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::age::Age;
use super::document::{Column, Section};

use crate::model::{ClusterName, Family, Level, Line, Problem, ProblemKind, ServiceKey, Timestamp};
use crate::table::{Impact, Published, Service, Table};

/// The title of the section.
const SECTION: &str = "causes";
/// Maximum number of causes in a document. The others are counted.
const MAX_CAUSES: usize = 50;

/// Problems by cause: their kind, and the cluster that they concern.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Causes {
    by_key: BTreeMap<CauseKey, ProblemCause>,
    /// How bad the state of the worst service is.
    services: Impact,
}

/// The kind of problems, and the cluster that they concern.
type CauseKey = (ProblemKind, Option<ClusterName>);

/// Problems of one cause.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ProblemCause {
    /// The number of problems.
    count: u32,
    /// The first of them.
    first: Problem,
    /// Since when the cause exists, if it is known: the earliest time of its problems, and whether it was first seen then.
    since: Option<(Timestamp, bool)>,
    /// The number of services that it affects.
    services: u32,
    /// The number of endpoints that are down or not ready because of it.
    endpoints: u32,
    /// The number of services that cannot be reached by their names, and have one of these problems.
    failing: u32,
    /// The service that was counted last.
    last: Option<ServiceKey>,
}

/// The report on a cause.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct CauseReport {
    /// The section of the document.
    section: &'static str,
    kind: ProblemKind,
    level: Level,
    /// What is wrong.
    sentence: &'static str,
    /// What it concerns, if it is one thing: an object, a name, a service or a cluster.
    subject: Line,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<String>,
    /// The service, if it is one problem of one service.
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<String>,
    /// What is wrong in this case, if it is one problem, or one of the server.
    detail: Line,
    /// The number of problems.
    count: u32,
    /// The number of services that it affects.
    services: u32,
    /// The number of endpoints that are down or not ready because of it.
    endpoints: u32,
    /// The number of services that clients cannot reach, and that have one of these problems.
    failing: u32,
    #[serde(flatten)]
    age: Age,
    /// What a person does, with the names of one of the problems.
    hint: String,
    /// The section of the manual.
    anchor: String,
}

/// The numbers of problems by level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct LevelCounts {
    pub(super) error: u32,
    pub(super) warning: u32,
    pub(super) note: u32,
}

// === impl Causes ===

impl Causes {
    /// Groups the problems of the published table.
    pub(super) fn of(now: &Published) -> Self {
        let mut causes = Self::default();
        let table = now.table.iter();
        table
            .clone()
            .flat_map(Table::problems)
            .for_each(|problem| causes.add(problem));
        for service in table.flat_map(Table::services) {
            let impact = service.impact();
            causes.services = causes.services.max(impact);
            if impact == Impact::Failing {
                causes.add_failing(service);
            }
            causes.count_endpoints(service);
        }
        causes
    }

    /// Counts a service that clients cannot reach, once for each cause that it has.
    fn add_failing(&mut self, service: &Service) {
        let keys: BTreeSet<_> = service.problems.iter().map(Self::key).collect();
        for key in &keys {
            if let Some(cause) = self.by_key.get_mut(key) {
                cause.failing += 1;
            }
        }
    }

    /// Adds a problem.
    pub(super) fn add(&mut self, problem: &Problem) {
        let cause = self.of_problem(problem);
        cause.count += 1;
        let since = problem.since().map(|since| (since, !problem.is_older()));
        cause.since = cause.since.into_iter().chain(since).min();
        // A detail says more than none: a watch that was not tried yet has no reason.
        let first = &cause.first;
        if (problem.detail.is_empty(), problem) < (first.detail.is_empty(), first) {
            cause.first = problem.clone();
        }
        if let Some(service) = &problem.service {
            cause.count_service(service);
        }
    }

    /// Returns the key of the cause of a problem. The clusters of skipped objects are those of their labels, which anybody can
    /// invent.
    fn key(problem: &Problem) -> CauseKey {
        let is_of_cluster = problem.kind.row().family == Family::State;
        (
            problem.kind,
            problem.cluster.clone().filter(|_| is_of_cluster),
        )
    }

    /// Returns the cause of a problem. It counts nothing yet if it is new.
    fn of_problem(&mut self, problem: &Problem) -> &mut ProblemCause {
        let cause = self.by_key.entry(Self::key(problem));
        cause.or_insert_with(|| ProblemCause::new(problem.clone()))
    }

    /// Counts the endpoints of a service that are down or not ready, for the causes of that.
    fn count_endpoints(&mut self, service: &Service) {
        for endpoint in &service.endpoints {
            let Some(kind) = endpoint.liveness.problem() else {
                continue;
            };
            if let Some(cause) = self.by_key.get_mut(&(kind, endpoint.cluster.clone())) {
                cause.endpoints += 1;
                // Problems of services are counted already.
                if cause.first.service.is_none() {
                    cause.count_service(&service.key);
                }
            }
        }
    }

    /// Returns the number of problems of a kind.
    pub fn count(&self, kind: ProblemKind) -> u32 {
        let causes = self
            .by_key
            .range((kind, None)..)
            .take_while(|((other, _), _)| *other == kind);
        causes.map(|(_, cause)| cause.count).sum()
    }

    /// Returns the causes that need attention. Those that make most services fail come first, then by level, then the newest.
    fn serious(&self) -> Vec<CauseReport> {
        let mut serious: Vec<(&CauseKey, &ProblemCause)> = self
            .by_key
            .iter()
            .filter(|(_, cause)| cause.first.is_serious())
            .collect();
        serious.sort_by_key(|(_, cause)| {
            let level = cause.first.kind.row().level;
            Reverse((cause.impact(), cause.failing, level, cause.since))
        });
        let report = |((_, cluster), cause): (&CauseKey, &ProblemCause)| {
            CauseReport::new(cluster.as_ref(), cause)
        };
        serious.into_iter().map(report).collect()
    }

    /// Returns the section of the causes that need attention.
    pub(super) fn section(&self) -> Section {
        section_of(self.serious())
    }

    /// Returns the section of those that are more than a problem of one service: of the server, its source and clusters, and of
    /// names that several services have.
    pub(super) fn above_services(&self) -> Section {
        let mut causes = self.serious();
        causes
            .retain(|cause| cause.service.is_none() && cause.kind.row().family != Family::Skipped);
        let mut section = section_of(causes);
        // The objects of a table are services.
        section
            .rows
            .iter_mut()
            .for_each(|row| row.object = Value::Null);
        section
    }

    /// Returns how bad the worst cause or service is.
    pub(super) fn impact(&self) -> Impact {
        let of_causes = self.by_key.values().map(ProblemCause::impact).max();
        of_causes.unwrap_or_default().max(self.services)
    }

    /// Returns the numbers of problems by level.
    pub(super) fn levels(&self) -> LevelCounts {
        let mut counts = LevelCounts::default();
        for cause in self.by_key.values() {
            *match cause.first.kind.row().level {
                Level::Error => &mut counts.error,
                Level::Warning => &mut counts.warning,
                Level::Note => &mut counts.note,
            } += cause.count;
        }
        counts
    }
}

// === impl ProblemCause ===

impl ProblemCause {
    /// Creates a cause that counts nothing yet.
    fn new(first: Problem) -> Self {
        Self {
            count: 0,
            first,
            since: None,
            services: 0,
            endpoints: 0,
            failing: 0,
            last: None,
        }
    }

    /// Counts a service once. Its problems follow each other.
    fn count_service(&mut self, service: &ServiceKey) {
        if self.last.as_ref() != Some(service) {
            self.services += 1;
            self.last = Some(service.clone());
        }
    }

    fn impact(&self) -> Impact {
        let row = self.first.kind.row();
        match row.level {
            _ if self.failing > 0 => Impact::Failing,
            Level::Error if row.family == Family::Server => Impact::Failing,
            Level::Error | Level::Warning => Impact::Attention,
            Level::Note => Impact::Fine,
        }
    }
}

/// Returns the section of some causes. The first ones are listed.
fn section_of(causes: Vec<CauseReport>) -> Section {
    let columns = [
        Column::state("LEVEL"),
        Column::text("KIND"),
        Column::text("SUBJECT"),
        Column::time("SINCE"),
        Column::text("SERVICES"),
        Column::text("PROBLEM"),
        Column::wide("WHAT TO DO"),
    ];
    let mut section = Section::new(SECTION, columns);
    let more = causes.len().saturating_sub(MAX_CAUSES);
    for cause in causes.iter().take(MAX_CAUSES) {
        section.push(cause.cells(), cause);
    }
    if more > 0 {
        section.push_text([String::new(), format!("and {more} more")]);
    }
    section
}

// === impl CauseReport ===

impl CauseReport {
    /// Describes a cause that concerns a cluster, or none.
    fn new(cluster: Option<&ClusterName>, cause: &ProblemCause) -> Self {
        let first = &cause.first;
        let row = first.kind.row();
        let is_one = cause.count == 1;
        let subject = match cluster {
            Some(cluster) => cluster.as_str().into(),
            None if is_one => first.subject(),
            None => Line::default(),
        };
        let has_detail = is_one || row.family == Family::Server;
        let service = first.service.as_ref().filter(|_| is_one);
        Self {
            section: SECTION,
            kind: row.kind,
            level: row.level,
            sentence: row.sentence,
            subject,
            cluster: cluster.map(ToString::to_string),
            service: service.map(ToString::to_string),
            detail: if has_detail {
                first.detail.clone()
            } else {
                Line::default()
            },
            count: cause.count,
            services: cause.services,
            endpoints: cause.endpoints,
            failing: cause.failing,
            age: cause.since.map_or_else(Age::default, |(since, is_new)| {
                Age::new(Some(since), !is_new)
            }),
            hint: first.hint(),
            anchor: row.kind.anchor(),
        }
    }

    fn cells(&self) -> [String; 7] {
        let services = match self.services {
            0 => String::new(),
            count => count.to_string(),
        };
        [
            level_state(self.level).to_owned(),
            self.kind.to_string(),
            self.subject.to_string(),
            self.age.cell(),
            services,
            sentence(self.sentence, &self.detail),
            self.hint.clone(),
        ]
    }
}

/// Returns what is wrong: what holds for the kind, and in this case.
pub(super) fn sentence(sentence: &str, detail: &str) -> String {
    if detail.is_empty() {
        sentence.to_owned()
    } else {
        format!("{sentence}: {detail}")
    }
}

/// Returns a level as a state.
pub(super) fn level_state(level: Level) -> &'static str {
    match level {
        Level::Error => "failing",
        Level::Warning => "attention",
        Level::Note => "note",
    }
}
