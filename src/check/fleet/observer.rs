//! What the servers of a fleet say, and the observers: those whose tables are compared.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::check::finding::{Fact, items, key_of, text};
use crate::check::told::ServerTable;
use crate::model::ProblemKind;
use crate::view::Column;

/// Maximum number of observers whose columns fit into a text of the usual width.
const MAX_COLUMNS: usize = 10;

/// The namespace and the name of a service.
pub(super) type Key<'m> = [&'m str; 2];

/// One cluster of a fleet.
#[derive(Clone, Debug)]
pub struct Member {
    /// The context, or the name that a flag gives to a server.
    pub context: String,
    /// Its replicas, or why none can be read.
    pub replicas: Fact<Vec<Replica>>,
}

/// What one replica says.
#[derive(Clone, Debug)]
pub struct Replica {
    /// Its pod, or its URL.
    pub name: String,
    /// Its status, or why it cannot be read.
    pub status: Fact<Value>,
    /// Its table. `None`: another replica of the cluster has the same answers.
    pub table: Option<ServerTable>,
}

/// A server whose table is compared.
#[derive(Debug)]
pub(super) struct Observer<'m> {
    /// Its name in sentences: that of its cluster, with that of its pod if the replicas of the cluster differ.
    pub(super) name: String,
    pub(super) context: &'m str,
    /// The pod, if the replicas of its cluster differ.
    pub(super) replica: Option<&'m str>,
    /// The name of its cluster, unique in the fleet.
    pub(super) cluster: String,
    /// The names of other clusters in its documents, if they differ from those of the comparison.
    pub(super) renamed: BTreeMap<&'m str, String>,
    pub(super) status: &'m Value,
    pub(super) services: BTreeMap<Key<'m>, &'m Value>,
    pub(super) table: &'m ServerTable,
}

/// Makes the observers of all members. A server without a table is left out, and another finding says so.
pub(super) fn all<'m>(read: &[(&'m str, &'m [Replica])]) -> Vec<Observer<'m>> {
    let by_key = |one: &'m Value| (key_of(one), one);
    let mut observers = Vec::new();
    for (context, replicas) in read {
        let tables = replicas.iter().filter_map(|replica| {
            let status = replica.status.as_ref().ok()?;
            let table = replica.table.as_ref().filter(|_| is_ready(status))?;
            Some((replica.name.as_str(), status, table))
        });
        let is_alone = tables.clone().count() == 1;
        observers.extend(tables.map(|(name, status, table)| Observer {
            name: String::new(),
            context,
            replica: Some(name).filter(|_| !is_alone),
            cluster: text(status, "cluster").to_owned(),
            renamed: BTreeMap::new(),
            status,
            services: table.services.iter().map(by_key).collect(),
            table,
        }));
    }
    observers
}

/// Returns whether a server has a table.
pub(super) fn is_ready(status: &Value) -> bool {
    text(status, "state") != "loading"
}

/// Returns whether an endpoint is a pod of the server's own cluster that is not ready.
pub(super) fn is_unready_pod(endpoint: &Value) -> bool {
    text(endpoint, "kind") == "local"
        && !text(endpoint, "hostname").is_empty()
        && text(endpoint, "state") == "not-ready"
}

/// Returns a column for each observer after some columns.
pub(super) fn columns(first: &[&str], observers: &[Observer<'_>]) -> Vec<Column> {
    let names = observers.iter().enumerate().map(|(index, one)| {
        if index < MAX_COLUMNS {
            Column::text(&one.name)
        } else {
            Column::wide(&one.name)
        }
    });
    let first = first.iter().map(|name| Column::text(name));
    first.chain(names).collect()
}

// === impl Replica ===

impl Replica {
    /// Returns what no other process says: its cluster, its replica, and the start of its history.
    pub(super) fn id(&self) -> Option<[&str; 3]> {
        let status = self.status.as_ref().ok()?;
        Some(["cluster", "replica", "historyStart"].map(|field| text(status, field)))
    }
}

// === impl Observer ===

impl<'m> Observer<'m> {
    /// Returns the own name of its cluster, as it says.
    pub(super) fn own_name(&self) -> &'m str {
        text(self.status, "cluster")
    }

    /// Returns the name of the comparison for a cluster in the documents.
    pub(super) fn name_of<'n>(&'n self, cluster: &'n str) -> &'n str {
        if cluster == self.own_name() {
            return &self.cluster;
        }
        self.renamed.get(cluster).map_or(cluster, String::as_str)
    }

    /// Returns the names of other clusters in its documents.
    pub(super) fn other_clusters(&self) -> BTreeSet<&'m str> {
        let linked =
            items(self.status, "clusters").filter(|one| one["isOwn"].as_bool() != Some(true));
        let of_endpoints = self.table.endpoints.iter().map(|one| text(one, "cluster"));
        let all = linked.map(|one| text(one, "name")).chain(of_endpoints);
        all.filter(|name| *name != self.own_name() && !name.is_empty())
            .collect()
    }

    /// Returns the first problem of a wanted kind that concerns a service and, if it names one, a cluster.
    pub(super) fn problem(
        &self,
        [namespace, service]: Key<'_>,
        cluster: Option<&str>,
        is_wanted: &dyn Fn(ProblemKind) -> bool,
    ) -> Option<&'m Value> {
        self.table.problems.iter().find(|problem| {
            let is_of_service =
                text(problem, "service").split_once('/') == Some((namespace, service));
            let named = problem["cluster"].as_str().map(|named| self.name_of(named));
            let is_of_cluster = cluster.is_none() || named.is_none() || named == cluster;
            // A kind that this version does not know explains nothing.
            let kind = serde_json::from_value(problem["kind"].clone());
            is_of_service && is_of_cluster && kind.is_ok_and(is_wanted)
        })
    }
}
