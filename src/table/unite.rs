//! Endpoints of one service as its objects tell them, and how those of one name become one endpoint.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use smallvec::SmallVec;

use super::{Address, Conflict, ConflictKind, Endpoint, Repeats};
use crate::mirror::{ClusterName, Hostname, ServiceKey, Text};

/// An endpoint as one object tells it, before equal names are united.
pub(super) struct Draft {
    /// The endpoint.
    pub(super) endpoint: Endpoint,
    /// The link, or this cluster, that the object speaks for.
    pub(super) source: Source,
    /// The pod of a local endpoint: one pod has one endpoint per address family.
    pub(super) target: Option<Text>,
    /// The endpoint is answered.
    pub(super) ready: bool,
}

/// What an object speaks for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    /// This cluster.
    Local,
    /// A link.
    Link(ClusterName),
}

/// The endpoints of a service.
pub(super) struct United {
    /// What is answered, sorted by cluster and hostname.
    pub(super) endpoints: Vec<Endpoint>,
    /// What is not ready, sorted likewise.
    pub(super) not_ready: Vec<Endpoint>,
}

/// Unites the drafts of a service; reports what is no dual-stack pod.
pub(super) fn unite(key: &ServiceKey, drafts: Vec<Draft>, conflicts: &mut Vec<Conflict>) -> United {
    let (ready, not_ready): (Vec<Draft>, Vec<Draft>) = drafts.into_iter().partition(|d| d.ready);
    let mut endpoints = unite_names(key, ready, conflicts);
    let not_ready = unite_names(key, not_ready, &mut Vec::new());
    let not_ready = without_ready(not_ready, &endpoints);
    mark_repeats(&mut endpoints);
    United {
        endpoints,
        not_ready,
    }
}

/// Unites endpoints with one name, so that cluster and hostname occur once; reports what is no dual-stack pod.
fn unite_names(
    key: &ServiceKey,
    drafts: Vec<Draft>,
    conflicts: &mut Vec<Conflict>,
) -> Vec<Endpoint> {
    let mut united: BTreeMap<(ClusterName, Hostname), Draft> = BTreeMap::new();
    for draft in drafts {
        let Endpoint {
            cluster, hostname, ..
        } = &draft.endpoint;
        let name = (cluster.clone(), hostname.clone());
        let Some(first) = united.get_mut(&name) else {
            united.insert(name, draft);
            continue;
        };
        if !is_one_pod(first, &draft) {
            conflicts.push(endpoint_conflict(key, &first.endpoint, &draft.endpoint));
        }
        merge(&mut first.endpoint, draft.endpoint);
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

/// Reports two endpoints that claim one name.
fn endpoint_conflict(key: &ServiceKey, first: &Endpoint, other: &Endpoint) -> Conflict {
    let (cluster, hostname) = (&first.cluster, &first.hostname);
    let claims = [first, other].into_iter();
    let objects = claims.flat_map(|endpoint| endpoint.object_refs(&key.namespace));
    let objects: Vec<String> = objects.map(|object| object.to_string()).collect();
    Conflict {
        kind: ConflictKind::Endpoint,
        name: key.to_string(),
        detail: format!(
            "'{hostname}' of cluster '{cluster}' is claimed by {}; united",
            objects.join(" and ")
        ),
    }
}

/// Adds to an endpoint what another one of the same name has.
fn merge(one: &mut Endpoint, other: Endpoint) {
    let addresses = one.addresses.iter().chain(&other.addresses);
    one.addresses = distinct(addresses.map(|address| address.ip).collect::<Vec<_>>());
    one.ports = one.ports.union(&other.ports);
    one.alive |= other.alive;
    one.origin = one.origin.min(other.origin);
    one.objects.extend(other.objects);
    one.objects.sort();
    one.objects.dedup();
}

/// Leaves out the endpoints that another slice says are ready. `ready` is sorted.
fn without_ready(mut not_ready: Vec<Endpoint>, ready: &[Endpoint]) -> Vec<Endpoint> {
    not_ready.retain(|e| {
        let place = (&e.cluster, &e.hostname);
        let same = ready.binary_search_by(|r| (&r.cluster, &r.hostname).cmp(&place));
        same.map_or(true, |at| ready[at].addresses != e.addresses)
    });
    not_ready
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

/// Returns addresses of an endpoint, sorted, each once.
pub(super) fn distinct(ips: impl IntoIterator<Item = IpAddr>) -> SmallVec<[Address; 1]> {
    let ips: BTreeSet<IpAddr> = ips.into_iter().collect();
    ips.into_iter()
        .map(|ip| Address {
            ip,
            repeats: Repeats::Nothing,
        })
        .collect()
}

/// Rule M6: two sources of one cluster name are united and reported.
pub(super) fn cluster_conflicts(key: &ServiceKey, drafts: &[Draft]) -> Vec<Conflict> {
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

// === impl Source ===

impl Source {
    /// Names the source in a sentence.
    fn words(&self) -> String {
        match self {
            Self::Local => "this cluster".to_owned(),
            Self::Link(link) => format!("link '{link}'"),
        }
    }
}
