//! What Links say of the Services of their clusters: which are not mirrored, and why.

use std::collections::{BTreeMap, BTreeSet};

use super::objects::{Failure, Link, LinkedService};
use super::{Check, Finding, Known, some_of};
use crate::mirror::{ClusterName, Namespace, ServiceKey};
use crate::table::{ConflictKind, Origin, Rules, Service, Table};

/// What Kubernetes accepts as the name of a Service (RFC 1123).
const LONGEST_NAME: usize = 63;
/// Reason of a condition: the namespace does not exist here. A check of its own.
const MISSING_NAMESPACE: &str = "MissingNamespace";
/// Reason of a condition that every headless Service has while headless mirroring is on, although it is mirrored.
const INVALID_SERVICE: &str = "InvalidService";
/// Characters of a message that a report can show.
const LONGEST_MESSAGE: usize = 120;

/// Namespace and name of a service, and its cluster after aliases.
type Place = (String, String, ClusterName);

/// Lists the services that Links say are not mirrored.
pub(super) fn status(table: &Table, links: &[Link], rules: &Rules) -> Finding {
    let mirrored = mirrored(table, rules);
    let failures = services(links).filter_map(|(link, service)| {
        let failure = service.failure.as_ref()?;
        let place = place(link, service, rules)?;
        let is_mirrored = failure.reason == INVALID_SERVICE && mirrored.contains(&place);
        let is_excluded = rules.excluded_clusters.contains(&place.2);
        let is_reported = !is_mirrored && !is_excluded && !is_told_elsewhere(link, service);
        is_reported.then(|| failure_words(&place, failure))
    });
    let failures: BTreeSet<String> = failures.collect();
    match failures.is_empty() {
        true => Check::LinkStatus.green("no Link reports that mirroring fails"),
        false => Check::LinkStatus.yellow(
            format!("Links report that mirroring fails: {}", some_of(failures)),
            "kubectl get links.multicluster.linkerd.io -A -o yaml shows each condition, and the log of the link's \
             controller why; a headless Service must be exported with mirror.linkerd.io/exported=true",
        ),
    }
}

/// Returns the place of a service that a Link names, if its cluster has a valid name.
fn place(link: &Link, service: &LinkedService, rules: &Rules) -> Option<Place> {
    let cluster = rules.name_of(&link.cluster.parse().ok()?);
    Some((service.namespace.clone(), service.name.clone(), cluster))
}

/// Tells whether another check reports why a service is not mirrored.
fn is_told_elsewhere(link: &Link, service: &LinkedService) -> bool {
    let failure = service.failure.as_ref();
    failure.is_some_and(|failure| failure.reason == MISSING_NAMESPACE)
        || mirror_name(service, link).len() > LONGEST_NAME
}

/// Writes what a Link says of a service that is not mirrored.
fn failure_words((namespace, name, cluster): &Place, failure: &Failure) -> String {
    let message: String = failure.message.chars().take(LONGEST_MESSAGE).collect();
    let reason = &failure.reason;
    format!("{namespace}/{name} of cluster '{cluster}' ({reason}: {message})")
}

/// Returns what is mirrored.
fn mirrored(table: &Table, rules: &Rules) -> BTreeSet<Place> {
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

/// Returns every service that Links name.
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
    let missing = missing_namespaces(
        links.as_deref().unwrap_or_default(),
        named.as_deref().unwrap_or_default(),
    );
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
    let sentence = format!("namespaces that do not exist here: {}", some_of(words));
    Check::Namespaces.yellow(sentence, hint)
}

/// Returns the namespaces that do not exist here, each with what names it.
fn missing_namespaces(links: &[Link], named: &[(Namespace, bool)]) -> BTreeMap<String, String> {
    let mut missing: BTreeMap<String, String> = BTreeMap::new();
    for (link, service) in services(links) {
        let failure = service.failure.as_ref();
        if failure.is_some_and(|failure| failure.reason == MISSING_NAMESPACE) {
            let (name, cluster) = (&service.name, &link.cluster);
            let of = format!("of {name} in cluster '{cluster}'");
            missing.entry(service.namespace.clone()).or_insert(of);
        }
    }
    for (namespace, _) in named.iter().filter(|(_, exists)| !exists) {
        missing.insert(namespace.to_string(), "which a flag names".to_owned());
    }
    missing
}

/// Lists what cannot be mirrored because the mirror's name would be too long: services of other clusters here, as far as
/// Links are known, and members of this cluster everywhere else.
pub(super) fn long_names(table: &Table, links: &Known<Vec<Link>>, rules: &Rules) -> Finding {
    let mut long = long_names_here(links.as_deref().unwrap_or_default());
    long.extend(
        table
            .services()
            .flat_map(|s| long_names_elsewhere(s, rules)),
    );
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

/// Returns the mirrors in this cluster whose names would be too long.
fn long_names_here(links: &[Link]) -> BTreeSet<String> {
    let mirrors = services(links).map(|(link, service)| (service, mirror_name(service, link)));
    let long = mirrors.filter(|(_, name)| name.len() > LONGEST_NAME);
    long.map(|(service, name)| format!("Service/{}/{name}", service.namespace))
        .collect()
}

/// Returns the mirrors in other clusters whose names would be too long: of a service that has members in this cluster,
/// and is exported.
fn long_names_elsewhere(service: &Service, rules: &Rules) -> Vec<String> {
    let mut conflicts = service.conflicts.iter();
    let local = service.endpoints.iter();
    let local = local.filter(|e| e.origin == Origin::Local);
    let hosts: Vec<&str> = local.map(|endpoint| endpoint.hostname.as_str()).collect();
    if hosts.is_empty() || conflicts.any(|one| one.kind == ConflictKind::NotExported) {
        return Vec::new();
    }
    let names = hosts.into_iter().chain([service.key.service.as_str()]);
    let names = names.map(|name| format!("{name}-{}", rules.cluster_name));
    let long = names.filter(|name| name.len() > LONGEST_NAME);
    let namespace = &service.key.namespace;
    long.map(|name| format!("Service/{namespace}/{name} in other clusters"))
        .collect()
}
