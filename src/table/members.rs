//! Builds one service from its objects: candidates of each kind, the chosen ones, and their endpoints.

use super::candidates::{Candidates, Chosen, Rank};
use super::cluster_ip;
use super::endpoint::{Draft, Source};
use super::failover::{Failover, order_of};
use super::gate::{Gate, expected_of};
use super::headless;
use super::import::import_drafts;
use super::items::{Items, Mirror};
use super::kind::Profile;
use super::local::{cluster_ip_member, headless_member, not_exported, pod_drafts};
use super::merge::{cluster_conflicts, merge_drafts};
use super::missing::missing_hosts;
use super::rules::Rules;
use super::settings::resolve;
use super::store::Store;
use super::{Endpoint, NameAddresses, Service, ServiceKind, SharedPort};
use crate::model::{ClusterName, ItemKind, ObjectRef, Problem, ProblemKind, ServiceKey, Settings};

/// Builds one service as zones with a profile answer it. Returns `None` if no object belongs to it: this depends on the
/// objects only, not on the profile.
pub(super) fn build_service(
    profile: Profile,
    key: &ServiceKey,
    store: &Store,
    rules: &Rules,
) -> Option<Service> {
    let items = Items::of(key, store);
    let mut problems = Vec::new();
    let mirrors = headless_mirrors(&items, rules, &mut problems);
    let headless_member = headless_member(&items, rules);
    let mut missing = missing_hosts(key, &items, store, rules);
    let mut candidates = Candidates::new(&items, !mirrors.is_empty(), headless_member);
    candidates.add(
        Rank::Headless,
        headless::mirror_drafts(&items, key, store, rules, &mut problems),
    );
    candidates.add(
        Rank::Headless,
        headless::adopt_hosts(&mut missing, store, rules),
    );
    candidates.add(Rank::Federated, cluster_ip::federated_drafts(&items));
    candidates.add(
        Rank::ClusterIp,
        cluster_ip::mirror_drafts(&items, store, rules, &mut problems),
    );
    let own = cluster_ip_member(&items, rules);
    candidates.add(
        Rank::ClusterIp,
        own.map(|own| cluster_ip::own_draft(own, store, rules)),
    );
    if headless_member.is_some() {
        candidates.add(Rank::OwnPods, pod_drafts(key, store, rules, &mut problems));
    }
    candidates.add(
        Rank::Import,
        import_drafts(key, &items, rules, &mut problems),
    );
    let is_headless = !mirrors.is_empty() || headless_member.is_some();
    let has_import = items.import().is_some();
    let has_object = is_headless || has_import || !candidates.is_empty();
    let has_settings = expected_of(key, &items, rules).is_some()
        || items.settings.is_some_and(|own| !own.invalid.is_empty());
    if !has_object && problems.is_empty() && !has_settings {
        return None;
    }

    let mut chosen = candidates.choose(profile);
    chosen
        .drafts
        .retain(|draft| has_valid_length(key, &draft.endpoint, rules, &mut problems));
    // With or without endpoints.
    let is_known = is_headless || has_import || !chosen.drafts.is_empty();
    problems.extend(identity_conflicts(key, store));
    problems.extend(cluster_conflicts(&chosen.drafts));
    problems.extend(chosen.kind_conflict(&items, rules));
    // A Service without pods contributes nothing. It may exist for its annotations only.
    let mut drafts = chosen.drafts.iter();
    if drafts.any(|draft| draft.source == Source::Local) {
        problems.extend(headless_member.and_then(|own| not_exported(own, rules)));
    }
    let Chosen { kind, mut drafts } = chosen;
    let state = store
        .state(key)
        .and_then(|state| state.failover_in(profile));
    // No order applies to an address that belongs to no single cluster.
    let is_selected = |draft: &&Draft| draft.endpoint.is_selected;
    let mut selected = drafts.iter().filter(is_selected);
    let is_shared = selected.any(|draft| draft.endpoint.cluster.is_none());
    let mut selected = drafts.iter().filter(is_selected);
    let is_pods = is_headless || selected.any(|draft| draft.endpoint.hostname.is_some());
    let (order, unused_order) = match order_of(key, is_pods, &items, rules) {
        Some(order) if is_shared => (None, Some(Box::new(order))),
        order => (order, None),
    };
    let failover = order.map(|order| Failover::apply(order, &mut drafts, state, rules));
    let merged = merge_drafts(key, drafts, &mut problems);
    let members = settings_of_members(&items, rules);
    let (ttl, gateway_down) = resolve(&members, items.settings, rules, &mut problems);
    problems.extend(ignored_annotations(&items));
    for problem in &mut problems {
        problem.service = Some(key.clone());
    }
    problems.sort();
    problems.dedup();
    let gate = Gate::new(key, &items, &merged.endpoints, store, rules);
    let shared = match kind {
        ServiceKind::Import => ItemKind::ClusterSetImport,
        _ => ItemKind::Federated,
    };
    Some(Service {
        key: key.clone(),
        kind,
        failover: failover.map(Box::new),
        unused_order,
        gate: gate.map(Box::new),
        ttl,
        gateway_down,
        name_addresses: NameAddresses::new(&merged.endpoints, gateway_down),
        shared_ports: if rules.has_cluster_sets {
            SharedPort::collect(&merged.endpoints)
        } else {
            Box::default()
        },
        endpoints: merged.endpoints.into(),
        not_ready: merged.not_ready.into(),
        is_known,
        is_headless,
        mirrors: mirrors.into(),
        federated: items.shared_clusters(shared, rules).into_iter().collect(),
        missing: missing.into(),
        problems: problems.into(),
    })
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

/// Returns the annotations of the members.
fn settings_of_members<'i>(items: &Items<'i>, rules: &Rules) -> Vec<&'i Settings> {
    let is_excluded = |link| rules.excluded_clusters.contains(&rules.name_of(link));
    let copies = items.copies().map(|(_, item)| item);
    let copies = copies.filter(|item| !item.link().is_some_and(is_excluded));
    let own = headless_member(items, rules).or_else(|| cluster_ip_member(items, rules));
    let members = copies.chain(own);
    members
        .filter_map(|item| item.settings.as_deref())
        .collect()
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
    rules: &Rules,
    problems: &mut Vec<Problem>,
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
    let problem = Problem::new(ProblemKind::BadName, detail);
    let objects = endpoint.object_refs(&key.namespace);
    problems.extend(objects.map(|object| problem.clone().of_object(object)));
    false
}

/// Reports mirrors with an identity that changed (rule M8).
fn identity_conflicts(key: &ServiceKey, store: &Store) -> impl Iterator<Item = Problem> {
    store.identity_changes(key).map(|(object, (old, new))| {
        let detail =
            format!("was the mirror of {old}, is now the mirror of {new}; two Links may write it");
        Problem::new(ProblemKind::Identity, detail).of_object(ObjectRef::service(object))
    })
}
