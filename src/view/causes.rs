//! What needs attention: the problems of the server and of its table, in one group for each cause.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Age, Counts, Filter, PrintContext, ProblemReport, Section, State};
use crate::model::problem::ROWS;
use crate::model::{
    ClusterName, Family, Level, Line, Namespace, Problem, ProblemKind, ServiceKey, sentence_of,
};
use crate::table::{Published, Table};

/// Maximum number of causes of one kind in a document, but for those of the server. The others are counted.
const MAX_CAUSES: usize = 50;
/// Of these, those whose services are all in one namespace, and the number of such namespaces: a tenant hides no cause of others.
const MAX_OF_NAMESPACE: usize = 5;
const MAX_NAMESPACES: usize = 20;

/// Problems by cause: their kind, and the cluster that they concern.
#[derive(Clone, Default)]
pub struct Causes {
    by_key: BTreeMap<CauseKey, Cause>,
}

/// The kind of problems, the cluster that they concern, and the kind of those that explain them.
type CauseKey = (ProblemKind, Option<ClusterName>, Option<ProblemKind>);

/// Problems of one cause.
#[derive(Clone)]
struct Cause {
    /// The first of them.
    first: Problem,
    /// Since when the cause exists: the age of its oldest problem.
    age: Age,
    counts: Counts,
    /// The namespace of all services that it affects, if it is one.
    namespace: Option<Namespace>,
}

/// The numbers of causes by kind, and by the namespace of their services.
type Numbers<'c> = BTreeMap<(ProblemKind, Option<&'c Namespace>), usize>;

// === impl Causes ===

impl Causes {
    /// Groups the problems of the published table, in which these services fail.
    pub(super) fn of(now: &Published, failing: &BTreeSet<&ServiceKey>) -> Self {
        let (mut causes, empty) = (Self::default(), Table::default());
        let table = now.table.as_ref().unwrap_or(&empty);
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
        let causes = self
            .by_key
            .range((kind, None, None)..)
            .take_while(|((other, ..), _)| *other == kind);
        causes.map(|(_, cause)| cause.counts.count).sum()
    }

    /// Returns the section of the causes that need attention.
    pub(super) fn section(&self, context: PrintContext<'_>) -> Section {
        self.section_of(context, |_| true)
    }

    /// Returns the section of those that are more than a problem in the row of one service: of the server, its source and clusters, of
    /// objects that are skipped, and of names that several services have.
    pub(super) fn above_services(&self, context: PrintContext<'_>, filter: &Filter) -> Section {
        let mut section = self.section_of(context, |cause| {
            // Objects that are skipped may make no service.
            if cause.first.kind.row().family == Family::Skipped {
                let own = cause.first.namespace();
                return own.is_none_or(|own| filter.has_namespace(own));
            }
            let service = cause
                .first
                .service
                .as_ref()
                .map(ServiceKey::labels)
                .and_then(|[name, namespace]| context.table?.service(namespace, name));
            let is_in_row = service.is_some_and(|service| {
                let mut own = service.problems.iter();
                service.should_answer() && own.any(|one| one.kind == cause.first.kind)
            });
            cause.counts.count > 1 || !is_in_row
        });
        // The objects of a table are services.
        section
            .rows
            .iter_mut()
            .for_each(|row| row.object = Value::Null);
        section
    }

    /// Returns the section of some causes that need attention. Those that make most services fail come first, then by level, then the
    /// newest. Effects stand below their cause.
    fn section_of(&self, context: PrintContext<'_>, is_shown: impl Fn(&Cause) -> bool) -> Section {
        let serious = self.by_key.iter();
        let mut serious: Vec<_> = serious
            .filter(|(_, one)| one.first.is_serious() && is_shown(one))
            .collect();
        serious.sort_by_key(|(key, own)| {
            let cause = self.cause_of(key).unwrap_or(own);
            let (kind, failing) = (cause.first.kind, cause.counts.failing);
            let rank = Reverse((cause.state(), failing, kind.row().level, cause.age.since));
            (rank, kind, key.2.is_some())
        });
        let (mut listed, mut more) = (Vec::new(), 0);
        let mut numbers = BTreeMap::new();
        for ((_, cluster, _), cause) in serious {
            if cause.has_room(&mut numbers) {
                listed.push(cause.report(cluster.as_ref(), context));
            } else {
                more += 1;
            }
        }
        let mut section = Section::of::<ProblemReport>("causes", listed);
        if more > 0 {
            section.push_text([String::new(), format!("and {more} more")]);
        }
        section
    }

    /// Returns the cause of an effect: of its cluster, or of all.
    fn cause_of(&self, (_, cluster, cause): &CauseKey) -> Option<&Cause> {
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
    fn state(&self) -> State {
        match self.first.kind.row().level {
            _ if self.counts.failing > 0 => State::Failing,
            Level::Error => State::Failing,
            Level::Warning => State::Attention,
            Level::Note => State::Ok,
        }
    }

    /// Returns whether a document has room for it, beside those that are listed: their numbers by kind and namespace.
    fn has_room<'c>(&'c self, listed: &mut Numbers<'c>) -> bool {
        let (kind, namespace) = (self.first.kind, self.namespace.as_ref());
        let of_kind = listed
            .range((kind, None)..)
            .take_while(|((one, _), _)| *one == kind);
        let namespaces = of_kind.filter(|((_, one), _)| one.is_some()).count();
        let number = listed.get(&(kind, namespace)).copied().unwrap_or_default();
        let has_room = match namespace {
            _ if kind.row().family == Family::Server => true,
            None => number < MAX_CAUSES,
            Some(_) if number == 0 => namespaces < MAX_NAMESPACES,
            Some(_) => number < MAX_OF_NAMESPACE,
        };
        if has_room {
            listed.insert((kind, namespace), number + 1);
        }
        has_room
    }

    /// Describes it. `cluster` is the one that it concerns.
    fn report(&self, cluster: Option<&ClusterName>, context: PrintContext<'_>) -> ProblemReport {
        let mut report = ProblemReport::new(&self.first, context);
        if self.counts.count > 1 {
            report.service = None;
            report.namespace = None;
            let subject = std::mem::take(&mut report.subject);
            report.detail = match self.first.kind.row().family {
                Family::Server => report.detail,
                // The row of each service says more.
                Family::State => Line::default(),
                Family::Skipped | Family::Conflict => {
                    let more = self.counts.count - 1;
                    let detail = sentence_of(&[&subject, &report.detail]);
                    format!("{detail}; and {more} more").into()
                }
            };
        }
        report.cluster = cluster.map(ToString::to_string);
        if let Some(cluster) = cluster {
            report.subject = cluster.as_str().into();
        }
        report.age = self.age.printed(context.clock);
        report.counts = Some(self.counts);
        report
    }
}
