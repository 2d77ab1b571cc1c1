//! Assigns an owner to each short name `S.Z`, and reports conflicts between names.
//!
//! | setting | owner |
//! |---|---|
//! | `shortNames.pinned: {S: N}` | `N`, if it has the service; otherwise none |
//! | `shortNames.defaultNamespace: N` | `N`, if it has the service |
//! | neither applies | the only namespace that has a headless service of this name; none, if several have it. An alias comes before its sources |
//! | no namespace has one | the only namespace with a headless Service of this cluster whose name fails (rules K5, K8) |
//!
//! A namespace has a service if a mirror or a member of this cluster exists. One that only has settings of
//! a service takes no name from another. If the name fails because of the settings (rules K5, K8) and a setting assigns it to
//! that namespace, it fails, unless it is that of another namespace.
//!
//! Short names never merge namespaces. Otherwise, the databases of two tenants would become one service. The owner
//! depends only on the settings and on the namespaces that have the service, not on earlier states. Replicas therefore
//! give the same answers, and a restart changes nothing. If another namespace exports a headless Service of the same
//! name, an unpinned short name loses its owner, and the conflict is reported. The other namespace never becomes the
//! owner.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::content::Table;
use super::rules::{ChildZone, Grammar, Rules, ShortNames};
use super::service::Service;
use super::short_name::{Claim, NoOwner, ShortName};
use super::store::ServiceKeys;
use super::timers::Timers;
use crate::model::{ClusterName, Namespace, Problem, ProblemKind, ServiceKey, ServiceName};

/// Assigns the owners of the short names of services that changed, and dates their problems. Returns whether a short name changed.
pub(super) fn assign_owners(
    table: &mut Table,
    dirty: &ServiceKeys,
    rules: &Rules,
    timers: &Timers,
) -> bool {
    let mut names: BTreeMap<ServiceName, BTreeMap<Namespace, Claim>> = BTreeMap::new();
    for ServiceKey { namespace, service } in dirty {
        // A service with the name of a cluster may hide short names of the service with the name of its namespace.
        for name in [service.clone(), namespace.as_service()] {
            let claims = || claims_of(table, &name).iter().cloned().collect();
            names.entry(name.clone()).or_insert_with(claims);
        }
        let claim = table.service(namespace.as_str(), service.as_str());
        let claims = names.entry(service.clone()).or_default();
        match claim.and_then(Claim::of) {
            Some(claim) => claims.insert(namespace.clone(), claim),
            None => claims.remove(namespace),
        };
    }
    let mut is_changed = false;
    for (name, claims) in names {
        let mut new = short_name(table, &name, claims, rules);
        if let Some(new) = &mut new {
            let old = table.short_name(name.as_str());
            timers.date(old.map_or(&[], |old| &old.problems), &mut new.problems);
        }
        is_changed |= table.short_names.set(&name, new);
    }
    is_changed
}

fn claims_of<'t>(table: &'t Table, name: &ServiceName) -> &'t [(Namespace, Claim)] {
    let short = table.short_name(name.as_str());
    short.map_or(&[], |short| &short.claims)
}

/// Determines the owner of a short name. Returns `None` if no namespace has the service.
fn short_name(
    table: &Table,
    name: &ServiceName,
    claims: BTreeMap<Namespace, Claim>,
    rules: &Rules,
) -> Option<ShortName> {
    if claims.is_empty() {
        return None;
    }
    let owner = owner(name, &claims, rules).and_then(|namespace| {
        let service = table.shared(namespace.as_str(), name.as_str());
        service.cloned().ok_or(NoOwner::Unpinned)
    });
    let mut short = ShortName {
        has_hidden_cluster: false,
        owner,
        claims: claims.into_iter().collect(),
        problems: Box::default(),
    };
    short.problems = problems_of(table, name, &short);
    let hides_server = |owner: &Arc<Service>| name.as_str() == "dns" && owner.has_names_at(&["ns"]);
    let has_hidden = |owner| !short.problems.is_empty() || hides_server(owner);
    short.has_hidden_cluster = short.owner.as_ref().is_ok_and(has_hidden);
    Some(short)
}

/// Returns the problems of a short name: that several namespaces have it and no setting assigns it, or that canonical names hide
/// the names of clusters of its owner. If namespace `S` has a service `C`, `C.S.Z` and the names below it belong to that service.
fn problems_of(table: &Table, name: &ServiceName, short: &ShortName) -> Box<[Problem]> {
    let mut problems = Vec::new();
    match &short.owner {
        Ok(owner) => problems.extend(hidden_clusters(table, owner).map(|cluster| {
            let detail = format!(
                "{cluster}.{name}.<zone> and the names below it belong to namespace '{name}' and hide short names of {}",
                owner.key
            );
            hides(&format!("{cluster}.{name}"), detail)
        })),
        Err(NoOwner::Ambiguous) => {
            let namespaces = short.namespaces(Claim::Headless).map(Namespace::as_str);
            let namespaces = namespaces.collect::<Vec<_>>().join(", ");
            let detail = format!(
                "exists in namespaces {namespaces}; no setting assigns it, so it is NXDOMAIN"
            );
            problems.push(Problem::new(ProblemKind::ShortName, detail).of_name(name.as_str()));
        }
        Err(_) => {}
    }
    problems.sort();
    problems.dedup();
    problems.into()
}

/// Returns the clusters of a service whose short names `C.S.Z` are hidden. One may occur twice.
fn hidden_clusters<'t>(
    table: &'t Table,
    service: &'t Service,
) -> impl Iterator<Item = &'t ClusterName> {
    let namespace = service.key.service.as_str();
    let failing = service.missing.iter().map(|host| &host.cluster);
    service.clusters().chain(failing).filter(move |cluster| {
        let hiding = table.service(namespace, cluster.as_str());
        hiding.is_some_and(|service| service.is_known)
    })
}

/// Returns the namespace that owns a short name.
fn owner<'r>(
    name: &ServiceName,
    claims: &'r BTreeMap<Namespace, Claim>,
    rules: &'r Rules,
) -> Result<&'r Namespace, NoOwner> {
    let has =
        |namespace: &&Namespace, least| claims.get(*namespace).is_some_and(|one| *one >= least);
    let default = rules.default_namespace.as_ref();
    let existing = default.filter(|default| has(default, Claim::Other));
    match (rules.short_names, rules.pinned_names.get(name), existing) {
        (ShortNames::None, _, _) => return Err(NoOwner::Off),
        // A pinned name has no fallback.
        (_, Some(pin), _) => {
            let has_pin = has(&pin, Claim::Failing);
            return if has_pin {
                Ok(pin)
            } else {
                Err(NoOwner::Pinned(pin.clone()))
            };
        }
        (_, None, Some(default)) => return Ok(default),
        (ShortNames::All | ShortNames::Pinned, None, None) => {}
    }
    // An alias owns the name before its sources.
    let is_source = |namespace: &Namespace| {
        let source = ServiceKey {
            namespace: namespace.clone(),
            service: name.clone(),
        };
        let mut aliases = rules.aliases.of_source(&source);
        aliases.any(|alias| alias.service == *name && has(&&alias.namespace, Claim::Headless))
    };
    let of_claim = |claim| {
        let is_one = move |(namespace, one): &(&Namespace, &Claim)| {
            **one == claim && rules.short_names == ShortNames::All && !is_source(namespace)
        };
        let mut all = claims.iter().filter(is_one).map(|(namespace, _)| namespace);
        (all.next(), all.next())
    };
    match of_claim(Claim::Headless) {
        (Some(only), None) => return Ok(only),
        (Some(_), Some(_)) => return Err(NoOwner::Ambiguous),
        (None, _) => {}
    }
    let default = default.filter(|default| has(default, Claim::Failing));
    match (default, of_claim(Claim::FailingHeadless)) {
        (Some(only), _) | (None, (Some(only), None)) => Ok(only),
        (None, _) => Err(NoOwner::Unpinned),
    }
}

/// Updates the problems of names that names of zones hide.
pub(super) fn update_zone_problems(table: &mut Table, rules: &Rules, timers: &Timers) {
    let mut problems = hidden_by_zone(table);
    problems.extend(hidden_by_child_zones(table, rules));
    problems.sort();
    if *table.zone_problems != problems[..] {
        timers.date(&table.zone_problems, &mut problems);
        table.zone_problems = problems.into();
    }
}

/// Returns the problem of a name that hides names of a service.
fn hides(name: &str, detail: String) -> Problem {
    Problem::new(ProblemKind::Shadowed, detail).of_name(name)
}

/// Returns the problems of services with the zone's own names: `dns-version.Z` and `ns.dns.Z`.
fn hidden_by_zone(table: &Table) -> Vec<Problem> {
    let hidden = [
        ("dns-version", table.short_service("dns-version"), &[][..]),
        ("ns.dns", table.short_service("dns"), &["ns"]),
        ("ns.dns", table.service("dns", "ns"), &[]),
    ];
    let hidden = hidden.into_iter().filter_map(|(name, service, scope)| {
        let key = &service
            .filter(|one| !one.endpoints_at(scope).is_empty())?
            .key;
        let detail =
            format!("{name}.<zone> is a name of the zone itself and hides the name of {key}");
        Some(hides(name, detail))
    });
    hidden.collect()
}

/// Returns the problems of services with zones below another zone: a name belongs to the longest zone that matches.
fn hidden_by_child_zones(table: &Table, rules: &Rules) -> Vec<Problem> {
    let problem = |child: &ChildZone| {
        let labels: Vec<&str> = child.labels.iter().map(String::as_str).collect();
        let hidden = match child.parent_grammar {
            Grammar::Global => hidden_below(table, &labels),
            Grammar::Mcs => hidden_in_mcs(table, &labels).into_iter().collect(),
        };
        let ChildZone { name, parent, .. } = child;
        (!hidden.is_empty()).then(|| {
            let hidden = hidden.join(" and ");
            hides(name, format!("zone {name} hides {hidden} in zone {parent}"))
        })
    };
    rules.child_zones.iter().filter_map(problem).collect()
}

/// Describes the canonical and short names at and below some labels, without those of the zone.
fn hidden_below(table: &Table, labels: &[&str]) -> Vec<String> {
    let short = labels.split_last().and_then(|(service, scope)| {
        let service = table.short_service(service)?;
        let has_names = service.has_names_at(scope);
        has_names.then(|| format!("short names of {}", service.key))
    });
    hidden_canonical(table, labels)
        .into_iter()
        .chain(short)
        .collect()
}

/// Describes the names at and below some labels of a zone with the grammar `mcs`.
fn hidden_in_mcs(table: &Table, labels: &[&str]) -> Option<String> {
    match labels {
        ["svc"] => table.has_names().then(|| "all names".to_owned()),
        [labels @ .., "svc"] => hidden_canonical(table, labels),
        _ => None,
    }
}

/// Describes the names at and below a namespace, a service, or a part of it.
fn hidden_canonical(table: &Table, labels: &[&str]) -> Option<String> {
    match labels {
        [] => None,
        [namespace] => table
            .has_names_in(namespace)
            .then(|| format!("all names of namespace '{namespace}'")),
        [scope @ .., service, namespace] => table
            .service(namespace, service)
            .filter(|service| service.has_names_at(scope))
            .map(|service| format!("names of {}", service.key)),
    }
}
