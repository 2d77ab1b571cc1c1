use super::*;
use crate::table::Built;
use crate::table::publish::Publisher;
use crate::testing::{endpoint, mirror, service_keys, table};

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
        let published = self.0.reader().at(time)?;
        let service = published
            .table
            .as_ref()
            .and_then(|table| table.service("prod", "db"));
        Ok(service.map(|service| {
            let [_, _, high, low] = service.name_addresses.v4[0].octets();
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
        let tables = (from..to).map(|time| Arc::as_ptr(&kept.at(at(time)).unwrap()));
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
    assert!((8..25).contains(&kept), "{kept}");
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
