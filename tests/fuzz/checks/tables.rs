//! What holds of every table: rules M1 to M10, asked of the objects behind it.

use std::collections::BTreeSet;

use global_dns::mirror::watch::key;
use global_dns::mirror::{
    GatewayDown, Kind, Object, ObjectKey, ObjectRef, Skip, SkipReason, Watch,
};
use global_dns::table::{ConflictKind, Endpoint, Origin, Service, Table, build};
use global_dns::wire::Transport;
use serde_json::Value;

use super::answers::{self, A, AAAA, NAMES, SRV, published, reply};
use super::world::{Seen, World};

/// Checks the table of a world.
pub fn check(world: &World, seen: &mut Seen) {
    check_incremental(world);
    check_isolation(world);
    check_nothing_vanishes(world);
    for service in world.table.services() {
        check_service(world, service, seen);
    }
    seen.skipped += world.table.skipped().count();
    seen.conflicts += world.table.conflicts().count();
    answers::check(&world.table, seen);
}

// === Built at once, and apart ===

/// What was built step by step is what is built at once.
fn check_incremental(world: &World) {
    let World {
        inputs,
        rules,
        table,
        ..
    } = world;
    let full = build(&Table::default(), inputs, &inputs.services(), rules).table;
    assert_eq!(table.sorted_services(), full.sorted_services());
    assert_eq!(*table, full);
    assert_eq!(skipped(table), skipped(&full));
    // And so is what is built without knowing the past, which identities alone tell of.
    let anew = world.build_anew(|_| true);
    assert_eq!(table.answers_hash(), anew.answers_hash());
    for service in table.services() {
        let short = |table: &Table| table.short_name(service.key.service.as_str()).cloned();
        assert_eq!(short(table), short(&anew), "{}", service.key);
    }
    let now: Vec<_> = table.sorted_services().into_iter().map(timeless).collect();
    let anew_services = anew.sorted_services();
    assert_eq!(
        now,
        anew_services.into_iter().map(timeless).collect::<Vec<_>>()
    );
    assert_eq!(skipped(table), skipped(&anew));
}

fn timeless(service: &Service) -> Service {
    let mut service = service.clone();
    service
        .conflicts
        .retain(|conflict| conflict.kind != ConflictKind::Identity);
    service
}

fn skipped(table: &Table) -> BTreeSet<(ObjectRef, String)> {
    let all = table.skipped();
    all.map(|(object, skip)| (object, format!("{skip:?}")))
        .collect()
}

/// A namespace has the services that it would have alone, and its names answer as they would.
fn check_isolation(world: &World) {
    for namespace in world.namespaces() {
        let alone = world.build_anew(|key| *key.namespace == *namespace);
        let own = |table: &Table| -> Vec<Service> {
            let services = table.sorted_services().into_iter();
            let own = services.filter(|s| s.key.namespace.as_str() == namespace);
            own.map(timeless).collect()
        };
        assert_eq!(own(&world.table), own(&alone), "{namespace}");
        assert_eq!(alone.services().count(), own(&alone).len(), "{namespace}");
        let (now, alone) = (published(&world.table), published(&alone));
        for name in canonical_names(&own(&world.table)) {
            for rtype in [A, AAAA, SRV] {
                let answers = [&now, &alone].map(|now| reply(now, &name, rtype, Transport::Udp));
                assert_eq!(answers[0], answers[1], "{name}");
            }
        }
    }
}

/// Names of services in their namespaces, which exist.
fn canonical_names(services: &[Service]) -> Vec<String> {
    let with_endpoints = services
        .iter()
        .filter(|service| !service.endpoints.is_empty());
    let names = with_endpoints.flat_map(|service| {
        let own = format!("{}.{}.global", service.key.service, service.key.namespace);
        let hosts = service.endpoints.iter();
        let hosts = hosts.map(|e| format!("{}.{}.{own}", e.hostname, e.cluster));
        let hosts: Vec<String> = hosts.collect();
        let clusters = service.clusters().map(|cluster| format!("{cluster}.{own}"));
        let clusters: Vec<String> = clusters.collect();
        [vec![own], clusters, hosts].concat()
    });
    names.take(NAMES).collect()
}

// === Who is a member, and what is told of who is not ===

/// Every mirror is in the table, or is left out with a reason.
fn check_nothing_vanishes(world: &World) {
    let table = &world.table;
    let told: BTreeSet<ObjectRef> = table.skipped().map(|(object, _)| object).collect();
    for watch in Watch::ALL {
        for (key, object) in world.inputs.objects(watch) {
            let kind = watch.kind();
            let reference = ObjectRef {
                kind,
                key: key.clone(),
            };
            let in_mirrors = |service: &Service| service.mirrors.iter().any(|m| m.1 == reference);
            let in_endpoints = |service: &Service| {
                let all = service.endpoints.iter().chain(&service.not_ready);
                let mut objects = all.flat_map(|e| e.object_refs(&service.key.namespace));
                objects.any(|object| object == reference)
            };
            let is_there = match object {
                Object::HeadlessMirror(_) => table.services().any(in_mirrors),
                Object::EndpointMirror(_) => table.services().any(in_endpoints),
                Object::Skipped(_) => false,
                Object::LocalService(_)
                | Object::GatewaySlice(_)
                | Object::ListedHosts(_)
                | Object::Slice(_) => continue,
            };
            assert_eq!(
                is_there,
                !told.contains(&reference),
                "{reference}: {object:?}"
            );
        }
    }
}

fn check_service(world: &World, service: &Service, seen: &mut Seen) {
    let rules = &world.rules;
    let (namespace, name) = (service.key.namespace.as_str(), service.key.service.as_str());
    assert!(is_label(namespace) && is_label(name), "{}", service.key);
    assert!(
        (1..=rules.ttl_max).contains(&service.ttl),
        "TTL {}",
        service.ttl
    );
    let hosts: Vec<_> = service
        .endpoints
        .iter()
        .map(|e| (&e.cluster, &e.hostname))
        .collect();
    assert!(
        hosts.is_sorted_by(|a, b| a < b),
        "each host once: {hosts:?}"
    );
    for endpoint in &service.endpoints {
        let (cluster, host) = (endpoint.cluster.as_str(), endpoint.hostname.as_str());
        assert!(is_label(cluster) && is_label(host), "{endpoint:?}");
        let labels = [host, cluster, name, namespace];
        let octets: usize = labels.iter().map(|label| label.len() + 1).sum();
        assert!(octets + rules.longest_zone <= 255, "{endpoint:?}");
        assert!(!endpoint.addresses.is_empty() && !endpoint.objects.is_empty());
        assert!(endpoint.ports.iter().all(|port| port.number > 0));
        let objects: Vec<_> = endpoint.object_refs(&service.key.namespace).collect();
        for object in &objects {
            check_member(world, service, endpoint, object);
        }
        let ips = endpoint.addresses.iter().map(|address| address.ip);
        for ip in ips {
            let mut texts = objects.iter().flat_map(|object| texts_of(world, object));
            assert!(
                texts.any(|text| text.parse() == Ok(ip)),
                "{ip} comes from nowhere"
            );
        }
        seen.endpoints += 1;
        seen.local += usize::from(endpoint.origin == Origin::Local);
    }
    let dead = service
        .endpoints
        .iter()
        .filter(|endpoint| !endpoint.alive)
        .count();
    let is_last = dead > 0 && dead == service.endpoints.len();
    seen.last_resort += usize::from(is_last && service.gateway_down == GatewayDown::LastResort);
    seen.left_out += usize::from(dead > 0 && !service.own_name.shows_dead);
}

/// The rules M1, M2, M5 and M6, asked of the objects as they were told.
fn check_member(world: &World, service: &Service, endpoint: &Endpoint, object: &ObjectRef) {
    let rules = &world.rules;
    let name_of = |link: &Value| {
        let link = link.as_str().and_then(|link| link.parse().ok());
        link.map(|link| rules.name_of(&link))
    };
    let label = |object: &Value, key: &str| object["metadata"]["labels"][key].clone();
    let told = |watch: Watch, name: &str| {
        let key = ObjectKey::new(&object.key.namespace, name);
        world.told.get(&(watch, key))
    };
    if object.kind == Kind::Service {
        let mirror = told(Watch::MirrorServices, &object.key.name.text()).unwrap();
        let link = label(mirror, key::CLUSTER_NAME);
        assert_eq!(name_of(&link).as_ref(), Some(&endpoint.cluster), "{mirror}");
        assert!(!rules.excluded_clusters.contains(&endpoint.cluster));
        let parent = label(mirror, key::HEADLESS_MIRROR);
        let parent = told(Watch::MirrorServices, parent.as_str().unwrap()).unwrap();
        assert_eq!(parent["spec"]["clusterIP"], "None", "{parent}");
        assert_eq!(label(parent, key::CLUSTER_NAME), link, "{parent}");
        if let Some(name) = mirror["metadata"]["annotations"][key::REMOTE_FQ_NAME].as_str() {
            let key = &service.key;
            let own = format!("{}.{}.{}", endpoint.hostname, key.service, key.namespace);
            let is_own = name == own || name.starts_with(&format!("{own}."));
            assert!(is_own, "{mirror} is in {key} as {}", endpoint.hostname);
        }
    } else {
        assert_eq!(endpoint.cluster, rules.cluster_name);
        let local = told(Watch::LocalServices, service.key.service.as_str()).unwrap();
        let is_exported = label(local, key::EXPORTED) == "true";
        // A mirror of a cluster that is left out is one all the same.
        let is_excluded = |skip: &Skip| skip.reason == SkipReason::ExcludedCluster;
        let has_mirror = !service.mirrors.is_empty()
            || service.skipped.iter().any(|(_, skip)| is_excluded(skip));
        assert!(is_exported || has_mirror, "{local}");
        let slices = [Watch::LocalSlices, Watch::ForeignSlices];
        let slice = slices
            .into_iter()
            .find_map(|watch| told(watch, &object.key.name.text()));
        let of = label(slice.unwrap(), key::SERVICE_NAME);
        assert_eq!(of, service.key.service.as_str());
    }
}

/// The texts in an object that may be addresses.
fn texts_of(world: &World, object: &ObjectRef) -> Vec<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let watches = Watch::ALL
        .into_iter()
        .filter(|watch| watch.kind() == object.kind);
    let told = watches.filter_map(|watch| world.told.get(&(watch, object.key.clone())));
    told.flat_map(|told| {
        let endpoints = told["endpoints"].as_array().into_iter().flatten();
        let pods = endpoints.filter_map(|endpoint| text(&endpoint["addresses"][0]));
        let ips = told["spec"]["clusterIPs"].as_array().into_iter().flatten();
        let first = text(&told["spec"]["clusterIP"]);
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
