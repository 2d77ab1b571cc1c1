//! The hosts of each service: one table of what each observer has of each cluster. All must have the same hosts, and see them in
//! the same state.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::difference::{Aspect, Differences, Groups, compare, differs, group, join};
use super::links;
use super::observer::{Key, Observer, columns, is_unready_pod, key_of};
use crate::check::finding::{Check, Finding, items, list, text};
use crate::check::problems::reason;
use crate::model::{Exported, Family, ProblemKind as K, mirrorable};
use crate::view::Section;

const CHECK: Check = Check::FleetServices;

/// What one observer has of one cluster for one service: the endpoints by hostname, which is empty for a cluster IP.
type Cell<'m> = BTreeMap<&'m str, &'m Value>;

/// The cells by service and cluster, which is empty for one address of all clusters, and by observer.
type Table<'m> = BTreeMap<(Key<'m>, String), BTreeMap<usize, Cell<'m>>>;

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

/// What is compared of the endpoints of a host, if all have it in the same state.
const ASPECTS: [Aspect; 3] = [
    aspect("port names", PORTS),
    aspect("port numbers", PORTS),
    aspect(
        "replies with hosts",
        "compare gatewayDown, annotation global-dns/gateway-down and the kinds: global-dns explain NAME shows why",
    ),
];
const PORTS: &str = "give the ports of the Service the same names, protocols and numbers everywhere; a mirror keeps its first \
                     ports: delete one whose port is old, and restart its mirror controller";

const fn aspect(name: &'static str, hint: &'static str) -> Aspect {
    Aspect {
        name,
        hint,
        is_consequence: true,
    }
}

/// Compares the hosts of all services. Returns the section with the rows that differ.
pub(super) fn compare_hosts<'m>(
    observers: &[Observer<'m>],
    found: &mut Differences<'m>,
) -> Section {
    let mut section = Section::new("differences", columns(&["SERVICE", "CLUSTER"], observers));
    for ((key, cluster), cells) in &table_of(observers) {
        let row = Row::new(observers, *key, cluster, cells, found);
        let findings = row.findings();
        if !findings.is_empty() {
            let service = format!("{}/{}", key.0, key.1);
            let text = |index| cells.get(&index).map_or("-".to_owned(), cell_text);
            let texts: Vec<String> = (0..observers.len()).map(text).collect();
            let names = observers.iter().map(|one| one.name.as_str());
            let seen: BTreeMap<&str, &String> = names.zip(&texts).collect();
            let object = json!({
                "section": "differences", "service": service, "cluster": cluster, "observers": seen,
            });
            section.push([vec![service, cluster.clone()], texts].concat(), &object);
        }
        findings
            .into_iter()
            .for_each(|one| found.add_service(*key, one));
    }
    section
}

/// Collects the cells. A cluster IP beside pods is not answered.
fn table_of<'m>(observers: &[Observer<'m>]) -> Table<'m> {
    let mut table = Table::new();
    for (index, observer) in observers.iter().enumerate() {
        for endpoint in observer.endpoints {
            let cluster = observer.name_of(text(endpoint, "cluster")).to_owned();
            let cells = table.entry((key_of(endpoint), cluster)).or_default();
            let cell = cells.entry(index).or_default();
            cell.insert(text(endpoint, "hostname"), endpoint);
        }
    }
    for cell in table.values_mut().flat_map(BTreeMap::values_mut) {
        if cell.len() > 1 {
            cell.remove("");
        }
    }
    table
}

/// Returns the hosts with their states, except those that are alive.
fn cell_text(cell: &Cell<'_>) -> String {
    list(
        cell.iter()
            .map(|(host, endpoint)| match text(endpoint, "state") {
                "alive" => host_name(host).to_owned(),
                state => format!("{} ({state})", host_name(host)),
            }),
    )
}

fn host_name<'h>(host: &&'h str) -> &'h str {
    if host.is_empty() {
        "the cluster IP"
    } else {
        host
    }
}

/// Returns whether an endpoint can be reached: the states `standby` and `omitted` are alive.
fn state(endpoint: Option<&&Value>) -> &'static str {
    match endpoint.map(|one| text(one, "state")) {
        None => "missing",
        Some("down") => "down",
        Some("not-ready") => "not ready",
        Some(_) => "alive",
    }
}

/// Returns the texts of [`ASPECTS`] of an endpoint. The port numbers of pods differ by nature from those of their Service. If
/// the service has an order or a gate, replies differ because of it.
fn texts(endpoint: &Value, has_order: bool) -> [Option<String>; ASPECTS.len()] {
    let is_pod = text(endpoint, "kind") == "local" && !text(endpoint, "hostname").is_empty();
    let ports = |number: &dyn Fn(&Value) -> String| {
        let ports = items(endpoint, "ports");
        let ports: BTreeSet<String> = ports
            .map(|port| {
                format!(
                    "{}{}",
                    port["name"].as_str().unwrap_or("(no name)"),
                    number(port)
                )
            })
            .collect();
        join(ports)
    };
    let reply = endpoint["returned"].as_bool().filter(|_| !has_order);
    [
        Some(ports(&|port| {
            format!("/{}", text(port, "protocol").to_lowercase())
        })),
        (!is_pod).then(|| ports(&|port| format!(":{}", port["port"]))),
        reply.map(|is_returned| match is_returned {
            true => "returned".to_owned(),
            false => format!("not returned ({})", text(endpoint, "why")),
        }),
    ]
}

// === impl Row ===

impl<'c, 'm> Row<'c, 'm> {
    /// Makes the row of all observers but those that differ from the cluster itself because of their link to it: these are added.
    fn new(
        observers: &'c [Observer<'m>],
        key: Key<'m>,
        cluster: &'c str,
        cells: &BTreeMap<usize, Cell<'m>>,
        found: &mut Differences<'m>,
    ) -> Self {
        let owner = observers.iter().position(|one| one.cluster == cluster);
        let cell = |index| cells.get(&index).cloned().unwrap_or_default();
        let content = |index| -> Vec<(&str, &str, Option<String>)> {
            let cell = cell(index)
                .into_iter()
                .filter(|(_, one)| !is_unready_pod(one));
            cell.map(|(host, one)| (host, state(Some(&one)), texts(one, true)[0].clone()))
                .collect()
        };
        let reference = owner.or_else(|| cells.keys().next().copied());
        let expected = reference.map(content);
        let mut compared = BTreeMap::new();
        for (index, observer) in observers.iter().enumerate() {
            let is_equal = observer.cluster == cluster || Some(content(index)) == expected;
            match links::cause(observer, cluster).filter(|_| !is_equal) {
                Some(cause) => found.add_service(key, cause),
                None => _ = compared.insert(index, cell(index)),
            }
        }
        Self {
            observers,
            key,
            cluster,
            owner,
            cells: compared,
        }
    }

    /// Returns all differences, with their causes.
    fn findings(&self) -> Vec<Finding> {
        let cluster = self.cluster;
        let forms = self.forms();
        if forms.len() > 1 {
            let subject = if cluster.is_empty() {
                "the service"
            } else {
                cluster
            };
            let what = format!("{subject} is reached in different ways");
            return vec![differs(CHECK, &what, &forms, "").of_kind(K::Kind)];
        }
        if cluster.is_empty() {
            return Vec::new();
        }
        let hosts: BTreeSet<&str> = self
            .cells
            .values()
            .flat_map(BTreeMap::keys)
            .copied()
            .collect();
        let mut findings = self.states(&hosts);
        let is_explained = !findings.is_empty();
        let mut services = self
            .observers
            .iter()
            .filter_map(|one| one.services.get(&self.key));
        let has_order = services.any(|one| !one["failover"].is_null() || !one["failure"].is_null());
        for host in hosts {
            let seen = self.cells.iter().filter_map(|(index, cell)| {
                let endpoint = cell.get(host).filter(|one| !is_unready_pod(one))?;
                Some((self.name(*index), texts(endpoint, has_order)))
            });
            let seen: Vec<_> = seen.collect();
            let differing = compare(&ASPECTS, &seen, is_explained).into_iter();
            findings.extend(differing.map(|(aspect, groups)| {
                let what = format!("{} of {cluster}", aspect.name);
                differs(CHECK, &what, &groups, aspect.hint)
            }));
        }
        findings
    }

    fn name(&self, index: usize) -> &'c str {
        &self.observers[index].name
    }

    /// Returns how the service of the cluster is reached, by observer. Any kind with an address stands for the cluster IP of the
    /// owner. One address for all clusters is compared with none.
    fn forms(&self) -> Groups<'c> {
        let mut forms = group(self.cells.iter().filter_map(|(index, cell)| {
            let observer = &self.observers[*index];
            let form = match cell.first_key_value() {
                None if self.cluster.is_empty() && observer.services.contains_key(&self.key) => {
                    "none"
                }
                None => return None,
                Some((host, _)) if !host.is_empty() => "pods",
                Some(_) if observer.cluster == self.cluster => "a cluster IP",
                Some((_, endpoint)) => text(endpoint, "kind"),
            };
            Some((form.to_owned(), observer.name.as_str()))
        }));
        if forms.len() > 1 && !forms.contains_key("pods") {
            forms.remove("a cluster IP");
        }
        forms
    }

    /// Compares the states of the hosts. A pod that is not ready at home should be missing elsewhere.
    fn states(&self, hosts: &BTreeSet<&str>) -> Vec<Finding> {
        let mut differing: BTreeMap<BTreeMap<&str, Vec<usize>>, Vec<&str>> = BTreeMap::new();
        for host in hosts {
            let own = self.owner.and_then(|owner| self.cells[&owner].get(host));
            let is_unready = own.is_some_and(|own| is_unready_pod(own));
            let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
            for (index, cell) in &self.cells {
                let state = state(cell.get(host));
                if !(is_unready && state == "missing") {
                    groups.entry(state).or_default().push(*index);
                }
            }
            if groups.len() > 1 {
                differing.entry(groups).or_default().push(host);
            }
        }
        let findings = differing.iter().map(|(groups, differing)| {
            let names = match differing.len() == hosts.len() {
                true => "hosts".to_owned(),
                false => list(differing.iter().map(host_name)),
            };
            let seen = groups.iter().flat_map(|(state, indexes)| {
                indexes
                    .iter()
                    .map(|index| ((*state).to_owned(), self.name(*index)))
            });
            let what = format!("{names} of {}", self.cluster);
            self.with_cause(differs(CHECK, &what, &group(seen), ""), groups)
        });
        findings.collect()
    }

    /// Adds the cause of different states: a problem of an observer, or what usually is the cause.
    fn with_cause(&self, finding: Finding, groups: &BTreeMap<&str, Vec<usize>>) -> Finding {
        if let Some(missing) = groups.get("missing") {
            return match self.owner.filter(|owner| missing.contains(owner)) {
                Some(_) => finding.because(
                    "not a member at home",
                    "a mirror was left, or its hostname was changed: delete the mirror, and restart its mirror controller; if the \
                     Service exists there and is no member, export it there (localMembers)",
                ),
                None => self.with_lack(finding, missing),
            };
        }
        let kinds = match groups.contains_key("down") {
            true => [K::GatewayDown, K::ServiceNotReady],
            false => [K::PodNotReady, K::ServiceNotReady],
        };
        let mut observers = self.cells.keys();
        match observers.find_map(|index| self.problem(*index, &|kind| kinds.contains(&kind))) {
            Some(problem) => finding.because_of(problem, text(problem, "sentence")),
            None => finding
                .because(kinds[0].row().sentence, "")
                .of_kind(kinds[0]),
        }
    }

    /// Adds why observers lack hosts of the cluster: a problem that they or the owner have, or what keeps Linkerd from mirroring
    /// the service.
    fn with_lack(&self, finding: Finding, missing: &[usize]) -> Finding {
        let explains = |kind: K| kind == K::MissingHost || kind.row().family == Family::Skipped;
        let is_private = |kind| matches!(kind, K::NotExported | K::LeftOut);
        let of_observers = missing
            .iter()
            .find_map(|index| self.problem(*index, &explains));
        if let Some(problem) = of_observers.or_else(|| self.problem(self.owner?, &is_private)) {
            return finding.because_of(problem, &reason(problem));
        }
        let see = format!(
            "check that namespace {} exists there, and the selector of the Link; see global-dns check there",
            self.key.0
        );
        let mut others = self
            .cells
            .iter()
            .filter(|(index, _)| Some(**index) != self.owner);
        if others.any(|(_, cell)| !cell.is_empty()) {
            return finding.because("not mirrored there", &see);
        }
        match self.not_mirrorable() {
            Some((reason, hint)) => finding.because(&reason, hint),
            None => finding.because("no other cluster mirrors it", &see),
        }
    }

    /// Returns a problem of an observer with the service and the cluster of the row.
    fn problem(&self, observer: usize, is_wanted: &dyn Fn(K) -> bool) -> Option<&'m Value> {
        self.observers[observer].problem(self.key, Some(self.cluster), is_wanted)
    }

    /// Returns why Linkerd does not mirror the service of the owner.
    fn not_mirrorable(&self) -> Option<(String, &'static str)> {
        let own = &self.cells[&self.owner?];
        let exported = Exported {
            service: self.key.1,
            cluster: self.cluster,
            hosts: own.keys().copied().collect(),
            is_headless: own.keys().any(|host| !host.is_empty()),
            has_ports: own.values().any(|one| items(one, "ports").next().is_some()),
        };
        let reason = mirrorable(&exported).err()?;
        Some((reason.to_string(), reason.hint()))
    }
}
