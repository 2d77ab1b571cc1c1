//! Who answers `S.Z`: the owner of each short name, and what contradicts it.
//!
//! Short names never merge namespaces: two tenants' databases would join each other. A later export can therefore never
//! take over or empty an existing short name; only flags, and a canonical name with records, come first.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::build::{Rules, ShortNames};
use super::{Conflict, ConflictKind, Service, ShortName, Table};
use crate::mirror::{Namespace, ServiceName};

/// Assigns the owners of `names` anew; tells whether that moves an answer. The owners in `last` are the incumbents.
pub(super) fn assign(
    last: &Table,
    table: &mut Table,
    names: &BTreeSet<&ServiceName>,
    rules: &Rules,
) -> bool {
    let mut moved = false;
    for name in names {
        let old = last.short_names.get(*name);
        let incumbent = old.and_then(|old| old.owner.as_ref());
        let new = owner(table, name, claimants(table, name), incumbent, rules);
        if old == new.as_ref() {
            continue;
        }
        let short_names = Arc::make_mut(&mut table.short_names);
        match new.clone() {
            Some(new) => short_names.insert((*name).clone(), new),
            None => short_names.remove(*name),
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

fn claimants(table: &Table, name: &ServiceName) -> BTreeSet<Namespace> {
    let has = |(namespace, services): (&Namespace, &Arc<super::NamespaceTable>)| {
        services
            .services
            .get(name)
            .is_some_and(|service| service.is_known)
            .then(|| namespace.clone())
    };
    table.namespaces.iter().filter_map(has).collect()
}

fn owner(
    table: &Table,
    name: &ServiceName,
    claimants: BTreeSet<Namespace>,
    incumbent: Option<&Namespace>,
    rules: &Rules,
) -> Option<ShortName> {
    if claimants.is_empty() || rules.short_names == ShortNames::Off {
        return None;
    }
    if let Some(pin) = rules.pinned_names.get(name) {
        let owner = claimants.get(pin).cloned();
        return Some(ShortName {
            owner,
            claimants,
            pinned: true,
        });
    }
    let default = rules
        .default_namespace
        .as_ref()
        .and_then(|default| claimants.get(default));
    if let Some(default) = default.cloned() {
        return Some(ShortName {
            owner: Some(default),
            claimants,
            pinned: true,
        });
    }
    if rules.short_names == ShortNames::Pinned {
        return None;
    }
    let age = |namespace: &&Namespace| {
        let service = table.service(namespace.as_str(), name.as_str());
        service
            .and_then(|service| service.since)
            .unwrap_or(i64::MAX)
    };
    // `min_by_key` keeps the first of equals, and claimants are sorted by name.
    let incumbent = incumbent.filter(|namespace| claimants.contains(*namespace));
    let owner = incumbent
        .or_else(|| claimants.iter().min_by_key(age))
        .cloned();
    Some(ShortName {
        owner,
        claimants,
        pinned: false,
    })
}

/// Lists the conflicts between names of different services.
pub(super) fn conflicts(table: &Table) -> Vec<Conflict> {
    let mut conflicts = hidden_by_zone(table);
    for (name, short) in table.short_names.iter() {
        if short.claimants.len() > 1 && !short.pinned {
            let claimants: Vec<&str> = short.claimants.iter().map(Namespace::as_str).collect();
            let owner = short.owner.as_ref().map_or("none", Namespace::as_str);
            conflicts.push(Conflict {
                kind: ConflictKind::ShortName,
                name: name.to_string(),
                detail: format!(
                    "claimed by namespaces {}; answered for '{owner}'",
                    claimants.join(", ")
                ),
            });
        }
    }
    conflicts.extend(table.changed().map(|(object, old, new)| Conflict {
        kind: ConflictKind::Identity,
        name: object.to_string(),
        detail: format!("was the mirror of {old}, is now of {new}: do two links write it?"),
    }));
    conflicts.extend(
        table
            .namespaces
            .keys()
            .flat_map(|namespace| shadowed(table, namespace)),
    );
    conflicts
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

/// Lists the short names that canonical ones of `namespace` hide. `S.N.Z` hides the short `C.S.Z` where a namespace has
/// the name of a service, and a service in it that of a cluster; `C.S.N.Z` hides `H.C.S.Z` in the same way.
fn shadowed(table: &Table, namespace: &Namespace) -> Vec<Conflict> {
    let Some(hidden) = table.short_service(namespace.as_str()) else {
        return Vec::new();
    };
    let mut conflicts = Vec::new();
    let mut report = |name: String| {
        let detail = format!(
            "{name}.<zone> is in namespace '{namespace}', not {}",
            hidden.key
        );
        conflicts.push(Conflict {
            kind: ConflictKind::Shadowed,
            name,
            detail,
        });
    };
    for cluster in hidden.clusters() {
        let Some(service) = table.service(namespace.as_str(), cluster.as_str()) else {
            continue;
        };
        if service.endpoints.is_empty() {
            continue;
        }
        report(format!("{cluster}.{namespace}"));
        for own in service.clusters() {
            if !hidden.at_host(cluster.as_str(), own.as_str()).is_empty() {
                report(format!("{own}.{cluster}.{namespace}"));
            }
        }
    }
    conflicts
}
