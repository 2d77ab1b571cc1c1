//! Decides which headless Services of this cluster are members (rule M5).

use smallvec::smallvec;

use super::endpoint::{Draft, Source, distinct};
use super::items::Items;
use super::rules::{LocalMembers, Rules};
use super::store::Store;
use super::{Endpoint, ServiceKind};
use crate::model::{
    ClusterName, Export, Item, Kind, ObjectKey, ObjectRef, Problem, ProblemKind, ServiceKey,
    SliceContent, SliceEndpoint, SliceEndpoints,
};

/// The reason for which a headless Service of this cluster is not a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NonMember {
    /// Links do not select it by default, and no headless mirror of its name exists.
    NotExported(Export),
    /// `--local-members=off`.
    Off,
}

/// Returns why the headless Service of this cluster with the name of a service is not a member. Returns `None` if it is
/// a member or does not exist. Mirrors of excluded clusters count as well, because the exclusion of a cluster must not
/// remove members of this cluster.
pub(super) fn non_member(items: &Items<'_>, rules: &Rules) -> Option<NonMember> {
    let own = items.own().filter(|own| own.is_headless())?;
    let export = own.export()?;
    let is_mirrored = || items.headless_mirrors().next().is_some();
    let is_member = match rules.local_members {
        LocalMembers::Matching => export.is_through_gateway() || is_mirrored(),
        LocalMembers::Exported => export.is_through_gateway(),
        LocalMembers::Off => return Some(NonMember::Off),
    };
    (!is_member).then_some(NonMember::NotExported(export))
}

/// Returns the headless Service of this cluster, if it is a member.
pub(super) fn headless_member<'i>(items: &Items<'i>, rules: &Rules) -> Option<&'i Item> {
    let own = items.own().filter(|own| own.is_headless())?;
    non_member(items, rules).is_none().then_some(own)
}

/// Returns the Service of this cluster with a cluster IP, if it is a member: it is exported.
pub(super) fn cluster_ip_member<'i>(items: &Items<'i>, rules: &Rules) -> Option<&'i Item> {
    let own = items.own().filter(|own| !own.is_headless())?;
    let is_exported = own.export().is_some_and(Export::is_any);
    (is_exported && rules.local_members != LocalMembers::Off).then_some(own)
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
            alive: true,
            is_gateway_down: false,
            kind: ServiceKind::Local,
            is_local: true,
            is_selected: true,
            is_standby: false,
            objects: smallvec![(Kind::EndpointSlice, object.name.clone())],
        },
        source: Source::Local,
        target: pod.target.clone(),
        ready: pod.ready,
    }
}

/// Reports a member of this cluster that other clusters do not have.
pub(super) fn not_exported(own: &Item, rules: &Rules) -> Option<Problem> {
    let why = match own.export()? {
        Export::No => "its Service is not exported",
        Export::RemoteDiscovery => {
            "its Service is exported as remote-discovery, which Linkerd does not support for headless Services"
        }
        Export::Gateway | Export::Other => return None,
    };
    let cluster = &rules.cluster_name;
    let detail = format!("cluster '{cluster}' is a member here only: {why}");
    Some(Problem::new(ProblemKind::NotExported, detail))
}
