//! The hosts of each service: one table of what each observer has of each cluster. All must have the same hosts, and see them in
//! the same state.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::causes::{Cause, Causes, describe, group, join};
use super::columns;
use super::links::Directions;
use super::observer::{Key, Observer, is_unready_pod, key_of};
use crate::check::finding::{Check, Finding, items, list, text};
use crate::check::problems::subject;
use crate::model::{Exported, Family, Level, ProblemKind as K, mirrorable};
use crate::view::Section;

/// What one observer has of one cluster for one service: the endpoints by hostname, which is empty for a cluster IP.
#[derive(Clone, Debug, Default)]
struct Cell<'m>(BTreeMap<&'m str, &'m Value>);

/// The cells by service and cluster, which is empty for one address of all clusters, and by observer.
type Table<'m> = BTreeMap<(Key<'m>, String), BTreeMap<usize, Cell<'m>>>;

/// The differences of hosts.
#[derive(Debug)]
pub(super) struct Differences<'m> {
    pub(super) findings: Vec<Finding>,
    /// The services that differ. Their settings may differ because of it.
    pub(super) services: BTreeSet<Key<'m>>,
    /// The rows that differ.
    pub(super) table: Section,
}

/// One row of the table, while it is compared.
struct Row<'c, 'm> {
    observers: &'c [Observer<'m>],
    key: Key<'m>,
    cluster: &'c str,
    /// The first server of the cluster itself.
    owner: Option<usize>,
    /// The cells of all observers but those that differ because of their link to the cluster. Without endpoints, they are empty.
    cells: BTreeMap<usize, Cell<'m>>,
}

/// Compares the hosts of all services.
pub(super) fn compare<'m>(
    observers: &[Observer<'m>],
    links: &mut Directions<'m>,
) -> Differences<'m> {
    const CHECK: Check = Check::FleetServices;
    let all = table_of(observers);
    let mut causes = Causes::default();
    let mut explaining = BTreeSet::new();
    let mut table = Section::new("differences", columns(&["SERVICE", "CLUSTER"], observers));
    for ((key, cluster), cells) in &all {
        let row = Row::new(observers, *key, cluster, cells, links);
        let found = row.causes(&mut explaining);
        if !found.is_empty() {
            let service = format!("{}/{}", key.0, key.1);
            let text = |index| cells.get(&index).map_or("-".to_owned(), Cell::text);
            let texts: Vec<String> = (0..observers.len()).map(text).collect();
            let names = observers.iter().map(|one| one.name.as_str());
            let seen: BTreeMap<&str, &String> = names.zip(&texts).collect();
            let object = json!({
                "section": "differences", "service": service, "cluster": cluster, "observers": seen,
            });
            table.push([vec![service, cluster.clone()], texts].concat(), &object);
        }
        found.into_iter().for_each(|cause| causes.add(*key, cause));
    }
    let mut findings: Vec<Finding> = causes.findings(CHECK).collect();
    findings.extend(observers.iter().flat_map(|one| skipped(one, &explaining)));
    let services: BTreeSet<Key<'_>> = causes
        .services()
        .union(&links.differing())
        .copied()
        .collect();
    if findings.is_empty() && services.is_empty() {
        let compared: BTreeSet<Key<'_>> = all.keys().map(|(key, _)| *key).collect();
        let sentence = format!("the same hosts everywhere; services: {}", compared.len());
        findings.push(Finding::ok(CHECK, sentence));
    }
    Differences {
        findings,
        services,
        table,
    }
}

/// Collects the cells. A cluster IP beside pods is not answered.
fn table_of<'m>(observers: &[Observer<'m>]) -> Table<'m> {
    let mut table = Table::new();
    for (index, observer) in observers.iter().enumerate() {
        for endpoint in observer.endpoints {
            let cluster = observer.name_of(text(endpoint, "cluster")).to_owned();
            let cells = table.entry((key_of(endpoint), cluster)).or_default();
            let cell: &mut Cell<'_> = cells.entry(index).or_default();
            cell.0.insert(text(endpoint, "hostname"), endpoint);
        }
    }
    for Cell(hosts) in table.values_mut().flat_map(BTreeMap::values_mut) {
        if hosts.keys().any(|host| !host.is_empty()) {
            hosts.remove("");
        }
    }
    table
}

// === impl Cell ===

impl<'m> Cell<'m> {
    /// Returns the endpoints that other clusters should have: all but the own pods that are not ready.
    fn ready(&self) -> impl Iterator<Item = (&'m str, &'m Value)> {
        let all = self.0.iter().map(|(host, endpoint)| (*host, *endpoint));
        all.filter(|(_, one)| !is_unready_pod(one))
    }

    fn hosts(&self) -> BTreeSet<&'m str> {
        self.ready().map(|(host, _)| host).collect()
    }

    /// Returns the hosts with their states, except those that are alive.
    fn text(&self) -> String {
        let hosts = self.0.iter().map(|(host, endpoint)| {
            let host = host_name(host);
            match text(endpoint, "state") {
                "alive" => host.to_owned(),
                state => format!("{host} ({state})"),
            }
        });
        list(hosts)
    }
}

// === impl Row ===

impl<'c, 'm> Row<'c, 'm> {
    /// Makes the row of all observers but those that differ from the cluster itself because of their link to it.
    fn new(
        observers: &'c [Observer<'m>],
        key: Key<'m>,
        cluster: &'c str,
        cells: &BTreeMap<usize, Cell<'m>>,
        links: &mut Directions<'m>,
    ) -> Self {
        let owner = observers.iter().position(|one| one.cluster == cluster);
        let reference = owner.or_else(|| cells.keys().next().copied());
        let content = |index| {
            cells.get(&index).map_or_else(Vec::new, |cell| {
                let hosts = cell
                    .ready()
                    .map(|(host, one)| (host, port_names(one), liveness(one)));
                hosts.collect()
            })
        };
        let expected = reference.map(content);
        let is_compared = |index: &usize| {
            let is_own = observers[*index].cluster == cluster;
            is_own || Some(content(*index)) == expected || !links.is_cause(*index, cluster, key)
        };
        let compared = (0..observers.len()).filter(is_compared);
        let cells = compared.map(|index| (index, cells.get(&index).cloned().unwrap_or_default()));
        Self {
            observers,
            key,
            cluster,
            owner,
            cells: cells.collect(),
        }
    }

    /// Returns the causes of all differences. `explaining` are the problems that are causes, by address.
    fn causes(&self, explaining: &mut BTreeSet<*const Value>) -> Vec<Cause> {
        let cluster = self.cluster;
        let forms = self.forms();
        if forms.len() > 1 {
            let forms = describe(&forms);
            let predicate = format!(
                "{} is reached in different ways: {forms}",
                owner_name(cluster)
            );
            return vec![Cause::of_kind(predicate, K::Kind)];
        }
        if cluster.is_empty() {
            return Vec::new();
        }
        let mut causes = self.hosts(explaining);
        let ports = "give the ports of the Service the same names, protocols and numbers everywhere; a mirror keeps its first ports: \
                     delete one whose port is old, and restart its mirror controller";
        for aspect in [port_names, port_numbers] {
            if causes.is_empty() {
                causes.extend(self.aspect(aspect, |groups| {
                    Cause::new(
                        format!("ports of {cluster} differ: {}", describe(groups)),
                        ports,
                    )
                }));
            }
        }
        causes.extend(self.aspect(liveness, |groups| self.state(groups)));
        let services = self
            .observers
            .iter()
            .filter_map(|one| one.services.get(&self.key));
        let mut services =
            services.filter(|one| !one["failover"].is_null() || !one["failure"].is_null());
        // An order or a gate makes replies differ, which is a setting of the service.
        if causes.is_empty()
            && self.cells.len() == self.observers.len()
            && services.next().is_none()
        {
            let hint = "compare gatewayDown, annotation global-dns/gateway-down and the kinds: global-dns explain NAME shows why";
            causes.extend(self.aspect(reply, |groups| {
                Cause::new(format!("hosts of {cluster} are {}", describe(groups)), hint)
            }));
            causes.truncate(1);
        }
        causes
    }

    /// Returns how the service of the cluster is reached, by observer. Any kind with an address stands for the cluster IP of the
    /// owner. One address for all clusters is compared with none.
    fn forms(&self) -> BTreeMap<&'m str, Vec<&'c str>> {
        let forms = self.cells.iter().filter_map(|(index, cell)| {
            let observer = &self.observers[*index];
            let form = match (cell.0.first_key_value(), self.cluster) {
                (None, "") if observer.services.contains_key(&self.key) => "none",
                (None, _) => return None,
                (Some((host, _)), _) if !host.is_empty() => "pods",
                (Some(_), cluster) if observer.cluster == cluster => "a cluster IP",
                (Some((_, endpoint)), _) => text(endpoint, "kind"),
            };
            Some((form, observer.name.as_str()))
        });
        let mut forms = group(forms);
        if forms.len() > 1 && !forms.contains_key("pods") {
            forms.remove("a cluster IP");
        }
        forms
    }

    /// Compares the hosts with those of the owner, or with all of them if the cluster itself is no observer.
    fn hosts(&self, explaining: &mut BTreeSet<*const Value>) -> Vec<Cause> {
        let cluster = self.cluster;
        let own = self.owner.map(|owner| &self.cells[&owner]);
        let expected: BTreeSet<&str> = match own {
            Some(own) => own.hosts(),
            None => self.cells.values().flat_map(Cell::hosts).collect(),
        };
        let is_unready = |host: &&str| own.is_some_and(|own| own.0.contains_key(host));
        // The observers by what they have or lack, and why.
        let mut differing: BTreeMap<Cause, Vec<&str>> = BTreeMap::new();
        for (index, cell) in self
            .cells
            .iter()
            .filter(|(index, _)| Some(**index) != self.owner)
        {
            let hosts = cell.hosts();
            let surplus = hosts.difference(&expected).copied();
            let (not_ready, surplus): (BTreeSet<&str>, BTreeSet<&str>) =
                surplus.partition(is_unready);
            let missing: BTreeSet<&str> = expected.difference(&hosts).copied().collect();
            let mut add = |cause| {
                differing
                    .entry(cause)
                    .or_default()
                    .push(&self.observers[*index].name)
            };
            if !not_ready.is_empty() {
                let predicate = format!(
                    "{} of {cluster}, not ready there, but known",
                    names(&not_ready)
                );
                add(Cause::of_kind(predicate, K::PodNotReady));
            }
            if !surplus.is_empty() {
                add(Cause::new(
                    format!(
                        "{} of {cluster}, which {cluster} does not have, known",
                        names(&surplus)
                    ),
                    "a mirror was left, or its hostname was changed: delete the mirror, and restart its mirror controller; if the \
                     Service exists there and is no member, export it there (localMembers)",
                ));
            } else if !missing.is_empty() {
                let lacking = if missing.len() == expected.len() {
                    "the hosts".to_owned()
                } else {
                    names(&missing)
                };
                add(self.lack(&lacking, *index, explaining));
            }
        }
        let causes = differing.into_iter();
        causes
            .map(|(cause, observers)| cause.seen_in(&join(observers)))
            .collect()
    }

    /// Returns that an observer lacks hosts of the cluster, and why: a problem that it or the owner has, or what keeps Linkerd from
    /// mirroring the service.
    fn lack(&self, hosts: &str, index: usize, explaining: &mut BTreeSet<*const Value>) -> Cause {
        let cluster = self.cluster;
        let explains = |kind: K| kind == K::MissingHost || kind.row().family == Family::Skipped;
        let is_private = |kind| matches!(kind, K::NotExported | K::NotAMember);
        let of_owner = || self.problem(self.owner?, &is_private);
        let lack = format!("{hosts} of {cluster} missing");
        if let Some(problem) = self.problem(index, &explains).or_else(of_owner) {
            explaining.insert(problem);
            return Cause::of_problem(&lack, problem);
        }
        let mut others = self
            .cells
            .iter()
            .filter(|(other, _)| Some(**other) != self.owner);
        let see = format!(
            "check that namespace {} exists there, and the selector of the Link; see global-dns check there",
            self.key.0
        );
        if others.any(|(_, cell)| !cell.0.is_empty()) {
            return Cause::because(&lack, "not mirrored there", see);
        }
        match self.not_mirrorable() {
            Some((reason, hint)) => Cause::because(&lack, &reason, hint),
            None => Cause::because(&lack, "no other cluster mirrors it", see),
        }
    }

    /// Returns a problem of an observer with the service and the cluster of the row.
    fn problem(&self, observer: usize, is_wanted: &dyn Fn(K) -> bool) -> Option<&'m Value> {
        let mut problems = self.observers[observer].problems_of(self.key, Some(self.cluster));
        problems.find(|one| kind_of(one).is_some_and(is_wanted))
    }

    /// Returns why Linkerd does not mirror the service of the owner.
    fn not_mirrorable(&self) -> Option<(String, &'static str)> {
        let own = &self.cells[&self.owner?];
        let exported = Exported {
            service: self.key.1,
            cluster: self.cluster,
            hosts: own.0.keys().copied().collect(),
            is_headless: own.0.keys().any(|host| !host.is_empty()),
            has_ports: own
                .0
                .values()
                .any(|one| items(one, "ports").next().is_some()),
        };
        let reason = mirrorable(&exported).err()?;
        Some((reason.to_string(), reason.hint()))
    }

    /// Compares an aspect of each host that several observers have. Returns the causes, each once. Hosts without a value are not
    /// compared.
    fn aspect(
        &self,
        value: fn(&Value) -> Option<String>,
        cause: impl Fn(&BTreeMap<String, Vec<&'c str>>) -> Cause,
    ) -> BTreeSet<Cause> {
        let mut values: BTreeMap<&str, BTreeMap<String, Vec<&'c str>>> = BTreeMap::new();
        for (index, cell) in &self.cells {
            for (host, endpoint) in cell.ready() {
                if let Some(value) = value(endpoint) {
                    let of_host = values.entry(host).or_default().entry(value).or_default();
                    of_host.push(&self.observers[*index].name);
                }
            }
        }
        values
            .values()
            .filter(|groups| groups.len() > 1)
            .map(cause)
            .collect()
    }

    /// Returns the cause of different states: the problem of an observer, or the kind that such a state usually is.
    fn state(&self, groups: &BTreeMap<String, Vec<&str>>) -> Cause {
        let predicate = format!("hosts of {} are {}", self.cluster, describe(groups));
        let usual = if groups.contains_key("down") {
            K::GatewayDown
        } else {
            K::ServiceNotReady
        };
        let explains = |kind| matches!(kind, K::GatewayDown | K::ServiceNotReady);
        match self
            .cells
            .keys()
            .find_map(|index| self.problem(*index, &explains))
        {
            Some(problem) => Cause::of_problem(&predicate, problem),
            None => Cause::of_kind(format!("{predicate}: {}", usual.row().sentence), usual),
        }
    }
}

/// Returns the findings about objects that an observer does not use and that explain no difference, and about ports that no
/// cluster reaches: every cluster answers alike then.
fn skipped(observer: &Observer<'_>, explaining: &BTreeSet<*const Value>) -> Vec<Finding> {
    let problems = observer.problems.iter().filter_map(|problem| {
        let kind = kind_of(problem)?;
        let row = kind.row();
        let is_skip = row.family == Family::Skipped && row.level > Level::Note;
        let is_cause = explaining.contains(&std::ptr::from_ref(problem));
        let is_shown = (is_skip || kind == K::DeadPort) && !is_cause;
        is_shown.then(|| (kind, subject(problem)))
    });
    let findings = group(problems).into_iter().map(|(kind, subjects)| {
        let (name, what) = (&observer.name, kind.row().sentence);
        Finding::of_kind(kind, format!("{name}: {what}: {}", list(subjects)))
    });
    findings.collect()
}

/// Returns the kind of a problem, if this version knows it.
fn kind_of(problem: &Value) -> Option<K> {
    serde_json::from_value(problem["kind"].clone()).ok()
}

/// Returns the names and protocols of the ports of an endpoint.
fn port_names(endpoint: &Value) -> Option<String> {
    let ports = items(endpoint, "ports").map(|port| {
        let name = port["name"].as_str().unwrap_or("(no name)");
        format!("{name}/{}", text(port, "protocol").to_lowercase())
    });
    Some(join(ports.collect::<BTreeSet<String>>()))
}

/// Returns the port numbers of an endpoint. Those of pods differ by nature from those of their Service.
fn port_numbers(endpoint: &Value) -> Option<String> {
    let is_pod = text(endpoint, "kind") == "local" && !text(endpoint, "hostname").is_empty();
    let ports = items(endpoint, "ports").map(|port| {
        let name = port["name"].as_str().unwrap_or("(no name)");
        format!("{name}:{}", port["port"])
    });
    (!is_pod).then(|| join(ports.collect::<BTreeSet<String>>()))
}

/// Returns whether an endpoint can be reached: the states `standby` and `omitted` are alive.
fn liveness(endpoint: &Value) -> Option<String> {
    let state = match endpoint["state"].as_str()? {
        "down" => "down",
        "not-ready" => "not ready",
        _ => "alive",
    };
    Some(state.to_owned())
}

/// Returns whether replies contain an endpoint, and why not.
fn reply(endpoint: &Value) -> Option<String> {
    match endpoint["returned"].as_bool()? {
        true => Some("in the replies".to_owned()),
        false => Some(format!("not in the replies ({})", text(endpoint, "why"))),
    }
}

fn owner_name(cluster: &str) -> &str {
    if cluster.is_empty() {
        "one address for all clusters"
    } else {
        cluster
    }
}

fn host_name<'h>(host: &'h str) -> &'h str {
    if host.is_empty() {
        "the cluster IP"
    } else {
        host
    }
}

fn names(hosts: &BTreeSet<&str>) -> String {
    list(hosts.iter().map(|host| host_name(host)))
}
