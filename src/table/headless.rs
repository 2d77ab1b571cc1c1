//! What headless mirrors offer (kind `headless`, rules M1 to M3).

use std::collections::BTreeMap;
use std::net::IpAddr;

use smallvec::SmallVec;

use super::candidate::Candidate;
use super::context::BuildContext;
use super::dead_ports::DeadPorts;
use super::endpoint::Rank;
use super::rules::Rules;
use super::store::Store;
use super::{Endpoint, EndpointLiveness, MissingHost, ServiceKind, cluster_ip};
use crate::model::{
    ClusterName, Hostname, Item, ItemKind, MirroredHost, ObjectKey, ObjectRef, Port, Ports,
    Problem, ProblemKind, SliceContent, Text,
};

/// An endpoint mirror (rule M1).
pub(super) type EndpointMirror<'s> = (&'s ObjectKey, &'s Item, &'s MirroredHost);

/// The endpoint mirrors of a service by their parents: the namespace, name and link of a headless mirror (rule M2).
pub(super) type EndpointMirrors<'s> =
    BTreeMap<(&'s Text, Text, &'s ClusterName), Vec<EndpointMirror<'s>>>;

/// What the slices of a headless mirror say of a host.
#[derive(Default)]
struct ListedHost<'s> {
    address: Option<IpAddr>,
    /// The ports of its pod.
    ports: SmallVec<[&'s Ports; 1]>,
    has_mirror: bool,
}

/// Makes the candidate of a headless mirror: the endpoints of its endpoint mirrors, which it removes from `mirrors`, and of listed
/// hosts with a Service of their own (rule M1b).
pub(super) fn candidate<'s>(
    object: &'s ObjectKey,
    item: &'s Item,
    mirrors: &mut EndpointMirrors<'s>,
    context: BuildContext<'s>,
    problems: &mut Vec<Problem>,
) -> Option<Candidate<'s>> {
    let BuildContext { store, rules, .. } = context;
    let link = item.link()?;
    let cluster = &rules.name_of(link);
    let mirrors = mirrors.remove(&(&object.namespace, object.name.text(), link));
    let mirrors = mirrors.unwrap_or_default();
    let mut listed = listed_hosts(store, object, problems);
    let mut dead_ports = DeadPorts::default();
    let mut endpoints = Vec::with_capacity(mirrors.len());
    for (object, mirror, host) in mirrors {
        let listed = listed.get_mut(&host.hostname).map(|listed| {
            listed.has_mirror = true;
            &*listed.ports
        });
        let listed = listed.unwrap_or_default();
        dead_ports.add_mirror(mirror, host, listed);
        endpoints.push(Endpoint {
            cluster: Some(cluster.clone()),
            hostname: Some(host.hostname.clone()),
            ports: ports_of_host(&mirror.ports, listed),
            liveness: liveness(store, object),
            ..Endpoint::of_item(object, mirror, ServiceKind::Headless)
        });
    }
    problems.extend(dead_ports.problem(cluster));
    let mut missing = Vec::new();
    for (hostname, listed) in listed.iter().filter(|(_, listed)| !listed.has_mirror) {
        let expected = object.sibling(&Text::from(format!("{hostname}-{link}")));
        let host = MissingHost {
            cluster: cluster.clone(),
            hostname: (*hostname).clone(),
            address: listed.address,
            mirror: ObjectRef::service(object),
            expected: ObjectRef::service(&expected),
        };
        match adopt(&host, &listed.ports, store, rules) {
            Some(endpoint) => endpoints.push(endpoint),
            None => missing.push(host),
        }
    }
    let (clusters, links) = ([cluster.clone()].into(), &context.timers.links);
    let candidate = Candidate::new((object, item), Rank::Headless, clusters, endpoints, links);
    // Nobody maintains the list of an unlinked cluster.
    missing.retain(|_| !candidate.is_unlinked);
    Some(Candidate {
        missing,
        ..candidate
    })
}

/// Returns the hosts that the slices of a headless mirror list, and reports those that were skipped.
fn listed_hosts<'s>(
    store: &'s Store,
    mirror: &ObjectKey,
    problems: &mut Vec<Problem>,
) -> BTreeMap<&'s Hostname, ListedHost<'s>> {
    let mut listed: BTreeMap<&Hostname, ListedHost<'_>> = BTreeMap::new();
    for (object, slice) in store.slices_of(mirror) {
        let SliceContent::Hosts(slice) = &slice.content else {
            continue;
        };
        problems.extend(slice.problems(object));
        for host in &slice.entries {
            let listed = listed.entry(&host.hostname).or_default();
            if listed.ports.is_empty() {
                listed.address = host.address;
            }
            listed.ports.push(&slice.ports);
        }
    }
    listed
}

/// Returns the ports that a host has, of those of its mirror: those with the names that its slices have, if there are any
/// (rule M1c). An endpoint mirror keeps the names that it was made with.
fn ports_of_host(ports: &Ports, listed: &[&Ports]) -> Ports {
    let is_listed = |port: &&Port| {
        let mut all = listed.iter().flat_map(|ports| ports.iter());
        all.any(|one| one.has_same_name(port))
    };
    match ports.iter().filter(is_listed).count() {
        0 => ports.clone(),
        count if count == ports.len() => ports.clone(),
        _ => Ports::interned(ports.iter().filter(is_listed).cloned()),
    }
}

/// Returns the liveness of an endpoint mirror (rule M3). It is alive if one of its slices has a ready gateway address, or no
/// slice has an endpoint.
fn liveness(store: &Store, mirror: &ObjectKey) -> EndpointLiveness {
    let slices = store.slices_of(mirror).into_iter();
    let gateways = slices.filter_map(|(_, slice)| match slice.content {
        SliceContent::Ready(ready) => ready,
        _ => None,
    });
    match gateways.reduce(|one, other| one || other) {
        Some(true) | None => EndpointLiveness::Alive,
        Some(false) => EndpointLiveness::GatewayDown,
    }
}

/// Makes the endpoint of a listed host that has an exported Service with a cluster IP of its own (rule M1b). Linkerd lists the
/// address of that Service instead of making an endpoint mirror.
fn adopt(host: &MissingHost, ports: &[&Ports], store: &Store, rules: &Rules) -> Option<Endpoint> {
    let address = host.address?;
    let stands_for_host = |mirror: &&Item| {
        matches!(mirror.kind, ItemKind::GatewayMirror | ItemKind::FlatMirror)
            && mirror.service.service.as_str() == host.hostname.as_str()
            && mirror.link().map(|link| rules.name_of(link)).as_ref() == Some(&host.cluster)
            && mirror.addresses.contains(&address)
    };
    let object = &host.expected.key;
    let mirror = store.item_at(object).filter(stands_for_host)?;
    Some(Endpoint {
        hostname: Some(host.hostname.clone()),
        ports: ports_of_host(&mirror.ports, ports),
        ..cluster_ip::endpoint(object, mirror, host.cluster.clone(), store)
    })
}

/// Collects the endpoint mirrors of a service. It may have thousands.
pub(super) fn endpoint_mirrors<'s>(context: BuildContext<'s>) -> EndpointMirrors<'s> {
    let mut by_parent = EndpointMirrors::new();
    for (object, item) in context.items {
        if let (Some(host), Some(link)) = (&item.host, item.link()) {
            let parent = (&object.namespace, host.parent.clone(), link);
            let mirrors = by_parent.entry(parent).or_default();
            mirrors.push((object, item, host));
        }
    }
    by_parent
}

/// Reports the endpoint mirrors without a parent. Those of excluded clusters have a problem already.
pub(super) fn report_orphans(
    orphans: EndpointMirrors<'_>,
    rules: &Rules,
    problems: &mut Vec<Problem>,
) {
    for ((_, parent, link), mirrors) in orphans {
        if rules.excludes(link) {
            continue;
        }
        problems.extend(mirrors.into_iter().map(|(object, item, _)| {
            let service = &item.service;
            let detail = format!(
                "no parent: headless mirror '{parent}' of {service} in cluster '{link}' does not exist"
            );
            let problem = Problem::new(ProblemKind::UnusableObject, detail).of_cluster(link);
            problem.of_object(ObjectRef::service(object))
        }));
    }
}
