//! Headless Services of this cluster: which of them join, and why others do not (rule M5).

use super::inputs::Inputs;
use super::parts::Parts;
use super::rules::{LocalMembers, Rules};
use super::{Conflict, ConflictKind};
use crate::mirror::{Export, LocalService, ServiceKey};

/// Why a headless Service of this cluster is no member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NonMember {
    /// Links do not select it by default, and no mirror of its name makes it join.
    NotExported(Export),
    /// `--local-members=off`.
    Off,
}

/// Returns why the headless Service of this cluster with a service's name is no member. Returns `None` if it is one, or if
/// there is no such Service.
pub(super) fn non_member_of(key: &ServiceKey, inputs: &Inputs, rules: &Rules) -> Option<NonMember> {
    let parts = Parts::of(key, inputs);
    non_member(parts.local?, &parts, rules)
}

/// Returns the headless Service of this cluster if it joins.
pub(super) fn local_member<'i>(parts: &Parts<'i>, rules: &Rules) -> Option<&'i LocalService> {
    parts
        .local
        .filter(|local| non_member(local, parts, rules).is_none())
}

/// Returns why a headless Service does not join, if it does not. A mirror makes it join, also one of an excluded cluster:
/// leaving out a cluster must not remove the members of this one.
fn non_member(local: &LocalService, parts: &Parts<'_>, rules: &Rules) -> Option<NonMember> {
    let joins = match rules.local_members {
        LocalMembers::Matching => parts.is_mirrored() || local.is_exported(),
        LocalMembers::Exported => local.is_exported(),
        LocalMembers::Off => return Some(NonMember::Off),
    };
    (!joins).then_some(NonMember::NotExported(local.export))
}

/// Reports a member of this cluster that other clusters lack.
pub(super) fn export_conflict(
    key: &ServiceKey,
    local: &LocalService,
    rules: &Rules,
) -> Option<Conflict> {
    let why = match local.export {
        Export::No => "its Service is not exported",
        Export::RemoteDiscovery => {
            "its Service is exported as remote-discovery, which Linkerd does not do for headless Services"
        }
        Export::Gateway | Export::Other => return None,
    };
    let cluster = &rules.cluster_name;
    Some(Conflict {
        kind: ConflictKind::NotExported,
        name: key.to_string(),
        detail: format!("cluster '{cluster}' is a member here only: {why}"),
    })
}
