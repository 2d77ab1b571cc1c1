//! Builds one service from its objects: candidates of each kind, the chosen ones, and their endpoints.

use std::collections::BTreeSet;

use super::alias::AliasSource;
use super::candidates::{choose, kind_of, mixed_kinds};
use super::cluster_ip;
use super::dead_ports::exported_problem;
use super::endpoint::{Draft, Source};
use super::failover::{Failover, FailoverContext, StepHealth, order_of, order_problems};
use super::gate::Gate;
use super::headless;
use super::items::{Items, Mirror};
use super::kind::Rank;
use super::local::{Membership, cluster_ip_member, headless_member, not_exported, pod_drafts};
use super::merge::{cluster_conflicts, merge_drafts};
use super::missing::{MissingHost, missing_hosts};
use super::own_settings::{KeptOrder, OwnSettings};
use super::rules::Rules;
use super::settings::resolve;
use super::store::Store;
use super::timers::{ServiceTimers, Timers};
use super::{Endpoint, EndpointLiveness, NameFailure, NameIndex, Service, ServiceKind};
use crate::model::{
    ClusterName, FailoverOrder, Namespace, ObjectRef, OwnService, Problem, ProblemKind, ServiceKey,
    ServiceSettings,
};

/// What a build needs besides the key of the service.
#[derive(Clone, Copy)]
pub(super) struct BuildContext<'b> {
    /// The objects of the service.
    pub(super) items: &'b Items<'b>,
    pub(super) store: &'b Store,
    pub(super) rules: &'b Rules,
    /// The clusters that something here knows.
    pub(super) known_clusters: &'b BTreeSet<ClusterName>,
    /// What the last builds remember.
    pub(super) timers: &'b Timers,
    /// The service in the last table.
    pub(super) old: Option<&'b Service>,
}

impl BuildContext<'_> {
    /// Returns whether the objects of a service arrive one after the other: it is new in a process that has a table, and does
    /// not have another order than before. The last table may have a service only for its settings.
    fn is_arriving(&self, order: &FailoverOrder) -> bool {
        let is_new = |old: &Service| match &old.failover {
            Some(failover) => failover.order == *order,
            None => !old.is_known,
        };
        self.timers.is_started && self.old.is_none_or(is_new)
    }
}

/// What the objects of one service offer.
struct Offer {
    drafts: Vec<Draft>,
    /// The headless mirrors, with their clusters.
    mirrors: Vec<(ClusterName, ObjectRef)>,
    /// The headless Service of this cluster, if it is a member.
    member: Option<(OwnService, Membership)>,
    missing: Vec<MissingHost>,
    /// Whether there is a mirror or a member of this cluster, with or without endpoints.
    is_known: bool,
}

/// A service that is a source of an alias.
struct Aliased<'b> {
    key: &'b ServiceKey,
    items: Items<'b>,
    /// What its own Service of this cluster says. Its settings do not count for the alias.
    own: Option<OwnSettings>,
    offer: Offer,
}

/// Builds one service. Returns `None` if no object belongs to it. Records in `next` what the next build remembers.
pub(super) fn build_service(
    key: &ServiceKey,
    context: BuildContext<'_>,
    next: &mut ServiceTimers,
) -> Option<Service> {
    let BuildContext {
        items,
        store,
        rules,
        timers,
        ..
    } = context;
    let own = OwnSettings::of(key, items, store);
    let own = own.as_ref();
    let last = timers.of(key).and_then(|last| last.order.as_ref());
    next.order = KeptOrder::next(own, last, timers.now);
    next.wake_at(next.order.as_ref().and_then(KeptOrder::end));
    let mut problems = Vec::new();
    let offer = Offer::of(key, items, context, &mut problems);
    let is_headless = offer.is_headless();
    let mut aliased = Aliased::of(key, context);
    let Offer {
        mut drafts,
        mirrors,
        member,
        missing,
        ..
    } = offer;
    // With or without endpoints.
    let is_known = offer.is_known || aliased.iter().any(|one| one.offer.is_known);
    let alias_of = aliased.iter().map(Aliased::source).collect();
    let has_member = member.is_some() || aliased.iter().any(|one| one.offer.member.is_some());
    let is_set = own.is_some_and(|own| own.settings != ServiceSettings::default())
        || next.order.is_some()
        || rules.order_of(key).flatten().is_some()
        || !aliased.is_empty();
    for one in &mut aliased {
        drafts.append(&mut one.offer.drafts);
    }
    for draft in &mut drafts {
        if draft.source.is_unlinked(&timers.links) {
            draft.endpoint.liveness = EndpointLiveness::Unlinked;
        }
    }
    let key_of = |endpoint: &Endpoint| match endpoint.alias_source.checked_sub(1) {
        None => key,
        Some(index) => aliased[usize::from(index)].key,
    };
    drafts.retain(|draft| {
        let namespace = &key_of(&draft.endpoint).namespace;
        has_valid_length(key, &draft.endpoint, namespace, rules, &mut problems)
    });
    let items_of_aliased = aliased.iter().map(|one| &one.items);
    let copied = std::iter::once(items).chain(items_of_aliased);
    let copied = copied.flat_map(|items| copied_settings(items, rules));
    let copied: Vec<&ServiceSettings> = copied.collect();
    let (ttl, gateway_down) = resolve(key, own, &copied, rules, &mut problems);
    let mirrors_of_aliased = aliased.iter().map(|one| &*one.offer.mirrors);
    let mut all_mirrors = std::iter::once(&*mirrors).chain(mirrors_of_aliased);
    let has_mirrors = all_mirrors.any(|mirrors| !mirrors.is_empty());
    let own_services = std::iter::once(own).chain(aliased.iter().map(|one| one.own.as_ref()));
    let has_pods = has_mirrors || own_services.flatten().any(|own| own.has_pods);
    let kept = next.order.as_ref();
    let order = order_of(key, own, kept, rules, is_known && !has_pods);
    let of_cluster = |draft: &Draft| draft.endpoint.cluster.is_some();
    let mut ready = drafts.iter().filter(|draft| draft.ready);
    let has_endpoint = ready.clone().next().is_some();
    // No order applies to an address that belongs to no single cluster.
    let is_only_shared = has_endpoint && !ready.any(of_cluster);
    let (order, unused_order) = match order {
        Some(order) if is_only_shared => (None, Some(Box::new(order))),
        order => (order, None),
    };
    let known = context.known_clusters;
    let order_problems = order
        .iter()
        .flat_map(|(order, _)| order_problems(order, known, rules));
    problems.extend(order_problems);
    // Nobody can void an order by joining a federation.
    let shared: BTreeSet<ClusterName> = drafts
        .iter()
        .flat_map(|draft| draft.shared_by.iter().cloned())
        .collect();
    drafts.retain(|draft| order.is_none() || of_cluster(draft));
    let mut drafts = choose(drafts);
    let is_pods =
        |draft: &Draft| draft.rank == Rank::Headless && draft.ready && draft.endpoint.is_selected;
    let kind = match kind_of(&drafts) {
        Some(_) | None if has_mirrors && drafts.iter().any(is_pods) => ServiceKind::Headless,
        Some(kind) => kind,
        None if has_mirrors => ServiceKind::Headless,
        None => ServiceKind::Local,
    };
    problems.extend(cluster_conflicts(&drafts));
    problems.extend(mixed_kinds(&drafts));
    // A Service without pods contributes nothing. It may exist for its annotations only.
    if let Some((own, membership)) = member
        && drafts.iter().any(|draft| draft.source == Source::Local)
    {
        problems.extend(not_exported(own, membership, rules));
    }
    let failover = order.map(|order| {
        let context = FailoverContext {
            has_pods,
            has_items: !items.is_empty() || aliased.iter().any(|one| !one.items.is_empty()),
            last: timers.of(key).and_then(|last| last.failover.as_ref()),
            is_arriving: context.is_arriving(&order.0),
            rules,
            now: timers.now,
        };
        let (failover, memory) = Failover::apply(order, context, &mut drafts);
        next.wake_at(memory.as_ref().and_then(|memory| memory.wake(rules)));
        next.failover = memory;
        Box::new(failover)
    });
    let merged = merge_drafts(key, drafts, &mut problems);
    problems.extend(ignored_annotations(items));
    for problem in &mut problems {
        problem.service = Some(key.clone());
    }
    problems.sort();
    problems.dedup();
    if !is_known && problems.is_empty() && !is_set {
        return None;
    }
    let is_missing = merged.endpoints.is_empty() && !missing.is_empty();
    let missing_mirrors = is_missing.then_some(NameFailure::EndpointMirrorsMissing);
    let gate = Gate::new(own, &merged.endpoints, &shared, rules, timers.now).map(Box::new);
    next.wake_at(gate.as_ref().and_then(|gate| gate.closes_until));
    let service = Service {
        key: key.clone(),
        alias_of,
        kind,
        failure: failure(gate.as_deref(), failover.as_deref()).or(missing_mirrors),
        failover,
        unused_order,
        gate,
        ttl,
        gateway_down,
        names: NameIndex::new(&merged.endpoints, gateway_down, rules.has_mcs_zones),
        endpoints: merged.endpoints.into(),
        not_ready: merged.not_ready.into(),
        is_known,
        is_headless,
        mirrors: mirrors.into(),
        has_member,
        federated: shared.into_iter().collect(),
        missing: missing.into(),
        problems: problems.into(),
    };
    Some(service.with_state_problems())
}

// === impl Offer ===

impl Offer {
    /// Collects what the objects of a service offer.
    fn of(
        key: &ServiceKey,
        items: &Items<'_>,
        context: BuildContext<'_>,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let BuildContext { store, rules, .. } = context;
        let mirrors = headless_mirrors(items, rules, problems);
        let member = headless_member(items, rules);
        let mut missing = missing_hosts(key, items, store, rules);
        let mut drafts = headless::mirror_drafts(items, key, store, rules, problems);
        drafts.extend(headless::adopt_hosts(&mut missing, store, rules));
        drafts.extend(cluster_ip::federated_drafts(items, rules));
        drafts.extend(cluster_ip::mirror_drafts(items, store, rules, problems));
        let own = items.own();
        problems.extend(own.and_then(|(own, _)| exported_problem(key, own, store, rules)));
        let own_ip = cluster_ip_member(items, rules);
        drafts.extend(own_ip.map(|own| cluster_ip::own_draft(own, store, rules)));
        let mut offer = Self {
            is_known: false,
            drafts,
            mirrors,
            member,
            missing,
        };
        offer.is_known = offer.is_headless() || !offer.drafts.is_empty();
        if offer.member.is_some() {
            offer.drafts.extend(pod_drafts(key, store, rules, problems));
        }
        offer
    }

    fn is_headless(&self) -> bool {
        !self.mirrors.is_empty() || self.member.is_some()
    }
}

// === impl Aliased ===

impl<'b> Aliased<'b> {
    /// Collects the sources of an alias.
    fn of(alias: &ServiceKey, context: BuildContext<'b>) -> Vec<Self> {
        let BuildContext { store, rules, .. } = context;
        let sources = rules.aliases.sources_of(alias);
        let aliased = (1..).zip(sources).map(|(number, key)| {
            let items = Items::of(key, store);
            // The service itself has its problems.
            let mut offer = Offer::of(key, &items, context, &mut Vec::new());
            for draft in &mut offer.drafts {
                draft.endpoint.alias_source = number;
            }
            Self {
                own: OwnSettings::of(key, &items, store),
                key,
                items,
                offer,
            }
        });
        aliased.collect()
    }

    fn source(&self) -> AliasSource {
        AliasSource {
            key: self.key.clone(),
            is_known: self.offer.is_known,
        }
    }
}

/// Returns why the name of a service fails, if it does (rules K5, K8).
fn failure(gate: Option<&Gate>, failover: Option<&Failover>) -> Option<NameFailure> {
    if gate.is_some_and(|gate| !gate.missing_clusters().is_empty()) {
        return Some(NameFailure::ExpectedClustersMissing);
    }
    (failover?.answering_health() == StepHealth::Empty).then_some(NameFailure::StepWithoutEndpoint)
}

/// Returns the headless mirrors with their clusters, sorted. Those of excluded clusters are skipped.
fn headless_mirrors(
    items: &Items<'_>,
    rules: &Rules,
    problems: &mut Vec<Problem>,
) -> Vec<(ClusterName, ObjectRef)> {
    let mut mirrors = Vec::new();
    for Mirror { object, link, .. } in items.headless_mirrors() {
        let cluster = rules.name_of(link);
        match rules.exclusion(&cluster) {
            Some(problem) => problems.push(problem.of_object(ObjectRef::service(object))),
            None => mirrors.push((cluster, ObjectRef::service(object))),
        }
    }
    mirrors.sort();
    mirrors
}

// === Annotations ===

/// Returns the annotations of mirrors, without those of excluded clusters.
fn copied_settings<'i>(
    items: &Items<'i>,
    rules: &Rules,
) -> impl Iterator<Item = &'i ServiceSettings> {
    let is_excluded = |link| rules.excluded_clusters.contains(&rules.name_of(link));
    items.copies().filter_map(move |(_, item)| {
        let settings = item.settings.as_deref()?;
        (!item.link().is_some_and(is_excluded)).then_some(settings)
    })
}

/// Lists the annotations of mirrors that are ignored, with the mirrors.
fn ignored_annotations(items: &Items<'_>) -> impl Iterator<Item = Problem> {
    items.copies().flat_map(|(object, item)| {
        let ignored = item.settings.iter().flat_map(|settings| &settings.ignored);
        ignored.map(|annotation| {
            let problem = Problem::new(ProblemKind::IgnoredAnnotation, annotation.clone());
            problem.of_object(ObjectRef::service(object))
        })
    })
}

// === Limits and conflicts ===

/// Returns whether the longest name of an endpoint, `H.C.S.N.Z`, has at most 255 octets. Otherwise, the endpoint is
/// skipped (rule M9).
fn has_valid_length(
    key: &ServiceKey,
    endpoint: &Endpoint,
    of_objects: &Namespace,
    rules: &Rules,
    problems: &mut Vec<Problem>,
) -> bool {
    let [hostname, cluster] = endpoint.labels();
    let [service, namespace] = key.labels();
    let labels = [hostname, cluster, service, namespace]
        .into_iter()
        .filter(|label| !label.is_empty());
    let octets = labels.clone().map(|label| label.len() + 1).sum::<usize>() + rules.longest_zone;
    if octets <= 255 {
        return true;
    }
    let name = labels.collect::<Vec<_>>().join(".");
    let detail = format!("the name {name}.<zone> has {octets} octets; at most 255 are allowed");
    let problem = Problem::new(ProblemKind::UnusableObject, detail);
    let objects = endpoint.object_refs(of_objects);
    problems.extend(objects.map(|object| problem.clone().of_object(object)));
    false
}
