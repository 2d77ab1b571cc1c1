//! The comparison as text and as JSON.

use std::fmt::Write as _;

use serde::Serialize;

use super::clusters::ComparedCluster;
use super::links::Directions;
use super::member::{Member, MemberFacts};
use crate::check::Diagnosis;
use crate::model::Line;
use crate::report::{Style, TextForm, text, write_rows};

/// Maximum number of clusters whose links fit into a text of the usual columns.
const MAX_COLUMNS: usize = 10;

/// The comparison of a fleet.
#[derive(Debug, Serialize)]
pub struct Fleet {
    /// The differences.
    #[serde(flatten)]
    pub diagnosis: Diagnosis,
    /// The clusters, in the order of the flags.
    clusters: Vec<ClusterRow>,
}

/// A cluster of a fleet. Contexts and servers may have any names.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct ClusterRow {
    /// The context, or the name that a flag gives it.
    context: Line,
    /// The name of the cluster. `None`: it cannot be read, or another context is the same cluster.
    cluster: Option<Line>,
    version: Option<Line>,
    /// The state of its table.
    state: Option<Line>,
    /// The names of its replicas.
    replicas: Vec<Line>,
    /// The number of services.
    services: usize,
    /// How it has each other cluster.
    links: Vec<LinkCell>,
}

/// How a cluster has another one.
#[derive(Debug, Serialize)]
struct LinkCell {
    /// The other cluster.
    cluster: Line,
    /// `linked`, `frozen`, `unlinked` (endpoints without a Link), `excluded`, `endpoints` (Links are not known), `none`, or
    /// `unknown`.
    state: &'static str,
}

// === impl Fleet ===

impl Fleet {
    pub(super) fn new(
        members: &[Member],
        clusters: &[ComparedCluster<'_>],
        links: &Directions<'_>,
        diagnosis: Diagnosis,
    ) -> Self {
        let row = |member: &Member| {
            let index = clusters
                .iter()
                .position(|one| one.context == member.context);
            let (Some(index), Ok(facts)) = (index, &member.facts) else {
                return ClusterRow {
                    context: member.context.as_str().into(),
                    ..ClusterRow::default()
                };
            };
            let MemberFacts {
                status,
                table,
                replicas,
                gateways: _, // are a finding
            } = facts;
            let others = clusters
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != index);
            let links = others.map(|(_, other)| LinkCell {
                cluster: other.name.as_str().into(),
                state: links.direction(index, &other.name).name(),
            });
            ClusterRow {
                context: member.context.as_str().into(),
                cluster: Some(clusters[index].name.as_str().into()),
                version: Some(status.version.as_str().into()),
                state: Some(status.state.as_str().into()),
                replicas: replicas
                    .iter()
                    .map(|one| one.name.as_str().into())
                    .collect(),
                services: table.services.len(),
                links: links.collect(),
            }
        };
        Self {
            clusters: members.iter().map(row).collect(),
            diagnosis,
        }
    }

    /// Returns the comparison as text.
    pub fn to_text(&self, Style { form, colors, .. }: Style) -> String {
        let head = [
            "CONTEXT", "CLUSTER", "VERSION", "TABLE", "REPLICAS", "SERVICES",
        ];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(self.clusters.iter().map(ClusterRow::cells));
        let named: Vec<&str> = self
            .clusters
            .iter()
            .filter_map(|row| row.cluster.as_deref())
            .collect();
        text(|text| {
            write_rows(text, &rows)?;
            if named.len() > 1 && (form == TextForm::Wide || named.len() <= MAX_COLUMNS) {
                let mut rows = vec![vec!["FROM / TO".to_owned()]];
                rows[0].extend(named.iter().map(|name| (*name).to_owned()));
                rows.extend(self.clusters.iter().filter_map(|row| row.links_to(&named)));
                text.push('\n');
                write_rows(text, &rows)?;
            }
            write!(text, "\n{}", self.diagnosis.to_text(colors))
        })
    }
}

// === impl ClusterRow ===

impl ClusterRow {
    fn cells(&self) -> Vec<String> {
        let text = |cell: &Option<Line>| cell.as_deref().unwrap_or("-").to_owned();
        let count = |count: usize| match &self.cluster {
            Some(_) => count.to_string(),
            None => "-".to_owned(),
        };
        vec![
            self.context.to_string(),
            text(&self.cluster),
            text(&self.version),
            text(&self.state),
            count(self.replicas.len()),
            count(self.services),
        ]
    }

    fn links_to(&self, clusters: &[&str]) -> Option<Vec<String>> {
        let own = self.cluster.as_ref()?;
        let state = |name: &&str| {
            let mut links = self.links.iter();
            let link = links.find(|link| *link.cluster == **name);
            link.map_or("-", |link| link.state).to_owned()
        };
        let links = clusters.iter().map(state);
        Some(std::iter::once(own.to_string()).chain(links).collect())
    }
}
