use crate::table::Timers;
use serde_json::{Value, json};

use super::*;
use crate::model::{Kind, Problem, ProblemKind, Timestamp};
use crate::testing::{
    Server, backends, endpoint, link, listing, local, mirror, parsed, rules, service_mirror, store,
    table, table_by,
};

/// Returns the mirrors of service `prod/db` in clusters `east` and `west`.
fn shop() -> Vec<Value> {
    vec![
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
        mirror("prod", "db", "west"),
        endpoint("prod", "db", "west", "db-0", &["10.96.0.2"]),
    ]
}

fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let key = key.replace("~1", "/");
    object.pointer_mut(parent).unwrap()[key] = value;
    object
}

fn annotated(object: Value, annotation: &str, value: &str) -> Value {
    let mut object = object;
    object["metadata"]["annotations"][annotation] = json!(value);
    object
}

/// Returns the details of all problems of a kind.
fn details(table: &Table, kind: ProblemKind) -> Vec<String> {
    let problems = table.problems().filter(|problem| problem.kind == kind);
    problems.map(|problem| problem.detail.to_string()).collect()
}

#[test]
fn two_pods_with_one_name_are_a_conflict_but_dual_stack_pod_is_not() {
    let target = |uid: &str| match uid {
        "" => Value::Null,
        uid => json!({"kind": "Pod", "uid": uid}),
    };
    let pods_at = |uids: [&str; 2], second: &str| {
        let [service, v4] = local("prod", "db", &[("db-0", "10.0.0.1", true)]);
        let exported = with(
            service,
            "/metadata/labels",
            json!({"mirror.linkerd.io/exported": "true"}),
        );
        let v4 = with(v4, "/endpoints/0/targetRef", target(uids[0]));
        let v6 = with(v4.clone(), "/metadata/name", json!("db-v6"));
        let v6 = with(v6, "/endpoints/0/addresses", json!([second]));
        let v6 = with(v6, "/endpoints/0/targetRef", target(uids[1]));
        let table = table(&[exported, v4, v6]);
        let endpoints = &table.service("prod", "db").unwrap().endpoints;
        let addresses = endpoints
            .iter()
            .map(|endpoint| endpoint.addresses.len())
            .collect::<Vec<_>>();
        (addresses, table.conflicts().count())
    };
    let pods = |uids| pods_at(uids, "2001:db8::1");
    // Slices that are written by hand do not name the pod. Entries of different families are one pod.
    assert_eq!(pods(["", ""]), (vec![2], 0));
    assert_eq!(pods_at(["", ""], "10.0.0.2"), (vec![2], 1));
    assert_eq!(pods(["one", "one"]), (vec![2], 0));
    assert_eq!(pods(["one", "two"]), (vec![2], 1));
}

#[test]
fn service_has_at_most_128_distinct_ports() {
    let with_ports = |count: u16| {
        let port = |number: u16| json!({"name": format!("p{number}"), "port": number});
        let ports: Value = (1..=count).map(port).collect();
        let table = table(&[
            mirror("prod", "db", "east"),
            with(
                endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
                "/spec/ports",
                ports.clone(),
            ),
            // The same ports do not count twice.
            with(
                endpoint("prod", "db", "east", "db-1", &["10.96.0.2"]),
                "/spec/ports",
                ports,
            ),
        ]);
        let endpoints = &table.service("prod", "db").unwrap().endpoints;
        let counts: Vec<usize> = endpoints.iter().map(|one| one.ports.len()).collect();
        (counts, details(&table, ProblemKind::TooManyPorts))
    };
    assert_eq!(with_ports(128), (vec![128, 128], vec![]));
    let detail = "130 ports; the first 128 count, up to number 128".to_owned();
    assert_eq!(with_ports(130), (vec![128, 128], vec![detail]));
}

/// Builds a table with a function that builds one service.
fn build_with(
    last: &Table,
    store: &Store,
    dirty: &ServiceKeys,
    timers: &Timers,
    build_service: impl Fn(BuildContext<'_>) -> BuiltService,
) -> Built {
    let rules = rules();
    let build = Build {
        build_service: &build_service,
        ..Build::begin(last, store, &rules, timers)
    };
    build.of_all(dirty)
}

/// The old version stays, with a problem, until a build of the service succeeds.
#[test]
fn panic_in_the_build_of_one_service_leaves_all_others_alive() {
    let one = |service: &str, ip: &str| {
        let host = endpoint("prod", service, "east", &format!("{service}-0"), &[ip]);
        [mirror("prod", service, "east"), host]
    };
    let objects = |ip: &str| [one("db", ip), one("web", ip)].concat();
    let next = |last: &Table, ip: &str, panics_for: &str| {
        let store = store(&objects(ip));
        let (services, timers) = (store.services(), Timers::default());
        build_with(last, &store, &services, &timers, |context| {
            assert_ne!(context.key.service.as_str(), panics_for);
            build_service(context)
        })
    };
    let addresses = |table: &Table| {
        let address = |name: &str| {
            let service = table.service("prod", name)?;
            Some(service.endpoints.first()?.addresses[0].ip.to_string())
        };
        [address("db"), address("web")].map(Option::unwrap_or_default)
    };
    let first = next(&Table::default(), "10.96.0.1", "").table;
    let second = next(&first, "10.96.0.2", "db");
    assert!(second.difference > Difference::None);
    assert_eq!(addresses(&second.table), ["10.96.0.1", "10.96.0.2"]);
    let problems = |table: &Table| details(table, ProblemKind::BuildPanicked);
    assert_eq!(problems(&second.table), ["its last version stays"]);
    // There is nothing to keep of a new service.
    let new = next(&Table::default(), "10.96.0.1", "db").table;
    assert_eq!(addresses(&new), ["", "10.96.0.1"]);
    assert_eq!(problems(&new).len(), 1);
    let third = next(&second.table, "10.96.0.2", "").table;
    assert_eq!(addresses(&third), ["10.96.0.2", "10.96.0.2"]);
    assert_eq!(problems(&third), [""; 0]);
}

#[test]
fn build_that_panics_at_the_end_of_a_delay_is_repeated_after_a_pause() {
    let (store, last) = (store(&shop()), table(&shop()));
    let services = crate::testing::service_keys(&["db"]);
    let mut timers = Timers::default();
    timers.now = Timestamp::from_seconds(100);
    let due = ServiceTimers {
        wake: Some(Timestamp::from_seconds(90)),
        ..ServiceTimers::default()
    };
    let due = services.iter().map(|key| (key.clone(), due.clone()));
    timers.apply(due.collect());
    assert_eq!(timers.take_due(), services);
    let panics = |_: BuildContext<'_>| panic!("at each build");
    let built = build_with(&last, &store, &services, &timers, panics);
    timers.apply(built.timers);
    assert!(timers.take_due().is_empty());
    assert_eq!(timers.next_wake(), Some(timers.now.after(PANIC_PAUSE)));
}

#[test]
fn unchanged_services_are_shared_with_the_previous_table() {
    let service = |name: &str, ip: &str| {
        let host = endpoint("prod", name, "east", "h-0", &[ip]);
        [mirror("prod", name, "east"), host]
    };
    let objects = |ip: &str| [service("db", "10.96.0.1"), service("web", ip)].concat();
    let mut server = Server::new(rules());
    server.see(1, &objects("10.96.0.2"));
    let before = server.table.clone();
    server.see(2, &objects("10.96.0.3"));
    let of = |table: &Table, name| std::ptr::from_ref(table.service("prod", name).unwrap());
    let is_shared = ["db", "web"].map(|name| of(&before, name) == of(&server.table, name));
    assert_eq!(is_shared, [true, false]);
}

/// The generation and the SOA serial count answers.
#[test]
fn another_problem_of_the_owner_of_a_short_name_changes_no_answer() {
    let last = table(&shop());
    let mut objects = shop();
    objects[0] = annotated(mirror("prod", "db", "east"), "global-dns/failover", "east");
    let store = store(&objects);
    let built = build(
        &last,
        &store,
        &store.services(),
        &rules(),
        &Timers::default(),
    );
    assert_eq!(built.difference, Difference::State);
}

/// One with a selector is a database without pods, whose short name is its own (rule M5).
#[test]
fn headless_service_that_only_has_settings_claims_no_short_name() {
    for (selector, is_known) in [(json!({}), false), (json!({"app": "db"}), true)] {
        let [mut own, slice] = local("prod", "db", &[]);
        own["spec"]["selector"] = selector;
        let own = annotated(own, "global-dns/ttl", "9");
        let table = table(&[own, slice, mirror("other", "db", "east")]);
        assert_eq!(table.service("prod", "db").unwrap().is_known, is_known);
        let owner = &table.short_name("db").unwrap().owner;
        assert_eq!(owner.is_err(), is_known, "{owner:?}");
    }
}

/// It has a row of its own (rule L2b), and orders that name it have another problem.
#[test]
fn cluster_that_no_service_has_changes_no_answer() {
    let [own, slice] = local("prod", "web", &[]);
    let own = annotated(own, "global-dns/failover", "mars:east");
    let objects = [&shop()[..], &[own, slice]].concat();
    let mut server = Server::new(rules());
    assert!(server.see(0, &objects));
    assert!(!server.see(1, &objects));
    let hash = server.table.answers_hash();
    let with_link = [&objects[..], &[link("mars", "mars")]].concat();
    for (second, objects, problems) in [(2, &with_link, 0), (3, &objects, 1)] {
        assert!(server.see(second, objects));
        assert_eq!(server.table.answers_hash(), hash);
        let unknown = details(&server.table, ProblemKind::SettingWithoutEffect);
        assert_eq!(unknown.len(), problems, "{unknown:?}");
    }
}

/// A slice of a thousand pods with one hostname must not cost a million steps.
#[test]
fn conflict_of_many_pods_is_one_problem() {
    let address = |number| format!("10.0.{}.{}", number / 250, number % 250 + 1);
    let addresses: Vec<String> = (0..1000).map(address).collect();
    let hosts = addresses.iter().map(|one| ("db-0", one.as_str(), true));
    let hosts: Vec<_> = hosts.collect();
    let objects = [&shop()[..], &local("prod", "db", &hosts)].concat();
    let table = table(&objects);
    let own = table.service("prod", "db").unwrap();
    let pod = own.endpoints.iter().find(|one| one.is_local()).unwrap();
    assert_eq!(pod.addresses.len(), 1000);
    let conflicts = details(&table, ProblemKind::Endpoint);
    assert_eq!(conflicts.len(), 1, "{conflicts:?}");
    assert!(conflicts[0].contains("has 1000 entries"), "{conflicts:?}");
}

/// Such a Service can be read only while it has settings.
#[test]
fn order_that_is_removed_from_an_exported_service_without_an_address_ends_at_once() {
    let of = |annotations: Value| {
        let mut objects = vec![json!({
            "metadata": {"namespace": "prod", "name": "web", "annotations": annotations,
                "labels": {"mirror.linkerd.io/exported": "true"}},
            "spec": {"type": "ExternalName", "externalName": "web.example.org"},
        })];
        for (cluster, address) in [("east", "10.96.0.1"), ("west", "10.96.0.2")] {
            objects.push(service_mirror("prod", "web", cluster, address));
            objects.push(backends("prod", &format!("web-{cluster}"), true, true));
        }
        objects
    };
    let mut server = Server::new(rules());
    let mut answered = |second, objects: &[Value]| {
        server.see(second, objects);
        server.table.service("prod", "web").unwrap().names.v4.len()
    };
    assert_eq!(
        answered(0, &of(json!({"global-dns/failover": "east:west"}))),
        1
    );
    assert_eq!(answered(1, &of(json!({}))), 2);
}

/// A Service that is replaced by one that cannot be used, such as an exported one without an address, stays (rule K6): its setting
/// ended. An incremental build sees that like a full one.
#[test]
fn own_service_that_becomes_unusable_ends_its_order_at_once() {
    let [own, _] = local("prod", "db", &[]);
    let own = annotated(own, "global-dns/failover", "west");
    let external = json!({
        "metadata": {"namespace": "prod", "name": "db", "labels": {"mirror.linkerd.io/exported": "true"}},
        "spec": {"type": "ExternalName", "externalName": "db.example"},
    });
    let mut store = store(&[shop(), vec![own.clone()]].concat());
    let (mut timers, rules) = (Timers::default(), rules());
    let mut next = |last: &Table, dirty: &ServiceKeys, second, store: &Store| {
        timers.now = Timestamp::from_seconds(second);
        let built = build(last, store, dirty, &rules, &timers);
        timers.apply(built.timers);
        built.table
    };
    let has_order = |table: &Table| table.service("prod", "db").unwrap().failover.is_some();
    let mut table = next(&Table::default(), &store.services(), 1, &store);
    assert!(has_order(&table));
    for (object, expected) in [(None, true), (Some(&external), false), (Some(&own), true)] {
        let (key, _) = parsed(Kind::Service, &own);
        let object = object.map(|object| parsed(Kind::Service, object).1);
        let dirty = store.apply(Kind::Service, key, object.clone());
        table = next(&table, &dirty, 2, &store);
        assert_eq!(has_order(&table), expected, "{object:?}");
    }
}

/// Problems of one kind, service and cluster are one, with the first objects and a count.
#[test]
fn thousands_of_endpoint_mirrors_of_an_excluded_cluster_are_one_problem() {
    let rules = Rules {
        excluded_clusters: ["east".parse().unwrap()].into(),
        ..rules()
    };
    let hosts = (0..5000).map(|number| format!("db-{number}"));
    let objects: Vec<Value> = hosts
        .map(|host| endpoint("prod", "db", "east", &host, &["10.96.0.1"]))
        .collect();
    let table = table_by(&rules, &objects);
    let problems: Vec<&Problem> = table.problems().collect();
    assert_eq!(problems.len(), 1);
    assert_eq!(
        problems[0].to_string(),
        "Object is not used on purpose: prod/db: cluster 'east' is excluded by the setting excludeClusters: \
         Service/prod/db-0-east, Service/prod/db-1-east, Service/prod/db-10-east, Service/prod/db-100-east, \
         Service/prod/db-1000-east and 4995 more"
    );
}

/// Everybody who can create a Service can invent clusters: one of a cluster of its own must not cost more than one of a service.
#[test]
fn cost_of_a_service_does_not_grow_with_the_number_of_its_clusters() {
    const COUNT: u32 = 5000;
    let address = |number: u32| std::net::Ipv4Addr::from(0x0a60_0000 + number).to_string();
    let mut hosts = vec![mirror("prod", "db", "east")];
    let mut mirrors = Vec::new();
    for number in 0..COUNT {
        let (host, cluster) = (format!("db-{number}"), format!("c{number}"));
        hosts.push(endpoint("prod", "db", "east", &host, &[&address(number)]));
        hosts.push(crate::testing::gateway(
            "prod",
            &format!("{host}-east"),
            true,
        ));
        mirrors.push(service_mirror("prod", "db", &cluster, &address(number)));
        mirrors.push(backends("prod", &format!("db-{cluster}"), true, true));
    }
    let cost = |mut objects: Vec<Value>| {
        let mut store = store(&objects);
        let (rules, mut timers) = (rules(), Timers::default());
        timers.update_links(&mut store, None, &rules);
        let last = build(
            &Table::default(),
            &store,
            &store.services(),
            &rules,
            &timers,
        );
        timers.apply(last.timers);
        // A change of one object.
        let slice = objects.pop().unwrap();
        let (key, _) = parsed(Kind::EndpointSlice, &slice);
        let dirty = store.apply(Kind::EndpointSlice, key, None);
        timers.update_links(&mut store, None, &rules);
        crate::testing::cpu_time(10, || {
            let next = build(&last.table, &store, &dirty, &rules, &timers);
            assert_eq!(
                next.table.service("prod", "db").unwrap().endpoints.len(),
                5000
            );
        })
    };
    let (endpoints, clusters) = (cost(hosts), cost(mirrors));
    assert!(clusters < 8 * endpoints, "{endpoints:?}, {clusters:?}");
}

/// A host is missing because its endpoint mirror cannot be used, unless it was missing before.
#[test]
fn unusable_endpoint_mirror_explains_its_missing_host() {
    let listed = listing("prod", "db-east", &[("db-0", "10.96.0.1")]);
    let absent = vec![mirror("prod", "db", "east"), listed];
    let unusable = endpoint("prod", "db", "east", "db-0", &["127.0.0.1"]);
    let unusable = [&absent[..], &[unusable]].concat();
    let cause = |server: &Server| {
        let mut problems = server.table.service("prod", "db").unwrap().problems.iter();
        let missing = problems.find(|one| one.kind == ProblemKind::MissingHost);
        missing.unwrap().cause
    };
    let mut server = Server::new(rules());
    server.see(1, &unusable);
    assert_eq!(cause(&server), Some(ProblemKind::UnusableObject));
    let mut server = Server::new(rules());
    server.see(1, &absent);
    server.see(2, &unusable);
    assert_eq!(cause(&server), None);
}

/// Whose reader fails before it knows the service of the mirror.
#[test]
fn missing_host_is_built_again_when_the_object_that_explains_it_goes() {
    let listed = [
        mirror("prod", "db", "east"),
        listing("prod", "db-east", &[("db-0", "10.96.0.1")]),
    ];
    let host = endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]);
    let unusable = annotated(
        host,
        "mirror.linkerd.io/remote-svc-fq-name",
        "db-0.db.other.svc.a",
    );
    let all = [&listed[..], std::slice::from_ref(&unusable)].concat();
    let mut store = store(&all);
    let (mut last, mut timers) = (table(&all), Timers::default());
    let cause = |table: &Table| {
        let mut problems = table.problems();
        problems
            .find(|one| one.kind == ProblemKind::MissingHost)
            .unwrap()
            .cause
    };
    assert_eq!(cause(&last), Some(ProblemKind::NamespaceMismatch));
    let (key, _) = parsed(Kind::Service, &unusable);
    let dirty = store.apply(Kind::Service, key, None);
    let built = build(&last, &store, &dirty, &rules(), &timers);
    timers.apply(built.timers);
    last = built.table;
    assert_eq!(cause(&last), None);
}
