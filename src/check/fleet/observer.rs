//! The observers: servers whose tables are compared, and how each has the other clusters.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::mismatch::{Key, Mismatch, join, of_kind};
use crate::check::facts::ServerTable;
use crate::check::finding::{Check, Fact, Finding, FindingState, items, key_of, text};
use crate::check::objects::EXPORTED;
use crate::model::ProblemKind as K;
use crate::view::{Column, Section};

/// Maximum number of observers whose columns fit into a text of the usual width.
const MAX_COLUMNS: usize = 10;

/// One cluster of a fleet.
pub struct Member {
    /// The context, or the name that a flag gives to a server.
    pub context: String,
    /// Its replicas, or why none can be read.
    pub replicas: Fact<Vec<ReplicaFacts>>,
    /// The Links of its cluster. Empty: they were not read.
    pub links: Vec<Value>,
}

/// What one replica says.
pub struct ReplicaFacts {
    /// Its pod, or its URL.
    pub name: String,
    /// Its status, or why it cannot be read.
    pub status: Fact<Value>,
    /// The seconds by which its clock is ahead of that of this machine.
    pub clock_offset: i64,
    /// Its table. `None`: another replica of the cluster has the same answers.
    pub table: Option<ServerTable>,
}

/// The endpoints of a service in one cluster by hostname, which is empty for a cluster IP.
pub(super) type Cell<'m> = BTreeMap<&'m str, &'m Value>;

/// A server whose table is compared.
pub(super) struct Observer<'m> {
    /// Its name in sentences: that of its cluster, with that of its pod if the replicas of the cluster differ.
    pub name: String,
    pub context: &'m str,
    /// Its cluster, as it calls itself.
    pub cluster: &'m str,
    pub status: &'m Value,
    pub services: BTreeMap<Key<'m>, &'m Value>,
    /// What it has of each service in each cluster, which is empty for one address of several clusters.
    pub hosts: BTreeMap<(Key<'m>, &'m str), Cell<'m>>,
    problems: &'m [Value],
    /// The Links of its cluster. Empty: they were not read.
    links: &'m [Value],
}

/// Makes the observers of all members. A server without a table is left out, and another row says so. Of two clusters with one
/// name, the first is compared.
pub(super) fn all<'m>(
    read: &[(&'m Member, &'m [ReplicaFacts])],
    rows: &mut Vec<Mismatch<'m>>,
) -> Vec<Observer<'m>> {
    const TWICE: &str =
        "set another clusterName in one of them: databases store the names of their peers";
    let mut observers: Vec<Observer<'_>> = Vec::new();
    for (member, replicas) in read {
        let context = member.context.as_str();
        let tables = replicas.iter().filter_map(|replica| {
            let table = replica.table.as_ref()?;
            Some((replica.name.as_str(), replica.ready()?, table))
        });
        let is_alone = tables.clone().count() == 1;
        for (name, status, table) in tables {
            let cluster = text(status, "cluster");
            if let Some(first) = observers
                .iter()
                .filter(|one| one.context != context)
                .find(|one| one.cluster == cluster)
            {
                let first = first.context;
                let what = format!("{first} and {context} both call themselves '{cluster}'");
                let cause = Finding::failing(Check::FleetNames, "", TWICE);
                rows.push(Mismatch::new(None, what, "", cause));
                break;
            }
            observers.push(Observer {
                name: if is_alone {
                    cluster.to_owned()
                } else {
                    format!("{cluster} ({name})")
                },
                context,
                cluster,
                status,
                services: table
                    .services
                    .iter()
                    .map(|one| (key_of(one), one))
                    .collect(),
                hosts: hosts(&table.endpoints),
                problems: &table.problems,
                links: &member.links,
            });
        }
    }
    observers
}

/// Returns endpoints by service and cluster.
fn hosts(endpoints: &[Value]) -> BTreeMap<(Key<'_>, &str), Cell<'_>> {
    let mut hosts: BTreeMap<_, Cell<'_>> = BTreeMap::new();
    for endpoint in endpoints {
        let place = (key_of(endpoint), text(endpoint, "cluster"));
        hosts
            .entry(place)
            .or_default()
            .insert(text(endpoint, "hostname"), endpoint);
    }
    for cell in hosts.values_mut().filter(|cell| cell.len() > 1) {
        // A cluster IP beside pods is not answered.
        cell.remove("");
    }
    hosts
}

/// Adds the links that do not work, unless nothing shows that they should, and clusters that are not compared.
pub(super) fn compare_links<'m>(observers: &[Observer<'m>], rows: &mut Vec<Mismatch<'m>>) {
    const STRANGER: &str = "it is not compared; if it is a second Link to one of these clusters, its hosts are the same pods through \
                            two gateways";
    let mut strangers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for from in observers {
        for stranger in from.strangers(observers) {
            strangers.entry(stranger).or_default().push(&from.name);
        }
        let others: BTreeSet<&str> = observers
            .iter()
            .map(|one| one.cluster)
            .chain(from.other_clusters())
            .collect();
        for to in others.into_iter().filter(|to| *to != from.cluster) {
            let knows_it = |one: &Observer<'_>| {
                let link = one.link_to(from.cluster);
                one.cluster == to && !["none", "unknown", "excluded"].contains(&link)
            };
            if from.link_to(to) != "none" || observers.iter().any(knows_it) {
                rows.extend(from.link_row(to, None, observers));
            }
        }
    }
    for (stranger, callers) in strangers {
        rows.push(Mismatch::new(
            None,
            format!("{stranger} is no cluster of this fleet, and linked"),
            format!("in {}", join(callers)),
            Finding::ok(Check::FleetLinks, STRANGER),
        ));
    }
}

/// Makes the section with a row for each observer and a column for each cluster.
pub(super) fn matrix(observers: &[Observer<'_>]) -> Section {
    let mut section = Section::new("links", columns(&["FROM / TO"], observers));
    for from in observers.iter().filter(|_| observers.len() > 1) {
        let (mut cells, mut to) = (vec![from.name.clone()], BTreeMap::new());
        for other in observers {
            if other.cluster == from.cluster {
                cells.push("-".to_owned());
            } else {
                cells.push(from.link_to(other.cluster).to_owned());
                to.insert(other.cluster, from.link_to(other.cluster));
            }
        }
        section.push(
            cells,
            &json!({"section": "links", "from": from.name, "to": to}),
        );
    }
    section
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
    first
        .iter()
        .map(|name| Column::text(name))
        .chain(names)
        .collect()
}

// === impl ReplicaFacts ===

impl ReplicaFacts {
    /// Returns what no other process says: its cluster, its replica, and the start of its history.
    pub(super) fn id(&self) -> Option<[&str; 3]> {
        let status = self.status.as_ref().ok()?;
        Some(["cluster", "replica", "historyStart"].map(|field| text(status, field)))
    }

    /// Returns its status, if it has a table.
    pub(super) fn ready(&self) -> Option<&Value> {
        let status = self.status.as_ref().ok();
        status.filter(|status| text(status, "state") != "loading")
    }
}

// === impl Observer ===

impl<'m> Observer<'m> {
    /// Returns the names of other clusters in its documents.
    fn other_clusters(&self) -> BTreeSet<&'m str> {
        let linked = items(self.status, "clusters").map(|one| text(one, "name"));
        linked
            .chain(self.hosts.keys().map(|(_, cluster)| *cluster))
            .filter(|name| *name != self.cluster && !name.is_empty())
            .collect()
    }

    /// Returns the other clusters that no observer calls itself.
    fn strangers(&self, observers: &[Observer<'_>]) -> BTreeSet<&'m str> {
        let mut others = self.other_clusters();
        others.retain(|name| observers.iter().all(|one| one.cluster != *name));
        others
    }

    /// Returns how it has another cluster: `linked`, `linked, nothing mirrored`, `frozen`, `unlinked` (mirrors are left), `excluded`
    /// by its settings, `endpoints` (Links are not known), `unknown`, or `none`.
    pub(super) fn link_to(&self, to: &str) -> &'static str {
        let cluster = items(self.status, "clusters").find(|one| text(one, "name") == to);
        let has_mirrors = self.hosts.keys().any(|(_, cluster)| *cluster == to);
        let mut excluded = items(&self.status["settings"], "excludeClusters");
        match cluster.map(|one| text(one, "link")) {
            _ if excluded.any(|one| one == to) => "excluded",
            Some("frozen") => "frozen",
            Some("missing" | "unlinked") => "unlinked",
            Some("linked") if has_mirrors => "linked",
            _ if has_mirrors => "endpoints",
            Some("linked") => "linked, nothing mirrored",
            _ if self.links_to(to).next().is_some() => "linked, nothing mirrored",
            Some(_) => "unknown",
            None => "none",
        }
    }

    /// Returns the row that its link to another cluster does not work, if so. The mirrors of a stopped controller may still be right.
    pub(super) fn link_row(
        &self,
        to: &str,
        key: Option<Key<'m>>,
        observers: &[Observer<'_>],
    ) -> Option<Mismatch<'m>> {
        let (state, seen, hint) = match self.link_to(to) {
            "frozen" => (
                FindingState::Attention,
                K::Frozen.row().sentence,
                of_kind(K::Frozen, None, to).hint,
            ),
            "unlinked" => (
                FindingState::Failing,
                "mirrors without a Link",
                of_kind(K::Unlinked, None, to).hint,
            ),
            "none" => {
                let mut hint = format!(
                    "link {to} there: linkerd multicluster link-gen --cluster-name {to} (before 2.18: link)"
                );
                let called = self.strangers(observers).into_iter().next();
                let other = observers.iter().find(|one| one.cluster == to);
                if let Some((name, other)) = called.zip(other) {
                    hint = format!(
                        "if '{name}' is {to}, set clusterName: {name} in {}, or clusterAliases: {{{name}: {to}}} in {}; else {hint}",
                        other.context, self.context
                    );
                }
                (FindingState::Failing, "neither a Link nor a mirror", hint)
            }
            _ => return None,
        };
        let what = format!("{} has of {to}", self.name);
        let cause = Finding::new(state, Check::FleetLinks, "", hint);
        Some(Mismatch::new(key, what, seen, cause))
    }

    /// Returns the Links to a cluster, if they were read.
    fn links_to<'n>(&'n self, to: &'n str) -> impl Iterator<Item = &'m Value> + use<'n, 'm> {
        let aliases = &self.status["settings"]["clusterAliases"];
        self.links.iter().filter(move |link| {
            let target = text(&link["spec"], "targetClusterName");
            aliases[target].as_str().unwrap_or(target) == to
        })
    }

    /// Returns whether a Link to a cluster selects Services by other labels than usual.
    pub(super) fn has_own_selector(&self, to: &str) -> bool {
        let usual = EXPORTED
            .split_once('=')
            .map(|(label, value)| json!({"matchLabels": {label: value}}));
        self.links_to(to)
            .map(|link| &link["spec"]["selector"])
            .any(|one| !one.is_null() && Some(one) != usual.as_ref())
    }

    /// Returns the first problem of a wanted kind that concerns a service and, if it names one, a cluster.
    pub(super) fn problem(
        &self,
        [namespace, service]: Key<'_>,
        cluster: Option<&str>,
        is_wanted: &dyn Fn(K) -> bool,
    ) -> Option<&'m Value> {
        self.problems.iter().find(|problem| {
            let is_of_service =
                text(problem, "service").split_once('/') == Some((namespace, service));
            let named = problem["cluster"].as_str();
            let is_of_cluster = cluster.is_none() || named.is_none() || named == cluster;
            // A kind that this version does not know explains nothing.
            is_of_service
                && is_of_cluster
                && serde_json::from_value(problem["kind"].clone()).is_ok_and(is_wanted)
        })
    }
}
