use serde_json::json;

use super::*;
use crate::model::Kind;
use crate::testing::{local, parsed, rules};

/// Returns the gate of a Service of this cluster that was created at a time in seconds, with expected clusters.
fn gate(expected: Option<&str>, created: Option<u64>, now: u64) -> Option<Gate> {
    let at = Timestamp::from_seconds;
    let [mut service, _] = local("prod", "db", &[]);
    service["metadata"]["annotations"]["global-dns/expected-clusters"] = json!(expected);
    service["metadata"]["creationTimestamp"] = json!(created.map(|created| at(created).to_text()));
    let (_, object) = parsed(Kind::Service, &service);
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

#[test]
fn service_without_the_annotation_has_no_gate() {
    assert_eq!(gate(None, Some(0), 0), None);
}
