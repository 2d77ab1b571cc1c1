use crate::model::{GatewayDown, ServiceKey};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;

use super::*;
use crate::model::{Kind, Object, ObjectKey, ProblemKind, key};
use crate::testing::{
    Server, endpoint, flat_mirror, gateway, listing, local, mirror, parsed, published, rules,
    table, zone_file, zones,
};
use crate::zone::answer::answer_question;
use crate::zone::{Name, RecordType};

fn annotated(mut object: Value, annotation: &str, value: &str) -> Value {
    object["metadata"]["annotations"][annotation] = json!(value);
    object
}

fn key_of(namespace: &str, service: &str) -> ServiceKey {
    ServiceKey {
        namespace: namespace.parse().unwrap(),
        service: service.parse().unwrap(),
    }
}

/// The addition, change or deletion of one object.
#[derive(Clone, Debug)]
struct Step {
    watch: Kind,
    object: Value,
    is_deletion: bool,
}

/// Generates steps on few objects, so that they often concern the same object.
fn any_step() -> impl Strategy<Value = Step> {
    let one_of = |labels: &[&'static str]| prop::sample::select(labels.to_vec());
    let (namespace, service) = (one_of(&["prod", "shop", "east"]), one_of(&["db", "prod"]));
    let (cluster, host) = (one_of(&["east", "west"]), one_of(&["h-0", "h-1"]));
    let names = (namespace, service, cluster, host);
    (names, 0..10, 1..4_u8, any::<bool>(), 0..4).prop_map(|(names, kind, ip, ready, number)| {
        let (namespace, service, cluster, host) = names;
        let ip = format!("10.96.0.{ip}");
        let (watch, object) = match kind {
            0 | 1 => (Kind::Service, mirror(namespace, service, cluster)),
            2 => {
                let ttl = if ready { "9" } else { "7" };
                let mirror = annotated(mirror(namespace, service, cluster), key::TTL, ttl);
                (Kind::Service, mirror)
            }
            3 | 4 => {
                let endpoint = endpoint(namespace, service, cluster, host, &[&ip]);
                (Kind::Service, endpoint)
            }
            5 => {
                let mut endpoint = endpoint(namespace, service, cluster, host, &[&ip]);
                endpoint["spec"]["ports"] = json!([{"name": "sql", "port": 5432}]);
                (Kind::Service, endpoint)
            }
            6 => {
                let endpoint_mirror = format!("{host}-{cluster}");
                let slice = gateway(namespace, &endpoint_mirror, ready);
                (Kind::EndpointSlice, slice)
            }
            7 => {
                let [service, _] = local(namespace, service, &[]);
                (Kind::Service, service)
            }
            8 => {
                // Without a hostname, it is like a slice that was overwritten with a gateway address.
                let hosts = [(if ready { host } else { "" }, ip.as_str())];
                let slice = listing(namespace, &format!("{service}-{cluster}"), &hosts);
                (Kind::EndpointSlice, slice)
            }
            _ => {
                let [_, slice] = local(namespace, service, &[(host, &ip, ready)]);
                (Kind::EndpointSlice, slice)
            }
        };
        let is_deletion = number == 0;
        Step {
            watch,
            object,
            is_deletion,
        }
    })
}

proptest! {
    #[test]
    fn incremental_build_equals_full_build_and_detects_changes(
        steps in prop::collection::vec(any_step(), 1..40),
        rules in any_rules(),
    ) {
        let (mut store, mut last, mut timers) = (Store::default(), Table::default(), Timers::default());
        // The times since which facts hold make no difference.
        timers.is_following = true;
        last.links = timers.links.states.clone();
        for Step { watch, object, is_deletion } in steps {
            timers.now.0 += 1;
            let (key, object) = parsed(watch, &object);
            let dirty = store.apply(watch, key, Some(object).filter(|_| !is_deletion));
            let built = build(&last, &store, &dirty, &rules, &timers);
            let Built { table, difference, .. } = built;
            timers.apply(built.timers);
            prop_assert_eq!(difference > Difference::None, table != last);
            let has_changed = answers(&table) != answers(&last);
            prop_assert_eq!(has_changed, table.answers_hash() != last.answers_hash());
            prop_assert_eq!(difference == Difference::Answers, has_changed);
            for service in table.services().chain(last.services()) {
                let [old, new] = [&last, &table].map(|table| table.find(&service.key));
                let hashes = [old, new].map(|one| one.and_then(|one| one.answers));
                let has_same_answers = hashes[0] == hashes[1];
                prop_assert!(has_same_answers || !diff::diff(old, new).is_empty());
            }
            let mut all = store.services();
            all.extend(table.services().map(|service| service.key.clone()));
            let full = build(&Table::default(), &store, &all, &rules, &timers).table;
            prop_assert!(table == full, "{table:?} is not {full:?}");
            last = table;
        }
    }

    /// A replica with more events in another order gives the same answers.
    #[test]
    fn answers_and_hash_depend_only_on_current_objects(
        steps in prop::collection::vec(any_step(), 1..40),
        others in prop::collection::vec(any_step(), 0..20),
        seed in any::<u64>(),
        rules in any_rules(),
    ) {
        let mut first = Replica::default();
        for Step { watch, object, is_deletion } in steps {
            let (key, object) = parsed(watch, &object);
            first.apply(&rules, watch, key, (!is_deletion).then_some(object));
        }
        let objects = |watch| first.store.objects(watch).iter();
        let mut events: Vec<_> = Kind::ALL
            .into_iter()
            .flat_map(|watch| objects(watch).map(move |(key, object)| (watch, key.clone(), Some(object.clone()))))
            .collect();
        let mut second = Replica::default();
        for Step { watch, object, .. } in others {
            let (key, object) = parsed(watch, &object);
            if !first.store.objects(watch).contains_key(&key) {
                events.push((watch, key.clone(), None));
            }
            second.apply(&rules, watch, key, Some(object));
        }
        fastrand::Rng::with_seed(seed).shuffle(&mut events);
        for (watch, key, object) in events {
            second.apply(&rules, watch, key, object);
        }
        prop_assert_eq!(answers(&first.table), answers(&second.table));
        prop_assert_eq!(first.table.answers_hash(), second.table.answers_hash());
        prop_assert!(first.table.short_names == second.table.short_names);
    }
}

/// The store and the table of one process.
#[derive(Default)]
struct Replica {
    store: Store,
    table: Table,
}

impl Replica {
    fn apply(&mut self, rules: &Rules, watch: Kind, key: ObjectKey, object: Option<Object>) {
        let dirty = self.store.apply(watch, key, object);
        self.build(rules, &dirty);
    }

    fn build(&mut self, rules: &Rules, dirty: &store::ServiceKeys) {
        self.table = build(&self.table, &self.store, dirty, rules, &Timers::default()).table;
    }
}

/// Returns all answers of a table, as zone files.
fn answers(table: &Table) -> Vec<String> {
    let zones = zones(&["global", "set=mcs"]);
    let now = published(table.clone());
    let mut answers: Vec<String> = zones
        .iter()
        .map(|zone| zone_file(&zones, zone, &now))
        .collect();
    // Names that fail are in no zone file.
    for service in table.sorted_services() {
        for host in &service.missing {
            let ServiceKey { namespace, service } = &service.key;
            let (hostname, cluster) = (&host.hostname, &host.cluster);
            for of_service in [format!("{service}.{namespace}"), service.to_string()] {
                let name = format!("{hostname}.{cluster}.{of_service}.global");
                let question = Name::from_text(&name).unwrap();
                let result = answer_question(&zones, &now, &question, RecordType::A).result();
                answers.push(format!("{name} {result:?}"));
            }
        }
    }
    answers
}

fn any_rules() -> impl Strategy<Value = Rules> {
    let short_names = prop::sample::select(vec![
        ShortNames::All,
        ShortNames::All,
        ShortNames::Pinned,
        ShortNames::None,
    ]);
    let namespace = || prop::sample::select(vec!["prod", "shop", "none"]);
    let default_namespace = prop::option::weighted(0.3, namespace());
    let pin = prop::option::weighted(0.3, namespace());
    let gateway_down = prop::sample::select(vec![GatewayDown::LastResort, GatewayDown::Include]);
    (short_names, default_namespace, pin, gateway_down).prop_map(
        |(short_names, default_namespace, pin, gateway_down)| Rules {
            short_names,
            default_namespace: default_namespace.map(|name| name.parse().unwrap()),
            pinned_names: pin
                .map(|name| ("db".parse().unwrap(), name.parse().unwrap()))
                .into_iter()
                .collect(),
            gateway_down,
            ..rules()
        },
    )
}

#[test]
fn names_hidden_by_names_of_the_zone_are_reported() {
    let hidden = |namespace: &str, service: &str, cluster: &str, has_endpoint: bool| {
        let mut objects = vec![mirror(namespace, service, cluster)];
        if has_endpoint {
            objects.push(endpoint(namespace, service, cluster, "h-0", &["10.96.0.1"]));
        }
        let table = table(&objects);
        let names = table
            .conflicts()
            .map(|c| (c.kind.name(), c.subject().to_string()));
        names.collect::<Vec<_>>()
    };
    let shadowed = |name: &str| vec![("shadowed", name.to_owned())];
    assert_eq!(
        hidden("prod", "dns-version", "east", true),
        shadowed("dns-version")
    );
    assert_eq!(hidden("prod", "dns-version", "east", false), []);
    assert_eq!(hidden("prod", "dns", "ns", true), shadowed("ns.dns"));
    assert_eq!(hidden("prod", "dns", "ns", false), []);
    assert_eq!(hidden("prod", "dns", "east", true), []);
    assert_eq!(hidden("dns", "ns", "east", true), shadowed("ns.dns"));
    assert_eq!(hidden("dns", "ns", "east", false), []);
}

/// Returns the problems of these kinds as text.
fn details(table: &Table, kinds: &[ProblemKind]) -> Vec<String> {
    let all = table
        .problems()
        .map(|one| (one.kind, one.detail.to_string()));
    let selected = all.filter(|(kind, _)| kinds.contains(kind));
    selected.map(|(_, detail)| detail).collect()
}

#[test]
fn order_of_pods_that_moves_by_itself_and_step_after_the_first_are_reported() {
    let objects = |order: &str| {
        let [own, _] = local("prod", "db", &[]);
        vec![
            annotated(own, "global-dns/failover", order),
            mirror("prod", "db", "east"),
            endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
        ]
    };
    let kinds = [ProblemKind::AutoWithPods, ProblemKind::StandbyAnswers];
    for order in ["east:west", "auto:east"] {
        assert_eq!(details(&table(&objects(order)), &kinds), [""; 0], "{order}");
    }
    let mut started = Server::new(rules());
    started.see(1, &objects("auto:west:east"));
    started.see(60, &objects("auto:west:east"));
    let auto = "annotation global-dns/failover: auto:west:east";
    let standby = "step 2 of auto:west:east, east";
    assert_eq!(details(&started.table, &kinds), [standby, auto]);
}

/// Returns an endpoint mirror in cluster `east` with ports, each with its name, its number and `targetPort`.
fn endpoint_with_ports(host: &str, ports: &[(&str, u16, Value)]) -> Value {
    let mut mirror = endpoint("prod", "db", "east", host, &["10.96.0.1"]);
    let port = |(name, port, target): &(&str, u16, Value)| json!({"name": name, "port": port, "targetPort": target});
    mirror["spec"]["ports"] = ports.iter().map(port).collect();
    mirror
}

/// Returns the slice of the headless mirror in cluster `east`, with hosts and the ports of their pods.
fn listing_with_ports(hosts: &[(&str, &str)], ports: &[(&str, u16)]) -> Value {
    let mut slice = listing("prod", "db-east", hosts);
    let port = |(name, number): &(&str, u16)| json!({"name": name, "port": number});
    slice["ports"] = ports.iter().map(port).collect();
    slice["metadata"]["name"] = json!(format!("db-east-{}", hosts[0].0));
    slice
}

#[test]
fn port_that_differs_from_that_of_the_pods_is_one_problem_of_the_service() {
    let ports = [
        ("http", 80, json!(8080)),
        ("sql", 26257, json!(26257)),
        ("peer", 7000, json!("peer")),
        ("old", 9000, Value::Null),
    ];
    let mut objects = vec![mirror("prod", "db", "east")];
    objects.extend(["db-0", "db-1"].map(|host| endpoint_with_ports(host, &ports)));
    let table = table(&objects);
    let detail = "cluster 'east': port 80 is 8080 in its pods";
    assert_eq!(details(&table, &[ProblemKind::DeadPort]), [detail]);
    let problem = table
        .problems()
        .find(|one| one.kind == ProblemKind::DeadPort);
    let problem = problem.unwrap();
    assert_eq!(problem.service, Some(key_of("prod", "db")));
    assert_eq!(problem.cluster, Some("east".parse().unwrap()));
    // The answer stays.
    assert_eq!(table.service("prod", "db").unwrap().endpoints.len(), 2);
}

#[test]
fn port_of_a_pod_is_that_of_the_slice_that_lists_it() {
    let dead = |of_pod: Value, slices: &[Value]| {
        let mirror_of_pod = endpoint_with_ports("db-0", &[("sql", 5432, of_pod)]);
        let objects = [mirror("prod", "db", "east"), mirror_of_pod];
        details(
            &table(&[&objects, slices].concat()),
            &[ProblemKind::DeadPort],
        )
    };
    let detail = ["cluster 'east': port 5432 is 15432 in its pods"];
    let of = |host: &str, ports: &[(&str, u16)]| listing_with_ports(&[(host, "10.96.0.1")], ports);
    assert_eq!(dead(json!("sql"), &[of("db-0", &[("sql", 15432)])]), detail);
    assert!(dead(json!("sql"), &[of("db-0", &[("sql", 5432)])]).is_empty());
    // The slice may have the port of the Service (linkerd2#14953), unless another of its ports proves that it has those of pods.
    assert_eq!(dead(json!(15432), &[of("db-0", &[("sql", 5432)])]), detail);
    assert_eq!(dead(json!(5432), &[of("db-0", &[("sql", 15432)])]), detail);
    // These slices say nothing about the port of the host.
    for other in [
        of("db-1", &[("sql", 15432)]),
        of("db-0", &[("peer", 15432)]),
    ] {
        assert!(dead(json!("sql"), std::slice::from_ref(&other)).is_empty());
        assert_eq!(dead(json!(15432), &[other]), detail);
    }
    let ports = [("sql", 5432, json!(15432)), ("peer", 7000, json!("peer"))];
    let objects = [
        mirror("prod", "db", "east"),
        endpoint_with_ports("db-0", &ports),
        of("db-0", &[("sql", 5432), ("peer", 17000)]),
    ];
    let dead_ports = details(&table(&objects), &[ProblemKind::DeadPort]);
    assert_eq!(
        dead_ports,
        ["cluster 'east': port 7000 is 17000 in its pods"]
    );
    // Pods of two roles.
    let two = [of("db-0", &[("sql", 5432)]), of("db-1", &[("sql", 15432)])];
    assert!(dead(json!("sql"), &two).is_empty());
}

#[test]
fn cluster_that_exports_a_dead_port_says_so() {
    let dead = |exported: Option<&str>, host: &str, port: u16| {
        let [mut service, mut slice] = local("prod", "db", &[(host, "192.0.2.1", true)]);
        service["metadata"]["labels"]["mirror.linkerd.io/exported"] = json!(exported);
        service["spec"]["ports"] = json!([{"name": "sql", "port": port, "targetPort": "sql"}]);
        slice["ports"] = json!([{"name": "sql", "port": 15432}]);
        if exported.is_none() {
            service["metadata"]["labels"] = json!({});
        }
        details(&table(&[service, slice]), &[ProblemKind::DeadPort])
    };
    let detail = ["cluster 'hub': port 5432 is 15432 in its pods"];
    assert_eq!(dead(Some("true"), "db-0", 5432), detail);
    assert!(dead(Some("true"), "db-0", 15432).is_empty());
    assert!(dead(None, "db-0", 5432).is_empty());
    // Linkerd mirrors a Service without hostnames with a cluster IP.
    assert!(dead(Some("true"), "", 5432).is_empty());
}

#[test]
fn expected_clusters_are_watched_after_the_name_has_waited_for_them() {
    let [own, _] = local("prod", "db", &[]);
    let mut own = annotated(own, "global-dns/expected-clusters", "east");
    own["metadata"]["creationTimestamp"] = json!("1970-01-01T00:00:01Z");
    let missing = [own, mirror("prod", "db", "east")];
    let pod = endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]);
    let complete = [&missing[..], &[pod]].concat();
    for (objects, second, expected) in [
        (&missing[..], 2, Some(ProblemKind::ExpectedClustersMissing)),
        (&complete[..], 2, None),
        (&missing, 4_000, Some(ProblemKind::ClusterMissing)),
        (&complete, 4_000, None),
    ] {
        let mut server = Server::new(rules());
        server.see(second, objects);
        let kinds = [
            ProblemKind::ExpectedClustersMissing,
            ProblemKind::ClusterMissing,
        ];
        let problems = server.table.problems().map(|one| one.kind);
        let found: Vec<_> = problems.filter(|kind| kinds.contains(kind)).collect();
        assert_eq!(found, Vec::from_iter(expected), "{second}");
    }
}

#[test]
fn only_endpoint_mirrors_have_dead_ports() {
    let ports = json!([{"name": "http", "port": 80, "targetPort": 8080}]);
    let mut mirrors = [
        crate::testing::service_mirror("prod", "db", "east", "10.96.0.1"),
        flat_mirror("prod", "db", "west", "10.96.0.2"),
        crate::testing::federated("prod", "db", "10.96.0.3", "db@north"),
    ];
    for mirror in &mut mirrors {
        mirror["spec"]["ports"] = ports.clone();
    }
    assert!(details(&table(&mirrors), &[ProblemKind::DeadPort]).is_empty());
    // A mirror carries no UDP.
    let mut mirror_of_pod = endpoint_with_ports("db-0", &[("dns", 53, json!(5300))]);
    mirror_of_pod["spec"]["ports"][0]["protocol"] = json!("UDP");
    let objects = [mirror("prod", "db", "east"), mirror_of_pod];
    assert!(details(&table(&objects), &[ProblemKind::DeadPort]).is_empty());
}

/// Replicas with these tables have the same endpoints, but their answers differ.
#[test]
fn selected_endpoints_change_the_hash() {
    let of_order = |order: &str| {
        let [mut service, slice] = local("prod", "db", &[("db-0", "10.0.0.1", true)]);
        service["metadata"]["annotations"]["global-dns/failover"] = json!(order);
        let mirror = flat_mirror("prod", "db", "west", "10.96.0.9");
        table(&[mirror, service, slice])
    };
    let tables = ["local:west", "west:local", "*"].map(of_order);
    let counts = tables.each_ref().map(|table| {
        let service = table.service("prod", "db").unwrap();
        (service.endpoints.len(), service.names.v4.len())
    });
    assert_eq!(counts, [(2, 1), (2, 1), (2, 2)]);
    let hashes: BTreeSet<u64> = tables.iter().map(Table::answers_hash).collect();
    assert_eq!(hashes.len(), 3);
}
