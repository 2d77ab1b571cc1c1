//! Endpoints of headless mirrors (kind `headless`, rules M1 to M3).

use std::collections::BTreeSet;

use super::inputs::Inputs;
use super::members::service_ref;
use super::merge::{Draft, Source};
use super::parts::Parts;
use super::rules::Rules;
use super::{Endpoint, MissingHost, ServiceKind, cluster_ip};
use crate::mirror::{
    ClusterName, EndpointMirror, Object, ObjectKey, ObjectRef, ServiceKey, Skip, SkipReason, Text,
    Watch,
};

/// Collects the endpoints of other clusters (rules M1, M2, M3, M6).
pub(super) fn mirror_drafts(
    parts: &Parts<'_>,
    key: &ServiceKey,
    inputs: &Inputs,
    rules: &Rules,
    skipped: &mut Vec<(ObjectRef, Skip)>,
) -> Vec<Draft> {
    let mut drafts = Vec::new();
    let parents = parents(parts);
    for (object, mirror) in &parts.endpoints {
        let cluster = rules.name_of(&mirror.cluster);
        let skip = if let Some(skip) = rules.exclusion(&cluster) {
            skip
        } else if !parents.contains(&(mirror.parent.clone(), &mirror.cluster)) {
            orphan_skip(key, mirror)
        } else {
            drafts.push(draft_of_mirror(object, mirror, cluster, inputs));
            continue;
        };
        skipped.push((service_ref(object), skip));
    }
    drafts
}

/// Returns the names and links of the headless mirrors. They are collected once, because a service may have thousands
/// of endpoint mirrors, and the parent of each is looked up.
fn parents<'i>(parts: &Parts<'i>) -> BTreeSet<(Text, &'i ClusterName)> {
    let parents = parts.headless.iter();
    parents
        .map(|(name, parent)| (name.name.text(), &parent.cluster))
        .collect()
}

/// Makes endpoints of the missing hosts that have an exported Service with a cluster IP of their own (rule M1b). Linkerd
/// lists the address of that Service instead of making an endpoint mirror. These hosts are no longer missing.
pub(super) fn adopt_hosts(
    missing: &mut Vec<MissingHost>,
    inputs: &Inputs,
    rules: &Rules,
) -> Vec<Draft> {
    let mut drafts = Vec::new();
    let services = inputs.objects(Watch::MirrorServices);
    missing.retain(|host| {
        let object = services.get_key_value(&host.expected.key);
        let Some((object, Object::ServiceMirror(mirror))) = object else {
            return true;
        };
        let is_same = mirror.service.service.as_str() == host.hostname.as_str()
            && rules.name_of(&mirror.cluster) == host.cluster
            && host
                .address
                .is_some_and(|address| mirror.addresses.contains(&address));
        if is_same {
            let (cluster, hostname) = (host.cluster.clone(), Some(host.hostname.clone()));
            drafts.push(cluster_ip::mirror_draft(
                object, mirror, cluster, hostname, inputs,
            ));
        }
        !is_same
    });
    drafts
}

/// Makes the draft of an endpoint mirror.
fn draft_of_mirror(
    object: &ObjectKey,
    mirror: &EndpointMirror,
    cluster: ClusterName,
    inputs: &Inputs,
) -> Draft {
    let (addresses, ports) = (&mirror.addresses, &mirror.ports);
    let endpoint = Endpoint {
        cluster: Some(cluster),
        hostname: Some(mirror.hostname.clone()),
        alive: is_alive(inputs, object),
        ..Endpoint::of_service(object, ServiceKind::Headless, addresses, ports)
    };
    Draft::ready(endpoint, Source::Link(mirror.cluster.clone()))
}

/// Returns whether an endpoint mirror is alive (rule M3): one of its slices has a ready gateway address, or no slice
/// has an endpoint.
fn is_alive(inputs: &Inputs, mirror: &ObjectKey) -> bool {
    let slices = inputs.slices_of(mirror);
    let gateways = slices.filter_map(|(_, slice)| match slice {
        Object::ReadySlice(slice) => slice.ready,
        Object::HeadlessMirror(_)
        | Object::EndpointMirror(_)
        | Object::ServiceMirror(_)
        | Object::FederatedService(_)
        | Object::LocalService(_)
        | Object::ListedHosts(_)
        | Object::Slice(_)
        | Object::ServiceImport(_)
        | Object::ImportSlice(_)
        | Object::Skipped(_) => None,
    });
    gateways.reduce(|one, other| one || other).unwrap_or(true)
}

/// Returns the skip of an endpoint mirror without a parent (rule M2).
fn orphan_skip(key: &ServiceKey, mirror: &EndpointMirror) -> Skip {
    let (parent, link) = (&mirror.parent, &mirror.cluster);
    let detail = format!("headless mirror '{parent}' of {key} in cluster '{link}' does not exist");
    Skip::new(SkipReason::NoParent, detail)
}
