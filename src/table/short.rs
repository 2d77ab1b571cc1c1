//! Who answers `S.Z`: the owner of each short name, and what contradicts it.
//!
//! | | owner |
//! |---|---|
//! | `--short-name S=N` | `N`, if it has the service; else nobody |
//! | `--default-namespace N` | `N`, if it has the service |
//! | neither decides | the only namespace that has the service; nobody, if several have it |
//!
//! Short names never merge namespaces: two tenants' databases would join each other. Nor does history decide: the owner
//! is a function of the flags and of which namespaces have the service, so that replicas agree and a restart changes
//! nothing. Anybody who may export a headless Service can so take an unpinned short name away, which is reported, but never
//! take it over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::inputs::Dirty;
use super::rules::{Rules, ShortNames};
use super::{Conflict, ConflictKind, Contested, Service, Table};
use crate::mirror::{ClusterName, Namespace, ServiceKey, ServiceName};

/// Which namespace answers `S.Z`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShortName {
    /// The owner, or why there is none.
    pub owner: Result<Namespace, NoOwner>,
    /// Every namespace that has the service, sorted.
    pub claimants: Box<[Namespace]>,
}

/// Why nobody owns a short name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoOwner {
    /// `--short-names off`.
    Off,
    /// `--short-name` pins it to a namespace that lacks the service.
    Pinned(Namespace),
    /// `--short-names pinned`, and no flag gives it to a namespace that has the service.
    Unpinned,
    /// Several namespaces have the service, and no flag says whose the name is.
    Contested,
}

/// Reassigns the owners of the short names of services that changed; tells whether that changes any.
pub(super) fn assign(last: &Table, table: &mut Table, dirty: &Dirty, rules: &Rules) -> bool {
    let mut is_changed = false;
    for (name, claimants) in claimants_after(last, table, dirty) {
        let old = last.short_name(name.as_str());
        let new = short_name(name, claimants, rules);
        if old == new.as_ref() {
            continue;
        }
        is_changed = true;
        match new {
            Some(new) => table.short_names.insert(name.clone(), Arc::new(new)),
            None => table.short_names.remove(name),
        };
    }
    is_changed
}

/// Returns the namespaces that claim each short name in `table`, of the services that changed since `last`.
fn claimants_after<'d>(
    last: &Table,
    table: &Table,
    dirty: &'d Dirty,
) -> BTreeMap<&'d ServiceName, BTreeSet<Namespace>> {
    let mut claimants = BTreeMap::new();
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
    claimants
}

/// Decides whose a short name is; `None` if no namespace has the service.
fn short_name(
    name: &ServiceName,
    claimants: BTreeSet<Namespace>,
    rules: &Rules,
) -> Option<ShortName> {
    let has = |namespace: &&Namespace| claimants.contains(*namespace);
    let default = rules.default_namespace.as_ref().filter(has);
    let owner = match (rules.short_names, rules.pinned_names.get(name), default) {
        (ShortNames::Off, _, _) => Err(NoOwner::Off),
        // A pin is no preference: there is no fallback.
        (_, Some(pin), _) if has(&pin) => Ok(pin.clone()),
        (_, Some(pin), _) => Err(NoOwner::Pinned(pin.clone())),
        (_, None, Some(default)) => Ok(default.clone()),
        (ShortNames::Pinned, None, None) => Err(NoOwner::Unpinned),
        (ShortNames::On, None, None) if claimants.len() > 1 => Err(NoOwner::Contested),
        (ShortNames::On, None, None) => Ok(claimants.first()?.clone()),
    };
    (!claimants.is_empty()).then(|| ShortName {
        owner,
        claimants: claimants.into_iter().collect(),
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
        for namespace in [namespace.clone(), service.as_namespace()] {
            let hidden = shadowed(table, &namespace);
            found.insert(Contested::Namespace(namespace), hidden);
        }
    }
    for (contested, conflicts) in found {
        replace_conflicts(table, contested, conflicts);
    }
}

/// Replaces the conflicts about one thing. Nothing is copied if they are the same.
fn replace_conflicts(table: &mut Table, contested: Contested, conflicts: Vec<Conflict>) {
    let known = table.conflicts.get(&contested);
    if known.map_or(&[][..], Vec::as_slice) == conflicts {
        return;
    }
    let all = Arc::make_mut(&mut table.conflicts);
    if conflicts.is_empty() {
        all.remove(&contested);
    } else {
        all.insert(contested, conflicts);
    }
}

/// Lists the conflict about a short name that several namespaces claim, and that no flag decides.
fn claimed_twice(table: &Table, name: &ServiceName) -> Vec<Conflict> {
    let short = table.short_name(name.as_str());
    let short = short.filter(|short| short.owner == Err(NoOwner::Contested));
    let conflict = |short: &ShortName| {
        let claimants: Vec<&str> = short.claimants.iter().map(Namespace::as_str).collect();
        Conflict {
            kind: ConflictKind::ShortName,
            name: name.to_string(),
            detail: format!(
                "claimed by namespaces {}; no flag decides, so it is NXDOMAIN",
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
    let version = table.short_service("dns-version").filter(has_endpoints);
    let in_dns = table.short_service("dns").filter(in_cluster);
    let canonical = table.service("dns", "ns").filter(has_endpoints);
    let hidden = [
        ("dns-version", version),
        ("ns.dns", in_dns),
        ("ns.dns", canonical),
    ];
    let conflict = |(name, service): (&str, Option<&Service>)| {
        let key = &service?.key;
        Some(Conflict {
            kind: ConflictKind::Shadowed,
            name: name.to_owned(),
            detail: format!("{name}.<zone> is the zone's own name, not one of {key}"),
        })
    };
    hidden.into_iter().filter_map(conflict).collect()
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
