//! One service out of the inputs: who is a member, and what its endpoints are (rules M1–M6, M9).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use smallvec::{SmallVec, smallvec};

use super::build::Rules;
use super::inputs::Inputs;
use super::local::export_conflict;
use super::missing::missing_hosts;
use super::parts::Parts;
use super::wishes::agree;
use super::{Address, Conflict, ConflictKind, Endpoint, Origin, OwnName, Repeats, Service};
use crate::mirror::{
    ClusterName, EndpointMirror, HeadlessMirror, Hostname, Kind, Object, ObjectKey, ObjectRef,
    Port, Ports, ServiceKey, Skip, SkipReason, Slice, SliceEndpoint, Text, Wishes,
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
    let parts = Parts::of(key, inputs);
    let mut skipped = Vec::new();
    let mirrors = included_mirrors(&parts, rules, &mut skipped);
    let mut drafts = mirrored(&parts, key, inputs, rules, &mut skipped);
    let local = parts.local_member(rules);
    if local.is_some() {
        drafts.extend(locals(key, inputs, rules, &mut skipped));
    }
    if mirrors.is_empty() && local.is_none() && skipped.is_empty() {
        return None;
    }
    drafts.retain(|draft| fits(key, &draft.endpoint, rules, &mut skipped));

    let mut conflicts: Vec<Conflict> = identity_conflicts(key, inputs).collect();
    conflicts.extend(cluster_conflicts(key, &drafts));
    conflicts.extend(kind_conflict(key, &parts, rules, &mirrors));
    conflicts.extend(local.and_then(|local| export_conflict(key, local, rules)));
    let (ready, not_ready): (Vec<Draft>, Vec<Draft>) = drafts.into_iter().partition(|d| d.ready);
    let mut endpoints = unite(key, ready, &mut conflicts);
    let not_ready = not_ready_yet(unite(key, not_ready, &mut Vec::new()), &endpoints);
    mark_repeats(&mut endpoints);
    let wishes = mirrors.iter().map(|(_, _, mirror)| &mirror.wishes);
    let wishes: Vec<&Wishes> = wishes.chain(local.map(|local| &local.wishes)).collect();
    let (ttl, gateway_down) = agree(key, &wishes, rules, &mut conflicts);
    Some(Service {
        key: key.clone(),
        ttl,
        gateway_down,
        own_name: OwnName::of(&endpoints, gateway_down),
        endpoints,
        not_ready,
        is_known: !mirrors.is_empty() || local.is_some(),
        mirrors: sorted_refs(&mirrors),
        missing: missing_hosts(key, &parts, inputs, rules),
        skipped,
        conflicts,
    })
}

// === Members ===

/// A headless mirror, and the cluster that it is of, after aliases.
type Mirror<'i> = (ClusterName, &'i ObjectKey, &'i HeadlessMirror);

/// Returns the headless mirrors of clusters that are not excluded.
fn included_mirrors<'i>(
    parts: &Parts<'i>,
    rules: &Rules,
    skipped: &mut Vec<(ObjectRef, Skip)>,
) -> Vec<Mirror<'i>> {
    let mut mirrors = Vec::new();
    for (object, mirror) in &parts.headless {
        let cluster = rules.name_of(&mirror.cluster);
        if rules.excluded_clusters.contains(&cluster) {
            skipped.push((service_ref(object), excluded(&cluster)));
        } else {
            mirrors.push((cluster, *object, *mirror));
        }
    }
    mirrors
}

fn sorted_refs(mirrors: &[Mirror<'_>]) -> Vec<(ClusterName, ObjectRef)> {
    let refs = mirrors.iter();
    let refs = refs.map(|(cluster, object, _)| (cluster.clone(), service_ref(object)));
    let mut refs: Vec<_> = refs.collect();
    refs.sort();
    refs
}

/// Reads the endpoints of other clusters (rules M1, M2, M3, M6).
fn mirrored(
    parts: &Parts<'_>,
    key: &ServiceKey,
    inputs: &Inputs,
    rules: &Rules,
    skipped: &mut Vec<(ObjectRef, Skip)>,
) -> Vec<Draft> {
    let mut drafts = Vec::new();
    // Looked for once: a service may have thousands of endpoint mirrors, and each of them a parent.
    let parents = parts.headless.iter();
    let parents = parents.map(|(name, parent)| (name.name.text(), &parent.cluster));
    let parents: BTreeSet<(Text, &ClusterName)> = parents.collect();
    for (object, mirror) in &parts.endpoints {
        let cluster = rules.name_of(&mirror.cluster);
        let skip = if rules.excluded_clusters.contains(&cluster) {
            excluded(&cluster)
        } else if !parents.contains(&(mirror.parent.clone(), &mirror.cluster)) {
            orphaned(key, mirror)
        } else {
            drafts.push(Draft::of_mirror(object, mirror, cluster, inputs));
            continue;
        };
        skipped.push((service_ref(object), skip));
    }
    drafts
}

/// Rule M3: its own slices say that a gateway address is ready; no slice, or none with an endpoint, means alive.
fn is_alive(inputs: &Inputs, mirror: &ObjectKey) -> bool {
    let slices = inputs.slices_of(mirror);
    let gateways = slices.filter_map(|(_, slice)| match slice {
        Object::GatewaySlice(slice) => slice.ready,
        Object::HeadlessMirror(_)
        | Object::EndpointMirror(_)
        | Object::LocalService(_)
        | Object::ListedHosts(_)
        | Object::Slice(_)
        | Object::Skipped(_) => None,
    });
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
    for (object, slice) in inputs.slices_of(&ObjectKey::of_service(key)) {
        let Object::Slice(slice) = slice else {
            continue;
        };
        let left_out = slice.left_out.iter();
        skipped.extend(left_out.map(|skip| (slice_ref(object), skip.clone())));
        let usable = slice.endpoints.iter().filter_map(|e| Some((e, e.address?)));
        drafts.extend(usable.map(|(endpoint, address)| {
            Draft::of_pod(object, slice, endpoint, address, &rules.cluster_name)
        }));
    }
    drafts
}

/// Rule M9: an endpoint whose longest name, `H.C.S.N.Z`, would exceed 255 octets is left out.
fn fits(
    key: &ServiceKey,
    endpoint: &Endpoint,
    rules: &Rules,
    skipped: &mut Vec<(ObjectRef, Skip)>,
) -> bool {
    let labels = [
        endpoint.hostname.as_str(),
        endpoint.cluster.as_str(),
        key.service.as_str(),
        key.namespace.as_str(),
    ];
    let octets = labels.iter().map(|label| label.len() + 1).sum::<usize>() + rules.longest_zone;
    if octets <= 255 {
        return true;
    }
    let name = labels.join(".");
    let detail = format!("name {name}.<zone> would take {octets} octets, more than 255");
    let skip = Skip::new(SkipReason::BadName, detail);
    let objects = endpoint.object_refs(&key.namespace);
    skipped.extend(objects.map(|object| (object, skip.clone())));
    false
}

/// Leaves out the endpoints that another slice says are ready. `ready` is sorted.
fn not_ready_yet(mut not_ready: Vec<Endpoint>, ready: &[Endpoint]) -> Vec<Endpoint> {
    not_ready.retain(|e| {
        let place = (&e.cluster, &e.hostname);
        let same = ready.binary_search_by(|r| (&r.cluster, &r.hostname).cmp(&place));
        same.map_or(true, |at| ready[at].addresses != e.addresses)
    });
    not_ready
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
            let claims = [&first.endpoint, &draft.endpoint].into_iter();
            let objects = claims.flat_map(|endpoint| endpoint.object_refs(&key.namespace));
            let objects: Vec<String> = objects.map(|object| object.to_string()).collect();
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
    parts: &Parts<'_>,
    rules: &Rules,
    mirrors: &[Mirror<'_>],
) -> Option<Conflict> {
    let others = parts.other_kinds.iter();
    let others: BTreeSet<ClusterName> = others.map(|link| rules.name_of(link)).collect();
    let headless: BTreeSet<&ClusterName> = mirrors.iter().map(|(cluster, ..)| cluster).collect();
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

// === impl Draft ===

impl Draft {
    /// Reads an endpoint mirror.
    fn of_mirror(
        object: &ObjectKey,
        mirror: &EndpointMirror,
        cluster: ClusterName,
        inputs: &Inputs,
    ) -> Self {
        Self {
            endpoint: Endpoint {
                cluster,
                hostname: mirror.hostname.clone(),
                addresses: distinct(mirror.addresses.iter().copied()),
                ports: sorted(mirror.ports.iter().cloned()),
                alive: is_alive(inputs, object),
                origin: Origin::Mirror,
                objects: smallvec![(Kind::Service, object.name.clone())],
            },
            source: Source::Link(mirror.cluster.clone()),
            target: None,
            ready: true,
        }
    }

    /// Reads an entry of a slice of this cluster.
    fn of_pod(
        object: &ObjectKey,
        slice: &Slice,
        endpoint: &SliceEndpoint,
        address: IpAddr,
        cluster: &ClusterName,
    ) -> Self {
        let hostname = endpoint.hostname.clone();
        Self {
            endpoint: Endpoint {
                cluster: cluster.clone(),
                hostname: hostname.unwrap_or_else(|| Hostname::from_address(address)),
                addresses: distinct([address]),
                ports: sorted(slice.ports.iter().cloned()),
                alive: true,
                origin: Origin::Local,
                objects: smallvec![(Kind::EndpointSlice, object.name.clone())],
            },
            source: Source::Local,
            target: endpoint.target.clone(),
            ready: endpoint.ready,
        }
    }
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

fn orphaned(key: &ServiceKey, mirror: &EndpointMirror) -> Skip {
    let (parent, link) = (&mirror.parent, &mirror.cluster);
    let detail = format!("there is no headless mirror '{parent}' of {key} in cluster '{link}'");
    Skip::new(SkipReason::NoParent, detail)
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
