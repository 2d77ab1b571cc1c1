//! Values of flags: enumerations, pairs, durations, TTLs. Each error names the expected form.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use strum::IntoStaticStr;

use crate::explain::Subject;
use crate::log::LogFormat;
use crate::model::{GatewayDown, ServiceKey};
use crate::table::{Grammar, LocalMembers, ShortNames};
use crate::zone::{AnswerOrder, Name, ZoneName, Zones};

/// Names the values of an enumeration on the command line, with their help.
macro_rules! choice {
    ($type:ident { $($variant:ident = $text:literal $help:literal,)+ }) => {
        impl ValueEnum for $type {
            fn value_variants<'a>() -> &'a [Self] {
                &[$(Self::$variant,)+]
            }

            fn to_possible_value(&self) -> Option<PossibleValue> {
                let (name, help) = match self {
                    $(Self::$variant => ($text, $help),)+
                };
                Some(PossibleValue::new(name).help(help))
            }
        }
    };
}

/// A value of `--zone`: a zone, with its grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneArg {
    /// Its apex.
    pub name: ZoneName,
    /// The grammar of the names in it.
    pub grammar: Grammar,
}

impl fmt::Display for ZoneArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.grammar {
            Grammar::Global => write!(f, "{}", self.name),
            Grammar::Mcs => write!(f, "{}={MCS}", self.name),
        }
    }
}

/// The name of the grammar of the Multi-Cluster Services API.
const MCS: &str = "mcs";

/// Parses `ZONE` or `ZONE=mcs`.
///
/// # Errors
///
/// If the name or the grammar is invalid.
pub fn parse_zone(text: &str) -> Result<ZoneArg, String> {
    let (name, grammar) = match text.split_once('=') {
        None => (text, Grammar::Global),
        Some((name, MCS)) => (name, Grammar::Mcs),
        Some((_, other)) => {
            return Err(format!("'{other}' is not a grammar; the only one is {MCS}"));
        }
    };
    let name = parse(name)?;
    Ok(ZoneArg { name, grammar })
}

choice! {
    AnswerOrder {
        Rotate = "rotate" "Each answer starts at a random record; the others follow in order",
        LocalFirst = "local-first" "Records of this cluster first; both parts rotated",
    }
}
choice! {
    ShortNames {
        On = "on" "Every headless service has a short name, unless several namespaces have one of its name; other services as with pinned",
        Pinned = "pinned" "Only the short names of --short-name and --default-namespace",
        Off = "off" "No short names",
    }
}
choice! {
    GatewayDown {
        LastResort = "last-resort" "Omitted, unless the name would have no endpoint left",
        Include = "include" "Returned like other endpoints",
    }
}
choice! {
    LocalMembers {
        Matching = "matching" "Exported Services, and Services with an annotation of this server or a mirror of the same name",
        Exported = "exported" "Exported Services",
        Off = "off" "No Services",
    }
}
choice! {
    LogFormat {
        Text = "text" "One line of text for each message",
        Json = "json" "One JSON object for each message",
    }
}

/// `--output` of all commands. Each command names the formats that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Output {
    /// Text for people.
    Text,
    /// Text with all columns.
    Wide,
    /// One JSON document.
    Json,
    /// A zone file (RFC 1035).
    Zone,
    /// A Markdown document.
    Markdown,
}

/// Returns the parser of the formats of a command.
pub(super) fn outputs(all: &'static [Output]) -> impl TypedValueParser<Value = Output> {
    one_of(all, Output::into)
}

/// Returns the parser of one of some values. Their names suffice as help.
pub(super) fn one_of<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let names = PossibleValuesParser::new(all.iter().map(|one| name(*one)));
    names.map(move |text| {
        let named = all.iter().find(|one| name(**one) == text);
        *named.expect("clap returns one of the names")
    })
}

/// Parses a value by its type.
pub(super) fn parse<T: FromStr<Err: fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

pub(super) fn parse_pair<K, V>(text: &str) -> Result<(K, V), String>
where
    K: FromStr<Err: fmt::Display>,
    V: FromStr<Err: fmt::Display>,
{
    let (key, value) = text
        .split_once('=')
        .ok_or("the value has no '='; write two parts separated by '='")?;
    Ok((parse(key)?, parse(value)?))
}

/// Parses the address of a name server. The default port is 53.
pub(super) fn parse_name_server(text: &str) -> Result<SocketAddr, String> {
    const PORT: u16 = 53;
    let bare = || text.parse().map(|ip: IpAddr| SocketAddr::new(ip, PORT));
    match text.parse().or_else(|_| bare()) {
        Ok(address) if address.port() != 0 => Ok(address),
        _ => Err(
            "expected an IP address with an optional port: 10.96.0.53, 10.96.0.53:5353, [2001:db8::53]:5353"
                .to_owned(),
        ),
    }
}

/// Parses `NAMESPACE/SERVICE`.
pub(super) fn parse_service(text: &str) -> Result<ServiceKey, String> {
    let (namespace, service) = text
        .trim()
        .split_once('/')
        .ok_or_else(|| format!("'{text}' has no '/'; write NAMESPACE/SERVICE"))?;
    Ok(ServiceKey {
        namespace: parse(namespace)?,
        service: parse(service)?,
    })
}

/// Parses a value of `--alias`: `S.N=S1.N1+S2.N2`.
pub(super) fn parse_alias(text: &str) -> Result<(ServiceKey, Vec<ServiceKey>), String> {
    let name = |text: &str| {
        let (service, namespace) = text
            .trim()
            .split_once('.')
            .ok_or_else(|| format!("'{text}' has no '.'; write SERVICE.NAMESPACE"))?;
        Ok::<_, String>(ServiceKey {
            namespace: parse(namespace)?,
            service: parse(service)?,
        })
    };
    let (alias, services) = text
        .split_once('=')
        .ok_or("it has no '='; write SERVICE.NAMESPACE=SERVICE.NAMESPACE+SERVICE.NAMESPACE")?;
    let services = services.split('+').map(name).collect::<Result<_, _>>()?;
    Ok((name(alias)?, services))
}

/// Parses the name or the address of `explain`.
pub(super) fn parse_subject(text: &str) -> Result<String, String> {
    match Subject::parse(&Zones::new(Vec::new()), None, text) {
        Some(_) => Ok(text.to_owned()),
        None => {
            let rule = "a label has 1 to 63 octets, and a name 255";
            Err(format!("it is not a domain name: {rule}"))
        }
    }
}

/// Parses the address of a server's API: a URL, or a host with an optional port.
pub(super) fn parse_server(text: &str) -> Result<http::Uri, String> {
    /// The default port of `--api-listen`.
    const PORT: u16 = 9154;
    let expected =
        || "expected a URL or HOST:PORT: http://127.0.0.1:9154, localhost:9154".to_owned();
    let address = match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(ip)) => format!("[{ip}]"),
        _ => text.to_owned(),
    };
    let uri: http::Uri = address.parse().map_err(|_| expected())?;
    match (uri.scheme(), uri.authority()) {
        (Some(_), Some(_)) => Ok(uri),
        (None, Some(host)) if host.port().is_some() => {
            format!("http://{host}").parse().map_err(|_| expected())
        }
        (None, Some(host)) => format!("http://{host}:{PORT}")
            .parse()
            .map_err(|_| expected()),
        (_, None) => Err(expected()),
    }
}

/// Parses a domain name.
pub(super) fn parse_name(text: &str) -> Result<Name, String> {
    Name::from_text(text)
        .ok_or_else(|| "expected a domain name, for example db.prod.global".to_owned())
}

pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let unreadable =
        || "a duration is a number and a unit, for example 500ms, 5s or 15m".to_owned();
    let duration: jiff::SignedDuration = text.parse().map_err(|_| unreadable())?;
    Duration::try_from(duration).map_err(|_| unreadable())
}

/// Parses a text of an answer about the server. It must fit into a small message.
pub(super) fn parse_text(text: &str) -> Result<String, String> {
    const MAX_LENGTH: usize = 128;
    match text.len() {
        1..=MAX_LENGTH => Ok(text.to_owned()),
        _ => Err(format!("expected a text of 1 to {MAX_LENGTH} octets")),
    }
}

/// Parses a TTL. A TTL has 31 bits (RFC 2181 section 8); the limit of one day is this program's.
pub(super) fn parse_ttl(text: &str) -> Result<u32, String> {
    const DAY: u32 = 86_400;
    match text.parse() {
        Ok(ttl) if (1..=DAY).contains(&ttl) => Ok(ttl),
        _ => Err(format!("a TTL is a number of seconds between 1 and {DAY}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Namespace, ServiceName};

    #[test]
    fn duration_without_unit_is_refused() {
        assert_eq!(parse_duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        for bad in ["", "5", "-5s", "soon"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn name_server_is_an_address_with_optional_port() {
        for (text, address) in [
            ("10.96.0.53", "10.96.0.53:53"),
            ("10.96.0.53:5353", "10.96.0.53:5353"),
            ("2001:db8::53", "[2001:db8::53]:53"),
            ("[2001:db8::53]:5353", "[2001:db8::53]:5353"),
        ] {
            assert_eq!(parse_name_server(text), Ok(address.parse().unwrap()));
        }
        for bad in [
            "",
            "dns",
            "http://127.0.0.1:9154",
            "127.0.0.1:0",
            "10.96.0",
            "10.96.0.53:x",
        ] {
            assert!(parse_name_server(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn server_is_a_url_or_a_host_with_optional_port() {
        for (text, url) in [
            ("http://127.0.0.1:9154", "http://127.0.0.1:9154/"),
            ("http://dns.example/global", "http://dns.example/global"),
            ("127.0.0.1:19154", "http://127.0.0.1:19154/"),
            ("localhost:9154", "http://localhost:9154/"),
            ("localhost", "http://localhost:9154/"),
            ("[::1]:80", "http://[::1]:80/"),
            ("::1", "http://[::1]:9154/"),
        ] {
            let parsed = parse_server(text).map(|url| url.to_string());
            assert_eq!(parsed.as_deref(), Ok(url), "{text}");
        }
        for bad in ["", "/api", "http://", "a b", "::1:"] {
            assert!(parse_server(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn both_sides_of_a_pair_are_checked() {
        let pair = parse_pair::<ServiceName, Namespace>;
        assert_eq!(
            pair("db=prod"),
            Ok(("db".parse().unwrap(), "prod".parse().unwrap()))
        );
        for bad in ["db", "db=", "=prod", "db=Prod", "d b=prod"] {
            assert!(pair(bad).is_err(), "{bad}");
        }
    }
}
