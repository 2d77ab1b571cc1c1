//! The clusters that a server knows.

use schemars::JsonSchema;
use serde::Serialize;

use super::age::Age;
use crate::model::ClusterName;
use crate::table::Table;

/// A cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClusterReport {
    /// Its name, after aliases.
    pub name: String,
    /// Whether it is the cluster of the server.
    pub is_own: bool,
    /// The state of its Links: `linked`, `frozen`, `missing`, `unlinked` or `unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<&'static str>,
    /// Since when nobody maintains its mirrors, if that is so.
    #[serde(flatten)]
    pub age: Age,
}

// === impl ClusterReport ===

impl ClusterReport {
    /// Returns the cluster of the server, if it is known, and those of Links.
    pub(super) fn all(own: Option<&ClusterName>, table: Option<&Table>) -> Vec<Self> {
        let report = |name: &ClusterName, is_own, link| {
            let problem = table.and_then(|table| table.link_problem(name));
            Self {
                name: name.to_string(),
                is_own,
                link,
                age: problem.map(Age::from).unwrap_or_default(),
            }
        };
        let own = own.map(|own| report(own, true, None));
        let links = table.iter().flat_map(|table| table.links.clusters.values());
        let linked = links.map(|link| report(&link.cluster, false, Some(link.state.into())));
        own.into_iter().chain(linked).collect()
    }
}
