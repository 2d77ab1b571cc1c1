//! Times for people: in their zone, with its name. Documents have times in UTC (RFC 3339).

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::origin::note;

/// The form of a time in UTC, without its fraction.
const FORM: &str = "dddd-dd-ddTdd:dd:dd";

/// Returns the zone of the reader: that of `TZ`, or that of the system. If it is not known, as in an image without data of time
/// zones, times stay in UTC, and a note says so if somebody asked for another zone.
fn zone() -> TimeZone {
    TimeZone::try_system().unwrap_or_else(|_| {
        if let Some(named) = std::env::var("TZ").ok().filter(|named| !named.is_empty()) {
            note(&format!(
                "time zone '{}' of TZ is not known here; times are in UTC",
                named.escape_default()
            ));
        }
        TimeZone::UTC
    })
}

/// Replaces the times of a text, which are in UTC, with those of the reader's zone.
pub(super) fn with_local_times(text: &str) -> String {
    with_times_of(text, &zone())
}

fn with_times_of(text: &str, zone: &TimeZone) -> String {
    let mut local = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, time, after)) = next_time(rest) {
        local.push_str(before);
        local.push_str(&localized(time, zone));
        rest = after;
    }
    local + rest
}

/// Returns a time of a zone: `2026-11-24 03:12:00 CET`, or with an offset if the zone has no name for it. A time in UTC stays as
/// it is: `2026-11-24T03:12:00Z`.
fn localized(text: &str, zone: &TimeZone) -> String {
    let Some(time) = text
        .parse::<Timestamp>()
        .ok()
        .filter(|time| zone.to_offset_info(*time).abbreviation() != "UTC")
    else {
        return text.to_owned();
    };
    let fraction = if text.contains('.') { "%.3f" } else { "" };
    let time = time.to_zoned(zone.clone());
    time.strftime(&format!("%Y-%m-%d %H:%M:%S{fraction} %Z"))
        .to_string()
}

/// Returns the first time of a text, with the text before and after it.
fn next_time(text: &str) -> Option<(&str, &str, &str)> {
    let is_start = |start: &usize| {
        let mut form = FORM.bytes().zip(text.bytes().skip(*start));
        let is_like = |(form, octet): (u8, u8)| {
            if form == b'd' {
                octet.is_ascii_digit()
            } else {
                form == octet
            }
        };
        text.len() >= start + FORM.len() && form.all(is_like)
    };
    let candidates = text
        .match_indices('T')
        .filter_map(|(at, _)| at.checked_sub(10));
    candidates
        .filter(|start| is_start(start))
        .find_map(|start| {
            let end = start + text[start..].find('Z')? + 1;
            let time = &text[start..end];
            time.parse::<Timestamp>().ok()?;
            Some((&text[..start], time, &text[end..]))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_text_are_in_the_zone_of_the_reader_with_its_name() {
        let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        for (text, expected) in [
            ("", ""),
            ("no time, Tuesday", "no time, Tuesday"),
            (
                "at 2026-11-24T03:12:00.250Z\nsince 2026-07-01T00:00:00Z (x)",
                "at 2026-11-24 04:12:00.250 CET\nsince 2026-07-01 02:00:00 CEST (x)",
            ),
            // These are no times.
            ("2026-11-24T03:12:00", "2026-11-24T03:12:00"),
            ("2026-99-24T03:12:00Z ÄT", "2026-99-24T03:12:00Z ÄT"),
            ("ÄÄÄÄÄT03:12:00Z", "ÄÄÄÄÄT03:12:00Z"),
        ] {
            assert_eq!(with_times_of(text, &berlin), expected);
        }
        let offset = TimeZone::posix("<+0530>-5:30").unwrap();
        assert_eq!(
            with_times_of("2026-11-24T03:12:00Z", &offset),
            "2026-11-24 08:42:00 +0530"
        );
        let utc = "2026-11-24T03:12:00Z";
        assert_eq!(with_times_of(utc, &TimeZone::UTC), utc);
    }
}
