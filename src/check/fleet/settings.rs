//! Settings. Each cluster has its own (rule K6), so that a forgotten one makes answers differ.

use std::collections::BTreeMap;

use serde_json::Value;

use super::mismatch::{Key, Mismatch, differs, of_problem};
use super::observer::Observer;
use crate::check::facts::reason;
use crate::check::finding::{Check, Finding, items, key_of, text};
use crate::model::{ProblemKind, join_texts};

/// The settings of the server that decide which hosts a service has.
const OF_MEMBERS: [&str; 4] = ["aliases", "namespaces", "excludeClusters", "localMembers"];

/// A setting of a service, or what follows from its settings.
struct Setting {
    name: &'static str,
    /// What to do if it differs.
    hint: &'static str,
    /// Returns its text in a row of the table, with the name of a cluster for `local`. Empty: it is not set. `None`: it is not compared.
    text: fn(&Value, &str) -> Option<String>,
}

const SETTINGS: [Setting; 4] = [
    Setting {
        name: "TTL",
        hint: "set annotation global-dns/ttl on the Service of every cluster, or the same services or ttl in the settings",
        text: |service, _| {
            let ttl = service["ttl"].as_u64();
            Some(ttl.filter(|_| service["endpoints"] != 0)?.to_string())
        },
    },
    Setting {
        name: "failover order",
        hint: "set annotation global-dns/failover on the Service of every cluster, or the same services or failover.default in the \
               settings",
        text: |service, own| Some(resolve(text(&service["failover"], "order"), own)),
    },
    Setting {
        name: "expected clusters",
        hint: "set annotation global-dns/expected-clusters on the Service of every cluster, or remove it everywhere",
        text: |service, own| Some(resolve(text(service, "expected"), own)),
    },
    Setting {
        name: "gateway-down",
        hint: "set annotation global-dns/gateway-down on the Service of every cluster, or the same services or gatewayDown in the \
               settings",
        text: |service, _| Some(text(service, "gatewayDown").to_owned()),
    },
];

/// What follows from settings. It may also follow from other hosts.
const RESULTS: [Setting; 3] = [
    Setting {
        name: "step of the failover order that answers",
        hint: EXPLAIN,
        text: |service, _| {
            let failover = &service["failover"];
            // The same order has another step in each cluster if it names this one.
            let step = failover["step"].as_u64();
            let is_compared = !text(failover, "order").contains("local");
            Some(step.filter(|_| is_compared)?.to_string())
        },
    },
    Setting {
        name: "why its name fails",
        hint: EXPLAIN,
        text: |service, _| Some(text(service, "failure").to_owned()),
    },
    Setting {
        name: "owner of the short name",
        hint: "assign it with the same settings in every cluster: shortNames.pinned, shortNames.defaultNamespace, or \
               shortNames.which",
        text: |service, _| {
            let owner = service["ownsShortName"]
                .as_bool()?
                .then(|| key_of(service).join("/"));
            Some(owner.unwrap_or_default())
        },
    },
];
const EXPLAIN: &str = "compare what explain says in these clusters: global-dns explain";

/// Compares the settings of each service among the observers that have it. One that cannot be read explains all others.
pub(super) fn compare<'m>(observers: &[Observer<'m>], rows: &mut Vec<Mismatch<'m>>) {
    let mut services: BTreeMap<Key<'m>, Vec<(&Observer<'m>, &Value)>> = BTreeMap::new();
    for observer in observers {
        for (key, service) in &observer.services {
            services.entry(*key).or_default().push((observer, service));
        }
    }
    for (key, seen) in services {
        let mut own = Vec::new();
        for (observer, _) in &seen {
            let is_wanted = |kind| kind == ProblemKind::SettingWithoutEffect;
            if let Some(problem) = observer.problem(key, None, &is_wanted) {
                let what = format!("in {}", observer.name);
                let cause = of_problem(problem, &reason(problem));
                own.push(Mismatch::new(Some(key), what, "", cause));
            }
        }
        if own.is_empty() {
            own.extend(SETTINGS.iter().filter_map(|one| one.compare(key, &seen)));
        }
        let is_explained = rows.iter().any(|row| row.key == Some(key));
        if own.is_empty() && !is_explained {
            own.extend(RESULTS.iter().find_map(|one| one.compare(key, &seen)));
        }
        rows.extend(own);
    }
}

impl Setting {
    /// Compares it among the observers of a service.
    fn compare<'m>(
        &self,
        key: Key<'m>,
        services: &[(&Observer<'m>, &Value)],
    ) -> Option<Mismatch<'m>> {
        let texts = services.iter().filter_map(|(observer, service)| {
            Some(((self.text)(service, "local")?, observer.name.as_str()))
        });
        // Equal texts are equal, although `local` is another cluster everywhere.
        differs(texts)?;
        let seen = differs(services.iter().filter_map(|(observer, service)| {
            Some(((self.text)(service, observer.cluster)?, &*observer.name))
        }))?;
        let mut hint = self.hint.to_owned();
        if hint == EXPLAIN {
            hint = format!("{EXPLAIN} {}.{}", key[1], key[0]);
        }
        let cause = Finding::failing(Check::FleetSettings, "", hint);
        Some(Mismatch::new(Some(key), self.name, seen, cause))
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
    join_texts(steps, ":")
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
