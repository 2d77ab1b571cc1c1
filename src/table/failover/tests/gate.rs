use serde_json::{Value, json};

use super::super::*;
use crate::model::Kind;
use crate::testing::{Server, local, parsed, rules};

/// Returns the Service of this cluster, created at a time in seconds, with expected clusters.
fn service(expected: Option<&str>, created: Option<u64>) -> Value {
    let created = created.map(|created| at(created).to_text());
    let [mut service, _] = local("prod", "db", &[]);
    service["metadata"]["annotations"]["global-dns/expected-clusters"] = json!(expected);
    service["metadata"]["creationTimestamp"] = json!(created);
    service
}

fn at(second: u64) -> Timestamp {
    Timestamp::from_seconds(second)
}

/// Returns the gate of a Service of this cluster.
fn gate(expected: Option<&str>, created: Option<u64>, now: u64) -> Option<Gate> {
    let (_, object) = parsed(Kind::Service, &service(expected, created));
    Gate::new(object.item().unwrap(), &BTreeSet::new(), &rules(), at(now))
}

/// Returns until when a gate closes, in seconds.
fn closes_until(expected: &str, created: Option<u64>, now: u64) -> Option<u32> {
    let gate = gate(Some(expected), created, now).unwrap();
    gate.closes_until.map(Timestamp::seconds)
}

#[test]
fn gate_closes_for_an_hour_after_the_service_was_created() {
    let at = |now| closes_until("north", Some(10_000), now);
    assert_eq!(
        [at(10_000), at(13_599), at(13_600)],
        [Some(13_600), Some(13_600), None]
    );
    // The clock of the API server may be ahead.
    assert_eq!(at(9_000), Some(13_600));
    assert_eq!(closes_until("north", None, 10_000), None);
}

#[test]
fn gate_closes_until_the_time_of_the_annotation() {
    let at = |created, now| closes_until("north until 1970-01-01T10:00Z", created, now);
    assert_eq!([at(None, 10_000), at(None, 35_999)], [Some(36_000); 2]);
    assert_eq!([at(None, 36_000), at(Some(35_000), 36_000)], [None; 2]);
}

/// A node starts with a wrong time, which is corrected while the process runs. The clock of delays does not see that.
#[test]
fn gate_follows_a_wall_clock_that_is_corrected() {
    for (expected, created) in [
        ("north until 1970-01-01T10:00Z", None),
        ("north", Some(36_000 - 3600)),
    ] {
        let objects = [service(Some(expected), created)];
        let mut server = Server::new(rules());
        let mut is_closed = |second, wall| {
            server.timers.wall = at(wall);
            server.see_with_wall_clock(second, &objects);
            let service = server.table.service("prod", "db").unwrap();
            (
                !service.missing_clusters().is_empty(),
                server.timers.next_wake(),
            )
        };
        // The wall clock is two hours behind. Within a minute, its correction is seen.
        assert_eq!(is_closed(100_000, 30_000), (true, Some(at(100_060))));
        assert_eq!(is_closed(100_060, 37_200), (false, None));
        // It is ahead. A name that is built again waits again.
        assert_eq!(is_closed(100_100, 35_990), (true, Some(at(100_110))));
        assert_eq!(is_closed(100_110, 36_000), (false, None));
    }
}
