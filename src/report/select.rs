//! A part of a report: some namespaces, clusters or states, or what matches a text.

use std::collections::BTreeSet;

use super::{EndpointState, ProblemReport, Report, Summary};
use crate::model::{Namespace, most_similar};

/// The part of a report or of a list of events to print.
#[derive(Clone, Copy, Debug)]
pub struct Selection<'s> {
    /// The namespaces; empty: all.
    pub namespaces: &'s [Namespace],
    /// Texts. One of them must occur in `NAMESPACE/NAME` or `NAME.NAMESPACE`; empty: everything.
    pub filters: &'s [String],
}

/// The endpoints to print, by cluster and by state. Empty: all.
#[derive(Clone, Copy, Debug)]
pub struct EndpointSelection<'s> {
    /// The clusters.
    pub clusters: &'s [String],
    /// The states.
    pub states: &'s [EndpointState],
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
        self.has_text(&format!("{subject} {detail}"))
    }

    /// Returns whether the name and the detail of a conflict are selected: they name its namespaces.
    fn has_text(&self, text: &str) -> bool {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let names = |namespace: &Namespace| {
            let mut words = text.split(|c| !is_part(c));
            words.any(|word| word == namespace.as_str())
        };
        let is_match = |filter: &String| text.contains(filter.as_str());
        (self.namespaces.is_empty() || self.namespaces.iter().any(names))
            && (self.filters.is_empty() || self.filters.iter().any(is_match))
    }
}

// === impl EndpointSelection ===

impl EndpointSelection<'_> {
    fn is_all(&self) -> bool {
        self.clusters.is_empty() && self.states.is_empty()
    }

    fn has_cluster(&self, cluster: &str) -> bool {
        self.clusters.is_empty() || self.clusters.iter().any(|one| one == cluster)
    }

    fn has(&self, cluster: &str, state: &str) -> bool {
        let mut states = self.states.iter();
        let has_state = self.states.is_empty() || states.any(|one| one.name() == state);
        self.has_cluster(cluster) && has_state
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
        self.conflicts
            .retain(|one| selection.has_text(&format!("{} {}", one.name, one.detail)));
        self.problems.retain(|one| selection.has_problem(one));
    }

    /// Keeps the selected endpoints, and the problems of their services and clusters.
    pub fn retain_endpoints(&mut self, selection: &EndpointSelection<'_>) {
        if selection.is_all() {
            return;
        }
        for service in &mut self.services {
            let endpoints = &mut service.endpoints;
            endpoints.retain(|one| selection.has(&one.cluster, one.state.name()));
        }
        self.services.retain(|one| !one.endpoints.is_empty());
        let services: BTreeSet<String> = self
            .services
            .iter()
            .map(|one| format!("{}/{}", one.namespace, one.service))
            .collect();
        self.problems.retain(|problem| {
            let service = problem.service.as_ref();
            let has_service = service.is_some_and(|service| services.contains(service));
            match &problem.cluster {
                Some(cluster) => {
                    selection.has_cluster(cluster) && (service.is_none() || has_service)
                }
                None => has_service,
            }
        });
        let subjects: BTreeSet<&str> = self.problems.iter().map(|one| &*one.subject).collect();
        self.skipped.retain(|one| subjects.contains(&*one.object));
        self.conflicts.retain(|one| subjects.contains(&*one.name));
    }

    /// Returns the clusters of all endpoints.
    pub fn clusters(&self) -> BTreeSet<&str> {
        let endpoints = self.services.iter().flat_map(|one| &one.endpoints);
        endpoints.map(|one| one.cluster.as_str()).collect()
    }
}

// === impl Summary ===

impl Summary {
    /// Keeps the selected services.
    pub fn retain(&mut self, selection: &Selection<'_>) {
        self.services
            .retain(|one| selection.has(&one.namespace, &one.service));
    }

    /// Keeps the cells of the selected clusters, and the services with such a cell in a selected state.
    pub fn retain_cells(&mut self, selection: &EndpointSelection<'_>) {
        if selection.is_all() {
            return;
        }
        for service in &mut self.services {
            let cells = &mut service.cells;
            cells.retain(|one| selection.has_cluster(&one.cluster));
        }
        let is_selected = |one: &super::Cell| selection.has(&one.cluster, one.state.name());
        self.services
            .retain(|one| one.cells.iter().any(is_selected));
    }

    /// Returns the clusters of all cells.
    pub fn clusters(&self) -> BTreeSet<&str> {
        let cells = self.services.iter().flat_map(|one| &one.cells);
        cells.map(|one| one.cluster.as_str()).collect()
    }
}

// === What matches nothing ===

impl Selection<'_> {
    /// Returns what matches none of the services, with a similar name that exists. Returns `None` if a service is selected,
    /// or if there is nothing to select by.
    pub fn unmatched<'n>(
        &self,
        services: impl Iterator<Item = (&'n str, &'n str)> + Clone,
    ) -> Option<String> {
        if self.is_all()
            || services
                .clone()
                .any(|(namespace, name)| self.has(namespace, name))
        {
            return None;
        }
        let has_namespace =
            |one: &Namespace| services.clone().any(|(other, _)| other == one.as_str());
        if let Some(namespace) = self.namespaces.iter().find(|one| !has_namespace(one)) {
            let namespaces = services.map(|(namespace, _)| namespace.to_owned());
            let hint = hint(namespace.as_str(), namespaces);
            return Some(format!("no service in namespace '{namespace}'{hint}"));
        }
        let filters: Vec<String> = self.filters.iter().map(|one| format!("'{one}'")).collect();
        let of_namespaces = match self.namespaces {
            [] => String::new(),
            some => {
                let names: Vec<&str> = some.iter().map(Namespace::as_str).collect();
                format!(" in namespace {}", names.join(" or "))
            }
        };
        let is_of = |namespace: &str| self.namespaces.iter().any(|one| one.as_str() == namespace);
        let services = services.filter(|(one, _)| self.namespaces.is_empty() || is_of(one));
        let names = services.flat_map(|(namespace, name)| {
            let long = format!("{name}.{namespace}");
            [name.to_owned(), long, format!("{namespace}/{name}")]
        });
        let filter = self.filters.first().map_or("", String::as_str);
        let hint = hint(filter, names);
        let filters = filters.join(" or ");
        Some(format!("no service matches {filters}{of_namespaces}{hint}"))
    }
}

impl EndpointSelection<'_> {
    /// Returns a cluster that has no endpoint, with a similar one that has.
    pub fn unmatched(&self, clusters: &BTreeSet<&str>) -> Option<String> {
        let mut given = self.clusters.iter();
        let cluster = given.find(|one| !clusters.contains(one.as_str()))?;
        let hint = hint(cluster, clusters.iter().map(|&one| one.to_owned()));
        Some(format!("no endpoint in cluster '{cluster}'{hint}"))
    }
}

/// Returns a question for the name that is most similar to a given one, if one is similar.
fn hint(given: &str, names: impl Iterator<Item = String>) -> String {
    let similar = most_similar(given, names);
    similar.map_or_else(String::new, |name| format!("; did you mean '{name}'?"))
}
