//! Times of the past, as people and programs write them.

use jiff::{SignedDuration, Zoned, civil};
use serde::{Deserialize as _, Deserializer, de};

use crate::model::Timestamp;

/// Parses a time of the past: RFC 3339, a time of the day in the local zone (the last such time), or the time that has passed
/// since, such as `90m` or `-90m`.
///
/// # Errors
///
/// If it is none of these.
pub fn past_time(text: &str) -> Result<Timestamp, String> {
    past_time_at(text, &Zoned::now())
}

fn past_time_at(text: &str, now: &Zoned) -> Result<Timestamp, String> {
    let mut forms = ["%H:%M:%S", "%H:%M"].into_iter();
    let of_day = |time| {
        let on = |day: &Zoned| day.with().time(time).build().ok();
        let past = |time: &Zoned| time <= now;
        on(now).filter(past).or_else(|| on(&now.yesterday().ok()?))
    };
    let ago = || {
        let ago = text.parse::<SignedDuration>().ok()?;
        now.checked_sub(ago.unsigned_abs()).ok()
    };
    let time = forms
        .find_map(|form| civil::Time::strptime(form, text).ok())
        .map_or_else(ago, of_day);
    let time = time.and_then(|time| u64::try_from(time.timestamp().as_millisecond()).ok());
    let examples =
        "a time is like 03:12 (the last such local time), 90m (ago), or 2026-11-24T03:12Z";
    Timestamp::from_text(text)
        .or(time.map(Timestamp))
        .ok_or_else(|| examples.to_owned())
}

/// Reads the time of a parameter.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Timestamp>, D::Error> {
    past_time(&String::deserialize(from)?)
        .map(Some)
        .map_err(de::Error::custom)
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
            let time = past_time_at(text, &now).unwrap();
            assert_eq!(time.to_text(), expected, "{text}");
        }
        for text in [
            "",
            "-",
            "25:00",
            "yesterday",
            "2026-03-01",
            "2026-03-01T12:00:00",
            "2026-03-01 12:00",
            "12:00+09",
            "-x",
            // The least duration has no opposite.
            "-9223372036854775808s",
            "9223372036854775807s",
        ] {
            assert!(past_time_at(text, &now).is_err(), "{text}");
        }
    }
}
