//! The owner of each short name `S.Z`, and the names that other names hide.
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

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::content::Table;
use super::rules::{ChildZone, Grammar, Rules, ShortNames};
use super::service::Service;
use super::shared::set;
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
    let mut names: BTreeMap<ServiceName, Vec<&Namespace>> = BTreeMap::new();
    for key in dirty {
        let [own, of_namespace] = key.short_names();
        names.entry(own).or_default().push(&key.namespace);
        names.entry(of_namespace).or_default();
    }
    let mut is_changed = false;
    for (name, changed) in names {
        let old = table.short_name(name.as_str());
        let mut claims = old.map_or_else(BTreeMap::new, |old| old.claims.clone());
        for namespace in changed {
            let service = table.service(namespace.as_str(), name.as_str());
            match service.and_then(Claim::of) {
                Some(claim) => claims.insert(namespace.clone(), claim),
                None => claims.remove(namespace),
            };
        }
        let mut new = (!claims.is_empty()).then(|| ShortName::new(table, &name, claims, rules));
        if let Some(new) = &mut new {
            timers.date(old.map_or(&[], |old| &old.problems), &mut new.problems);
        }
        is_changed |= set(&mut table.short_names, &name, new);
    }
    is_changed
}

/// Returns the namespace that owns a short name.
fn owner<'c>(
    name: &ServiceName,
    claims: &'c BTreeMap<Namespace, Claim>,
    rules: &Rules,
) -> Result<&'c Namespace, NoOwner> {
    if rules.short_names == ShortNames::None {
        return Err(NoOwner::Off);
    }
    if let Some(pin) = rules.pinned_names.get(name) {
        // A pinned name has no fallback.
        let pinned = claims.get_key_value(pin);
        return pinned
            .map(|(pin, _)| pin)
            .ok_or_else(|| NoOwner::Pinned(pin.clone()));
    }
    // An alias owns the name before its sources.
    let is_source = |namespace: &Namespace| {
        let (namespace, service) = (namespace.clone(), name.clone());
        let source = ServiceKey { namespace, service };
        let mut aliases = rules.aliases.of_source(&source);
        let has_name = |alias: &ServiceKey| alias.service == *name;
        aliases.any(|one| has_name(one) && claims.get(&one.namespace) == Some(&Claim::Headless))
    };
    let with = |claim| -> Vec<&Namespace> {
        let all = claims
            .iter()
            .filter(|_| rules.short_names == ShortNames::All);
        let with = all.filter(|(namespace, one)| **one == claim && !is_source(namespace));
        with.map(|(namespace, _)| namespace).collect()
    };
    let default = rules.default_namespace.as_ref();
    let default = default.and_then(|default| claims.get_key_value(default));
    match (
        default,
        &with(Claim::Headless)[..],
        &with(Claim::FailingHeadless)[..],
    ) {
        (Some((default, Claim::Other | Claim::Headless)), ..) => Ok(default),
        (_, [only], _) => Ok(only),
        (_, [_, _, ..], _) => Err(NoOwner::Ambiguous),
        (Some((default, _)), [], _) => Ok(default),
        (None, [], [only]) => Ok(only),
        (None, [], _) => Err(NoOwner::Unpinned),
    }
}

// === impl ShortName ===

impl ShortName {
    /// Determines the owner of a short name that namespaces claim.
    fn new(
        table: &Table,
        name: &ServiceName,
        claims: BTreeMap<Namespace, Claim>,
        rules: &Rules,
    ) -> Self {
        let owner = owner(name, &claims, rules).and_then(|namespace| {
            let service = table.shared(namespace.as_str(), name.as_str());
            service.cloned().ok_or(NoOwner::Unpinned)
        });
        let hides_server =
            |owner: &Arc<Service>| *name.as_str() == *"dns" && owner.has_names_at(&["ns"]);
        let mut short = Self {
            has_hidden_cluster: owner.as_ref().is_ok_and(hides_server),
            owner,
            claims,
            problems: Box::default(),
        };
        short.problems = short.find_problems(table, name).into_iter().collect();
        short.has_hidden_cluster |= short.owner.is_ok() && !short.problems.is_empty();
        short
    }

    /// Returns its problems: that several namespaces have it and no setting assigns it, or that canonical names hide the names of
    /// clusters of its owner. If namespace `S` has a service `C`, `C.S.Z` and the names below it belong to that service.
    fn find_problems(&self, table: &Table, name: &ServiceName) -> BTreeSet<Problem> {
        match &self.owner {
            Ok(owner) => {
                let missing = owner.missing.iter().map(|host| &host.cluster);
                let is_hidden = |cluster: &&_| {
                    let hiding = table.service(name.as_str(), ClusterName::as_str(cluster));
                    hiding.is_some_and(|hiding| hiding.is_known)
                };
                let hidden = owner.clusters().chain(missing).filter(is_hidden);
                let problem = |cluster| {
                    let detail = format!(
                        "{cluster}.{name}.<zone> and the names below it belong to namespace '{name}' and hide short names of {}",
                        owner.key
                    );
                    hides(&format!("{cluster}.{name}"), detail)
                };
                hidden.map(problem).collect()
            }
            Err(NoOwner::Ambiguous) => {
                let namespaces = self.namespaces(Claim::Headless).map(Namespace::as_str);
                let namespaces = namespaces.collect::<Vec<_>>().join(", ");
                let detail = format!(
                    "exists in namespaces {namespaces}; no setting assigns it, so it is NXDOMAIN"
                );
                [Problem::new(ProblemKind::ShortName, detail).of_name(name.as_str())].into()
            }
            Err(_) => BTreeSet::new(),
        }
    }
}

// === Names that names of zones hide ===

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
    let problem = |(name, service, scope): (&str, Option<&Service>, &[&str])| {
        let key = &service
            .filter(|one| !one.endpoints_at(scope).is_empty())?
            .key;
        let detail =
            format!("{name}.<zone> is a name of the zone itself and hides the name of {key}");
        Some(hides(name, detail))
    };
    hidden.into_iter().filter_map(problem).collect()
}

/// Returns the problems of services with zones below another zone: a name belongs to the longest zone that matches.
fn hidden_by_child_zones(table: &Table, rules: &Rules) -> Vec<Problem> {
    let problem = |child: &ChildZone| {
        let labels: Vec<&str> = child.labels.iter().map(String::as_str).collect();
        let hidden = names_below(table, child.parent_grammar, &labels).join(" and ");
        let ChildZone { name, parent, .. } = child;
        let detail = format!("zone {name} hides {hidden} in zone {parent}");
        (!hidden.is_empty()).then(|| hides(name, detail))
    };
    rules.child_zones.iter().filter_map(problem).collect()
}

/// Describes the names of services at and below some labels of a zone.
fn names_below(table: &Table, grammar: Grammar, labels: &[&str]) -> Vec<String> {
    let (canonical, short) = match (grammar, labels) {
        (Grammar::Mcs, ["svc"]) if table.has_names() => return vec!["all names".to_owned()],
        (Grammar::Mcs, [labels @ .., "svc"]) => (labels, None),
        (Grammar::Global, [scope @ .., service]) => {
            let service = table.short_service(service);
            (labels, service.filter(|one| one.has_names_at(scope)))
        }
        _ => return Vec::new(),
    };
    let canonical = match canonical {
        [namespace] if table.has_names_in(namespace) => {
            Some(format!("all names of namespace '{namespace}'"))
        }
        [scope @ .., service, namespace] => {
            let service = table.service(namespace, service);
            let service = service.filter(|one| one.has_names_at(scope));
            service.map(|service| format!("names of {}", service.key))
        }
        _ => None,
    };
    let short = short.map(|service| format!("short names of {}", service.key));
    canonical.into_iter().chain(short).collect()
}
