//! Settings. Each cluster has its own (rule K6), so that a forgotten one makes answers differ.

use std::collections::BTreeMap;

use serde_json::Value;

use super::observer::{Cell, Key, Observer, ServiceLines, differs, of_problem};
use crate::check::facts::reason;
use crate::check::finding::{Check, Finding, items, key_of, text};
use crate::model::{ProblemKind, join_texts};

/// The settings of the server that decide which hosts a service has.
const OF_MEMBERS: [&str; 4] = ["aliases", "namespaces", "excludeClusters", "localMembers"];

/// What is compared in items of the API about a service or an endpoint.
pub(super) struct Aspect {
    pub name: &'static str,
    /// What to do if it differs. `SERVICE` stands for the name of the service.
    pub hint: &'static str,
    /// Returns its text in an item, with the name of a cluster for `local`. Empty: it is not set. `None`: it is not compared.
    pub text: fn(&Value, &str) -> Option<String>,
}

const SETTINGS: [Aspect; 4] = [
    Aspect {
        name: "TTL",
        hint: "set annotation global-dns/ttl on the Service of every cluster, or the same services or ttl in the settings",
        text: |service, _| {
            let ttl = service["ttl"].as_u64();
            Some(ttl.filter(|_| service["endpoints"] != 0)?.to_string())
        },
    },
    Aspect {
        name: "failover order",
        hint: "set annotation global-dns/failover on the Service of every cluster, or the same services or failover.default in the \
               settings",
        text: |service, own| Some(resolve(text(service, "failover.order"), own)),
    },
    Aspect {
        name: "expected clusters",
        hint: "set annotation global-dns/expected-clusters on the Service of every cluster, or remove it everywhere",
        text: |service, own| Some(resolve(text(service, "expected"), own)),
    },
    Aspect {
        name: "gateway-down",
        hint: "set annotation global-dns/gateway-down on the Service of every cluster, or the same services or gatewayDown in the \
               settings",
        text: |service, _| Some(text(service, "gatewayDown").to_owned()),
    },
];

/// What follows from settings. It may also follow from other hosts.
const RESULTS: [Aspect; 3] = [
    Aspect {
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
    Aspect {
        name: "why its name fails",
        hint: EXPLAIN,
        text: |service, _| Some(text(service, "failure").to_owned()),
    },
    Aspect {
        name: "owner of the short name",
        hint: "assign it with the same settings in every cluster: shortNames.pinned, shortNames.defaultNamespace, or \
               shortNames.which",
        text: |service, _| {
            let is_owner = service["ownsShortName"].as_bool()?;
            let owner = is_owner.then(|| key_of(service).join("/"));
            Some(owner.unwrap_or_default())
        },
    },
];
const EXPLAIN: &str = "compare what explain says in these clusters: global-dns explain SERVICE";

/// Compares the settings of each service among the observers that have it. One that cannot be read explains all others.
pub(super) fn compare(observers: &[Observer<'_>], rows: &mut ServiceLines) {
    let mut services: BTreeMap<Key<'_>, Vec<(&Observer<'_>, &Value)>> = BTreeMap::new();
    for observer in observers {
        for (key, service) in &observer.services {
            services.entry(*key).or_default().push((observer, service));
        }
    }
    for (key, seen) in services {
        let mut lines = Vec::new();
        for (observer, _) in &seen {
            let is_wanted = |kind| kind == ProblemKind::SettingWithoutEffect;
            if let Some(problem) = observer.problem(key, "", is_wanted) {
                let why = format!("in {}: {}", observer.name, reason(problem));
                lines.push(of_problem(problem, &why));
            }
        }
        let difference = |aspect: &Aspect| {
            let what = format!("{}: {}", aspect.name, aspect.compare(&seen)?);
            let hint = aspect
                .hint
                .replace("SERVICE", &format!("{}.{}", key[1], key[0]));
            Some(Check::FleetSettings.failing(what, hint))
        };
        if lines.is_empty() {
            lines.extend(SETTINGS.iter().filter_map(difference));
        }
        let service = key.join("/");
        let is_explained = rows.values().any(|services| services.contains(&service));
        if lines.is_empty() && !is_explained {
            lines.extend(RESULTS.iter().find_map(difference));
        }
        for line in lines {
            rows.entry(line).or_default().insert(service.clone());
        }
    }
}

impl Aspect {
    /// Returns who sees what if it differs among the items of observers.
    pub(super) fn compare(&self, seen: &[(&Observer<'_>, &Value)]) -> Option<String> {
        let with = |local: Option<&str>| {
            differs(seen.iter().filter_map(|(observer, item)| {
                let text = (self.text)(item, local.unwrap_or(observer.cluster))?;
                Some((text, observer.name.as_str()))
            }))
        };
        // Equal texts are equal, although `local` is another cluster everywhere.
        with(Some("local"))?;
        with(None)
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

/// Returns the lines of the settings that explain that observers have other hosts of a cluster, and removes the cells of these
/// observers.
pub(super) fn explain(key: Key<'_>, cluster: &str, cells: &mut Vec<Cell<'_, '_>>) -> Vec<Finding> {
    let mut lines = Vec::new();
    for name in OF_MEMBERS {
        let seen = cells
            .iter()
            .map(|cell| (setting_text(cell.observer, name), &*cell.observer.name));
        let Some(seen) = differs(seen) else { continue };
        let count = cells.len();
        cells.retain(|cell| {
            // An alias adds hosts. The others remove them.
            let is_possible = cell.hosts.is_empty() == (name != "aliases");
            !(is_possible && concerns(cell.observer, name, key, cluster))
        });
        if cells.len() < count {
            let what = format!("{name}: {seen}");
            let hint = format!("set the same {name} in every cluster, if that is not intended");
            lines.push(Check::FleetSettings.failing(what, hint));
        }
    }
    lines
}

/// Returns whether a setting of an observer decides which hosts of a cluster a service has.
fn concerns(observer: &Observer<'_>, name: &str, key: Key<'_>, cluster: &str) -> bool {
    let settings = &observer.status["settings"];
    let has = |wanted: &str| items(settings, name).any(|one| one == wanted);
    let service = key.join("/");
    match name {
        "aliases" => {
            let mut aliases = settings[name].as_object().into_iter().flatten();
            aliases.any(|(alias, sources)| {
                let mut sources = sources.as_array().into_iter().flatten();
                *alias == service || sources.any(|one| *one == service)
            })
        }
        "namespaces" => items(settings, name).next().is_some() && !has(key[0]),
        "excludeClusters" => has(cluster),
        _ => observer.cluster == cluster && !["", "matching"].contains(&text(settings, name)),
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
