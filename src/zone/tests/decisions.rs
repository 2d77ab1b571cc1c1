//! Decisions from the objects of this moment (rules K1, K5 to K8): one test for each way in which a history, a typing error or
//! another cluster once decided what a name returns.

use super::world::World;
use super::*;
use crate::model::{ProblemKind, ServiceKey};
use crate::table::Rules;
use crate::testing::{backends, exported, federated, gateway, local, service_mirror};

const DAY: u64 = 24 * 3600 * 1000;

fn delete(name: &str) -> impl Fn(&mut Vec<Value>) {
    move |objects: &mut Vec<Value>| objects.retain(|object| object["metadata"]["name"] != name)
}

/// Returns a headless mirror of `prod/db` with one pod.
fn headless(cluster: &str, address: &str) -> Vec<Value> {
    vec![
        mirror("prod", "db", cluster),
        endpoint("prod", "db", cluster, "db-0", &[address]),
    ]
}

/// Returns a mirror of `prod/db` with a cluster IP.
fn gateway_mirror(cluster: &str, address: &str, is_alive: bool) -> Vec<Value> {
    vec![
        service_mirror("prod", "db", cluster, address),
        backends("prod", &format!("db-{cluster}"), true, is_alive),
    ]
}

/// Returns the Service `prod/db` of this cluster, without pods, with annotations.
fn own(annotations: &[(&str, &str)]) -> Value {
    let [mut service, _] = local("prod", "db", &[]);
    for (key, value) in annotations {
        service["metadata"]["annotations"][format!("global-dns/{key}")] = json!(value);
    }
    service
}

fn key() -> ServiceKey {
    ServiceKey {
        namespace: "prod".parse().unwrap(),
        service: "db".parse().unwrap(),
    }
}

/// 3: with an order that could not be read, primary and standby answered together.
#[test]
fn order_with_a_typing_error_never_answers_two_steps() {
    for (order, expected) in [
        ("west,east", "A 10.96.0.2"),
        ("west:", "A 10.96.0.2"),
        ("West:east", "A 10.96.0.2"),
        (" west : east ", "A 10.96.0.2"),
        ("west::east", "A 10.96.0.2"),
        // An empty annotation is no order.
        ("", "A 10.96.0.1, A 10.96.0.2"),
        (":", "SERVFAIL"),
        // The typing error stays where the primary was. No standby is promoted.
        ("we_st:east", "SERVFAIL"),
    ] {
        let objects = [
            vec![own(&[("failover", order)])],
            headless("east", "10.96.0.1"),
            headless("west", "10.96.0.2"),
        ];
        let world = World::start(&rules(), objects.concat());
        assert_eq!(world.a("db.prod"), expected, "{order}");
        let is_reported = world.has_problem(ProblemKind::SettingWithoutEffect);
        let has_defect = matches!(order, ":" | "west::east" | "we_st:east");
        assert_eq!(is_reported, has_defect, "{order}");
    }
}

/// 4: another cluster emptied the name, ended the failover delay, and raised the TTL for everybody.
#[test]
fn annotation_of_a_mirror_decides_nothing() {
    let mut east = gateway_mirror("east", "10.96.0.1", true);
    for (key, value) in [
        ("gateway-down", "include"),
        ("ttl", "30"),
        ("failover", "west"),
        ("expected-clusters", "north"),
    ] {
        east[0]["metadata"]["annotations"][format!("global-dns/{key}")] = json!(value);
    }
    let order = vec![own(&[("failover", "auto:east:west")])];
    let west = gateway_mirror("west", "10.96.0.2", true);
    let mut world = World::start(&rules(), [order, east, west].concat());
    assert_eq!(world.table.service("prod", "db").unwrap().ttl, 5);
    let down = |objects: &mut Vec<Value>| objects[2] = backends("prod", "db-east", true, false);
    world.change(1_000, down).wait_until(2_999);
    assert_eq!(world.a("db.prod"), "A 10.96.0.1");
    world.wait_until(3_000);
    assert_eq!(world.a("db.prod"), "A 10.96.0.2");
    assert!(world.has_problem(ProblemKind::IgnoredSetting));
}

/// 5: two replicas, or an old and a new pod, answered different steps until the end of an outage.
#[test]
fn replicas_differ_for_no_longer_than_a_delay() {
    let order = vec![own(&[("failover", "auto:east:west")])];
    let objects = |east, west| {
        let east = gateway_mirror("east", "10.96.0.1", east);
        let west = gateway_mirror("west", "10.96.0.2", west);
        [order.clone(), east, west].concat()
    };
    let set = |east, west| move |all: &mut Vec<Value>| *all = objects(east, west);
    let mut old = World::start(&rules(), objects(true, true));
    // East was down, and is back.
    old.change(0, set(false, true))
        .change(60_000, set(true, true));
    assert_eq!(old.a("db.prod"), "A 10.96.0.2");
    assert_eq!(old.replica().a("db.prod"), "A 10.96.0.1");
    old.wait_until(90_000);
    assert_eq!(old.a("db.prod"), "A 10.96.0.1");
    // Both are down, west last.
    old.change(100_000, set(false, true))
        .change(200_000, set(false, false));
    old.wait_until(202_000);
    assert_eq!(old.a("db.prod"), old.replica().a("db.prod"));
}

/// 6: a short outage of a gateway moved the clients of a database to a standby, and the return of the old primary took those
/// of a promoted standby.
#[test]
fn liveness_never_fails_over_a_database() {
    let objects = [
        vec![own(&[("failover", "east:west")])],
        headless("east", "10.96.0.1"),
        headless("west", "10.96.0.2"),
    ];
    let mut world = World::start(&rules(), objects.concat());
    let down = |objects: &mut Vec<Value>| objects.push(gateway("prod", "db-0-east", false));
    world.change(1_000, down).wait_until(DAY);
    assert_eq!(world.a("db.prod"), "A 10.96.0.1");
    assert_eq!(world.replica().a("db.prod"), "A 10.96.0.1");
    // A person promotes the standby.
    let promote = |objects: &mut Vec<Value>| objects[0] = own(&[("failover", "west:east")]);
    world.change(2 * DAY, promote);
    assert_eq!(world.a("db.prod"), "A 10.96.0.2");
    world
        .change(3 * DAY, delete("db-0-east-gateway"))
        .wait_until(4 * DAY);
    assert_eq!(world.a("db.prod"), "A 10.96.0.2");
    // Behind a cluster IP, no object says that it is a database: nothing depends on pods.
    let order = vec![own(&[("failover", "east:west")])];
    let cluster_ips = [
        gateway_mirror("east", "10.96.0.1", false),
        gateway_mirror("west", "10.96.0.2", true),
    ];
    let mut world = World::start(&rules(), [order, cluster_ips.concat()].concat());
    world.wait_until(DAY);
    assert_eq!(world.a("db.prod"), "A 10.96.0.1");
}

/// 7: 300 ms without a ready pod cost 30 s on the standby, and so did a mirror that was deleted and added again.
#[test]
fn short_interruption_costs_no_failback_delay() {
    let order = vec![own(&[("failover", "auto:local:west")])];
    let own_ip = |ready| {
        let mut service = exported("prod", "db", "10.96.0.1");
        service["metadata"]["annotations"] = order[0]["metadata"]["annotations"].clone();
        vec![service, backends("prod", "db", false, ready)]
    };
    let west = gateway_mirror("west", "10.96.0.2", true);
    let objects = |ready| [own_ip(ready), west.clone()].concat();
    let mut world = World::start(&rules(), objects(true));
    world.change(1_000, |all| *all = objects(false));
    assert_eq!(world.a("db.prod"), "A 10.96.0.1");
    world
        .change(1_300, |all| *all = objects(true))
        .wait_until(5_000);
    assert_eq!(world.a("db.prod"), "A 10.96.0.1");
    let mut mode_auto = order.clone();
    mode_auto[0]["metadata"]["annotations"]["global-dns/failover"] = json!("auto:east:west");
    let east = |address| gateway_mirror("east", address, true);
    let all = |east: Vec<Value>| [mode_auto.clone(), east, west.clone()].concat();
    let mut world = World::start(&rules(), all(east("10.96.0.3")));
    world.change(1_000, |objects| *objects = all(Vec::new()));
    assert_eq!(world.a("db.prod"), "A 10.96.0.2");
    // The mirror is there before its slice.
    world.change(1_070, |objects| {
        *objects = all(east("10.96.0.4")[..1].to_vec())
    });
    world.change(1_100, |objects| *objects = all(east("10.96.0.4")));
    assert_eq!(world.a("db.prod"), "A 10.96.0.4");
}

/// 8: an order whose steps have no endpoint was NODATA, and check was green.
#[test]
fn order_never_empties_a_name_silently() {
    let objects = [
        vec![own(&[("failover", "north")])],
        headless("east", "10.96.0.1"),
        vec![gateway("prod", "db-0-east", false)],
    ];
    let world = World::start(&rules(), objects.concat());
    assert_eq!(world.a("db.prod"), "SERVFAIL");
    assert_eq!(world.a("east.db.prod"), "A 10.96.0.1");
    assert!(world.has_problem(ProblemKind::StepWithoutEndpoint));
    let errors = [
        ProblemKind::StepWithoutEndpoint,
        ProblemKind::SettingWithoutEffect,
        ProblemKind::ExpectedClustersMissing,
    ];
    let is_error = |kind: ProblemKind| kind.row().level == crate::model::Level::Error;
    assert!(errors.into_iter().all(is_error));
}

/// 9: a gate closed on a running database, a list with a comma had no gate, `local` was waited for without an end, and old mirrors
/// opened the gate of a new bootstrap.
#[test]
fn gate_guards_the_bootstrap_only() {
    let expecting = |clusters: &str, created: &str| {
        let mut service = own(&[("expected-clusters", clusters)]);
        service["metadata"]["creationTimestamp"] = json!(created);
        service
    };
    let new = "1970-01-01T00:00:01Z";
    let start = |service: Value| {
        World::start(
            &rules(),
            [vec![service], headless("east", "10.96.0.1")].concat(),
        )
    };
    let mut world = start(expecting("east+west", new));
    assert_eq!(world.a("db.prod"), "SERVFAIL");
    // Ninety days later, all pods and the server itself are replaced, and west is lost.
    world.wait_until(90 * DAY);
    assert_eq!(world.a("db.prod"), "A 10.96.0.1");
    assert!(world.has_problem(ProblemKind::ClusterMissing));
    world.change(91 * DAY, |objects| {
        objects[0] = expecting("east+we_st", new)
    });
    assert_eq!(
        world.a("db.prod"),
        "A 10.96.0.1",
        "a typing error after the bootstrap"
    );
    // During the bootstrap, it is a cluster that is missing.
    for (clusters, expected) in [
        ("east,west", "SERVFAIL"),
        ("east+we_st", "SERVFAIL"),
        ("East", "A 10.96.0.1"),
        ("local+east", "SERVFAIL"),
    ] {
        assert_eq!(
            start(expecting(clusters, new)).a("db.prod"),
            expected,
            "{clusters}"
        );
    }
    let [_, slice] = local("prod", "db", &[("db-0", "10.0.0.1", true)]);
    let mut world = start(expecting("local+east", new));
    world.change(1, |objects| objects.push(slice));
    assert_eq!(world.a("db.prod"), "A 10.96.0.1, A 10.0.0.1");
    // The mirrors are older than the Service of this cluster.
    let mut old = mirror("prod", "db", "west");
    old["metadata"]["creationTimestamp"] = json!("1960-01-01T00:00:00Z");
    let mut world = start(expecting("east+west", new));
    world.change(1, |objects| objects.push(old));
    assert_eq!(world.a("db.prod"), "SERVFAIL");
}

/// 10: settings depended on labels and types, and a setting that was removed came back.
#[test]
fn settings_come_from_the_own_service_as_it_is() {
    let mirrors = || [headless("east", "10.96.0.1"), headless("west", "10.96.0.2")].concat();
    let ordered = || own(&[("failover", "west")]);
    let mut exported_own = ordered();
    exported_own["metadata"]["labels"]["mirror.linkerd.io/exported"] = json!("true");
    let mut external = ordered();
    external["spec"] = json!({"type": "ExternalName", "externalName": "db.example.com"});
    let mut cluster_ip = ordered();
    cluster_ip["spec"] = json!({"clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"]});
    for service in [
        exported_own.clone(),
        ordered(),
        external,
        cluster_ip.clone(),
    ] {
        let world = World::start(&rules(), [vec![service.clone()], mirrors()].concat());
        assert_eq!(world.a("db.prod"), "A 10.96.0.2", "{service}");
    }
    // The export ends.
    let mut world = World::start(&rules(), [vec![exported_own], mirrors()].concat());
    world
        .change(1, |objects| objects[0] = ordered())
        .wait_until(DAY);
    assert_eq!(world.a("db.prod"), "A 10.96.0.2");
    // The Service is replaced within ten seconds, by one of another type.
    world.change(DAY, delete("db")).wait_until(DAY + 9_999);
    assert_eq!(world.a("db.prod"), "A 10.96.0.2");
    world.change(DAY + 9_999, |objects| objects.push(cluster_ip.clone()));
    world.wait_until(2 * DAY);
    assert_eq!(world.a("db.prod"), "A 10.96.0.2");
    // A removed setting ends at once, and does not come back with the deletion of the Service.
    let mut plain = cluster_ip;
    plain["metadata"]["annotations"] = json!({});
    world.change(2 * DAY, delete("db"));
    world.change(2 * DAY + 1, |objects| objects.push(plain));
    assert_eq!(world.a("db.prod"), "A 10.96.0.1, A 10.96.0.2");
    world.change(2 * DAY + 2, delete("db"));
    assert_eq!(world.a("db.prod"), "A 10.96.0.1, A 10.96.0.2");
}

/// 11: an order for all services split a database, and a federation voided an order.
#[test]
fn order_for_all_services_leaves_databases_alone_and_no_federation_voids_an_order() {
    let default = Rules {
        failover: Some("east:west".parse().unwrap()),
        ..rules()
    };
    let cluster_ips = [
        gateway_mirror("east", "10.96.0.1", true),
        gateway_mirror("west", "10.96.0.2", true),
    ]
    .concat();
    // A headless Service of this cluster, which is not exported, has the pods of a database.
    let [mut service, slice] = local("prod", "db", &[("db-0", "10.0.0.1", false)]);
    service["spec"]["selector"] = json!({"app": "db"});
    let database = [vec![service, slice], cluster_ips.clone()].concat();
    let world = World::start(&default, database);
    assert_eq!(world.a("db.prod"), "A 10.96.0.1, A 10.96.0.2");
    let stateless = World::start(&default, cluster_ips.clone());
    assert_eq!(stateless.a("db.prod"), "A 10.96.0.1");
    let federation = federated("prod", "db", "10.96.0.9", "db@east,db@west");
    let order = own(&[("failover", "auto:west:east")]);
    let mut world = World::start(&rules(), [vec![order], cluster_ips].concat());
    world.change(1, |objects| objects.push(federation.clone()));
    assert_eq!(world.a("db.prod"), "A 10.96.0.2");
    // Nothing but the federation is there. A headless mirror without endpoints changes nothing.
    let order = || own(&[("failover", "west:east")]);
    let world = World::start(&rules(), vec![order(), federation.clone()]);
    assert_eq!(world.a("db.prod"), "A 10.96.0.9");
    assert!(world.has_problem(ProblemKind::SettingWithoutEffect));
    let objects = vec![order(), federation, mirror("prod", "db", "west")];
    assert_eq!(World::start(&rules(), objects).a("db.prod"), "A 10.96.0.9");
}

/// 12: the pods of this cluster left with the last mirror, without a word.
#[test]
fn pods_that_leave_with_the_last_mirror_are_noted_before() {
    let pods = || local("prod", "db", &[("db-0", "10.0.0.1", true)]).to_vec();
    let leaves = |world: &World| {
        let mut problems = world.table.problems();
        problems.any(|one| {
            one.kind == ProblemKind::NotExported && one.detail.contains("only while a mirror")
        })
    };
    let by_mirror = World::start(&rules(), [pods(), headless("east", "10.96.0.1")].concat());
    assert_eq!(by_mirror.a("db.prod"), "A 10.96.0.1, A 10.0.0.1");
    assert!(leaves(&by_mirror));
    // Any setting makes it a member by itself.
    let mut own = pods();
    own[0]["metadata"]["annotations"]["global-dns/ttl"] = json!("5");
    let world = World::start(&rules(), own);
    assert_eq!(world.a("db.prod"), "A 10.0.0.1");
    assert!(!leaves(&world));
    assert!(world.table.service("prod", "db").unwrap().key == key());
}
