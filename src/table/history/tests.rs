use super::*;
use crate::model::{KubeObject, Watch};
use crate::table::Built;
use crate::table::publish::Publisher;
use crate::table::{Rules, Store, Table, Timers, build};
use crate::testing::support::rounds::rounds;
use crate::testing::{
    endpoint, gateway, kind_of, listing, mirror, parsed, rules, service_keys, store, table,
};
use serde_json::Value;

fn at(milliseconds: u64) -> Timestamp {
    Timestamp(1_000_000 + milliseconds)
}

/// A publisher whose service `db` has one endpoint, with a number as its address.
struct Numbers(Publisher);

impl Numbers {
    fn new(limits: HistoryLimits) -> Self {
        Self(Publisher::new(at(0), limits))
    }

    fn publish(&self, number: u64, now: Timestamp) {
        let address = format!("10.96.{}.{}", number / 256, number % 256);
        let objects = [
            mirror("prod", "db", "east"),
            endpoint("prod", "db", "east", "db-0", &[&address]),
        ];
        let built = Built {
            table: table(&objects),
            is_changed: true,
            services: service_keys(&["db"]),
            timers: Vec::new(),
        };
        self.0.publish(built, now);
    }

    /// Returns the number that answered at a time. `None` before the first table.
    fn at(&self, time: Timestamp) -> Result<Option<u64>, BeforeHistory> {
        let published = self.0.reader().at(time)?.published;
        let service = published
            .table
            .as_ref()
            .and_then(|table| table.service("prod", "db"));
        Ok(service.map(|service| {
            let [_, _, high, low] = service.names.v4[0].octets();
            u64::from(high) * 256 + u64::from(low)
        }))
    }
}

#[test]
fn each_time_has_the_table_that_answered_then() {
    let numbers = Numbers::new(HistoryLimits::default());
    for number in 1..=9 {
        numbers.publish(number, at(number * 1000));
    }
    for number in 1..=9 {
        for later in [0, 1, 999] {
            assert_eq!(numbers.at(at(number * 1000 + later)), Ok(Some(number)));
        }
    }
    assert_eq!(numbers.at(at(999)), Ok(None));
    assert_eq!(numbers.at(at(0)), Ok(None));
    assert_eq!(
        numbers.at(Timestamp(0)),
        Err(BeforeHistory { start: at(0) })
    );
    let sentence = BeforeHistory { start: at(0) }.to_string();
    assert_eq!(sentence, "the history begins at 1970-01-01T00:16:40Z");
}

#[test]
fn burst_keeps_a_table_for_each_step_and_the_last_one() {
    let numbers = Numbers::new(HistoryLimits::default());
    // One second with a change every 10 ms, then a pause.
    for number in 1..=100 {
        numbers.publish(number, at(10_000 + number * 10));
    }
    numbers.publish(500, at(60_000));
    let kept = numbers.0.reader();
    let count = |from: u64, to: u64| {
        let tables = (from..to).map(|time| Arc::as_ptr(&kept.at(at(time)).unwrap().published));
        tables.collect::<std::collections::BTreeSet<_>>().len()
    };
    assert!(
        (10..=13).contains(&count(10_000, 11_010)),
        "{}",
        count(10_000, 11_010)
    );
    // What answered during the pause is known exactly.
    assert_eq!(numbers.at(at(11_000)), Ok(Some(100)));
    assert_eq!(numbers.at(at(59_999)), Ok(Some(100)));
    // Within a burst, the answer is at most a step old.
    for time in 10_110..11_000 {
        let exact = (time - 10_000) / 10;
        let told = numbers.at(at(time)).unwrap().unwrap();
        assert!(
            told <= exact && exact - told <= 10,
            "{time}: {told}, {exact}"
        );
    }
}

#[test]
fn oldest_tables_go_by_age_and_by_memory() {
    let limits = HistoryLimits {
        age: Duration::from_secs(10),
        ..HistoryLimits::default()
    };
    let numbers = Numbers::new(limits);
    for number in 1..=100 {
        numbers.publish(number, at(number * 1000));
    }
    let start = numbers.at(at(0)).unwrap_err().start;
    assert_eq!(start, at(89_000));
    assert_eq!(numbers.at(start), Ok(Some(89)));

    let limits = HistoryLimits {
        memory: 100 * 1024,
        ..HistoryLimits::default()
    };
    let numbers = Numbers::new(limits);
    for number in 1..=1000 {
        numbers.publish(number, at(number * 1000));
        assert!(numbers.0.history_memory() <= limits.memory);
    }
    let kept = (at(1_000_000).0 - numbers.at(at(0)).unwrap_err().start.0) / 1000;
    assert!((8..40).contains(&kept), "{kept}");
}

#[test]
fn tables_that_are_not_kept_are_freed_by_the_publisher() {
    let numbers = Numbers::new(HistoryLimits {
        memory: 0,
        ..HistoryLimits::default()
    });
    numbers.publish(1, at(1000));
    let first = Arc::downgrade(&numbers.0.reader().load());
    numbers.publish(2, at(2000));
    assert!(first.upgrade().is_none());
    assert_eq!(numbers.at(at(2000)), Ok(Some(2)));
    assert!(numbers.at(at(1999)).is_err());
}

#[test]
fn memory_is_that_of_the_tables_that_are_kept() {
    let publish = |memory: usize, numbers_and_times: &[(u64, u64)]| {
        let numbers = Numbers::new(HistoryLimits {
            memory,
            ..HistoryLimits::default()
        });
        for (number, time) in numbers_and_times {
            numbers.publish(*number, at(*time));
        }
        numbers
    };
    let few = [(1, 1000), (2, 1030)];
    let needed = publish(usize::MAX, &few).0.history_memory();
    let one = publish(usize::MAX, &few[..1]).0.history_memory();
    assert_eq!(one, TABLE_SIZE + KEY_SIZE);
    // A burst, of which the same tables are kept.
    let burst = [(1, 1000), (3, 1010), (4, 1020), (2, 1030)];
    let burst = publish(usize::MAX, &burst);
    assert_eq!(burst.0.history_memory(), needed);
    assert_eq!(burst.at(at(1025)), Ok(Some(1)));
    // Tables that need exactly the limit are kept.
    assert_eq!(publish(needed, &few).0.reader().history_start(), at(0));
    assert_eq!(
        publish(needed - 1, &few).0.reader().history_start(),
        at(1000)
    );
}

/// The wall clock can go back. The order of the tables stays.
#[test]
fn earlier_clock_does_not_reorder_tables() {
    let numbers = Numbers::new(HistoryLimits::default());
    for (number, now) in [(1, 5000), (2, 1000), (3, 6000)] {
        numbers.publish(number, at(now));
    }
    assert_eq!(numbers.at(at(4999)), Ok(None));
    assert_eq!(numbers.at(at(5000)), Ok(Some(2)));
    assert_eq!(numbers.at(at(6000)), Ok(Some(3)));
}

fn key() -> ServiceKey {
    let keys = service_keys(&["db"]);
    keys.into_iter().next().unwrap()
}

#[test]
fn timeline_has_the_changes_of_one_service() {
    let numbers = Numbers::new(HistoryLimits::default());
    for number in 1..=9 {
        numbers.publish(number, at(number * 1000));
    }
    // A table without a change of the service.
    numbers.publish(9, at(10_000));
    let timeline = |service: &str, from: u64, step: u64| {
        let key = service_keys(&[service]).into_iter().next();
        let reader = numbers.0.reader();
        let step = Duration::from_millis(step);
        let timeline = reader.timeline(key.as_ref(), at(from), step);
        let changes = timeline.changes.into_iter();
        changes
            .map(|(time, count)| (time.0 - 1_000_000, count))
            .collect::<Vec<_>>()
    };
    let all: Vec<_> = (1..=9).map(|number| (number * 1000, 1)).collect();
    // The table of `publish` is built again each time, so that the last one counts as a change.
    assert_eq!(timeline("db", 0, 1)[..9], all);
    assert_eq!(timeline("db", 2500, 1)[..7], all[2..]);
    // Another service changed only when there was a table for the first time.
    assert_eq!(timeline("web", 0, 1), [(1000, 1)]);
    // Close changes are one, at the time of the last of them, and nothing is lost.
    assert_eq!(timeline("db", 0, 4000), [(3000, 3), (7000, 4), (10_000, 3)]);
}

#[test]
fn timeline_has_the_times_in_which_services_were_not_fine() {
    let publisher = Publisher::new(at(0), HistoryLimits::default());
    let publish = |is_ready: bool, time: u64| {
        let objects = [
            mirror("prod", "db", "east"),
            endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
            gateway("prod", "db-0-east", is_ready),
            // A skipped object is a problem, but of no service.
            endpoint("prod", "orphan", "east", "orphan-0", &["10.96.0.9"]),
        ];
        let built = Built {
            table: table(&objects),
            is_changed: true,
            services: service_keys(&["db"]),
            timers: Vec::new(),
        };
        publisher.publish(built, at(time));
    };
    publish(true, 1000);
    publish(false, 5000);
    publish(true, 9000);
    publish(false, 20_000);
    let spells = |from: u64, step: u64| {
        let step = Duration::from_millis(step);
        let timeline = publisher.reader().timeline(Some(&key()), at(from), step);
        let spell = |spell: Spell| {
            let end = spell.end.map(|end| end.0 - 1_000_000);
            (spell.start.0 - 1_000_000, end, spell.level, spell.services)
        };
        timeline.spells.into_iter().map(spell).collect::<Vec<_>>()
    };
    let loading = (0, Some(1000), Impact::Failing, 0);
    let down = (5000, Some(9000), Impact::Failing, 1);
    let again = (20_000, None, Impact::Failing, 1);
    assert_eq!(spells(0, 1), [loading, down, again]);
    assert_eq!(spells(9500, 1), [again]);
    // A time that began earlier begins with the part that is wanted.
    assert_eq!(
        spells(6000, 1),
        [(6000, Some(9000), Impact::Failing, 1), again]
    );
    // However many there are, their number is limited by the step.
    for number in 0..200 {
        publish(number % 2 == 0, 30_000 + number * 1000);
    }
    assert!(spells(0, 20_000).len() <= 14, "{:?}", spells(0, 20_000));
}

#[test]
fn spells_close_to_each_other_are_one() {
    let spell = |start: u64, end: u64, level: Impact, services: usize| Spell {
        start: at(start),
        end: Some(at(end)),
        level,
        services,
    };
    let is_close = |one: Timestamp, other: Timestamp| one.0 / 1000 == other.0 / 1000;
    let fails = spell(0, 5000, Impact::Failing, 1);
    // Each spell after `fails`, and whether it is a part of it.
    for (next, is_part) in [
        (spell(5000, 7000, Impact::Failing, 1), true),
        (spell(5900, 7000, Impact::Failing, 1), true),
        (spell(6000, 7000, Impact::Failing, 1), false),
        (spell(5000, 7000, Impact::Attention, 1), false),
        (spell(900, 7000, Impact::Attention, 1), true),
    ] {
        assert_eq!(fails.goes_on_with(&next, is_close), is_part, "{next:?}");
    }
    let mut spell_of_both = spell(0, 500, Impact::Attention, 1);
    spell_of_both.extend(&spell(600, 700, Impact::Failing, 3));
    assert_eq!(spell_of_both, spell(0, 700, Impact::Failing, 3));
    spell_of_both.extend(&spell(800, 900, Impact::Attention, 2));
    assert_eq!(spell_of_both, spell(0, 900, Impact::Failing, 3));
}

/// 30 minutes of 500 changes per second. The time of the clock is simulated.
#[test]
fn memory_stays_within_its_limit_under_a_storm_of_changes() {
    let limits = HistoryLimits {
        memory: 1 << 18,
        ..HistoryLimits::default()
    };
    let objects = |number: u64| {
        let address = format!("10.96.{}.{}", number / 256 % 256, number % 256);
        [
            mirror("prod", "db", "east"),
            endpoint("prod", "db", "east", "db-0", &[&address]),
        ]
    };
    // Building tables from objects is slow. These are two versions of one service.
    let tables: Vec<_> = (0..2).map(|number| table(&objects(number))).collect();
    let publisher = Publisher::new(at(0), limits);
    for number in 0..u64::from(rounds(11_000)) * 20 {
        let built = Built {
            table: tables[(number % 2) as usize].clone(),
            is_changed: true,
            services: service_keys(&["db"]),
            timers: Vec::new(),
        };
        publisher.publish(built, at(number * 2));
        assert!(publisher.history_memory() <= limits.memory);
    }
    let start = publisher.reader().history_start();
    assert!(start > at(0));
    // The sum of what is kept is what was counted.
    assert!(publisher.history_memory() > limits.memory / 2);
}

// === Memory ===

/// A cluster whose objects change.
struct Changing {
    store: Store,
    table: Table,
    timers: Timers,
    rules: Rules,
    publisher: Publisher,
    now: u64,
}

impl Changing {
    fn new(objects: &[Value], rules: Rules) -> Self {
        let limits = HistoryLimits {
            memory: usize::MAX / 2,
            ..HistoryLimits::default()
        };
        let mut new = Self {
            store: store(objects),
            table: Table::default(),
            timers: Timers::default(),
            rules,
            publisher: Publisher::new(at(0), limits),
            now: 0,
        };
        new.timers.is_following = true;
        let services = new.store.services();
        new.build(&services);
        new
    }

    fn build(&mut self, services: &ServiceKeys) {
        self.now += 1000;
        self.timers.now = at(self.now);
        let built = build(
            &self.table,
            &self.store,
            services,
            &self.rules,
            &self.timers,
        );
        self.table = built.table.clone();
        self.timers.apply(built.timers.clone());
        self.publisher.publish(built, at(self.now));
    }

    fn apply(&mut self, object: &Value) {
        let watch = Watch::for_object(kind_of(object), &KubeObject::read(&object.to_string()));
        let (key, object) = parsed(watch.unwrap(), object);
        let services = self.store.apply(watch.unwrap(), key, object);
        self.build(&services);
    }
}

/// Returns an address of a number.
fn address(number: usize) -> String {
    format!("10.{}.{}.{}", number >> 16, number >> 8 & 255, number & 255)
}

#[test]
fn estimate_is_the_memory_that_earlier_tables_keep() {
    let host = |namespace: &str, service: &str, host: usize, number: usize| {
        endpoint(
            namespace,
            service,
            "east",
            &format!("{service}-{host}"),
            &[&address(number)],
        )
    };
    let service = |namespace: &str, service: &str, hosts: usize| {
        let endpoints = (0..hosts).map(|number| host(namespace, service, number, number));
        std::iter::once(mirror(namespace, service, "east"))
            .chain(endpoints)
            .collect::<Vec<_>>()
    };
    let name = |number: usize| format!("n{number}");
    let unusable = |number: usize, address: usize| {
        let address = format!("no-address-{address}");
        endpoint("prod", "db", "east", &format!("db-{number}"), &[&address])
    };
    let thousand = usize::from(rounds(1000));
    let many = || (0..thousand).flat_map(|number| service("prod", &name(number), 10));
    let spread = || {
        let of_namespace = |number| {
            let namespace = &name(number);
            [
                mirror(namespace, "db", "east"),
                host(namespace, "db", 0, number),
            ]
        };
        (0..thousand).flat_map(of_namespace)
    };
    let list = |service: &str, host: &str| {
        let mirror = format!("{service}-east");
        listing("prod", &mirror, &[(host, "10.0.0.1")])
    };
    let sharing = || {
        let of_service = |number| {
            let service = &name(number);
            [mirror("prod", service, "east"), list(service, "shared")]
        };
        (0..thousand).flat_map(of_service)
    };
    let skipped = || (0..5 * thousand).map(|number| unusable(number, 1));
    // The name of each shape, its objects, the number of tables, and the change that makes each of them.
    type Shape<'a> = (
        &'a str,
        &'a dyn Fn() -> Vec<Value>,
        usize,
        &'a dyn Fn(usize) -> Value,
    );
    let shapes: [Shape<'_>; 7] = [
        (
            "many services of 10 endpoints in one namespace",
            &|| many().collect(),
            300,
            &|step| host("prod", &name(step % thousand), 3, 100_000 + step),
        ),
        (
            "one service of many endpoints",
            &|| service("prod", "db", 2 * thousand),
            60,
            &|step| host("prod", "db", step % (2 * thousand), 100_000 + step),
        ),
        ("many namespaces", &|| spread().collect(), 300, &|step| {
            host(&name(step % thousand), "db", 0, 100_000 + step)
        }),
        (
            "many services that list the same host, and leave it",
            &|| sharing().collect(),
            300,
            &|step| list(&name(step % thousand), &format!("own-{step}")),
        ),
        (
            "many skipped objects",
            &|| skipped().collect(),
            300,
            &|step| unusable(step, 2 + step),
        ),
        (
            "one small service",
            &|| service("prod", "db", 2),
            600,
            &|step| host("prod", "db", 0, 100_000 + step),
        ),
        ("a gateway", &|| service("prod", "db", 100), 300, &|step| {
            gateway("prod", "db-0-east", step % 2 == 0)
        }),
    ];
    for (shape, objects, steps, change) in shapes {
        let mut changing = Changing::new(&objects(), rules());
        changing.apply(&change(steps));
        let before = changing.publisher.history_memory();
        let allocated = allocation_counter::measure(|| {
            (0..steps).for_each(|step| changing.apply(&change(step)));
        });
        let real = allocated.bytes_current as usize;
        let estimate = changing.publisher.history_memory() - before;
        println!(
            "{shape}: {} octets for each table, estimate {}",
            real / steps,
            estimate / steps
        );
        assert!(estimate >= real, "{shape}: {estimate} instead of {real}");
        assert!(
            estimate <= 8 * real,
            "{shape}: {estimate} instead of {real}"
        );
    }
}
