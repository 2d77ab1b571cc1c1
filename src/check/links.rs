//! Checks of Links: Services that are not mirrored, missing namespaces, names that are too long.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::{Check, Fact, Finding, list_some};
use super::objects::{Link, LinkCondition, LinkedService, RemoteRef};
use crate::model::{ClusterName, Hostname, Namespace, ProblemKind};
use crate::table::{Rules, Service, ServiceKind, Table};

/// Maximum length of the name of a Service in Kubernetes (RFC 1123).
const MAX_NAME_LENGTH: usize = 63;
/// Reason of a condition: the namespace does not exist here. The check `namespaces` reports it.
const MISSING_NAMESPACE: &str = "MissingNamespace";
/// Reason of a condition: with headless mirroring on, every headless Service has it, although it is mirrored.
const INVALID_SERVICE: &str = "InvalidService";
/// Maximum number of characters of a condition's message in a report.
const MAX_MESSAGE_LENGTH: usize = 120;

/// Reports the services that Links report as not mirrored.
pub(super) fn status(table: &Table, links: &[Link], rules: &Rules) -> Finding {
    let mirrored = mirrored(table);
    let failures: BTreeSet<String> = services(links)
        .filter_map(|(link, service)| {
            let LinkCondition {
                reason, message, ..
            } = service.failure()?;
            let cluster = rules.name_of(&link.cluster().parse().ok()?);
            let RemoteRef { namespace, name } = &service.remote_ref;
            let is_mirrored = reason == INVALID_SERVICE
                && mirrored.contains(&(namespace.as_str(), name.as_str(), &cluster));
            let is_excluded = rules.excluded_clusters.contains(&cluster);
            let is_of_other_check =
                reason == MISSING_NAMESPACE || mirror_name(service, link).len() > MAX_NAME_LENGTH;
            if is_mirrored || is_excluded || is_of_other_check {
                return None;
            }
            let message: String = message.chars().take(MAX_MESSAGE_LENGTH).collect();
            let place = format!("{namespace}/{name} of cluster '{cluster}'");
            Some(format!("{place} ({reason}: {message})"))
        })
        .collect();
    Check::LinkStatus.yellow_list(
        failures,
        "no Link reports that mirroring fails",
        "Links report that mirroring fails",
        "kubectl get links.multicluster.linkerd.io -A -o yaml shows each condition, and the log of the link's \
         controller shows the reason; export headless Services with mirror.linkerd.io/exported=true",
    )
}

/// Returns the services that are mirrored: namespace, name, and cluster after aliases.
fn mirrored(table: &Table) -> BTreeSet<(&str, &str, &ClusterName)> {
    let places = table.services().flat_map(|service| {
        let headless = service.mirrors.iter().map(|(cluster, _)| cluster);
        let endpoints = service.endpoints.iter();
        let clusters = headless.chain(endpoints.filter_map(|one| one.cluster.as_ref()));
        let (namespace, name) = (&service.key.namespace, &service.key.service);
        clusters
            .chain(&service.federated)
            .map(|cluster| (namespace.as_str(), name.as_str(), cluster))
    });
    places.collect()
}

/// Returns all services that Links name.
fn services(links: &[Link]) -> impl Iterator<Item = (&Link, &LinkedService)> {
    links.iter().flat_map(|link| {
        let services = link.status.mirror_services.iter();
        services.map(move |service| (link, service))
    })
}

/// Returns the name that Linkerd gives the mirror of a service.
fn mirror_name(service: &LinkedService, link: &Link) -> String {
    format!("{}-{}", service.remote_ref.name, link.cluster())
}

/// Reports namespaces that do not exist here: those of exported services, and those that flags name.
pub(super) fn namespaces(links: &Fact<Vec<Link>>, named: &Fact<Vec<(Namespace, bool)>>) -> Finding {
    let missing = missing_namespaces(
        links.as_deref().unwrap_or_default(),
        named.as_deref().unwrap_or_default(),
    );
    let Some(first) = missing.keys().next() else {
        return match (links, named) {
            (Err(reason), _) | (_, Err(reason)) => Check::Namespaces.not_checked(reason),
            (Ok(_), Ok(_)) => {
                Check::Namespaces.green("every namespace that Links and flags name exists")
            }
        };
    };
    let hint = format!(
        "Linkerd mirrors into the namespace of the same name: kubectl create namespace {first}, or turn on \
         enableNamespaceCreation for the link; if a flag names it, correct the flag"
    );
    let names = missing
        .iter()
        .map(|(name, source)| format!("'{name}', {source}"));
    let sentence = format!("namespaces that do not exist here: {}", list_some(names));
    Check::Namespaces.yellow(sentence, hint)
}

/// Returns the namespaces that do not exist here, each with the service or the flag that needs it.
fn missing_namespaces(links: &[Link], named: &[(Namespace, bool)]) -> BTreeMap<String, String> {
    let mut missing: BTreeMap<String, String> = BTreeMap::new();
    for (link, service) in services(links) {
        let failure = service.failure();
        if failure.is_some_and(|failure| failure.reason == MISSING_NAMESPACE) {
            let RemoteRef { namespace, name } = &service.remote_ref;
            let source = format!("of {name} in cluster '{}'", link.cluster());
            missing.entry(namespace.clone()).or_insert(source);
        }
    }
    for (namespace, _) in named.iter().filter(|(_, exists)| !exists) {
        missing.insert(namespace.to_string(), "which a flag names".to_owned());
    }
    missing
}

/// Reports mirrors with names that are too long: mirrors in this cluster, if Links are known, and mirrors of this
/// cluster's members in other clusters.
pub(super) fn long_names(table: &Table, links: &Fact<Vec<Link>>, rules: &Rules) -> Finding {
    let mut long = long_names_here(links.as_deref().unwrap_or_default());
    long.extend(
        table
            .services()
            .flat_map(|s| long_names_elsewhere(s, rules)),
    );
    Check::LongNames.yellow_list(
        long,
        "no mirror needs a name of more than 63 characters",
        "mirror names of more than the 63 characters that Kubernetes accepts",
        "the name of a mirror is the name of the Service or pod, a hyphen, and the cluster: shorten one of them",
    )
}

/// Returns the mirrors in this cluster with names that are too long.
fn long_names_here(links: &[Link]) -> BTreeSet<String> {
    let mirrors = services(links).map(|(link, service)| (service, mirror_name(service, link)));
    let long = mirrors.filter(|(_, name)| name.len() > MAX_NAME_LENGTH);
    long.map(|(service, name)| format!("Service/{}/{name}", service.remote_ref.namespace))
        .collect()
}

/// Returns the mirrors in other clusters with names that are too long, for a service with exported members in this
/// cluster.
fn long_names_elsewhere(service: &Service, rules: &Rules) -> Vec<String> {
    let mut problems = service.problems.iter();
    let local = service.endpoints.iter();
    let local = local.filter(|e| e.kind == ServiceKind::Local);
    let hosts: Vec<&str> = local
        .filter_map(|e| e.hostname.as_ref())
        .map(Hostname::as_str)
        .collect();
    if hosts.is_empty() || problems.any(|one| one.kind == ProblemKind::NotExported) {
        return Vec::new();
    }
    let names = hosts.into_iter().chain([service.key.service.as_str()]);
    let names = names.map(|name| format!("{name}-{}", rules.cluster_name));
    let long = names.filter(|name| name.len() > MAX_NAME_LENGTH);
    let namespace = &service.key.namespace;
    long.map(|name| format!("Service/{namespace}/{name} in other clusters"))
        .collect()
}
