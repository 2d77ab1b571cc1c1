//! Every configuration of one service in three clusters, with two kinds in each cluster and orders, and every change of one part of
//! it (rules K1, K5, K5a).

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use global_dns::model::{
    Kind, KubeObject, ObjectKey, ServiceKey, ServiceSettings, Timestamp, parse,
};
use global_dns::table::links::{LinkList, Links};
use global_dns::table::store::ServiceKeys;
use global_dns::table::{Rules, Store, Table, Timers, build};
use serde_json::{Value, json};
use support::objects::{Manifest, exported, gateway_mirror, local, mirror};
use support::rounds::has_all_rounds;

use crate::fuzz::checks::cluster::WatchedObjects;
use crate::fuzz::checks::orders::{Flags, Memory, expected};
use crate::fuzz::checks::unions::Scene;
use crate::fuzz::checks::worlds::returned;

const FAILOVER: u64 = 2_000;
const FAILBACK: u64 = 30_000;
const NAME: &str = "db.prod.global.";

/// Objects of `prod/db`, with the store of a server that has them.
struct Configuration {
    objects: WatchedObjects,
    store: Store,
}

// === Objects ===

fn service() -> ServiceKey {
    ServiceKey {
        namespace: "prod".parse().unwrap(),
        service: "db".parse().unwrap(),
    }
}

/// Returns the mirror with a cluster IP: none (0), one that is down (1), or one that is alive (2).
fn gateway(cluster: &str, state: usize, number: u8) -> Vec<Value> {
    let mirror = gateway_mirror("prod", "db", cluster, &format!("10.0.{number}.1"));
    let objects = [mirror.service(), mirror.slice(state == 2)];
    objects.into_iter().filter(|_| state > 0).collect()
}

/// Returns the headless mirror: none (0), one without pods (1), one with a pod behind a down gateway (2), or with a pod that is
/// alive (3).
fn headless(cluster: &str, state: usize, number: u8) -> Vec<Value> {
    // A mirror with a cluster IP may exist beside it, under another name (a Link of the same cluster).
    let mirror = mirror("prod", "db", cluster).named(&format!("db-headless-{cluster}"));
    let objects = [
        mirror.service(),
        mirror.endpoint_mirror("db-0", &[&format!("10.1.{number}.1")]),
        mirror.slice("db-0", state == 3),
    ];
    let count = [0, 1, 3, 3][state];
    objects.into_iter().take(count).collect()
}

/// Returns the Service of this cluster: none (0), one that is not exported (1), an exported one that is not ready (2) or ready
/// (3), or a headless one with a pod (4).
fn own(state: usize) -> Vec<Value> {
    let service = exported("prod", "db", "10.2.0.1");
    match state {
        0 => Vec::new(),
        1 => {
            let mut plain = service.service();
            plain["metadata"]["labels"] = json!({});
            vec![plain]
        }
        2 | 3 => vec![service.service(), service.slice(state == 3)],
        _ => {
            let local = local("prod", "db").exported();
            let mut objects = Manifest::from(local.endpoint(None, "192.0.2.1", true)).0;
            objects[0]["spec"]["selector"] = json!({"app": "db"});
            objects
        }
    }
}

// === impl Configuration ===

impl Configuration {
    fn new(objects: Vec<Value>) -> Self {
        let mut watched = WatchedObjects::new();
        let mut lists: BTreeMap<Kind, BTreeMap<ObjectKey, _>> = BTreeMap::new();
        for object in objects {
            let text = object.to_string();
            let read = KubeObject::read(&text);
            let kind = match object["kind"].as_str() {
                Some("Service") => Kind::Service,
                Some("Link") => Kind::Link,
                _ => Kind::EndpointSlice,
            };
            let key = read.key().unwrap();
            let list = lists.entry(kind).or_default();
            list.insert(key.clone(), parse::read(kind, &read).unwrap());
            watched.insert((kind, key), object);
        }
        let mut store = Store::default();
        for (kind, list) in lists {
            store.reset(kind, None, list);
        }
        Self {
            objects: watched,
            store,
        }
    }
}

// === Configurations ===

/// The number of states of each part: the gateway mirror and the headless mirror of east and of west, and the own Service.
const PARTS: [usize; 5] = [3, 4, 3, 4, 5];

fn configuration(parts: [usize; 5]) -> Configuration {
    let [east, east_headless, west, west_headless, hub] = parts;
    Configuration::new(
        [
            gateway("east", east, 1),
            headless("east", east_headless, 1),
            gateway("west", west, 2),
            headless("west", west_headless, 2),
            own(hub),
        ]
        .concat(),
    )
}

fn rules(order: Option<&str>) -> Rules {
    let mut rules = global_dns::settings::Settings::parse("", "clusterName: hub")
        .unwrap()
        .rules();
    let settings = |order: &str| ServiceSettings {
        failover: Some(Some(order.parse().unwrap())),
        ..ServiceSettings::default()
    };
    let order = order.map(|order| (service(), settings(order)));
    rules.services = order.into_iter().collect();
    rules.failover_delay = Duration::from_millis(FAILOVER);
    rules.failback_delay = Duration::from_millis(FAILBACK);
    rules
}

/// Every configuration of the objects, with each order, and every change of one part of it.
#[test]
fn every_configuration_and_every_change_of_it_follows_the_rules() {
    let count: usize = PARTS.iter().product();
    let all = (0..count).map(|number| {
        let mut rest = number;
        PARTS.map(|states| {
            let state = rest % states;
            rest /= states;
            state
        })
    });
    let all: Vec<[usize; 5]> = all.collect();
    let configurations: BTreeMap<_, _> = all
        .iter()
        .map(|parts| (*parts, configuration(*parts)))
        .collect();
    // A number without a common divisor with the numbers of states, so that each state is tried.
    let stride = if has_all_rounds() { 1 } else { 31 };
    let orders = [
        None,
        Some("east:west"),
        Some("auto:west:local:*"),
        Some("local:east+west"),
        Some("auto:*:east"),
        Some("auto:east+west:local"),
        Some("auto:west:east+local"),
    ];
    let configurations = &configurations;
    let tables: usize = thread::scope(|scope| {
        let started = orders.map(|order| {
            scope.spawn(move || changes_follow_the_rules(order, configurations, stride))
        });
        started.into_iter().map(|one| one.join().unwrap()).sum()
    });
    println!("{count} configurations, {tables} tables");
    assert!(tables * stride > 20_000, "{tables}");
}

/// Checks each configuration, or some, with an order, and a change of each of its parts. Returns the number of tables.
fn changes_follow_the_rules(
    order: Option<&'static str>,
    configurations: &BTreeMap<[usize; 5], Configuration>,
    stride: usize,
) -> usize {
    let unlinked = [&[][..], &["east"], &["west"], &["east", "west"]];
    let unlinked: [BTreeSet<String>; 4] =
        unlinked.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
    let (rules, flags) = (rules(order), Flags::of_db(order));
    let mut tables = 0;
    for (parts, configuration) in configurations.iter().step_by(stride) {
        // Each configuration is tried with some of the sets of clusters without a Link.
        let unlinked = &unlinked[(tables + parts[4]) % unlinked.len()];
        let mut timers = Timers::default();
        timers.links = links(unlinked, &rules);
        let first = step(&Table::default(), configuration, &rules, &mut timers, 0);
        let scene = scene(configuration, &rules, unlinked);
        let present = expected(&scene, flags, &Memory::default(), 0);
        assert_eq!(
            returned(&first, NAME),
            present.settled(),
            "{parts:?} {order:?} {unlinked:?} {present:?}"
        );
        tables += 1;
        // Each order is tried with some of the changes, so that all changes are tried with some orders.
        for (part, states) in PARTS.into_iter().enumerate() {
            let mut next = *parts;
            next[part] = (parts[part] + 1 + tables % (states - 1)) % states;
            let configuration = &configurations[&next];
            let scene = self::scene(configuration, &rules, unlinked);
            let present = expected(&scene, flags, &Memory::default(), 700);
            let mut timers = timers.clone();
            let table = step(&first, configuration, &rules, &mut timers, 700);
            let answer = returned(&table, NAME);
            let place = || format!("{parts:?} -> {next:?} {order:?} {unlinked:?} {present:?}");
            assert!(present.allows(&answer), "{answer:?}: {}", place());
            let settled = settle(table, configuration, &rules, &mut timers);
            assert_eq!(returned(&settled, NAME), present.settled(), "{}", place());
            tables += 1;
        }
    }
    tables
}

/// Returns what a server knows of links, five minutes after it has seen that these clusters have none.
fn links(unlinked: &BTreeSet<String>, rules: &Rules) -> Links {
    let mut objects = [gateway("east", 1, 1), gateway("west", 1, 2)].concat();
    let linked = ["east", "west", "north"].into_iter();
    let linked = linked.filter(|name| !unlinked.contains(*name));
    objects.extend(linked.map(|name| {
        json!({
            "kind": "Link",
            "metadata": {"namespace": "linkerd-multicluster", "name": name},
            "spec": {"targetClusterName": name},
        })
    }));
    let mut store = Configuration::new(objects).store;
    let mut links = Links::default();
    for now in [Timestamp(0), Timestamp(300_000)] {
        let list = LinkList::Listed { is_complete: true };
        links.update(&mut store, Some(list), rules, now);
    }
    links
}

fn scene<'c>(
    configuration: &'c Configuration,
    rules: &'c Rules,
    unlinked: &'c BTreeSet<String>,
) -> Scene<'c> {
    Scene {
        objects: &configuration.objects,
        rules,
        namespace: "prod",
        service: "db",
        unlinked,
    }
}

/// Returns the next table of a server at a time.
fn step(last: &Table, next: &Configuration, rules: &Rules, timers: &mut Timers, now: u64) -> Table {
    timers.now = Timestamp(now);
    let dirty = ServiceKeys::from([service()]);
    let mut built = build(last, &next.store, &dirty, rules, timers);
    timers.apply(std::mem::take(&mut built.timers));
    timers.is_started = true;
    built.table
}

/// Returns the table when all delays have ended.
fn settle(mut table: Table, last: &Configuration, rules: &Rules, timers: &mut Timers) -> Table {
    while let Some(wake) = timers.next_wake() {
        assert!(
            wake > timers.now,
            "a delay that has ended ends again: {timers:?}"
        );
        table = step(&table, last, rules, timers, wake.0);
    }
    table
}
