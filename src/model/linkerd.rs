//! Reads the objects of Linkerd: those that it mirrors from other clusters, of the kinds `headless`, `gateway`, `flat` and
//! `federated` (rules M1, M2, M3, M7), and Links (rule L1).

use std::collections::BTreeSet;

use super::kube_object::{KubeEndpoint, unusable, unusable_field, usable_address};
use super::slice::{self, SkipCounts};
use super::{
    ClusterName, Few, Hostname, Item, ItemKind, KubeObject, Link, ListedHost, MirroredHost,
    Problem, ProblemKind, ServiceKey, ServiceName, ServiceSettings, intern, key, label::is_label,
    shorten,
};

/// The suffix of the names of federated services.
const FEDERATED_SUFFIX: &str = "-federated";

/// Returns whether Linkerd mirrored a Service.
pub(super) fn is_mirror(service: &KubeObject<'_>) -> bool {
    service.label(key::MIRRORED_SERVICE) == Some("true")
}

/// Reads a Service that Linkerd mirrored.
pub(super) fn read_service(service: &KubeObject<'_>) -> Result<Item, Problem> {
    // Cilium copies labels of an exported Service to the Service that it derives from a ServiceImport. Labels of Linkerd among them must
    // not make it a mirror.
    if service.label(key::MCS_SERVICE).is_some() {
        let detail = format!(
            "label {} says that it belongs to the Multi-Cluster Services API; it is not a mirror, despite its label {}",
            key::MCS_SERVICE,
            key::MIRRORED_SERVICE
        );
        return Err(Problem::new(ProblemKind::LeftOut, detail));
    }
    if is_federated(service) {
        return federated(service);
    }
    let Some(cluster) = service.label(key::CLUSTER_NAME) else {
        if service.name().ends_with(FEDERATED_SUFFIX) {
            return Err(unusable("the federated service has no members"));
        }
        return Err(unusable(format!(
            "label {} is missing, which Linkerd sets on each mirror: remove label {} from a Service that is none",
            key::CLUSTER_NAME,
            key::MIRRORED_SERVICE
        )));
    };
    let cluster = ClusterName::interned(cluster)
        .map_err(unusable_field(&format!("label {}", key::CLUSTER_NAME)))?;
    let (host, mirrored) = identity(service, &cluster)?;
    mirror(service, host, &mirrored, &cluster)
        .map_err(|problem| problem.of_service(&mirrored).of_cluster(&cluster))
}

/// Reads what a Link says about its cluster. Its `status` is not used: it reports errors for services that are mirrored.
pub(super) fn read_link(link: &KubeObject<'_>) -> Result<Box<Link>, Problem> {
    let spec = link.spec()?;
    let cluster = ClusterName::interned(&spec.target_cluster_name);
    Ok(Box::new(Link {
        cluster: cluster.map_err(unusable_field("spec.targetClusterName"))?,
        domain: intern(&spec.target_cluster_domain),
    }))
}

/// Reads a host of the slice of a headless mirror.
pub(super) fn listed_host(
    endpoint: &KubeEndpoint<'_>,
    skips: &mut SkipCounts,
) -> Option<ListedHost> {
    let first = endpoint.addresses.iter().flatten().next();
    Some(ListedHost {
        hostname: slice::hostname(endpoint, skips)?,
        address: first.and_then(|ip| usable_address(ip).ok()),
    })
}

// === Mirrors of one cluster ===

/// Returns the hostname of an endpoint mirror, and the service of a mirror. Without the annotation, they are the names of the object
/// and of its parent without the suffix `-CLUSTER` (rule M7).
fn identity<'o>(
    service: &'o KubeObject<'_>,
    cluster: &ClusterName,
) -> Result<(Option<&'o str>, ServiceKey), Problem> {
    let parent = service.label(key::HEADLESS_MIRROR);
    let (host, name) = match (service.annotation(key::REMOTE_FQ_NAME), parent) {
        (None, None) => (None, strip_cluster(service.name(), cluster)?),
        (None, Some(parent)) => {
            let host = strip_cluster(service.name(), cluster)?;
            (Some(host), strip_cluster(parent, cluster)?)
        }
        (Some(fq_name), parent) => {
            let (host, rest) = match parent {
                Some(_) => split(fq_name).map(|(host, rest)| (Some(host), rest))?,
                None => (None, fq_name),
            };
            let (name, rest) = split(rest)?;
            let named = rest.split('.').next().unwrap_or_default();
            let own = service.namespace();
            // Otherwise, an object could add endpoints to a service of another namespace.
            if named != own {
                let detail =
                    format!("the annotation names another namespace: '{named}', not '{own}'");
                return Err(Problem::new(ProblemKind::NamespaceMismatch, detail));
            }
            (host, name)
        }
    };
    Ok((host, service.service_key(name)?))
}

/// Splits the first label off a dotted name.
fn split(name: &str) -> Result<(&str, &str), Problem> {
    let key = key::REMOTE_FQ_NAME;
    name.split_once('.')
        .ok_or_else(|| unusable(format!("annotation {key} has too few labels: '{name}'")))
}

/// Returns a name without the suffix `-CLUSTER`, which is removed once. It is used if the annotation is absent (rule
/// M7).
fn strip_cluster<'n>(name: &'n str, cluster: &ClusterName) -> Result<&'n str, Problem> {
    name
        .strip_suffix(cluster.as_str())
        .and_then(|rest| rest.strip_suffix('-')).ok_or_else(|| {
        let key = key::REMOTE_FQ_NAME;
        unusable(format!(
            "annotation {key} is absent, and the name does not end in that of the cluster: '{name}', '{cluster}'"
        ))
    })
}

/// Reads a mirror of one cluster: an endpoint mirror, if it has a hostname.
fn mirror(
    service: &KubeObject<'_>,
    host: Option<&str>,
    mirrored: &ServiceKey,
    cluster: &ClusterName,
) -> Result<Item, Problem> {
    let spec = service.spec()?;
    let item = |kind| Item {
        linked: Few::One(cluster.clone()),
        ..Item::new(kind, mirrored.service.clone())
    };
    if let Some(host) = host {
        return Ok(Item {
            host: Some(MirroredHost {
                hostname: Hostname::interned(host).map_err(unusable_field("its host"))?,
                parent: intern(service.label(key::HEADLESS_MIRROR).unwrap_or_default()),
                pod_ports: spec.pod_ports(),
            }),
            addresses: spec.addresses()?,
            ports: spec.ports(),
            ..item(ItemKind::EndpointMirror)
        });
    }
    let settings = ServiceSettings::of_mirror(service).if_any();
    if spec.is_headless() {
        return Ok(Item {
            settings,
            ..item(ItemKind::HeadlessMirror)
        });
    }
    Ok(Item {
        settings,
        addresses: spec.addresses()?,
        ports: spec.ports(),
        ..item(route(service, cluster, mirrored)?)
    })
}

/// Reads from the labels whether connections pass through a gateway. If a mirror is exported again, Linkerd copies the
/// labels of a flat mirror to its mirror. They then name another cluster or service, and the object is skipped.
fn route(
    service: &KubeObject<'_>,
    cluster: &ClusterName,
    mirrored: &ServiceKey,
) -> Result<ItemKind, Problem> {
    let Some(discovery) = service.label(key::REMOTE_DISCOVERY) else {
        return Ok(ItemKind::GatewayMirror);
    };
    let remote = service
        .label(key::REMOTE_SERVICE)
        .unwrap_or(mirrored.service.as_str());
    for (label, value, expected) in [
        (key::REMOTE_DISCOVERY, discovery, cluster.as_str()),
        (key::REMOTE_SERVICE, remote, mirrored.service.as_str()),
    ] {
        if value != expected {
            let value: String = value.chars().take(63).collect();
            let detail =
                format!("label {label} is not that of the mirror: '{value}', not '{expected}'");
            return Err(unusable(detail));
        }
    }
    Ok(ItemKind::FlatMirror)
}

// === Federated services ===

/// Returns whether a mirror is a federated service: it has no cluster.
fn is_federated(service: &KubeObject<'_>) -> bool {
    let is_of_cluster = [key::CLUSTER_NAME, key::HEADLESS_MIRROR];
    let keys = [key::REMOTE_DISCOVERY, key::LOCAL_DISCOVERY];
    is_of_cluster.iter().all(|key| service.label(key).is_none())
        && keys.iter().any(|key| service.annotation(key).is_some())
}

fn federated(service: &KubeObject<'_>) -> Result<Item, Problem> {
    let spec = service.spec()?;
    let name = service.name();
    let Some(base) = name.strip_suffix(FEDERATED_SUFFIX) else {
        return Err(unusable(format!(
            "the name of a federated service does not end in '{FEDERATED_SUFFIX}': '{name}'"
        )));
    };
    let mut settings = ServiceSettings::of_mirror(service);
    let listed = service.annotation(key::REMOTE_DISCOVERY);
    let own = service.annotation(key::LOCAL_DISCOVERY);
    let base = service.service_key(base)?.service;
    Ok(Item {
        linked: member_clusters(listed.unwrap_or_default(), &mut settings),
        has_own: own.is_some_and(|name| is_own_member(name, &mut settings)),
        addresses: spec.addresses()?,
        ports: spec.ports(),
        settings: settings.if_any(),
        ..Item::new(ItemKind::Federated, base)
    })
}

/// Maximum number of clusters of a federation that are used. An annotation may name tens of thousands.
const MAX_CLUSTERS: usize = 256;

/// Reads the clusters of a list such as `web@east,web@north` in one walk. Its order is arbitrary. Notes the first item that is
/// invalid, the first cluster that occurs twice, and that there are too many, of which the first count.
fn member_clusters(list: &str, settings: &mut ServiceSettings) -> Few<ClusterName> {
    let mut clusters = BTreeSet::new();
    let mut invalid = None;
    let mut twice = None;
    let mut count = 0;
    for item in list
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
    {
        count += 1;
        match member_cluster(item) {
            None => invalid = invalid.or(Some(item)),
            Some(cluster) if clusters.contains(cluster) => twice = twice.or(Some(cluster)),
            Some(cluster) if clusters.len() < MAX_CLUSTERS => _ = clusters.insert(cluster),
            Some(_) => {}
        }
    }
    if let Some(item) = invalid {
        let reason = format!("ignored: it is not SERVICE@CLUSTER: {}", shorten(item));
        settings.note_unreadable(key::REMOTE_DISCOVERY, &reason);
    }
    if let Some(cluster) = twice {
        let reason = format!("corrected: it names cluster '{cluster}' twice");
        settings.note_unreadable(key::REMOTE_DISCOVERY, &reason);
    }
    if count > MAX_CLUSTERS {
        let reason = format!(
            "it has {} octets and {count} members; the first {MAX_CLUSTERS} count",
            list.len()
        );
        settings.note_unreadable(key::REMOTE_DISCOVERY, &reason);
    }
    clusters
        .into_iter()
        .flat_map(ClusterName::interned)
        .collect()
}

/// Returns whether the name of a member in this cluster is valid, and notes an invalid one.
fn is_own_member(name: &str, settings: &mut ServiceSettings) -> bool {
    let is_valid = name.parse::<ServiceName>().is_ok();
    if !is_valid {
        let reason = format!(
            "ignored: it is not the name of a Service: {}",
            shorten(name)
        );
        settings.note_unreadable(key::LOCAL_DISCOVERY, &reason);
    }
    is_valid
}

/// Returns the cluster of `SERVICE@CLUSTER`, if both are labels. A service of another namespace (`web.bank@east`) is none.
fn member_cluster(item: &str) -> Option<&str> {
    let (service, cluster) = item.split_once('@')?;
    (is_label(service) && is_label(cluster)).then_some(cluster)
}
