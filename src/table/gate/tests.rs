use super::*;
use crate::model::Settings;

const HOUR: Duration = Duration::from_secs(3600);

fn own(created: Option<u64>, since: Option<&str>) -> OwnSettings {
    let settings = Settings {
        expected_since: since.map(|text| Timestamp::from_text(text).unwrap()),
        ..Settings::default()
    };
    OwnSettings::new(settings, created.map(Timestamp::from_seconds))
}

fn window(own: &OwnSettings, length: Duration, now: u64) -> Window {
    Window::of(Some(own), length, Timestamp::from_seconds(now))
}

#[test]
fn window_begins_with_the_service_and_ends() {
    let own = own(Some(10_000), None);
    let end = Timestamp::from_seconds(13_600);
    assert_eq!(window(&own, HOUR, 10_000), Window::Open(Some(end)));
    assert_eq!(window(&own, HOUR, 13_599), Window::Open(Some(end)));
    assert_eq!(window(&own, HOUR, 13_600), Window::Over(end));
    // The clock of the API server may be ahead.
    assert_eq!(window(&own, HOUR, 9_940), Window::Open(Some(end)));
    let first = Timestamp::from_seconds(9_940);
    assert_eq!(window(&own, HOUR, 9_939), Window::Future(first));
}

#[test]
fn annotation_begins_another_window() {
    let own = own(Some(10_000), Some("1970-01-01T10:00:00Z"));
    let end = Timestamp::from_seconds(39_600);
    assert_eq!(window(&own, HOUR, 36_000), Window::Open(Some(end)));
    assert_eq!(window(&own, HOUR, 39_600), Window::Over(end));
    let first = Timestamp::from_seconds(35_940);
    assert_eq!(window(&own, HOUR, 10_000), Window::Future(first));
}

#[test]
fn window_of_length_zero_does_not_end() {
    let own = own(Some(10_000), None);
    assert_eq!(window(&own, Duration::ZERO, 9_999_999), Window::Open(None));
}

#[test]
fn window_needs_a_service_with_a_time() {
    assert_eq!(window(&own(None, None), HOUR, 10_000), Window::Undated);
    let none = Window::of(None, HOUR, Timestamp::from_seconds(10_000));
    assert_eq!(none, Window::WithoutService);
    let dated = own(None, Some("1970-01-01T01:00:00Z"));
    assert!(matches!(window(&dated, HOUR, 3_700), Window::Open(Some(_))));
}

#[test]
fn gate_is_evaluated_again_when_its_window_begins_or_ends() {
    let wake = |window| {
        Gate {
            expected: "north".parse().unwrap(),
            missing: Box::default(),
            window,
        }
        .wake()
    };
    let time = Timestamp::from_seconds(13_600);
    for (window, expected) in [
        (Window::Open(Some(time)), Some(time)),
        (Window::Open(None), None),
        (Window::Future(time), Some(time)),
        (Window::Over(time), None),
        (Window::Undated, None),
        (Window::WithoutService, None),
    ] {
        assert_eq!(wake(window), expected, "{window:?}");
    }
}
