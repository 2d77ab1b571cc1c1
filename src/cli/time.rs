//! Times of the past, as flags.

use jiff::{Zoned, civil};

use crate::model::Timestamp;
use crate::settings::Period;

/// Parses a time of the past: RFC 3339, a time of the day in the local zone (the last such time), or the time that has passed
/// since, such as `90m` or `-90m`.
pub(super) fn parse_time(text: &str) -> Result<Timestamp, String> {
    parse_time_at(text, &Zoned::now())
}

fn parse_time_at(text: &str, now: &Zoned) -> Result<Timestamp, String> {
    let milliseconds =
        |time: jiff::Timestamp| u64::try_from(time.as_millisecond()).ok().map(Timestamp);
    // The parser of durations also takes times of the day.
    let parsed = if let Some(time) = time_of_day(text) {
        last_time_of_day(time, now).and_then(|time| milliseconds(time.timestamp()))
    } else if let Ok(Period(ago)) = text.trim_start_matches('-').parse() {
        milliseconds(now.timestamp()).map(|now| now.before(ago))
    } else {
        Timestamp::from_text(text)
    };
    let examples =
        "a time is like 03:12 (the last such local time), 90m (ago), or 2026-11-24T03:12:00Z";
    parsed.ok_or_else(|| examples.to_owned())
}

/// Parses a time of the day.
fn time_of_day(text: &str) -> Option<civil::Time> {
    let forms = ["%H:%M", "%H:%M:%S"].into_iter();
    forms
        .flat_map(|form| civil::Time::strptime(form, text))
        .next()
}

/// Returns the last time at which the clocks of the zone of `now` showed a time of the day.
fn last_time_of_day(time: civil::Time, now: &Zoned) -> Option<Zoned> {
    let of_day = |day: &Zoned| day.with().time(time).build().ok();
    let today = of_day(now).filter(|today| today <= now);
    today.or_else(|| of_day(&now.yesterday().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_of_the_local_zone_ago_or_complete() {
        // 02:30 does not exist on the day on which summer time begins, and 24 hours later is another offset.
        let now: Zoned = "2026-03-29T12:00:00+02:00[Europe/Berlin]".parse().unwrap();
        for (text, expected) in [
            ("11:59", "2026-03-29T09:59:00Z"),
            ("12:00", "2026-03-29T10:00:00Z"),
            ("12:00:01", "2026-03-28T11:00:01Z"),
            ("23:12", "2026-03-28T22:12:00Z"),
            ("-90m", "2026-03-29T08:30:00Z"),
            ("90m", "2026-03-29T08:30:00Z"),
            ("-1h30m", "2026-03-29T08:30:00Z"),
            ("-0s", "2026-03-29T10:00:00Z"),
            ("2026-03-01T00:00:00+01:00", "2026-02-28T23:00:00Z"),
        ] {
            let time = parse_time_at(text, &now).unwrap();
            assert_eq!(time.to_text(), expected, "{text}");
        }
        for text in ["", "-", "25:00", "yesterday", "2026-03-01", "-x"] {
            assert!(parse_time_at(text, &now).is_err(), "{text}");
        }
    }
}
