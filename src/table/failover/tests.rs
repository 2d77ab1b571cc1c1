mod gate;

use serde_json::{Value, json};

use super::*;
use crate::model::{Kind, ServiceSettings};
use crate::table::{Table, Timers, build};
use crate::testing::{
    Server, backends, link, local, mirror, rules, service_mirror, store, table_by,
};

/// Returns rules with an order for `prod/web`.
fn ordered(order: &str) -> Rules {
    Rules {
        services: [(web(), crate::testing::ordered(order))].into(),
        ..rules()
    }
}

fn web() -> ServiceKey {
    ServiceKey {
        namespace: "prod".parse().unwrap(),
        service: "web".parse().unwrap(),
    }
}

/// Returns mirrors of `prod/web` in clusters `east` and `west`, with gateways that are up or down.
fn gateways(east: bool, west: bool) -> Vec<Value> {
    let of = |cluster: &str, is_up| {
        let slice = backends("prod", &format!("web-{cluster}"), true, is_up);
        [service_mirror("prod", "web", cluster, "10.96.0.1"), slice]
    };
    [of("east", east), of("west", west)].concat()
}

/// Returns the details of the problems of `prod/web` of some kinds.
fn details(server: &Server, is_wanted: fn(ProblemKind) -> bool) -> Vec<String> {
    let problems = server.table.service("prod", "web").unwrap().problems.iter();
    let wanted = problems.filter(|one| is_wanted(one.kind));
    wanted.map(|one| one.detail.to_string()).collect()
}

/// A Link or a mirror of any service makes a cluster known, and the service with the order is built again.
#[test]
fn cluster_that_nothing_knows_is_reported_until_something_does() {
    let mut server = Server::new(ordered("wset:east"));
    let unknown =
        |server: &Server| details(server, |kind| kind == ProblemKind::SettingWithoutEffect);
    server.see(1, &gateways(true, true));
    let detail = "services.prod/web.failover: counts as a cluster without endpoints until a mirror or a Link names it: 'wset' in wset:east";
    assert_eq!(unknown(&server), [detail]);
    // Who prints the problem searches the nearest name.
    let mut problems = server.table.problems();
    let printed =
        problems.find_map(|one| one.unknown.as_ref().map(|_| server.table.detail_of(one)));
    let nearest = format!("{detail}; the nearest name is 'west'");
    assert_eq!(printed.as_deref(), Some(&*nearest));
    drop(problems);
    let linked = [&gateways(true, true)[..], &[link("wset", "wset")]].concat();
    server.see(2, &linked);
    assert_eq!(unknown(&server), [""; 0]);
    server.see(3, &gateways(true, true));
    assert_eq!(unknown(&server), [detail]);
    server.see(
        4,
        &[&gateways(true, true)[..], &[mirror("shop", "db", "wset")]].concat(),
    );
    assert_eq!(unknown(&server), [""; 0]);
}

/// An order may be anything that a person writes, and its Service may be gone while the order is kept.
#[test]
fn command_of_a_held_order_names_only_what_exists() {
    for order in ["east", ":east+", "east:we_st"] {
        let [mut own, _] = local("prod", "web", &[]);
        own["metadata"]["annotations"]["global-dns/failover"] = json!(order);
        let (mut server, down) = (Server::new(rules()), gateways(false, true));
        server.see(1, &[&down[..], &[own]].concat());
        let command = "kubectl annotate service web -n prod --overwrite global-dns/failover=west";
        assert!(
            details(&server, |_| true).concat().contains(command),
            "{order}"
        );
        server.see(2, &down);
        let gone = details(&server, |_| true).concat();
        assert!(gone.contains("alive: west") && !gone.contains("kubectl"));
    }
}

/// A cluster that appears or goes builds only the services whose order names it.
#[test]
fn only_orders_that_name_a_cluster_are_built_when_it_appears() {
    let orders = ["web", "api", "pay"].map(|name| {
        let [mut own, _] = local("prod", name, &[]);
        let order = if name == "pay" {
            "west:*"
        } else {
            "north:west"
        };
        own["metadata"]["annotations"]["global-dns/failover"] = json!(order);
        own
    });
    let rules = rules();
    let mut store = store(&orders);
    let mut timers = Timers::default();
    timers.update_links(&mut store, None, &rules);
    let services = store.services();
    let built = build(&Table::default(), &store, &services, &rules, &timers);
    timers.apply(built.timers);
    let mut next = |last: &Table, object: Option<&Value>| {
        let (key, parsed) = crate::testing::parsed(Kind::Service, &mirror("shop", "db", "north"));
        let dirty = store.apply(Kind::Service, key, object.map(|_| parsed));
        timers.update_links(&mut store, None, &rules);
        let built = build(last, &store, &dirty, &rules, &timers);
        timers.apply(built.timers);
        let names = built.services.iter().map(|key| key.service.to_string());
        (names.collect::<Vec<_>>(), built.table)
    };
    let (changed, table) = next(&built.table, Some(&Value::Null));
    assert_eq!(changed, ["api", "web", "db"]);
    assert_eq!(next(&table, Some(&Value::Null)).0, [""; 0]);
    assert_eq!(next(&table, None).0, ["api", "web", "db"]);
}

/// The first step of an order that is held answers, dead or not. Nothing but the order for all services depends on pods.
#[test]
fn order_is_held_unless_it_begins_with_auto() {
    for (order, expected) in [
        ("east:west", 0),
        ("auto:east:west", 1),
        ("auto,east,west", 1),
    ] {
        let table = table_by(&ordered(order), &gateways(false, true));
        assert_eq!(failover_of(&table).answering, expected, "{order}");
    }
    let for_all = Rules {
        failover: Some("auto:east:west".parse().unwrap()),
        ..rules()
    };
    let has_order = |objects: &[Value]| {
        let table = table_by(&for_all, objects);
        let web = table.service("prod", "web").unwrap();
        web.failover.is_some()
    };
    let [mut own, _] = local("prod", "web", &[]);
    assert!(has_order(
        &[&gateways(true, true)[..], &[own.clone()]].concat()
    ));
    own["spec"]["selector"] = json!({"app": "web"});
    assert!(!has_order(&[&gateways(true, true)[..], &[own]].concat()));
    let pods = [mirror("prod", "web", "north")];
    assert!(!has_order(&[&gateways(true, true)[..], &pods].concat()));
}

/// As an empty annotation does.
#[test]
fn empty_order_in_the_settings_of_a_service_overrides_the_default() {
    let by_default = Rules {
        failover: Some("east:west".parse().unwrap()),
        ..rules()
    };
    let none = ServiceSettings {
        failover: Some(None),
        ..ServiceSettings::default()
    };
    let overridden = Rules {
        services: [(web(), none)].into(),
        ..by_default.clone()
    };
    for (rules, has_order) in [(by_default, true), (overridden, false)] {
        let table = table_by(&rules, &gateways(true, true));
        let service = table.service("prod", "web").unwrap();
        assert_eq!(service.failover.is_some(), has_order);
    }
}

/// What is known of its steps outlives its mirrors by `failover.back`, as under an order of its own (rule K7), also beside a mirror that
/// does not count.
#[test]
fn default_order_remembers_a_service_whose_mirrors_are_replaced() {
    let excluded = service_mirror("prod", "web", "north", "10.96.0.3");
    for rest in [Vec::new(), vec![excluded]] {
        let mut server = Server::new(Rules {
            failover: Some("auto:east:west".parse().unwrap()),
            excluded_clusters: ["north".parse().unwrap()].into(),
            ..rules()
        });
        let answering = |server: &Server| failover_of(&server.table).answering;
        let both = [&gateways(false, true)[..], &rest].concat();
        server.timers.is_started = true;
        server.see(1, &both);
        server.see(10, &both);
        assert_eq!(answering(&server), 1);
        server.see(11, &rest);
        server.see(12, &both);
        assert_eq!(answering(&server), 1);
        server.see(13, &rest);
        server.see(42, &rest);
        let end = Timestamp::from_seconds(43);
        assert_eq!(server.timers.next_wake(), Some(end));
        server.see(43, &rest);
        assert_eq!(server.timers.next_wake(), None);
    }
}

fn failover_of(table: &Table) -> &Failover {
    let service = table.service("prod", "web").unwrap();
    service.failover.as_ref().unwrap()
}
