//! Replays the corpora of the fuzz targets as regression tests. `tests/fuzz/run` searches for new inputs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use checks::seen::Seen;
use checks::{
    answers, cluster, framing, manifest, memory, messages, raw, views as documents, worlds,
};
use global_dns::model::{Kind, KubeObject, Timestamp, parse};
use global_dns::table::{Publisher, Store, Table, Timers, build};
use support::objects::mirror;
use support::repository::repository;
use support::rounds::{has_all_rounds, rounds};

#[path = "../fuzz/checks.rs"]
pub mod checks;
mod sequences;
mod views;

fn corpus() -> PathBuf {
    repository("tests/fuzz/corpus")
}

fn replay<T>(target: &str, check: impl Fn(&[u8]) -> T) {
    let mut count = 0;
    for entry in std::fs::read_dir(corpus().join(target)).unwrap() {
        let path = entry.unwrap().path();
        let input = std::fs::read(&path).unwrap();
        let result = catch_unwind(AssertUnwindSafe(|| drop(check(&input))));
        assert!(result.is_ok(), "{} fails the checks", path.display());
        count += 1;
    }
    assert!(count >= 20, "target {target} has only {count} store");
}

#[test]
fn message_corpus_passes() {
    replay("reply", messages::check);
}

#[test]
fn question_corpus_passes() {
    replay("question", |choices| {
        messages::check(&messages::question(choices))
    });
}

#[test]
fn stream_corpus_passes() {
    replay("framing", framing::check);
}

/// Clusters of which nobody chose the objects. Some of these are forged or invalid.
#[test]
fn generated_clusters_pass() {
    let mut seen = Seen::default();
    for number in 0..rounds(CLUSTERS) {
        let result = catch_unwind(|| cluster::check(&generated(number)));
        seen.add(&result.unwrap_or_else(|_| panic!("cluster {number} fails the checks")));
    }
    seen.assert_all(&cluster::CASES);
}

#[test]
fn world_corpus_passes() {
    replay("worlds", worlds::check);
}

/// Worlds of which nobody chose the events. A failure names the number of its world.
#[test]
fn generated_worlds_pass() {
    let worlds = if has_all_rounds() { WORLDS } else { FEW_WORLDS };
    let next = AtomicU16::new(0);
    let check_some = || {
        let mut seen = Seen::default();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= worlds {
                return seen;
            }
            let result = catch_unwind(|| worlds::check(&generated(number)));
            seen.add(&result.unwrap_or_else(|_| panic!("world {number} fails the checks")));
        }
    };
    let mut seen = Seen::default();
    thread::scope(|scope| {
        let threads = thread::available_parallelism().unwrap().get();
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(check_some)).collect();
        for one in running {
            seen.add(&one.join().unwrap());
        }
    });
    assert!(seen.number("table") > 10 * usize::from(worlds), "{seen:?}");
    // The rare cases need all worlds.
    if has_all_rounds() {
        seen.assert_all(&worlds::CASES);
        assert_eq!(seen.named("kind ").len(), 5, "{seen:?}");
    }
}

/// Number of generated worlds. Each takes about a second.
const WORLDS: u16 = 192;
const FEW_WORLDS: u16 = 8;
/// Number of generated clusters.
const CLUSTERS: u16 = 300;

/// Returns the choices of a world. They are the same in every run.
fn generated(number: u16) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(number.into());
    let mut choices: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(420).collect();
    // The last one chooses failover orders, which hide other cases.
    if number.is_multiple_of(2) {
        choices.push(0);
    }
    choices
}

#[test]
fn view_corpus_passes() {
    let seen = Mutex::new(Seen::default());
    replay("views", |octets| {
        seen.lock().unwrap().add(&documents::check(octets));
    });
    seen.into_inner().unwrap().assert_all(&documents::CASES);
}

#[test]
fn raw_object_corpus_passes() {
    replay("objects_raw", raw::check);
}

#[test]
fn manifest_corpus_passes() {
    replay("manifest", manifest::check);
}

#[test]
fn message_checks_cover_every_kind_of_answer() {
    // The choices are indexes into the lists of `messages::question`: name, type, class and OPT.
    let answers = |choices: &[u8]| {
        let packet = messages::question(choices);
        messages::check(&packet);
        messages::rcode_and_answer(&packet)
    };
    assert_eq!(
        answers(&[0, 1, 0, 2, 0, 1, 1, 0, 0, 0]),
        (0, true),
        "db.prod.global A has data"
    );
    assert_eq!(
        answers(&[0, 1, 0, 2, 20, 1, 1, 0, 0, 0]),
        (3, false),
        "nope.prod.global A is NXDOMAIN"
    );
    assert_eq!(
        answers(&[0, 1, 0, 2, 0, 1, 0, 0, 0, 0]),
        (5, false),
        "db.prod A is refused"
    );
}

#[test]
fn stream_checks_cover_every_kind_of_stream() {
    let outcome = |name: &str| framing::check(&input("framing", name));
    let (one, two) = (outcome("one"), outcome("two-in-order"));
    assert!(!one.is_closed && one.sent.len() > 12, "{one:?}");
    assert!(!two.is_closed && two.sent.len() > one.sent.len());
    for name in ["response-closes", "announced-4097", "padded-4097"] {
        assert!(outcome(name).is_closed, "{name}");
    }
    for name in ["announced-4096", "padded-4096", "half-a-message"] {
        assert!(!outcome(name).is_closed, "{name}");
    }
    let full = outcome("pipelined-wide-fills-the-outbox");
    assert!(full.times_full > 0 && full.sent.len() > 16 * 1024);
    let padded = outcome("asks-for-padding");
    assert!(padded.sent.len() > 2 && padded.padded > padded.sent.len());
}

#[test]
fn world_checks_cover_every_kind_of_service() {
    let seen = |name: &str| worlds::check(&input("worlds", name));
    for kind in ["gateway", "flat", "federated", "local", "headless"] {
        assert_eq!(seen(kind).named("kind "), [kind]);
    }
    for (name, case) in [
        ("gateway-flat-local", "union flat+gateway+local"),
        ("exported-pods-join-mirrors", "union gateway+local"),
        ("pods-join-headless-mirror", "union headless+local"),
        ("own-service-of-a-pod", "union gateway+headless"),
        ("own-service-of-a-pod", worlds::CASES[0]),
        ("own-service-of-a-pod-comes-late", worlds::CASES[0]),
        ("headless-and-gateway", worlds::CASES[2]),
        ("gateway-to-flat-and-back", worlds::CASES[3]),
        ("headless-to-gateway-and-back", worlds::CASES[3]),
        ("federated-leaves", worlds::CASES[3]),
    ] {
        assert!(seen(name).number(case) > 0, "{name}: no {case}");
    }
}

#[test]
fn manifest_checks_cover_every_kind_of_file() {
    let complete = manifest::check(&input("manifest", "all-kinds-composed"));
    assert_eq!(
        (complete.objects, complete.endpoints),
        (4, 2),
        "{complete:?}"
    );
    for (name, expected) in [
        ("lists-nested", "lists are nested more than 4 deep"),
        ("twice", "occurs twice"),
        ("list-items-number", "cannot parse a List"),
        ("bomb", "too large"),
        ("deep-dashes", "too large"),
    ] {
        let error = manifest::check(&input("manifest", name)).error;
        assert!(error.contains(expected), "expected {expected}, got {error}");
    }
}

/// The history is limited by the octets that it counts.
#[test]
fn history_counts_the_octets_of_the_heap() {
    let (rules, timers) = (messages::rules(), Timers::default());
    for hosts in [1, 30] {
        let mut store = Store::default();
        let mut apply = |object: serde_json::Value| {
            let json = object.to_string();
            let (key, object) = parse::reduce(Kind::Service, &KubeObject::read(&json)).unwrap();
            store.apply(Kind::Service, key, Some(object))
        };
        for number in 0..30 {
            for cluster in ["east", "west", "north"] {
                let mirror = mirror("prod", &format!("db{number}"), cluster);
                apply(mirror.service());
                for host in 0..hosts {
                    apply(mirror.endpoint_mirror(&format!("db{number}-{host}"), &["10.0.0.1"]));
                }
            }
        }
        let publisher = Publisher::new(Timestamp(0), Duration::from_secs(86_400));
        let services = checks::tables::services_of(&store);
        let built = build(&Table::default(), &store, &services, &rules, &timers);
        publisher.publish(built, Timestamp::from_seconds(1), 1);
        let reader = publisher.reader();
        let used = allocation_counter::measure(|| {
            for change in 0..300_u64 {
                let address = format!("10.1.{}.{}", change / 250, change % 250 + 1);
                let service = format!("db{}", change % 30);
                let mirror = mirror("prod", &service, "east");
                let host = format!("{service}-0");
                let json = mirror.endpoint_mirror(&host, &[&address]).to_string();
                let (key, object) = parse::reduce(Kind::Service, &KubeObject::read(&json)).unwrap();
                let dirty = store.apply(Kind::Service, key, Some(object));
                let last = Arc::clone(&reader.load());
                let built = build(
                    last.table.as_ref().unwrap(),
                    &store,
                    &dirty,
                    &rules,
                    &timers,
                );
                publisher.publish(built, Timestamp::from_seconds(10 + change), 1);
            }
        });
        let ratio = reader.history_octets() as f64 / used.bytes_current as f64;
        assert!(
            (0.8..=1.2).contains(&ratio),
            "{hosts} hosts: {ratio:.2} of the heap"
        );
    }
}

#[test]
fn checks_detect_errors() {
    let fails = |what: &str, check: &dyn Fn()| {
        let result = catch_unwind(AssertUnwindSafe(check));
        assert!(result.is_err(), "{what} must fail the check");
    };
    fails("an allocation", &|| {
        memory::allocates_at_most(8, "a vector", || drop(vec![0_u8; 9]));
    });
    fails("too much memory", &|| {
        memory::holds_at_most(8, "a vector", || drop(vec![0_u8; 9]));
    });
    memory::holds_at_most(9, "consecutive vectors", || {
        (0..9).for_each(|_| drop(vec![0_u8; 9]));
    });
    // db.prod.global A 0.0.0.0, complete, and without the last octet.
    let mut reply = messages::question(&[0, 1, 0, 2, 0, 1, 1, 0, 0, 0]);
    (reply[2], reply[7]) = (0x84, 1);
    reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4, 0, 0, 0, 0]);
    let decoded = messages::decode(&reply, "UDP");
    fails("an unusable address", &|| {
        messages::check_usable(&decoded);
    });
    fails("a truncated record", &|| {
        messages::decode(&reply[..reply.len() - 1], "UDP");
    });
    let [one, other] = [1, 2].map(|number| cluster::table(&generated(number)));
    answers::check_same_answers(&one, &one);
    fails("a different answer", &|| {
        answers::check_same_answers(&one, &other)
    });
}

fn input(target: &str, name: &str) -> Vec<u8> {
    std::fs::read(corpus().join(target).join(name)).unwrap()
}
