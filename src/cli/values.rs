//! Values of flags. Each error names the expected form.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use strum::IntoStaticStr;

use crate::settings::API_PORT;
use crate::view::is_subject;
use crate::zone::Name;

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

/// Parses the name or the address of `explain`.
pub(super) fn parse_subject(text: &str) -> Result<String, String> {
    match is_subject(text) {
        true => Ok(text.to_owned()),
        false => {
            let rule = "a label has 1 to 63 octets, and a name 255";
            Err(format!("it is not a domain name: {rule}"))
        }
    }
}

/// Parses the address of a server's API: a URL, or a host with an optional port.
pub(super) fn parse_server(text: &str) -> Result<http::Uri, String> {
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
        (None, Some(host)) => format!("http://{host}:{API_PORT}")
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
