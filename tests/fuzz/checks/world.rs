//! A cluster whose objects come, change and go, as five watches tell of it.

use std::collections::{BTreeMap, BTreeSet};

use global_dns::mirror::{GatewayDown, Kind, KubeObject, Object, ObjectKey, Watch, parse};
use global_dns::table::inputs::Dirty;
use global_dns::table::{Inputs, LocalMembers, Rules, ShortNames, Table, build};
use serde_json::Value;

use super::choices::Choices;
use super::{answers, messages, objects, raw, tables};

/// What was told by a watch, and not taken back.
pub type Told = BTreeMap<(Watch, ObjectKey), Value>;

/// What was seen so far, and the table that was made of it step by step.
pub struct World {
    pub rules: Rules,
    pub inputs: Inputs,
    /// The objects behind the inputs.
    pub told: Told,
    pub table: Table,
    /// Services that changed since the table was built.
    dirty: Dirty,
    /// What the cluster holds.
    objects: BTreeMap<(Kind, ObjectKey), Value>,
}

/// What came up, for whoever doubts that the checks check anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub endpoints: usize,
    pub local: usize,
    pub skipped: usize,
    pub conflicts: usize,
    pub last_resort: usize,
    pub left_out: usize,
    pub short_names: usize,
    /// Names that own records.
    pub names: usize,
    pub pointers: usize,
    /// Tables that answer as the one before.
    pub unmoved: usize,
}

/// Steps of one input; objects are small, and what is checked grows with their square.
const STEPS: usize = 40;
/// Tables that are checked, besides the last one.
const TABLES: usize = 2;

/// Plays what was chosen, and checks every table.
pub fn check(octets: &[u8]) -> Seen {
    play(octets).1
}

/// Plays what was chosen, and returns the last table.
pub fn table(octets: &[u8]) -> Table {
    play(octets).0.table
}

fn play(octets: &[u8]) -> (World, Seen) {
    let choices = &mut Choices::new(octets);
    let mut seen = Seen::default();
    let mut world = World::new(choices);
    let mut tables = 0;
    for _ in 0..STEPS {
        if choices.is_used_up() {
            break;
        }
        match choices.octet() % 16 {
            0..=10 => {
                let (kind, object) = objects::object(choices);
                world.put(kind, object, choices);
            }
            11 | 12 => world.delete(choices),
            13 | 14 => world.relist(choices),
            _ if tables < TABLES => {
                tables += 1;
                world.build(&mut seen);
                tables::check(&world, &mut seen);
            }
            _ => world.build(&mut seen),
        }
    }
    world.build(&mut seen);
    tables::check(&world, &mut seen);
    (world, seen)
}

// === impl World ===

impl World {
    fn new(choices: &mut Choices<'_>) -> Self {
        let (one, other) = (choices.octet(), choices.octet());
        let mut rules = Rules {
            gateway_down: [
                GatewayDown::LastResort,
                GatewayDown::LastResort,
                GatewayDown::Include,
                GatewayDown::Exclude,
            ][usize::from(one % 4)],
            local_members: [
                LocalMembers::Matching,
                LocalMembers::Matching,
                LocalMembers::Exported,
                LocalMembers::Off,
            ][usize::from(one / 4 % 4)],
            short_names: [
                ShortNames::On,
                ShortNames::On,
                ShortNames::Pinned,
                ShortNames::Off,
            ][usize::from(one / 16 % 4)],
            has_reverse_zones: one / 64 % 2 == 0,
            // A zone that leaves no room for the longest names.
            longest_zone: if one / 128 == 0 { 8 } else { 120 },
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
            inputs: Inputs::default(),
            told: Told::new(),
            table: Table::default(),
            dirty: Dirty::new(),
            objects: BTreeMap::new(),
        }
    }

    /// Creates or changes an object. A watch that selects it tells of it; one that does not tells that it is gone, or has
    /// never known it. In what order the watches tell is open.
    fn put(&mut self, kind: Kind, object: Value, choices: &mut Choices<'_>) {
        let text = object.to_string();
        let Some(key) = KubeObject::read(&text).key() else {
            return; // no API server has an object without a name
        };
        self.objects.insert((kind, key.clone()), object.clone());
        let mut watches: Vec<Watch> = Watch::ALL
            .into_iter()
            .filter(|w| w.kind() == kind)
            .collect();
        if choices.rarely(2) {
            watches.reverse();
        }
        for watch in watches {
            let is_told = raw::selected(kind, &object) == Some(watch);
            let object = is_told.then(|| object.clone());
            self.tell(watch, key.clone(), object);
        }
    }

    fn delete(&mut self, choices: &mut Choices<'_>) {
        let Some(place) = self.choose(choices) else {
            return;
        };
        let (kind, key) = place.clone();
        self.objects.remove(&place);
        for watch in Watch::ALL.into_iter().filter(|watch| watch.kind() == kind) {
            self.tell(watch, key.clone(), None);
        }
    }

    fn choose(&self, choices: &mut Choices<'_>) -> Option<(Kind, ObjectKey)> {
        let count = self.objects.len().max(1);
        self.objects.keys().nth(choices.below(count)).cloned()
    }

    fn tell(&mut self, watch: Watch, key: ObjectKey, object: Option<Value>) {
        let place = (watch, key.clone());
        let dirty = match object {
            Some(object) => {
                let reduced = reduced(watch, &object);
                self.told.insert(place, object);
                self.inputs.apply(watch, key, reduced)
            }
            None => {
                self.told.remove(&place);
                self.inputs.delete(watch, key)
            }
        };
        self.dirty.extend(dirty);
    }

    /// A watch is lost, misses that an object is deleted, and lists anew, a namespace or everything.
    fn relist(&mut self, choices: &mut Choices<'_>) {
        let watch = choices.pick(&Watch::ALL);
        let missed = self.choose(choices).filter(|_| choices.rarely(2));
        let namespace = missed.as_ref().map(|(_, key)| key.namespace.clone());
        let namespace = namespace.filter(|_| choices.rarely(2));
        if let Some((kind, key)) = missed {
            self.objects.remove(&(kind, key.clone()));
            // The other watches go on.
            for other in Watch::ALL
                .into_iter()
                .filter(|w| w.kind() == kind && *w != watch)
            {
                self.tell(other, key.clone(), None);
            }
            if watch.kind() != kind {
                return;
            }
        }
        let is_listed = |key: &ObjectKey| namespace.as_ref().is_none_or(|n| *n == key.namespace);
        self.told
            .retain(|(of, key), _| *of != watch || !is_listed(key));
        let mut list = BTreeMap::new();
        for ((kind, key), object) in &self.objects {
            if raw::selected(*kind, object) == Some(watch) && is_listed(key) {
                list.insert(key.clone(), reduced(watch, object));
                self.told.insert((watch, key.clone()), object.clone());
            }
        }
        let lost = self.inputs.count_lost(watch, namespace.as_deref(), &list);
        assert!(lost <= self.inputs.objects(watch).len());
        self.dirty
            .extend(self.inputs.reset(watch, namespace.as_deref(), list));
    }

    /// Makes the next table. One that is said to be as the last one answers alike.
    fn build(&mut self, seen: &mut Seen) {
        let dirty = std::mem::take(&mut self.dirty);
        let built = build(&self.table, &self.inputs, &dirty, &self.rules);
        if !built.is_changed {
            seen.unmoved += 1;
            answers::check_same(&self.table, &built.table);
        }
        self.table = built.table;
    }

    /// Builds everything at once, out of what some namespaces hold.
    pub fn build_anew(&self, is_of: impl Fn(&ObjectKey) -> bool) -> Table {
        let mut inputs = Inputs::default();
        // Slices before Services, which is another order than that of any API server.
        for watch in Watch::ALL.into_iter().rev() {
            let objects = self.inputs.objects(watch).iter();
            let own = objects.filter(|(key, _)| is_of(key));
            let own = own.map(|(key, object)| (key.clone(), object.clone()));
            inputs.reset(watch, None, own.collect());
        }
        build(&Table::default(), &inputs, &inputs.services(), &self.rules).table
    }

    /// The namespaces that objects claim to be in.
    pub fn namespaces(&self) -> BTreeSet<String> {
        let keys = self.told.keys();
        keys.map(|(_, key)| key.namespace.to_string()).collect()
    }
}

/// Reads an object as it comes over a watch.
fn reduced(watch: Watch, object: &Value) -> Object {
    let text = object.to_string();
    let read = KubeObject::read(&text);
    let reduced = parse::object(watch, &read);
    // Files are read by the same rules.
    let found = parse::found(watch.kind(), &read);
    let found = found.unwrap_or_else(|| panic!("lost: {text}"));
    if read.problem().is_none() {
        assert_eq!(found, (watch, reduced.clone()), "{text}");
    }
    reduced
}
