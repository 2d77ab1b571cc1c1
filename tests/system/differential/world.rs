//! Generated objects and their changes, as events of the API server.

use std::collections::BTreeMap;

use fastrand::Rng;
use global_dns::model::{Kind, key};
use serde_json::{Value, json};
use support::names;
use support::standin::StandIn;

use super::choices::Choices;
use super::settings::Setting;
use super::{kinds, objects};

/// A change of the objects of an API server.
#[derive(Clone, Debug)]
pub enum Event {
    /// An object is created or replaced.
    Put(Value),
    /// An object is deleted.
    Delete(Value),
    /// An object changes while no watch is open: all watches end, and their versions have expired.
    Miss(Value),
}

/// The objects of an API server.
pub struct World {
    random: Rng,
    setting: Setting,
    /// Whether objects are forged or invalid, too.
    is_hostile: bool,
    /// Whether all watches have ended once. Pauses grow if that repeats.
    has_missed: bool,
    objects: BTreeMap<String, Value>,
}

/// Values of labels that a change sets.
const VALUES: &[&str] = &[
    "true",
    "false",
    "remote-discovery",
    "east",
    "west",
    "db",
    "db-east",
    "",
];
const ORDERS: &[&str] = &["east:west", "local:*", "west:hub:east", "*:east"];

// === impl World ===

impl World {
    /// Starts a world. Some start with the sample of the table of owner names.
    pub fn new(seed: u64, setting: Setting) -> Self {
        let mut world = Self {
            random: Rng::with_seed(seed),
            setting,
            is_hostile: seed % 3 == 2,
            has_missed: false,
            objects: BTreeMap::new(),
        };
        if world.random.bool() {
            for object in names::sample().0 {
                world.objects.insert(identity(&object), object);
            }
        }
        for _ in 0..world.random.usize(10..40) {
            if let Some(object) = world.generate() {
                world.objects.insert(identity(&object), object);
            }
        }
        world
    }

    /// Returns the objects.
    pub fn objects(&self) -> impl Iterator<Item = &Value> {
        self.objects.values()
    }

    /// Chooses the next change, as one event or several.
    pub fn change(&mut self) -> Vec<Event> {
        let events: Vec<Event> = match self.random.u8(..100) {
            0..65 => self.generate().into_iter().map(Event::Put).collect(),
            65..80 => self.existing().into_iter().map(Event::Delete).collect(),
            80..98 => self.relabeled().into_iter().map(Event::Put).collect(),
            // A relist may be seconds later.
            _ if self.setting.has_memory || self.has_missed => vec![],
            _ => {
                self.has_missed = true;
                self.generate().into_iter().map(Event::Miss).collect()
            }
        };
        let events: Vec<Event> = events
            .into_iter()
            .flat_map(|event| self.split(event))
            .collect();
        for event in &events {
            match event {
                Event::Put(object) | Event::Miss(object) => {
                    self.objects.insert(identity(object), object.clone());
                }
                Event::Delete(object) => _ = self.objects.remove(&identity(object)),
            }
        }
        events
    }

    /// An object whose labels change may move to another watch. A server that reads both may see it nowhere for a moment,
    /// and a decision with a memory may depend on that. So it is deleted first.
    fn split(&self, event: Event) -> Vec<Event> {
        let Event::Put(object) = &event else {
            return vec![event];
        };
        let before = self.objects.get(&identity(object));
        let moves = |before: &&Value| {
            let is_headless = |object: &Value| object["spec"]["clusterIP"] == "None";
            before["metadata"]["labels"] != object["metadata"]["labels"]
                || is_headless(before) != is_headless(object)
        };
        match before.filter(|before| self.setting.has_memory && moves(before)) {
            Some(before) => vec![Event::Delete(before.clone()), event],
            None => vec![event],
        }
    }

    /// Generates an object that an API server could store.
    fn generate(&mut self) -> Option<Value> {
        let octets: Vec<u8> = std::iter::repeat_with(|| self.random.u8(..))
            .take(64)
            .collect();
        let choices = &mut Choices::new(&octets);
        let (kind, mut object) = if self.is_hostile && self.random.u8(..3) == 0 {
            objects::object(choices)
        } else {
            kinds::object(choices)
        };
        // Earlier revisions read these in another way (rules K5a and K8).
        if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
            annotations.remove(key::FAILOVER);
            annotations.remove(key::EXPECTED_CLUSTERS);
        }
        if kind == Kind::Service && self.setting.has_memory && self.random.u8(..3) == 0 {
            self.add_order(&mut object);
        }
        is_storable(&object).then_some(object)
    }

    /// Adds an order, which counts on Services of this cluster only. Mirrors have it, too, and are ignored.
    fn add_order(&mut self, object: &mut Value) {
        let metadata = &mut object["metadata"];
        // Earlier revisions read the annotations of a Service with a cluster IP only with this label.
        if self.random.bool() {
            metadata["labels"][key::EXPORTED] = json!("skip");
        }
        let order = ORDERS[self.random.usize(..ORDERS.len())];
        metadata["annotations"][key::FAILOVER] = json!(order);
    }

    fn existing(&mut self) -> Option<Value> {
        let index = self.random.usize(..self.objects.len().max(1));
        self.objects.values().nth(index).cloned()
    }

    /// Changes a label of an object, so that it leaves a watch, moves to another one, or is forged.
    fn relabeled(&mut self) -> Option<Value> {
        let mut object = self.existing()?;
        let name = support::objects::KEYS[self.random.usize(..support::objects::KEYS.len())];
        let labels = &mut object["metadata"]["labels"];
        match self.random.u8(..3) {
            0 => {
                _ = labels
                    .as_object_mut()
                    .and_then(|labels| labels.remove(name))
            }
            _ => labels[name] = json!(VALUES[self.random.usize(..VALUES.len())]),
        }
        is_storable(&object).then_some(object)
    }
}

/// Returns whether an API server accepts the metadata of an object.
fn is_storable(object: &Value) -> bool {
    let metadata = &object["metadata"];
    let is_name = |value: &Value| {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let name = value.as_str().unwrap_or_default();
        !name.is_empty() && name.chars().all(is_plain)
    };
    let are_texts = |value: &Value| match value {
        Value::Null => true,
        value => value
            .as_object()
            .is_some_and(|map| map.values().all(Value::is_string)),
    };
    is_name(&metadata["namespace"])
        && is_name(&metadata["name"])
        && are_texts(&metadata["labels"])
        && are_texts(&metadata["annotations"])
}

fn identity(object: &Value) -> String {
    let metadata = &object["metadata"];
    format!(
        "{} {}/{}",
        object["kind"], metadata["namespace"], metadata["name"]
    )
}

// === impl Event ===

impl Event {
    /// Applies the event to an API server.
    pub fn apply(&self, api_server: &StandIn) {
        match self {
            Self::Put(object) => api_server.put(object),
            Self::Delete(object) => api_server.delete(object),
            Self::Miss(object) => {
                api_server.put_without_event(object);
                api_server.lose_history();
            }
        }
    }

    /// Returns the object that changes.
    pub fn object(&self) -> &Value {
        match self {
            Self::Put(object) | Self::Delete(object) | Self::Miss(object) => object,
        }
    }
}
