//! A recording and the model of the server that replays it: store, build, publish and answers, without sockets or
//! clocks.

use std::collections::{BTreeMap, BTreeSet};

use global_dns::model::{Kind, KubeObject, Object, ObjectKey, Timestamp, parse};
use global_dns::table::publish::Reader;
use global_dns::table::store::{Objects, ServiceKeys};
use global_dns::table::{Publisher, Rules, Store, Table, Timers, build};
use global_dns::zone::{
    Answer, AnswerContext, Grammar, MessageSection, Name, RecordType, Zone, Zones, answer, read,
};
use serde_json::Value;
use support::recordings::{self, Action};

use crate::fuzz::checks::answers::zone_file;
use crate::fuzz::checks::tables::services_of;

/// A watch event.
#[derive(Clone, Debug)]
pub struct Event {
    pub kind: Kind,
    pub key: ObjectKey,
    /// The object, or `None` after its deletion.
    pub object: Option<Value>,
    /// The service of a slice.
    pub service: Option<String>,
    /// `ADDED`, `MODIFIED`, `DELETED`.
    pub verb: &'static str,
    /// The time of the event, in milliseconds since the start of the recording.
    pub time: Timestamp,
}

/// A recording: the initial state and the events after it.
#[derive(Clone, Debug)]
pub struct Recording {
    pub start: Vec<Event>,
    pub events: Vec<Event>,
}

impl Recording {
    /// Reads a recording by its number.
    pub fn read(number: &str) -> Self {
        let mut names = recordings::Recording::names().into_iter();
        let name = names.find(|name| name.starts_with(&format!("{number}-")));
        let read = recordings::Recording::read(&name.unwrap()).unwrap();
        let events = |events: Vec<_>| events.iter().filter_map(Event::read).collect();
        Self {
            start: events(read.state),
            events: events(read.events),
        }
    }

    /// Returns the numbers of all recordings.
    pub fn numbers() -> Vec<String> {
        let names = recordings::Recording::names().into_iter();
        names.map(|name| name[..2].to_owned()).collect()
    }
}

impl Event {
    pub fn read(recorded: &recordings::Event) -> Option<Self> {
        let kind = match recorded.kind() {
            "Service" => Kind::Service,
            "EndpointSlice" => Kind::EndpointSlice,
            "Link" => Kind::Link,
            _ => return None, // the server watches neither Endpoints nor Leases
        };
        let exists = recorded.action != Action::Deleted;
        Some(Self {
            kind,
            key: key_of(&recorded.object),
            object: exists.then(|| recorded.object.clone()),
            service: recorded.object["metadata"]["labels"]["kubernetes.io/service-name"]
                .as_str()
                .map(str::to_owned),
            verb: recorded.action.word(),
            time: Timestamp(recorded.time),
        })
    }

    /// Returns the title of the event in the table of expectations, which names Endpoints instead of slices.
    pub fn title(&self) -> String {
        match &self.service {
            Some(service) => format!("{} Endpoints {service}", self.verb),
            None => format!("{} Service {}", self.verb, self.key.name),
        }
    }

    /// Returns whether the event has this verb and object name.
    pub fn has_title(&self, verb: &str, name: &str) -> bool {
        self.verb == verb && self.key.name.to_string() == *name
    }
}

/// Returns the rules of a server of cluster `hub` with default flags.
pub fn hub_rules() -> Rules {
    global_dns::settings::Settings::parse("", "clusterName: hub")
        .unwrap()
        .rules()
}

/// Returns the zone `global.`.
pub fn zones() -> Zones {
    Zones(vec![Zone {
        name: "global".parse().unwrap(),
        ttl: 5,
        ns_addresses: vec!["192.0.2.53".parse().unwrap()],
        grammar: Grammar::Global,
    }])
}

/// A model of a server that replays a recording.
pub struct Replay {
    pub recording: Recording,
    /// Number of applied events.
    pub at: usize,
    /// The current objects.
    pub objects: BTreeMap<(Kind, ObjectKey), Value>,
    pub store: Store,
    pub rules: Rules,
    /// The changes of the answering step of each service with a failover order: the time, the service, and both steps.
    pub failovers: Vec<(u64, String)>,
    timers: Timers,
    zones: Zones,
    publisher: Publisher,
    pub reader: Reader,
}

impl Replay {
    /// Starts a replay from the initial state, with the rules of [`hub_rules`].
    pub fn of(number: &str) -> Self {
        Self::with_rules(number, hub_rules())
    }

    /// Starts a replay with other rules.
    pub fn with_rules(number: &str, rules: Rules) -> Self {
        Self::play(Recording::read(number), rules)
    }

    /// Starts a replay of a recording that a test has changed.
    pub fn play(recording: Recording, rules: Rules) -> Self {
        let publisher = Publisher::default();
        let mut replay = Self {
            at: 0,
            objects: BTreeMap::new(),
            store: Store::default(),
            rules,
            failovers: Vec::new(),
            timers: Timers::default(),
            zones: zones(),
            reader: publisher.reader(),
            publisher,
            recording,
        };
        for event in &replay.recording.start {
            let object = event.object.clone().unwrap();
            replay
                .objects
                .insert((event.kind, event.key.clone()), object);
        }
        let mut dirty = ServiceKeys::new();
        for kind in Kind::ALL {
            let listed = listed(&replay.objects, kind);
            dirty.extend(replay.store.reset(kind, None, listed));
        }
        replay.publish(Timestamp(0), &dirty);
        replay
    }

    /// Applies the next event. Returns `false` if there is none.
    pub fn step(&mut self) -> bool {
        let Some(event) = self.recording.events.get(self.at).cloned() else {
            return false;
        };
        self.end_delays(event.time);
        self.at += 1;
        let name = (event.kind, event.key.clone());
        match &event.object {
            Some(object) => self.objects.insert(name, object.clone()),
            None => self.objects.remove(&name),
        };
        let dirty = apply(&mut self.store, &event);
        self.publish(event.time, &dirty);
        true
    }

    /// Returns the last applied event.
    pub fn last_event(&self) -> &Event {
        &self.recording.events[self.at - 1]
    }

    /// Applies events up to and including the given one.
    pub fn run_until(&mut self, verb: &str, name: &str) {
        while self.step() {
            if self.last_event().has_title(verb, name) {
                return;
            }
        }
        panic!("the recording has no event {verb} {name}");
    }

    /// Applies all remaining events.
    pub fn finish(&mut self) {
        while self.step() {}
    }

    /// Publishes what changes before `until` because a delay ends.
    pub fn end_delays(&mut self, until: Timestamp) {
        while let Some(end) = self.timers.next_wake().filter(|end| *end < until) {
            self.publish(end, &ServiceKeys::new());
        }
    }

    fn publish(&mut self, time: Timestamp, dirty: &ServiceKeys) {
        (self.timers.now, self.timers.wall) = (time, time);
        let mut dirty = dirty.clone();
        dirty.extend(self.timers.take_due());
        let now = self.reader.load();
        let empty = Table::default();
        let last = now.table.as_ref().unwrap_or(&empty);
        let mut built = build(last, &self.store, &dirty, &self.rules, &self.timers);
        self.timers.apply(std::mem::take(&mut built.timers));
        self.timers.is_started = true;
        let steps = [last, &built.table].map(answering_steps);
        for (service, from) in &steps[0] {
            let to = steps[1].get(service).filter(|to| *to != from);
            let change = to.map(|to| (time.0, format!("{service} {from} -> {to}")));
            self.failovers.extend(change);
        }
        self.publisher
            .publish(built, Timestamp::from_seconds(1_790_000_000), 1_790_000_000);
    }

    /// Answers a question `NAME TYPE`. Returns sorted RDATA, `NODATA`, `NXDOMAIN` or `SERVFAIL`.
    pub fn ask(&self, question: &str) -> Vec<String> {
        let now = self.reader.load();
        ask(&self.zones, now.table.as_ref().unwrap(), question)
    }

    /// Returns the zone as a zone file.
    pub fn zone_file(&self) -> String {
        let zone = self.zones.iter().next().unwrap();
        zone_file(&self.zones, zone, &self.reader.load())
    }

    /// Returns the records of the zone without the SOA record, because the serial also changes without records.
    pub fn records(&self) -> BTreeSet<String> {
        let zone = self.zone_file();
        let records = zone.lines().filter(|line| !line.contains("\tSOA\t"));
        records.map(str::to_owned).collect()
    }

    /// Builds the whole table from the store.
    pub fn full_build(&self) -> Table {
        let mut services = services_of(&self.store);
        // Services that are gone are reported for a while (rule L5).
        let now = self.reader.load();
        let table = now.table.as_ref().unwrap();
        services.extend(table.services().map(|service| service.key.clone()));
        let empty = Table::default();
        build(&empty, &self.store, &services, &self.rules, &self.timers).table
    }
}

/// Returns the step that answers for each service with a failover order.
fn answering_steps(table: &Table) -> BTreeMap<String, String> {
    let services = table.services();
    let steps = services.filter_map(|service| {
        let failover = service.failover.as_ref()?;
        Some((service.key.service.to_string(), failover.answering_text()))
    });
    steps.collect()
}

fn key_of(object: &Value) -> ObjectKey {
    KubeObject::read(&object.to_string()).key().unwrap()
}

/// Returns what the server keeps of an object, if it matters.
pub fn reduced(kind: Kind, object: &Value) -> Option<Object> {
    parse::read(kind, &KubeObject::read(&object.to_string()))
}

/// Returns the objects of a kind, like a relist.
pub fn listed(objects: &BTreeMap<(Kind, ObjectKey), Value>, kind: Kind) -> Objects {
    let own = objects.iter().filter(|((of, _), _)| *of == kind);
    own.filter_map(|((_, key), object)| Some((key.clone(), reduced(kind, object)?)))
        .collect()
}

/// Applies an event.
pub fn apply(store: &mut Store, event: &Event) -> ServiceKeys {
    let object = event.object.as_ref();
    let object = object.and_then(|object| reduced(event.kind, object));
    store.apply(event.kind, event.key.clone(), object)
}

pub fn ask(zones: &Zones, table: &Table, question: &str) -> Vec<String> {
    let (name, rtype) = question.split_once(' ').unwrap();
    let name = Name::from_text(name).unwrap();
    let rtype = match rtype {
        "A" => RecordType::A,
        "AAAA" => RecordType::AAAA,
        "SRV" => RecordType::SRV,
        other => panic!("{other}"),
    };
    let answer = answer(read(zones, table, &name), rtype);
    let mut records = match &answer {
        Answer::Data(..) => {
            let records = answer.records(AnswerContext::new(&name, 0)).into_iter();
            let answered = records.filter(|record| record.section == MessageSection::Answer);
            let texts = answered.map(|record| record.data.to_string());
            texts
                .map(|text| text.split_once('\t').unwrap().1.to_owned())
                .collect()
        }
        Answer::NoData(_) => vec!["NODATA".to_owned()],
        Answer::NxDomain(_) => vec!["NXDOMAIN".to_owned()],
        Answer::Failed(_) => vec!["SERVFAIL".to_owned()],
        other => panic!("{other:?}"),
    };
    records.sort();
    records
}
