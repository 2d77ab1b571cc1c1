//! A part of a report: some namespaces, or what matches a text.

use super::{ConflictReport, ProblemReport, Report};
use crate::model::Namespace;

/// The part of a report or of a list of events to print.
#[derive(Clone, Copy, Debug)]
pub struct Selection<'s> {
    /// The namespaces; empty: all.
    pub namespaces: &'s [Namespace],
    /// Texts, of which one must occur in `NAMESPACE/NAME` or `NAME.NAMESPACE`; empty: everything.
    pub filters: &'s [String],
}

// === impl Selection ===

impl Selection<'_> {
    /// Returns whether the selection is everything.
    pub fn is_all(&self) -> bool {
        self.namespaces.is_empty() && self.filters.is_empty()
    }

    /// Returns whether a service or object is selected.
    pub fn has(&self, namespace: &str, name: &str) -> bool {
        let is_listed = |one: &Namespace| one.as_str() == namespace;
        let forms = [format!("{namespace}/{name}"), format!("{name}.{namespace}")];
        let is_match = |filter: &String| forms.iter().any(|form| form.contains(filter.as_str()));
        (self.namespaces.is_empty() || self.namespaces.iter().any(is_listed))
            && (self.filters.is_empty() || self.filters.iter().any(is_match))
    }

    /// Returns whether an object such as `Service/prod/db-0-west` is selected.
    fn has_object(&self, object: &str) -> bool {
        let mut parts = object.splitn(3, '/').skip(1);
        let (namespace, name) = (parts.next(), parts.next());
        self.has(namespace.unwrap_or_default(), name.unwrap_or_default())
    }

    /// Returns whether a problem is selected: its service, its object, or a namespace or text that it names.
    fn has_problem(&self, problem: &ProblemReport) -> bool {
        let ProblemReport {
            kind,
            subject,
            detail,
            service,
            ..
        } = problem;
        if let Some((namespace, name)) = service.as_ref().and_then(|key| key.split_once('/')) {
            return self.has(namespace, name) || self.has_object(subject);
        }
        if subject.matches('/').count() == 2 {
            return self.has_object(subject);
        }
        self.has_conflict(&ConflictReport {
            kind: *kind,
            name: subject.clone(),
            detail: detail.clone(),
        })
    }

    /// Returns whether a conflict is selected. It names its namespaces in its name or its detail.
    fn has_conflict(&self, conflict: &ConflictReport) -> bool {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let text = format!("{} {}", conflict.name, conflict.detail);
        let names = |namespace: &Namespace| {
            let mut words = text.split(|c| !is_part(c));
            words.any(|word| word == namespace.as_str())
        };
        let is_match = |filter: &String| text.contains(filter.as_str());
        (self.namespaces.is_empty() || self.namespaces.iter().any(names))
            && (self.filters.is_empty() || self.filters.iter().any(is_match))
    }
}

// === impl Report ===

impl Report {
    /// Keeps the selected services, skipped objects and conflicts.
    pub fn retain(&mut self, selection: &Selection<'_>) {
        if selection.is_all() {
            return;
        }
        self.services
            .retain(|one| selection.has(&one.namespace, &one.service));
        self.skipped.retain(|one| selection.has_object(&one.object));
        self.conflicts.retain(|one| selection.has_conflict(one));
        self.problems.retain(|one| selection.has_problem(one));
    }
}
