//! Decides which headless Services of this cluster are members (rule M5).

use super::inputs::Inputs;
use super::parts::Parts;
use super::rules::{LocalMembers, Rules};
use super::{Conflict, ConflictKind};
use crate::mirror::{Export, LocalService, ServiceKey};

/// The reason for which a headless Service of this cluster is not a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NonMember {
    /// Links do not select it by default, and no headless mirror of its name exists.
    NotExported(Export),
    /// `--local-members=off`.
    Off,
}

/// Returns why the headless Service of this cluster with the name of a service is not a member. Returns `None` if it is
/// a member or does not exist.
pub(super) fn non_member_of(key: &ServiceKey, inputs: &Inputs, rules: &Rules) -> Option<NonMember> {
    let parts = Parts::collect(key, inputs);
    non_member(parts.local?, &parts, rules)
}

/// Returns the headless Service of this cluster, if it is a member.
pub(super) fn local_member<'i>(parts: &Parts<'i>, rules: &Rules) -> Option<&'i LocalService> {
    parts
        .local
        .filter(|local| local.is_headless() && non_member(local, parts, rules).is_none())
}

/// Returns the Service of this cluster with a cluster IP, if it is a member: it is exported.
pub(super) fn cluster_ip_member<'i>(parts: &Parts<'i>, rules: &Rules) -> Option<&'i LocalService> {
    let is_enabled = match rules.local_members {
        LocalMembers::Matching | LocalMembers::Exported => true,
        LocalMembers::Off => false,
    };
    let is_member = |local: &&LocalService| !local.is_headless() && local.is_exported_in_any_way();
    parts.local.filter(is_member).filter(|_| is_enabled)
}

/// Returns why a headless Service is not a member. Mirrors of excluded clusters count as well, because the exclusion of
/// a cluster must not remove members of this cluster.
fn non_member(local: &LocalService, parts: &Parts<'_>, rules: &Rules) -> Option<NonMember> {
    if !local.is_headless() {
        return None; // `cluster_ip_member` decides
    }
    let is_member = match rules.local_members {
        LocalMembers::Matching => parts.is_mirrored() || local.is_exported(),
        LocalMembers::Exported => local.is_exported(),
        LocalMembers::Off => return Some(NonMember::Off),
    };
    (!is_member).then_some(NonMember::NotExported(local.export))
}

/// Reports a member of this cluster that other clusters do not have.
pub(super) fn export_conflict(
    key: &ServiceKey,
    local: &LocalService,
    rules: &Rules,
) -> Option<Conflict> {
    let why = match local.export {
        Export::No => "its Service is not exported",
        Export::RemoteDiscovery => {
            "its Service is exported as remote-discovery, which Linkerd does not support for headless Services"
        }
        Export::Gateway | Export::Other => return None,
    };
    let cluster = &rules.cluster_name;
    Some(Conflict {
        kind: ConflictKind::NotExported,
        name: key.to_string().into(),
        detail: format!("cluster '{cluster}' is a member here only: {why}").into(),
    })
}
