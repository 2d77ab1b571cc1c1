//! Problems in documents, and the view `problems`: the causes first, then each problem of the table, those of clusters before those of
//! services, then those of the server.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::causes::Cause;
use super::{Age, Cells, Counts, Document, Filter, Report, Section, Shown, is_listed};
use crate::model::{
    ClusterName, Family, Level, Line, Namespace, Problem, ProblemKind, ServiceKey, Text,
    sentence_of,
};
use crate::table::Table;

/// Maximum number of causes of one kind in a document, but for those of the server. The others are counted.
const MAX_CAUSES: usize = 50;
/// Of these, those whose services are all in one namespace, and the number of such namespaces: a tenant hides no cause of others.
const MAX_OF_NAMESPACE: usize = 5;
const MAX_NAMESPACES: usize = 20;

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
    pub service: Option<ServiceKey>,
    /// The namespace that it concerns, if it concerns one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Text>,
    /// The cluster, if it concerns one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterName>,
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

/// Adds the problems.
pub(super) fn problems(shown: &Shown<'_>, document: &mut Document) {
    let filter = shown.filter;
    // Documents are made one at a time, so that the list of all is in memory once.
    let of_table = shown.table().into_iter().flat_map(Table::reported_problems);
    let mut selected = sorted(filter, of_table);
    // Those of the server come and go between two pages, and must not move the others.
    selected.extend(sorted(filter, shown.problems().into_iter().map(Cow::Owned)));
    let rows = shown.page(selected, document);
    if !filter.selects_rows() {
        document.sections.push(causes(shown, |_| true));
    }
    document
        .sections
        .push(ProblemReport::section(rows.iter().map(Cow::as_ref), shown));
}

/// Returns the selected problems, the worst first, and those of clusters before those of services.
fn sorted<'p>(
    filter: &Filter,
    problems: impl Iterator<Item = Cow<'p, Problem>>,
) -> Vec<Cow<'p, Problem>> {
    let mut selected: Vec<_> = problems.filter(|one| is_selected(filter, one)).collect();
    selected.sort();
    selected.sort_by_key(|one| (Reverse(one.kind.row().level), one.service.is_some()));
    selected
}

/// Returns whether a problem is selected: by its kind, its cluster, and its service, object or text.
fn is_selected(filter: &Filter, problem: &Problem) -> bool {
    let cluster = problem.cluster.as_ref().map_or("", |one| one.as_str());
    let has_name = match (&problem.service, problem.objects.first()) {
        (Some(key), _) => filter.has_service(key.labels()),
        (None, Some(object)) => {
            let key = &object.key;
            filter.has_service([&key.name.text(), &key.namespace])
        }
        (None, None) => {
            let text = format!("{} {}", problem.subject(), problem.detail);
            let is_part = |one: &String| text.contains(one.as_str());
            filter.namespace.is_empty()
                && (filter.text.is_empty() || filter.text.iter().any(is_part))
        }
    };
    has_name && is_listed(&filter.kind, problem.kind.name()) && is_listed(&filter.cluster, cluster)
}

/// Returns the section of the causes that are more than a problem in the row of one service: of the server, its source and clusters, of
/// objects that are skipped, and of names that several services have.
pub(super) fn causes_above_services(shown: &Shown<'_>) -> Section {
    let mut section = causes(shown, |Cause { first, counts, .. }| {
        // Objects that are skipped may make no service.
        if first.kind.row().family == Family::Skipped {
            let own = first.namespace();
            return own.is_none_or(|own| shown.filter.has_namespace(own));
        }
        let find = |key: &ServiceKey| shown.table()?.find(key);
        let is_in_row = first
            .service
            .as_ref()
            .and_then(find)
            .is_some_and(|service| {
                let mut own = service.problems.iter();
                service.should_answer() && own.any(|one| one.kind == first.kind)
            });
        counts.count > 1 || !is_in_row
    });
    // The objects of a table are services.
    for row in &mut section.rows {
        row.object = Value::Null;
    }
    section
}

/// Returns the section of some causes that need attention. Those that make most services fail come first, then by level, then the
/// newest. Effects stand below their cause.
fn causes(shown: &Shown<'_>, is_shown: impl Fn(&Cause) -> bool) -> Section {
    let all = shown.causes();
    let is_shown = |one: &Cause| one.first.is_serious() && is_shown(one);
    let mut serious: Vec<_> = all.by_key.iter().filter(|(_, one)| is_shown(one)).collect();
    serious.sort_by_key(|(key, own)| {
        let cause = all.cause_of(key).unwrap_or(own);
        let (kind, failing) = (cause.first.kind, cause.counts.failing);
        let rank = Reverse((cause.state(), failing, kind.row().level, cause.age.since));
        (rank, kind, key.2.is_some())
    });
    let (mut listed, mut more) = (Vec::new(), 0);
    // The numbers of those that are listed, and of no others: a namespace for each cause would cost their square.
    let mut numbers: BTreeMap<(ProblemKind, Option<&Namespace>), usize> = BTreeMap::new();
    for ((_, cluster, _), cause) in serious {
        let (kind, namespace) = (cause.first.kind, cause.namespace.as_ref());
        let of_kind = numbers.keys().filter(|(one, _)| *one == kind);
        let namespaces = of_kind.filter(|(_, one)| one.is_some()).count();
        let number = numbers.get(&(kind, namespace)).copied().unwrap_or(0);
        let has_room = match namespace {
            _ if kind.row().family == Family::Server => true,
            None => number < MAX_CAUSES,
            Some(_) if number == 0 => namespaces < MAX_NAMESPACES,
            Some(_) => number < MAX_OF_NAMESPACE,
        };
        if has_room {
            numbers.insert((kind, namespace), number + 1);
            listed.push(report(cause, cluster.as_ref(), shown));
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

/// Describes a cause. `cluster` is the one that it concerns.
fn report(cause: &Cause, cluster: Option<&ClusterName>, shown: &Shown<'_>) -> ProblemReport {
    let own = ProblemReport::new(&cause.first, shown);
    let mut report = ProblemReport {
        cluster: cluster.cloned(),
        age: cause.age.printed(shown.clock()),
        counts: Some(cause.counts),
        ..own
    };
    if cause.counts.count > 1 {
        report.service = None;
        report.namespace = None;
        let subject = std::mem::take(&mut report.subject);
        match cause.first.kind.row().family {
            Family::Server => {}
            // The row of each service says more.
            Family::State => report.detail = Line::default(),
            Family::Skipped | Family::Conflict => {
                let more = cause.counts.count - 1;
                let detail = sentence_of(&[&subject, &report.detail]);
                report.detail = format!("{detail}; and {more} more").into();
            }
        }
    }
    if let Some(cluster) = cluster {
        report.subject = cluster.as_str().into();
    }
    report
}

// === impl ProblemReport ===

impl ProblemReport {
    /// Makes the section of some problems.
    pub(super) fn section<'p>(
        problems: impl IntoIterator<Item = &'p Problem>,
        shown: &Shown<'_>,
    ) -> Section {
        let reports = problems.into_iter().map(|one| Self::new(one, shown));
        Section::of::<Self>("problems", reports)
    }

    pub(super) fn new(problem: &Problem, shown: &Shown<'_>) -> Self {
        let row = problem.kind.row();
        let detail = match shown.table() {
            Some(table) => table.detail_of(problem),
            None => problem.detail.clone(),
        };
        Self {
            kind: problem.kind,
            level: row.level,
            sentence: row.sentence,
            subject: problem.subject(),
            service: problem.service.clone(),
            namespace: problem.namespace().cloned(),
            cluster: problem.cluster.clone(),
            detail: problem.with_objects(detail),
            cause: problem.cause,
            age: Age::from(problem).printed(shown.clock()),
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
