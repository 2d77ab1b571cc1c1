use crate::table::Timers;
use serde_json::{Value, json};

use super::*;
use crate::model::Timestamp;
use crate::table::change::ChangeKind::*;
use crate::table::{Store, build};
use crate::testing::{
    backends, endpoint, exported, federated, flat_mirror, gateway, link, local, mirror, rules,
    service_mirror, store, table,
};

/// Returns the changes between the tables of two sets of objects.
fn changes(before: &[Value], after: &[Value]) -> Vec<Change> {
    let (last, next) = (store(before), store(after));
    changes_of_inputs(&last, &next, |all| all)
}

/// Returns the changes after only `select`ed services were rebuilt.
fn changes_of_inputs(
    last: &Store,
    next: &Store,
    select: impl Fn(ServiceKeys) -> ServiceKeys,
) -> Vec<Change> {
    let rules = rules();
    let dirty: ServiceKeys = last.services().union(&next.services()).cloned().collect();
    let dirty = select(dirty);
    let empty = Table::default();
    let last = build(&empty, last, &last.services(), &rules, &Timers::default()).table;
    let built = build(&last, next, &dirty, &rules, &Timers::default());
    let own = &rules.cluster_name;
    let difference = Difference::between(Some(&last), &built.table, &built.services, own);
    all(difference)
}

/// Returns all changes, those of gateways last.
fn all(difference: Difference<'_>) -> Vec<Change> {
    [difference.changes, difference.gateways].concat()
}

/// Writes a change as its kind, its subject and its sentence.
fn lines(changes: &[Change]) -> Vec<String> {
    let line = |change: &Change| {
        let subject = [
            change.service.as_ref().map(|key| key.namespace.to_string()),
            change.service.as_ref().map(|key| key.service.to_string()),
            change.cluster.as_ref().map(ToString::to_string),
            change.hostname.as_ref().map(ToString::to_string),
        ]
        .map(|part| part.unwrap_or_else(|| "-".to_owned()));
        format!(
            "{} {}: {}",
            <&str>::from(change.kind),
            subject.join(" "),
            change.text
        )
    };
    changes.iter().map(line).collect()
}

#[track_caller]
fn check(before: &[Value], after: &[Value], expected: &[&str]) {
    assert_eq!(lines(&changes(before, after)), expected);
}

/// Service `db` with endpoint `db-0` of a cluster.
fn db(cluster: &str, address: &str) -> [Value; 2] {
    [
        mirror("prod", "db", cluster),
        endpoint("prod", "db", cluster, "db-0", &[address]),
    ]
}

#[test]
fn first_and_last_service_of_a_cluster_are_changes() {
    let (east, west) = (db("east", "10.0.0.1"), db("west", "10.1.0.1"));
    let both = [east.clone(), west.clone()].concat();
    check(
        &east,
        &both,
        &[
            "cluster-joined - - west -: Cluster west joined its first service: prod/db.",
            "endpoint-added prod db west db-0: Endpoint db-0 of cluster west joined prod/db: 10.1.0.1.",
        ],
    );
    check(
        &both,
        &east,
        &[
            "cluster-left prod db west -: Cluster west left prod/db: it does not export the service any more; its last endpoints: db-0.",
            "endpoint-removed prod db west db-0: Endpoint db-0 of cluster west left prod/db.",
        ],
    );
    // A mirror was rewritten to be one of another cluster. Those of west had no endpoint.
    let mut rewritten = mirror("prod", "cache", "north");
    rewritten["metadata"]["name"] = json!("cache-west");
    let before = [
        &east[..],
        &[
            mirror("prod", "cache", "west"),
            mirror("prod", "web", "west"),
        ],
    ]
    .concat();
    let after = [&east[..], &[rewritten]].concat();
    check(
        &before,
        &after,
        &[
            "cluster-joined - - north -: Cluster north joined its first service: prod/cache.",
            "service-removed prod web - -: Service prod/web was removed.",
        ],
    );
    // The cluster still has another service.
    let other = [
        mirror("shop", "cache", "west"),
        endpoint("shop", "cache", "west", "cache-0", &["10.1.0.9"]),
    ];
    let kept = [&both[..], &other].concat();
    let left = [&east[..], &other].concat();
    let kinds: Vec<_> = changes(&kept, &left).iter().map(|c| c.kind).collect();
    assert_eq!(kinds, [ClusterLeft, EndpointRemoved]);
    // A mirror without endpoints is enough.
    let empty = [east.to_vec(), vec![mirror("prod", "db", "west")]].concat();
    let kinds: Vec<_> = changes(&east, &empty).iter().map(|c| c.kind).collect();
    assert_eq!(kinds, [ClusterJoined]);
    // A federated service names its clusters.
    let web = [federated("prod", "web", "10.0.0.7", "web@north")];
    let all = [&east[..], &web].concat();
    assert_eq!(
        lines(&changes(&east, &all)),
        [
            "cluster-joined - - north -: Cluster north joined its first service: prod/web.",
            "service-added prod web - -: Service prod/web was added with 1 endpoint.",
        ]
    );
}

#[test]
fn this_cluster_has_no_changes_of_its_own() {
    let east = db("east", "10.0.0.1");
    let with_local = [
        &east[..],
        &local("prod", "db", &[("db-0", "10.9.0.1", true)]),
    ]
    .concat();
    check(
        &east,
        &with_local,
        &[
            "endpoint-added prod db hub db-0: Endpoint db-0 of cluster hub joined prod/db: 10.9.0.1.",
        ],
    );
}

#[test]
fn service_is_added_and_removed_with_its_endpoints_in_one_change() {
    let east = db("east", "10.0.0.1");
    let web = [
        service_mirror("shop", "web", "east", "10.0.0.8"),
        backends("shop", "web-east", true, true),
    ];
    let both = [&east[..], &web].concat();
    check(
        &east,
        &both,
        &["service-added shop web - -: Service shop/web was added with 1 endpoint in east."],
    );
    check(
        &both,
        &east,
        &[
            "cluster-left shop web east -: Cluster east left shop/web: it does not export the service any more.",
            "service-removed shop web - -: Service shop/web was removed.",
        ],
    );
    let kinds: Vec<_> = changes(&east, &[]).iter().map(|c| c.kind).collect();
    assert_eq!(kinds, [ClusterLeft, ServiceRemoved]);
}

#[test]
fn endpoint_changes_its_address_and_its_gateway() {
    let up = [
        &db("east", "10.0.0.1")[..],
        &[gateway("prod", "db-0-east", true)],
    ]
    .concat();
    let moved = [
        &db("east", "10.0.0.2")[..],
        &[gateway("prod", "db-0-east", true)],
    ]
    .concat();
    let down = [
        &db("east", "10.0.0.1")[..],
        &[gateway("prod", "db-0-east", false)],
    ]
    .concat();
    check(
        &up,
        &moved,
        &[
            "endpoint-changed prod db east db-0: Endpoint db-0 of cluster east in prod/db changed its address from 10.0.0.1 to 10.0.0.2.",
        ],
    );
    check(
        &up,
        &down,
        &[
            "gateway-down prod db east db-0: Endpoint db-0 of cluster east in prod/db is down: its gateway is not ready.",
        ],
    );
    check(
        &down,
        &up,
        &[
            "gateway-up prod db east db-0: Endpoint db-0 of cluster east in prod/db is up again: its gateway is ready.",
        ],
    );
    let kinds: Vec<_> = changes(&down, &moved).iter().map(|c| c.kind).collect();
    assert_eq!(kinds, [EndpointChanged, GatewayUp]);
    check(&up, &up, &[]);
}

#[test]
fn cluster_ip_without_ready_endpoints_is_down() {
    let web = |ready| {
        [
            service_mirror("prod", "web", "east", "10.0.0.8"),
            backends("prod", "web-east", true, ready),
        ]
    };
    check(
        &web(true),
        &web(false),
        &[
            "gateway-down prod web east -: The cluster IP of cluster east in prod/web is down: its gateway is not ready, or it has no ready endpoint.",
        ],
    );
    let own = |ready| {
        [
            exported("prod", "web", "10.9.0.8"),
            backends("prod", "web", false, ready),
        ]
    };
    check(
        &own(true),
        &own(false),
        &[
            "gateway-down prod web hub -: The cluster IP of cluster hub in prod/web is down: it has no ready endpoint.",
        ],
    );
    check(
        &own(false),
        &own(true),
        &["gateway-up prod web hub -: The cluster IP of cluster hub in prod/web is up again."],
    );
    // A flat mirror replaces one through a gateway: the address changes, and it is always alive.
    let flat = [flat_mirror("prod", "web", "east", "10.0.0.9")];
    let replaced = changes(&web(false), &flat);
    let kinds: Vec<_> = replaced.iter().map(|c| c.kind).collect();
    assert_eq!(kinds, [EndpointChanged, GatewayUp]);
    // It needs no gateway.
    assert_eq!(replaced[1].cause, Some(ChangeCause::ServiceReady));
    let ready = changes(&own(false), &own(true));
    assert_eq!(ready[0].cause, Some(ChangeCause::ServiceReady));
}

#[test]
fn local_pod_that_is_not_ready_leaves() {
    let pods = |ready| {
        let own = local("prod", "db", &[("db-0", "10.9.0.1", ready)]);
        [&db("east", "10.0.0.1")[..], &own].concat()
    };
    check(
        &pods(true),
        &pods(false),
        &[
            "cluster-left prod db hub -: Cluster hub left prod/db: none of its pods is ready; its last endpoints: db-0.",
            "endpoint-removed prod db hub db-0: Endpoint db-0 of cluster hub left prod/db because it is not ready.",
        ],
    );
    // Another pod that is not ready is not the reason for which a pod left.
    let pods = |pods| [&db("east", "10.0.0.1")[..], &local("prod", "db", pods)].concat();
    check(
        &pods(&[("db-0", "10.9.0.1", true), ("db-1", "10.9.0.2", false)]),
        &pods(&[("db-1", "10.9.0.2", false)]),
        &[
            "cluster-left prod db hub -: Cluster hub left prod/db: none of its pods is ready; its last endpoints: db-0.",
            "endpoint-removed prod db hub db-0: Endpoint db-0 of cluster hub left prod/db.",
        ],
    );
}

#[test]
fn first_table_has_no_changes_but_its_problems() {
    let counts = |difference: Difference<'_>| {
        let Difference {
            changes, problems, ..
        } = difference;
        (changes.len(), problems.len())
    };
    let objects = [
        endpoint("prod", "db", "east", "db-0", &["10.0.0.1"]), // no parent
        mirror("prod", "shop", "east"),
        mirror("prod", "shop", "west"),
        endpoint("prod", "shop", "east", "shop-0", &["10.0.0.2"]),
        {
            let mut twin = endpoint("prod", "shop", "east", "shop-0", &["10.0.0.3"]);
            twin["metadata"]["name"] = json!("twin-east");
            twin
        },
        // The short name is that of two namespaces.
        mirror("test", "shop", "east"),
        endpoint("test", "shop", "east", "shop-0", &["10.0.0.5"]),
    ];
    let next = table(&objects);
    let dirty = store(&objects).services();
    let own = rules().cluster_name;
    let first = Difference::between(None, &next, &dirty, &own);
    // Cluster west has no endpoint mirror yet, either.
    assert_eq!(counts(first), (0, 4));
    // The same problems are not new, also if their service changed.
    let second = Difference::between(Some(&next), &next, &dirty, &own);
    assert_eq!(counts(second), (0, 0));
    let added = endpoint("prod", "shop", "west", "shop-0", &["10.0.0.4"]);
    let after = table(&[&objects[..], &[added]].concat());
    let third = Difference::between(Some(&next), &after, &dirty, &own);
    assert_eq!(counts(third), (1, 0));
}

/// Returns the kinds and subjects of the problems that are new, and the kinds of the changes.
fn problems(before: Option<&[Value]>, after: &[Value]) -> (Vec<String>, Vec<ChangeKind>) {
    let (last, next) = (before.map(table), table(after));
    let before = before.unwrap_or_default();
    let dirty = store(&[before, after].concat()).services();
    let own = rules().cluster_name;
    let difference = Difference::between(last.as_ref(), &next, &dirty, &own);
    let line = |one: &Cow<'_, Problem>| format!("{} {}", one.kind, one.subject());
    let problems = difference.problems.iter().map(line).collect();
    let changes = all(difference).into_iter().map(|change| change.kind);
    (problems, changes.collect())
}

#[test]
fn new_problem_of_a_state_is_told_once_by_a_problem_or_a_change() {
    let host = |name: &str, address: &str, is_up: bool| {
        let mirror = format!("{name}-east");
        [
            endpoint("prod", "db", "east", name, &[address]),
            gateway("prod", &mirror, is_up),
        ]
    };
    let db = |hosts: &[[Value; 2]]| [&[mirror("prod", "db", "east")], &hosts.concat()[..]].concat();
    let up = db(&[host("db-0", "10.0.0.1", true)]);
    let down = db(&[host("db-0", "10.0.0.1", false)]);
    let two_down = db(&[
        host("db-0", "10.0.0.1", false),
        host("db-1", "10.0.0.2", false),
    ]);
    let gateway_down = || vec!["gateway-down prod/db".to_owned()];
    // No change tells the state of the first table, of a new service, or of a new endpoint.
    assert_eq!(problems(None, &down), (gateway_down(), vec![]));
    let new_service = (gateway_down(), vec![ClusterJoined, ServiceAdded]);
    assert_eq!(problems(Some(&[]), &down), new_service);
    let one_up = [&up[..], &host("db-1", "10.0.0.2", false)].concat();
    let new_endpoint = (gateway_down(), vec![EndpointAdded]);
    assert_eq!(problems(Some(&up), &one_up), new_endpoint);
    // A change tells this one.
    assert_eq!(problems(Some(&up), &down), (vec![], vec![GatewayDown]));
    assert_eq!(problems(Some(&down), &up), (vec![], vec![GatewayUp]));
    // The same problem with another detail is not new.
    let more = (vec![], vec![EndpointAdded]);
    assert_eq!(problems(Some(&down), &two_down), more);
    // No change tells that a mirror lost its last endpoint mirror.
    let empty = db(&[]);
    let lost = vec!["missing-host Service/prod/db-east".to_owned()];
    let left = (lost, vec![ClusterLeft, EndpointRemoved]);
    assert_eq!(problems(Some(&up), &empty), left);
    assert_eq!(problems(Some(&empty), &empty), (vec![], vec![]));
}

/// A mirror that a headless mirror lists as a host is an endpoint of that service (rule M1b).
#[test]
fn service_that_depends_on_a_changed_one_is_compared() {
    let listing = crate::testing::listing("prod", "db-west", &[("db-0", "10.1.0.1")]);
    let before = [mirror("prod", "db", "west"), listing.clone()];
    let after = [
        mirror("prod", "db", "west"),
        listing,
        service_mirror("prod", "db-0", "west", "10.1.0.1"),
        backends("prod", "db-0-west", true, true),
    ];
    let (last, next) = (store(&before), store(&after));
    let only_changed = |dirty: ServiceKeys| -> ServiceKeys {
        dirty
            .into_iter()
            .filter(|key| key.service.as_str() == "db-0")
            .collect()
    };
    let changes = changes_of_inputs(&last, &next, only_changed);
    let kinds: Vec<_> = changes
        .iter()
        .map(|c| (c.kind, c.service.as_ref().unwrap().service.as_str()))
        .collect();
    assert_eq!(kinds, [(EndpointAdded, "db"), (ServiceAdded, "db-0")]);
}

/// Prints the time of the comparison of large tables:
/// `cargo test --lib difference -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
#[allow(clippy::print_stdout, reason = "a measurement")]
fn measure_large_differences() {
    let objects = |cluster: &str, services: usize, hosts: usize| -> Vec<Value> {
        (0..services)
            .flat_map(|service| {
                let name = format!("db{service}");
                let parent = mirror("prod", &name, cluster);
                let hosts = (0..hosts).map(|host| {
                    let host_name = format!("{name}-{host}");
                    let ip = format!("10.{}.{}.{}", service / 250, service % 250, host);
                    endpoint("prod", &name, cluster, &host_name, &[&ip])
                });
                std::iter::once(parent).chain(hosts).collect::<Vec<_>>()
            })
            .collect()
    };
    for (services, hosts) in [(1, 250), (40, 250), (10_000, 1), (3_333, 3)] {
        let east = objects("east", services, 1);
        let both = [&east[..], &objects("west", services, hosts)].concat();
        let (last, next) = (store(&east), store(&both));
        let (dirty, rules) = (next.services(), rules());
        let last = build(
            &Table::default(),
            &last,
            &last.services(),
            &rules,
            &Timers::default(),
        )
        .table;
        let started = std::time::Instant::now();
        let next = build(&last, &next, &dirty, &rules, &Timers::default()).table;
        let built = started.elapsed();
        let started = std::time::Instant::now();
        let difference = Difference::between(Some(&last), &next, &dirty, &rules.cluster_name);
        let compared = started.elapsed();
        let count = difference.changes.len();
        println!("{services} services, {count} changes: build {built:?}, compare {compared:?}");
    }
}

#[test]
fn another_step_of_a_failover_order_is_a_change() {
    let own = |order: &str| {
        let [mut service, _] = local("prod", "db", &[]);
        service["metadata"]["annotations"]["global-dns/failover"] = order.into();
        [
            &[service][..],
            &db("east", "10.0.0.1"),
            &db("west", "10.0.0.2"),
        ]
        .concat()
    };
    check(
        &own("east:west"),
        &own("west:east"),
        &[
            "failover prod db - -: Step west of the failover order answers for prod/db instead of east: the order has changed.",
        ],
    );
    let change = fields(&changes(&own("east:west"), &own("west:east")));
    assert_eq!(
        change,
        ["failover east | west | \"order-changed\" | Service/prod/db"]
    );
    check(&own("east:west"), &own("east:*"), &[]);
}

#[test]
fn failover_has_the_reason_why_another_step_answers() {
    let state = |mode: &str, dbs: &[&[Value]]| {
        let [mut service, _] = local("prod", "db", &[]);
        service["metadata"]["annotations"] =
            json!({"global-dns/failover": format!("{mode}east:west")});
        [&[service][..], &dbs.concat()].concat()
    };
    let (east, west) = (db("east", "10.0.0.1"), db("west", "10.1.0.1"));
    let down = [&east[..], &[gateway("prod", "db-0-east", false)]].concat();
    let failover = |before: &[Value], after: &[Value]| {
        let mut all = changes(before, after);
        all.retain(|change| change.kind == Failover);
        let [change] = all.as_slice() else {
            panic!("{all:?}");
        };
        let (_, reason) = change.text.split_once(": ").unwrap();
        (change.cause.unwrap(), reason.to_owned())
    };
    let both = state("auto:", &[&east, &west]);
    let first_down = state("auto:", &[&down, &west]);
    assert_eq!(
        failover(&both, &first_down),
        (
            ChangeCause::StepDown,
            "no endpoint of the last step is alive.".to_owned()
        )
    );
    assert_eq!(
        failover(&both, &state("auto:", &[&west])),
        (
            ChangeCause::StepEmpty,
            "the last step has no endpoint.".to_owned()
        )
    );
    assert_eq!(
        failover(&state("", &[&down, &west]), &first_down),
        (
            ChangeCause::OrderChanged,
            "the order has changed.".to_owned()
        )
    );
}

/// Returns the kind of each change, and what it says in fields.
fn fields(changes: &[Change]) -> Vec<String> {
    let line = |change: &Change| {
        let cause = change.cause.map(|cause| json!(cause).to_string());
        let parts = [
            change.before.as_ref().map(ToString::to_string),
            change.after.as_ref().map(ToString::to_string),
            cause,
            change.object.as_ref().map(ToString::to_string),
        ]
        .map(|part| part.unwrap_or_else(|| "-".to_owned()));
        format!("{} {}", <&str>::from(change.kind), parts.join(" | "))
    };
    changes.iter().map(line).collect()
}

#[test]
fn change_has_fields_for_before_and_after_with_the_cause_and_the_object() {
    let (east, west) = (db("east", "10.0.0.1"), db("west", "10.1.0.1"));
    let moved = db("east", "10.0.0.2");
    let both = [east.clone(), west].concat();
    let at = |is_up| [&east[..], &[gateway("prod", "db-0-east", is_up)]].concat();
    let unexported =
        |mirror: &str| format!("cluster-left db-0 | - | \"unexported\" | Service/prod/{mirror}");
    let removed = "endpoint-removed 10.1.0.1 | - | \"unexported\" | Service/prod/db-0-west";
    let texts = |lines: &[&str]| lines.iter().map(ToString::to_string).collect();
    let cases: [(&[Value], &[Value], Vec<String>); 8] = [
        (
            &[],
            &east,
            texts(&[
                "cluster-joined - | - | - | -",
                "service-added - | 1 endpoint in east | - | Service/prod/db-east",
            ]),
        ),
        (
            &both,
            &[],
            vec![
                unexported("db-east"),
                unexported("db-west"),
                "service-removed 2 endpoints in east, west | - | - | -".to_owned(),
            ],
        ),
        (
            &east,
            &[],
            vec![
                unexported("db-east"),
                "service-removed 1 endpoint in east | - | - | Service/prod/db-east".to_owned(),
            ],
        ),
        (
            &east,
            &both,
            texts(&[
                "cluster-joined - | - | - | -",
                "endpoint-added - | 10.1.0.1 | - | Service/prod/db-0-west",
            ]),
        ),
        (
            &both,
            &east,
            vec![unexported("db-west"), removed.to_owned()],
        ),
        (
            &east,
            &moved,
            texts(&["endpoint-changed 10.0.0.1 | 10.0.0.2 | - | Service/prod/db-0-east"]),
        ),
        (
            &at(true),
            &at(false),
            texts(&["gateway-down alive | down | \"gateway-down\" | Service/prod/db-0-east"]),
        ),
        (
            &at(false),
            &at(true),
            texts(&["gateway-up down | alive | \"gateway-ready\" | Service/prod/db-0-east"]),
        ),
    ];
    for (before, after, expected) in cases {
        assert_eq!(fields(&changes(before, after)), expected);
    }
}

#[test]
fn problem_of_a_pod_or_a_standby_is_told_once() {
    let pod = |is_ready| {
        let [mut own, slice] = local("prod", "db", &[("db-0", "192.0.2.1", is_ready)]);
        own["metadata"]["labels"] = json!({"mirror.linkerd.io/exported": "true"});
        [own, slice].to_vec()
    };
    let (east, west) = (db("east", "10.0.0.1"), db("west", "10.1.0.1"));
    let [mut own, _] = local("prod", "db", &[]);
    own["metadata"]["annotations"] = json!({"global-dns/failover": "auto:east:west"});
    // Both clusters are known, whether they export the service or not.
    let links = ["east", "west"].map(|cluster| link(cluster, cluster));
    let auto = |dbs: &[&[Value]]| [&[own.clone()][..], &links, &dbs.concat()].concat();
    for (before, after, expected) in [
        (
            pod(true),
            pod(false),
            (&[][..], &[ClusterLeft, EndpointRemoved][..]),
        ),
        (
            vec![],
            pod(false),
            (&["pod-not-ready prod/db"], &[ServiceAdded]),
        ),
        (
            auto(&[&east, &west]),
            auto(&[&west]),
            (&[], &[ClusterLeft, EndpointRemoved, Failover]),
        ),
        (
            vec![],
            auto(&[&west]),
            (
                &["standby-answers prod/db", "auto-with-pods prod/db"],
                &[ClusterJoined, ServiceAdded],
            ),
        ),
    ] {
        let (new, changes) = problems(Some(&before), &after);
        assert_eq!(
            (new, &changes[..]),
            (
                expected.0.iter().map(ToString::to_string).collect(),
                expected.1
            )
        );
    }
    let members = |members: &str| vec![federated("prod", "db", "10.96.0.4", members)];
    let both = [&east[..], &west[..]].concat();
    for (states, expected) in [
        (
            [both, east.to_vec(), vec![]],
            [
                &[ClusterLeft, EndpointRemoved][..],
                &[ClusterLeft, ServiceRemoved],
            ],
        ),
        (
            [
                members("db@east,db@west"),
                members("db@east"),
                members("db@east"),
            ],
            [&[ClusterLeft], &[]],
        ),
    ] {
        let mut server = crate::testing::Server::new(rules());
        server.see(1, &states[0]);
        for (second, expected) in (2..).zip(expected) {
            let last = server.table.clone();
            server.see(second, &states[second as usize - 1]);
            let services = crate::testing::service_keys(&["db"]);
            let own = rules().cluster_name;
            let difference = Difference::between(Some(&last), &server.table, &services, &own);
            assert!(difference.problems.is_empty(), "{:?}", difference.problems);
            let changes = all(difference);
            let kinds: Vec<_> = changes.iter().map(|one| one.kind).collect();
            assert_eq!(kinds, expected);
            // West left first.
            let cluster = if second == 2 { "west" } else { "east" };
            let left = changes.first().and_then(|one| one.cluster.as_ref());
            assert!(left.is_none_or(|left| left.as_str() == cluster));
        }
    }
}

#[test]
fn change_or_problem_tells_the_state_of_a_link() {
    let objects = |links: &[&str]| {
        let links = links.iter().map(|name| link(name, name));
        let dbs = [db("east", "10.0.0.1"), db("west", "10.1.0.1")].concat();
        dbs.into_iter().chain(links).collect::<Vec<_>>()
    };
    let told = |before: Option<&[&str]>, after: &[&str]| {
        let of = |links: &[&str]| crate::testing::table_with_links(&rules(), &objects(links));
        let (last, next) = (before.map(of), of(after));
        let services = ServiceKeys::new();
        let own = rules().cluster_name;
        let difference = Difference::between(last.as_ref(), &next, &services, &own);
        let problems = difference
            .problems
            .iter()
            .map(|one| one.to_string())
            .collect::<Vec<_>>();
        let changes = all(difference);
        (problems, lines(&changes), fields(&changes))
    };
    let none = || (vec![], vec![], vec![]);
    let missing = |cluster: &str, before: &str| {
        let line = format!(
            "link-changed - - {cluster} -: Cluster has no Link: {cluster}: its endpoints count until \
             1970-01-01T00:05:00Z."
        );
        let field = format!("link-changed {before} | missing | \"unlinked\" | -");
        (vec![], vec![line], vec![field])
    };
    let (east, west, both) = (&["east"][..], &["west"][..], &["east", "west"][..]);
    assert_eq!(told(Some(both), east), missing("west", "linked"));
    assert_eq!(told(Some(east), east), none());
    assert_eq!(told(None, both), none());
    let again = (
        vec![],
        vec!["link-changed - - west -: Cluster west is linked again.".to_owned()],
        vec!["link-changed missing | linked | \"linked\" | -".to_owned()],
    );
    assert_eq!(told(Some(east), both), again);
    let (problems, mut told_lines, mut told_fields) = missing("east", "linked");
    told_lines.extend(again.1);
    told_fields.extend(again.2);
    assert_eq!(told(Some(east), west), (problems, told_lines, told_fields));
    let unknown = || {
        let problem = "State of links is unknown: the namespaces of links.namespaces have neither a Link nor a Lease of a \
                       mirror controller";
        vec![problem.to_owned()]
    };
    assert_eq!(told(None, &[]), (unknown(), vec![], vec![]));
    assert_eq!(told(Some(both), &[]), (unknown(), vec![], vec![]));
    assert_eq!(told(Some(&[]), &[]), none());
    assert_eq!(told(Some(&[]), east), missing("west", "unknown"));
    let lost = (
        unknown(),
        vec!["link-changed - - west -: It is unknown whether cluster west has a Link.".to_owned()],
        vec!["link-changed missing | unknown | - | -".to_owned()],
    );
    assert_eq!(told(Some(east), &[]), lost);
}

#[test]
fn change_of_a_frozen_link_names_its_lease() {
    let link = |state| ClusterLink {
        cluster: "east".parse().unwrap(),
        state,
    };
    let linked = link(LinkState::Linked { is_verified: true });
    let frozen = link(LinkState::Frozen {
        since: Timestamp::from_seconds(10),
        lease: "linkerd-multicluster/east".into(),
        is_released: false,
    });
    let change = link_change(Some(&linked), &frozen).unwrap();
    assert_eq!(
        fields(&[change]),
        ["link-changed linked | frozen | \"frozen\" | Lease/linkerd-multicluster/east"]
    );
}
