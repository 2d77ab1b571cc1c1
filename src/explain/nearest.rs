//! Similar names, for a name with a typing error.
//!
//! The labels are compared one by one: the zone, the namespace, the service in that namespace, the cluster, the hostname,
//! the port. If there are few labels to compare with, all of them are compared. Otherwise, the label is looked up with
//! each possible typing error corrected: one letter too many, too few, wrong, or in the wrong order. So the cost depends on
//! the length of the name, and not on the number of namespaces, services and endpoints.

use std::collections::BTreeSet;

use crate::model::typing_errors;
use crate::table::{Claim, Endpoint, Grammar, Service, Table};
use crate::zone::{Name, Reading, Zone, Zones, read};

/// Maximum number of similar names.
pub(super) const MAX_NAMES: usize = 5;

/// Maximum number of labels that are all compared with a label of the name.
const MAX_SCAN: usize = 100;

/// Maximum number of labels that are kept for each label of the name.
const MAX_KEPT: usize = 5;

/// Maximum effort for one name: the number of labels that are looked up. It takes a few milliseconds.
pub(super) const MAX_EFFORT: usize = 20_000;

/// The characters of labels.
const ALPHABET: &str = "abcdefghijklmnopqrstuvwxyz0123456789-";

/// Returns the names that exist and are most similar to a name that does not.
pub(super) fn nearest(zones: &Zones, table: &Table, name: &Name) -> Vec<String> {
    Search { table, effort: 0 }.names(zones, name)
}

/// A search for similar names.
pub(super) struct Search<'t> {
    pub(super) table: &'t Table,
    /// The number of looked up labels; a comparison counts by its length.
    pub(super) effort: usize,
}

/// A label that exists, and its distance to the label of the name.
type Similar = (usize, String);

/// A service that the name may mean.
struct Candidate<'t, 'n> {
    distance: usize,
    service: &'t Service,
    /// The name of the service, canonical or short.
    base: String,
    /// The labels of the searched name before the service: none, `C`, or `H.C`.
    scope: &'n [&'n str],
}

// === impl Search ===

impl<'t> Search<'t> {
    /// Returns the most similar names, the nearest first.
    pub(super) fn names(&mut self, zones: &Zones, name: &Name) -> Vec<String> {
        let labels: Vec<&str> = (0..name.count())
            .map(|index| name.label(index).unwrap_or_default())
            .collect();
        let ports = labels.iter().take_while(|label| label.starts_with('_'));
        let (port, path) = labels.split_at(ports.count().min(2));
        let mut found = BTreeSet::new();
        for (distance, zone, path) in self.zones(zones, name, path) {
            // A name without labels of its own is nearest to short ones.
            let path = if path.is_empty() { &[""] } else { path };
            for mut candidate in self.services(zone, path) {
                candidate.distance += distance;
                self.add_names(&candidate, &port.join("."), &mut found);
            }
        }
        let exists = |name: &String| {
            let name = Name::from_text(name);
            let reading = name.map(|name| read(zones, self.table, &name));
            matches!(reading, Some(Reading::View(..) | Reading::Failing(..)))
        };
        let names = found.into_iter().map(|(_, name)| name);
        let mut seen = BTreeSet::new();
        let names = names.filter(|name| seen.insert(name.clone()) && exists(name));
        names.take(MAX_NAMES).collect()
    }

    /// Returns the zones that a name may be in, with the labels of the name below them.
    fn zones<'z, 'n>(
        &mut self,
        zones: &'z Zones,
        name: &Name,
        path: &'n [&'n str],
    ) -> Vec<(usize, &'z Zone, &'n [&'n str])> {
        let own = zones.find(name).map(|(zone, _)| &zone.name);
        let mut found = Vec::new();
        for zone in zones.iter() {
            let is_own = own == Some(&zone.name);
            if own.is_some() && !is_own {
                continue;
            }
            let suffix = zone.name_suffix();
            let text = suffix.trim_end_matches('.');
            let count = text.split('.').count().min(path.len());
            let (below, suffix) = path.split_at(path.len() - count);
            let distance = self.distance(&suffix.join("."), text);
            // The name may also lack the zone.
            found.push(if distance < text.len() || is_own {
                (distance, zone, below)
            } else {
                (text.len(), zone, path)
            });
        }
        found.sort_by_key(|(distance, ..)| *distance);
        found.truncate(MAX_KEPT);
        found
    }

    /// Returns the services that labels below a zone may mean, the nearest first.
    fn services<'n>(&mut self, zone: &Zone, path: &'n [&'n str]) -> Vec<Candidate<'t, 'n>> {
        let table = self.table;
        let mut found = Vec::new();
        let canonical = |distance, namespace: &str, name: &str, scope| {
            let service = table.service(namespace, name)?;
            Some(Candidate {
                distance,
                service,
                base: format!("{name}.{namespace}.{}", zone.name_suffix()),
                scope,
            })
        };
        if let [scope @ .., name, namespace] = path {
            let namespaces = self.similar(namespace, table.namespaces(), |label| {
                table.has_namespace(label)
            });
            for (distance, namespace) in namespaces {
                let names = table
                    .services_in(&namespace)
                    .map(|service| service.key.service.as_str());
                let is_service = |label: &str| table.service(&namespace, label).is_some();
                for (more, name) in self.similar(name, names, is_service) {
                    found.extend(canonical(distance + more, &namespace, &name, scope));
                }
            }
            // Several errors in the namespace: the namespaces that have a service of this name.
            for (distance, name) in self.similar_names(name) {
                let namespaces = namespaces_with(table, &name);
                let has = |label: &str| table.service(label, &name).is_some();
                for (more, namespace) in self.similar(namespace, namespaces, has) {
                    found.extend(canonical(distance + more, &namespace, &name, scope));
                }
            }
        }
        if let [scope @ .., name] = path {
            for (distance, name) in self.similar_names(name) {
                if let Some(service) = table.short_service(&name)
                    && zone.grammar == Grammar::Global
                {
                    let base = format!("{name}.{}", zone.name);
                    found.push(Candidate {
                        distance,
                        service,
                        base,
                        scope,
                    });
                }
                // The namespace is missing.
                for namespace in namespaces_with(table, &name).take(MAX_KEPT) {
                    let distance = distance + namespace.len() + 1;
                    found.extend(canonical(distance, namespace, &name, scope));
                }
            }
        }
        found.sort_by(|one, other| (one.distance, &one.base).cmp(&(other.distance, &other.base)));
        found.dedup_by(|one, other| one.base == other.base);
        found.truncate(2 * MAX_KEPT);
        found
    }

    /// Returns the names of services in any namespace that are most similar to a label.
    fn similar_names(&mut self, label: &str) -> Vec<Similar> {
        let table = self.table;
        let is_name = |label: &str| table.short_name(label).is_some();
        self.similar(label, table.short_names(), is_name)
    }

    /// Adds the names of a service that are most similar to the searched one.
    fn add_names(
        &mut self,
        candidate: &Candidate<'t, '_>,
        port: &str,
        found: &mut BTreeSet<(usize, String)>,
    ) {
        let (service, base) = (candidate.service, &candidate.base);
        let (rest, [host, cluster]) = match candidate.scope {
            [] => (&[][..], [None, None]),
            [cluster] => (&[][..], [None, Some(*cluster)]),
            [rest @ .., host, cluster] => (rest, [Some(*host), Some(*cluster)]),
        };
        let lost = |label: Option<&str>| label.map_or(0, |label| label.len() + 1);
        let rest: usize = rest.iter().map(|label| label.len() + 1).sum();
        let distance = candidate.distance + rest;
        let all = distance + lost(host) + lost(cluster);
        let mut scopes = vec![(all, base.clone(), &*service.endpoints)];
        let clusters = service.clusters().map(|cluster| cluster.as_str());
        let has_cluster = |label: &str| !service.endpoints_at(&[label]).is_empty();
        for (of_cluster, cluster) in self.similar_or_first(cluster, clusters, has_cluster) {
            let endpoints = service.endpoints_at(&[&*cluster]);
            let distance = distance + of_cluster;
            let name = format!("{cluster}.{base}");
            let hosts = endpoints
                .iter()
                .map(|endpoint| endpoint.labels()[0])
                .filter(|host| !host.is_empty());
            let has_host = |label: &str| !service.endpoints_at(&[label, &*cluster]).is_empty();
            for (of_host, host) in self.similar_or_first(host, hosts, has_host) {
                let endpoints = service.endpoints_at(&[&*host, &*cluster]);
                scopes.push((distance + of_host, format!("{host}.{name}"), endpoints));
            }
            scopes.push((distance + lost(host), name, endpoints));
        }
        for (distance, name, endpoints) in scopes {
            for (more, prefix) in self.ports(port, endpoints) {
                found.insert((distance + more, prefix + &name));
            }
        }
    }

    /// Returns the labels of a port and a protocol, as a prefix, that are most similar to those of the name. A name without
    /// these labels needs none.
    fn ports(&mut self, port: &str, endpoints: &[Endpoint]) -> Vec<Similar> {
        if port.is_empty() {
            return vec![(0, String::new())];
        }
        let ports = endpoints.iter().take(MAX_SCAN).flat_map(|one| &one.ports);
        let labels: BTreeSet<String> = ports
            .filter_map(|port| {
                let name = port.name.as_ref()?;
                Some(format!("_{name}._{}", port.protocol.label()))
            })
            .take(MAX_SCAN)
            .collect();
        let labels = labels.into_iter();
        let mut found: Vec<Similar> = labels
            .map(|label| (self.distance(port, &label), label + "."))
            .collect();
        found.sort();
        found.truncate(MAX_KEPT);
        found
    }

    /// Returns the labels that are most similar to a label, or the first ones, if the name lacks that label.
    fn similar_or_first<'l>(
        &mut self,
        label: Option<&str>,
        all: impl Iterator<Item = &'l str>,
        exists: impl Fn(&str) -> bool,
    ) -> Vec<Similar> {
        match label {
            Some(label) => self.similar(label, all, exists),
            None => {
                let first = all.take(MAX_KEPT);
                first.map(|one| (one.len() + 1, one.to_owned())).collect()
            }
        }
    }

    /// Returns the labels that are most similar to a label, the nearest first: of `all`, if these are few; otherwise those
    /// with at most one error, of which `exists` tells whether they exist.
    fn similar<'l>(
        &mut self,
        label: &str,
        all: impl Iterator<Item = &'l str>,
        exists: impl Fn(&str) -> bool,
    ) -> Vec<Similar> {
        let all: Vec<&str> = all.take(MAX_SCAN + 1).collect();
        let mut found: Vec<Similar> = Vec::new();
        if all.len() <= MAX_SCAN {
            for one in all {
                found.push((self.distance(label, one), one.to_owned()));
            }
        } else {
            for_each_correction(label, |distance, corrected| {
                if self.effort < MAX_EFFORT {
                    self.effort += 1;
                    if exists(corrected) {
                        found.push((distance, corrected.to_owned()));
                    }
                }
            });
        }
        found.sort();
        found.dedup();
        found.truncate(MAX_KEPT);
        found
    }

    /// Returns the number of errors that make one text of the other. If the search has taken too long, it is the length.
    fn distance(&mut self, one: &str, other: &str) -> usize {
        if one == other {
            return 0;
        }
        if self.effort >= MAX_EFFORT {
            return one.len().max(other.len());
        }
        // A lookup takes as long as the comparison of some ten pairs of letters.
        self.effort += 1 + one.len() * other.len() / 16;
        typing_errors(one, other)
    }
}

/// Returns the namespaces that have a service of this name.
fn namespaces_with<'t>(table: &'t Table, name: &str) -> impl Iterator<Item = &'t str> {
    let short = table.short_name(name).into_iter();
    let namespaces = short.flat_map(|short| short.namespaces(Claim::Other));
    namespaces.map(|namespace| namespace.as_str())
}

/// Calls `visit` with a label, and with each label that becomes it by one error, and the number of errors.
fn for_each_correction(label: &str, mut visit: impl FnMut(usize, &str)) {
    visit(0, label);
    let mut text = String::with_capacity(label.len() + 1);
    let mut visit = |parts: &[&str]| {
        text.clear();
        text.extend(parts.iter().copied());
        visit(1, &text);
    };
    let letters = || (0..ALPHABET.len()).map(|index| &ALPHABET[index..=index]);
    // Labels are ASCII, so that every index is that of a letter.
    for index in 0..label.len() {
        let (before, after) = label.split_at(index);
        let (letter, after) = after.split_at(1);
        visit(&[before, after]);
        if let Some((next, after)) = after.split_at_checked(1) {
            visit(&[before, next, letter, after]);
        }
        letters().for_each(|other| visit(&[before, other, after]));
    }
    for index in 0..=label.len() {
        let (before, after) = label.split_at(index);
        letters().for_each(|letter| visit(&[before, letter, after]));
    }
}

#[cfg(test)]
mod tests;
