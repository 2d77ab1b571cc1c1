//! What Links say of the Services of their clusters: which are not mirrored, and why.

use std::collections::{BTreeMap, BTreeSet};

use super::objects::{Link, LinkedService};
use super::{Check, Finding, Known, some_of};
use crate::mirror::{ClusterName, Namespace, ServiceKey};
use crate::table::{ConflictKind, Origin, Rules, Table};

/// What Kubernetes accepts as the name of a Service (RFC 1123).
const LONGEST_NAME: usize = 63;
/// Reason of a condition: the namespace does not exist here. A check of its own.
const MISSING_NAMESPACE: &str = "MissingNamespace";
/// Reason of a condition that every headless Service has while headless mirroring is on, although it is mirrored.
const INVALID_SERVICE: &str = "InvalidService";
/// Characters of a message that a report can show.
const LONGEST_MESSAGE: usize = 120;

/// Lists the services that Links say are not mirrored.
pub(super) fn status(table: &Table, links: &[Link], rules: &Rules) -> Finding {
    let mirrored = mirrored(table, rules);
    let mut failures = BTreeSet::new();
    for (link, service) in services(links) {
        let Some(failure) = &service.failure else {
            continue;
        };
        let cluster = link.cluster.parse().map(|link| rules.name_of(&link));
        let Ok(cluster) = cluster else { continue };
        let place = (service.namespace.clone(), service.name.clone(), cluster);
        let is_told_elsewhere =
            failure.reason == MISSING_NAMESPACE || mirror_name(service, link).len() > LONGEST_NAME;
        let is_mirrored = failure.reason == INVALID_SERVICE && mirrored.contains(&place);
        if is_told_elsewhere || is_mirrored || rules.excluded_clusters.contains(&place.2) {
            continue;
        }
        let message: String = failure.message.chars().take(LONGEST_MESSAGE).collect();
        let (namespace, name, cluster) = place;
        let reason = &failure.reason;
        failures.insert(format!(
            "{namespace}/{name} of cluster '{cluster}' ({reason}: {message})"
        ));
    }
    match failures.is_empty() {
        true => Check::LinkStatus.green("no Link reports that mirroring fails"),
        false => Check::LinkStatus.yellow(
            format!("Links report that mirroring fails: {}", some_of(failures)),
            "kubectl get links.multicluster.linkerd.io -A -o yaml shows each condition, and the log of the link's \
             controller why; a headless Service must be exported with mirror.linkerd.io/exported=true",
        ),
    }
}

/// Returns what is mirrored: namespace and name of each service, and its cluster after aliases.
fn mirrored(table: &Table, rules: &Rules) -> BTreeSet<(String, String, ClusterName)> {
    let place = |key: &ServiceKey, cluster: ClusterName| {
        let (namespace, service) = (&key.namespace, &key.service);
        (namespace.to_string(), service.to_string(), cluster)
    };
    let headless = table.services().flat_map(|service| {
        let mirrors = service.mirrors.iter();
        mirrors.map(|(cluster, _)| place(&service.key, cluster.clone()))
    });
    let others = table.skipped();
    let others = others.filter_map(|(_, skip)| skip.other_kind());
    let others = others.map(|(key, link)| place(key, rules.name_of(link)));
    headless.chain(others).collect()
}

fn services(links: &[Link]) -> impl Iterator<Item = (&Link, &LinkedService)> {
    let of_link = |link| {
        let Link { services, .. }: &Link = link;
        services.iter().map(move |service| (link, service))
    };
    links.iter().flat_map(of_link)
}

/// Returns what Linkerd calls the mirror of a service.
fn mirror_name(service: &LinkedService, link: &Link) -> String {
    format!("{}-{}", service.name, link.cluster)
}

/// Lists namespaces that do not exist here: those of exported services, and those that flags name.
pub(super) fn namespaces(
    links: &Known<Vec<Link>>,
    named: &Known<Vec<(Namespace, bool)>>,
) -> Finding {
    let mut missing: BTreeMap<String, String> = BTreeMap::new();
    for (link, service) in services(links.as_deref().unwrap_or_default()) {
        let failure = service.failure.as_ref();
        if failure.is_some_and(|failure| failure.reason == MISSING_NAMESPACE) {
            let (name, cluster) = (&service.name, &link.cluster);
            let of = format!("of {name} in cluster '{cluster}'");
            missing.entry(service.namespace.clone()).or_insert(of);
        }
    }
    for (namespace, _) in named.iter().flatten().filter(|(_, exists)| !exists) {
        missing.insert(namespace.to_string(), "which a flag names".to_owned());
    }
    let Some(first) = missing.keys().next() else {
        return match (links, named) {
            (Err(reason), _) | (_, Err(reason)) => {
                Check::Namespaces.not_checked("missing namespaces", reason)
            }
            (Ok(_), Ok(_)) => {
                Check::Namespaces.green("every namespace that Links and flags name exists")
            }
        };
    };
    let hint = format!(
        "Linkerd mirrors into the namespace of the same name: kubectl create namespace {first}, or turn \
         enableNamespaceCreation on for the link; if a flag names it, correct the flag"
    );
    let words = missing.iter().map(|(name, of)| format!("'{name}', {of}"));
    Check::Namespaces.yellow(
        format!("namespaces that do not exist here: {}", some_of(words)),
        hint,
    )
}

/// Lists what cannot be mirrored because the mirror's name would be too long: services of other clusters here, as far as
/// Links are known, and members of this cluster everywhere else.
pub(super) fn long_names(table: &Table, links: &Known<Vec<Link>>, rules: &Rules) -> Finding {
    let mut long = BTreeSet::new();
    for (link, service) in services(links.as_deref().unwrap_or_default()) {
        let name = mirror_name(service, link);
        if name.len() > LONGEST_NAME {
            long.insert(format!("Service/{}/{name}", service.namespace));
        }
    }
    for service in table.services() {
        let is_exported = service
            .conflicts
            .iter()
            .all(|conflict| conflict.kind != ConflictKind::NotExported);
        let local = service
            .endpoints
            .iter()
            .filter(|e| e.origin == Origin::Local);
        let hosts: Vec<&str> = local.map(|endpoint| endpoint.hostname.as_str()).collect();
        if hosts.is_empty() || !is_exported {
            continue;
        }
        let names = hosts.into_iter().chain([service.key.service.as_str()]);
        for name in names.map(|name| format!("{name}-{}", rules.cluster_name)) {
            if name.len() > LONGEST_NAME {
                long.insert(format!(
                    "Service/{}/{name} in other clusters",
                    service.key.namespace
                ));
            }
        }
    }
    match long.is_empty() {
        true => Check::LongNames.green("no mirror has a name of more than 63 characters"),
        false => Check::LongNames.yellow(
            format!(
                "mirrors that Kubernetes refuses, with names of more than 63 characters: {}",
                some_of(long)
            ),
            "a mirror is called like its Service or its pod, a hyphen, and the cluster: shorten one of them",
        ),
    }
}
