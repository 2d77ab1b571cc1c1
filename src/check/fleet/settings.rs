//! Settings. Each cluster has its own (rule K6), so that a forgotten one makes answers differ.

use std::collections::BTreeMap;

use serde_json::Value;

use super::mismatch::{Key, Mismatch, differs, of_problem};
use super::observer::Observer;
use crate::check::facts::reason;
use crate::check::finding::{Check, Finding, items, key_of, text};
use crate::model::ProblemKind;

/// The settings of the server that decide which hosts a service has.
const OF_MEMBERS: [&str; 4] = ["aliases", "namespaces", "excludeClusters", "localMembers"];

/// The settings of a service and what follows from them, with what to do.
const OF_SERVICE: [(&str, &str); 7] = [
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
    ("step of the failover order that answers", EXPLAIN),
    ("why its name fails", EXPLAIN),
    (
        "owner of the short name",
        "assign it with the same settings in every cluster: shortNames.pinned, shortNames.defaultNamespace, or \
         shortNames.which",
    ),
];
const EXPLAIN: &str = "compare what explain says in these clusters: global-dns explain";

/// The number of settings of a service. The others follow from them.
const INDEPENDENT: usize = 4;

/// Returns the texts of [`OF_SERVICE`] in a row of the table. Empty: it is not set.
fn texts(service: &Value, own: &str) -> [Option<String>; OF_SERVICE.len()] {
    let failover = &service["failover"];
    let order = text(failover, "order");
    let has_endpoints = service["endpoints"].as_u64() != Some(0);
    let ttl = service["ttl"].as_u64().filter(|_| has_endpoints);
    // The same order has another step in each cluster if it names this one.
    let step = failover["step"]
        .as_u64()
        .filter(|_| !order.contains("local"));
    let short = service["ownsShortName"].as_bool();
    [
        ttl.map(|ttl| ttl.to_string()),
        Some(resolve(order, own)),
        Some(resolve(text(service, "expected"), own)),
        Some(text(service, "gatewayDown").to_owned()),
        step.map(|step| step.to_string()),
        Some(text(service, "failure").to_owned()),
        short.map(|is_owner| {
            if is_owner {
                key_of(service).join("/")
            } else {
                String::new()
            }
        }),
    ]
}

/// Compares the settings of each service among the observers that have it. One that cannot be read explains all others. What
/// follows from settings may also follow from other hosts.
pub(super) fn compare<'m>(observers: &[Observer<'m>], rows: &mut Vec<Mismatch<'m>>) {
    let mut services: BTreeMap<Key<'m>, Vec<(&Observer<'m>, &Value)>> = BTreeMap::new();
    for observer in observers {
        for (key, service) in &observer.services {
            services.entry(*key).or_default().push((observer, service));
        }
    }
    for (key, seen) in services {
        let is_explained = rows.iter().any(|row| row.key == Some(key));
        let known = rows.len();
        for (observer, _) in &seen {
            let is_wanted = |kind| kind == ProblemKind::SettingWithoutEffect;
            rows.extend(observer.problem(key, None, &is_wanted).map(|problem| {
                let what = format!("in {}", observer.name);
                Mismatch::new(Some(key), what, "", of_problem(problem, &reason(problem)))
            }));
        }
        let is_unreadable = rows.len() > known;
        for (index, (what, hint)) in OF_SERVICE.into_iter().enumerate() {
            let follows = index >= INDEPENDENT && (is_explained || rows.len() > known);
            let differs_as = |is_literal: bool| {
                differs(seen.iter().filter_map(|(observer, service)| {
                    let own = if is_literal {
                        "local"
                    } else {
                        observer.cluster
                    };
                    Some((texts(service, own)[index].clone()?, &*observer.name))
                }))
            };
            // Equal texts are equal, although `local` is another cluster everywhere.
            if let Some(seen) = differs_as(true)
                .and_then(|_| differs_as(false))
                .filter(|_| !follows && !is_unreadable)
            {
                let hint = match hint {
                    EXPLAIN => format!("{EXPLAIN} {}.{}", key[1], key[0]),
                    hint => hint.to_owned(),
                };
                let cause = Finding::failing(Check::FleetSettings, "", hint);
                rows.push(Mismatch::new(Some(key), what, seen, cause));
            }
        }
    }
}

/// Replaces `local` in a setting by the name of a cluster, and sorts clusters that are joined: their sequence means nothing.
fn resolve(setting: &str, own: &str) -> String {
    let steps = setting.split(':').map(|step| {
        let terms = step
            .split('+')
            .map(|term| if term == "local" { own } else { term });
        let mut terms: Vec<&str> = terms.collect();
        terms.sort_unstable();
        terms.join("+")
    });
    steps.collect::<Vec<_>>().join(":")
}

/// Returns the rows of the settings that explain that observers have other hosts of a cluster, and removes these observers from
/// `compared`, which has for each the number of its hosts.
pub(super) fn explain<'m, C>(
    key: Key<'m>,
    cluster: &str,
    compared: &mut Vec<(&Observer<'m>, C)>,
    has_hosts: impl Fn(&C) -> bool,
) -> Vec<Mismatch<'m>> {
    let mut rows = Vec::new();
    for name in OF_MEMBERS {
        let seen = compared
            .iter()
            .map(|(one, _)| (setting_text(one, name), &*one.name));
        let Some(seen) = differs(seen) else { continue };
        let count = compared.len();
        compared.retain(|(one, cell)| {
            // An alias adds hosts. The others remove them.
            let is_possible = has_hosts(cell) == (name == "aliases");
            !(is_possible && concerns(one, name, key, cluster))
        });
        if compared.len() < count {
            let hint = format!("set the same {name} in every cluster, if that is not intended");
            let cause = Finding::failing(Check::FleetSettings, "", hint);
            rows.push(Mismatch::new(Some(key), name, seen, cause));
        }
    }
    rows
}

/// Returns whether a setting of an observer decides which hosts of a cluster a service has.
fn concerns(observer: &Observer<'_>, name: &str, key: Key<'_>, cluster: &str) -> bool {
    let settings = &observer.status["settings"];
    let setting = &settings[name];
    let has = |wanted: &str| items(settings, name).any(|one| one == wanted);
    let service = key.join("/");
    match name {
        "aliases" => setting
            .as_object()
            .into_iter()
            .flatten()
            .any(|(alias, sources)| {
                let mut sources = sources.as_array().into_iter().flatten();
                *alias == service || sources.any(|one| *one == service)
            }),
        "namespaces" => setting.as_array().is_some_and(|all| !all.is_empty()) && !has(key[0]),
        "excludeClusters" => has(cluster),
        _ => observer.cluster == cluster && setting.as_str().is_some_and(|one| one != "matching"),
    }
}

fn setting_text(observer: &Observer<'_>, name: &str) -> String {
    let text = observer.status["settings"][name]
        .to_string()
        .replace('"', "");
    match text.as_str() {
        "null" | "[]" | "{}" => "default".to_owned(),
        _ => text,
    }
}
