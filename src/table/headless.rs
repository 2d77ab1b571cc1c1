//! Endpoints of headless mirrors (kind `headless`, rules M1 to M3).

use std::collections::BTreeMap;

use super::dead_ports::DeadPorts;
use super::endpoint::{Draft, Source};
use super::items::{Items, Mirror};
use super::kind::Rank;
use super::missing::listed_hosts;
use super::rules::Rules;
use super::store::Store;
use super::{Endpoint, EndpointLiveness, MissingHost, ServiceKind, cluster_ip};
use crate::model::{
    ClusterName, Item, ItemKind, ListedHosts, MirroredHost, ObjectKey, ObjectRef, Problem,
    ProblemKind, ServiceKey, SliceContent, Text,
};

/// Collects the endpoints of other clusters (rules M1, M2, M3, M6).
pub(super) fn mirror_drafts(
    items: &Items<'_>,
    key: &ServiceKey,
    store: &Store,
    rules: &Rules,
    problems: &mut Vec<Problem>,
) -> Vec<Draft> {
    // Collected once, because a service may have thousands of endpoint mirrors, and the parent of each is looked up.
    let parents: BTreeMap<(Text, &ClusterName), Vec<&ListedHosts>> = items
        .headless_mirrors()
        .map(|parent| {
            let slices = listed_hosts(store, parent.object).collect();
            ((parent.object.name.text(), parent.link), slices)
        })
        .collect();
    // The mirrors of a cluster are in the order of its hosts, with few exceptions.
    let mut clusters: BTreeMap<ClusterName, Vec<(Mirror<'_>, &MirroredHost)>> = BTreeMap::new();
    for (mirror, host) in items.endpoint_mirrors() {
        let cluster = rules.name_of(mirror.link);
        clusters.entry(cluster).or_default().push((mirror, host));
    }
    let mut drafts = Vec::with_capacity(clusters.values().map(Vec::len).sum());
    for (cluster, mirrors) in clusters {
        let exclusion = rules.exclusion(&cluster);
        let mut dead_ports = DeadPorts::default();
        for (Mirror { object, item, link }, host) in mirrors {
            let problem = if let Some(problem) = &exclusion {
                problem.clone()
            } else if let Some(slices) = parents.get(&(host.parent.clone(), link)) {
                drafts.push(draft_of_mirror(object, item, host, cluster.clone(), store));
                dead_ports.add_mirror(item, host, slices);
                continue;
            } else {
                let parent = &host.parent;
                let detail = format!(
                    "headless mirror '{parent}' of {key} in cluster '{link}' does not exist"
                );
                Problem::new(ProblemKind::NoParent, detail).of_cluster(link)
            };
            problems.push(problem.of_object(ObjectRef::service(object)));
        }
        problems.extend(dead_ports.problem(&cluster));
    }
    drafts
}

/// Makes endpoints of the missing hosts that have an exported Service with a cluster IP of their own (rule M1b). Linkerd
/// lists the address of that Service instead of making an endpoint mirror. These hosts are no longer missing.
pub(super) fn adopt_hosts(
    missing: &mut Vec<MissingHost>,
    store: &Store,
    rules: &Rules,
) -> Vec<Draft> {
    let mut drafts = Vec::new();
    missing.retain(|host| {
        let stands_for_host = |mirror: &&Item| {
            matches!(mirror.kind, ItemKind::GatewayMirror | ItemKind::FlatMirror)
                && mirror.service.service.as_str() == host.hostname.as_str()
                && mirror.link().map(|link| rules.name_of(link)).as_ref() == Some(&host.cluster)
                && host
                    .address
                    .is_some_and(|address| mirror.addresses.contains(&address))
        };
        let object = &host.expected.key;
        let mirror = store.item_at(object).filter(stands_for_host);
        drafts.extend(mirror.map(|mirror| {
            let (cluster, hostname) = (host.cluster.clone(), Some(host.hostname.clone()));
            cluster_ip::mirror_draft(object, mirror, cluster, hostname, store)
        }));
        mirror.is_none()
    });
    drafts
}

/// Makes the draft of an endpoint mirror.
fn draft_of_mirror(
    object: &ObjectKey,
    mirror: &Item,
    host: &MirroredHost,
    cluster: ClusterName,
    store: &Store,
) -> Draft {
    let endpoint = Endpoint {
        cluster: Some(cluster),
        hostname: Some(host.hostname.clone()),
        liveness: liveness(store, object),
        ..Endpoint::of_item(object, mirror, ServiceKind::Headless)
    };
    Draft::ready(endpoint, Source::of(mirror), Rank::Headless)
}

/// Returns the liveness of an endpoint mirror (rule M3). It is alive if one of its slices has a ready gateway address, or no
/// slice has an endpoint.
fn liveness(store: &Store, mirror: &ObjectKey) -> EndpointLiveness {
    let slices = store.slices_of(mirror);
    let gateways = slices
        .into_iter()
        .filter_map(|(_, slice)| match slice.content {
            SliceContent::Ready(ready) => ready,
            _ => None,
        });
    match gateways.reduce(|one, other| one || other) {
        Some(true) | None => EndpointLiveness::Alive,
        Some(false) => EndpointLiveness::GatewayDown,
    }
}
