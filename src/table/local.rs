//! Decides which headless Services of this cluster are members (rule M5).

use std::collections::BTreeSet;

use super::endpoint::{Draft, Source, distinct};
use super::items::Items;
use super::kind::Rank;
use super::rules::{LocalMembers, Rules};
use super::store::Store;
use super::{Endpoint, EndpointLiveness, ServiceKind};
use crate::model::{
    ClusterName, Export, Few, Item, Kind, ObjectKey, ObjectRef, OwnForm, OwnService, Problem,
    ProblemKind, ServiceKey, SliceContent, SliceEndpoint, SliceEndpoints,
};

/// How a headless Service of this cluster is a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Membership {
    /// By itself: it is exported, it has an annotation of this server, or an alias names it.
    Own,
    /// Only while a mirror of its name exists.
    ByMirror,
}

/// The reason for which a headless Service of this cluster is not a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NonMember {
    /// Links do not select it by default, no mirror of its name exists, and it has no annotation of this server.
    NotExported(Export),
    /// `localMembers=off`.
    Off,
}

/// Returns the headless Service of this cluster, and how it is a member or why it is not. Mirrors of excluded clusters count
/// as well, because the exclusion of a cluster must not remove members of this cluster.
pub(super) fn headless_own(
    items: &Items<'_>,
    rules: &Rules,
) -> Option<(OwnService, Result<Membership, NonMember>)> {
    let (item, own) = items.own()?;
    let OwnForm::Headless { .. } = own.form else {
        return None;
    };
    let not_exported = Err(NonMember::NotExported(own.export));
    let membership = match rules.local_members {
        LocalMembers::None => Err(NonMember::Off),
        _ if own.export.is_through_gateway() => Ok(Membership::Own),
        LocalMembers::Exported => not_exported,
        LocalMembers::Matching if own.has_settings || rules.aliases.is_source(&item.service) => {
            Ok(Membership::Own)
        }
        LocalMembers::Matching if items.has_mirror() => Ok(Membership::ByMirror),
        LocalMembers::Matching => not_exported,
    };
    Some((own, membership))
}

/// Returns why the headless Service of this cluster with the name of a service is not a member. Returns `None` if it is
/// a member or does not exist.
pub(super) fn non_member(items: &Items<'_>, rules: &Rules) -> Option<NonMember> {
    headless_own(items, rules)?.1.err()
}

/// Returns the headless Service of this cluster, if it is a member, and how.
pub(super) fn headless_member(
    items: &Items<'_>,
    rules: &Rules,
) -> Option<(OwnService, Membership)> {
    let (own, membership) = headless_own(items, rules)?;
    Some((own, membership.ok()?))
}

/// Returns the Service of this cluster with a cluster IP, if it is a member: it is exported.
pub(super) fn cluster_ip_member<'i>(items: &Items<'i>, rules: &Rules) -> Option<&'i Item> {
    let (item, own) = items.own()?;
    let is_member = own.form == OwnForm::ClusterIp
        && own.export.is_any()
        && rules.local_members != LocalMembers::None;
    is_member.then_some(item)
}

/// Collects the pods of the headless Service of this cluster.
pub(super) fn pod_drafts(
    key: &ServiceKey,
    store: &Store,
    rules: &Rules,
    problems: &mut Vec<Problem>,
) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for (object, slice) in store.slices_of(&ObjectKey::of_service(key)) {
        let SliceContent::Endpoints(listed) = &slice.content else {
            continue;
        };
        let left_out = listed.left_out.iter();
        problems.extend(left_out.map(|one| one.clone().of_object(ObjectRef::slice(object))));
        let pods = listed.endpoints.iter();
        drafts.extend(pods.map(|pod| draft_of_pod(object, listed, pod, &rules.cluster_name)));
    }
    drafts
}

/// Makes the draft of an entry of a slice of this cluster.
fn draft_of_pod(
    object: &ObjectKey,
    listed: &SliceEndpoints,
    pod: &SliceEndpoint,
    cluster: &ClusterName,
) -> Draft {
    Draft {
        endpoint: Endpoint {
            cluster: Some(cluster.clone()),
            hostname: Some(pod.hostname.clone()),
            addresses: distinct([pod.address]),
            ports: listed.ports.clone(),
            liveness: EndpointLiveness::Alive,
            kind: ServiceKind::Local,
            is_local: true,
            is_selected: true,
            is_standby: false,
            alias_source: 0,
            objects: Few::one((Kind::EndpointSlice, object.name.clone())),
        },
        source: Source::Local,
        rank: Rank::Headless,
        shared_by: BTreeSet::new(),
        target: pod.target.clone(),
        ready: pod.ready,
    }
}

/// Reports a member of this cluster that other clusters do not have, and that leaves with the last mirror of its name if it is
/// a member only because of a mirror.
pub(super) fn not_exported(
    own: OwnService,
    membership: Membership,
    rules: &Rules,
) -> Option<Problem> {
    let why = match own.export {
        Export::No => "its Service is not exported",
        Export::RemoteDiscovery => {
            "its Service is exported as remote-discovery, which Linkerd does not support for headless Services"
        }
        // A Link with a selector of its own may mirror it.
        Export::Gateway | Export::Other => return None,
    };
    let until = match membership {
        Membership::Own => "",
        Membership::ByMirror => ", and only while a mirror of its name exists",
    };
    let cluster = &rules.cluster_name;
    let detail = format!("cluster '{cluster}' is a member here only{until}: {why}");
    Some(Problem::new(ProblemKind::NotExported, detail))
}
