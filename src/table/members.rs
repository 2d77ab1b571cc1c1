//! One service out of the inputs: who is a member, and what its endpoints are (rules M1–M6, M9).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use smallvec::{SmallVec, smallvec};

use super::build::Rules;
use super::inputs::Inputs;
use super::local::{export_conflict, non_member};
use super::missing::missing_hosts;
use super::wishes::agree;
use super::{Address, Conflict, ConflictKind, Endpoint, Origin, OwnName, Repeats, Service};
use crate::mirror::{
    ClusterName, Hostname, Kind, ObjectKey, ObjectRef, Port, Ports, ServiceKey, Skip, SkipReason,
    Text, Wishes,
};

/// An endpoint as one object tells it, before equal names are united.
struct Draft {
    endpoint: Endpoint,
    /// The link, or this cluster, that the object speaks for.
    source: Source,
    /// The pod of a local endpoint: one pod has one endpoint per address family.
    target: Option<Text>,
    ready: bool,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Local,
    Link(ClusterName),
}

/// Builds one service; `None` if no object speaks of it.
pub(super) fn build_service(key: &ServiceKey, inputs: &Inputs, rules: &Rules) -> Option<Service> {
    let mut skipped = Vec::new();
    let mut wishes: Vec<&Wishes> = Vec::new();
    let mut mirrors = Vec::new();
    // Rule M5 asks whether a mirror exists: leaving out a cluster must not take this one's members away, too.
    let mut is_matching = false;
    for (object, mirror) in inputs.headless_mirrors(key) {
        is_matching = true;
        let cluster = rules.name_of(&mirror.cluster);
        if rules.excluded_clusters.contains(&cluster) {
            skipped.push((service_ref(object), excluded(&cluster)));
            continue;
        }
        mirrors.push((cluster, service_ref(object)));
        wishes.push(&mirror.wishes);
    }
    mirrors.sort();
    let is_mirrored = !mirrors.is_empty();
    let mut drafts = mirrored(key, inputs, rules, &mut skipped);
    let mut conflicts: Vec<Conflict> = identity_conflicts(key, inputs).collect();

    let local = inputs.local_service(key);
    let local = local.filter(|local| non_member(local, is_matching, rules).is_none());
    if let Some(local) = local {
        wishes.push(&local.wishes);
        drafts.extend(locals(key, inputs, rules, &mut skipped));
    }
    if !is_mirrored && local.is_none() && skipped.is_empty() {
        return None;
    }

    drafts.retain(|draft| match exceeds_limits(key, &draft.endpoint, rules) {
        Some(skip) => {
            skipped.extend(
                draft
                    .endpoint
                    .objects
                    .iter()
                    .map(|object| (object.clone(), skip.clone())),
            );
            false
        }
        None => true,
    });
    conflicts.extend(cluster_conflicts(key, &drafts));
    conflicts.extend(kind_conflict(key, inputs, rules, &mirrors));
    conflicts.extend(local.and_then(|local| export_conflict(key, local, rules)));
    let (ready, not_ready): (Vec<Draft>, Vec<Draft>) = drafts.into_iter().partition(|d| d.ready);
    let mut endpoints = unite(key, ready, &mut conflicts);
    let mut not_ready = unite(key, not_ready, &mut Vec::new());
    // What was united is sorted.
    not_ready.retain(|e| {
        let place = (&e.cluster, &e.hostname);
        let ready = endpoints.binary_search_by(|r| (&r.cluster, &r.hostname).cmp(&place));
        ready.map_or(true, |at| endpoints[at].addresses != e.addresses)
    });
    mark_repeats(&mut endpoints);
    let (ttl, gateway_down) = agree(key, &wishes, rules, &mut conflicts);
    Some(Service {
        key: key.clone(),
        ttl,
        gateway_down,
        own_name: OwnName::of(&endpoints, gateway_down),
        endpoints,
        not_ready,
        mirrors,
        missing: missing_hosts(key, inputs, rules),
        is_known: is_mirrored || local.is_some(),
        skipped,
        conflicts,
    })
}

// === Members ===

/// Reads the endpoints of other clusters (rules M1, M2, M3, M6).
fn mirrored(
    key: &ServiceKey,
    inputs: &Inputs,
    rules: &Rules,
    skipped: &mut Vec<(ObjectRef, Skip)>,
) -> Vec<Draft> {
    let mut drafts = Vec::new();
    // Looked for once: a service may have thousands of endpoint mirrors, and each of them a parent.
    let parents: BTreeSet<(&Text, &ClusterName)> = inputs
        .headless_mirrors(key)
        .map(|(name, parent)| (&name.name, &parent.cluster))
        .collect();
    for (object, mirror) in inputs.endpoint_mirrors(key) {
        let cluster = rules.name_of(&mirror.cluster);
        let skip = if rules.excluded_clusters.contains(&cluster) {
            Some(excluded(&cluster))
        } else if !parents.contains(&(&mirror.parent, &mirror.cluster)) {
            let (parent, link) = (&mirror.parent, &mirror.cluster);
            let detail =
                format!("there is no headless mirror '{parent}' of {key} in cluster '{link}'");
            Some(Skip::new(SkipReason::NoParent, detail))
        } else {
            None
        };
        if let Some(skip) = skip {
            skipped.push((service_ref(object), skip));
            continue;
        }
        drafts.push(Draft {
            endpoint: Endpoint {
                cluster,
                hostname: mirror.hostname.clone(),
                addresses: distinct(mirror.addresses.iter().copied()),
                ports: sorted(mirror.ports.iter().cloned()),
                alive: is_alive(inputs, object),
                origin: Origin::Mirror,
                objects: smallvec![service_ref(object)],
            },
            source: Source::Link(mirror.cluster.clone()),
            target: None,
            ready: true,
        });
    }
    drafts
}

/// Rule M3: its own slices say that a gateway address is ready; no slice, or none with an endpoint, means alive.
fn is_alive(inputs: &Inputs, mirror: &ObjectKey) -> bool {
    let gateways = inputs.gateways(mirror).flatten();
    gateways.reduce(|one, other| one || other).unwrap_or(true)
}

/// Reports mirrors that were of something else before (rule M8).
fn identity_conflicts(key: &ServiceKey, inputs: &Inputs) -> impl Iterator<Item = Conflict> {
    inputs.changed(key).map(|(object, (old, new))| Conflict {
        kind: ConflictKind::Identity,
        name: service_ref(object).to_string(),
        detail: format!("was the mirror of {old}, is now of {new}: do two links write it?"),
    })
}

/// Reads the endpoints of this cluster (rule M5).
fn locals(
    key: &ServiceKey,
    inputs: &Inputs,
    rules: &Rules,
    skipped: &mut Vec<(ObjectRef, Skip)>,
) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for (object, slice) in inputs.local_slices(key) {
        let object = slice_ref(object);
        skipped.extend(
            slice
                .left_out
                .iter()
                .map(|skip| (object.clone(), skip.clone())),
        );
        for endpoint in &slice.endpoints {
            let Some(address) = endpoint.address else {
                continue;
            };
            let hostname = endpoint.hostname.clone();
            drafts.push(Draft {
                endpoint: Endpoint {
                    cluster: rules.cluster_name.clone(),
                    hostname: hostname.unwrap_or_else(|| Hostname::from_address(address)),
                    addresses: distinct([address]),
                    ports: sorted(slice.ports.iter().cloned()),
                    alive: true,
                    origin: Origin::Local,
                    objects: smallvec![object.clone()],
                },
                source: Source::Local,
                target: endpoint.target.clone(),
                ready: endpoint.ready,
            });
        }
    }
    drafts
}

/// Rule M9: an endpoint whose longest name, `H.C.S.N.Z`, would exceed 255 octets is left out.
fn exceeds_limits(key: &ServiceKey, endpoint: &Endpoint, rules: &Rules) -> Option<Skip> {
    let labels = [
        endpoint.hostname.as_str(),
        endpoint.cluster.as_str(),
        key.service.as_str(),
        key.namespace.as_str(),
    ];
    let octets = labels.iter().map(|label| label.len() + 1).sum::<usize>() + rules.longest_zone;
    let detail = || {
        format!(
            "name {}.<zone> would take {octets} octets, more than 255",
            labels.join(".")
        )
    };
    (octets > 255).then(|| Skip::new(SkipReason::BadName, detail()))
}

/// Unites endpoints with one name, so that cluster and hostname occur once; reports what is no dual-stack pod.
fn unite(key: &ServiceKey, drafts: Vec<Draft>, conflicts: &mut Vec<Conflict>) -> Vec<Endpoint> {
    let mut united: BTreeMap<(ClusterName, Hostname), Draft> = BTreeMap::new();
    for draft in drafts {
        let name = (
            draft.endpoint.cluster.clone(),
            draft.endpoint.hostname.clone(),
        );
        let Some(first) = united.get_mut(&name) else {
            united.insert(name, draft);
            continue;
        };
        let is_one = is_one_pod(first, &draft);
        if !is_one {
            let (cluster, hostname) = &name;
            let objects = first.endpoint.objects.iter().chain(&draft.endpoint.objects);
            let objects: Vec<String> = objects.map(ToString::to_string).collect();
            conflicts.push(Conflict {
                kind: ConflictKind::Endpoint,
                name: key.to_string(),
                detail: format!(
                    "'{hostname}' of cluster '{cluster}' is claimed by {}; united",
                    objects.join(" and ")
                ),
            });
        }
        let (one, other) = (&mut first.endpoint, draft.endpoint);
        let ips = one
            .addresses
            .iter()
            .chain(&other.addresses)
            .map(|address| address.ip);
        one.addresses = distinct(ips.collect::<Vec<_>>());
        one.ports = sorted(one.ports.iter().chain(&other.ports).cloned());
        one.alive |= other.alive;
        one.origin = one.origin.min(other.origin);
        one.objects.extend(other.objects);
        one.objects.sort();
        one.objects.dedup();
    }
    conflicts.sort();
    conflicts.dedup();
    united.into_values().map(|draft| draft.endpoint).collect()
}

/// Tells two sights of one pod from two pods: a dual-stack pod is in a slice of each address family.
fn is_one_pod(one: &Draft, other: &Draft) -> bool {
    let (ones, others) = (&one.endpoint.addresses, &other.endpoint.addresses);
    let shares_family = ones.iter().any(|a| {
        let is_alike = |b: &Address| a.ip.is_ipv4() == b.ip.is_ipv4();
        others.iter().any(is_alike)
    });
    match (&one.target, &other.target) {
        _ if ones == others => true,
        (Some(one), Some(other)) => one == other,
        // Slices written by hand do not say which pod it is.
        _ => one.source == other.source && !shares_family,
    }
}

/// Marks addresses that an endpoint before has too, live endpoints first.
fn mark_repeats(endpoints: &mut [Endpoint]) {
    let mut of_service: BTreeSet<IpAddr> = BTreeSet::new();
    let mut of_cluster: BTreeSet<(ClusterName, IpAddr)> = BTreeSet::new();
    for alive in [true, false] {
        for endpoint in endpoints
            .iter_mut()
            .filter(|endpoint| endpoint.alive == alive)
        {
            for address in &mut endpoint.addresses {
                let new_in_cluster = of_cluster.insert((endpoint.cluster.clone(), address.ip));
                let new_in_service = of_service.insert(address.ip);
                address.repeats = match (new_in_service, new_in_cluster) {
                    (true, _) => Repeats::Nothing,
                    (false, true) => Repeats::Service,
                    (false, false) => Repeats::Cluster,
                };
            }
        }
    }
}

/// Rule M6: two sources of one cluster name are united and reported.
fn cluster_conflicts(key: &ServiceKey, drafts: &[Draft]) -> Vec<Conflict> {
    let mut sources: BTreeMap<&ClusterName, BTreeSet<&Source>> = BTreeMap::new();
    for draft in drafts {
        sources
            .entry(&draft.endpoint.cluster)
            .or_default()
            .insert(&draft.source);
    }
    let doubles = sources.into_iter().filter(|(_, sources)| sources.len() > 1);
    let conflict = |(cluster, sources): (&ClusterName, BTreeSet<&Source>)| Conflict {
        kind: ConflictKind::ClusterName,
        name: key.to_string(),
        detail: format!(
            "cluster name '{cluster}' stands for {}; united",
            sources
                .into_iter()
                .map(Source::words)
                .collect::<Vec<_>>()
                .join(" and ")
        ),
    };
    doubles.map(conflict).collect()
}

/// Reports a service that is headless in one cluster, and not in another.
fn kind_conflict(
    key: &ServiceKey,
    inputs: &Inputs,
    rules: &Rules,
    mirrors: &[(ClusterName, ObjectRef)],
) -> Option<Conflict> {
    let others: BTreeSet<ClusterName> = inputs
        .other_kinds(key)
        .map(|link| rules.name_of(link))
        .collect();
    let headless: BTreeSet<&ClusterName> = mirrors.iter().map(|(cluster, _)| cluster).collect();
    let names = |clusters: Vec<&str>| clusters.join(", ");
    (!others.is_empty() && !headless.is_empty()).then(|| Conflict {
        kind: ConflictKind::Headless,
        name: key.to_string(),
        detail: format!(
            "headless in {}, but not in {}",
            names(headless.into_iter().map(ClusterName::as_str).collect()),
            names(others.iter().map(ClusterName::as_str).collect()),
        ),
    })
}

impl Source {
    fn words(&self) -> String {
        match self {
            Self::Local => "this cluster".to_owned(),
            Self::Link(link) => format!("link '{link}'"),
        }
    }
}

fn service_ref(key: &ObjectKey) -> ObjectRef {
    ObjectRef {
        kind: Kind::Service,
        key: key.clone(),
    }
}

fn slice_ref(key: &ObjectKey) -> ObjectRef {
    ObjectRef {
        kind: Kind::EndpointSlice,
        key: key.clone(),
    }
}

fn excluded(cluster: &ClusterName) -> Skip {
    Skip::new(
        SkipReason::ExcludedCluster,
        format!("cluster '{cluster}' is excluded"),
    )
}

fn distinct(ips: impl IntoIterator<Item = IpAddr>) -> SmallVec<[Address; 1]> {
    let ips: BTreeSet<IpAddr> = ips.into_iter().collect();
    ips.into_iter()
        .map(|ip| Address {
            ip,
            repeats: Repeats::Nothing,
        })
        .collect()
}

fn sorted(ports: impl Iterator<Item = Port>) -> Ports {
    ports.collect::<BTreeSet<_>>().into_iter().collect()
}
