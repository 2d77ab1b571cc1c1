use super::*;
use crate::model::ServiceSettings;

/// Returns until when the gate of a service closes, in seconds. `created` is the time of its Service.
fn closes_until(expected: &str, created: Option<u64>, now: u64) -> Option<u32> {
    let settings = ServiceSettings {
        expected: Some(ExpectedClusters::read(expected)),
        ..ServiceSettings::default()
    };
    let own = OwnSettings {
        settings,
        created: created.map(Timestamp::from_seconds),
    };
    let rules = crate::settings::Settings::of_cluster("hub".parse().unwrap()).rules();
    let now = Timestamp::from_seconds(now);
    let gate = Gate::new(Some(&own), &BTreeSet::new(), &rules, now).unwrap();
    assert_eq!(
        gate.missing_clusters().is_empty(),
        gate.closes_until.is_none()
    );
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
    let own = OwnSettings {
        settings: ServiceSettings::default(),
        created: None,
    };
    let rules = crate::settings::Settings::of_cluster("hub".parse().unwrap()).rules();
    for own in [Some(&own), None] {
        assert_eq!(Gate::new(own, &BTreeSet::new(), &rules, Timestamp(0)), None);
    }
}
