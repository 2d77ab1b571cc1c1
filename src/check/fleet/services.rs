//! The hosts of each service: one table of what each observer has of each cluster. All must have the same hosts, and see them in
//! the same state.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::difference::{Aspect, Differences, compare, differs, group, join};
use super::links;
use super::observer::{Key, Observer, columns, is_unready_pod};
use crate::check::finding::{Check, Finding, items, key_of, list, text};
use crate::check::told::reason;
use crate::model::{Family, MAX_LISTED, ProblemKind as K};
use crate::view::Section;

const CHECK: Check = Check::FleetServices;

/// What one observer has of one cluster for one service: the endpoints by hostname, which is empty for a cluster IP.
type Cell<'m> = BTreeMap<&'m str, &'m Value>;

/// The cells of all observers by service and cluster, which is empty for one address of all clusters.
type Table<'m> = BTreeMap<(Key<'m>, String), Vec<Cell<'m>>>;

/// One row of the table, while it is compared.
struct Row<'c, 'm> {
    key: Key<'m>,
    cluster: &'c str,
    /// The cells of all observers but those that differ because of their link to the cluster. Without endpoints, they are empty.
    cells: Vec<(&'c Observer<'m>, Cell<'m>)>,
}

/// What is compared of the endpoints of a host, if all observers have the same hosts.
const ASPECTS: [Aspect; 3] = [
    ("port names", PORTS),
    ("port numbers", PORTS),
    (
        "replies with hosts",
        "compare gatewayDown, annotation global-dns/gateway-down and the kinds: global-dns explain NAME shows why",
    ),
];
const PORTS: &str = "give the ports of the Service the same names, protocols and numbers everywhere; a mirror keeps its first \
                     ports: delete one whose port is old, and restart its mirror controller";

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
            let service = key.join("/");
            let texts = cells.iter().map(|cell| match cell.is_empty() {
                true => "-".to_owned(),
                false => list(hosts(cell)),
            });
            let texts: Vec<String> = texts.collect();
            let names = observers.iter().map(|one| one.name.as_str());
            let seen: BTreeMap<&str, &String> = names.zip(&texts).collect();
            let object = json!({
                "section": "differences", "service": service, "cluster": cluster, "observers": seen,
            });
            section.push([vec![service, cluster.clone()], texts].concat(), &object);
        }
        found.add_service(*key, findings);
    }
    section
}

/// Collects the cells. A cluster IP beside pods is not answered.
fn table_of<'m>(observers: &[Observer<'m>]) -> Table<'m> {
    let mut table = Table::new();
    for (index, observer) in observers.iter().enumerate() {
        for endpoint in &observer.table.endpoints {
            let cluster = observer.name_of(text(endpoint, "cluster")).to_owned();
            let cells = table
                .entry((key_of(endpoint), cluster))
                .or_insert_with(|| vec![Cell::new(); observers.len()]);
            cells[index].insert(text(endpoint, "hostname"), endpoint);
        }
    }
    for cell in table.values_mut().flatten() {
        if cell.len() > 1 {
            cell.remove("");
        }
    }
    table
}

/// Returns the hosts of a cell with their states, except those that are alive.
fn hosts(cell: &Cell<'_>) -> Vec<String> {
    let hosts = cell.iter().map(|(host, endpoint)| {
        let host = if host.is_empty() {
            "the cluster IP"
        } else {
            host
        };
        match state(Some(endpoint)) {
            "alive" => host.to_owned(),
            state => format!("{host} ({state})"),
        }
    });
    hosts.collect()
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
        let ports = items(endpoint, "ports").map(|port| {
            let name = port["name"].as_str().unwrap_or("(no name)");
            format!("{name}{}", number(port))
        });
        join(ports.collect::<BTreeSet<String>>())
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
        cells: &[Cell<'m>],
        found: &mut Differences<'m>,
    ) -> Self {
        let ready = |cell: &Cell<'m>| {
            let mut cell = cell.clone();
            cell.retain(|_, one| !is_unready_pod(one));
            hosts(&cell)
        };
        let all = || observers.iter().zip(cells);
        let owner = all().find(|(one, _)| one.cluster == cluster);
        let reference = owner.or_else(|| all().find(|(_, cell)| !cell.is_empty()));
        let expected = reference.map(|(_, cell)| ready(cell));
        let mut compared = Vec::new();
        for (observer, cell) in all() {
            // An address of no single cluster has no link of its own.
            let is_own = cluster.is_empty() || observer.cluster == cluster;
            let is_equal = is_own || Some(ready(cell)) == expected;
            match links::cause(observer, cluster).filter(|_| !is_equal) {
                Some(cause) => found.add_service(key, [cause]),
                None => compared.push((observer, cell.clone())),
            }
        }
        Self {
            key,
            cluster,
            cells: compared,
        }
    }

    /// Returns the differences: of the ways to the cluster, else of its hosts, else of their endpoints.
    fn findings(&self) -> Vec<Finding> {
        let cells = self.cells.iter();
        let forms =
            cells.filter_map(|(one, cell)| Some((self.form(one, cell)?, one.name.as_str())));
        let forms = group(forms);
        if forms.len() > 1 {
            let subject = match self.cluster {
                "" => "the service",
                cluster => cluster,
            };
            let what = format!("{subject} is reached in different ways");
            return vec![differs(CHECK, &what, &forms, "").of_kind(K::Kind)];
        }
        if self.cluster.is_empty() {
            return Vec::new();
        }
        let all = self.cells.iter().flat_map(|(_, cell)| cell.keys().copied());
        let all: BTreeSet<&str> = all.collect();
        let mut differing = all.clone();
        differing.retain(|host| self.states(host).len() > 1);
        match differing.is_empty() {
            true => all.iter().flat_map(|host| self.endpoints(host)).collect(),
            false => vec![self.hosts_differ(&differing)],
        }
    }

    /// Returns what the first server of the cluster itself has.
    fn own(&self) -> Option<&(&'c Observer<'m>, Cell<'m>)> {
        let mut cells = self.cells.iter();
        cells.find(|(one, _)| one.cluster == self.cluster)
    }

    /// Returns how an observer reaches the service of the cluster. Any way to one address is right for a cluster IP of the owner.
    /// One address for all clusters is compared with none.
    fn form(&self, observer: &Observer<'_>, cell: &Cell<'_>) -> Option<String> {
        let form = match cell.first_key_value() {
            None if self.cluster.is_empty() && observer.services.contains_key(&self.key) => "none",
            None => return None,
            Some((host, _)) if !host.is_empty() => "pods",
            Some(_) if observer.cluster == self.cluster => return None,
            Some((_, endpoint)) => text(endpoint, "kind"),
        };
        Some(form.to_owned())
    }

    /// Returns the states in which observers have a host, with them. A pod that is not ready at home should be missing elsewhere.
    fn states(&self, host: &str) -> BTreeMap<&'static str, Vec<&'c Observer<'m>>> {
        let mut states: BTreeMap<&str, Vec<&Observer<'_>>> = BTreeMap::new();
        for (observer, cell) in &self.cells {
            let observers = states.entry(state(cell.get(host))).or_default();
            observers.push(observer);
        }
        let own = self.own().and_then(|(_, cell)| cell.get(host));
        if own.is_some_and(|own| is_unready_pod(own)) {
            states.remove("missing");
        }
        states
    }

    /// Makes the finding that observers have different hosts, or in different states, with its cause.
    fn hosts_differ(&self, differing: &BTreeSet<&str>) -> Finding {
        let shown: BTreeSet<&str> = differing.iter().copied().take(MAX_LISTED).collect();
        let seen = self.cells.iter().map(|(observer, cell)| {
            let mut cell = cell.clone();
            cell.retain(|host, _| shown.contains(host));
            (hosts(&cell).join(", "), observer.name.as_str())
        });
        let what = match differing.len() - shown.len() {
            0 => format!("hosts of {}", self.cluster),
            more => format!("hosts of {} (and {more} more)", self.cluster),
        };
        let finding = differs(CHECK, &what, &group(seen), "");
        let mut states: BTreeMap<&str, Vec<&Observer<'_>>> = BTreeMap::new();
        for (state, observers) in differing.iter().flat_map(|host| self.states(host)) {
            states.entry(state).or_default().extend(observers);
        }
        if let Some(missing) = states.get("missing") {
            let is_owner = |(owner, _): &&(&Observer<'_>, Cell<'_>)| {
                missing.iter().any(|one| one.name == owner.name)
            };
            return match self.own().filter(is_owner) {
                Some(_) => finding.because(
                    "not a member at home",
                    "a mirror was left, or its hostname was changed: delete the mirror, and restart its mirror controller; if the \
                     Service exists there and is no member, export it there (localMembers)",
                ),
                None => self.with_lack(finding, missing),
            };
        }
        let kinds = match states.contains_key("down") {
            true => [K::GatewayDown, K::ServiceNotReady],
            false => [K::PodNotReady, K::ServiceNotReady],
        };
        let mut observers = self.cells.iter();
        match observers.find_map(|(one, _)| self.problem(one, &|kind| kinds.contains(&kind))) {
            Some(problem) => finding.because_of(problem, text(problem, "sentence")),
            None => finding
                .because(kinds[0].row().sentence, "")
                .of_kind(kinds[0]),
        }
    }

    /// Compares the endpoints of a host.
    fn endpoints(&self, host: &str) -> Vec<Finding> {
        let services = self.cells.iter();
        let mut services = services.filter_map(|(one, _)| one.services.get(&self.key));
        let has_order = services.any(|one| !one["failover"].is_null() || !one["failure"].is_null());
        let seen = self.cells.iter().filter_map(|(observer, cell)| {
            let endpoint = cell.get(host).filter(|one| !is_unready_pod(one))?;
            Some((observer.name.as_str(), texts(endpoint, has_order)))
        });
        let seen: Vec<_> = seen.collect();
        let of = format!(" of {}", self.cluster);
        compare(CHECK, &of, &ASPECTS, 0, false, &seen)
    }

    /// Adds why observers lack hosts of the cluster: a problem that they or the owner have, or that nobody mirrors them.
    fn with_lack(&self, finding: Finding, missing: &[&Observer<'m>]) -> Finding {
        let explains = |kind: K| kind == K::MissingHost || kind.row().family == Family::Skipped;
        let is_private = |kind| matches!(kind, K::NotExported | K::NotMirrorable | K::LeftOut);
        let mut missing = missing.iter();
        let problem = missing.find_map(|one| self.problem(one, &explains));
        if let Some(problem) = problem.or_else(|| self.problem(self.own()?.0, &is_private)) {
            return finding.because_of(problem, &reason(problem));
        }
        let see = format!(
            "check that namespace {} exists there, and the selector of the Link; see global-dns check there",
            self.key[0]
        );
        let is_mirror = |(one, cell): &(&Observer<'_>, Cell<'_>)| {
            one.cluster != self.cluster && !cell.is_empty()
        };
        if self.cells.iter().any(is_mirror) {
            return finding.because("not mirrored there", &see);
        }
        finding.because("no other cluster mirrors it", &see)
    }

    /// Returns a problem of an observer with the service and the cluster of the row.
    fn problem(&self, observer: &Observer<'m>, is_wanted: &dyn Fn(K) -> bool) -> Option<&'m Value> {
        observer.problem(self.key, Some(self.cluster), is_wanted)
    }
}
