//! Clusters in the view `status`: the state of their Links, and what this server has of them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::age::Age;
use super::document::{Cells, Report};
use super::endpoint::{EndpointState, ListedEndpoint};
use super::error::ViewError;
use super::server::Shown;
use super::table::{ClusterCell, natural_order};
use crate::model::{ClusterName, Line, MAX_LISTED, ServiceKey, list_some};
use crate::table::Table;
use crate::table::links::{ClusterLink, LinkState};

/// Maximum number of clusters that only mirrors name: everybody who can create a Service can invent clusters.
const MAX_MIRRORED: usize = 20;
/// Maximum number of services in each list of a cluster. The others are counted.
const MAX_SERVICES: usize = 100;

/// A cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClusterReport {
    /// Its name, after aliases.
    name: String,
    /// Whether it is the cluster of the server.
    is_own: bool,
    /// The state of its Links: `linked`, `frozen`, `missing`, `unlinked` or `unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<&'static str>,
    /// Whether something is mirrored from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    is_mirrored: Option<bool>,
    /// Since when nobody maintains its mirrors, if that is so: that of a frozen one is the last time at which its Lease was renewed.
    #[serde(flatten)]
    age: Age,
}

/// A cluster, with what this server has of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClusterDetail {
    #[serde(flatten)]
    cluster: ClusterReport,
    /// What is wrong with its Links and Leases, if something is.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<Line>,
    /// The numbers of its endpoints by their state, which is the liveness that its mirrors show.
    endpoints: BTreeMap<EndpointState, u32>,
    /// The number of services that it has endpoints of, or that wait for it.
    service_count: usize,
    /// The first of them, those with trouble before others.
    services: Vec<ClusterService>,
    /// The number of services that other linked clusters have, and this one lacks.
    lacking_count: usize,
    /// The first of them, as `namespace/service`.
    lacking: Vec<String>,
}

/// What a cluster contributes to a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct ClusterService {
    /// The service, as `namespace/service`.
    service: String,
    #[serde(flatten)]
    cell: ClusterCell,
}

// === impl ClusterReport ===

impl ClusterReport {
    /// Returns the cluster of the server, if it is known, those that a Link or a Lease names, and the first ones that only mirrors
    /// name, with the number of the others.
    pub(super) fn all(shown: &Shown<'_>) -> (Vec<Self>, usize) {
        let own = shown.server.identity.cluster.iter();
        let mut clusters: Vec<Self> = own.map(|own| Self::new(shown, own, None)).collect();
        let (mut mirrored, mut more) = (0, 0);
        for (name, link) in links_by_name(shown.table()) {
            let is_linked = matches!(link.state, LinkState::Linked | LinkState::Frozen);
            if link.is_mirrored && !is_linked {
                mirrored += 1;
            }
            if is_linked || !link.is_mirrored || mirrored <= MAX_MIRRORED {
                clusters.push(Self::new(shown, name, Some(link)));
            } else {
                more += 1;
            }
        }
        (clusters, more)
    }

    /// Describes a cluster. That of the server has no link.
    fn new(shown: &Shown<'_>, name: &ClusterName, link: Option<&ClusterLink>) -> Self {
        let problem = link.and_then(|_| shown.table()?.link_problem(name));
        let age = problem.map(Age::from).unwrap_or_default();
        Self {
            name: name.to_string(),
            is_own: shown.server.identity.cluster.as_ref() == Some(name),
            link: link.map(|link| link.state.into()),
            is_mirrored: link.map(|link| link.is_mirrored),
            age: age.printed(shown.clock()),
        }
    }
}

/// Returns a link for each cluster, by its name after aliases: that of this name, if several have one.
fn links_by_name(table: Option<&Table>) -> BTreeMap<&ClusterName, &ClusterLink> {
    let mut links: BTreeMap<&ClusterName, &ClusterLink> = BTreeMap::new();
    let all = table.into_iter().flat_map(|table| &table.links.clusters);
    for (own_name, link) in all {
        let known = links.entry(&link.cluster).or_insert(link);
        if *own_name == link.cluster {
            *known = link;
        }
    }
    links
}

// === impl ClusterDetail ===

impl ClusterDetail {
    /// Describes a cluster that something here knows.
    pub(super) fn new(shown: &Shown<'_>, name: &str) -> Result<Self, ViewError> {
        let table = shown.table().ok_or(ViewError::NoTable)?;
        let links = links_by_name(Some(table));
        let cluster = ClusterName::interned(name).ok();
        let known = cluster.filter(|one| links.contains_key(one) || table.knows_cluster(name));
        let Some(cluster) = known else {
            let nearest = table.nearest_cluster(name);
            let nearest = nearest.map(|one| format!("; the nearest name is '{one}'"));
            let nearest = nearest.unwrap_or_default();
            let why = format!("no Link, mirror or Lease names such a cluster{nearest}");
            return Err(ViewError::invalid("cluster", name, &why));
        };
        let linked = table.linked_clusters();
        let is_linked = linked.contains(&cluster);
        let mut endpoints = BTreeMap::new();
        let (mut having, mut lacking) = (Vec::new(), Vec::new());
        for service in shown.services() {
            let cells = ClusterCell::of_service(service, shown.clock());
            let is_member = service.federated.contains(&cluster);
            // The address of several clusters comes before those of one.
            let mut cells = cells.into_iter().rev();
            let own =
                cells.find(|cell| cell.cluster == name || cell.cluster.is_empty() && is_member);
            if let Some(cell) = own {
                having.push((&service.key, cell));
            } else if is_linked
                && service.all_clusters().all(|one| *one != cluster)
                && service.all_clusters().any(|one| linked.contains(one))
            {
                lacking.push(&service.key);
            }
            for one in ListedEndpoint::of_service(service).filter(|one| one.cluster() == name) {
                *endpoints.entry(one.state).or_default() += 1;
            }
        }
        having.sort_by(|(key, cell), (other_key, other)| {
            let by_state = cell.state.cmp(&other.state);
            by_state.then_with(|| natural_order(key, other_key))
        });
        lacking.sort_by(|one, other| natural_order(one, other));
        let (service_count, lacking_count) = (having.len(), lacking.len());
        let services = having
            .into_iter()
            .take(MAX_SERVICES)
            .map(|(key, cell)| ClusterService {
                service: key.to_string(),
                cell,
            });
        let lacking = lacking.into_iter().take(MAX_SERVICES);
        Ok(Self {
            detail: table.link_problem(&cluster).map(|one| one.detail.clone()),
            cluster: ClusterReport::new(shown, &cluster, links.get(&cluster).copied()),
            endpoints,
            service_count,
            services: services.collect(),
            lacking_count,
            lacking: lacking.map(ServiceKey::to_string).collect(),
        })
    }
}

impl Report for ClusterDetail {
    fn cells(columns: Cells<Self>) -> Cells<Self> {
        columns
            .text("CLUSTER", |one| one.cluster.name.clone())
            .text("LINK", |one| {
                let mirrored = match one.cluster.is_mirrored {
                    Some(false) => ", nothing mirrored",
                    _ => "",
                };
                let link = one.cluster.link.unwrap_or_default();
                format!("{link}{mirrored}")
            })
            .time("SINCE", |one| one.cluster.age.cell())
            .text("SERVICES", |one| one.service_count.to_string())
            .text("WITHOUT", |one| list_some(&one.lacking, MAX_LISTED))
    }
}
