//! Settings of services. Each cluster has its own (rule K6), so that a forgotten one makes answers differ.

use std::collections::BTreeMap;

use serde_json::Value;

use super::difference::{Aspect, Differences, compare};
use super::observer::{Key, Observer};
use crate::check::finding::{Check, Finding, key_of, text};
use crate::check::told::reason;
use crate::model::ProblemKind;

const CHECK: Check = Check::FleetSettings;

/// The settings of a service, and what follows from them.
const SETTINGS: [Aspect; 7] = [
    (
        "TTL",
        "set annotation global-dns/ttl on the Service of every cluster, and the same ttl",
    ),
    (
        "failover order",
        "set annotation global-dns/failover on the Service of every cluster, or the same failover.default",
    ),
    (
        "expected clusters",
        "set annotation global-dns/expected-clusters on the Service of every cluster, or remove it everywhere",
    ),
    (
        "gateway-down",
        "set annotation global-dns/gateway-down on the Service of every cluster, and the same gatewayDown",
    ),
    (
        "step of the failover order that answers",
        "global-dns explain NAME shows the state of each step",
    ),
    (
        "why its name fails",
        "global-dns explain NAME in this cluster shows what the name waits for",
    ),
    (
        "owner of the short name",
        "assign it with the same settings in every cluster: shortNames.pinned, shortNames.defaultNamespace, or \
         shortNames.which",
    ),
];

/// The number of settings. The others follow from them.
const INDEPENDENT: usize = 4;

/// Returns the texts of [`SETTINGS`] in a row of the table. Empty: it is not set.
fn texts(service: &Value, own: &str) -> [Option<String>; SETTINGS.len()] {
    let failover = &service["failover"];
    let has_endpoints = service["endpoints"].as_u64() != Some(0);
    let ttl = service["ttl"].as_u64().filter(|_| has_endpoints);
    let key = key_of(service).join("/");
    let short = service["ownsShortName"].as_bool();
    [
        ttl.map(|ttl| ttl.to_string()),
        Some(resolve(text(failover, "order"), own)),
        Some(resolve(text(service, "expected"), own)),
        Some(text(service, "gatewayDown").to_owned()),
        failover["step"].as_u64().map(|step| step.to_string()),
        Some(text(service, "failure").to_owned()),
        short.map(|is_owner| if is_owner { key } else { String::new() }),
    ]
}

/// Compares the settings of each service among the observers that have it. One that cannot be read explains all others. What
/// follows from settings may also follow from other hosts.
pub(super) fn compare_services<'m>(observers: &[Observer<'m>], found: &mut Differences<'m>) {
    let mut services: BTreeMap<Key<'m>, Vec<&Observer<'m>>> = BTreeMap::new();
    for observer in observers {
        let keys = observer.services.keys();
        keys.for_each(|key| services.entry(*key).or_default().push(observer));
    }
    for (key, observers) in services {
        let unreadable = observers.iter().filter_map(|one| unreadable(one, key));
        let unreadable: Vec<Finding> = unreadable.collect();
        if !unreadable.is_empty() {
            found.add_service(key, unreadable);
            continue;
        }
        let seen = observers.iter();
        let seen = seen.map(|one| (&*one.name, texts(one.services[&key], &one.cluster)));
        let seen: Vec<_> = seen.collect();
        let is_explained = found.has(key);
        let findings = compare(CHECK, "", &SETTINGS, INDEPENDENT, is_explained, &seen);
        found.add_service(key, findings);
    }
}

/// Returns the finding that an observer cannot read a setting of a service.
fn unreadable(observer: &Observer<'_>, key: Key<'_>) -> Option<Finding> {
    let is_wanted = |kind| kind == ProblemKind::SettingWithoutEffect;
    let problem = observer.problem(key, None, &is_wanted)?;
    let finding = Finding::failing(CHECK, format!("in {}", observer.name), "");
    Some(finding.because_of(problem, &reason(problem)))
}

/// Replaces `local` in a setting by the name of a cluster, and sorts clusters that are joined: their sequence means nothing.
fn resolve(setting: &str, own: &str) -> String {
    let steps = setting.split(':').map(|step| {
        let terms = step.split('+');
        let terms = terms.map(|term| if term == "local" { own } else { term });
        let mut terms: Vec<&str> = terms.collect();
        terms.sort_unstable();
        terms.join("+")
    });
    steps.collect::<Vec<_>>().join(":")
}
