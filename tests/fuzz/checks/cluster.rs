//! Simulates a cluster with objects that are created, changed and deleted, and the events of all watches.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use global_dns::model::{GatewayDown, Kind, KubeObject, Object, ObjectKey, Timestamp, parse};
use global_dns::table::store::ServiceKeys;
use global_dns::table::{Difference, LocalMembers, Rules, ShortNames, Store, Table, Timers, build};
use serde_json::Value;

use super::choices::Choices;
use super::orders::START;
use super::seen::Seen;
use super::{answers, messages, objects, raw, tables};

/// The current objects of each kind.
pub type WatchedObjects = BTreeMap<(Kind, ObjectKey), Value>;

/// A cluster, and the table that was built from it incrementally.
pub struct Cluster {
    pub rules: Rules,
    pub store: Store,
    /// The objects behind the store: those that matter.
    pub watched: WatchedObjects,
    pub table: Table,
    /// The timers, and the time of the last build. Each build is later by [`PAUSE`].
    pub timers: Timers,
    /// Services that changed since the table was built.
    dirty: ServiceKeys,
    /// The objects in the cluster.
    objects: BTreeMap<(Kind, ObjectKey), Value>,
}

/// The cases that [`check`] notes.
pub const CASES: [&str; 9] = [
    "endpoint",
    "local endpoint",
    "skipped object",
    "conflict",
    "last resort",
    "omitted endpoint",
    "short name",
    "name with records",
    "table with the same answers",
];

/// Maximum steps of one input. The time of the checks grows with the square of the number of objects.
const STEPS: usize = 40;
/// Time between two builds.
const PAUSE: Duration = Duration::from_millis(1500);
/// `failover.back`.
const FAILBACK_DELAY: Duration = Duration::from_secs(4);
/// Maximum number of tables to check, besides the last one.
const TABLES: usize = 2;

/// Simulates a cluster from choices, and checks its tables.
pub fn check(octets: &[u8]) -> Seen {
    simulate(octets).1
}

/// Simulates a cluster from choices, and returns the last table.
pub fn table(octets: &[u8]) -> Table {
    simulate(octets).0.table
}

fn simulate(octets: &[u8]) -> (Cluster, Seen) {
    let choices = &mut Choices::new(octets);
    let mut seen = Seen::default();
    let mut cluster = Cluster::new(choices);
    let mut tables = 0;
    for _ in 0..STEPS {
        if choices.is_exhausted() {
            break;
        }
        match choices.octet() % 16 {
            0..=10 => {
                let (kind, object) = objects::object(choices);
                cluster.put(kind, object, choices);
            }
            11 | 12 => cluster.delete(choices),
            13 | 14 => cluster.relist(choices),
            _ if tables < TABLES => {
                tables += 1;
                cluster.build(&mut seen);
                tables::check(&cluster, &mut seen);
            }
            _ => cluster.build(&mut seen),
        }
    }
    cluster.build(&mut seen);
    tables::check(&cluster, &mut seen);
    (cluster, seen)
}

// === impl Cluster ===

impl Cluster {
    /// Chooses the rules of an empty cluster.
    pub fn new(choices: &mut Choices<'_>) -> Self {
        let (one, other) = (choices.octet(), choices.octet());
        let mut rules = Rules {
            gateway_down: [
                GatewayDown::LastResort,
                GatewayDown::LastResort,
                GatewayDown::LastResort,
                GatewayDown::Include,
            ][usize::from(one % 4)],
            local_members: [
                LocalMembers::Matching,
                LocalMembers::Matching,
                LocalMembers::Exported,
                LocalMembers::None,
            ][usize::from(one / 4 % 4)],
            short_names: [
                ShortNames::All,
                ShortNames::All,
                ShortNames::Pinned,
                ShortNames::None,
            ][usize::from(one / 16 % 4)],
            // The longer zone name leaves no room for the longest names.
            has_mcs_zones: other / 32 % 2 == 1,
            zone_clusters: ["east".parse().unwrap()].into(),
            longest_zone: if one / 128 == 0 { 8 } else { 120 },
            failback_delay: FAILBACK_DELAY,
            ..messages::rules()
        };
        if other % 2 == 1 {
            rules.cluster_aliases = [("west".parse().unwrap(), "east".parse().unwrap())].into();
        }
        if other / 2 % 4 == 1 {
            rules.excluded_clusters = ["ns".parse().unwrap()].into();
        }
        if other / 8 % 2 == 1 {
            rules.pinned_names = [("db".parse().unwrap(), "shop".parse().unwrap())].into();
        }
        if other / 16 % 2 == 1 {
            rules.default_namespace = Some("prod".parse().unwrap());
        }
        Self {
            rules,
            store: Store::default(),
            watched: WatchedObjects::new(),
            table: Table::default(),
            timers: timers_at(Timestamp(START)),
            dirty: ServiceKeys::new(),
            objects: BTreeMap::new(),
        }
    }

    /// Creates or changes an object. A watch that was interrupted may repeat the event.
    pub fn put(&mut self, kind: Kind, object: Value, choices: &mut Choices<'_>) {
        let text = object.to_string();
        let Some(key) = KubeObject::read(&text).key() else {
            return; // an API server has no objects without a name
        };
        self.objects.insert((kind, key.clone()), object.clone());
        if choices.rarely(2) {
            self.apply_event(kind, key.clone(), Some(object.clone()));
        }
        self.apply_event(kind, key, Some(object));
    }

    pub fn delete(&mut self, choices: &mut Choices<'_>) {
        let Some(chosen) = self.choose(choices) else {
            return;
        };
        let (kind, key) = chosen.clone();
        self.objects.remove(&chosen);
        self.apply_event(kind, key, None);
    }

    fn choose(&self, choices: &mut Choices<'_>) -> Option<(Kind, ObjectKey)> {
        let count = self.objects.len().max(1);
        self.objects.keys().nth(choices.below(count)).cloned()
    }

    /// Applies an event of a watch: an object, or its deletion.
    pub fn apply_event(&mut self, kind: Kind, key: ObjectKey, object: Option<Value>) {
        let watched = (kind, key.clone());
        let parsed = object.as_ref().and_then(|one| read_object(kind, one));
        let dirty = match (parsed, object) {
            (Some(parsed), Some(object)) => {
                self.watched.insert(watched, object);
                self.store.apply(kind, key, Some(parsed))
            }
            _ => {
                self.watched.remove(&watched);
                self.store.apply(kind, key, None)
            }
        };
        self.dirty.extend(dirty);
    }

    /// Simulates a failed watch that misses a deletion and then relists one namespace or all.
    fn relist(&mut self, choices: &mut Choices<'_>) {
        let kind = choices.pick(&Kind::ALL);
        let missed = self.choose(choices).filter(|_| choices.rarely(2));
        let namespace = missed.as_ref().map(|(_, key)| key.namespace.clone());
        let namespace = namespace.filter(|_| choices.rarely(2));
        if let Some((of, key)) = missed {
            self.objects.remove(&(of, key.clone()));
            if of != kind {
                return self.apply_event(of, key, None);
            }
        }
        let is_listed = |key: &ObjectKey| namespace.as_ref().is_none_or(|n| *n == key.namespace);
        self.watched
            .retain(|(of, key), _| *of != kind || !is_listed(key));
        let mut list = BTreeMap::new();
        for ((of, key), object) in &self.objects {
            if *of == kind
                && is_listed(key)
                && let Some(parsed) = read_object(kind, object)
            {
                list.insert(key.clone(), parsed);
                self.watched.insert((kind, key.clone()), object.clone());
            }
        }
        self.dirty
            .extend(self.store.reset(kind, namespace.as_deref(), list));
    }

    /// Builds the next table. If it is reported as unchanged, its answers must be the same.
    pub fn build(&mut self, seen: &mut Seen) {
        let mut dirty = std::mem::take(&mut self.dirty);
        self.timers.now = self.timers.now.after(PAUSE);
        self.timers.wall = self.timers.now;
        dirty.extend(self.timers.take_due());
        self.timers.update_links(&mut self.store, None, &self.rules);
        let mut built = build(&self.table, &self.store, &dirty, &self.rules, &self.timers);
        self.timers.apply(std::mem::take(&mut built.timers));
        self.timers.is_started = true;
        if built.difference == Difference::None {
            seen.count("table with the same answers", 1);
            answers::check_same_answers(&self.table, &built.table);
        }
        self.table = built.table;
    }

    /// Builds a complete table from the objects with matching keys.
    pub fn build_full(&self, is_included: impl Fn(&ObjectKey) -> bool) -> Table {
        let mut store = Store::default();
        // Slices before Services: the order must not matter.
        for kind in Kind::ALL.into_iter().rev() {
            let objects = self.store.objects(kind).iter();
            let own = objects.filter(|(key, _)| is_included(key));
            let own = own.map(|(key, object)| (key.clone(), object.clone()));
            store.reset(kind, None, own.collect());
        }
        self.build_of(&store, is_included)
    }

    /// Builds a complete table from another store, with the timers of this cluster. A service whose last object is gone may
    /// have settings for some seconds.
    pub fn build_of(&self, store: &Store, is_included: impl Fn(&ObjectKey) -> bool) -> Table {
        let mut services = tables::services_of(store);
        let last = self.table.services().map(|service| service.key.clone());
        services.extend(last.filter(|key| is_included(&ObjectKey::of_service(key))));
        let (empty, rules) = (Table::default(), &self.rules);
        build(&empty, store, &services, rules, &self.timers).table
    }

    /// Builds the table of a server that starts now.
    pub fn restarted(&self) -> Table {
        let timers = timers_at(self.timers.now);
        let (empty, store) = (Table::default(), &self.store);
        build(
            &empty,
            store,
            &tables::services_of(store),
            &self.rules,
            &timers,
        )
        .table
    }

    /// Returns the table after a pause without events, with each build at the end of a delay, and the time of it.
    pub fn after(&self, pause: Duration) -> (Table, Timestamp) {
        let (mut table, mut timers) = (self.table.clone(), self.timers.clone());
        let end = timers.now.after(pause);
        while let Some(wake) = timers.next_wake().filter(|wake| *wake <= end) {
            assert!(wake > timers.now, "a delay that has ended ends again");
            (timers.now, timers.wall) = (wake, wake);
            let due = timers.take_due();
            let mut built = build(&table, &self.store, &due, &self.rules, &timers);
            timers.apply(std::mem::take(&mut built.timers));
            table = built.table;
        }
        (table, end)
    }

    /// Returns the namespaces in the metadata of objects.
    pub fn namespaces(&self) -> BTreeSet<String> {
        let keys = self.watched.keys();
        keys.map(|(_, key)| key.namespace.to_string()).collect()
    }
}

/// Returns the timers of a server that starts.
fn timers_at(now: Timestamp) -> Timers {
    let mut timers = Timers::default();
    (timers.now, timers.wall) = (now, now);
    timers
}

/// Reads an object, if it matters.
pub fn read_object(kind: Kind, object: &Value) -> Option<Object> {
    let text = object.to_string();
    let read = KubeObject::read(&text);
    let parsed = parse::read(kind, &read);
    if read.problem().is_none() {
        let is_expected = raw::role_of(kind, object).is_some();
        assert_eq!(parsed.is_some(), is_expected, "{text}");
    }
    parsed
}
