//! Checks of every table: the rules for members, verified with the objects behind the table.

use std::collections::BTreeSet;

use global_dns::model::key;
use global_dns::model::{
    GatewayDown, ItemKind, Kind, Object, ObjectKey, ObjectRef, Problem, ProblemKind,
};
use global_dns::table::store::ServiceKeys;
use global_dns::table::{Endpoint, Service, ServiceKind, Store, Table, build};
use global_dns::wire::Transport;
use global_dns::zone::read_own_name;
use serde_json::Value;

use super::answers::{self, A, AAAA, NAMES, SRV, published, reply};
use super::cluster::{Cluster, Coverage};

/// Returns all services that have an object.
pub fn services_of(store: &Store) -> ServiceKeys {
    let objects = Kind::ALL.map(|kind| store.objects(kind).values());
    let services = objects.into_iter().flatten().filter_map(Object::service);
    services.cloned().collect()
}

/// Returns the conflicts of a table.
pub fn conflicts(table: &Table) -> impl Iterator<Item = Problem> {
    let problems = table.problems();
    problems.filter(|problem| problem.is_conflict()).cloned()
}

/// Checks the table of a cluster.
pub fn check(cluster: &Cluster, coverage: &mut Coverage) {
    check_incremental(cluster);
    check_isolation(cluster);
    check_completeness(cluster);
    for service in cluster.table.services() {
        check_service(cluster, service, coverage);
    }
    coverage.skipped += cluster.table.skipped().count();
    coverage.conflicts += conflicts(&cluster.table).count();
    answers::check(&cluster.table, coverage);
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

fn skipped(table: &Table) -> BTreeSet<Problem> {
    table.skipped().cloned().collect()
}

/// Asserts that the services and answers of a namespace do not depend on other namespaces.
fn check_isolation(cluster: &Cluster) {
    for namespace in cluster.namespaces() {
        let alone = cluster.build_full(|key| *key.namespace == *namespace);
        let own = |table: &Table| -> Vec<Service> {
            let services = table.sorted_services().into_iter();
            let own = services.filter(|s| s.key.namespace.as_str() == namespace);
            own.cloned().collect()
        };
        assert_eq!(own(&cluster.table), own(&alone), "{namespace}");
        assert_eq!(alone.services().count(), own(&alone).len(), "{namespace}");
        let (now, alone) = (published(&cluster.table), published(&alone));
        for name in canonical_names(&own(&cluster.table)) {
            for rtype in [A, AAAA, SRV] {
                let answers = [&now, &alone].map(|now| reply(now, &name, rtype, Transport::Udp));
                assert_eq!(answers[0], answers[1], "{name}");
            }
        }
    }
}

/// Returns canonical names of services with endpoints, at most [`NAMES`].
fn canonical_names(services: &[Service]) -> Vec<String> {
    let with_endpoints = services
        .iter()
        .filter(|service| !service.endpoints.is_empty());
    let names = with_endpoints.flat_map(|service| {
        let own = format!("{}.{}.global", service.key.service, service.key.namespace);
        let hosts = service.endpoints.iter();
        let hosts: Vec<String> = hosts
            .filter(|e| e.hostname.is_some())
            .map(|e| format!("{}.{own}", e.labels().join(".")))
            .collect();
        let clusters = service.clusters().map(|cluster| format!("{cluster}.{own}"));
        let clusters: Vec<String> = clusters.collect();
        [vec![own], clusters, hosts].concat()
    });
    names.take(NAMES).collect()
}

// === Members and skipped objects ===

/// Asserts that every mirror is either in the table or skipped with a reason.
fn check_completeness(cluster: &Cluster) {
    let table = &cluster.table;
    let skipped: BTreeSet<ObjectRef> = table
        .skipped()
        .filter_map(|one| one.object.clone())
        .collect();
    for kind in Kind::ALL {
        for (key, object) in cluster.store.objects(kind) {
            let reference = ObjectRef {
                kind,
                key: key.clone(),
            };
            let in_mirrors = |service: &Service| service.mirrors.iter().any(|m| m.1 == reference);
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
            assert_eq!(
                is_in_table,
                !skipped.contains(&reference),
                "{reference}: {object:?}"
            );
        }
    }
}

fn check_service(cluster: &Cluster, service: &Service, coverage: &mut Coverage) {
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
        let objects: Vec<_> = endpoint.objects.to_vec();
        for object in &objects {
            check_member(cluster, service, endpoint, object);
        }
        let ips = endpoint.addresses.iter().map(|address| address.ip);
        for ip in ips {
            let mut texts = objects
                .iter()
                .flat_map(|object| address_texts(cluster, object));
            assert!(
                texts.any(|text| text.parse() == Ok(ip)),
                "{ip} is in no object"
            );
        }
        coverage.endpoints += 1;
        coverage.local += usize::from(endpoint.kind == ServiceKind::Local);
    }
    check_kind(service);
    let down = service
        .endpoints
        .iter()
        .filter(|endpoint| !endpoint.is_alive())
        .count();
    let is_last = down > 0 && down == service.endpoints.len();
    coverage.last_resort += usize::from(is_last && service.gateway_down == GatewayDown::LastResort);
    let answered = read_own_name(service).map_or(0, |view| view.endpoints().count());
    coverage.omitted += usize::from(down > 0 && answered < service.endpoints.len());
}

/// Asserts that the name of a service has an endpoint for each cluster with endpoints, and that a headless one of another
/// cluster has a hostname (rule K1). No service here has a failover order.
fn check_kind(service: &Service) {
    let (selected, others): (Vec<&Endpoint>, Vec<&Endpoint>) = service
        .endpoints
        .iter()
        .partition(|endpoint| endpoint.is_selected);
    for other in others {
        let cluster = other.cluster.as_ref();
        let mut selected = selected.iter();
        let is_answered = selected.any(|endpoint| endpoint.cluster.as_ref() == cluster)
            || cluster.is_some_and(|cluster| service.federated.contains(cluster));
        assert!(is_answered, "{service:?}");
    }
    let mut remote = service
        .endpoints
        .iter()
        .filter(|endpoint| endpoint.kind == ServiceKind::Headless);
    assert!(
        remote.all(|endpoint| endpoint.hostname.is_some()),
        "{service:?}"
    );
}

/// Asserts that an endpoint meets the rules for members, according to the original objects.
fn check_member(cluster: &Cluster, service: &Service, endpoint: &Endpoint, object: &ObjectRef) {
    let rules = &cluster.rules;
    let name_of = |link: &Value| {
        let link = link.as_str().and_then(|link| link.parse().ok());
        link.map(|link| rules.name_of(&link))
    };
    let label = |object: &Value, key: &str| object["metadata"]["labels"][key].clone();
    let object_of = |kind: Kind, name: &str| {
        let key = ObjectKey::new(&object.key.namespace, name);
        cluster.watched.get(&(kind, key))
    };
    if object.kind == Kind::Service {
        let Some(mirror) = object_of(Kind::Service, &object.key.name.text()) else {
            panic!("{object} was not watched")
        };
        let link = label(mirror, key::CLUSTER_NAME);
        let cluster = endpoint.cluster.as_ref();
        match endpoint.kind {
            ServiceKind::Federated => {
                let name = object.key.name.text();
                assert_eq!(
                    name.strip_suffix("-federated"),
                    Some(service.key.service.as_str())
                );
                return assert_eq!(cluster, None, "{mirror}");
            }
            ServiceKind::Local => {
                assert_eq!(*object.key.name.text(), *service.key.service.as_str());
                assert!(label(mirror, key::EXPORTED).is_string(), "{mirror}");
                return assert_eq!(cluster, Some(&rules.cluster_name));
            }
            ServiceKind::Headless | ServiceKind::Gateway | ServiceKind::Flat => {}
        }
        assert_eq!(name_of(&link).as_ref(), cluster, "{mirror}");
        assert!(cluster.is_some_and(|cluster| !rules.excluded_clusters.contains(cluster)));
        if endpoint.kind != ServiceKind::Headless {
            return;
        }
        let parent = label(mirror, key::HEADLESS_MIRROR);
        let parent = object_of(Kind::Service, parent.as_str().unwrap()).unwrap();
        assert_eq!(parent["spec"]["clusterIP"], "None", "{parent}");
        assert_eq!(label(parent, key::CLUSTER_NAME), link, "{parent}");
        if let Some(name) = mirror["metadata"]["annotations"][key::REMOTE_FQ_NAME].as_str() {
            let key = &service.key;
            let host = endpoint.labels()[0];
            let own = format!("{host}.{}.{}", key.service, key.namespace);
            let is_own = name == own || name.starts_with(&format!("{own}."));
            assert!(is_own, "{mirror} is in {key} as {host}");
        }
    } else {
        assert_eq!(endpoint.cluster.as_ref(), Some(&rules.cluster_name));
        let local = object_of(Kind::Service, service.key.service.as_str()).unwrap();
        let is_exported = label(local, key::EXPORTED) == "true";
        // A mirror of an excluded cluster counts too.
        let is_excluded = |one: &Problem| one.kind == ProblemKind::LeftOut;
        let has_mirror = !service.mirrors.is_empty() || service.problems.iter().any(is_excluded);
        let annotations = local["metadata"]["annotations"].as_object().into_iter();
        let mut annotations = annotations.flatten();
        let is_annotated = annotations.any(|(key, _)| key.starts_with("global-dns/"));
        let has_other_mirror = service
            .endpoints
            .iter()
            .any(|endpoint| endpoint.kind != ServiceKind::Local);
        assert!(
            is_exported || is_annotated || has_mirror || has_other_mirror,
            "{local}"
        );
        let slice = object_of(Kind::EndpointSlice, &object.key.name.text());
        let owner = label(slice.unwrap(), key::SERVICE_NAME);
        assert_eq!(owner, service.key.service.as_str());
    }
}

/// Returns the texts in an object that may be addresses.
fn address_texts(cluster: &Cluster, object: &ObjectRef) -> Vec<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let object = cluster.watched.get(&(object.kind, object.key.clone()));
    object
        .into_iter()
        .flat_map(|object| {
            let endpoints = object["endpoints"].as_array().into_iter().flatten();
            let pods = endpoints.filter_map(|endpoint| text(&endpoint["addresses"][0]));
            let ips = object["spec"]["clusterIPs"]
                .as_array()
                .into_iter()
                .flatten();
            let first = text(&object["spec"]["clusterIP"]);
            let ips = ips.filter_map(text).chain(first);
            pods.chain(ips).collect::<Vec<_>>()
        })
        .collect()
}

fn is_label(text: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let ends = [text.chars().next(), text.chars().last()];
    (1..=63).contains(&text.len()) && text.chars().all(is_inner) && !ends.contains(&Some('-'))
}
