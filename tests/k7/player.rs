//! Sequences of the health of the steps of a failover order (rule K7), played by the program on real objects. `k7.py` states
//! the rule as a program, and `sequences.py` prints sequences with its answers.

use global_dns::model::{Kind, KubeObject, ServiceKey, Timestamp, parse};
use global_dns::table::store::ServiceKeys;
use global_dns::table::{Store, Table, Timers, build};
use serde::Deserialize;
use serde_json::Value;
use support::objects::{gateway_mirror, local};

/// A sequence, and what the steps answer.
#[derive(Debug, Deserialize)]
pub struct Sequence {
    name: String,
    /// Times in seconds, with the health of each step: `A` an endpoint is alive, `D` endpoints but none alive, `E` no
    /// endpoint, `-` not known yet.
    events: Vec<(f64, String)>,
    end: f64,
    /// Whether the process has a table before the first event.
    is_running: bool,
    answers: Vec<Answer>,
}

/// The time from which a step answers, in seconds, and the step. `None`: the name fails.
type Answer = (f64, Option<usize>);

const CLUSTERS: [&str; 3] = ["east", "west", "north"];
const ORDER: &str = "auto:east:west:north";

/// Plays sequences, one on each line, and asserts that the program answers as they say. Returns their number.
pub fn check(lines: &str) -> usize {
    let sequences = lines.lines().map(|line| {
        let sequence: Sequence = serde_json::from_str(line).unwrap();
        assert_eq!(sequence.play(), sequence.answers, "{sequence:?}");
    });
    sequences.count()
}

// === impl Sequence ===

impl Sequence {
    /// Builds the service at each event and whenever it is due. Returns the changes of the step that answers.
    fn play(&self) -> Vec<Answer> {
        let rules = global_dns::settings::Settings::parse("", "clusterName: hub")
            .unwrap()
            .rules();
        let (mut table, mut timers) = (Table::default(), Timers::default());
        timers.is_started = self.is_running;
        let (mut answers, mut health) = (Vec::<Answer>::new(), "");
        let mut events = self.events.iter().peekable();
        let mut now = 0;
        while now <= milliseconds(self.end) {
            while let Some((_, next)) = events.next_if(|(time, _)| milliseconds(*time) <= now) {
                health = next;
            }
            timers.now = Timestamp(now);
            let built = build(&table, &store(health), &services(), &rules, &timers);
            timers.apply(built.timers);
            timers.is_started = true;
            table = built.table;
            let answer = answer(&table);
            if answers.last().is_none_or(|(_, last)| *last != answer) {
                answers.push((now as f64 / 1000.0, answer));
            }
            let event = events.peek().map(|(time, _)| milliseconds(*time));
            let wake = timers.next_wake().map(|wake| wake.0);
            assert!(wake.is_none_or(|wake| wake > now), "{}", self.name);
            match event.into_iter().chain(wake).min() {
                Some(next) => now = next,
                None => break,
            }
        }
        answers
    }
}

fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1000.0).round() as u64
}

fn services() -> ServiceKeys {
    let key = ServiceKey {
        namespace: "prod".parse().unwrap(),
        service: "web".parse().unwrap(),
    };
    [key].into()
}

/// Returns the step that answers.
fn answer(table: &Table) -> Option<usize> {
    let service = table.service("prod", "web").unwrap();
    let failover = service.failover.as_ref().unwrap();
    service.failure.is_none().then_some(failover.answering)
}

/// Returns the objects of a moment: the Service of this cluster with the order, and the mirrors of the steps.
fn store(health: &str) -> Store {
    let own = local("prod", "web").without_selector();
    let own = own.annotation("global-dns/failover", ORDER);
    let mut objects = vec![own.service()];
    for (cluster, health) in CLUSTERS.iter().zip(health.chars()) {
        let mirror = gateway_mirror("prod", "web", cluster, "10.96.0.1");
        if "AD".contains(health) {
            objects.extend([mirror.service(), mirror.slice(health == 'A')]);
        }
    }
    let mut store = Store::default();
    for object in &objects {
        apply(&mut store, object);
    }
    store
}

fn apply(store: &mut Store, object: &Value) {
    let text = object.to_string();
    let read = KubeObject::read(&text);
    let kind = match object["kind"].as_str() {
        Some("Service") => Kind::Service,
        _ => Kind::EndpointSlice,
    };
    let object = parse::read(kind, &read).unwrap();
    store.apply(kind, read.key().unwrap(), Some(object));
}
