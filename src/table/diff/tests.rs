use serde_json::{Value, json};

use super::*;
use crate::model::{Problem, ProblemKind};
use crate::table::links::{ClusterLink, LinkState, LinkStates};
use crate::testing::{
    backends, endpoint, exported, federated, flat_mirror, gateway, local, mirror, service_keys,
    service_mirror, table,
};

/// Returns the kind of each change of `prod/db` between the tables of two sets of objects, with its sentence.
fn lines(before: &[Value], after: &[Value]) -> Vec<String> {
    let key = service_keys(&["db"]).pop_first().unwrap();
    let (last, next) = (table(before), table(after));
    let changes = diff(last.find(&key), next.find(&key));
    changes.iter().map(line).collect()
}

fn line(change: &Change) -> String {
    let level = if change.is_trouble() { "!" } else { "" };
    format!("{level}{}: {}", <&str>::from(change.kind), change.text)
}

/// What happens, the objects before and after, and the changes.
type Case<'c> = (&'c str, &'c [Value], &'c [Value], &'c [&'c str]);

/// Service `db` with endpoint `db-0` of a cluster.
fn db(cluster: &str, address: &str) -> Vec<Value> {
    vec![
        mirror("prod", "db", cluster),
        endpoint("prod", "db", cluster, "db-0", &[address]),
    ]
}

fn all(parts: &[&[Value]]) -> Vec<Value> {
    parts.concat()
}

/// The Service of this cluster with an annotation.
fn own(annotation: &str, value: &str) -> Vec<Value> {
    let [mut service, _] = local("prod", "db", &[]);
    service["metadata"]["annotations"] = json!({annotation: value});
    vec![service]
}

#[test]
fn clusters_join_and_leave_with_the_cause_that_was_seen() {
    let (east, west) = (db("east", "10.0.0.1"), db("west", "10.1.0.1"));
    let both = all(&[&east, &west]);
    let host = |host, address| endpoint("prod", "db", "west", host, &[address]);
    let listing = crate::testing::listing("prod", "db-west", &[("db-0", "10.1.0.1")]);
    let pods = |ready| all(&[&east, &local("prod", "db", &[("db-0", "10.9.0.1", ready)])]);
    let cases: [Case<'_>; 10] = [
        ("nothing", &both, &both, &[]),
        (
            "a cluster",
            &east,
            &both,
            &["joined: Cluster west joined prod/db (db-0: 10.1.0.1)."],
        ),
        (
            "its mirror is gone",
            &both,
            &east,
            &["left: Cluster west left prod/db (db-0: 10.1.0.1): its mirror is gone here."],
        ),
        (
            "its endpoint mirror is gone",
            &both,
            &all(&[&east, &west[..1]]),
            &[
                "left: Cluster west left prod/db (db-0: 10.1.0.1): its endpoint mirror is gone here.",
            ],
        ),
        (
            "the slice still lists it",
            &both,
            &all(&[&east, &west[..1], &[listing]]),
            &[
                "left: Cluster west left prod/db (db-0: 10.1.0.1): its endpoint mirrors are missing, the slice \
               still lists db-0.",
            ],
        ),
        (
            "another endpoint",
            &both,
            &all(&[&both, &[host("db-1", "10.1.0.2")]]),
            &["grew: Cluster west has more endpoints of prod/db (db-1: 10.1.0.2)."],
        ),
        (
            "an endpoint less",
            &all(&[&both, &[host("db-1", "10.1.0.2")]]),
            &both,
            &[
                "shrank: Cluster west has fewer endpoints of prod/db (db-1: 10.1.0.2): its endpoint mirror is gone \
               here.",
            ],
        ),
        (
            "this cluster",
            &east,
            &pods(true),
            &["joined: Cluster hub joined prod/db (db-0: 10.9.0.1)."],
        ),
        (
            "a pod is not ready",
            &pods(true),
            &pods(false),
            &["left: Cluster hub left prod/db (db-0: 10.9.0.1): db-0 is not ready."],
        ),
        (
            "a service",
            &[],
            &east,
            &["joined: Cluster east joined prod/db (db-0: 10.0.0.1)."],
        ),
    ];
    for (case, before, after, expected) in cases {
        assert_eq!(lines(before, after), expected, "{case}");
    }
    // A service that is gone has no mirror here.
    let gone = "left: Cluster east left prod/db (db-0: 10.0.0.1): its mirror is gone here.";
    assert_eq!(lines(&east, &[]), [gone]);
}

#[test]
fn endpoints_change_their_addresses_ports_kind_and_liveness() {
    let east =
        |address, is_up| all(&[&db("east", address), &[gateway("prod", "db-0-east", is_up)]]);
    let up = east("10.0.0.1", true);
    let with_port = |number: u16| {
        let mut objects = db("east", "10.0.0.1");
        objects[1]["spec"]["ports"] = json!([{"name": "sql", "port": number}]);
        objects
    };
    let web = |ready| {
        [
            service_mirror("prod", "db", "east", "10.0.0.8"),
            backends("prod", "db-east", true, ready),
        ]
    };
    let of_hub = |ready| {
        [
            exported("prod", "db", "10.9.0.8"),
            backends("prod", "db", false, ready),
        ]
    };
    let flat = [flat_mirror("prod", "db", "east", "10.0.0.8")];
    let federation = [federated("prod", "db", "10.0.0.7", "db@east,db@north")];
    let smaller = [federated("prod", "db", "10.0.0.7", "db@east")];
    let down =
        "!down: Cluster east is down for prod/db (db-0): no address of its gateway is ready.";
    let cases: [(&[Value], &[Value], &[&str]); 9] = [
        (&up, &east("10.0.0.1", false), &[down]),
        (
            &east("10.0.0.1", false),
            &up,
            &["up: Cluster east is up again for prod/db (db-0)."],
        ),
        (
            &up,
            &east("10.0.0.2", true),
            &[
                "address: The address of cluster east in prod/db (db-0) changed from 10.0.0.1 to 10.0.0.2.",
            ],
        ),
        (
            &with_port(5432),
            &with_port(5433),
            &[
                "address: The address of cluster east in prod/db (db-0) changed from port sql:5432 to port sql:5433.",
            ],
        ),
        (
            &web(true),
            &web(false),
            &["!down: Cluster east is down for prod/db: no address of its gateway is ready."],
        ),
        (
            &of_hub(true),
            &of_hub(false),
            &["!down: Cluster hub is down for prod/db: it has no ready endpoint."],
        ),
        (
            &web(true),
            &flat,
            &["kind: The kind of cluster east in prod/db changed from gateway to flat."],
        ),
        (
            &web(true),
            &all(&[&web(true), &federation]),
            &[
                "joined: The address of all clusters joined prod/db (10.0.0.7).",
                "kind: The kind of cluster east in prod/db changed from gateway to gateway (only as its own name).",
                "joined: Cluster north joined prod/db.",
            ],
        ),
        (
            &federation,
            &smaller,
            &["left: Cluster north left prod/db."],
        ),
    ];
    for (before, after, expected) in cases {
        assert_eq!(lines(before, after), expected);
    }
}

#[test]
fn settings_that_appear_change_or_go_are_changes_with_both_texts() {
    let dbs = all(&[&db("east", "10.0.0.1"), &db("west", "10.1.0.1")]);
    let with = |annotation: &str, value: &str| all(&[&dbs, &own(annotation, value)]);
    let plain = all(&[&dbs, &own("global-dns/other", "")]);
    let order = |order: &str| with("global-dns/failover", order);
    let gate = |gate: &str| with("global-dns/expected-clusters", gate);
    let until = "until 2999-01-01T00:00:00Z";
    let cases: [(&[Value], &[Value], &[&str]); 10] = [
        (
            &plain,
            &order("east:west"),
            &["order: The failover order of prod/db is now east:west."],
        ),
        (
            &order("east:west"),
            &order("west:east"),
            &[
                "order: The failover order of prod/db changed from east:west to west:east.",
                "step: The step that answers for prod/db changed from east to west: the order has changed.",
            ],
        ),
        (
            &order("east:west"),
            &plain,
            &["order: The failover order of prod/db ended; it was east:west."],
        ),
        (
            &own("global-dns/failover", "east"),
            &[],
            &[
                "order: The failover order of prod/db ended; it was east.",
                "failing: Names of prod/db do not fail any more: no endpoint is alive.",
            ],
        ),
        (
            &order("east"),
            &order("north"),
            &[
                "order: The failover order of prod/db changed from east to north.",
                "!failing: The name of prod/db fails: the failover step that answers has no endpoint.",
                "step: The step that answers for prod/db changed from east to north: the order has changed.",
            ],
        ),
        (
            &plain,
            &with("global-dns/ttl", "7"),
            &["ttl: The TTL of prod/db changed from 5 to 7."],
        ),
        (
            &plain,
            &with("global-dns/gateway-down", "include"),
            &[
                "gateway-down: The rule for gateways that are down of prod/db changed from last-resort to include.",
            ],
        ),
        (
            &plain,
            &gate("east+west"),
            &["gate: The list of expected clusters of prod/db is now east+west."],
        ),
        (
            &gate(&format!("east+west {until}")),
            &gate(&format!("east+north {until}")),
            &[
                &format!(
                    "gate: The list of expected clusters of prod/db changed from east+west {until} to east+north {until}."
                ),
                "!failing: The name of prod/db fails: expected clusters are missing.",
            ],
        ),
        (
            &gate(&format!("north {until}")),
            &plain,
            &[
                &format!(
                    "gate: The list of expected clusters of prod/db ended; it was north {until}."
                ),
                "failing: The name of prod/db answers again.",
            ],
        ),
    ];
    for (before, after, expected) in cases {
        assert_eq!(lines(before, after), expected);
    }
}

#[test]
fn step_has_the_cause_for_which_another_one_answers() {
    let own = own("global-dns/failover", "auto:east:west");
    let (east, west) = (db("east", "10.0.0.1"), db("west", "10.1.0.1"));
    let down = all(&[&east, &[gateway("prod", "db-0-east", false)]]);
    let both = all(&[&own, &east, &west]);
    let step = |before: &[Value], after: &[Value]| {
        let mut lines = lines(before, after);
        lines.retain(|line| line.starts_with("step"));
        lines.pop().unwrap().split_once(": ").unwrap().1.to_owned()
    };
    let to_west = "The step that answers for prod/db changed from east to west";
    let east_is_down = all(&[&own, &down, &west]);
    assert_eq!(
        step(&both, &east_is_down),
        format!("{to_west}: no endpoint of east is alive.")
    );
    let without_east = all(&[&own, &west]);
    assert_eq!(
        step(&both, &without_east),
        format!("{to_west}: east has no endpoint.")
    );
    let back = step(&east_is_down, &both);
    assert!(
        back.ends_with("an earlier step has an endpoint that is alive."),
        "{back}"
    );
}

#[test]
fn unlinked_clusters_are_changes_of_the_link_and_of_their_services() {
    let with = |state: Option<(LinkState, &str)>| {
        let cluster = |(state, detail): (LinkState, &str)| {
            let kind = match state {
                LinkState::Frozen => ProblemKind::Frozen,
                _ => ProblemKind::Unlinked,
            };
            let cluster = "east".parse().unwrap();
            let problem = Problem::new(kind, detail).of_cluster(&cluster);
            ClusterLink {
                domain: None,
                problem: (!detail.is_empty()).then_some(problem),
                cluster,
                state,
                is_mirrored: true,
                had_link: true,
                absence: None,
            }
        };
        let clusters = state.map(|state| ("east".parse().unwrap(), cluster(state)));
        let links = LinkStates {
            clusters: clusters.into_iter().collect(),
            ..LinkStates::default()
        };
        let mut table = Table::default();
        table.links = links.into();
        table
    };
    let none = with(None);
    let linked = with(Some((LinkState::Linked, "")));
    let lease = "Lease linkerd-multicluster/east is not renewed";
    let frozen = with(Some((LinkState::Frozen, lease)));
    let end = "its endpoints count for 300 s";
    let missing = with(Some((LinkState::Missing, end)));
    let unlinked = with(Some((LinkState::Unlinked, "its endpoints are down")));
    let stopped = "!frozen: The mirror controller of cluster east has stopped: Lease linkerd-multicluster/east is not \
                   renewed.";
    let missed = "!unlinked: Cluster east has no Link: its endpoints count for 300 s.";
    let gone = "!unlinked: Cluster east has no Link: its endpoints are down.";
    let back = "linked: Cluster east is linked again.";
    let cases: [(Option<&Table>, &Table, &[&str]); 9] = [
        (None, &linked, &[]),
        (None, &unlinked, &[gone]),
        (Some(&linked), &frozen, &[stopped]),
        (Some(&frozen), &frozen, &[]),
        (Some(&linked), &missing, &[missed]),
        (Some(&missing), &unlinked, &[gone]),
        (Some(&unlinked), &linked, &[back]),
        (Some(&frozen), &linked, &[back]),
        // Its mirrors were deleted.
        (Some(&unlinked), &none, &[]),
    ];
    let east = BTreeSet::from(["east".parse().unwrap()]);
    for (last, next, expected) in cases {
        let changes: Vec<String> = diff_links(last, next, &east).iter().map(line).collect();
        assert_eq!(changes, expected);
    }
    // Its services.
    let table = table(&db("east", "10.0.0.1"));
    let service = table.service("prod", "db").unwrap();
    let mut without = service.clone();
    without.endpoints[0].liveness = EndpointLiveness::Unlinked;
    let [change] = &diff(Some(service), Some(&without))[..] else {
        panic!("one change");
    };
    let mut all = diff_links(Some(&linked), &unlinked, &east).pop().unwrap();
    assert!(all.is_like(change));
    all.merge(change);
    assert_eq!(
        line(&all),
        "!unlinked: Cluster east has no Link; 1 endpoint of prod/db: its endpoints are down."
    );
}

#[test]
fn service_whose_short_name_ends_or_begins_to_answer_has_a_change() {
    let prod = db("east", "10.0.0.1");
    let of = |namespace: &str, service: &str| {
        let host = endpoint(namespace, service, "east", "db-0", &["10.0.0.2"]);
        vec![mirror(namespace, service, "east"), host]
    };
    let (shop, hiding) = (of("shop", "db"), of("db", "east"));
    let ambiguous = all(&[&prod, &shop]);
    let hidden = all(&[&prod, &hiding]);
    let lines = |before: &[Value], after: &[Value]| -> Vec<String> {
        let (last, next) = (table(before), table(after));
        let services = last.services().chain(next.services());
        let built = services.map(|service| service.key.clone()).collect();
        let changes = diff_short_names(&last, &next, &built);
        changes.iter().map(line).collect()
    };
    let name = "short-name: The short name of prod/db";
    for (before, after, expected) in [
        (
            &prod,
            &ambiguous,
            "ended; it was db: several namespaces have it.",
        ),
        (&ambiguous, &prod, "is now db."),
        (&prod, &hidden, "changed from db to db without east.db."),
        (&hidden, &prod, "changed from db without east.db to db."),
    ] {
        assert_eq!(lines(before, after), [format!("{name} {expected}")]);
    }
    // A service that is new or gone has other changes, and the others keep their short names.
    assert_eq!(lines(&[], &prod), [""; 0]);
    assert_eq!(lines(&prod, &all(&[&prod, &of("shop", "web")])), [""; 0]);
}

/// Two changes within half a second become one event, unless the second takes the first back.
#[test]
fn change_that_is_taken_back_is_undone() {
    let ttl = |states: [Option<&str>; 2]| {
        let [before, after] = states.map(|one| one.map(str::to_owned));
        let key = "prod/db".parse().unwrap();
        Change::between(ChangeKind::Ttl, before, after, None).of_service(&key)
    };
    for (first, second, is_undone) in [
        ([Some("5"), Some("9")], [Some("9"), Some("5")], true),
        ([Some("5"), Some("9")], [Some("9"), Some("7")], false),
        ([None, Some("9")], [Some("9"), None], true),
        ([None, None], [None, None], false),
    ] {
        let is_undone_by = ttl(first).is_undone_by(&ttl(second));
        assert_eq!(is_undone_by, is_undone, "{first:?} {second:?}");
    }
}

/// A tenant may have as many pods as it likes.
#[test]
fn cost_of_pods_that_are_not_ready_is_in_proportion() {
    let time = |count: u32| {
        let pods = |is_ready| {
            let [service, mut slice] = local("prod", "db", &[]);
            let service = exported_headless(service);
            let pod = |number: u32| {
                let address = std::net::Ipv4Addr::from(0x0a00_0000 + number).to_string();
                crate::testing::support::objects::endpoint(
                    Some(&format!("db-{number}")),
                    &address,
                    is_ready,
                )
            };
            slice["endpoints"] = (0..count).map(pod).collect();
            table(&[service, slice])
        };
        let key = service_keys(&["db"]).pop_first().unwrap();
        let (last, next) = (pods(true), pods(false));
        crate::testing::cpu_time(3, || {
            let changes = diff(last.find(&key), next.find(&key));
            assert_eq!(changes.len(), 1, "{changes:?}");
        })
    };
    let (few, many) = (time(1000), time(8000));
    assert!(many < 20 * few, "{few:?}, {many:?}");
}

fn exported_headless(mut service: Value) -> Value {
    service["metadata"]["labels"]["mirror.linkerd.io/exported"] = json!("true");
    service
}
