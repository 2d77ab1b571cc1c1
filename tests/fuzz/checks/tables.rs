//! Checks of every table: the rules for members, verified with the objects behind the table.

use std::collections::{BTreeMap, BTreeSet};

use global_dns::model::{
    Family, GatewayDown, ItemKind, Kind, Object, ObjectKey, ObjectRef, Problem,
};
use global_dns::table::store::ServiceKeys;
use global_dns::table::{Service, ServiceKind, Store, Table, build};

use super::answers;
use super::cluster::Cluster;
use super::seen::Seen;

/// Returns all services that have an object.
pub fn services_of(store: &Store) -> ServiceKeys {
    let objects = Kind::ALL.map(|kind| store.objects(kind).iter());
    let service = |(key, object): (&ObjectKey, &Object)| Some(key.service(object.service()?));
    let services = objects.into_iter().flatten().filter_map(service);
    services.collect()
}

/// Returns the conflicts of a table.
pub fn conflicts(table: &Table) -> impl Iterator<Item = Problem> {
    let is_conflict = |one: &&Problem| one.kind.row().family == Family::Conflict;
    table.problems().filter(is_conflict).cloned()
}

/// Returns the problems of objects that are not used.
pub fn skipped(table: &Table) -> BTreeSet<Problem> {
    let is_skip = |one: &&Problem| one.kind.row().family == Family::Skipped;
    table.problems().filter(is_skip).cloned().collect()
}

/// Checks the table of a cluster.
pub fn check(cluster: &Cluster, seen: &mut Seen) {
    check_incremental(cluster);
    check_isolation(cluster);
    check_completeness(cluster);
    for service in cluster.table.services() {
        check_service(cluster, service, seen);
    }
    seen.count("skipped object", skipped(&cluster.table).len());
    seen.count("conflict", conflicts(&cluster.table).count());
    answers::check(&cluster.table, seen);
}

// === Full and separate builds ===

/// Asserts that the incremental table equals a full build.
pub fn check_incremental(cluster: &Cluster) {
    let Cluster {
        store,
        rules,
        table,
        timers,
        ..
    } = cluster;
    // A service whose last object is gone may have settings for some seconds.
    let mut services = services_of(store);
    services.extend(table.services().map(|service| service.key.clone()));
    let full = build(&Table::default(), store, &services, rules, timers).table;
    let pairs = table
        .sorted_services()
        .into_iter()
        .zip(full.sorted_services());
    for (one, other) in pairs {
        assert_eq!(one, other);
    }
    assert_eq!(table.services().count(), full.services().count());
    assert_eq!(*table, full);
    assert_eq!(skipped(table), skipped(&full));
    let fresh = cluster.build_full(|_| true);
    assert_eq!(table.answers_hash(), fresh.answers_hash());
    for service in table.services() {
        let short = |table: &Table| table.short_name(service.key.service.as_str()).cloned();
        assert_eq!(short(table), short(&fresh), "{}", service.key);
    }
    let [now, fresh_services] = [table, &fresh].map(|table| {
        let services = table.sorted_services().into_iter();
        services.cloned().collect::<Vec<_>>()
    });
    assert_eq!(now, fresh_services);
    assert_eq!(skipped(table), skipped(&fresh));
}

/// Asserts that the services of a namespace do not depend on other namespaces. Which clusters are known, a problem of an order,
/// does.
fn check_isolation(cluster: &Cluster) {
    for namespace in cluster.namespaces() {
        let alone = cluster.build_full(|key| *key.namespace == *namespace);
        let own = |table: &Table| -> Vec<Service> {
            let services = table.sorted_services().into_iter();
            let own = services.filter(|s| s.key.namespace.as_str() == namespace);
            let without_problems = own.cloned().map(|service| Service {
                problems: Default::default(),
                ..service
            });
            without_problems.collect()
        };
        assert_eq!(own(&cluster.table), own(&alone), "{namespace}");
        assert_eq!(alone.services().count(), own(&alone).len(), "{namespace}");
    }
}

// === Members and skipped objects ===

/// Asserts that every mirror is either in the table or skipped with a reason.
fn check_completeness(cluster: &Cluster) {
    let table = &cluster.table;
    let mut details = BTreeMap::new();
    // A problem names its first objects, and counts the others of its service.
    let mut counted = BTreeSet::new();
    for problem in skipped(table) {
        if problem.count as usize > problem.objects.len() {
            counted.extend(problem.service.clone());
        }
        for object in &problem.objects {
            details.insert(object.clone(), problem.detail.to_string());
        }
    }
    let skipped = details;
    let other_orphans = other_orphans(&cluster.store, &skipped);
    for kind in Kind::ALL {
        for (key, object) in cluster.store.objects(kind) {
            let reference = ObjectRef {
                kind,
                key: key.clone(),
            };
            let in_mirrors = |service: &Service| service.mirrors.iter().any(|m| m.1 == *key);
            let in_endpoints = |service: &Service| {
                let all = service.endpoints.iter().chain(&service.not_ready);
                let mut objects = all.flat_map(|e| e.objects.iter().cloned());
                objects.any(|object| object == reference)
            };
            let is_in_table = match object {
                Object::Item(item) => match item.kind {
                    ItemKind::HeadlessMirror => table.services().any(in_mirrors),
                    ItemKind::EndpointMirror | ItemKind::GatewayMirror | ItemKind::FlatMirror => {
                        table.services().any(in_endpoints)
                    }
                    // A federated service of a service with headless mirrors has no name (rule K1).
                    _ => continue,
                },
                Object::Skipped(_) => false,
                Object::Slice(_) | Object::Plain | Object::Link(_) => continue,
            };
            let service = object.service().map(|service| key.service(service));
            if !is_in_table && service.is_some_and(|service| counted.contains(&service)) {
                continue;
            }
            assert_eq!(
                is_in_table,
                !skipped.contains_key(&reference) && !other_orphans.contains(&reference),
                "{reference}: {object:?}"
            );
        }
    }
}

/// Returns the endpoint mirrors that the problem of another one includes: endpoint mirrors without the same parent have one.
fn other_orphans(store: &Store, skipped: &BTreeMap<ObjectRef, String>) -> BTreeSet<ObjectRef> {
    let mut by_parent: BTreeMap<_, Vec<ObjectRef>> = BTreeMap::new();
    for (key, object) in store.objects(Kind::Service) {
        if let Object::Item(item) = object
            && let Some(host) = &item.host
        {
            let parent = (&key.namespace, &host.parent, item.link(), &item.service);
            let mirrors = by_parent.entry(parent).or_default();
            mirrors.push(ObjectRef::service(key));
        }
    }
    let others = by_parent.into_values().filter_map(|mut mirrors| {
        let others = mirrors.split_off(1);
        let detail = skipped.get(&mirrors[0])?;
        detail.contains("no parent: ").then_some(others)
    });
    others.flatten().collect()
}

fn check_service(cluster: &Cluster, service: &Service, seen: &mut Seen) {
    let rules = &cluster.rules;
    let (namespace, name) = (service.key.namespace.as_str(), service.key.service.as_str());
    assert!(is_label(namespace) && is_label(name), "{}", service.key);
    assert!((1..=30).contains(&service.ttl), "TTL {}", service.ttl);
    let hosts: Vec<_> = service
        .endpoints
        .iter()
        .map(|e| (&e.cluster, &e.hostname))
        .collect();
    assert!(
        hosts.is_sorted_by(|a, b| a < b),
        "the hosts are not sorted or not unique: {hosts:?}"
    );
    for endpoint in &service.endpoints {
        let [host, cluster_name] = endpoint.labels();
        let labels = [host, cluster_name, name, namespace];
        let labels = labels.iter().filter(|label| !label.is_empty());
        assert!(labels.clone().all(|label| is_label(label)), "{endpoint:?}");
        assert!(
            endpoint.cluster.is_some() || host.is_empty(),
            "{endpoint:?}"
        );
        let octets: usize = labels.map(|label| label.len() + 1).sum();
        assert!(octets + rules.longest_zone <= 255, "{endpoint:?}");
        assert!(!endpoint.addresses.is_empty() && !endpoint.objects.is_empty());
        assert!(endpoint.ports.iter().all(|port| port.number > 0));
        seen.count("endpoint", 1);
        seen.note("local endpoint", endpoint.kind == ServiceKind::Local);
    }
    let down = service
        .endpoints
        .iter()
        .filter(|endpoint| !endpoint.is_alive())
        .count();
    let are_omitted = down > 0 && service.gateway_down == GatewayDown::LastResort;
    let is_last = down == service.endpoints.len();
    seen.note("last resort", are_omitted && is_last);
    seen.note("omitted endpoint", are_omitted && !is_last);
}

fn is_label(text: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let ends = [text.chars().next(), text.chars().last()];
    (1..=63).contains(&text.len()) && text.chars().all(is_inner) && !ends.contains(&Some('-'))
}
