//! Similar names, for a name with a typing error or in the form of Kubernetes or Linkerd.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::model::{ObjectKey, ObjectRef, typing_errors};
use crate::table::{Service, Table};
use crate::zone::print::{bases_of_service, names_of_endpoint};
use crate::zone::{Grammar, Name, Zone, Zones, read};

/// Maximum number of similar names.
const MAX_NAMES: usize = 5;
/// Maximum number of labels of a name that is compared. No name of a service has as many.
const MAX_LABELS: usize = 12;
/// Maximum number of names of services whose endpoints are looked at.
const MAX_BASES: usize = 10;
/// Maximum number of services, and of names of each chosen one, that are compared.
const MAX_COMPARED: usize = 2000;

/// A part of a service: one host or cluster of it, or all.
pub(super) struct Part<'t> {
    /// What comes before the cluster: the labels of a port, and the hostname. Each ends with a dot.
    host: String,
    /// The cluster. Empty for several, and for the address of a federated service.
    cluster: &'t str,
    /// The service and its namespace, such as `db.prod`.
    service: String,
}

/// A name that exists, the most similar one first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Similar {
    errors: usize,
    length: usize,
    name: String,
}

/// Returns the names that exist and are most similar to a name that does not.
pub(super) fn nearest(zones: &Zones, table: &Table, name: &Name) -> Vec<String> {
    let own = zones.find(name).map(|(zone, _)| &zone.name);
    let mut found = BTreeSet::new();
    let mut add = |errors, name: String| {
        let length = name.len();
        found.insert(Similar {
            errors,
            length,
            name,
        });
    };
    for zone in zones
        .iter()
        .filter(|_| name.count() <= MAX_LABELS)
        .filter(|zone| own.is_none_or(|own| *own == zone.name))
    {
        let suffix = zone.name_suffix();
        let mut asked = vec![name.to_string()];
        if own.is_none() {
            asked.push(format!("{name}{suffix}")); // it may lack the zone
        }
        let path = asked
            .iter()
            .find_map(|text| text.strip_suffix(&suffix))
            .unwrap_or_default()
            .trim_end_matches('.');
        if let Some(name) = part_of_object(table, path).and_then(|part| part.name_in(zone)) {
            add(0, name);
        }
        let has_port = asked[0].starts_with('_');
        for (base, service) in similar_bases(table, zone, &asked) {
            let names = service.endpoints.iter().flat_map(|endpoint| {
                let ports = if has_port { &*endpoint.ports } else { &[] };
                let names = names_of_endpoint(&zone.grammar, endpoint, ports, &base);
                names.into_iter().map(move |name| (name, endpoint))
            });
            let mut compared = BTreeSet::new();
            let names = names.filter(|(name, _)| {
                name.starts_with('_') == has_port && compared.insert(name.clone())
            });
            for (name, endpoint) in names.take(MAX_COMPARED) {
                // Kubernetes' name of a host has no cluster.
                let cluster = format!(".{}.", endpoint.labels()[1]);
                let written = [name.clone(), name.replacen(&cluster, ".", 1)];
                let errors = asked
                    .iter()
                    .flat_map(|text| written.iter().map(|written| typing_errors(text, written)));
                add(errors.min().unwrap_or_default(), name);
            }
        }
    }
    let mut names = Vec::new();
    for Similar { name, .. } in found {
        let question = Name::from_text(&name).filter(|_| !names.contains(&name));
        if question.is_some_and(|question| read(zones, table, &question).exists()) {
            names.push(name);
        }
        if names.len() == MAX_NAMES {
            break;
        }
    }
    names
}

/// Returns the names of services in a zone that are most similar to the ends of some names. Of a larger table, services with a
/// namespace that is one of the labels are compared first.
fn similar_bases<'t>(
    table: &'t Table,
    zone: &Zone,
    asked: &[String],
) -> impl Iterator<Item = (String, &'t Service)> {
    let labels = asked.iter().flat_map(|text| text.split('.'));
    let services = labels.flat_map(|label| table.services_in(label));
    let mut bases = BTreeMap::new();
    for service in services.chain(table.services()).take(MAX_COMPARED) {
        for base in bases_of_service(zone, table, service) {
            let count = base.split('.').count();
            let errors = asked.iter().map(|text| {
                let labels: Vec<&str> = text.split('.').collect();
                let end = &labels[labels.len().saturating_sub(count)..];
                typing_errors(&end.join("."), &base)
            });
            bases.insert((errors.min(), base), service);
        }
    }
    bases
        .into_iter()
        .take(MAX_BASES)
        .map(|((_, base), service)| (base, service))
}

/// Returns what the name of an object of Linkerd stands for: `east.db.prod` for `db-east.prod`, `db-0.east.db.prod` for
/// `db-0-east.prod`. That of a port may be before it.
pub(super) fn part_of_object<'t>(table: &'t Table, text: &str) -> Option<Part<'t>> {
    let (port, path) = split_port(text);
    let (name, namespace) = path.split_once('.')?;
    let key = ObjectKey::new(namespace, name);
    let object = ObjectRef::service(&key);
    for service in table.services_in(namespace) {
        for (cluster, mirror) in &service.mirrors {
            if *mirror == key {
                return Some(Part::new(port, "", cluster.as_str(), service));
            }
        }
        for endpoint in &service.endpoints {
            if !endpoint.is_local() && endpoint.objects.contains(&object) {
                let [host, cluster] = endpoint.labels();
                return Some(Part::new(port, host, cluster, service));
            }
        }
    }
    None
}

/// Returns what Kubernetes' own name of a pod or a service stands for: `db-0.west.db.prod` for `db-0.db.prod` below `svc` and a
/// domain, which ends with a dot. That of a port may be before it. The cluster is the only one whose Link says that domain. Below a
/// domain of several clusters, as `cluster.local` always is, it is the only one that has the pod.
pub(super) fn part_of_own<'t>(table: &'t Table, text: &str, domain: &str) -> Option<Part<'t>> {
    let domain = domain.trim_end_matches('.');
    let (port, path) = split_port(text);
    let (before, namespace) = path.rsplit_once('.')?;
    let (host, name) = before.rsplit_once('.').unwrap_or(("", before));
    let service = table.service(namespace, name)?;
    let links = table.links.clusters.values();
    let of_domain = links.filter(|link| link.domain.as_deref() == Some(domain));
    let mut clusters: BTreeSet<&str> = of_domain.map(|link| link.cluster.as_str()).collect();
    if clusters.len() != 1 || domain == "cluster.local" {
        clusters = service.clusters_of_host(host);
    }
    let cluster = clusters.pop_first().filter(|_| clusters.is_empty())?;
    Some(Part::new(port, host, cluster, service))
}

/// Returns the endpoints with an address. Those of an alias are also of its sources.
pub(super) fn parts_of_address(table: &Table, address: IpAddr) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    for service in table.sorted_services() {
        for endpoint in service.endpoints.iter().chain(&service.not_ready) {
            if endpoint.addresses.iter().any(|own| own.ip == address) {
                let [host, cluster] = endpoint.labels();
                parts.push(Part::new("", host, cluster, service));
            }
        }
    }
    parts
}

/// Splits the labels of a port, which begin with underscores, from those after them.
fn split_port(text: &str) -> (&str, &str) {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('.').filter(|_| rest.starts_with('_')) {
        rest = after;
    }
    text.split_at(text.len() - rest.len())
}

// === impl Part ===

impl<'t> Part<'t> {
    /// Returns what labels without a zone stand for.
    pub(super) fn of_path(service: String) -> Self {
        Self {
            host: String::new(),
            cluster: "",
            service,
        }
    }

    fn new(port: &str, host: &str, cluster: &'t str, service: &Service) -> Self {
        let dot = if host.is_empty() { "" } else { "." };
        Self {
            host: format!("{port}{host}{dot}"),
            cluster,
            service: service.key.labels().join("."),
        }
    }

    /// Describes it. No zone of this server has a name of it.
    pub(super) fn describe(&self) -> String {
        let (service, namespace) = self.service.split_once('.').unwrap_or_default();
        let cluster = self.cluster;
        format!(
            "of service '{service}' in namespace '{namespace}', cluster '{cluster}': no zone of this server has names of that cluster"
        )
    }

    /// Returns its name in a zone. A zone of one cluster has that of no other one.
    pub(super) fn name_in(&self, zone: &Zone) -> Option<String> {
        let Self {
            host,
            cluster,
            service,
        } = self;
        let suffix = zone.name_suffix();
        match &zone.grammar {
            _ if cluster.is_empty() => Some(format!("{host}{service}.{suffix}")),
            Grammar::Cluster(own) if own.as_str() != *cluster => None,
            Grammar::Cluster(_) => Some(format!("{host}{service}.{suffix}")),
            Grammar::Global | Grammar::Mcs => Some(format!("{host}{cluster}.{service}.{suffix}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{endpoint, mirror, service_mirror, table, zones};

    #[test]
    fn one_error_in_any_label_is_found_in_tables_of_any_size() {
        let mut objects = vec![
            mirror("prod", "db", "east"),
            endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
            endpoint("prod", "db", "east", "db-1", &["10.96.0.2"]),
            mirror("prod", "db", "west"),
            endpoint("prod", "db", "west", "db-0", &["10.96.0.3"]),
        ];
        let small = table(&objects);
        for number in 0..150 {
            let (other, service) = (format!("team-{number}"), format!("api-{number}"));
            objects.push(service_mirror(&other, "web", "east", "10.97.0.1"));
            objects.push(service_mirror("prod", &service, "east", "10.97.0.2"));
        }
        for table in [small, table(&objects)] {
            for (wrong, right) in [
                ("db.prod.globl", "db.prod.global."),
                ("db.prod.gloabl", "db.prod.global."),
                ("db.prod.globall", "db.prod.global."),
                ("db.prdo.global", "db.prod.global."),
                ("db.prood.global", "db.prod.global."),
                ("dbb.prod.global", "db.prod.global."),
                ("bd.prod.global", "db.prod.global."),
                ("dv.prdo.globl", "db.prod.global."),
                ("wset.db.prod.global", "west.db.prod.global."),
                ("east.dv.prod.global", "east.db.prod.global."),
                ("db-9.east.db.prod.global", "db-0.east.db.prod.global."),
                ("db0.west.db.prod.global", "db-0.west.db.prod.global."),
                ("dbb.global", "db.global."),
                ("eastt.db.global", "east.db.global."),
                ("_sqk._tcp.db.prod.global", "_sql._tcp.db.prod.global."),
            ] {
                let name = Name::from_text(wrong).unwrap();
                let names = nearest(&zones(&["global"]), &table, &name);
                let first = names.first().map(String::as_str);
                assert_eq!(first, Some(right), "{wrong}: {names:?}");
            }
        }
    }
}
