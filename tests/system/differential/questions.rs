//! The questions of a world: every name that its objects could own, and neighbors that do not exist, with each type.

use std::collections::BTreeSet;

use global_dns::model::key;
use serde_json::Value;

/// The parts of names. They are only collected, so that names of deleted objects are asked, too.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    namespaces: BTreeSet<String>,
    pub services: BTreeSet<String>,
    clusters: BTreeSet<String>,
    hosts: BTreeSet<String>,
    /// `_port._protocol.`
    ports: BTreeSet<String>,
}

/// A name, and what may be below it.
#[derive(Clone, Debug)]
pub struct Name {
    name: String,
    place: Place,
}

/// What may be below a name.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// Clusters, hosts and ports.
    Service,
    /// Hosts and ports.
    Cluster,
    /// Ports.
    Host,
    /// Nothing.
    Single,
}

/// Types of queries beside A: all, and those whose answers usually differ if one does.
pub const ALL_TYPES: &[&str] = &["AAAA", "SRV", "ANY", "TXT", "NS", "SOA", "TYPE65280"];
pub const USUAL_TYPES: &[&str] = &["AAAA", "SRV", "ANY"];

/// A part that no object has.
const UNKNOWN: &str = "nope";

// === impl Vocabulary ===

impl Vocabulary {
    /// Returns the parts that occur in every world.
    pub fn new() -> Self {
        let set = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect();
        Self {
            namespaces: set(&[UNKNOWN]),
            services: set(&[UNKNOWN]),
            clusters: set(&[UNKNOWN, "hub", "east-1"]),
            hosts: set(&[UNKNOWN]),
            ports: set(&["_nope._tcp."]),
        }
    }

    /// Adds the parts of an object.
    pub fn add(&mut self, object: &Value) {
        let metadata = &object["metadata"];
        let label = |name: &str| metadata["labels"][name].as_str().unwrap_or_default();
        let name = metadata["name"].as_str().unwrap_or_default();
        insert(&mut self.namespaces, metadata["namespace"].as_str());
        // `db` for the mirror `db-east`, the slice `db-east-7xk2p` and the federated service `db-federated`.
        for name in [name, label(key::SERVICE_NAME), label(key::HEADLESS_MIRROR)] {
            insert(&mut self.services, Some(name));
            insert(
                &mut self.services,
                name.rsplit_once('-').map(|parts| parts.0),
            );
        }
        insert(&mut self.services, Some(label(key::MCS_SERVICE)));
        let full = metadata["annotations"][key::REMOTE_FQ_NAME].as_str();
        let full: Vec<&str> = full.into_iter().flat_map(|name| name.split('.')).collect();
        if label(key::HEADLESS_MIRROR).is_empty() {
            insert(&mut self.services, full.first().copied());
        } else {
            insert(&mut self.hosts, full.first().copied());
            insert(&mut self.services, full.get(1).copied());
        }
        for name in [key::CLUSTER_NAME, key::SOURCE_CLUSTER] {
            insert(&mut self.clusters, Some(label(name)));
        }
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        for cluster in list(&object["status"]["clusters"]) {
            insert(&mut self.clusters, cluster["cluster"].as_str());
        }
        for endpoint in list(&object["endpoints"]) {
            insert(&mut self.hosts, endpoint["hostname"].as_str());
            if endpoint["hostname"].is_null() {
                for address in list(&endpoint["addresses"]) {
                    let dashed = address.as_str().map(|text| text.replace(['.', ':'], "-"));
                    insert(&mut self.hosts, dashed.as_deref());
                }
            }
        }
        for port in [list(&object["spec"]["ports"]), list(&object["ports"])].concat() {
            if let Some(name) = port["name"].as_str().filter(|name| is_label(name)) {
                let protocol = port["protocol"].as_str().unwrap_or("TCP").to_lowercase();
                self.ports.insert(format!("_{name}._{protocol}."));
            }
        }
    }

    /// Returns all names.
    pub fn names(&self) -> Vec<Name> {
        const FIXED: &[&str] = &[
            "global.",
            "ns.dns.global.",
            "dns.global.",
            "dns-version.global.",
            "clusterset.local.",
            "svc.clusterset.local.",
            ".",
            "db.prod.example.",
        ];
        let mut names: Vec<Name> = FIXED.iter().map(|name| Name::single(name)).collect();
        for service in &self.services {
            names.push(Name::new(&format!("{service}.global."), Place::Service));
            for namespace in &self.namespaces {
                names.push(Name::new(
                    &format!("{service}.{namespace}.global."),
                    Place::Service,
                ));
            }
        }
        let namespaces = self.namespaces.iter();
        names.extend(namespaces.map(|namespace| Name::single(&format!("{namespace}.global."))));
        names
    }

    /// Returns the names below a name.
    pub fn below(&self, name: &Name) -> Vec<Name> {
        let base = &name.name;
        let join = |label: &String, place| Name::new(&format!("{label}.{base}"), place);
        // The protocol alone is an empty non-terminal.
        let mut below = vec![Name::single(&format!("_tcp.{base}"))];
        let ports = self.ports.iter();
        below.extend(ports.map(|port| Name::single(&format!("{port}{base}"))));
        match name.place {
            Place::Service => {
                let clusters = self.clusters.iter();
                below.extend(clusters.map(|cluster| join(cluster, Place::Cluster)));
                // The names of hosts in a zone of the Multi-Cluster Services API have both forms.
                below.extend(self.hosts.iter().map(|host| join(host, Place::Host)));
            }
            Place::Cluster => below.extend(self.hosts.iter().map(|host| join(host, Place::Host))),
            Place::Host => {}
            Place::Single => below.clear(),
        }
        below
    }
}

// === impl Name ===

impl Name {
    fn new(name: &str, place: Place) -> Self {
        Self {
            name: name.to_owned(),
            place,
        }
    }

    fn single(name: &str) -> Self {
        Self::new(name, Place::Single)
    }

    /// Returns the question that shows whether the name exists.
    pub fn first_question(&self) -> String {
        format!("{} A", self.name)
    }

    /// Returns the other questions.
    pub fn questions(&self, types: &'static [&'static str]) -> impl Iterator<Item = String> {
        types.iter().map(|rtype| format!("{} {rtype}", self.name))
    }

    /// Returns whether the name fits into a query.
    pub fn is_valid(&self) -> bool {
        self.name.len() <= 253
    }

    /// Returns whether it is the name of one of these services.
    pub fn is_of(&self, services: &BTreeSet<String>) -> bool {
        let first = self.name.split('.').next();
        first.is_some_and(|first| services.contains(first))
    }
}

fn insert(parts: &mut BTreeSet<String>, part: Option<&str>) {
    parts.extend(part.filter(|part| is_label(part)).map(str::to_owned));
}

fn is_label(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=60).contains(&text.len()) && text.chars().all(is_plain)
}
