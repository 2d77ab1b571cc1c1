//! Settings of services. Each cluster has its own (rule K6), so that a forgotten one makes answers differ.

use std::collections::BTreeSet;

use serde_json::Value;

use super::causes::{Cause, Causes, describe, group, join};
use super::observer::{Key, Observer};
use crate::check::finding::{Check, Finding, items, text};
use crate::model::ProblemKind;

/// A setting of a service, or a consequence of settings.
struct Setting {
    /// Its name in sentences.
    name: &'static str,
    /// Its text in an item of `table`; empty if it is not set. `None`: it cannot be compared.
    text: fn(&Value) -> Option<String>,
    /// What to do if it differs.
    hint: &'static str,
    /// Whether it may differ because of other settings or of hosts, so that it is reported only without such a difference.
    is_consequence: bool,
}

const SETTINGS: [Setting; 7] = [
    Setting {
        name: "TTL",
        text: |service| {
            let is_empty = service["endpoints"].as_u64() == Some(0);
            (!is_empty)
                .then(|| service["ttl"].as_u64())?
                .map(|ttl| ttl.to_string())
        },
        hint: "set annotation global-dns/ttl on the Service of every cluster, and the same ttl",
        is_consequence: false,
    },
    Setting {
        name: "failover order",
        text: |service| Some(text(&service["failover"], "order").to_owned()),
        hint: "set annotation global-dns/failover on the Service of every cluster, or the same failover.default",
        is_consequence: false,
    },
    Setting {
        name: "expected clusters",
        text: |service| Some(text(service, "expected").to_owned()),
        hint: "set annotation global-dns/expected-clusters on the Service of every cluster, or remove it everywhere",
        is_consequence: false,
    },
    Setting {
        name: "gateway-down",
        text: |service| Some(text(service, "gatewayDown").to_owned()),
        hint: "set annotation global-dns/gateway-down on the Service of every cluster, and the same gatewayDown",
        is_consequence: false,
    },
    Setting {
        name: "the step of the failover order that answers",
        text: |service| Some(step_of(service)),
        hint: "global-dns explain NAME shows the state of each step",
        is_consequence: true,
    },
    Setting {
        name: "its name fails",
        text: |service| Some(failure_of(service)),
        hint: "global-dns explain NAME in this cluster shows what the name waits for",
        is_consequence: true,
    },
    Setting {
        name: "short name",
        text: |service| match service["ownsShortName"].as_bool()? {
            true => Some(text(service, "service").to_owned()),
            false => Some(String::new()),
        },
        hint: "assign it with the same settings in every cluster: shortNames.pinned, shortNames.defaultNamespace, or \
               shortNames.which",
        is_consequence: true,
    },
];

/// Compares the settings of each service among the observers that have it. `differing` are the services whose hosts differ.
pub(super) fn compare(observers: &[Observer<'_>], differing: &BTreeSet<Key<'_>>) -> Vec<Finding> {
    let mut causes = Causes::default();
    let services = group(observers.iter().flat_map(|observer| {
        let services = observer.services.iter();
        services.map(move |(key, service)| (*key, (*service, observer)))
    }));
    for (key, views) in &services {
        let found = of_service(*key, views, differing.contains(key));
        found.into_iter().for_each(|cause| causes.add(*key, cause));
    }
    let mut findings: Vec<Finding> = causes.findings(Check::FleetSettings).collect();
    if findings.is_empty() && observers.len() > 1 {
        let sentence = "settings of services are the same everywhere";
        findings.push(Finding::ok(Check::FleetSettings, sentence));
    }
    findings
}

/// Compares the settings of a service. One that cannot be read is the cause of all other differences.
fn of_service<'m>(
    key: Key<'m>,
    views: &[(&'m Value, &Observer<'m>)],
    has_other_hosts: bool,
) -> Vec<Cause> {
    let unreadable = <&str>::from(ProblemKind::SettingWithoutEffect);
    let unreadable = views.iter().filter_map(|(_, observer)| {
        let mut problems = observer.problems_of(key, None);
        let problem = problems.find(|one| text(one, "kind") == unreadable)?;
        Some(Cause::of_problem(&format!("in {}", observer.name), problem))
    });
    let mut causes: Vec<Cause> = unreadable.collect();
    if !causes.is_empty() {
        return causes;
    }
    for setting in &SETTINGS {
        if setting.is_consequence && (has_other_hosts || !causes.is_empty()) {
            continue;
        }
        let groups = |own: bool| {
            let values = views.iter().filter_map(|(service, observer)| {
                let value = (setting.text)(service)?;
                let value = if own {
                    resolve(&value, &observer.cluster)
                } else {
                    value
                };
                Some((value, observer.name.as_str()))
            });
            group(values)
        };
        let mut values = groups(false);
        if values.len() < 2 || groups(true).len() < 2 {
            continue;
        }
        if let Some(without) = values.remove("") {
            values.insert("none".to_owned(), without);
        }
        let predicate = format!("{}: {}", setting.name, describe(&values));
        causes.push(Cause::new(predicate, setting.hint));
    }
    causes
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

/// Returns the step that answers.
fn step_of(service: &Value) -> String {
    let failover = &service["failover"];
    let index = failover["step"]
        .as_u64()
        .and_then(|step| usize::try_from(step).ok());
    let step = index.and_then(|step| failover["steps"].get(step.wrapping_sub(1)));
    step.map_or_else(String::new, |step| text(step, "clusters").to_owned())
}

/// Returns why the name of a service fails.
fn failure_of(service: &Value) -> String {
    let missing = items(service, "missingClusters").filter_map(Value::as_str);
    match join(missing).as_str() {
        "" => text(service, "failure").to_owned(),
        missing => format!("waits for {missing}"),
    }
}
