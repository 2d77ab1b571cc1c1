//! The owner of each short name `S.Z`, and the names that other names hide.
//!
//! | setting | owner |
//! |---|---|
//! | `shortNames.pinned: {S: N}` | `N`, if it has the service; otherwise none |
//! | `shortNames.defaultNamespace: N` | `N`, if it has the service |
//! | neither applies | the only namespace that has a headless service of this name; none, if several have it. An alias comes before its sources |
//! | no namespace has one | the only namespace with a headless Service of this cluster that only has settings (rule M5), beside mirrors with cluster IPs or if the name fails (rules K5, K8) |
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

use super::content::{Claim, Difference, NoOwner, ShortName, Table};
use super::context::Timers;
use super::rules::{Rules, ShortNames};
use super::service::Service;
use super::shared::set;
use super::store::ServiceKeys;
use crate::model::{Namespace, Problem, ProblemKind, ServiceKey, ServiceName, join_texts};

/// Assigns the owners of the short names of services that changed, and dates their problems. Returns how short names differ. `last` is
/// the table before.
pub(super) fn assign_owners(
    table: &mut Table,
    last: &Table,
    changed: &ServiceKeys,
    rules: &Rules,
    timers: &Timers,
) -> Difference {
    let mut difference = Difference::None;
    let mut claims: BTreeMap<ServiceName, BTreeMap<Namespace, Claim>> = BTreeMap::new();
    for key in changed {
        for name in key.short_names() {
            let old = table.short_names.get(&name).into_iter();
            let old = old.flat_map(|old| old.claims.iter().cloned());
            claims.entry(name).or_insert_with(|| old.collect());
        }
        let of_name = claims.entry(key.service.clone()).or_default();
        match table.find(key).and_then(claim) {
            Some(claim) => of_name.insert(key.namespace.clone(), claim),
            None => of_name.remove(&key.namespace),
        };
    }
    for (name, claims) in claims {
        let mut new = (!claims.is_empty()).then(|| short_name(table, &name, claims, rules));
        if let Some(new) = &mut new {
            let old = table.short_names.get(&name);
            timers.date(old.map_or(&[], |old| &old.problems), &mut new.problems);
        }
        if set(&mut table.short_names, &name, new) {
            difference = difference.max(Difference::State);
        }
        if table.short_answers(name.as_str()) != last.short_answers(name.as_str()) {
            difference = Difference::Answers;
        }
    }
    difference
}

/// Returns the claim of a service. One that only has settings takes no name from another.
fn claim(service: &Service) -> Option<Claim> {
    if !service.is_known {
        service.failure?;
        let is_headless = service.has_headless_own;
        Some(if is_headless {
            Claim::FailingHeadless
        } else {
            Claim::Failing
        })
    } else if service.is_headless {
        Some(Claim::Headless)
    } else if service.has_headless_own {
        Some(Claim::OtherWithSettings)
    } else {
        Some(Claim::Other)
    }
}

/// Returns the namespace that owns a short name.
fn owner(
    name: &ServiceName,
    claims: &BTreeMap<Namespace, Claim>,
    rules: &Rules,
) -> Result<Namespace, NoOwner> {
    if rules.short_names == ShortNames::None {
        return Err(NoOwner::Off);
    }
    if let Some(pin) = rules.pinned_names.get(name).cloned() {
        // A pinned name has no fallback.
        return if claims.contains_key(&pin) {
            Ok(pin)
        } else {
            Err(NoOwner::Pinned(pin))
        };
    }
    // An alias owns the name before its sources.
    let is_source = |namespace: &Namespace| {
        let source = ServiceKey {
            namespace: namespace.clone(),
            service: name.clone(),
        };
        let mut aliases = rules.aliases.of_source(&source).iter();
        let is_headless =
            |alias: &ServiceKey| claims.get(&alias.namespace) == Some(&Claim::Headless);
        aliases.any(|alias| alias.service == *name && is_headless(alias))
    };
    let with = |wanted: &[Claim]| {
        let mut found = claims.clone();
        found.retain(|namespace, one| wanted.contains(one) && !is_source(namespace));
        if rules.short_names == ShortNames::Pinned {
            found.clear();
        }
        found.into_keys().collect::<Vec<_>>()
    };
    let default = rules.default_namespace.as_ref();
    let default = default.and_then(|default| claims.get_key_value(default));
    let headless = with(&[Claim::Headless]);
    let others = with(&[Claim::OtherWithSettings, Claim::FailingHeadless]);
    match (default, &headless[..], &others[..]) {
        (Some((default, claim)), ..) if *claim >= Claim::Other => Ok(default.clone()),
        (_, [only], _) => Ok(only.clone()),
        (_, [_, _, ..], _) => Err(NoOwner::Ambiguous),
        (Some((default, _)), [], _) => Ok(default.clone()),
        (None, [], [only]) => Ok(only.clone()),
        (None, [], _) => Err(NoOwner::Unpinned),
    }
}

/// Determines the owner of a short name that namespaces claim, and its problems.
fn short_name(
    table: &Table,
    name: &ServiceName,
    claims: BTreeMap<Namespace, Claim>,
    rules: &Rules,
) -> ShortName {
    let owner = owner(name, &claims, rules);
    let problems = match &owner {
        Ok(namespace) => {
            let service = table.service(namespace.as_str(), name.as_str());
            service.map_or_else(BTreeSet::new, |owner| hidden_names(table, owner))
        }
        Err(NoOwner::Ambiguous) => {
            let headless = claims
                .iter()
                .filter(|(_, claim)| **claim == Claim::Headless);
            let namespaces = join_texts(headless.map(|(namespace, _)| namespace), ", ");
            let detail = format!(
                "exists in namespaces {namespaces}; no setting assigns it, so it is NXDOMAIN"
            );
            [Problem::new(ProblemKind::ShortName, detail).of_name(name.as_str())].into()
        }
        Err(_) => BTreeSet::new(),
    };
    ShortName {
        owner,
        claims: claims.into_iter().collect(),
        problems: problems.into_iter().collect(),
    }
}

// === Names that other names hide ===

/// Returns the problems that canonical names hide short names of their owner. If namespace `S` has a service `C`, `C.S.Z` and the
/// names below it belong to that service.
fn hidden_names(table: &Table, owner: &Service) -> BTreeSet<Problem> {
    let key = &owner.key;
    let short = owner.key.service.as_str();
    let missing = owner.missing.iter().map(|host| &host.cluster);
    let mut problems: BTreeSet<_> = hidden_by_zone(owner, short).into_iter().collect();
    for cluster in owner.clusters().chain(missing) {
        let hiding = table.service(short, cluster.as_str());
        if hiding.is_some_and(|hiding| hiding.is_known) {
            let name = format!("{cluster}.{short}");
            let detail = format!(
                "{name}.<zone> and the names below it belong to namespace '{short}' and hide short names of {key}"
            );
            problems.insert(Problem::new(ProblemKind::Shadowed, detail).of_name(name));
        }
    }
    problems
}

/// Returns the problem that a name of the zone itself, `dns-version.Z` or `ns.dns.Z`, hides a name of a service. `own` is the
/// service's own name below the zone.
pub(super) fn hidden_by_zone(service: &Service, own: &str) -> Option<Problem> {
    let (name, scope) = match own {
        "dns-version" | "ns.dns" => (own, &[][..]),
        "dns" => ("ns.dns", &["ns"][..]),
        _ => return None,
    };
    if !service.has_names_at(scope) {
        return None;
    }
    let key = &service.key;
    let detail = format!("{name}.<zone> is a name of the zone itself and hides the name of {key}");
    Some(Problem::new(ProblemKind::Shadowed, detail).of_name(name))
}
