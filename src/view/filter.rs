//! What a request selects. The API reads it from a query string, and the commands from their flags.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{ViewError, past};
use crate::model::{ClusterName, Line, Namespace, Timestamp, most_similar};
use crate::table::Service;

/// What a request selects. Empty lists select everything.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Filter {
    /// The namespaces.
    #[serde(with = "list")]
    pub namespace: Vec<Namespace>,
    /// The clusters.
    #[serde(with = "list")]
    pub cluster: Vec<String>,
    /// The states: of services in the table, of endpoints in their list.
    #[serde(with = "list")]
    pub state: Vec<String>,
    /// The kinds of problems or of changes.
    #[serde(with = "list")]
    pub kind: Vec<String>,
    /// Texts. One of them must occur in `NAMESPACE/SERVICE` or `SERVICE.NAMESPACE`.
    #[serde(with = "list")]
    pub text: Vec<String>,
    /// The name or address to explain.
    pub name: Option<String>,
    /// The zone to print.
    pub zone: Option<String>,
    /// The time of the answers. `None`: now.
    #[serde(deserialize_with = "past::deserialize")]
    pub at: Option<Timestamp>,
    /// The time of the first event.
    #[serde(deserialize_with = "past::deserialize")]
    pub since: Option<Timestamp>,
    /// The ID of the last event that the client knows.
    pub after: Option<u64>,
    /// The number of rows of a page, at most [`MAX_LIMIT`].
    pub limit: Option<usize>,
    /// The place of the page: `continue` of the last one.
    #[serde(rename = "continue")]
    pub next: Option<String>,
}

/// The place of a page: `VERSION.OFFSET` in the parameter `continue`. A list of a table continues in that table, whatever has changed
/// since.
pub(super) struct PagePlace {
    /// The version of the table.
    pub version: u64,
    /// The number of rows before it.
    pub offset: usize,
}

/// Maximum number of rows of a page.
pub const MAX_LIMIT: usize = 1000;
/// The number of rows of a page, unless the request says another one.
const DEFAULT_LIMIT: usize = 200;

/// Maximum number of names that are compared with one that does not exist.
const MAX_COMPARED: usize = 2000;

// === impl Filter ===

impl Filter {
    /// Returns the number of rows of a page.
    pub(super) fn page_size(&self) -> usize {
        self.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT)
    }

    /// Returns the place of the page. `None`: the first one.
    pub(super) fn place(&self) -> Result<Option<PagePlace>, ViewError> {
        let Some(text) = &self.next else {
            return Ok(None);
        };
        let place = text.split_once('.').and_then(|(version, offset)| {
            Some(PagePlace {
                version: version.parse().ok()?,
                offset: offset.parse().ok()?,
            })
        });
        let invalid = || ViewError::invalid("continue", text, "use the one of the last page");
        place.map(Some).ok_or_else(invalid)
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
                self.text
                    .iter()
                    .any(|text| forms.iter().any(|form| form.contains(text.as_str())))
            })
    }

    /// Returns whether a namespace is selected.
    pub fn has_namespace(&self, namespace: &str) -> bool {
        let mut namespaces = self.namespace.iter();
        self.namespace.is_empty() || namespaces.any(|one| one.as_str() == namespace)
    }

    /// Returns whether a service is selected, but for its state: by its name, and by one of the clusters.
    pub(super) fn selects(&self, service: &Service) -> bool {
        let is_in = |cluster: &str| is_listed(&self.cluster, cluster);
        self.has_service(service.key.labels())
            && (self.cluster.is_empty() || clusters(service).any(is_in))
    }

    /// Returns what of the filter none of the services matches, with a similar one that exists: its namespaces, its texts, or a
    /// cluster. Returns `None` if all match.
    pub(super) fn unmatched(&self, services: &[&Service]) -> Option<String> {
        // What is said of the whole list is on its first page.
        if self.next.is_some() {
            return None;
        }
        let labels = || services.iter().map(|service| service.key.labels());
        let selects_all = self.namespace.is_empty() && self.text.is_empty();
        if selects_all || labels().any(|labels| self.has_service(labels)) {
            if self.cluster.is_empty() {
                return None;
            }
            let known: BTreeSet<&str> = services.iter().flat_map(|one| clusters(one)).collect();
            let mut unknown = self.cluster.iter();
            let cluster = unknown.find(|one| !known.contains(one.as_str()))?;
            let hint = hint(cluster, known);
            return Some(format!("no endpoint in cluster '{cluster}'{hint}"));
        }
        let namespaces: BTreeSet<&str> = labels().map(|[_, namespace]| namespace).collect();
        let mut unknown = self.namespace.iter();
        if let Some(namespace) = unknown.find(|one| !namespaces.contains(one.as_str())) {
            let hint = hint(namespace.as_str(), namespaces);
            return Some(format!("no service in namespace '{namespace}'{hint}"));
        }
        let selected = labels().filter(|[_, namespace]| self.has_namespace(namespace));
        let forms: Vec<String> = selected.flat_map(forms).collect();
        let hint = hint(self.text.first()?, forms.iter().map(String::as_str));
        let texts = self.text.join("' or '");
        Some(format!("no service matches '{texts}'{hint}"))
    }
}

/// A list as a parameter: its items, separated by commas. An empty one is no parameter.
mod list {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de};

    use crate::model::join_texts;

    pub(super) fn serialize<T: Display, S: Serializer>(
        list: &[T],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let text = join_texts(list, ",");
        (!text.is_empty()).then_some(text).serialize(to)
    }

    pub(super) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<T>, D::Error> {
        String::deserialize(from)?
            .split(',')
            .filter(|item| !item.is_empty())
            .map(str::parse)
            .collect::<Result<_, _>>()
            .map_err(de::Error::custom)
    }
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

/// Returns the clusters of its endpoints, those of its federated address, and those that its name waits for.
fn clusters(service: &Service) -> impl Iterator<Item = &str> {
    let endpoints = service.endpoints.iter().chain(&service.not_ready);
    let expected = service.missing_clusters().iter();
    let clusters = endpoints.map(|endpoint| endpoint.labels()[1]);
    let federated = service.federated.iter().map(ClusterName::as_str);
    clusters.chain(federated).chain(expected.map(Line::as_str))
}

/// Returns a question for the name that is most similar to a given one, if one of the first [`MAX_COMPARED`] is similar.
fn hint<'n>(given: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    let names = names.into_iter().take(MAX_COMPARED).map(str::to_owned);
    most_similar(given, names).map_or_else(String::new, |name| format!("; did you mean '{name}'?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_is_the_same_after_a_request() {
        let query = "namespace=prod%2Cshop&cluster=east&text=db&at=2026-11-24T03%3A12%3A00Z&limit=7&continue=4.200";
        let filter: Filter = serde_urlencoded::from_str(query).unwrap();
        assert_eq!(serde_urlencoded::to_string(&filter).unwrap(), query);
        assert!(filter.has_service(["db-x", "prod"]) && !filter.has_service(["db", "dev"]));
        for query in ["namespace=a%20b", "at=x", "limit=-1"] {
            assert!(
                serde_urlencoded::from_str::<Filter>(query).is_err(),
                "{query}"
            );
        }
    }
}
