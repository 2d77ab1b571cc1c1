//! Builds one service from the inputs: its members and their endpoints.

use smallvec::smallvec;

use super::failover::{Failover, order_of};
use super::gate::{Gate, expected_of};
use super::import::import_drafts;
use super::inputs::Inputs;
use super::kind::{Candidates, Chosen, Profile, cluster_set, federated_clusters};
use super::local::{cluster_ip_member, export_conflict, local_member};
use super::merge::{Draft, Source, cluster_conflicts, distinct, merge_drafts};
use super::missing::missing_hosts;
use super::overrides::resolve;
use super::parts::Parts;
use super::rules::Rules;
use super::{
    Conflict, ConflictKind, Endpoint, MissingHost, NameAddresses, Service, ServiceKind, SharedPort,
    cluster_ip, headless,
};
use crate::mirror::{
    ClusterName, HeadlessMirror, Kind, Line, LocalService, Object, ObjectKey, ObjectRef, Overrides,
    ServiceKey, ServiceMirror, Skip, SkipReason, Slice, SliceEndpoint,
};

/// A headless mirror with its key and its cluster, after aliases.
type Mirror<'i> = (ClusterName, &'i ObjectKey, &'i HeadlessMirror);

/// The members of a service and their endpoints.
struct Members<'i> {
    parts: &'i Parts<'i>,
    /// The headless mirrors of clusters that are not excluded.
    mirrors: Vec<Mirror<'i>>,
    /// The headless Service of this cluster, if it is a member.
    local: Option<&'i LocalService>,
    /// The kind that answers, and the endpoints.
    chosen: Chosen,
    /// Hosts that a headless mirror lists and that have no mirror of their own.
    missing: Vec<MissingHost>,
    /// Objects that were skipped.
    skipped: Vec<(ObjectRef, Skip)>,
}

/// Builds one service. Returns `None` if no object belongs to it.
pub(super) fn build_service(key: &ServiceKey, inputs: &Inputs, rules: &Rules) -> Option<Service> {
    let mut service = build_in(Profile::Global, key, inputs, rules)?;
    if rules.has_cluster_sets {
        // The objects decide whether a service exists, not the profile.
        let other = build_in(Profile::ClusterSet, key, inputs, rules)?;
        let other = other.with_common_parts_of(&service);
        service.in_cluster_set = (other != service).then(|| Box::new(other));
    }
    Some(service)
}

/// Builds one service as zones with a profile answer it.
fn build_in(profile: Profile, key: &ServiceKey, inputs: &Inputs, rules: &Rules) -> Option<Service> {
    let parts = Parts::collect(key, inputs);
    let members = Members::collect(profile, key, &parts, inputs, rules)?;
    let mut conflicts = members.conflicts(key, inputs, rules);
    let (is_known, is_headless) = (members.is_known(), members.is_headless());
    let (mirrors, overrides) = (sorted_refs(&members.mirrors), members.overrides(rules));
    let ignored = members.ignored_annotations();
    let Chosen { kind, mut drafts } = members.chosen;
    let state = inputs
        .state(key)
        .and_then(|state| state.failover_in(profile));
    // No order applies to an address that belongs to no single cluster.
    let is_shared = is_shared(&drafts);
    let is_pods = is_headless || has_hostname(&drafts);
    let (order, unused_order) = match order_of(key, is_pods, &parts, rules) {
        Some(order) if is_shared => (None, Some(Box::new(order))),
        order => (order, None),
    };
    let failover = order.map(|order| Failover::apply(order, &mut drafts, state, rules));
    let merged = merge_drafts(key, drafts, &mut conflicts);
    let (ttl, gateway_down) = resolve(key, &overrides, rules, &mut conflicts);
    let gate = Gate::new(key, &parts, &merged.endpoints, inputs, rules);
    Some(Service {
        key: key.clone(),
        kind,
        failover: failover.map(Box::new),
        unused_order,
        gate: gate.map(Box::new),
        ttl,
        gateway_down,
        name_addresses: NameAddresses::new(&merged.endpoints, gateway_down),
        shared_ports: match rules.has_cluster_sets {
            true => SharedPort::collect(&merged.endpoints),
            false => Box::default(),
        },
        endpoints: merged.endpoints.into(),
        not_ready: merged.not_ready.into(),
        is_known,
        is_headless,
        mirrors,
        federated: shared_clusters(kind, &parts, rules),
        in_cluster_set: None,
        missing: members.missing.into(),
        skipped: members.skipped.into(),
        conflicts,
        ignored,
    })
}

/// Returns the clusters behind the addresses that belong to no single cluster.
fn shared_clusters(kind: ServiceKind, parts: &Parts<'_>, rules: &Rules) -> Box<[ClusterName]> {
    let clusters = match kind {
        ServiceKind::Import => cluster_set(parts, rules),
        ServiceKind::Headless
        | ServiceKind::Federated
        | ServiceKind::Gateway
        | ServiceKind::Flat
        | ServiceKind::Local => federated_clusters(parts, rules),
    };
    clusters.into_iter().collect()
}

/// Returns whether the name of a service returns addresses that belong to no single cluster.
fn is_shared(drafts: &[Draft]) -> bool {
    let mut selected = drafts.iter().filter(|draft| draft.endpoint.is_selected);
    selected.any(|draft| draft.endpoint.cluster.is_none())
}

/// Returns whether the name of a service returns single pods.
fn has_hostname(drafts: &[Draft]) -> bool {
    let mut selected = drafts.iter().filter(|draft| draft.endpoint.is_selected);
    selected.any(|draft| draft.endpoint.hostname.is_some())
}

// === impl Members ===

impl<'i> Members<'i> {
    /// Collects the members of a service. Returns `None` if no object belongs to it.
    fn collect(
        profile: Profile,
        key: &ServiceKey,
        parts: &'i Parts<'i>,
        inputs: &Inputs,
        rules: &Rules,
    ) -> Option<Self> {
        let mut skipped = Vec::new();
        let mirrors = included_mirrors(parts, rules, &mut skipped);
        let local = local_member(parts, rules);
        let mut missing = missing_hosts(key, parts, inputs, rules);
        let mut headless = headless::mirror_drafts(parts, key, inputs, rules, &mut skipped);
        headless.extend(headless::adopt_hosts(&mut missing, inputs, rules));
        let local_service = cluster_ip_member(parts, rules);
        let candidates = Candidates {
            headless,
            has_headless_mirror: !mirrors.is_empty(),
            federated: cluster_ip::federated_drafts(parts),
            mirrors: cluster_ip::mirror_drafts(parts, inputs, rules, &mut skipped),
            local_service: local_service.map(|local| cluster_ip::local_draft(local, inputs, rules)),
            local_pods: match local {
                Some(_) => local_drafts(key, inputs, rules, &mut skipped),
                None => Vec::new(),
            },
            is_local_exported: local.is_some_and(LocalService::is_exported),
            imports: import_drafts(key, parts, rules, &mut skipped),
            has_import: parts.import.is_some(),
        };
        let is_empty = mirrors.is_empty()
            && local.is_none()
            && candidates.is_empty()
            && parts.import.is_none();
        let has_policy = expected_of(key, parts, rules).is_some()
            || parts
                .policy
                .is_some_and(|policy| !policy.invalid.is_empty());
        if is_empty && skipped.is_empty() && !has_policy {
            return None;
        }
        let mut chosen = candidates.choose(profile);
        chosen
            .drafts
            .retain(|draft| has_valid_length(key, &draft.endpoint, rules, &mut skipped));
        Some(Self {
            parts,
            mirrors,
            local,
            chosen,
            missing,
            skipped,
        })
    }

    /// Returns whether the service is headless: it has a headless mirror or a headless member of this cluster.
    fn is_headless(&self) -> bool {
        !self.mirrors.is_empty() || self.local.is_some()
    }

    /// Returns whether a mirror, a ServiceImport or a member of this cluster exists, with or without endpoints.
    fn is_known(&self) -> bool {
        self.is_headless() || self.parts.import.is_some() || !self.chosen.drafts.is_empty()
    }

    /// Lists the conflicts between the members, except those between single endpoints and between annotations.
    fn conflicts(&self, key: &ServiceKey, inputs: &Inputs, rules: &Rules) -> Vec<Conflict> {
        let mut conflicts: Vec<Conflict> = identity_conflicts(key, inputs).collect();
        conflicts.extend(cluster_conflicts(key, &self.chosen.drafts));
        conflicts.extend(self.chosen.kind_conflict(key, self.parts, rules));
        // A Service without pods contributes nothing. It may exist for its annotations only.
        let mut drafts = self.chosen.drafts.iter();
        let has_pods = drafts.any(|draft| draft.source == Source::Local);
        let local = self.local.filter(|_| has_pods);
        conflicts.extend(local.and_then(|local| export_conflict(key, local, rules)));
        let policies = self.parts.policy.iter();
        let invalid = policies.flat_map(|policy| &policy.invalid);
        conflicts.extend(invalid.map(|annotation| Conflict {
            kind: ConflictKind::Annotation,
            name: key.to_string().into(),
            detail: format!("annotation {annotation}").into(),
        }));
        conflicts
    }

    /// Lists the annotations of mirrors that are ignored, with the mirrors.
    fn ignored_annotations(&self) -> Box<[Line]> {
        let headless = self.parts.headless.iter();
        let headless = headless.map(|(object, mirror)| (*object, &mirror.overrides));
        let mirrors = self.parts.mirrors.iter();
        let mirrors = mirrors.map(|(object, mirror)| (*object, &mirror.overrides));
        let federated = self.parts.federated.iter();
        let federated = federated.map(|(object, mirror)| (*object, &mirror.overrides));
        let import = self.parts.import.iter();
        let import = import.map(|(object, import)| (*object, &import.overrides));
        let all = headless.chain(mirrors).chain(federated).chain(import);
        let ignored = all.flat_map(|(object, overrides)| {
            let ignored = overrides.iter().flat_map(|overrides| &overrides.ignored);
            ignored.map(|annotation| format!("{annotation} of {}", service_ref(object)).into())
        });
        ignored.collect()
    }

    /// Returns the annotations of the members.
    fn overrides(&self, rules: &Rules) -> Vec<&'i Overrides> {
        let headless = self.mirrors.iter();
        let headless = headless.map(|(_, _, mirror)| &mirror.overrides);
        let is_included = |mirror: &&ServiceMirror| {
            let cluster = rules.name_of(&mirror.cluster);
            !rules.excluded_clusters.contains(&cluster)
        };
        let mirrors = self.parts.mirrors.iter().map(|(_, mirror)| *mirror);
        let mirrors = mirrors.filter(is_included).map(|mirror| &mirror.overrides);
        let federated = self.parts.federated.iter();
        let federated = federated.map(|(_, federated)| &federated.overrides);
        let local = self.local.or_else(|| cluster_ip_member(self.parts, rules));
        let local = local.map(|local| &local.overrides);
        let import = self.parts.import.iter();
        let import = import.map(|(_, import)| &import.overrides);
        headless
            .chain(mirrors)
            .chain(federated)
            .chain(local)
            .chain(import)
            .filter_map(Option::as_deref)
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
        match rules.exclusion(&cluster) {
            Some(skip) => skipped.push((service_ref(object), skip)),
            None => mirrors.push((cluster, *object, *mirror)),
        }
    }
    mirrors
}

/// Returns the headless mirrors with their clusters, sorted.
fn sorted_refs(mirrors: &[Mirror<'_>]) -> Box<[(ClusterName, ObjectRef)]> {
    let refs = mirrors.iter();
    let refs = refs.map(|(cluster, object, _)| (cluster.clone(), service_ref(object)));
    let mut refs: Vec<_> = refs.collect();
    refs.sort();
    refs.into()
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
            cluster: Some(cluster.clone()),
            hostname: Some(pod.hostname.clone()),
            addresses: distinct([pod.address]),
            ports: slice.ports.clone(),
            alive: true,
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

// === Limits and conflicts ===

/// Returns whether the longest name of an endpoint, `H.C.S.N.Z`, has at most 255 octets. Otherwise, the endpoint is
/// skipped (rule M9).
fn has_valid_length(
    key: &ServiceKey,
    endpoint: &Endpoint,
    rules: &Rules,
    skipped: &mut Vec<(ObjectRef, Skip)>,
) -> bool {
    let [hostname, cluster] = endpoint.labels();
    let [service, namespace] = key.labels();
    let labels = [hostname, cluster, service, namespace].into_iter();
    let labels = labels.filter(|label| !label.is_empty());
    let octets = labels.clone().map(|label| label.len() + 1).sum::<usize>() + rules.longest_zone;
    if octets <= 255 {
        return true;
    }
    let name = labels.collect::<Vec<_>>().join(".");
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
            name: service_ref(object).to_string().into(),
            detail: format!(
                "was the mirror of {old}, is now the mirror of {new}; two Links may write it"
            )
            .into(),
        })
}

// === Skipped objects ===

/// Returns the reference to a Service.
pub(super) fn service_ref(key: &ObjectKey) -> ObjectRef {
    ObjectRef {
        kind: Kind::Service,
        key: key.clone(),
    }
}

/// Returns the reference to an EndpointSlice.
pub(super) fn slice_ref(key: &ObjectKey) -> ObjectRef {
    ObjectRef {
        kind: Kind::EndpointSlice,
        key: key.clone(),
    }
}
