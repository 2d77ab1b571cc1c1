//! The observers: servers whose tables are compared, how each has the other clusters, and what they see otherwise.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::check::finding::{Check, Fact, Finding, FindingState, items, key_of, list, text};
use crate::model::{Problem, ProblemKind as K, join_texts, sentence_of};
use crate::view::{Column, Section};

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

/// The table of a server: items of its API.
#[derive(Default)]
pub struct ServerTable {
    /// `table`.
    pub services: Vec<Value>,
    /// `endpoints`.
    pub endpoints: Vec<Value>,
    /// `problems`.
    pub problems: Vec<Value>,
}

/// The endpoints of a service in one cluster by hostname, which is empty for a cluster IP.
pub(super) type Hosts<'m> = BTreeMap<&'m str, &'m Value>;

/// What an observer has of a service in one cluster.
pub(super) struct Cell<'c, 'm> {
    pub observer: &'c Observer<'m>,
    pub hosts: Hosts<'m>,
}

/// A server whose table is compared.
pub(super) struct Observer<'m> {
    /// Its name in sentences: that of its cluster, with that of its pod if the replicas of the cluster differ.
    pub name: String,
    pub member: &'m Member,
    /// Its cluster, as it calls itself.
    pub cluster: &'m str,
    pub status: &'m Value,
    pub services: BTreeMap<Key<'m>, &'m Value>,
    /// What it has of each service in each cluster, which is empty for one address of several clusters.
    pub hosts: BTreeMap<(Key<'m>, &'m str), Hosts<'m>>,
    problems: &'m [Value],
}

/// Makes the observers of all members. A server without a table is left out, and another row says so. Of two clusters with one
/// name, the first is compared.
pub(super) fn all<'m>(read: &[&'m Member], lines: &mut Vec<Finding>) -> Vec<Observer<'m>> {
    const TWICE: &str =
        "set another clusterName in one of them: databases store the names of their peers";
    let mut observers: Vec<Observer<'_>> = Vec::new();
    for &member in read {
        let context = &member.context;
        let tables = member.read().iter().filter(|one| one.table.is_some());
        let is_alone = tables.count() == 1;
        for replica in member.read() {
            let (Ok(status), Some(table)) = (&replica.status, &replica.table) else {
                continue;
            };
            let cluster = text(status, "cluster");
            let named = observers.iter().filter(|one| one.cluster == cluster);
            let mut contexts = named.map(|one| &one.member.context);
            if let Some(first) = contexts.find(|one| *one != context) {
                let what = format!("{first} and {context} both call themselves '{cluster}'");
                lines.push(Check::FleetNames.failing(what, TWICE));
                break;
            }
            let services = table.services.iter();
            observers.push(Observer {
                name: if is_alone {
                    cluster.to_owned()
                } else {
                    format!("{cluster} ({})", replica.name)
                },
                member,
                cluster,
                status,
                services: services.map(|one| (key_of(one), one)).collect(),
                hosts: hosts(&table.endpoints),
                problems: &table.problems,
            });
        }
    }
    observers
}

/// Returns endpoints by service and cluster.
fn hosts(endpoints: &[Value]) -> BTreeMap<(Key<'_>, &str), Hosts<'_>> {
    let mut places: BTreeMap<_, Hosts<'_>> = BTreeMap::new();
    for endpoint in endpoints {
        let place = (key_of(endpoint), text(endpoint, "cluster"));
        let hosts = places.entry(place).or_default();
        hosts.insert(text(endpoint, "hostname"), endpoint);
    }
    for hosts in places.values_mut().filter(|hosts| hosts.len() > 1) {
        // A cluster IP beside pods is not answered.
        hosts.remove("");
    }
    places
}

/// Adds the links that do not work, unless nothing shows that they should, and clusters that are not compared.
pub(super) fn compare_links(observers: &[Observer<'_>], lines: &mut Vec<Finding>) {
    const STRANGER: &str = "it is not compared; if it is a second Link to one of these clusters, its hosts are the same pods through \
                            two gateways";
    let mut strangers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for from in observers {
        let mut others = from.other_clusters();
        for stranger in from.strangers(observers) {
            strangers.entry(stranger).or_default().push(&from.name);
        }
        others.extend(observers.iter().map(|one| one.cluster));
        others.remove(from.cluster);
        for to in others {
            let knows_it = |one: &Observer<'_>| {
                let link = one.link_to(from.cluster);
                one.cluster == to && !["none", "unknown", "excluded"].contains(&link)
            };
            if from.link_to(to) != "none" || observers.iter().any(knows_it) {
                lines.extend(from.link_line(to, observers));
            }
        }
    }
    for (stranger, callers) in strangers {
        let callers = join(callers);
        let what =
            format!("{stranger} is no cluster of this fleet, and linked: in {callers}: {STRANGER}");
        lines.push(Check::FleetLinks.ok(what));
    }
}

/// Makes the section with a row for each observer and a column for each cluster.
pub(super) fn matrix(observers: &[Observer<'_>]) -> Section {
    let mut section = Section::new("links", columns(&["FROM / TO"], observers));
    for from in observers.iter().filter(|_| observers.len() > 1) {
        let (mut cells, mut to) = (vec![from.name.clone()], BTreeMap::new());
        for other in observers {
            let mut link = "-";
            if other.cluster != from.cluster {
                link = from.link_to(other.cluster);
                to.insert(other.cluster, link);
            }
            cells.push(link.to_owned());
        }
        let object = json!({"from": from.name, "to": to});
        section.push(cells, &object);
    }
    section
}

/// Returns a column for each observer after some columns.
pub(super) fn columns(first: &[&str], observers: &[Observer<'_>]) -> Vec<Column> {
    let names = observers.iter().map(|one| one.name.as_str());
    let names = first.iter().copied().chain(names);
    names.map(Column::text).collect()
}

// === impl Member ===

impl Member {
    /// Returns its replicas, if any can be read.
    pub(super) fn read(&self) -> &[ReplicaFacts] {
        self.replicas.as_deref().unwrap_or_default()
    }

    /// Returns what no other processes say: the cluster, the replica, and the start of the history of each.
    pub(super) fn processes(&self) -> BTreeSet<[&str; 3]> {
        let statuses = self.read().iter().flat_map(|one| &one.status);
        statuses
            .map(|status| ["cluster", "replica", "historyStart"].map(|field| text(status, field)))
            .collect()
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
        let mut excluded = items(self.status, "settings.excludeClusters");
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

    /// Returns the line that its link to another cluster does not work, if so. The mirrors of a stopped controller may still be right.
    pub(super) fn link_line(&self, to: &str, observers: &[Observer<'_>]) -> Option<Finding> {
        let what = |seen: &str| format!("{} has of {to}: {seen}", self.name);
        let hint_of = |kind| of_kind(kind, None, to).hint;
        Some(match self.link_to(to) {
            "frozen" => {
                let what = what(K::Frozen.row().sentence);
                Check::FleetLinks.attention(what, hint_of(K::Frozen))
            }
            "unlinked" => {
                Check::FleetLinks.failing(what("mirrors without a Link"), hint_of(K::Unlinked))
            }
            "none" => {
                let mut hint = format!(
                    "link {to} there: linkerd multicluster link-gen --cluster-name {to} (before 2.18: link)"
                );
                let called = self.strangers(observers).into_iter().next();
                let other = observers.iter().find(|one| one.cluster == to);
                if let Some((name, other)) = called.zip(other) {
                    hint = format!(
                        "if '{name}' is {to}, set clusterName: {name} in {}, or clusterAliases: {{{name}: {to}}} in {}; else {hint}",
                        other.member.context, self.member.context
                    );
                }
                Check::FleetLinks.failing(what("neither a Link nor a mirror"), hint)
            }
            _ => return None,
        })
    }

    /// Returns the Links to a cluster, if they were read.
    fn links_to<'n>(&'n self, to: &'n str) -> impl Iterator<Item = &'m Value> + use<'n, 'm> {
        let aliases = &self.status["settings"]["clusterAliases"];
        self.member.links.iter().filter(move |link| {
            let target = text(link, "spec.targetClusterName");
            aliases[target].as_str().unwrap_or(target) == to
        })
    }

    /// Returns whether a Link to a cluster selects Services by other labels than usual.
    pub(super) fn has_own_selector(&self, to: &str) -> bool {
        let usual = json!({"matchLabels": {"mirror.linkerd.io/exported": "true"}});
        self.links_to(to)
            .map(|link| &link["spec"]["selector"])
            .any(|one| !one.is_null() && *one != usual)
    }

    /// Returns the first problem of a wanted kind that concerns a service and a cluster, which is empty for any. A kind that this
    /// version does not know explains nothing.
    pub(super) fn problem(
        &self,
        key: Key<'_>,
        cluster: &str,
        is_wanted: impl Fn(K) -> bool,
    ) -> Option<&'m Value> {
        self.problems.iter().find(|problem| {
            let named = text(problem, "cluster");
            text(problem, "service") == key.join("/")
                && (named.is_empty() || cluster.is_empty() || named == cluster)
                && text(problem, "kind").parse().is_ok_and(&is_wanted)
        })
    }
}

// === Differences ===

/// The namespace and the name of a service.
pub(super) type Key<'m> = [&'m str; 2];

/// Differences: what differs, who sees what, the cause, and what to do; each with the services that differ so.
pub(super) type ServiceLines = BTreeMap<Finding, BTreeSet<String>>;

/// Returns who sees what if observers differ: `none in hub; db-0 in east and west`. Replicas of a cluster that see the same are one.
pub(super) fn differs<'n>(seen: impl IntoIterator<Item = (String, &'n str)>) -> Option<String> {
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (value, observer) in seen {
        let observers = groups.entry(value).or_default();
        if observers.last() != Some(&observer) {
            observers.push(observer);
        }
    }
    let texts = groups.iter().map(|(value, observers)| {
        let value = if value.is_empty() { "none" } else { value };
        format!("{value} in {}", join(observers))
    });
    (groups.len() > 1).then(|| join_texts(texts, "; "))
}

/// Joins names for a sentence: `a`, `a and b`, `a, b and c`.
pub(super) fn join<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    let names: Vec<S> = names.into_iter().collect();
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        names => names.concat(),
    }
}

/// Makes the findings of servers and of services, which are named. One that makes services differ is failing, unless it is intended.
pub(super) fn findings(of_servers: Vec<Finding>, mut lines: ServiceLines) -> Vec<Finding> {
    for line in of_servers {
        lines.entry(line).or_default();
    }
    let findings = lines.into_iter().map(|(mut line, services)| {
        let mut names = list(&services);
        if services.len() > 1 {
            names = format!("{} services ({names})", services.len());
        }
        if !services.is_empty() && line.state == FindingState::Attention {
            line.state = FindingState::Failing;
        }
        line.sentence = sentence_of(&[&names, &line.sentence]);
        line
    });
    findings.collect()
}

/// Makes the line of a difference whose cause is a kind of problem of a service or a cluster.
pub(super) fn of_kind(kind: K, key: Option<Key<'_>>, cluster: &str) -> Finding {
    let mut problem = Problem::new(kind, "");
    problem.service = key.and_then(|key| key.join("/").parse().ok());
    problem.cluster = cluster.parse().ok();
    Finding {
        name: kind.name().to_owned(),
        anchor: kind.anchor(),
        ..Check::FleetServices.failing(kind.row().sentence, problem.hint())
    }
}

/// Makes the line of a difference whose cause is a problem of an observer. It may be of a kind that this program does not know.
pub(super) fn of_problem(problem: &Value, reason: &str) -> Finding {
    Finding {
        name: text(problem, "kind").to_owned(),
        anchor: text(problem, "anchor").to_owned(),
        ..Check::FleetServices.failing(reason, text(problem, "hint"))
    }
}
