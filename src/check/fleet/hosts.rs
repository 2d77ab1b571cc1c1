//! The hosts of each service: one table of what each observer has of each cluster. All must have the same hosts, and see them in
//! the same state.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::mismatch::{Key, Mismatch, differs, join, of_kind, of_problem};
use super::observer::{Cell, Observer, columns};
use super::settings;
use crate::check::facts::reason;
use crate::check::finding::{Check, Finding, items, list, text};
use crate::model::{Family, MAX_LISTED, ProblemKind as K};
use crate::view::Section;

/// What the observers have of a service in one cluster, which is empty for one address of several clusters.
struct Hosts<'c, 'm> {
    key: Key<'m>,
    cluster: &'m str,
    /// The compared observers. Without endpoints, their cells are empty.
    cells: Vec<(&'c Observer<'m>, Cell<'m>)>,
}

/// What is compared of the endpoints of a host, if all observers have the same hosts.
struct Aspect {
    name: &'static str,
    /// What to do if it differs.
    hint: &'static str,
    /// Returns its text. `None`: it is not compared.
    text: fn(&Value) -> Option<String>,
}

const PORT_NAMES: Aspect = Aspect {
    name: "port names",
    hint: PORTS,
    text: |endpoint| {
        let protocol = |port: &Value| format!("/{}", text(port, "protocol").to_lowercase());
        Some(port_texts(endpoint, protocol))
    },
};
/// Those of pods differ by nature from those of their Service.
const PORT_NUMBERS: Aspect = Aspect {
    name: "port numbers",
    hint: PORTS,
    text: |endpoint| {
        let number = |port: &Value| format!(":{}", port["port"]);
        (!is_own_pod(endpoint)).then(|| port_texts(endpoint, number))
    },
};
/// If a service has an order or a gate, replies differ because of it.
const REPLIES: Aspect = Aspect {
    name: "replies with hosts",
    hint: "compare gatewayDown, annotation global-dns/gateway-down and the kinds, which global-dns explain shows",
    text: |endpoint| {
        let not_returned = || format!("not returned ({})", text(endpoint, "why"));
        let is_returned = endpoint["returned"].as_bool()?;
        Some(if is_returned {
            "returned".to_owned()
        } else {
            not_returned()
        })
    },
};
const PORTS: &str = "give the ports of the Service the same names, protocols and numbers everywhere; a mirror keeps its first \
                     ports: delete one whose port is old, and restart its mirror controller";

/// Compares the hosts of all services. Returns the section with those that differ for another reason than a setting or a link.
pub(super) fn compare<'m>(observers: &[Observer<'m>], rows: &mut Vec<Mismatch<'m>>) -> Section {
    let places: BTreeSet<_> = observers.iter().flat_map(|one| one.hosts.keys()).collect();
    let mut section = Section::new("differences", columns(&["SERVICE", "CLUSTER"], observers));
    for place in places {
        let (key, cluster) = *place;
        let mut cells = Vec::new();
        let mut texts = Vec::new();
        for observer in observers {
            let cell = observer.hosts.get(place).cloned().unwrap_or_default();
            texts.push(match described(&cell) {
                none if none.is_empty() => "-".to_owned(),
                hosts => list(hosts),
            });
            cells.push((observer, cell));
        }
        let mut hosts = Hosts {
            key,
            cluster,
            cells,
        };
        hosts.leave_out_explained(observers, rows);
        let found = hosts.compare();
        if !found.is_empty() {
            let service = key.join("/");
            let seen: BTreeMap<&str, &String> = observers
                .iter()
                .map(|one| one.name.as_str())
                .zip(&texts)
                .collect();
            let object = json!({
                "section": "differences", "service": service, "cluster": cluster, "observers": seen,
            });
            section.push([vec![service, cluster.to_owned()], texts].concat(), &object);
        }
        rows.extend(found);
    }
    section
}

/// Returns the hosts of a cell with their states, except those that are alive.
fn described(cell: &Cell<'_>) -> Vec<String> {
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

/// Returns whether an endpoint is a pod of the server's own cluster.
fn is_own_pod(endpoint: &Value) -> bool {
    text(endpoint, "kind") == "local" && !text(endpoint, "hostname").is_empty()
}

/// Returns whether it is a pod of the server's own cluster that is not ready. Others should not have it.
fn is_unready_pod(endpoint: &Value) -> bool {
    is_own_pod(endpoint) && text(endpoint, "state") == "not-ready"
}

/// Returns the names of the ports of an endpoint, each with another part.
fn port_texts(endpoint: &Value, part: fn(&Value) -> String) -> String {
    let mut ports = BTreeSet::new();
    for port in items(endpoint, "ports") {
        ports.insert(port["name"].as_str().unwrap_or("(no name)").to_owned() + &part(port));
    }
    join(ports)
}

// === impl Hosts ===

impl<'m> Hosts<'_, 'm> {
    /// Leaves out the observers that differ because of their settings or their link to the cluster, and adds these.
    fn leave_out_explained(&mut self, observers: &[Observer<'m>], rows: &mut Vec<Mismatch<'m>>) {
        let (key, cluster) = (self.key, self.cluster);
        let ready = |cell: &Cell<'m>| {
            let mut cell = cell.clone();
            cell.retain(|_, one| !is_unready_pod(one));
            described(&cell)
        };
        if differs(
            self.cells
                .iter()
                .map(|(one, cell)| (ready(cell).join(" "), &*one.name)),
        )
        .is_none()
        {
            return;
        }
        let has_hosts = |cell: &Cell<'_>| !cell.is_empty();
        rows.extend(settings::explain(key, cluster, &mut self.cells, has_hosts));
        let mut cells = self.cells.iter();
        let expected = self
            .own()
            .or_else(|| cells.find(|(_, cell)| has_hosts(cell)))
            .map(|(_, cell)| ready(cell));
        let is_member = observers.iter().any(|one| one.cluster == cluster);
        self.cells.retain(|(observer, cell)| {
            // An address of no single cluster has no link of its own.
            let is_own = cluster.is_empty() || observer.cluster == cluster;
            if is_own || Some(ready(cell)) == expected {
                return true;
            }
            // It is unknown whether a cluster that is not compared should be linked.
            if !is_member && observer.link_to(cluster) == "none" {
                return false;
            }
            let row = observer.link_row(cluster, Some(key), observers);
            let is_kept = row.is_none();
            rows.extend(row);
            is_kept
        });
    }

    /// Returns the differences: of the ways to the cluster, else of its hosts, else of their endpoints.
    fn compare(&self) -> Vec<Mismatch<'m>> {
        let (key, cluster) = (self.key, self.cluster);
        let row = |what: String, seen, cause| Mismatch::new(Some(key), what, seen, cause);
        let cells = self.cells.iter();
        let forms = cells.filter_map(|(one, cell)| Some((self.form(one, cell)?, &*one.name)));
        if let Some(seen) = differs(forms) {
            let subject = if cluster.is_empty() {
                "the service"
            } else {
                cluster
            };
            let what = format!("{subject} is reached in different ways");
            let mut cause = of_kind(K::Kind, Some(key), cluster);
            cause.sentence.clear();
            return vec![row(what, seen, cause)];
        }
        if cluster.is_empty() {
            let hint = format!(
                "in each cluster, look at the label: kubectl label service {} -n {} mirror.linkerd.io/federated=member; and at the \
                 links of those that lack one",
                key[1], key[0]
            );
            let members = self.cells.iter().filter_map(|(one, _)| {
                let address = items(one.services.get(&key)?, "clusters")
                    .find(|cell| text(cell, "cluster").is_empty())?;
                Some((text(address, "members").to_owned(), &*one.name))
            });
            let cause = Finding::failing(Check::FleetServices, "", hint);
            let what = "clusters of the federated address".to_owned();
            return Vec::from_iter(differs(members).map(|seen| row(what, seen, cause)));
        }
        let hosts = self.cells.iter().flat_map(|(_, cell)| cell.keys().copied());
        let hosts: BTreeSet<&str> = hosts.collect();
        let mut differing = hosts.clone();
        differing.retain(|host| self.states(host).len() > 1);
        let shown: BTreeSet<&str> = differing.iter().copied().take(MAX_LISTED).collect();
        let seen = differs(self.cells.iter().map(|(observer, cell)| {
            let mut cell = cell.clone();
            cell.retain(|host, _| shown.contains(host));
            (described(&cell).join(", "), &*observer.name)
        }));
        if let Some(seen) = seen {
            let what = match differing.len() - shown.len() {
                0 => format!("hosts of {cluster}"),
                more => format!("hosts of {cluster} (and {more} more)"),
            };
            return vec![row(what, seen, self.cause(&differing))];
        }
        self.compare_endpoints(hosts)
    }

    /// Returns the first difference of the endpoints of each host.
    fn compare_endpoints(&self, hosts: BTreeSet<&str>) -> Vec<Mismatch<'m>> {
        let has_order = self.cells.iter().any(|(one, _)| {
            one.services
                .get(&self.key)
                .is_some_and(|one| !one["failover"].is_null() || !one["failure"].is_null())
        });
        let mut aspects = vec![PORT_NAMES, PORT_NUMBERS];
        if !has_order {
            aspects.push(REPLIES);
        }
        let mut rows = Vec::new();
        for host in hosts {
            for Aspect { name, hint, text } in &aspects {
                let seen = self.cells.iter().filter_map(|(observer, cell)| {
                    let endpoint = cell.get(host).filter(|one| !is_unready_pod(one))?;
                    Some((text(endpoint)?, observer.name.as_str()))
                });
                if let Some(seen) = differs(seen) {
                    let what = format!("{name} of {}", self.cluster);
                    let cause = Finding::failing(Check::FleetServices, "", *hint);
                    rows.push(Mismatch::new(Some(self.key), what, seen, cause));
                    break;
                }
            }
        }
        rows
    }

    /// Returns what the first server of the cluster itself has.
    fn own(&self) -> Option<&(&Observer<'m>, Cell<'m>)> {
        self.cells
            .iter()
            .find(|(one, _)| one.cluster == self.cluster)
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

    /// Returns the states in which observers have a host. A pod that is not ready at home should be missing elsewhere.
    fn states(&self, host: &str) -> BTreeSet<&'static str> {
        let states = self.cells.iter().map(|(_, cell)| state(cell.get(host)));
        let mut states: BTreeSet<&str> = states.collect();
        let own = self.own().and_then(|(_, cell)| cell.get(host));
        if own.is_some_and(|own| is_unready_pod(own)) {
            states.remove("missing");
        }
        states
    }

    /// Returns why observers have different hosts, or in different states.
    fn cause(&self, differing: &BTreeSet<&str>) -> Finding {
        const CHECK: Check = Check::FleetServices;
        let (key, cluster) = (self.key, self.cluster);
        let [namespace, _] = key;
        let mut missing = differing.clone();
        missing.retain(|host| self.states(host).contains("missing"));
        let lacks = |cell: &Cell<'_>| missing.iter().any(|host| !cell.contains_key(host));
        let lacking = self.cells.iter().filter(|(_, cell)| lacks(cell));
        let lacking: Vec<&(&Observer<'_>, Cell<'_>)> = lacking.collect();
        let problem = |observer: &Observer<'m>, is_wanted: &dyn Fn(K) -> bool| {
            observer.problem(key, Some(cluster), is_wanted)
        };
        let Some((first, first_cell)) = lacking.first().copied() else {
            let is_down = differing
                .iter()
                .any(|host| self.states(host).contains("down"));
            let first = if is_down {
                K::GatewayDown
            } else {
                K::PodNotReady
            };
            let is_wanted = |kind| kind == first || kind == K::ServiceNotReady;
            let found = self
                .cells
                .iter()
                .find_map(|(one, _)| problem(one, &is_wanted));
            return match found {
                Some(found) => of_problem(found, text(found, "sentence")),
                None => of_kind(first, Some(key), cluster),
            };
        };
        // A selector of Services cannot explain that one host of a service is missing.
        let mut observers = self.cells.iter();
        if lacking.iter().all(|(_, cell)| cell.is_empty())
            && observers.any(|(one, _)| one.has_own_selector(cluster))
        {
            return Finding::ok(CHECK, "by the selector of the Link");
        }
        if lacking.iter().any(|(one, _)| one.cluster == cluster) {
            let hint = format!(
                "compare the selector of the Link (kubectl get links.multicluster.linkerd.io -A -o yaml) and localMembers first; if the \
                 Service exists in {cluster} and is no member, export it there; if a mirror was left, or its hostname was changed: \
                 delete the mirror, and restart its mirror controller"
            );
            return Finding::failing(CHECK, "not a member at home", hint);
        }
        let explains = |kind: K| kind == K::MissingHost || kind.row().family == Family::Skipped;
        let is_private = |kind| matches!(kind, K::NotExported | K::NotMirrorable | K::LeftOut);
        let of_lacking = lacking.iter().find_map(|(one, _)| problem(one, &explains));
        let of_owner = || problem(self.own()?.0, &is_private);
        if let Some(found) = of_lacking.or_else(of_owner) {
            return of_problem(found, &reason(found));
        }
        let is_one = lacking.iter().all(|(one, _)| one.cluster == first.cluster);
        if is_one && !first_cell.is_empty() {
            let hint = "restart the controller, or wait ten minutes";
            return Finding::failing(CHECK, "its mirror controller lost it", hint);
        }
        let mut mirrors = self.cells.iter();
        let mut links = lacking.iter().map(|(one, _)| one.link_to(cluster));
        let reason = if links.any(|link| link == "linked, nothing mirrored") {
            "linked, nothing mirrored"
        } else if mirrors.any(|(one, cell)| one.cluster != cluster && !cell.is_empty()) {
            "not mirrored there"
        } else {
            "no other cluster mirrors it"
        };
        let hint = format!(
            "check that namespace {namespace} exists there, and the selector of the Link (kubectl get links.multicluster.linkerd.io -A \
             -o yaml); see global-dns check there"
        );
        Finding::failing(CHECK, reason, hint)
    }
}
