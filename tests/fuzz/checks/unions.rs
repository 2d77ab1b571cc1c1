//! Checks of the endpoints that the name of a service unites (rule K1), verified with the original objects.

use std::collections::BTreeSet;
use std::net::IpAddr;

use global_dns::model::ProblemKind;
use global_dns::model::key;
use global_dns::model::{ClusterName, Clusters, ItemKind, ObjectKey, Watch};
use global_dns::table::{Endpoint, Service, ServiceKind};
use global_dns::zone::RecordType;
use serde_json::Value;

use super::cluster::Cluster;
use super::worlds::{Seen, ask};

/// Asserts that a cluster that the name of a service omits is reported, and that no other conflict of kinds is.
pub fn check_clusters(cluster: &Cluster, service: &Service, seen: &mut Seen) {
    let clusters = |is_selected: bool| -> BTreeSet<String> {
        let endpoints = service.endpoints.iter();
        // The clusters of other steps are of the same kind.
        let is_selected =
            |endpoint: &&Endpoint| (endpoint.is_selected || endpoint.is_standby) == is_selected;
        let endpoints = endpoints.filter(is_selected);
        let clusters = endpoints.filter_map(|endpoint| endpoint.cluster.as_ref());
        clusters.map(ToString::to_string).collect()
    };
    let (mut included, mut others) = (clusters(true), clusters(false));
    for (kind, clusters) in shared_clusters(cluster, service) {
        match kind == service.kind {
            true => included.extend(clusters),
            false => others.extend(clusters),
        }
    }
    let omitted: Vec<&String> = others.difference(&included).collect();
    let conflict = service
        .problems
        .iter()
        .find(|one| one.kind == ProblemKind::Kind);
    assert_eq!(conflict.is_some(), !omitted.is_empty(), "{service:?}");
    for cluster in &omitted {
        assert!(conflict.unwrap().detail.contains(*cluster), "{service:?}");
    }
    seen.has_omitted_cluster |= !omitted.is_empty();
}

/// Returns the clusters behind the addresses that belong to no single cluster, with their kinds.
fn shared_clusters(
    cluster: &Cluster,
    service: &Service,
) -> impl Iterator<Item = (ServiceKind, Vec<String>)> {
    let name = |name: &ClusterName| cluster.rules.name_of(name).to_string();
    let objects = cluster.store.objects_of(&service.key);
    objects.filter_map(move |(_, object)| {
        let item = object.item()?;
        let kind = match item.kind {
            ItemKind::Federated => ServiceKind::Federated,
            ItemKind::ClusterSetImport if !item.is_headless() => ServiceKind::Import,
            _ => return None,
        };
        let Clusters::Several(set) = &item.clusters else {
            return None;
        };
        let own = set.has_own.then(|| "hub".to_owned());
        Some((kind, set.names.iter().map(name).chain(own).collect()))
    })
}

/// The source of an address, as the original objects show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    EndpointMirror,
    Mirror,
    /// A mirror that stands for a pod (rule M1b).
    MirrorOfPod,
    Federated,
    LocalService,
    Pod,
    /// A ServiceImport or its slices.
    Import,
}

/// Asserts that the addresses at the name of a service come from objects of kinds that rule K1 unites.
pub fn check_union(cluster: &Cluster, service: &Service, seen: &mut Seen) {
    let name = format!("{}.{}.global.", service.key.service, service.key.namespace);
    let records = [RecordType::A, RecordType::AAAA];
    let records = records
        .into_iter()
        .filter_map(|rtype| ask(&cluster.table, &name, rtype));
    let addresses = records
        .flatten()
        .map(|line| line.rsplit('\t').next().unwrap().to_owned());
    let mut union = BTreeSet::new();
    for address in addresses {
        let source = source_of(cluster, service, &address);
        assert!(source.is_some(), "{address} of {name} is in no object");
        union.extend(source);
    }
    let is_exported = || {
        let key = ObjectKey::of_service(&service.key);
        let local = cluster.watched.get(&(Watch::Services, key));
        local.is_some_and(|local| local["metadata"]["labels"][key::EXPORTED] == "true")
    };
    let has = |source| union.contains(&source);
    if has(Source::Federated) || has(Source::Import) {
        assert_eq!(union.len(), 1, "{name}: {union:?}");
    }
    if has(Source::EndpointMirror) || has(Source::MirrorOfPod) {
        assert!(
            !has(Source::Mirror) && !has(Source::LocalService),
            "{name}: {union:?}"
        );
    }
    if has(Source::Pod) && (has(Source::Mirror) || has(Source::LocalService)) {
        assert!(is_exported(), "{name}: {union:?}");
    }
    if !union.is_empty() {
        seen.kinds.insert(service.kind.name());
        let selected = service
            .endpoints
            .iter()
            .filter(|endpoint| endpoint.is_selected);
        let kinds: BTreeSet<&str> = selected.map(|endpoint| endpoint.kind.name()).collect();
        seen.unions.insert(kinds.into_iter().collect());
        seen.has_adopted_host |= has(Source::MirrorOfPod);
    }
}

/// Finds the object of an address in the namespace of a service. Each Service has addresses of its own.
fn source_of(cluster: &Cluster, service: &Service, address: &str) -> Option<Source> {
    let is_of_import = |watch: Watch, object: &Value| match watch {
        Watch::ServiceImports => object["spec"]["ips"].to_string().contains(address),
        Watch::ImportSlices => object["endpoints"].to_string().contains(address),
        _ => false,
    };
    let mut watched = cluster.watched.iter();
    if watched.any(|((watch, _), object)| is_of_import(*watch, object)) {
        return Some(Source::Import);
    }
    let is_pod = address.starts_with("192.0.2.");
    let ip: IpAddr = address.parse().unwrap();
    let has_address = |object: &Value| {
        let ips = object["spec"]["clusterIPs"]
            .as_array()
            .into_iter()
            .flatten();
        let mut ips = ips.filter_map(|ip| ip.as_str()?.parse::<IpAddr>().ok());
        ips.any(|one| one == ip)
    };
    let in_namespace = cluster.watched.iter();
    let mut in_namespace =
        in_namespace.filter(|((_, key), _)| *key.namespace == *service.key.namespace.as_str());
    if is_pod {
        let is_listed = |object: &Value| object["endpoints"].to_string().contains(address);
        return in_namespace
            .any(|(_, object)| is_listed(object))
            .then_some(Source::Pod);
    }
    let ((_, key), object) = in_namespace.find(|(_, object)| has_address(object))?;
    let labels = &object["metadata"]["labels"];
    Some(if labels[key::MIRRORED_SERVICE] != "true" {
        Source::LocalService
    } else if labels[key::HEADLESS_MIRROR].is_string() {
        Source::EndpointMirror
    } else if !labels[key::CLUSTER_NAME].is_string() {
        Source::Federated
    } else if is_mirror_of_pod(cluster, service, &key.name.text(), labels, address) {
        Source::MirrorOfPod
    } else {
        Source::Mirror
    })
}

/// Returns whether a headless mirror of the service lists the address of a mirror under the hostname of a pod. A mirror of
/// the service itself is none of a pod.
fn is_mirror_of_pod(
    cluster: &Cluster,
    service: &Service,
    name: &str,
    labels: &Value,
    address: &str,
) -> bool {
    let link = labels[key::CLUSTER_NAME].as_str().unwrap();
    let own = format!("{}-{link}", service.key.service);
    let mut slices = cluster.watched.iter().filter(|((watch, key), _)| {
        *watch == Watch::MirrorSlices && *key.namespace == *service.key.namespace.as_str()
    });
    name != own
        && slices.any(|(_, slice)| {
            let endpoints = slice["endpoints"].as_array().into_iter().flatten();
            let mut hosts = endpoints.filter(|endpoint| endpoint["addresses"][0] == address);
            slice["metadata"]["labels"][key::SERVICE_NAME] == own.as_str()
                && hosts.any(|host| {
                    let host = host["hostname"].as_str().unwrap_or_default();
                    name == format!("{host}-{link}")
                })
        })
}
