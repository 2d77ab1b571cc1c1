//! Settings of services: TTL, failover orders, expected clusters and short names. Each cluster has its own (rule K6), so that
//! a forgotten one makes answers differ.

use std::collections::{BTreeMap, BTreeSet};

use super::causes::{DifferenceCause, DifferenceCauses, Key, concerns, describe, group, join};
use super::clusters::ComparedCluster;
use super::services::ServiceDifferences;
use crate::check::{Check, Finding};
use crate::model::ProblemKind;
use crate::report::{FailoverReport, ServiceReport};

/// A service as several clusters have it.
type Views<'m> = Vec<(&'m ServiceReport, usize)>;

pub(super) fn compare(
    clusters: &[ComparedCluster<'_>],
    of_services: &ServiceDifferences<'_>,
) -> Vec<Finding> {
    let mut causes = DifferenceCauses::new(Check::FleetSettings);
    let views = group(clusters.iter().enumerate().flat_map(|(index, cluster)| {
        let services = cluster.services.iter();
        services.map(move |(key, service)| (*key, (*service, index)))
    }));
    for (key, views) in &views {
        if unreadable(clusters, &mut causes, *key) {
            continue;
        }
        let groups = |value: &dyn Fn(&ServiceReport, &ComparedCluster<'_>) -> String| {
            group(views.iter().map(|(service, index)| {
                let cluster = &clusters[*index];
                (value(service, cluster), cluster.name.as_str())
            }))
        };
        let mut add = |predicate: String, hint: &str| {
            causes.add(*key, DifferenceCause::new(predicate, hint));
        };
        let have_endpoints = views.iter().all(|(one, _)| !one.endpoints.is_empty());
        let ttls = groups(&|service, _| service.ttl.to_string());
        if ttls.len() > 1 && have_endpoints {
            let hint =
                "set annotation global-dns/ttl on the Service of every cluster, and the same ttl";
            add(format!("TTL {}", describe(&ttls)), hint);
        }
        let orders = groups(&|service, _| order_of(service.failover.as_ref(), None));
        let resolved =
            groups(&|service, cluster| order_of(service.failover.as_ref(), Some(&cluster.name)));
        let differs = orders.len() > 1 && resolved.len() > 1;
        if differs {
            let hint = "set annotation global-dns/failover on the Service of every cluster, or the same failover.default";
            add(format!("failover order {}", describe(&orders)), hint);
        }
        let steps = groups(&|service, _| step_of(service));
        if !differs && steps.len() > 1 && resolved.len() == 1 && !of_services.services.contains(key)
        {
            let hint = "global-dns explain NAME shows the state of each step";
            let steps = describe(&steps);
            add(
                format!("another step of the failover order answers: {steps}"),
                hint,
            );
        }
        let expected = groups(&|service, _| expected_of(service, None));
        let resolved_expected =
            groups(&|service, cluster| expected_of(service, Some(&cluster.name)));
        let failures = groups(&|service, _| match &service.failure {
            Some(_) if !service.missing_clusters.is_empty() => {
                format!("waits for {}", join(&service.missing_clusters))
            }
            Some(reason) => reason.clone(),
            None => String::new(),
        });
        if expected.len() > 1 && resolved_expected.len() > 1 {
            let hint = "set annotation global-dns/expected-clusters on the Service of every cluster, or remove it everywhere";
            add(format!("expected clusters: {}", describe(&expected)), hint);
        } else if failures.len() > 1 && !differs && steps.len() == 1 {
            let failing: BTreeMap<_, _> = failures
                .into_iter()
                .filter(|(reason, _)| !reason.is_empty())
                .collect();
            let hint = "global-dns explain NAME in this cluster shows what the name waits for";
            add(format!("its name fails: {}", describe(&failing)), hint);
        }
    }
    let mut findings: Vec<Finding> = causes.findings().collect();
    findings.extend(short_names(clusters, &views, of_services));
    if findings.is_empty() && clusters.iter().filter(|one| one.is_current()).count() > 1 {
        findings
            .push(Check::FleetSettings.green("settings of services are the same in every cluster"));
    }
    findings
}

/// Adds the settings of a service that cannot be read. Returns whether there are any: other differences are consequences.
fn unreadable<'m>(
    clusters: &[ComparedCluster<'m>],
    causes: &mut DifferenceCauses<'m>,
    key: Key<'m>,
) -> bool {
    let mut is_unreadable = false;
    let kind = ProblemKind::SettingWithoutEffect;
    for cluster in clusters.iter().filter(|one| one.is_current()) {
        let problems = cluster.problems().iter();
        for problem in problems.filter(|one| one.kind == kind && concerns(one, key)) {
            let predicate = format!(
                "{} in {}: {}",
                kind.row().sentence,
                cluster.name,
                &*problem.detail
            );
            causes.add(key, DifferenceCause::of_kind(predicate, kind));
            is_unreadable = true;
        }
    }
    is_unreadable
}

/// Returns a failover order. `own` is the name that `local` stands for.
fn order_of(failover: Option<&FailoverReport>, own: Option<&str>) -> String {
    failover.map_or_else(|| "none".to_owned(), |one| resolve(&one.order, own))
}

/// Returns expected clusters, sorted. `own` is the name that `local` stands for.
fn expected_of(service: &ServiceReport, own: Option<&str>) -> String {
    let resolved = resolve(&service.expected, own);
    let mut terms: Vec<&str> = resolved.split('+').collect();
    terms.sort_unstable();
    match terms.as_slice() {
        [""] => "none".to_owned(),
        terms => terms.join("+"),
    }
}

/// Replaces `local` in a setting by the name of a cluster, if it is given.
fn resolve(setting: &str, own: Option<&str>) -> String {
    const SEPARATORS: [char; 3] = [':', '+', '='];
    let terms = setting.split_inclusive(SEPARATORS);
    let terms = terms.map(|term| match own {
        Some(own) if term.trim_end_matches(SEPARATORS) == "local" => term.replacen("local", own, 1),
        _ => term.to_owned(),
    });
    terms.collect()
}

/// Returns the step that answers.
fn step_of(service: &ServiceReport) -> String {
    match &service.failover {
        Some(failover) => {
            let step = failover.steps.get(failover.step.wrapping_sub(1));
            step.map_or_else(String::new, |step| step.clusters.clone())
        }
        None => String::new(),
    }
}

/// Compares the namespaces of short names, among the clusters that have the service.
fn short_names(
    clusters: &[ComparedCluster<'_>],
    views: &BTreeMap<Key<'_>, Views<'_>>,
    of_services: &ServiceDifferences<'_>,
) -> Vec<Finding> {
    let mut differing: BTreeSet<&str> = BTreeSet::new();
    for (key, views) in views {
        let owners = views
            .iter()
            .filter(|(service, _)| service.owns_short_name)
            .count();
        if owners > 0 && owners < views.len() && !of_services.services.contains(key) {
            differing.insert(key.1);
        }
    }
    let findings = differing.into_iter().map(|name| {
        let current = clusters.iter().filter(|one| one.is_current());
        let owners = group(current.map(|cluster| {
            let mut services = cluster.services.iter();
            let owner =
                services.find(|((_, service), one)| *service == name && one.owns_short_name);
            let owner = owner.map_or("nobody", |((namespace, _), _)| *namespace);
            (owner, cluster.name.as_str())
        }));
        let sentence = format!("short name '{name}' belongs to {}", describe(&owners));
        Check::FleetSettings.red(sentence, ProblemKind::ShortName.hint())
    });
    findings.collect()
}
