//! Problems in documents, and causes of several ones.

use std::borrow::Borrow;

use serde::Serialize;

use super::{Age, Cells, Report, Section};
use crate::model::{Level, Line, Problem, ProblemKind, sentence_of};
use crate::source::SteadyClock;
use crate::table::Table;

/// A problem, or a cause of several ones.
#[derive(Serialize)]
pub(super) struct ProblemReport {
    /// The kind. The manual has a section for it.
    pub kind: ProblemKind,
    /// How bad it is.
    pub level: Level,
    /// What is wrong with every problem of the kind.
    pub sentence: &'static str,
    /// What it concerns, if it is one thing: an object, a name, a service or a cluster. Empty: the server.
    pub subject: Line,
    /// The service, as `namespace/name`, if it concerns one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The namespace that it concerns, if it concerns one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The cluster, if it concerns one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// What is wrong in this case, if it is one problem, or one of the server.
    pub detail: Line,
    /// The kind of the problem that explains it, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<ProblemKind>,
    /// Since when it holds.
    #[serde(flatten)]
    pub age: Age,
    /// What a person does, with the names of one of the problems. Empty: the cause says that.
    pub hint: String,
    /// The section of the manual for the kind: a page and its anchor.
    pub anchor: String,
    /// What a cause affects.
    #[serde(flatten)]
    pub counts: Option<Counts>,
}

/// What is needed to print problems.
#[derive(Clone, Copy)]
pub(super) struct PrintContext<'t> {
    /// The clock of the process.
    pub clock: SteadyClock,
    /// The table that they are of, if there is one.
    pub table: Option<&'t Table>,
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

// === impl ProblemReport ===

impl ProblemReport {
    /// Makes the section of some problems.
    pub(super) fn section<'p>(
        problems: impl IntoIterator<Item = &'p (impl Borrow<Problem> + 'p)>,
        context: PrintContext<'_>,
    ) -> Section {
        let reports = problems
            .into_iter()
            .map(|one| Self::new(one.borrow(), context));
        Section::of::<Self>("problems", reports)
    }

    pub(super) fn new(problem: &Problem, context: PrintContext<'_>) -> Self {
        let row = problem.kind.row();
        let detail = context
            .table
            .map_or_else(|| problem.detail.clone(), |table| table.detail_of(problem));
        Self {
            kind: problem.kind,
            level: row.level,
            sentence: row.sentence,
            subject: problem.subject(),
            service: problem.service.as_ref().map(ToString::to_string),
            namespace: problem.namespace().map(ToString::to_string),
            cluster: problem.cluster.as_ref().map(ToString::to_string),
            detail: problem.with_objects(detail),
            cause: problem.cause,
            age: Age::from(problem).printed(context.clock),
            hint: problem.hint(),
            anchor: problem.kind.anchor(),
            counts: None,
        }
    }

    /// Returns what is wrong with what, the number of services that it affects, and since when.
    fn text(&self) -> String {
        let text = sentence_of(&[&self.subject, self.sentence, &self.detail]);
        let services = self.counts.filter(|counts| counts.services > 1);
        let facts: Vec<String> = services
            .map(|counts| format!("{} services", counts.services))
            .into_iter()
            .chain(self.age.words())
            .collect();
        match facts.join(", ").as_str() {
            "" => text,
            facts => format!("{text} ({facts})"),
        }
    }
}

impl Report for ProblemReport {
    fn cells(columns: Cells<Self>) -> Cells<Self> {
        columns
            .state("LEVEL", |one| match one.level {
                _ if one.counts.is_some_and(|counts| counts.failing > 0) => "failing".to_owned(),
                Level::Error => "failing".to_owned(),
                Level::Warning => "attention".to_owned(),
                Level::Note => "note".to_owned(),
            })
            .text("KIND", |one| one.kind.to_string())
            .wide("CAUSE", |one| {
                one.cause.map_or("", ProblemKind::name).to_owned()
            })
            .wide("WHAT TO DO", |one| one.hint.clone())
            .sentence("PROBLEM", Self::text)
    }
}
