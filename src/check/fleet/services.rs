//! The hosts of each service: one table of what each observer has of each cluster. All must have the same hosts, and see them in
//! the same state.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::causes::{Cause, Causes, describe, group, join, verb};
use super::columns;
use super::links::Directions;
use super::observer::{Key, Observer, is_unready_pod, key_of};
use crate::check::finding::{Check, Finding, items, list, text};
use crate::check::problems::subject;
use crate::model::{Exported, Family, Level, ProblemKind, mirrorable};
use crate::view::Section;

/// What one observer has of one cluster for one service: the endpoints by hostname, which is empty for a cluster IP.
#[derive(Clone, Debug, Default)]
struct Cell<'m>(BTreeMap<&'m str, &'m Value>);

/// The cells by service and cluster, which is empty for one address of all clusters.
type Table<'m> = BTreeMap<(Key<'m>, String), BTreeMap<usize, Cell<'m>>>;

/// What is compared of the endpoints of one host. `None`: not comparable.
type Aspect = fn(&Value) -> Option<String>;

/// The differences of hosts.
#[derive(Debug)]
pub(super) struct Differences<'m> {
    causes: Causes<'m>,
    /// Findings about objects that an observer does not use, and that are no cause of a difference.
    skipped: Vec<Finding>,
    /// The services that differ because of a link.
    by_links: BTreeSet<Key<'m>>,
    table: Table<'m>,
    compared: usize,
}

/// One row of the table, while it is compared.
struct Comparison<'c, 'm> {
    observers: &'c [Observer<'m>],
    key: Key<'m>,
    cluster: &'c str,
    /// The first server of the cluster itself.
    owner: Option<usize>,
    cells: BTreeMap<usize, &'c Cell<'m>>,
    /// The observers that differ because of their link to the cluster.
    left_out: BTreeSet<usize>,
    /// The problems that are causes, by address.
    explaining: BTreeSet<*const Value>,
}

/// Compares the hosts of all services.
pub(super) fn compare<'m>(
    observers: &[Observer<'m>],
    links: &mut Directions<'m>,
) -> Differences<'m> {
    let all = table_of(observers);
    let compared: BTreeSet<Key<'_>> = all.keys().map(|(key, _)| *key).collect();
    let mut causes = Causes::default();
    let mut explaining = BTreeSet::new();
    let mut table = Table::new();
    for ((key, cluster), cells) in &all {
        let mut row = Comparison::new(observers, *key, cluster, cells);
        row.leave_out_by_links(links);
        let found = row.causes();
        explaining.append(&mut row.explaining);
        let row = ((*key, cluster.clone()), cells.clone());
        table.extend((!found.is_empty()).then_some(row));
        found.into_iter().for_each(|cause| causes.add(*key, cause));
    }
    Differences {
        causes,
        skipped: observers
            .iter()
            .flat_map(|one| skipped(one, &explaining))
            .collect(),
        by_links: links.differing(),
        table,
        compared: compared.len(),
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
    for cell in table.values_mut().flat_map(BTreeMap::values_mut) {
        if cell.0.keys().any(|host| !host.is_empty()) {
            cell.0.remove("");
        }
    }
    table
}

// === impl Cell ===

impl<'m> Cell<'m> {
    /// Returns the hosts that other clusters should have: all but the own pods that are not ready.
    fn hosts(&self) -> BTreeSet<&'m str> {
        let ready = self.0.iter().filter(|(_, one)| !is_unready_pod(one));
        ready.map(|(host, _)| *host).collect()
    }

    /// Returns what a direction of a link can change: the hosts with their ports and states.
    fn content(&self) -> Vec<(&'m str, Option<String>, Option<String>)> {
        let ready = self.0.iter().filter(|(_, one)| !is_unready_pod(one));
        ready
            .map(|(host, one)| (*host, port_names(one), liveness(one)))
            .collect()
    }

    /// Returns how the service is reached, or `None` if that is not known.
    fn form(&self, is_own: bool) -> Option<&'m str> {
        let (host, endpoint) = self.0.first_key_value()?;
        match (host.is_empty(), is_own) {
            (false, _) => Some("pods"),
            (true, true) => Some("a cluster IP"),
            (true, false) => Some(text(endpoint, "kind")),
        }
    }

    /// Returns the hosts with their states, except those that are alive.
    fn text(&self) -> String {
        let hosts = self.0.iter().map(|(host, endpoint)| {
            let host = if host.is_empty() { "cluster IP" } else { host };
            match text(endpoint, "state") {
                "alive" => host.to_owned(),
                state => format!("{host} ({state})"),
            }
        });
        list(hosts)
    }
}

// === impl Comparison ===

impl<'c, 'm> Comparison<'c, 'm> {
    fn new(
        observers: &'c [Observer<'m>],
        key: Key<'m>,
        cluster: &'c str,
        cells: &'c BTreeMap<usize, Cell<'m>>,
    ) -> Self {
        Self {
            observers,
            key,
            cluster,
            owner: observers.iter().position(|one| one.cluster == cluster),
            cells: cells.iter().map(|(index, cell)| (*index, cell)).collect(),
            left_out: BTreeSet::new(),
            explaining: BTreeSet::new(),
        }
    }

    /// Returns the names of observers for a sentence.
    fn names(&self, indexes: &[usize]) -> String {
        join(indexes.iter().map(|index| &self.observers[*index].name))
    }

    /// Leaves out the observers that differ because of their link to the cluster.
    fn leave_out_by_links(&mut self, links: &mut Directions<'m>) {
        let content = |index: usize| {
            self.cells
                .get(&index)
                .map_or_else(Vec::new, |one| one.content())
        };
        let reference = self.owner.or_else(|| self.cells.keys().next().copied());
        let expected = reference.map(content);
        let others = (0..self.observers.len())
            .filter(|index| self.observers[*index].cluster != self.cluster);
        let differing: Vec<usize> = others
            .filter(|index| Some(content(*index)) != expected)
            .collect();
        for index in differing {
            if links.is_cause(index, self.cluster, self.key) {
                self.cells.remove(&index);
                self.left_out.insert(index);
            }
        }
    }

    /// Returns the causes of all differences of the row.
    fn causes(&mut self) -> Vec<Cause> {
        if self.cluster.is_empty() {
            return self.federation().into_iter().collect();
        }
        if let Some(cause) = self.forms() {
            return vec![cause];
        }
        let mut causes = self.hosts();
        let ports = "give the ports of the Service the same names and protocols as those of its pods; a mirror copies the ports of \
                     the exported Service";
        let numbers = "a mirror keeps its first ports: delete the mirror whose port is old, and restart its mirror controller";
        causes.extend(self.aspect(port_names, |groups| {
            Cause::new(
                format!("ports of {} differ: {}", self.cluster, describe(&groups)),
                ports,
            )
        }));
        if causes.is_empty() {
            causes.extend(self.aspect(port_numbers, |groups| {
                Cause::new(
                    format!(
                        "port numbers of {} differ: {}",
                        self.cluster,
                        describe(&groups)
                    ),
                    numbers,
                )
            }));
        }
        causes.extend(self.aspect(liveness, |groups| self.state(&groups)));
        if causes.is_empty() {
            causes.extend(self.replies());
        }
        causes
    }

    /// Compares which observers have one address for all clusters.
    fn federation(&self) -> Option<Cause> {
        let has_service = |(_, one): &(usize, &Observer<'_>)| one.services.contains_key(&self.key);
        let all = self.observers.iter().enumerate().filter(has_service);
        let (with, without): (Vec<usize>, Vec<usize>) = all
            .map(|(index, _)| index)
            .partition(|index| self.cells.contains_key(index));
        (!without.is_empty() && !with.is_empty()).then(|| {
            let (with, without) = (self.names(&with), self.names(&without));
            let predicate =
                format!("one address for all clusters in {with}, and none in {without}");
            Cause::of_kind(predicate, ProblemKind::Kind)
        })
    }

    /// Compares how the service of the cluster is reached. Any kind with an address stands for the cluster IP of the owner.
    fn forms(&self) -> Option<Cause> {
        let forms = self.cells.iter().filter_map(|(index, cell)| {
            let observer = &self.observers[*index];
            let form = cell.form(observer.cluster == self.cluster)?;
            Some((form, observer.name.as_str()))
        });
        let mut forms = group(forms);
        if forms.len() > 1 && !forms.contains_key("pods") {
            forms.remove("a cluster IP");
        }
        (forms.len() > 1).then(|| {
            let forms = describe(&forms);
            let predicate = format!("{} is reached in different ways: {forms}", self.cluster);
            Cause::of_kind(predicate, ProblemKind::Kind)
        })
    }

    /// Compares the hosts with those of the owner, or with all of them if the cluster itself is no observer.
    fn hosts(&mut self) -> Vec<Cause> {
        let none = Cell::default();
        let own = self
            .owner
            .map(|owner| *self.cells.get(&owner).unwrap_or(&&none));
        let expected: BTreeSet<&str> = match own {
            Some(own) => own.hosts(),
            None => self.cells.values().flat_map(|cell| cell.hosts()).collect(),
        };
        let unready: BTreeSet<&str> = own.iter().flat_map(|own| own.0.keys()).copied().collect();
        // The observers by what they have or lack, and why.
        let mut differing: BTreeMap<([&str; 2], Cause), Vec<usize>> = BTreeMap::new();
        let others = (0..self.observers.len()).filter(|index| Some(*index) != self.owner);
        let others: Vec<usize> = others
            .filter(|index| !self.left_out.contains(index))
            .collect();
        for index in others {
            let hosts = self
                .cells
                .get(&index)
                .map_or_else(BTreeSet::new, |cell| cell.hosts());
            let missing: BTreeSet<&str> = expected.difference(&hosts).copied().collect();
            let surplus = hosts.difference(&expected).copied();
            let (not_ready, surplus): (BTreeSet<&str>, BTreeSet<&str>) =
                surplus.partition(|host| unready.contains(host));
            if !not_ready.is_empty() {
                let text = format!(
                    "{} of {}, not ready there",
                    names_of(&not_ready),
                    self.cluster
                );
                let cause = Cause::of_kind(text, ProblemKind::PodNotReady);
                differing
                    .entry((["has", "have"], cause))
                    .or_default()
                    .push(index);
            }
            if !surplus.is_empty() {
                let cause = self.surplus(&surplus, &missing, expected.is_empty());
                differing
                    .entry((["has", "have"], cause))
                    .or_default()
                    .push(index);
            } else if !missing.is_empty() {
                let hosts = match missing.len() == expected.len() {
                    true => "the hosts".to_owned(),
                    false => names_of(&missing),
                };
                let cause = self.lack(&hosts, index);
                differing
                    .entry((["lacks", "lack"], cause))
                    .or_default()
                    .push(index);
            }
        }
        let causes = differing
            .into_iter()
            .map(|(([one, several], mut cause), indexes)| {
                let verb = verb(indexes.len(), one, several);
                cause.predicate = format!("{} {verb} {}", self.names(&indexes), cause.predicate);
                cause
            });
        causes.collect()
    }

    /// Returns that an observer has hosts of the cluster that it should not have.
    fn surplus(
        &self,
        surplus: &BTreeSet<&str>,
        missing: &BTreeSet<&str>,
        is_no_member: bool,
    ) -> Cause {
        let (cluster, hosts) = (self.cluster, names_of(surplus));
        if is_no_member {
            return Cause::new(
                format!("{hosts} of {cluster}, where the service is no member"),
                format!(
                    "if the Service exists in {cluster}, export it there: label mirror.linkerd.io/exported=true, and \
                     localMembers; otherwise, delete its mirrors"
                ),
            );
        }
        let instead = match missing.is_empty() {
            true => format!("which {cluster} does not have"),
            false => format!("and {cluster} has {}", names_of(missing)),
        };
        Cause::new(
            format!("{hosts} of {cluster}, {instead}"),
            "a mirror was left, or its hostname was changed: delete the mirror, and restart its mirror controller",
        )
    }

    /// Returns that an observer lacks hosts of the cluster, and why: a problem that it or the owner has, or what keeps Linkerd from
    /// mirroring the service.
    fn lack(&mut self, hosts: &str, index: usize) -> Cause {
        let (cluster, key) = (self.cluster, self.key);
        let lack = |reason: &str| format!("{hosts} of {cluster}: {reason}");
        let find = |observer: usize, kinds: &dyn Fn(ProblemKind) -> bool| {
            let mut problems = self.observers[observer].problems_of(key, Some(cluster));
            problems.find(|one| kind_of(one).is_some_and(kinds))
        };
        let explains = |kind: ProblemKind| {
            kind == ProblemKind::MissingHost || kind.row().family == Family::Skipped
        };
        let is_private = |kind| matches!(kind, ProblemKind::NotExported | ProblemKind::NotAMember);
        let of_owner = self.owner.and_then(|owner| find(owner, &is_private));
        if let Some(problem) = find(index, &explains).or(of_owner) {
            self.explaining.insert(problem);
            return Cause::of_problem(&format!("{hosts} of {cluster}"), problem);
        }
        let mut others = self
            .cells
            .iter()
            .filter(|(other, _)| self.observers[**other].cluster != cluster);
        let (namespace, _) = key;
        let see = format!(
            "check that namespace {namespace} exists there, and the selector of the Link; see global-dns check there"
        );
        if others.any(|(_, cell)| !cell.0.is_empty()) {
            return Cause::new(lack("not mirrored there"), see);
        }
        match self.not_mirrorable() {
            Some((reason, hint)) => Cause::new(lack(&reason), hint),
            None => Cause::new(lack("no other cluster has them"), see),
        }
    }

    /// Returns why Linkerd does not mirror the service of the owner.
    fn not_mirrorable(&self) -> Option<(String, &'static str)> {
        let own = self.cells.get(&self.owner?)?;
        let exported = Exported {
            service: self.key.1,
            cluster: self.cluster,
            hosts: own.0.keys().copied().collect(),
            is_headless: own.form(true) == Some("pods"),
            has_ports: own
                .0
                .values()
                .any(|one| items(one, "ports").next().is_some()),
        };
        let reason = mirrorable(&exported).err()?;
        Some((reason.to_string(), reason.hint()))
    }

    /// Compares an aspect of each host that several observers have. Returns the causes, each once.
    fn aspect(
        &self,
        value: Aspect,
        cause: impl Fn(BTreeMap<String, Vec<&'c str>>) -> Cause,
    ) -> Vec<Cause> {
        let hosts: BTreeSet<&str> = self.cells.values().flat_map(|cell| cell.hosts()).collect();
        let causes = hosts.into_iter().filter_map(|host| {
            let values = self.cells.iter().filter_map(|(index, cell)| {
                let endpoint = cell.0.get(host).filter(|one| !is_unready_pod(one))?;
                Some((value(endpoint)?, self.observers[*index].name.as_str()))
            });
            let groups = group(values);
            (groups.len() > 1).then(|| cause(groups))
        });
        causes.collect::<BTreeSet<Cause>>().into_iter().collect()
    }

    /// Returns the cause of different states: the problem of an observer, or the kind that such a state usually is.
    fn state(&self, groups: &BTreeMap<String, Vec<&str>>) -> Cause {
        let predicate = format!("hosts of {} are {}", self.cluster, describe(groups));
        let usual = match groups.contains_key("down") {
            true => ProblemKind::GatewayDown,
            false => ProblemKind::ServiceNotReady,
        };
        let explains = |kind| {
            matches!(
                kind,
                ProblemKind::GatewayDown | ProblemKind::ServiceNotReady
            )
        };
        let observers = self.cells.keys().map(|index| &self.observers[*index]);
        let mut problems = observers.flat_map(|one| one.problems_of(self.key, Some(self.cluster)));
        match problems.find(|one| kind_of(one).is_some_and(explains)) {
            Some(problem) => Cause::of_problem(&predicate, problem),
            None => Cause::of_kind(format!("{predicate}: {}", usual.row().sentence), usual),
        }
    }

    /// Compares whether replies contain the hosts. An order or a gate makes them differ, which is a setting of the service.
    fn replies(&self) -> Option<Cause> {
        let services = self
            .observers
            .iter()
            .filter_map(|one| one.services.get(&self.key));
        let mut services =
            services.filter(|one| !one["failover"].is_null() || !one["failure"].is_null());
        if services.next().is_some() || !self.left_out.is_empty() {
            return None;
        }
        let reply = |endpoint: &Value| {
            let text = match endpoint["returned"].as_bool()? {
                true => "in the replies".to_owned(),
                false => format!("not in the replies ({})", text(endpoint, "why")),
            };
            Some(text)
        };
        let hint = "compare gatewayDown, annotation global-dns/gateway-down and the kinds: global-dns explain NAME shows why";
        let causes = self.aspect(reply, |groups| {
            Cause::new(
                format!("hosts of {} are {}", self.cluster, describe(&groups)),
                hint,
            )
        });
        causes.into_iter().next()
    }
}

// === impl Differences ===

impl<'m> Differences<'m> {
    /// Returns the services that differ. Their settings may differ because of it.
    pub(super) fn services(&self) -> BTreeSet<Key<'m>> {
        self.causes
            .services()
            .union(&self.by_links)
            .copied()
            .collect()
    }

    pub(super) fn findings(&self) -> Vec<Finding> {
        let check = Check::FleetServices;
        let mut findings: Vec<Finding> = self.causes.findings(check).collect();
        findings.extend(self.skipped.iter().cloned());
        if findings.is_empty() && self.by_links.is_empty() {
            let sentence = format!("the same hosts everywhere; services: {}", self.compared);
            findings.push(Finding::ok(check, sentence));
        }
        findings
    }

    /// Makes the section of what differs: the hosts of a service in a cluster, as each observer has them.
    pub(super) fn table(&self, observers: &[Observer<'m>]) -> Section {
        let mut section = Section::new("differences", columns(&["SERVICE", "CLUSTER"], observers));
        for (((namespace, name), cluster), cells) in &self.table {
            let service = format!("{namespace}/{name}");
            let text = |index: usize| cells.get(&index).map_or_else(|| "-".to_owned(), Cell::text);
            let texts: Vec<String> = (0..observers.len()).map(text).collect();
            let names = observers.iter().map(|one| one.name.as_str());
            let seen: BTreeMap<&str, &String> = names.zip(&texts).collect();
            let object = json!({
                "section": "differences", "service": service, "cluster": cluster, "observers": seen,
            });
            section.push(
                [service, cluster.clone()].into_iter().chain(texts.clone()),
                &object,
            );
        }
        section
    }
}

/// Returns the findings about objects that an observer does not use and that explain no difference, and about ports that no
/// cluster reaches: every cluster answers alike then.
fn skipped(observer: &Observer<'_>, explaining: &BTreeSet<*const Value>) -> Vec<Finding> {
    let is_shown = |kind: ProblemKind| {
        let row = kind.row();
        row.family == Family::Skipped && row.level > Level::Note || kind == ProblemKind::DeadPort
    };
    let problems = observer.problems.iter().filter_map(|problem| {
        let kind = kind_of(problem).filter(|kind| is_shown(*kind))?;
        let is_cause = explaining.contains(&std::ptr::from_ref(problem));
        (!is_cause).then(|| (kind, subject(problem)))
    });
    let findings = group(problems).into_iter().map(|(kind, subjects)| {
        let (name, what) = (&observer.name, kind.row().sentence);
        Finding::of_kind(kind, format!("{name}: {what}: {}", list(subjects)))
    });
    findings.collect()
}

/// Returns the kind of a problem, if this version knows it.
fn kind_of(problem: &Value) -> Option<ProblemKind> {
    serde_json::from_value(problem["kind"].clone()).ok()
}

/// Returns the names and protocols of the ports of an endpoint.
fn port_names(endpoint: &Value) -> Option<String> {
    let ports = items(endpoint, "ports").map(|port| {
        let name = port["name"].as_str().unwrap_or("(no name)");
        format!("{name}/{}", text(port, "protocol").to_lowercase())
    });
    let ports: BTreeSet<String> = ports.collect();
    Some(join(ports))
}

/// Returns the port numbers of an endpoint. Those of pods differ by nature from those of their Service.
fn port_numbers(endpoint: &Value) -> Option<String> {
    let is_pod = text(endpoint, "kind") == "local" && !text(endpoint, "hostname").is_empty();
    let ports = items(endpoint, "ports").map(|port| {
        let name = port["name"].as_str().unwrap_or("(no name)");
        format!("{name}:{}", port["port"])
    });
    let ports: BTreeSet<String> = ports.collect();
    (!is_pod).then(|| join(ports))
}

/// Returns whether an endpoint can be reached: the states `standby` and `omitted` are alive.
fn liveness(endpoint: &Value) -> Option<String> {
    Some(match endpoint["state"].as_str()? {
        "down" => "down".to_owned(),
        "not-ready" => "not ready".to_owned(),
        _ => "alive".to_owned(),
    })
}

/// Lists hostnames.
fn names_of(hosts: &BTreeSet<&str>) -> String {
    list(hosts.iter().map(|host| {
        if host.is_empty() {
            "the cluster IP"
        } else {
            host
        }
    }))
}
