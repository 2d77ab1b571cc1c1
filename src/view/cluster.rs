//! Clusters in the view `status`: the state of their Links, and what this server has of them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Age, ClusterCell, EndpointState, Shown, ViewError};
use crate::model::{ClusterName, Line};
use crate::table::Table;
use crate::table::links::ClusterLink;

/// Maximum number of clusters that only mirrors name: everybody who can create a Service can invent clusters.
const MAX_MIRRORED: usize = 20;
/// Maximum number of services in each list of a cluster. The others are counted.
const MAX_SERVICES: usize = 100;

/// A cluster.
#[derive(Serialize)]
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
#[derive(Serialize)]
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
#[derive(Serialize)]
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
        let table = shown.table();
        let mut links = table.map_or_else(BTreeMap::new, |table| table.links.by_name());
        let own = shown.server.identity.cluster.iter();
        let own = own.map(|own| Self::new(shown, own, links.remove(own)));
        let mut clusters: Vec<Self> = own.collect();
        let (mut mirrored, mut more) = (0, 0);
        for (name, link) in links {
            if link.is_mirrored && !link.is_linked() {
                mirrored += 1;
            }
            if link.is_linked() || !link.is_mirrored || mirrored <= MAX_MIRRORED {
                clusters.push(Self::new(shown, name, Some(link)));
            } else {
                more += 1;
            }
        }
        (clusters, more)
    }

    /// Describes a cluster. That of the server has no link, unless another one has its name.
    fn new(shown: &Shown<'_>, name: &ClusterName, link: Option<&ClusterLink>) -> Self {
        let age = link
            .and_then(|link| link.problem.as_ref())
            .map(Age::from)
            .unwrap_or_default();
        Self {
            name: name.to_string(),
            is_own: shown.server.identity.cluster.as_ref() == Some(name),
            link: link.map(|link| link.state.into()),
            is_mirrored: link.map(|link| link.is_mirrored),
            age: age.printed(shown.clock()),
        }
    }
}

// === impl ClusterDetail ===

impl ClusterDetail {
    /// Describes a cluster that something here knows.
    pub(super) fn new(shown: &Shown<'_>, name: &str) -> Result<Self, ViewError> {
        let table = shown.table().ok_or(ViewError::NoTable)?;
        let links = table.links.by_name();
        let cluster = ClusterName::interned(name).ok();
        let is_known = |one: &ClusterName| links.contains_key(one) || table.knows_cluster(name);
        let cluster = cluster.filter(is_known).ok_or_else(|| {
            let nearest = nearest_hint(table, name);
            let why = format!("no Link, mirror or Lease names such a cluster{nearest}");
            ViewError::invalid("cluster", name, &why)
        })?;
        let linked = table.linked_clusters();
        let is_linked = linked.contains(&cluster);
        let mut endpoints = BTreeMap::new();
        let (mut services, mut lacking) = (Vec::new(), Vec::new());
        for service in shown.services() {
            let is_member = service.federated.contains(&cluster);
            // The address of several clusters comes before those of one.
            let mut cells = ClusterCell::of_service(shown, service).into_iter().rev();
            let is_own =
                |cell: &ClusterCell| cell.cluster == name || cell.cluster.is_empty() && is_member;
            let key = service.key.to_string();
            if let Some(cell) = cells.find(is_own) {
                services.push(ClusterService { service: key, cell });
            } else if is_linked
                && service.all_clusters().all(|one| *one != cluster)
                && service.all_clusters().any(|one| linked.contains(one))
            {
                lacking.push(key);
            }
            for one in shown.endpoints(service).filter(|one| one.cluster() == name) {
                *endpoints.entry(one.state).or_default() += 1;
            }
        }
        services.sort_by_key(|one| one.cell.state);
        let (service_count, lacking_count) = (services.len(), lacking.len());
        services.truncate(MAX_SERVICES);
        lacking.truncate(MAX_SERVICES);
        let link = links.get(&cluster).copied();
        let problem = link.and_then(|link| link.problem.as_ref());
        Ok(Self {
            detail: problem.map(|one| one.detail.clone()),
            cluster: ClusterReport::new(shown, &cluster, link),
            endpoints,
            service_count,
            services,
            lacking_count,
            lacking,
        })
    }
}

/// Returns the end of a sentence: the name of a cluster that is most similar to an unknown one, if one is.
pub(super) fn nearest_hint(table: &Table, unknown: &str) -> String {
    let nearest = table.nearest_cluster(unknown);
    nearest.map_or_else(String::new, |name| {
        format!("; the nearest name is '{name}'")
    })
}
