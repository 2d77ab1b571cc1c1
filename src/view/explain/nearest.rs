//! Similar names, for a name with a typing error. The labels are compared one by one: the zone, the namespace and the service, the
//! cluster, the host, the port.

use std::collections::BTreeSet;

use crate::model::typing_errors;
use crate::table::{Endpoint, Grammar, Service, Table};
use crate::zone::{Name, Reading, Zone, Zones, read};

/// Maximum number of similar names.
const MAX_NAMES: usize = 5;
/// Maximum number of candidates that are kept for each label of the name.
const MAX_KEPT: usize = 5;
/// Maximum number of labels of a service that are compared with a label of the name.
const MAX_COMPARED: usize = 1000;

/// A name or a part of one, and its distance to what was asked for.
type Similar = (usize, String);

/// A service that a name may mean.
struct Candidate<'t, 'n> {
    distance: usize,
    /// The name of the service, canonical or short.
    base: String,
    service: &'t Service,
    /// The labels of the name before the service: none, `C`, or `H.C`.
    scope: &'n [&'n str],
}

/// Returns the names that exist and are most similar to a name that does not.
pub(super) fn nearest(zones: &Zones, table: &Table, name: &Name) -> Vec<String> {
    let labels = (0..name.count()).map(|index| name.label(index).unwrap_or_default());
    let labels: Vec<&str> = labels.collect();
    let ports = labels.iter().take_while(|label| label.starts_with('_'));
    let (port, path) = labels.split_at(ports.count().min(2));
    let mut found = BTreeSet::new();
    for (distance, zone, path) in similar_zones(zones, name, path) {
        for candidate in similar_services(table, zone, path) {
            let distance = distance + candidate.distance;
            for (more, name) in names_of(&candidate, &port.join(".")) {
                found.insert((distance + more, name));
            }
        }
    }
    let exists = |name: &String| {
        let name = Name::from_text(name);
        let reading = name.map(|name| read(zones, table, &name));
        matches!(reading, Some(Reading::View(..) | Reading::Failing(..)))
    };
    let names = found.into_iter().map(|(_, name)| name);
    let mut seen = BTreeSet::new();
    let names = names.filter(|name| seen.insert(name.clone()) && exists(name));
    names.take(MAX_NAMES).collect()
}

/// Returns the zones that a name may be in, with the labels of the name below them.
fn similar_zones<'z, 'n>(
    zones: &'z Zones,
    name: &Name,
    path: &'n [&'n str],
) -> Vec<(usize, &'z Zone, &'n [&'n str])> {
    let own = zones.find(name).map(|zone| &zone.name);
    let candidates = zones
        .iter()
        .filter(|zone| own.is_none_or(|own| *own == zone.name));
    let similar = candidates.map(|zone| {
        let suffix = zone.name_suffix();
        let text = suffix.trim_end_matches('.');
        let count = text.split('.').count().min(path.len());
        let (below, end) = path.split_at(path.len() - count);
        let distance = typing_errors(&end.join("."), text);
        // The name may also lack the zone.
        if distance < text.len() || own.is_some() {
            (distance, zone, below)
        } else {
            (text.len(), zone, path)
        }
    });
    similar.collect()
}

/// Returns the services that labels below a zone may mean, the nearest first: by their canonical names, by their short ones, and
/// if the namespace is missing.
fn similar_services<'t, 'n>(
    table: &'t Table,
    zone: &Zone,
    path: &'n [&'n str],
) -> Vec<Candidate<'t, 'n>> {
    let suffix = zone.name_suffix();
    let mut found = Vec::new();
    for service in table.services() {
        let [name, namespace] = service.key.labels();
        let canonical = || format!("{name}.{namespace}.{suffix}");
        let mut add = |distance: usize, base: String, scope| {
            found.push(Candidate {
                distance,
                base,
                service,
                scope,
            });
        };
        if let [scope @ .., one, other] = path {
            let distance = typing_errors(one, name) + typing_errors(other, namespace);
            add(distance, canonical(), scope);
        }
        let (scope, label): (&[&str], &str) = match path {
            [scope @ .., label] => (scope, label),
            [] => (&[], ""),
        };
        let distance = typing_errors(label, name);
        let owner = table.short_service(name);
        if owner.is_some_and(|one| one.key == service.key) && zone.grammar == Grammar::Global {
            add(distance, format!("{name}.{}", zone.name), scope);
        }
        add(distance + namespace.len() + 1, canonical(), scope);
        if found.len() > MAX_COMPARED {
            keep_nearest(&mut found);
        }
    }
    keep_nearest(&mut found);
    found
}

fn keep_nearest(found: &mut Vec<Candidate<'_, '_>>) {
    found.sort_by(|one, other| (one.distance, &one.base).cmp(&(other.distance, &other.base)));
    found.truncate(2 * MAX_KEPT);
}

/// Returns the names of a service that are most similar to the labels before it.
fn names_of(candidate: &Candidate<'_, '_>, port: &str) -> Vec<Similar> {
    let Candidate {
        base,
        service,
        scope,
        ..
    } = candidate;
    let (rest, host, cluster) = match scope {
        [] => (&[][..], None, None),
        [cluster] => (&[][..], None, Some(*cluster)),
        [rest @ .., host, cluster] => (rest, Some(*host), Some(*cluster)),
    };
    let length = |label: Option<&str>| label.map_or(0, |label| label.len() + 1);
    let rest: usize = rest.iter().map(|label| label.len() + 1).sum();
    let all = rest + length(host) + length(cluster);
    let mut scopes: Vec<(usize, String, &[Endpoint])> =
        vec![(all, base.clone(), &service.endpoints)];
    let clusters = service.clusters().map(|one| one.as_str());
    for (of_cluster, cluster) in similar_or_first(cluster, clusters) {
        let endpoints = service.endpoints_at(&[&*cluster]);
        let name = format!("{cluster}.{base}");
        let hosts = endpoints.iter().map(|endpoint| endpoint.labels()[0]);
        for (of_host, host) in similar_or_first(host, hosts.filter(|host| !host.is_empty())) {
            let endpoints = service.endpoints_at(&[&*host, &*cluster]);
            let distance = rest + of_cluster + of_host;
            scopes.push((distance, format!("{host}.{name}"), endpoints));
        }
        scopes.push((rest + of_cluster + length(host), name, endpoints));
    }
    let names = scopes.into_iter().flat_map(|(distance, name, endpoints)| {
        let ports = similar_ports(port, endpoints).into_iter();
        ports.map(move |(more, prefix)| (distance + more, prefix + &name))
    });
    names.collect()
}

/// Returns the labels of a port and a protocol, as a prefix, that are most similar to those of the name. A name without these labels
/// needs none.
fn similar_ports(port: &str, endpoints: &[Endpoint]) -> Vec<Similar> {
    if port.is_empty() {
        return vec![(0, String::new())];
    }
    let ports = endpoints
        .iter()
        .take(MAX_COMPARED)
        .flat_map(|one| &one.ports);
    let labels = ports.filter_map(|port| {
        let name = port.name.as_ref()?;
        Some(format!("_{name}._{}", port.protocol.label()))
    });
    let labels: BTreeSet<String> = labels.collect();
    let found = similar_or_first(Some(port), labels.iter().map(String::as_str));
    found
        .into_iter()
        .map(|(distance, label)| (distance, label + "."))
        .collect()
}

/// Returns the labels that are most similar to a label, or the first ones, if the name lacks that label.
fn similar_or_first<'l>(label: Option<&str>, all: impl Iterator<Item = &'l str>) -> Vec<Similar> {
    let distance = |one: &str| match label {
        Some(label) => typing_errors(label, one),
        None => one.len() + 1,
    };
    let found = all
        .take(MAX_COMPARED)
        .map(|one| (distance(one), one.to_owned()));
    let found: BTreeSet<Similar> = found.collect();
    found.into_iter().take(MAX_KEPT).collect()
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
