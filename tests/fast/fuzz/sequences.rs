//! Every sequence of events of one service in three clusters, up to a length: with two kinds in each cluster and orders
//! (rules K1, K5, K5a), and with pauses around the delays of failovers (rule K7), which have a model of their own here.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
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
    let mut rules = global_dns::settings::Settings::of_cluster("hub".parse().unwrap()).rules();
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
    let store = Configuration::new(objects).store;
    let mut links = Links::default();
    for now in [Timestamp(0), Timestamp(300_000)] {
        links.update(&store, LinkList::Listed { is_complete: true }, rules, now);
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

// === The model of rule K7 ===

/// What a step has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Health {
    Empty,
    Down,
    Alive,
}
use Health::{Alive, Down, Empty};

/// One step, debounced alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct StepModel {
    health: Health,
    counts: bool,
    /// The time since which it has had no endpoint that is alive.
    lost_at: u64,
    /// The time since which it has been alive, with interruptions that are shorter than the failover delay.
    alive_since: Option<u64>,
}

/// Three steps of an order that moves by itself, as rule K7 describes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Model {
    steps: [StepModel; 3],
    /// Whether something is known of the service: it has an object, or had one a moment ago.
    is_known: bool,
    /// The time since which it has no object.
    gone_since: Option<u64>,
}

impl Model {
    /// The first table: a step counts as it is.
    fn new(health: [Health; 3], now: u64) -> Self {
        Self {
            steps: health.map(|health| StepModel {
                health,
                counts: health == Alive,
                lost_at: now,
                alive_since: Some(now),
            }),
            is_known: health != [Empty; 3],
            gone_since: None,
        }
    }

    /// Returns the step that answers: the first that counts as alive and has an endpoint, else the first that is alive, else
    /// the first with endpoints.
    fn answering(&self) -> Option<usize> {
        let first = |fits: &dyn Fn(&StepModel) -> bool| self.steps.iter().position(fits);
        first(&|step| step.counts && step.health >= Down)
            .or_else(|| first(&|step| step.health == Alive))
            .or_else(|| first(&|step| step.health >= Down))
    }

    /// Changes what a step has.
    fn set(&mut self, step: usize, health: Health, now: u64) {
        if !self.is_known && health != Empty {
            // A new service: a mirror comes before its slice, so each step counts as alive.
            *self = Self::new([Empty; 3], now);
            self.steps.iter_mut().for_each(|step| step.counts = true);
            self.is_known = true;
        }
        let step = &mut self.steps[step];
        if step.health == Alive && health != Alive {
            step.lost_at = now;
        }
        if step.health != Alive && health == Alive {
            let is_short = now < step.lost_at + FAILOVER;
            step.alive_since = step.alive_since.filter(|_| is_short).or(Some(now));
        }
        step.health = health;
        let is_gone = self.is_known && self.steps.iter().all(|step| step.health == Empty);
        self.gone_since = is_gone.then(|| self.gone_since.unwrap_or(now));
    }

    /// Lets time pass. The steps do not depend on each other.
    fn advance(&mut self, until: u64) {
        if self
            .gone_since
            .is_some_and(|since| since + FAILBACK <= until)
        {
            (self.is_known, self.gone_since) = (false, None);
        }
        for step in &mut self.steps {
            if step.counts && step.health != Alive && step.lost_at + FAILOVER <= until {
                (step.counts, step.alive_since) = (false, None);
            }
            let is_back = |since: u64| since + FAILBACK <= until;
            step.counts |= step.health == Alive && step.alive_since.is_some_and(is_back);
        }
    }

    /// Returns the model with times relative to now. Times before the longest delay have the same effect.
    fn relative(mut self, now: u64) -> Self {
        let shift = |time: u64| (time + 2 * FAILBACK).saturating_sub(now).max(FAILBACK - 1);
        for step in &mut self.steps {
            step.lost_at = shift(step.lost_at);
            step.alive_since = step.alive_since.map(shift);
        }
        self.gone_since = self.gone_since.map(shift);
        self
    }
}

// === Sequences ===

/// A world after some events.
#[derive(Clone)]
struct Played {
    parts: [usize; 3],
    model: Model,
    table: Table,
    timers: Timers,
    now: u64,
    /// One of the sequences of events.
    events: Vec<(u64, usize, usize)>,
    /// The number of sequences that lead here.
    count: u64,
}

/// A pause shorter than both delays, one between them, and one longer than both. None ends with a delay, because the order of
/// two things at one time is not defined.
const PAUSES: [u64; 3] = [700, 2_100, 30_100];

fn three_clusters(parts: [usize; 3]) -> Configuration {
    let west = [0, 2, 3][parts[1]];
    let hub = [0, 2, 3][parts[2]];
    Configuration::new(
        [
            gateway("east", parts[0], 1),
            headless("west", west, 2),
            own(hub),
        ]
        .concat(),
    )
}

fn health(parts: [usize; 3]) -> [Health; 3] {
    parts.map(|part| [Empty, Down, Alive][part])
}

/// Replaces the times in a text by those relative to now.
fn relative_times(text: &str, now: u64) -> String {
    let mut parts = text.split("Timestamp(");
    let mut relative = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (time, rest) = part.split_once(')').unwrap();
        let time: u64 = time.parse().unwrap();
        let age = now as i64 - time as i64;
        relative += &format!("{}{rest}", age.min(FAILBACK as i64 + 1));
    }
    relative
}

/// Sequences with the same state are played together.
#[test]
fn every_sequence_of_events_follows_the_delays() {
    let rules = rules(Some("auto:east:west:local"));
    let configurations: BTreeMap<[usize; 3], Configuration> = (0..27)
        .map(|number| {
            let parts = [number / 9, number / 3 % 3, number % 3];
            (parts, three_clusters(parts))
        })
        .collect();
    let first = |parts: [usize; 3]| {
        let mut timers = Timers::default();
        let table = step(
            &Table::default(),
            &configurations[&parts],
            &rules,
            &mut timers,
            1_000_000,
        );
        Played {
            parts,
            model: Model::new(health(parts), 1_000_000),
            table,
            timers,
            now: 1_000_000,
            events: Vec::new(),
            count: 1,
        }
    };
    let mut open: Vec<Played> = configurations.keys().map(|parts| first(*parts)).collect();
    // Each further event takes about ten times longer.
    let depth = if has_all_rounds() { 3 } else { 2 };
    let mut tables = 0;
    for _ in 1..depth {
        let mut next: BTreeMap<String, Played> = BTreeMap::new();
        for played in open {
            for played in played.next(&configurations, &rules, &mut tables) {
                let count = played.count;
                let same = next.entry(played.state());
                same.and_modify(|same| same.count += count)
                    .or_insert(played);
            }
        }
        open = next.into_values().collect();
    }
    let mut sequences = 0;
    for played in open {
        for mut played in played.next(&configurations, &rules, &mut tables) {
            let end = played.now + FAILBACK + FAILOVER;
            played.wait(&configurations, &rules, end, &mut tables);
            sequences += played.count;
        }
    }
    println!("{sequences} sequences of {depth} events, {tables} tables");
    assert_eq!(sequences, 27 * 21_u64.pow(depth));
}

impl Played {
    /// Returns the worlds after one more event: the change of one cluster, or none, after each pause.
    fn next(
        &self,
        configurations: &BTreeMap<[usize; 3], Configuration>,
        rules: &Rules,
        tables: &mut usize,
    ) -> Vec<Self> {
        check(self);
        let mut next = Vec::new();
        for pause in PAUSES {
            let mut waited = self.clone();
            waited.wait(configurations, rules, self.now + pause, tables);
            for (part, state) in (0..9).map(|event| (event / 3, event % 3)) {
                if state == waited.parts[part] && part > 0 {
                    continue; // one event changes nothing
                }
                let mut played = waited.clone();
                let now = played.now;
                played.events.push((pause, part, state));
                played.parts[part] = state;
                played.model.set(part, health(played.parts)[part], now);
                let configuration = &configurations[&played.parts];
                played.table = step(&played.table, configuration, rules, &mut played.timers, now);
                *tables += 1;
                check(&played);
                next.push(played);
            }
        }
        next
    }

    /// Returns what determines the rest of a sequence, as text.
    fn state(&self) -> String {
        let timers = relative_times(&format!("{:?}", self.timers), self.now);
        let model = self.model.relative(self.now);
        format!("{:?} {model:?} {timers}", self.parts)
    }

    /// Lets time pass, with a build at the end of each delay.
    fn wait(
        &mut self,
        configurations: &BTreeMap<[usize; 3], Configuration>,
        rules: &Rules,
        until: u64,
        tables: &mut usize,
    ) {
        let configuration = &configurations[&self.parts];
        while let Some(wake) = self.timers.next_wake().filter(|wake| wake.0 < until) {
            // Nothing changes before.
            self.model.advance(wake.0 - 1);
            check(self);
            self.model.advance(wake.0);
            self.table = step(&self.table, configuration, rules, &mut self.timers, wake.0);
            *tables += 1;
            self.now = wake.0;
            check(self);
        }
        self.model.advance(until - 1);
        check(self);
        self.model.advance(until);
        self.now = until;
    }
}

/// Asserts that the table answers with the step of the model. The other test compares the answer itself.
fn check(played: &Played) {
    const ADDRESSES: [[u8; 4]; 3] = [[10, 0, 1, 1], [10, 1, 2, 1], [10, 2, 0, 1]];
    let model = &played.model;
    let expected: Option<IpAddr> = model.answering().map(|step| ADDRESSES[step].into());
    let service = played.table.service("prod", "db").unwrap();
    let mut selected = service.endpoints.iter().filter(|one| one.is_selected);
    let answer = selected.next().map(|endpoint| endpoint.addresses[0].ip);
    let is_one = selected.next().is_none() && service.failure.is_some() == expected.is_none();
    assert!(
        answer == expected && is_one,
        "{answer:?}, expected {expected:?} at {} after {:?}: {model:#?}",
        played.now,
        played.events
    );
}
