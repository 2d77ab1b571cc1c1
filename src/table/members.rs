//! Builds one service from the inputs: its members and their endpoints (rules M1–M6, M9).

use std::collections::BTreeSet;

use smallvec::smallvec;

use super::inputs::Inputs;
use super::local::{export_conflict, local_member};
use super::merge::{Draft, Source, cluster_conflicts, distinct, merge_drafts};
use super::missing::missing_hosts;
use super::overrides::resolve;
use super::parts::Parts;
use super::rules::Rules;
use super::{Conflict, ConflictKind, Endpoint, NameAddresses, Origin, Service};
use crate::mirror::{
    ClusterName, EndpointMirror, HeadlessMirror, Kind, LocalService, Object, ObjectKey, ObjectRef,
    Overrides, ServiceKey, Skip, SkipReason, Slice, SliceEndpoint, Text,
};

/// A headless mirror with its key and its cluster, after aliases.
type Mirror<'i> = (ClusterName, &'i ObjectKey, &'i HeadlessMirror);

/// The members of a service and their endpoints.
struct Members<'i> {
    /// The headless mirrors of clusters that are not excluded.
    mirrors: Vec<Mirror<'i>>,
    /// The headless Service of this cluster, if it is a member.
    local: Option<&'i LocalService>,
    drafts: Vec<Draft>,
    /// Objects that were skipped.
    skipped: Vec<(ObjectRef, Skip)>,
}

/// Builds one service. Returns `None` if no object belongs to it.
pub(super) fn build_service(key: &ServiceKey, inputs: &Inputs, rules: &Rules) -> Option<Service> {
    let parts = Parts::collect(key, inputs);
    let members = Members::collect(key, &parts, inputs, rules)?;
    let mut conflicts = members.conflicts(key, &parts, inputs, rules);
    let is_known = !members.mirrors.is_empty() || members.local.is_some();
    let (mirrors, overrides) = (sorted_refs(&members.mirrors), members.overrides());
    let merged = merge_drafts(key, members.drafts, &mut conflicts);
    let (ttl, gateway_down) = resolve(key, &overrides, rules, &mut conflicts);
    Some(Service {
        key: key.clone(),
        ttl,
        gateway_down,
        name_addresses: NameAddresses::new(&merged.endpoints, gateway_down),
        endpoints: merged.endpoints,
        not_ready: merged.not_ready,
        is_known,
        mirrors,
        missing: missing_hosts(key, &parts, inputs, rules),
        skipped: members.skipped,
        conflicts,
    })
}

// === impl Members ===

impl<'i> Members<'i> {
    /// Collects the members of a service. Returns `None` if no object belongs to it.
    fn collect(
        key: &ServiceKey,
        parts: &Parts<'i>,
        inputs: &Inputs,
        rules: &Rules,
    ) -> Option<Self> {
        let mut skipped = Vec::new();
        let mirrors = included_mirrors(parts, rules, &mut skipped);
        let mut drafts = mirror_drafts(parts, key, inputs, rules, &mut skipped);
        let local = local_member(parts, rules);
        if local.is_some() {
            drafts.extend(local_drafts(key, inputs, rules, &mut skipped));
        }
        if mirrors.is_empty() && local.is_none() && skipped.is_empty() {
            return None;
        }
        drafts.retain(|draft| has_valid_length(key, &draft.endpoint, rules, &mut skipped));
        Some(Self {
            mirrors,
            local,
            drafts,
            skipped,
        })
    }

    /// Lists the conflicts between the members, except those between single endpoints and between annotations.
    fn conflicts(
        &self,
        key: &ServiceKey,
        parts: &Parts<'_>,
        inputs: &Inputs,
        rules: &Rules,
    ) -> Vec<Conflict> {
        let mut conflicts: Vec<Conflict> = identity_conflicts(key, inputs).collect();
        conflicts.extend(cluster_conflicts(key, &self.drafts));
        conflicts.extend(kind_conflict(key, parts, rules, &self.mirrors));
        let local = self.local;
        conflicts.extend(local.and_then(|local| export_conflict(key, local, rules)));
        conflicts
    }

    /// Returns the annotations of the members.
    fn overrides(&self) -> Vec<&'i Overrides> {
        let mirrors = self.mirrors.iter().map(|(_, _, mirror)| &mirror.overrides);
        mirrors
            .chain(self.local.map(|local| &local.overrides))
            .collect()
    }
}

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
            skipped.push((service_ref(object), excluded_skip(&cluster)));
        } else {
            mirrors.push((cluster, *object, *mirror));
        }
    }
    mirrors
}

/// Returns the headless mirrors with their clusters, sorted.
fn sorted_refs(mirrors: &[Mirror<'_>]) -> Vec<(ClusterName, ObjectRef)> {
    let refs = mirrors.iter();
    let refs = refs.map(|(cluster, object, _)| (cluster.clone(), service_ref(object)));
    let mut refs: Vec<_> = refs.collect();
    refs.sort();
    refs
}

// === Endpoints of other clusters ===

/// Collects the endpoints of other clusters (rules M1, M2, M3, M6).
fn mirror_drafts(
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
        let skip = if rules.excluded_clusters.contains(&cluster) {
            excluded_skip(&cluster)
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

/// Makes the draft of an endpoint mirror.
fn draft_of_mirror(
    object: &ObjectKey,
    mirror: &EndpointMirror,
    cluster: ClusterName,
    inputs: &Inputs,
) -> Draft {
    Draft {
        endpoint: Endpoint {
            cluster,
            hostname: mirror.hostname.clone(),
            addresses: distinct(mirror.addresses.iter().copied()),
            ports: mirror.ports.clone(),
            alive: is_alive(inputs, object),
            origin: Origin::Mirror,
            objects: smallvec![(Kind::Service, object.name.clone())],
        },
        source: Source::Link(mirror.cluster.clone()),
        target: None,
        ready: true,
    }
}

/// Returns whether an endpoint mirror is alive (rule M3): one of its slices has a ready gateway address, or no slice
/// has an endpoint.
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

// === Endpoints of this cluster ===

/// Collects the endpoints of this cluster (rule M5).
fn local_drafts(
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
        let pods = slice.endpoints.iter();
        drafts.extend(pods.map(|pod| draft_of_pod(object, slice, pod, &rules.cluster_name)));
    }
    drafts
}

/// Makes the draft of an entry of a slice of this cluster.
fn draft_of_pod(
    object: &ObjectKey,
    slice: &Slice,
    pod: &SliceEndpoint,
    cluster: &ClusterName,
) -> Draft {
    Draft {
        endpoint: Endpoint {
            cluster: cluster.clone(),
            hostname: pod.hostname.clone(),
            addresses: distinct([pod.address]),
            ports: slice.ports.clone(),
            alive: true,
            origin: Origin::Local,
            objects: smallvec![(Kind::EndpointSlice, object.name.clone())],
        },
        source: Source::Local,
        target: pod.target.clone(),
        ready: pod.ready,
    }
}

// === Limits and conflicts ===

/// Returns whether the longest name of an endpoint, `H.C.S.N.Z`, has at most 255 octets. Otherwise, the endpoint is
/// skipped (rule M9).
fn has_valid_length(
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
    let detail = format!("the name {name}.<zone> has {octets} octets; at most 255 are allowed");
    let skip = Skip::new(SkipReason::BadName, detail);
    let objects = endpoint.object_refs(&key.namespace);
    skipped.extend(objects.map(|object| (object, skip.clone())));
    false
}

/// Reports mirrors with an identity that changed (rule M8).
fn identity_conflicts(key: &ServiceKey, inputs: &Inputs) -> impl Iterator<Item = Conflict> {
    inputs
        .identity_changes(key)
        .map(|(object, (old, new))| Conflict {
            kind: ConflictKind::Identity,
            name: service_ref(object).to_string(),
            detail: format!(
                "was the mirror of {old}, is now the mirror of {new}; two Links may write it"
            ),
        })
}

/// Reports a service that is headless in one cluster but not in another.
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

// === Skipped objects ===

/// Returns the reference to a Service.
fn service_ref(key: &ObjectKey) -> ObjectRef {
    ObjectRef {
        kind: Kind::Service,
        key: key.clone(),
    }
}

/// Returns the reference to an EndpointSlice.
fn slice_ref(key: &ObjectKey) -> ObjectRef {
    ObjectRef {
        kind: Kind::EndpointSlice,
        key: key.clone(),
    }
}

/// Returns the skip of an endpoint mirror without a parent (rule M2).
fn orphan_skip(key: &ServiceKey, mirror: &EndpointMirror) -> Skip {
    let (parent, link) = (&mirror.parent, &mirror.cluster);
    let detail = format!("headless mirror '{parent}' of {key} in cluster '{link}' does not exist");
    Skip::new(SkipReason::NoParent, detail)
}

/// Returns the skip of an object of an excluded cluster.
fn excluded_skip(cluster: &ClusterName) -> Skip {
    Skip::new(
        SkipReason::ExcludedCluster,
        format!("cluster '{cluster}' is excluded by --exclude-cluster"),
    )
}
