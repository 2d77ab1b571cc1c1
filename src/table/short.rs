//! Who answers `S.Z`: the owner of each short name, and what contradicts it.
//!
//! Short names never merge namespaces: two tenants' databases would join each other. A later export can therefore never
//! take over or empty an existing short name; only flags, and a canonical name with records, come first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::build::{Rules, ShortNames};
use super::inputs::Dirty;
use super::{Conflict, ConflictKind, Contested, Service, ShortName, Table};
use crate::mirror::{ClusterName, Namespace, ServiceKey, ServiceName};

/// Assigns anew the owners of the names of services that changed; tells whether that moves an answer. The owners in
/// `last` are the incumbents.
pub(super) fn assign(last: &Table, table: &mut Table, dirty: &Dirty, rules: &Rules) -> bool {
    let mut moved = false;
    let names: BTreeSet<&ServiceName> = dirty.iter().map(|key| &key.service).collect();
    let mut claimants: BTreeMap<&ServiceName, BTreeSet<Namespace>> = BTreeMap::new();
    for key in dirty {
        let known = || {
            let known = last.short_names.get(&key.service);
            known.map_or_else(BTreeSet::new, |short| {
                short.claimants.iter().cloned().collect()
            })
        };
        let claimants = claimants.entry(&key.service).or_insert_with(known);
        let service = table.service(key.namespace.as_str(), key.service.as_str());
        if service.is_some_and(|service| service.is_known) {
            claimants.insert(key.namespace.clone());
        } else {
            claimants.remove(&key.namespace);
        }
    }
    for name in names {
        let old = last.short_names.get(name);
        let incumbent = old.and_then(|old| old.owner.as_ref());
        let claimants = claimants.remove(name).unwrap_or_default();
        let new = owner(table, name, claimants, incumbent, rules);
        if old.map(AsRef::as_ref) == new.as_ref() {
            continue;
        }
        match new.clone() {
            Some(new) => table.short_names.insert(name.clone(), Arc::new(new)),
            None => table.short_names.remove(name),
        };
        // A service without endpoints answers no name, so that it owns one moves nothing.
        let moves = new.and_then(|new| new.owner).as_ref() != incumbent
            && (has_endpoints(last, name) || has_endpoints(table, name));
        moved |= moves;
    }
    moved
}

fn has_endpoints(table: &Table, name: &ServiceName) -> bool {
    table
        .short_service(name.as_str())
        .is_some_and(|service| !service.endpoints.is_empty())
}

fn owner(
    table: &Table,
    name: &ServiceName,
    claimants: BTreeSet<Namespace>,
    incumbent: Option<&Namespace>,
    rules: &Rules,
) -> Option<ShortName> {
    if claimants.is_empty() {
        return None;
    }
    let (owner, pinned) = if rules.short_names == ShortNames::Off {
        (None, false)
    } else if let Some(pin) = rules.pinned_names.get(name) {
        (claimants.get(pin).cloned(), true)
    } else if let Some(default) = rules
        .default_namespace
        .as_ref()
        .and_then(|d| claimants.get(d))
    {
        (Some(default.clone()), true)
    } else if rules.short_names == ShortNames::Pinned {
        (None, false)
    } else {
        let age = |namespace: &&Namespace| {
            let service = table.service(namespace.as_str(), name.as_str());
            let since = service.and_then(|service| service.since);
            since.unwrap_or(i64::MAX)
        };
        // `min_by_key` keeps the first of equals, and claimants are sorted by name.
        let incumbent = incumbent.filter(|namespace| claimants.contains(*namespace));
        let first = || claimants.iter().min_by_key(age);
        (incumbent.or_else(first).cloned(), false)
    };
    Some(ShortName {
        owner,
        claimants: claimants.into_iter().collect(),
        pinned,
    })
}

/// Notes the conflicts between names of different services, after those in `dirty` changed.
pub(super) fn note_conflicts(table: &mut Table, dirty: &Dirty) {
    let mut found = BTreeMap::from([(Contested::Zone, hidden_by_zone(table))]);
    for ServiceKey { namespace, service } in dirty {
        let short = Contested::ShortName(service.clone());
        found
            .entry(short)
            .or_insert_with(|| claimed_twice(table, service));
        // A short name is hidden by a namespace that is called like its service.
        for namespace in [Some(namespace.clone()), service.as_str().parse().ok()]
            .into_iter()
            .flatten()
        {
            let hidden = shadowed(table, &namespace);
            found.insert(Contested::Namespace(namespace), hidden);
        }
    }
    for (contested, conflicts) in found {
        let known = table
            .conflicts
            .get(&contested)
            .map_or(&[][..], Vec::as_slice);
        if known == conflicts {
            continue;
        }
        let all = Arc::make_mut(&mut table.conflicts);
        if conflicts.is_empty() {
            all.remove(&contested);
        } else {
            all.insert(contested, conflicts);
        }
    }
}

/// Lists the conflict about a short name that several namespaces claim, and that no flag decides.
fn claimed_twice(table: &Table, name: &ServiceName) -> Vec<Conflict> {
    let short = table.short_name(name.as_str());
    let short = short.filter(|short| short.claimants.len() > 1 && !short.pinned);
    let conflict = |short: &ShortName| {
        let claimants: Vec<&str> = short.claimants.iter().map(Namespace::as_str).collect();
        let owner = short.owner.as_ref().map_or("none", Namespace::as_str);
        Conflict {
            kind: ConflictKind::ShortName,
            name: name.to_string(),
            detail: format!(
                "claimed by namespaces {}; answered for '{owner}'",
                claimants.join(", ")
            ),
        }
    };
    short.map(conflict).into_iter().collect()
}

/// Lists the names of services that the zone's own names hide: `dns-version.Z` and `ns.dns.Z`.
fn hidden_by_zone(table: &Table) -> Vec<Conflict> {
    let has_endpoints = |service: &&Service| !service.endpoints.is_empty();
    let in_cluster = |service: &&Service| !service.in_cluster("ns").is_empty();
    let hidden = [
        (
            "dns-version",
            table.short_service("dns-version").filter(has_endpoints),
        ),
        ("ns.dns", table.short_service("dns").filter(in_cluster)),
        ("ns.dns", table.service("dns", "ns").filter(has_endpoints)),
    ];
    let conflict = |(name, service): (&str, Option<&Service>)| Conflict {
        kind: ConflictKind::Shadowed,
        name: name.to_owned(),
        detail: service.map_or_else(String::new, |service| {
            format!(
                "{name}.<zone> is the zone's own name, not one of {}",
                service.key
            )
        }),
    };
    hidden
        .into_iter()
        .filter(|(_, service)| service.is_some())
        .map(conflict)
        .collect()
}

/// Tells whether a service, if there is one of this name, hides the short names of a cluster that is called like it.
pub(super) fn hides(table: &Table, key: &ServiceKey) -> bool {
    let hidden = table.short_service(key.namespace.as_str());
    hidden.is_some_and(|hidden| !hidden.in_cluster(key.service.as_str()).is_empty())
}

/// Lists the short names that canonical ones of `namespace` hide: where it has the name of a service, and a service in it
/// that of a cluster, `S.N.Z` and the names below it hide the short `C.S.Z` and those below.
fn shadowed(table: &Table, namespace: &Namespace) -> Vec<Conflict> {
    let Some(hidden) = table.short_service(namespace.as_str()) else {
        return Vec::new();
    };
    let hiding = hidden.clusters().filter(|cluster| {
        let service = table.service(namespace.as_str(), cluster.as_str());
        service.is_some()
    });
    let conflict = |cluster: &ClusterName| Conflict {
        kind: ConflictKind::Shadowed,
        name: format!("{cluster}.{namespace}"),
        detail: format!(
            "{cluster}.{namespace}.<zone> and the names below it are in namespace '{namespace}', not {}",
            hidden.key
        ),
    };
    hiding.map(conflict).collect()
}
