//! Values of flags. Each error names the expected form.

use std::net::{IpAddr, SocketAddr};

use hyper::Uri;
use jiff::{Zoned, civil};

use crate::model::Timestamp;
use crate::settings::Period;
use crate::view::is_subject;
use crate::zone::Name;

/// Parses the address of a name server. The default port is 53.
pub(super) fn parse_name_server(text: &str) -> Result<SocketAddr, String> {
    const PORT: u16 = 53;
    let bare = || text.parse().map(|ip: IpAddr| SocketAddr::new(ip, PORT));
    let address = text.parse().or_else(|_| bare()).ok();
    let address = address.filter(|address: &SocketAddr| address.port() != 0);
    let examples = "10.96.0.53, 10.96.0.53:5353, [2001:db8::53]:5353";
    address.ok_or_else(|| format!("expected an IP address with an optional port: {examples}"))
}

/// Parses the name or the address of `explain`.
pub(super) fn parse_subject(text: &str) -> Result<String, String> {
    let rule = "it is not a domain name: a label has 1 to 63 octets, and a name 255";
    let is_subject = is_subject(text);
    is_subject.then(|| text.to_owned()).ok_or(rule.to_owned())
}

/// Parses the address of a server's API: an `http` URL, or a host and a port.
pub(super) fn parse_server(text: &str) -> Result<Uri, String> {
    let url = match text.contains("://") {
        true => text.to_owned(),
        false => format!("http://{text}"),
    };
    let url = url.parse().ok().filter(|url: &Uri| {
        url.scheme_str() == Some("http") && (url.port().is_some() || text.contains("://"))
    });
    let forms =
        "expected HOST:PORT or an http:// URL, as kubectl port-forward provides: localhost:9154";
    url.ok_or_else(|| forms.to_owned())
}

/// Parses a domain name.
pub(super) fn parse_name(text: &str) -> Result<Name, String> {
    let name = Name::from_text(text);
    name.ok_or_else(|| "expected a domain name, for example db.prod.global".to_owned())
}

/// Parses a time of the past: RFC 3339, a time of the day in the local zone (the last such time), or the time that has passed
/// since, such as `90m` or `-90m`.
pub(super) fn parse_time(text: &str) -> Result<Timestamp, String> {
    parse_time_at(text, &Zoned::now())
}

fn parse_time_at(text: &str, now: &Zoned) -> Result<Timestamp, String> {
    let mut forms = ["%H:%M:%S", "%H:%M"].into_iter();
    let of_day = |time| {
        let on = |day: &Zoned| day.with().time(time).build().ok();
        let past = |time: &Zoned| time <= now;
        on(now).filter(past).or_else(|| on(&now.yesterday().ok()?))
    };
    let ago = || {
        let ago: Period = text.trim_start_matches('-').parse().ok()?;
        now.checked_sub(ago.0).ok()
    };
    let time = forms.find_map(|form| civil::Time::strptime(form, text).ok());
    let time = time.map_or_else(ago, of_day);
    let time = time.and_then(|time| u64::try_from(time.timestamp().as_millisecond()).ok());
    let time = Timestamp::from_text(text).or(time.map(Timestamp));
    let examples =
        "a time is like 03:12 (the last such local time), 90m (ago), or 2026-11-24T03:12:00Z";
    time.ok_or_else(|| examples.to_owned())
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
        ] {
            assert!(parse_time_at(text, &now).is_err(), "{text}");
        }
    }
}
