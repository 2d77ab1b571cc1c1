//! The hosts of each service: one table of what each observer has of each cluster. All must have the same hosts, and see them in
//! the same state.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::observer::{
    Cell, Key, Observer, ServiceLines, columns, differs, join, of_kind, of_problem,
};
use super::settings::{self, Aspect};
use crate::check::facts::reason;
use crate::check::finding::{Check, Finding, items, list, text};
use crate::model::{Family, ProblemKind as K, sentence_of};
use crate::view::Section;

/// What the observers have of a service in one cluster, which is empty for one address of several clusters.
struct ComparedHosts<'c, 'm> {
    key: Key<'m>,
    cluster: &'m str,
    /// The compared observers. Without endpoints, their cells are empty.
    cells: Vec<Cell<'c, 'm>>,
}

/// What is compared of the endpoints of a host, if all observers have the same hosts.
const PORTS: [Aspect; 2] = [
    Aspect {
        name: "port names",
        hint: SAME_PORTS,
        text: |endpoint, _| {
            let protocol = |port: &Value| format!("/{}", text(port, "protocol").to_lowercase());
            Some(port_texts(endpoint, protocol))
        },
    },
    // Those of pods differ by nature from those of their Service.
    Aspect {
        name: "port numbers",
        hint: SAME_PORTS,
        text: |endpoint, _| {
            let number = |port: &Value| format!(":{}", port["port"]);
            (!is_own_pod(endpoint)).then(|| port_texts(endpoint, number))
        },
    },
];
const SAME_PORTS: &str = "give the ports of the Service the same names, protocols and numbers everywhere; a mirror keeps its first \
                          ports: delete one whose port is old, and restart its mirror controller";

/// It is compared beside the ports. If a service has an order or a gate, replies differ because of it.
const REPLIES: Aspect = Aspect {
    name: "replies with hosts",
    hint: "compare gatewayDown, annotation global-dns/gateway-down and the kinds, which global-dns explain shows",
    text: |endpoint, _| {
        Some(if endpoint["returned"].as_bool()? {
            "returned".to_owned()
        } else {
            format!("not returned ({})", text(endpoint, "why"))
        })
    },
};

/// Compares the hosts of all services. Returns the section with those that differ for another reason than a setting or a link.
pub(super) fn compare(observers: &[Observer<'_>], rows: &mut ServiceLines) -> Section {
    let places: BTreeSet<_> = observers.iter().flat_map(|one| one.hosts.keys()).collect();
    let mut section = Section::new("differences", columns(&["SERVICE", "CLUSTER"], observers));
    for place in places {
        let (key, cluster) = *place;
        let cells = observers.iter().map(|observer| Cell {
            observer,
            hosts: observer.hosts.get(place).cloned().unwrap_or_default(),
        });
        let cells: Vec<Cell<'_, '_>> = cells.collect();
        let service = key.join("/");
        let mut row = vec![service.clone(), cluster.to_owned()];
        let mut seen = BTreeMap::new();
        for cell in &cells {
            let hosts = match list(cell.describe(|_, _| true)) {
                none if none.is_empty() => "-".to_owned(),
                hosts => hosts,
            };
            row.push(hosts.clone());
            seen.insert(cell.observer.name.as_str(), hosts);
        }
        let object = json!({"service": service, "cluster": cluster, "observers": seen});
        let mut place = ComparedHosts {
            key,
            cluster,
            cells,
        };
        let mut lines = place.leave_out_explained(observers);
        let differences = place.differences();
        if !differences.is_empty() {
            section.push(row, &object);
        }
        lines.extend(differences);
        for line in lines {
            rows.entry(line).or_default().insert(service.clone());
        }
    }
    section
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
    let ports = items(endpoint, "ports")
        .map(|port| port["name"].as_str().unwrap_or("(no name)").to_owned() + &part(port));
    join(ports.collect::<BTreeSet<String>>())
}

// === impl Cell ===

impl Cell<'_, '_> {
    /// Returns whether a host can be reached: the states `standby` and `omitted` are alive.
    fn state(&self, host: &str) -> &'static str {
        match self.hosts.get(host).map(|one| text(one, "state")) {
            None => "missing",
            Some("down") => "down",
            Some("not-ready") => "not ready",
            Some(_) => "alive",
        }
    }

    /// Returns the wanted hosts with their states, except those that are alive.
    fn describe(&self, is_wanted: impl Fn(&str, &Value) -> bool) -> Vec<String> {
        let hosts = self.hosts.iter();
        let wanted = hosts.filter(|(host, endpoint)| is_wanted(host, endpoint));
        let described = wanted.map(|(host, _)| {
            let name = if host.is_empty() {
                "the cluster IP"
            } else {
                host
            };
            match self.state(host) {
                "alive" => name.to_owned(),
                state => format!("{name} ({state})"),
            }
        });
        described.collect()
    }

    /// Returns the hosts that all observers should have.
    fn ready(&self) -> Vec<String> {
        self.describe(|_, endpoint| !is_unready_pod(endpoint))
    }
}

// === impl ComparedHosts ===

impl<'m> ComparedHosts<'_, 'm> {
    /// Leaves out the observers that differ because of their settings or their link to the cluster. Returns the lines of these.
    fn leave_out_explained(&mut self, observers: &[Observer<'m>]) -> Vec<Finding> {
        let distinct: BTreeSet<_> = self.cells.iter().map(Cell::ready).collect();
        if distinct.len() < 2 {
            return Vec::new();
        }
        let cluster = self.cluster;
        let mut lines = settings::explain(self.key, cluster, &mut self.cells);
        let mut with_hosts = self.cells.iter().filter(|cell| !cell.hosts.is_empty());
        let expected = self.own().or_else(|| with_hosts.next()).map(Cell::ready);
        let is_member = observers.iter().any(|one| one.cluster == cluster);
        self.cells.retain(|cell| {
            let observer = cell.observer;
            // An address of no single cluster has no link of its own.
            let is_own = cluster.is_empty() || observer.cluster == cluster;
            if is_own || Some(cell.ready()) == expected {
                return true;
            }
            // It is unknown whether a cluster that is not compared should be linked.
            if !is_member && observer.link_to(cluster) == "none" {
                return false;
            }
            let line = observer.link_line(cluster, observers);
            let is_kept = line.is_none();
            lines.extend(line);
            is_kept
        });
        lines
    }

    /// Returns the differences: of the ways to the cluster, else of its hosts, else of their endpoints.
    fn differences(&self) -> Vec<Finding> {
        let cluster = self.cluster;
        if let Some(seen) = self.differ(|cell| self.form(cell)) {
            let subject = if cluster.is_empty() {
                "the service"
            } else {
                cluster
            };
            let mut line = of_kind(K::Kind, Some(self.key), cluster);
            line.sentence = format!("{subject} is reached in different ways: {seen}");
            return vec![line];
        }
        if cluster.is_empty() {
            return Vec::from_iter(self.federated());
        }
        let hosts = self
            .cells
            .iter()
            .flat_map(|cell| cell.hosts.keys().copied());
        let hosts: BTreeSet<&str> = hosts.collect();
        let mut differing = hosts.clone();
        differing.retain(|host| self.states(host).len() > 1);
        let seen =
            |cell: &Cell<'_, '_>| Some(list(cell.describe(|host, _| differing.contains(host))));
        if let Some(seen) = self.differ(seen) {
            let mut line = self.cause(&differing);
            line.sentence = sentence_of(&[&format!("hosts of {cluster}"), &seen, &line.sentence]);
            return vec![line];
        }
        hosts
            .into_iter()
            .filter_map(|host| self.endpoints(host))
            .collect()
    }

    /// Returns who sees what if the texts of cells differ.
    fn differ(&self, text: impl Fn(&Cell<'_, 'm>) -> Option<String>) -> Option<String> {
        let cells = self.cells.iter();
        differs(cells.filter_map(|cell| Some((text(cell)?, &*cell.observer.name))))
    }

    /// Compares the clusters of a federated address.
    fn federated(&self) -> Option<Finding> {
        let seen = self.differ(|cell| {
            let mut clusters = items(cell.observer.services.get(&self.key)?, "clusters");
            let address = clusters.find(|one| text(one, "cluster").is_empty())?;
            Some(text(address, "members").to_owned())
        })?;
        let what = format!("clusters of the federated address: {seen}");
        let hint = format!(
            "in each cluster, look at the label: kubectl label service {} -n {} mirror.linkerd.io/federated=member; and at the \
             links of those that lack one",
            self.key[1], self.key[0]
        );
        Some(Check::FleetServices.failing(what, hint))
    }

    /// Returns the first difference of the endpoints of a host.
    fn endpoints(&self, host: &str) -> Option<Finding> {
        let mut seen = Vec::new();
        let mut has_order = false;
        for Cell { observer, hosts } in &self.cells {
            if let Some(service) = observer.services.get(&self.key) {
                has_order |= !service["failover"].is_null() || !service["failure"].is_null();
            }
            let endpoint = hosts.get(host).filter(|one| !is_unready_pod(one));
            seen.extend(endpoint.map(|endpoint| (*observer, *endpoint)));
        }
        let replies = (!has_order).then_some(&REPLIES);
        PORTS.iter().chain(replies).find_map(|aspect| {
            let seen = aspect.compare(&seen)?;
            let what = format!("{} of {}: {seen}", aspect.name, self.cluster);
            Some(Check::FleetServices.failing(what, aspect.hint))
        })
    }

    /// Returns what the first server of the cluster itself has.
    fn own(&self) -> Option<&Cell<'_, 'm>> {
        let mut cells = self.cells.iter();
        cells.find(|cell| cell.observer.cluster == self.cluster)
    }

    /// Returns how an observer reaches the service of the cluster. Any way to one address is right for a cluster IP of the owner.
    /// One address for all clusters is compared with none.
    fn form(&self, cell: &Cell<'_, 'm>) -> Option<String> {
        let observer = cell.observer;
        let form = match cell.hosts.first_key_value() {
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
        let states = self.cells.iter().map(|cell| cell.state(host));
        let mut states: BTreeSet<&str> = states.collect();
        let own = self.own().and_then(|own| own.hosts.get(host));
        if own.is_some_and(|own| is_unready_pod(own)) {
            states.remove("missing");
        }
        states
    }

    /// Returns the first problem of a wanted kind.
    fn problem(&self, cell: &Cell<'_, 'm>, is_wanted: impl Fn(K) -> bool) -> Option<&'m Value> {
        cell.observer.problem(self.key, self.cluster, is_wanted)
    }

    /// Returns why observers have different hosts, or in different states.
    fn cause(&self, differing: &BTreeSet<&str>) -> Finding {
        const CHECK: Check = Check::FleetServices;
        let (key, cluster) = (self.key, self.cluster);
        let [namespace, _] = key;
        let mut missing = differing.clone();
        missing.retain(|host| self.states(host).contains("missing"));
        let lacks =
            |cell: &&Cell<'_, '_>| missing.iter().any(|host| !cell.hosts.contains_key(host));
        let lacking: Vec<&Cell<'_, '_>> = self.cells.iter().filter(lacks).collect();
        let Some(first) = lacking.first() else {
            let mut differing = differing.iter();
            let first = if differing.any(|host| self.states(host).contains("down")) {
                K::GatewayDown
            } else {
                K::PodNotReady
            };
            let is_wanted = |kind| kind == first || kind == K::ServiceNotReady;
            let found = self
                .cells
                .iter()
                .find_map(|cell| self.problem(cell, is_wanted));
            return match found {
                Some(found) => of_problem(found, text(found, "sentence")),
                None => of_kind(first, Some(key), cluster),
            };
        };
        // A selector of Services cannot explain that one host of a service is missing.
        let has_selector = |cell: &Cell<'_, '_>| cell.observer.has_own_selector(cluster);
        if lacking.iter().all(|cell| cell.hosts.is_empty()) && self.cells.iter().any(has_selector) {
            return CHECK.ok("by the selector of the Link");
        }
        if lacking.iter().any(|cell| cell.observer.cluster == cluster) {
            let hint = format!(
                "compare the selector of the Link (kubectl get links.multicluster.linkerd.io -A -o yaml) and localMembers first; if the \
                 Service exists in {cluster} and is no member, export it there; if a mirror was left, or its hostname was changed: \
                 delete the mirror, and restart its mirror controller"
            );
            return CHECK.failing("not a member at home", hint);
        }
        let explains = |kind: K| kind == K::MissingHost || kind.row().family == Family::Skipped;
        let is_private = |kind| matches!(kind, K::NotExported | K::NotMirrorable | K::LeftOut);
        let of_lacking = lacking.iter().find_map(|cell| self.problem(cell, explains));
        let of_owner = || self.problem(self.own()?, is_private);
        if let Some(found) = of_lacking.or_else(of_owner) {
            return of_problem(found, &reason(found));
        }
        let mut observers = lacking.iter().map(|cell| cell.observer);
        if !first.hosts.is_empty() && observers.all(|one| one.cluster == first.observer.cluster) {
            let hint = "restart the controller, or wait ten minutes";
            return CHECK.failing("its mirror controller lost it", hint);
        }
        let is_mirrored =
            |cell: &Cell<'_, '_>| cell.observer.cluster != cluster && !cell.hosts.is_empty();
        let mut links = lacking.iter().map(|cell| cell.observer.link_to(cluster));
        let reason = if links.any(|link| link == "linked, nothing mirrored") {
            "linked, nothing mirrored"
        } else if self.cells.iter().any(is_mirrored) {
            "not mirrored there"
        } else {
            "no other cluster mirrors it"
        };
        let hint = format!(
            "check that namespace {namespace} exists there, and the selector of the Link (kubectl get links.multicluster.linkerd.io -A \
             -o yaml); see global-dns check there"
        );
        CHECK.failing(reason, hint)
    }
}
