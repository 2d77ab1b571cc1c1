//! Similar names, for a name with a typing error or in the form of Kubernetes or Linkerd.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::model::{ObjectKey, ObjectRef, typing_errors};
use crate::table::{Endpoint, Service, Table};
use crate::zone::print::{bases_of_service, names_of_endpoint};
use crate::zone::{Name, Reading, Zone, Zones, read};

/// Maximum number of similar names.
const MAX_NAMES: usize = 5;
/// Maximum number of names of services whose endpoints are looked at.
const MAX_SERVICES: usize = 10;
/// Maximum number of endpoints of a service that are looked at, and of services that are kept while all are compared.
const MAX_COMPARED: usize = 1000;

/// Returns the names that exist and are most similar to a name that does not.
pub(super) fn nearest(zones: &Zones, table: &Table, name: &Name) -> Vec<String> {
    let own = zones.find(name).map(|(zone, _)| &zone.name);
    let has_port = name.to_string().starts_with('_');
    let mut found = BTreeSet::new();
    for zone in zones.iter() {
        if own.is_some_and(|own| *own != zone.name) {
            continue;
        }
        let suffix = zone.name_suffix();
        let mut asked = vec![name.to_string()];
        if own.is_none() {
            asked.push(format!("{name}{suffix}")); // it may lack the zone
        }
        let path = asked.iter().find_map(|text| text.strip_suffix(&suffix));
        let of_object = path.and_then(|path| name_of_object(table, path.trim_end_matches('.')));
        let of_object = of_object.map(|path| format!("{path}.{suffix}"));
        found.extend(of_object.map(|name| (0, 0, name)));
        for (_, base, service) in similar_services(table, zone, &asked) {
            for (written, name) in names_of(zone, service, &base, has_port) {
                let errors = asked.iter().map(|text| typing_errors(text, &written));
                found.insert((errors.min().unwrap_or_default(), name.len(), name));
            }
        }
    }
    let exists = |name: &String| {
        let name = Name::from_text(name);
        let reading = name.map(|name| read(zones, table, &name));
        matches!(reading, Some(Reading::View(..) | Reading::Failing(..)))
    };
    let names = found.into_iter().map(|(.., name)| name);
    let mut seen = BTreeSet::new();
    let names = names.filter(|name| seen.insert(name.clone()) && exists(name));
    names.take(MAX_NAMES).collect()
}

/// Returns the name for that of an object of Linkerd, both without a zone: `east.db.prod` for `db-east.prod`, `db-0.east.db.prod` for
/// `db-0-east.prod`. That of a port may be before it.
pub(super) fn name_of_object(table: &Table, text: &str) -> Option<String> {
    if let Some((port, rest)) = text.split_once('.').filter(|_| text.starts_with('_')) {
        return Some(format!("{port}.{}", name_of_object(table, rest)?));
    }
    let (object, namespace) = text.split_once('.')?;
    let object = ObjectRef::service(&ObjectKey::new(namespace, object));
    table.services_in(namespace).find_map(|service| {
        let mirror = service.mirrors.iter().find(|(_, one)| *one == object);
        let of_mirror = mirror.map(|(cluster, _)| ["", cluster.as_str()]);
        let is_of_object = |one: &&Endpoint| !one.is_local() && one.objects.contains(&object);
        let endpoint = || service.endpoints.iter().find(is_of_object);
        let scope = of_mirror.or_else(|| endpoint().map(Endpoint::labels))?;
        Some(name_below(service, scope))
    })
}

/// Returns the name of the first endpoint with an address, without a zone.
pub(super) fn name_of_address(table: &Table, address: IpAddr) -> Option<String> {
    let has_it = |one: &&Endpoint| one.addresses.iter().any(|own| own.ip == address);
    table.sorted_services().into_iter().find_map(|service| {
        let mut endpoints = service.endpoints.iter().chain(&service.not_ready);
        Some(name_below(service, endpoints.find(has_it)?.labels()))
    })
}

/// Returns the name of a part of a service without a zone. `H` and `C` are empty for more than one host or cluster.
fn name_below(service: &Service, scope: [&str; 2]) -> String {
    let labels = scope.into_iter().chain(service.key.labels());
    let labels: Vec<&str> = labels.filter(|label| !label.is_empty()).collect();
    labels.join(".")
}

/// Returns the names of services in a zone that are most similar to the ends of some names, with their distances.
fn similar_services<'t>(
    table: &'t Table,
    zone: &Zone,
    asked: &[String],
) -> Vec<(usize, String, &'t Service)> {
    let mut found = Vec::new();
    let keep_nearest = |found: &mut Vec<(usize, String, &Service)>| {
        found.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
        found.truncate(MAX_SERVICES);
    };
    for service in table.services() {
        for base in bases_of_service(zone, table, service) {
            let count = base.split('.').count();
            let end = |text: &String| {
                let labels: Vec<&str> = text.split('.').collect();
                labels[labels.len().saturating_sub(count)..].join(".")
            };
            let distances = asked.iter().map(|text| typing_errors(&end(text), &base));
            found.push((distances.min().unwrap_or_default(), base, service));
        }
        if found.len() > MAX_COMPARED {
            keep_nearest(&mut found);
        }
    }
    keep_nearest(&mut found);
    found
}

/// Returns the names of a service with or without a port, each with what people may write for it: the name itself, and that of
/// Kubernetes, which has a host without its cluster.
fn names_of(zone: &Zone, service: &Service, base: &str, has_port: bool) -> Vec<(String, String)> {
    let mut names = Vec::new();
    for endpoint in service.endpoints.iter().take(MAX_COMPARED) {
        let [host, cluster] = endpoint.labels();
        let (scope, host) = (format!("{host}.{cluster}."), format!("{host}."));
        let of_endpoint = names_of_endpoint(&zone.grammar, endpoint, base).into_iter();
        for name in of_endpoint.filter(|name| name.starts_with('_') == has_port) {
            let of_kubernetes = (host != ".").then(|| name.replacen(&scope, &host, 1));
            names.extend(of_kubernetes.map(|written| (written, name.clone())));
            names.push((name.clone(), name));
        }
    }
    names
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
