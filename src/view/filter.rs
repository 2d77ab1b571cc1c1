//! What a request selects. The API reads it from a query string, and the commands from their flags.

use std::collections::BTreeSet;
use std::str::FromStr;

use super::error::ViewError;
use super::kind::View;
use crate::model::{Namespace, Timestamp, most_similar};
use crate::table::Service;

/// What a request selects. Empty lists select everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// The namespaces.
    pub namespace: Vec<Namespace>,
    /// The clusters.
    pub cluster: Vec<String>,
    /// The states: of services in the table, of endpoints in their list.
    pub state: Vec<String>,
    /// The kinds of problems or of changes.
    pub kind: Vec<String>,
    /// Texts. One of them must occur in `NAMESPACE/SERVICE` or `SERVICE.NAMESPACE`.
    pub text: Vec<String>,
    /// The name or address to explain.
    pub name: Option<String>,
    /// The zone to print.
    pub zone: Option<String>,
    /// The time of the answers. `None`: now.
    pub at: Option<Timestamp>,
    /// The time of the first event.
    pub since: Option<Timestamp>,
    /// The ID of the last event that the client knows.
    pub after: Option<u64>,
    /// The number of rows of a page, at most [`MAX_LIMIT`](super::MAX_LIMIT).
    pub limit: Option<usize>,
    /// The place of the page: `continue` of the last one.
    pub next: Option<String>,
}

// === impl Filter ===

impl Filter {
    /// Reads the parameters of a request for a view.
    ///
    /// # Errors
    ///
    /// If a parameter is not known, or if its value cannot be read.
    pub fn of_query(view: View, query: &[(String, String)]) -> Result<Self, ViewError> {
        let mut filter = Self::default();
        for (name, value) in query {
            if !view.parameters().any(|known| known == name) {
                return Err(ViewError::unknown_parameter(view, name));
            }
            filter.set(name, value)?;
        }
        Ok(filter)
    }

    /// Sets a parameter that a view has.
    fn set(&mut self, name: &str, value: &str) -> Result<(), ViewError> {
        let list = || value.split(',').filter(|item| !item.is_empty());
        let texts = || list().map(str::to_owned).collect();
        let invalid = |why: &str| ViewError::invalid(name, value, why);
        let time = || {
            let read = Timestamp::from_text(value);
            read.ok_or_else(|| invalid("use RFC 3339, such as 2026-11-24T03:12:00Z"))
        };
        match name {
            "namespace" => {
                let read: Result<_, _> = list().map(Namespace::from_str).collect();
                self.namespace = read.map_err(|error| invalid(&error.to_string()))?;
            }
            "cluster" => self.cluster = texts(),
            "state" => self.state = texts(),
            "kind" => self.kind = texts(),
            "text" => self.text = texts(),
            "name" => self.name = Some(value.to_owned()),
            "zone" => self.zone = Some(value.to_owned()),
            "at" => self.at = Some(time()?),
            "since" => self.since = Some(time()?),
            "after" => self.after = Some(number(name, value, "use the ID of an event")?),
            "limit" => self.limit = Some(number(name, value, "use a number")?),
            _ => self.next = Some(value.to_owned()), // `continue`
        }
        Ok(())
    }

    /// Returns the parameters, for a request.
    pub fn to_query(&self) -> Vec<(&'static str, String)> {
        let list = |list: &[String]| Some(list.join(",")).filter(|text| !text.is_empty());
        let namespaces: Vec<String> = self.namespace.iter().map(ToString::to_string).collect();
        let all = [
            ("namespace", list(&namespaces)),
            ("cluster", list(&self.cluster)),
            ("state", list(&self.state)),
            ("kind", list(&self.kind)),
            ("text", list(&self.text)),
            ("name", self.name.clone()),
            ("zone", self.zone.clone()),
            ("at", self.at.map(Timestamp::to_exact_text)),
            ("since", self.since.map(Timestamp::to_exact_text)),
            ("after", self.after.map(|id| id.to_string())),
            ("limit", self.limit.map(|limit| limit.to_string())),
            ("continue", self.next.clone()),
        ];
        let given = |(name, value): (_, Option<String>)| Some((name, value?));
        all.into_iter().filter_map(given).collect()
    }

    /// Returns whether it selects a part of a list: some rows, or a page behind the first one.
    pub fn selects_rows(&self) -> bool {
        let whole = Self {
            at: self.at,
            limit: self.limit,
            ..Self::default()
        };
        *self != whole
    }

    /// Returns whether a service is selected by its name, the labels `S.N`.
    pub fn has_service(&self, labels: [&str; 2]) -> bool {
        self.has_namespace(labels[1])
            && (self.text.is_empty() || {
                let forms = forms(labels);
                let mut texts = self.text.iter();
                texts.any(|text| forms.iter().any(|form| form.contains(text.as_str())))
            })
    }

    /// Returns whether a namespace is selected.
    pub fn has_namespace(&self, namespace: &str) -> bool {
        let mut namespaces = self.namespace.iter();
        self.namespace.is_empty() || namespaces.any(|one| one.as_str() == namespace)
    }

    /// Returns whether a service is selected, but for its state: by its name, and by an endpoint in one of the clusters.
    pub(super) fn selects(&self, service: &Service) -> bool {
        let is_in = |cluster: &str| is_listed(&self.cluster, cluster);
        self.has_service(service.key.labels())
            && (self.cluster.is_empty() || clusters(service).any(is_in))
    }

    /// Returns what of the filter none of the services matches, with a similar one that exists: its namespaces, its texts, or a
    /// cluster. Returns `None` if all match.
    pub(super) fn unmatched(&self, services: &[&Service]) -> Option<String> {
        let names = || services.iter().map(|service| service.key.labels());
        let namespaces: BTreeSet<&str> = names().map(|[_, namespace]| namespace).collect();
        let is_unknown = |one: &&Namespace| !namespaces.contains(one.as_str());
        let selects_all = self.namespace.is_empty() && self.text.is_empty();
        if selects_all || names().any(|labels| self.has_service(labels)) {
            let known: BTreeSet<&str> = services.iter().flat_map(|one| clusters(one)).collect();
            let mut clusters = self.cluster.iter();
            let cluster = clusters.find(|one| !known.contains(one.as_str()))?;
            let hint = hint(cluster, known);
            Some(format!("no endpoint in cluster '{cluster}'{hint}"))
        } else if let Some(namespace) = self.namespace.iter().find(is_unknown) {
            let hint = hint(namespace.as_str(), namespaces);
            Some(format!("no service in namespace '{namespace}'{hint}"))
        } else {
            let selected = names().filter(|[_, namespace]| self.has_namespace(namespace));
            let forms: Vec<String> = selected.flat_map(forms).collect();
            let hint = hint(self.text.first()?, forms.iter().map(String::as_str));
            let texts = self.text.join("' or '");
            Some(format!("no service matches '{texts}'{hint}"))
        }
    }
}

/// Reads a number: of rows, or the ID of an event.
fn number<T: FromStr>(name: &str, value: &str, why: &str) -> Result<T, ViewError> {
    let number = value.parse().ok();
    number.ok_or_else(|| ViewError::invalid(name, value, why))
}

/// Returns whether a list selects a value. An empty list selects all.
pub(super) fn is_listed(list: &[String], value: &str) -> bool {
    list.is_empty() || list.iter().any(|one| one == value)
}

/// Returns the ways to write the name of a service.
fn forms([service, namespace]: [&str; 2]) -> [String; 3] {
    let name = format!("{service}.{namespace}");
    [service.to_owned(), name, format!("{namespace}/{service}")]
}

fn clusters(service: &Service) -> impl Iterator<Item = &str> {
    let endpoints = service.endpoints.iter().chain(&service.not_ready);
    endpoints.map(|endpoint| endpoint.labels()[1])
}

/// Returns a question for the name that is most similar to a given one, if one is similar.
fn hint<'n>(given: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    let similar = most_similar(given, names.into_iter().map(str::to_owned));
    similar.map_or_else(String::new, |name| format!("; did you mean '{name}'?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn filter_is_the_same_after_a_request() {
        let pairs = [
            ("namespace", "prod,shop"),
            ("cluster", "east"),
            ("text", "db"),
            ("at", "2026-11-24T03:12:00.000Z"),
            ("limit", "7"),
            ("continue", "4.200"),
        ];
        let filter = Filter::of_query(View::Table, &query(&pairs)).unwrap();
        assert_eq!(
            filter.to_query(),
            pairs.map(|(name, value)| (name, value.to_owned()))
        );
        assert!(filter.has_service(["db-x", "prod"]) && !filter.has_service(["db", "dev"]));
    }

    #[test]
    fn unknown_parameter_is_refused_with_those_of_the_view() {
        let error = Filter::of_query(View::Status, &query(&[("limit", "7")])).unwrap_err();
        let expected = "parameter: 'limit' cannot be used: status takes at";
        assert_eq!(error.to_string(), expected);
        for (name, value) in [("namespace", "a b"), ("at", "x"), ("limit", "-1")] {
            assert!(
                Filter::of_query(View::Table, &query(&[(name, value)])).is_err(),
                "{name}"
            );
        }
    }
}
