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

use std::collections::BTreeSet;

use strum::VariantArray as _;

use super::content::{Claim, Difference, NoOwner, ShortName, Table};
use super::context::Timers;
use super::rules::{Rules, ShortNames};
use super::service::Service;
use super::shared::set;
use super::store::ServiceKeys;
use crate::model::{MAX_LISTED, Namespace, Problem, ProblemKind, ServiceKey, ServiceName};

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
    let names: BTreeSet<_> = changed.iter().flat_map(ServiceKey::short_names).collect();
    for name in names {
        let mut new = short_name(table, &name, rules);
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

// === impl Claim ===

impl Claim {
    /// Returns the claim of a service. One that only has settings takes no name from another.
    pub(super) fn of(service: &Service) -> Option<Self> {
        let is_headless = service.has_headless_own;
        if !service.is_known {
            service.failure?;
            Some(if is_headless {
                Self::FailingHeadless
            } else {
                Self::Failing
            })
        } else if service.is_headless {
            Some(Self::Headless)
        } else if is_headless {
            Some(Self::OtherWithSettings)
        } else {
            Some(Self::Other)
        }
    }
}

/// Returns the namespace that owns a short name. Thousands of namespaces may have such a service.
fn owner(table: &Table, name: &ServiceName, rules: &Rules) -> Result<Namespace, NoOwner> {
    if rules.short_names == ShortNames::None {
        return Err(NoOwner::Off);
    }
    let claim_of = |namespace: &Namespace| {
        let service = table.service(namespace.as_str(), name.as_str());
        service.and_then(Claim::of)
    };
    if let Some(pin) = rules.pinned_names.get(name).cloned() {
        // A pinned name has no fallback.
        return match claim_of(&pin) {
            Some(_) => Ok(pin),
            None => Err(NoOwner::Pinned(pin)),
        };
    }
    let default = rules.default_namespace.as_ref();
    let default_claim = default.and_then(claim_of);
    if let Some(default) = default.filter(|_| default_claim >= Some(Claim::Other)) {
        return Ok(default.clone());
    }
    if rules.short_names == ShortNames::Pinned {
        let default = default.filter(|_| default_claim.is_some());
        return default.cloned().ok_or(NoOwner::Unpinned);
    }
    // An alias owns the name before its sources.
    let is_source = |source: &ServiceKey| {
        let mut aliases = rules.aliases.of_source(source).iter();
        aliases.any(|alias| {
            alias.service == *name && claim_of(&alias.namespace) == Some(Claim::Headless)
        })
    };
    let owners = |claim| {
        let claimants = table.claimants(name, claim);
        let owners = claimants.filter(|one| !is_source(one));
        owners.map(|one| one.namespace.clone())
    };
    let mut headless = owners(Claim::Headless);
    match (headless.next(), headless.next()) {
        (Some(only), None) => return Ok(only),
        (Some(_), Some(_)) => return Err(NoOwner::Ambiguous),
        (None, _) => {}
    }
    if let Some(default) = default.filter(|_| default_claim.is_some()) {
        return Ok(default.clone());
    }
    let mut others = owners(Claim::OtherWithSettings).chain(owners(Claim::FailingHeadless));
    match (others.next(), others.next()) {
        (Some(only), None) => Ok(only),
        _ => Err(NoOwner::Unpinned),
    }
}

/// Determines the owner of a short name and its problems, if a namespace claims it.
fn short_name(table: &Table, name: &ServiceName, rules: &Rules) -> Option<ShortName> {
    let mut claims = Claim::VARIANTS.iter();
    claims.find(|claim| table.claimants(name, **claim).next().is_some())?;
    let owner = owner(table, name, rules);
    let problems = match &owner {
        Ok(namespace) => {
            let service = table.service(namespace.as_str(), name.as_str());
            service.map_or_else(BTreeSet::new, |owner| hidden_names(table, owner))
        }
        Err(NoOwner::Ambiguous) => {
            let claimants = table.claimants(name, Claim::Headless).take(MAX_LISTED + 1);
            let mut namespaces: Vec<&str> = claimants.map(|one| one.namespace.as_str()).collect();
            if let Some(last) = namespaces.get_mut(MAX_LISTED) {
                *last = "others";
            }
            let namespaces = namespaces.join(", ");
            let detail = format!(
                "exists in namespaces {namespaces}; no setting assigns it, so it is NXDOMAIN"
            );
            [Problem::new(ProblemKind::ShortName, detail).of_name(name.as_str())].into()
        }
        Err(_) => BTreeSet::new(),
    };
    Some(ShortName {
        owner,
        problems: problems.into_iter().collect(),
    })
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
