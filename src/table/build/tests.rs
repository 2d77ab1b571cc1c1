use crate::table::Timers;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::*;
use crate::model::{
    ClusterName, GatewayDown, Kind, Namespace, ObjectKey, Problem, ProblemKind, Timestamp,
};
use crate::table::store::Objects;
use crate::table::{EndpointLiveness, LocalMembers, NoOwner, ShortNames};
use crate::testing::support::rounds::rounds;
use crate::testing::{
    backends, endpoint, exported, federated, flat_mirror, gateway, listing, local, mirror, parsed,
    rules, service_mirror, store, table, table_by,
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

fn conflicts(table: &Table) -> Vec<(&'static str, String, String)> {
    let conflict = |c: Problem| (c.kind.name(), c.subject().into(), c.detail.to_string());
    table.conflicts().map(conflict).collect()
}

fn conflict(kind: &'static str, name: &str, detail: &str) -> Vec<(&'static str, String, String)> {
    vec![(kind, name.to_owned(), detail.to_owned())]
}

/// Returns the details of all problems of a kind.
fn details(table: &Table, kind: ProblemKind) -> Vec<String> {
    let problems = table.problems().filter(|problem| problem.kind == kind);
    problems.map(|problem| problem.detail.to_string()).collect()
}

fn reasons(table: &Table) -> Vec<(String, ProblemKind)> {
    table
        .skipped()
        .map(|problem| (problem.subject().into(), problem.kind))
        .collect()
}

#[test]
fn valid_objects_lead_to_no_conflict_and_no_skip() {
    let table = table(&shop());
    assert_eq!(
        (conflicts(&table), reasons(&table)),
        (Vec::new(), Vec::new())
    );
}

#[test]
fn endpoint_mirror_without_parent_of_same_cluster_and_service_is_skipped() {
    let skipped = |parent: Option<Value>| {
        let mut objects = vec![endpoint("prod", "db", "east", "db-0", &["10.96.0.1"])];
        objects.extend(parent);
        let table = table(&objects);
        assert!(
            table
                .service("prod", "db")
                .is_none_or(|service| service.endpoints.is_empty())
        );
        reasons(&table)
    };
    let own = "Service/prod/db-0-east".to_owned();
    let no_parent = vec![(own, ProblemKind::NoParent)];
    assert_eq!(skipped(None), no_parent);
    let cluster = "/metadata/labels/mirror.linkerd.io~1cluster-name";
    let renamed = with(mirror("prod", "db", "east"), cluster, json!("north"));
    let named = annotated(
        renamed,
        "mirror.linkerd.io/remote-svc-fq-name",
        "db.prod.svc.cluster.local",
    );
    assert_eq!(skipped(Some(named)), no_parent);
    let other = annotated(
        mirror("prod", "db", "east"),
        "mirror.linkerd.io/remote-svc-fq-name",
        "cache.prod.svc.cluster.local",
    );
    assert_eq!(skipped(Some(other)), no_parent);
    // A parent in another namespace does not count.
    assert_eq!(skipped(Some(mirror("shop", "db", "east"))), no_parent);
}

#[test]
fn short_name_of_two_namespaces_is_a_conflict() {
    let mut objects = shop();
    objects.push(mirror("shop", "db", "east"));
    let expected = conflict(
        "short-name",
        "db",
        "exists in namespaces prod, shop; no setting assigns it, so it is NXDOMAIN",
    );
    assert_eq!(conflicts(&table(&objects)), expected);
    let pinned = [("db".parse().unwrap(), "shop".parse().unwrap())].into();
    let rules = Rules {
        pinned_names: pinned,
        ..rules()
    };
    let table = table_by(&rules, &objects);
    assert_eq!(conflicts(&table), Vec::new());
    assert_eq!(
        table.short_name("db").unwrap().owner(),
        Ok(&"shop".parse().unwrap())
    );
}

#[test]
fn short_name_belongs_to_pin_or_default_namespace_or_only_namespace() {
    let objects = ["a", "b", "c"].map(|namespace| mirror(namespace, "db", "east"));
    let owner = |rules: &Rules, objects: &[Value]| {
        let table = table_by(rules, objects);
        let short = table.short_name("db").unwrap();
        short.owner().cloned().map_err(Clone::clone)
    };
    let namespace = |name: &str| -> Namespace { name.parse().unwrap() };
    let default = |name| Rules {
        default_namespace: Some(namespace(name)),
        ..rules()
    };
    let pinned = |name, rules: Rules| Rules {
        pinned_names: [("db".parse().unwrap(), namespace(name))].into(),
        ..rules
    };
    let only = |short_names, rules: Rules| Rules {
        short_names,
        ..rules
    };
    for (case, rules, expected) in [
        ("several namespaces", rules(), Err(NoOwner::Ambiguous)),
        ("the default namespace", default("c"), Ok(namespace("c"))),
        (
            "a default namespace without the service",
            default("z"),
            Err(NoOwner::Ambiguous),
        ),
        (
            "a pin and a default namespace",
            pinned("b", default("c")),
            Ok(namespace("b")),
        ),
        (
            "a pin without the service, and a default namespace with it",
            pinned("z", default("c")),
            Err(NoOwner::Pinned(namespace("z"))),
        ),
        (
            "pinned names only",
            only(ShortNames::Pinned, rules()),
            Err(NoOwner::Unpinned),
        ),
        (
            "pinned names only, and a default namespace",
            only(ShortNames::Pinned, default("c")),
            Ok(namespace("c")),
        ),
        (
            "off",
            only(ShortNames::None, pinned("b", default("c"))),
            Err(NoOwner::Off),
        ),
    ] {
        assert_eq!(owner(&rules, &objects), expected, "{case}");
    }
    assert_eq!(owner(&rules(), &objects[1..2]), Ok(namespace("b")));
    assert_eq!(
        owner(&only(ShortNames::Pinned, rules()), &objects[1..2]),
        Err(NoOwner::Unpinned)
    );
}

#[test]
fn two_sources_of_one_cluster_name_are_merged_and_reported() {
    let alias = [("west".parse().unwrap(), "east".parse().unwrap())].into();
    let rules = Rules {
        cluster_aliases: alias,
        ..rules()
    };
    let table = table_by(&rules, &shop());
    let service = table.service("prod", "db").unwrap();
    let ips: Vec<String> = service.endpoints[0]
        .addresses
        .iter()
        .map(|a| a.ip.to_string())
        .collect();
    assert_eq!(
        (service.endpoints.len(), ips),
        (1, vec!["10.96.0.1".to_owned(), "10.96.0.2".to_owned()])
    );
    let mut expected = conflict(
        "cluster-name",
        "prod/db",
        "cluster name 'east' stands for link 'east' and link 'west'; merged",
    );
    expected.extend(conflict(
        "endpoint",
        "prod/db",
        "'db-0' of cluster 'east' comes from Service/prod/db-0-east and Service/prod/db-0-west; merged",
    ));
    assert_eq!(conflicts(&table), expected);
}

#[test]
fn cluster_is_excluded_by_its_name_after_aliases() {
    let alias = [("west".parse().unwrap(), "far".parse().unwrap())].into();
    let excluded = ["far".parse().unwrap()].into();
    let rules = Rules {
        cluster_aliases: alias,
        excluded_clusters: excluded,
        ..rules()
    };
    let table = table_by(&rules, &shop());
    let clusters: Vec<&str> = table
        .service("prod", "db")
        .unwrap()
        .clusters()
        .map(ClusterName::as_str)
        .collect();
    assert_eq!(clusters, ["east"]);
    let excluded = |name: &str| (format!("Service/prod/{name}"), ProblemKind::LeftOut);
    assert_eq!(
        reasons(&table),
        [excluded("db-0-west"), excluded("db-west")]
    );
}

#[test]
fn exclusion_of_clusters_keeps_local_members() {
    let pods = [("db-0", "192.0.2.1", true)];
    let objects = |exported: bool| {
        let [mut service, slice] = local("prod", "db", &pods);
        if exported {
            service["metadata"]["labels"]["mirror.linkerd.io/exported"] = json!("true");
        }
        [shop(), vec![service, slice]].concat()
    };
    let clusters = |excluded: &[&str], local_members: LocalMembers, exported: bool| {
        let rules = Rules {
            excluded_clusters: excluded.iter().map(|name| name.parse().unwrap()).collect(),
            local_members,
            ..rules()
        };
        let table = table_by(&rules, &objects(exported));
        let service = table.service("prod", "db").unwrap();
        let clusters = service
            .clusters()
            .map(|cluster| cluster.as_str().to_owned());
        clusters.collect::<Vec<_>>()
    };
    let all = &["east", "west"];
    for (excluded, local_members, exported, expected) in [
        (
            &["west"][..],
            LocalMembers::Matching,
            false,
            &["east", "hub"][..],
        ),
        // Mirrors of excluded clusters count for the local member.
        (all, LocalMembers::Matching, false, &["hub"]),
        (all, LocalMembers::Matching, true, &["hub"]),
        (all, LocalMembers::Exported, true, &["hub"]),
        (all, LocalMembers::Exported, false, &[]),
        (all, LocalMembers::None, true, &[]),
        // `excludeClusters` with the name of this cluster excludes links of that name, not the local member.
        (
            &["hub"],
            LocalMembers::Matching,
            false,
            &["east", "hub", "west"],
        ),
    ] {
        let actual = clusters(excluded, local_members, exported);
        assert_eq!(
            actual, expected,
            "{excluded:?} {local_members:?} {exported}"
        );
    }
}

#[test]
fn only_exported_local_member_stays_without_mirrors() {
    let pods = [("db-0", "192.0.2.1", true)];
    for (exported, expected) in [(true, 1), (false, 0)] {
        let [mut service, slice] = local("prod", "db", &pods);
        if exported {
            service["metadata"]["labels"]["mirror.linkerd.io/exported"] = json!("true");
        }
        let mut store = store(&[shop(), vec![service, slice]].concat());
        let mut table = build(
            &Table::default(),
            &store,
            &store.services(),
            &rules(),
            &Timers::default(),
        )
        .table;
        // The first and the last deletion is that of a headless mirror.
        for name in ["db-east", "db-0-east", "db-0-west", "db-west"] {
            let dirty = store.delete(Kind::Service, ObjectKey::new("prod", name));
            table = build(&table, &store, &dirty, &rules(), &Timers::default()).table;
            let service = table.service("prod", "db");
            let hub = service.map_or(0, |service| service.endpoints_at(&["hub"]).len());
            assert!(hub == 1 || (name == "db-west" && hub == expected), "{name}");
        }
        let service = table.service("prod", "db");
        assert_eq!(
            service.map_or(0, |service| service.endpoints.len()),
            expected
        );
        assert_eq!(table.short_service("db").is_some(), exported);
    }
}

/// The Service of this cluster decides. A mirror may lower the TTL, because a mirrored address may be given to another Service.
#[test]
fn mirrors_may_only_lower_the_ttl() {
    let with_ttl =
        |ttl: &str, cluster: &str| annotated(mirror("prod", "db", cluster), "global-dns/ttl", ttl);
    let settled = |own: Option<&str>, east: &str, west: &str| {
        let mut objects = shop();
        objects[0] = with_ttl(east, "east");
        objects[2] = with_ttl(west, "west");
        let [service, _] = local("prod", "db", &[]);
        objects.extend(own.map(|ttl| annotated(service, "global-dns/ttl", ttl)));
        let table = table(&objects);
        let service = table.service("prod", "db").unwrap();
        let invalid = |one: &&Problem| {
            matches!(
                one.kind,
                ProblemKind::IgnoredAnnotation | ProblemKind::SettingWithoutEffect
            )
        };
        let problems: Vec<String> = service
            .problems
            .iter()
            .filter(invalid)
            .map(|one| one.to_string())
            .collect();
        (service.ttl, problems)
    };
    let none = Vec::new;
    assert_eq!(settled(None, "10", "10"), (5, none()));
    assert_eq!(settled(None, "3", "10"), (3, none()));
    assert_eq!(settled(Some("20"), "10", "30"), (10, none()));
    assert_eq!(settled(Some("20"), "30", "30"), (20, none()));
    let limits =
        "Setting of a service has no effect: prod/db: TTL 300 is not between 1 and 30; 30 counts";
    assert_eq!(
        settled(Some("300"), "30", "30"),
        (30, vec![limits.to_owned()])
    );
    let copied = "Annotation of a mirror is ignored: prod/db: annotation global-dns/ttl=soon: it is not a number of seconds";
    assert_eq!(settled(None, "soon", "3"), (3, vec![copied.to_owned()]));
    let own = "Setting of a service has no effect: prod/db: annotation global-dns/ttl=soon: it is not a number of seconds";
    assert_eq!(settled(Some("soon"), "30", "30"), (5, vec![own.to_owned()]));
}

#[test]
fn name_with_endpoints_of_several_kinds_is_noted() {
    let mut objects = shop();
    objects.push(service_mirror("prod", "db", "north", "10.96.7.7"));
    let expected = conflict(
        "kind",
        "prod/db",
        "a cluster IP in north; pods in east, west",
    );
    assert_eq!(conflicts(&table(&objects)), expected);
    let warnings = |objects: &[Value]| details(&table(objects), ProblemKind::NoHostnames);
    assert_eq!(
        warnings(&objects),
        ["names of hosts in cluster 'north' do not exist"]
    );
    // Without a headless mirror, there is one kind.
    assert_eq!(conflicts(&table(&objects[4..])), Vec::new());
    assert_eq!(warnings(&objects[4..]), [""; 0]);
}

/// Returns the missing hosts: `Service/prod/db-east: db-1 of east at 10.96.0.9, not Service/prod/db-1-east`.
fn missing(table: &Table) -> Vec<String> {
    let services = table.sorted_services().into_iter();
    let missing = services.flat_map(|service| service.missing.iter());
    missing
        .map(|host| {
            let address = host.address.map_or("?".to_owned(), |ip| ip.to_string());
            let (hostname, cluster, mirror) = (&host.hostname, &host.cluster, &host.mirror);
            format!(
                "{mirror}: {hostname} of {cluster} at {address}, not {}",
                host.expected
            )
        })
        .collect()
}

#[test]
fn listed_host_without_endpoint_mirror_is_missing() {
    let listed = [
        ("db-0", "10.96.0.1"),
        ("db-1", "10.96.0.9"),
        ("db-2", "127.0.0.1"),
    ];
    let mut objects = shop();
    assert_eq!(missing(&table(&objects)), [""; 0]);
    objects.push(listing("prod", "db-east", &listed));
    let one = "Service/prod/db-east: db-1 of east at 10.96.0.9, not Service/prod/db-1-east";
    let two = "Service/prod/db-east: db-2 of east at ?, not Service/prod/db-2-east";
    assert_eq!(missing(&table(&objects)), [one, two]);
    // Missing hosts do not change the endpoints.
    assert_eq!(
        table(&objects)
            .service("prod", "db")
            .unwrap()
            .endpoints
            .len(),
        2
    );
    // An object with the expected name may belong to another service or be skipped.
    objects.push(endpoint("prod", "cache", "east", "db-1", &["10.96.0.9"]));
    objects.push(endpoint("prod", "db", "east", "db-2", &["0.0.0.0"]));
    assert_eq!(missing(&table(&objects)), [one, two]);
    objects.truncate(5);
    objects.push(endpoint("prod", "db", "east", "db-1", &["10.96.0.9"]));
    assert_eq!(missing(&table(&objects)), [two]);
    // Lists of another namespace, without hosts, or of an unknown headless mirror have no effect.
    let mut objects = shop();
    objects.push(listing("shop", "db-east", &listed));
    objects.push(listing("prod", "db-west", &[("", "198.51.100.10")]));
    objects.push(listing("prod", "db-north", &listed));
    assert_eq!(missing(&table(&objects)), [""; 0]);
}

#[test]
fn missing_hosts_follow_aliases_and_excluded_clusters() {
    let mut objects = shop();
    objects.push(listing("prod", "db-east", &[("db-1", "10.96.0.9")]));
    let mut rules = rules();
    let pair = ("east".parse().unwrap(), "oregon".parse().unwrap());
    rules.cluster_aliases.extend([pair]);
    // Linkerd does not know aliases.
    let one = "Service/prod/db-east: db-1 of oregon at 10.96.0.9, not Service/prod/db-1-east";
    assert_eq!(missing(&table_by(&rules, &objects)), [one]);
    rules.excluded_clusters.insert("oregon".parse().unwrap());
    assert_eq!(missing(&table_by(&rules, &objects)), [""; 0]);
}

#[test]
fn local_member_that_is_not_exported_is_reported() {
    let mut objects = shop();
    let [mut service, slice] = local("prod", "db", &[("db-0", "10.0.0.1", true)]);
    objects.extend([service.clone(), slice.clone()]);
    let detail = "cluster 'hub' is a member here only, and only while a mirror of its name exists: its Service is not exported";
    assert_eq!(
        conflicts(&table(&objects)),
        conflict("not-exported", "prod/db", detail)
    );
    let exported_as = |value: &str| json!({"mirror.linkerd.io/exported": value});
    // Flat mirroring does not support headless Services. Other values are for Links with a custom selector.
    objects[4]["metadata"]["labels"] = exported_as("remote-discovery");
    let detail = "cluster 'hub' is a member here only, and only while a mirror of its name exists: its Service is exported as remote-discovery, which Linkerd \
                  does not support for headless Services";
    assert_eq!(
        conflicts(&table(&objects)),
        conflict("not-exported", "prod/db", detail)
    );
    objects[4]["metadata"]["labels"] = exported_as("to-west");
    assert_eq!(conflicts(&table(&objects)), Vec::new());
    service["metadata"]["labels"] = exported_as("true");
    objects[4] = service.clone();
    assert_eq!(conflicts(&table(&objects)), Vec::new());
    // Without a mirror, the Service is a member only if it is exported.
    assert_eq!(
        table(&[service, slice.clone()])
            .service("prod", "db")
            .unwrap()
            .endpoints
            .len(),
        1
    );
    let [plain, _] = local("prod", "db", &[]);
    assert!(table(&[plain, slice]).service("prod", "db").is_none());
}

#[test]
fn mirror_with_changed_identity_moves_and_is_reported_until_it_is_deleted() {
    let mut store = store(&shop());
    let rules = rules();
    let first = build(
        &Table::default(),
        &store,
        &store.services(),
        &rules,
        &Timers::default(),
    )
    .table;
    let moved = annotated(
        with(
            endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
            "/metadata/labels/mirror.linkerd.io~1cluster-name",
            json!("west"),
        ),
        "mirror.linkerd.io/remote-svc-fq-name",
        "db-7.db.prod.svc.cluster.local",
    );
    let moved = with(
        moved,
        "/metadata/labels/mirror.linkerd.io~1headless-mirror-svc-name",
        json!("db-west"),
    );
    let watch = Kind::Service;
    let (key, moved) = parsed(watch, &moved);
    let dirty = store.apply(watch, key, moved);
    let second = build(&first, &store, &dirty, &rules, &Timers::default()).table;
    let service = second.service("prod", "db").unwrap();
    let names: Vec<String> = service
        .endpoints
        .iter()
        .map(|e| e.labels().join("."))
        .collect();
    assert_eq!(names, ["db-0.west", "db-7.west"]);
    assert_eq!(conflicts(&second), Vec::new());
}

#[test]
fn only_exclude_lets_gateways_empty_a_name() {
    let mut objects = shop();
    objects.push(gateway("prod", "db-0-east", false));
    let counts = |gateway_down, objects: &[Value]| {
        let table = table_by(
            &Rules {
                gateway_down,
                ..rules()
            },
            objects,
        );
        let service = table.service("prod", "db").unwrap().clone();
        let ranges = [
            0..service.endpoints.len(),
            service.range_at(&["east"]),
            service.range_at(&["db-0", "east"]),
        ];
        ranges.map(|range| {
            let members = service.names.members(range, &[]);
            members.answered(gateway_down).count()
        })
    };
    assert_eq!(counts(GatewayDown::LastResort, &objects), [1, 1, 1]);
    assert_eq!(counts(GatewayDown::Include, &objects), [2, 1, 1]);
    objects.push(gateway("prod", "db-0-west", false));
    assert_eq!(counts(GatewayDown::LastResort, &objects), [2, 1, 1]);
}

#[test]
fn slice_without_endpoints_does_not_change_liveness() {
    let mut objects = shop();
    objects.push(with(
        gateway("prod", "db-0-east", false),
        "/endpoints",
        json!([]),
    ));
    let table = table(&objects);
    assert!(
        table
            .service("prod", "db")
            .unwrap()
            .endpoints
            .iter()
            .all(|endpoint| endpoint.is_alive())
    );
}

/// Only Kubernetes names a slice after its Service. Other controllers may use any name.
#[test]
fn slice_belongs_to_the_service_in_its_label_whatever_its_name() {
    let mut objects = shop();
    // A mirror with the name of a slice of `db-0-east`.
    objects.push(endpoint("prod", "db", "east", "db-0-east", &["10.96.0.3"]));
    *objects[4].pointer_mut("/metadata/name").unwrap() = json!("db-0-east-7xk2p");
    let mirrors = ["db-0-east", "db-0-east-7xk2p", "db-0-west"];
    let names = [
        "db-0-east-7xk2p",
        "db-0-east-7xk2p-7xk2p",
        "db-0-east-zzzzz",
        "db-0-west-7xk2p",
        "stray",
    ];
    let rules = rules();
    let mut store = store(&objects);
    let down = |store: &Store| -> Vec<String> {
        let table = build(
            &Table::default(),
            store,
            &store.services(),
            &rules,
            &Timers::default(),
        )
        .table;
        let service = table.service("prod", "db").unwrap();
        let down = service
            .endpoints
            .iter()
            .filter(|endpoint| !endpoint.is_alive());
        let objects = down.flat_map(|endpoint| &endpoint.objects);
        objects.map(|object| object.key.name.to_string()).collect()
    };
    let slice = |name: &str, mirror: &str| {
        let slice = with(
            gateway("prod", mirror, false),
            "/metadata/name",
            json!(name),
        );
        parsed(Kind::EndpointSlice, &slice)
    };
    for name in names {
        // The label of the slice changes, then the slice is deleted.
        for mirror in mirrors {
            let (key, object) = slice(name, mirror);
            assert_eq!(store.apply(Kind::EndpointSlice, key, object).len(), 1);
            assert_eq!(down(&store), [mirror], "slice '{name}'");
        }
        let (key, _) = slice(name, mirrors[0]);
        assert_eq!(store.delete(Kind::EndpointSlice, key).len(), 1);
        assert_eq!(down(&store), [""; 0], "slice '{name}'");
    }
    let listed: Objects = names.map(|name| slice(name, mirrors[1])).into();
    store.reset(Kind::EndpointSlice, None, listed);
    assert_eq!(down(&store), [mirrors[1]]);
    let count = |mirror| store.slices_of(&ObjectKey::new("prod", mirror)).len();
    assert_eq!(count(mirrors[1]), names.len());
    assert_eq!(count(mirrors[0]), 0);
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
        (addresses, conflicts(&table).len())
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
        build_with(
            last,
            &store,
            &services,
            &rules(),
            &timers,
            |key, context| {
                assert_ne!(key.service.as_str(), panics_for);
                build_service(key, context)
            },
        )
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
    assert!(second.is_changed);
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
    let mut due = ServiceTimers::default();
    due.wake_at(Some(Timestamp::from_seconds(90)));
    timers.apply(
        services
            .iter()
            .map(|key| (key.clone(), due.clone()))
            .collect(),
    );
    assert_eq!(timers.due(), services);
    let panics = |_: &ServiceKey, _: BuildContext<'_>| panic!("at each build");
    let built = build_with(&last, &store, &services, &rules(), &timers, panics);
    timers.apply(built.timers);
    assert!(timers.due().is_empty());
    assert_eq!(timers.next_wake(), Some(timers.now.after(PANIC_PAUSE)));
}

#[test]
fn unchanged_services_are_shared_with_the_previous_table() {
    let service = |number: usize, ip: &str| {
        let name = format!("db-{number}");
        let host = endpoint("prod", &name, "east", &format!("h-{number}"), &[ip]);
        [mirror("prod", &name, "east"), host]
    };
    let count = usize::from(rounds(2_000));
    let objects: Vec<Value> = (0..count)
        .flat_map(|number| service(number, "10.96.0.1"))
        .collect();
    let mut store = store(&objects);
    let before = build(
        &Table::default(),
        &store,
        &store.services(),
        &rules(),
        &Timers::default(),
    )
    .table;
    assert_eq!(before.services().count(), count);
    let (key, object) = parsed(Kind::Service, &service(17, "10.96.0.2")[1]);
    let dirty = store.apply(Kind::Service, key, object);
    assert_eq!(dirty.len(), 1);
    let after = build(&before, &store, &dirty, &rules(), &Timers::default()).table;
    let others = before.services().filter(|service| {
        let now = after.service("prod", service.key.service.as_str()).unwrap();
        std::ptr::eq(*service, now)
    });
    assert_eq!(others.count(), count - 1);
    assert_eq!(
        after.short_service("db-17").unwrap().endpoints[0].addresses[0].ip,
        IpAddr::from([10, 96, 0, 2])
    );
}

/// `explain` reports settings of a Service that no other cluster has. They make no name.
#[test]
fn service_that_only_has_settings_is_in_the_table_without_names() {
    let mut own = exported("prod", "web", "10.96.0.1");
    own["metadata"]["labels"] = json!({});
    let find = |own: Value| table(&[own]).service("prod", "web").cloned();
    assert_eq!(find(own.clone()), None);
    for (annotation, value) in [
        ("global-dns/gateway-down", "include"),
        ("global-dns/ttl", "9"),
    ] {
        let service = find(annotated(own.clone(), annotation, value));
        let service = service.unwrap_or_else(|| panic!("{annotation}"));
        let names = (
            service.is_known,
            service.is_listed(),
            service.has_names_at(&[]),
        );
        assert_eq!(names, (false, false, false), "{annotation}");
    }
}

#[test]
fn headless_mirrors_of_a_service_are_listed_with_their_clusters() {
    let objects = ["west", "east"].map(|cluster| mirror("prod", "db", cluster));
    let table = table(&objects);
    let mirrors = table.service("prod", "db").unwrap().mirrors.iter();
    let mirrors = mirrors.map(|(cluster, object)| format!("{cluster} {object}"));
    assert_eq!(
        mirrors.collect::<Vec<_>>(),
        ["east Service/prod/db-east", "west Service/prod/db-west"]
    );
}

/// A headless mirror without endpoints still makes the service headless.
#[test]
fn service_with_pods_of_this_cluster_only_is_headless_if_it_is_mirrored() {
    let [mut own, slice] = local("prod", "db", &[("db-0", "10.0.0.1", true)]);
    own["metadata"]["labels"]["mirror.linkerd.io/exported"] = json!("true");
    let kind = |objects: &[Value]| table(objects).service("prod", "db").unwrap().kind;
    let alone = [own.clone(), slice.clone()];
    assert_eq!(kind(&alone), ServiceKind::Local);
    assert_eq!(
        kind(&[own, slice, mirror("prod", "db", "east")]),
        ServiceKind::Headless
    );
}

/// An endpoint mirror without its headless mirror is shown as skipped, but makes no service.
#[test]
fn service_of_skipped_objects_only_is_not_known() {
    let orphan = endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]);
    let table = table(&[orphan]);
    let service = table.service("prod", "db").unwrap();
    assert_eq!((service.is_known, service.problems.len()), (false, 1));
    assert_eq!(table.short_name("db"), None);
}

/// It changes no answer, but reports read it. The services that are built at the same time may be as before.
#[test]
fn object_that_is_skipped_changes_the_table() {
    let rules = rules();
    let mut bad = mirror("prod", "cache", "east");
    bad["metadata"]["labels"]["mirror.linkerd.io/cluster-name"] = json!("no.label");
    let last = table_by(&rules, &shop());
    let build_all = |store: &Store| {
        let timers = Timers::default();
        build(&last, store, &store.services(), &rules, &timers)
    };
    assert!(!build_all(&store(&shop())).is_changed);
    let built = build_all(&store(&[shop(), vec![bad]].concat()));
    assert!(built.is_changed);
    assert_eq!(built.table.skipped().count(), 1);
}

#[test]
fn service_has_the_first_kind_of_its_selected_endpoints() {
    use ServiceKind::{Federated, Flat, Gateway, Headless, Local};
    let headless = [
        mirror("prod", "web", "west"),
        endpoint("prod", "web", "west", "h-0", &["10.96.0.1"]),
    ];
    let gateway = service_mirror("prod", "web", "north", "10.96.0.2");
    let flat = flat_mirror("prod", "web", "north", "10.96.0.3");
    let shared = federated("prod", "web", "10.96.0.4", "web@east,web@west");
    let [mut own, unready] = local("prod", "web", &[("h-1", "192.0.2.1", false)]);
    own["metadata"]["labels"] = json!({"mirror.linkerd.io/exported": "true"});
    for (case, objects, expected) in [
        ("pods", headless.to_vec(), Headless),
        ("federated", vec![shared.clone()], Federated),
        ("gateway", vec![gateway.clone()], Gateway),
        ("flat", vec![flat.clone()], Flat),
        (
            "this cluster",
            vec![exported("prod", "web", "10.96.0.6")],
            Local,
        ),
        (
            "headless mirror without endpoints",
            vec![headless[0].clone(), gateway],
            Gateway,
        ),
        // Without an endpoint, the objects have a kind.
        ("headless mirror alone", vec![headless[0].clone()], Headless),
        ("pod that is not ready", vec![own, unready], Local),
    ] {
        let table = table(&objects);
        let kind = table.service("prod", "web").unwrap().kind;
        assert_eq!(kind, expected, "{case}");
    }
}

/// Linkerd removes the slice if the exported Service has no ready endpoint, and keeps it if the gateway is down.
#[test]
fn slice_without_ready_address_tells_that_the_gateway_is_down() {
    let mirror = service_mirror("prod", "web", "east", "10.96.0.2");
    let liveness = |slice: Option<bool>| {
        let slice = slice.map(|is_ready| backends("prod", "web-east", true, is_ready));
        let objects: Vec<Value> = slice.into_iter().chain([mirror.clone()]).collect();
        table(&objects).service("prod", "web").unwrap().endpoints[0].liveness
    };
    assert_eq!(liveness(None), EndpointLiveness::NotReady);
    assert_eq!(liveness(Some(false)), EndpointLiveness::GatewayDown);
    assert_eq!(liveness(Some(true)), EndpointLiveness::Alive);
}
