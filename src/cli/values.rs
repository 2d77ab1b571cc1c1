//! Values of flags. Each error names the expected form.

use std::net::{IpAddr, SocketAddr};

use http::Uri;

use crate::settings::API_PORT;
use crate::view::is_subject;
use crate::zone::Name;

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
    let rule = "it is not a domain name: a label has 1 to 63 octets, and a name 255";
    let is_subject = is_subject(text);
    is_subject.then(|| text.to_owned()).ok_or(rule.to_owned())
}

/// Parses the address of a server's API: an `http` URL, or a host with an optional port.
pub(super) fn parse_server(text: &str) -> Result<Uri, String> {
    let url = match (text.contains("://"), text.parse()) {
        (true, _) => text.to_owned(),
        (false, Ok(IpAddr::V6(ip))) => format!("http://[{ip}]:{API_PORT}"),
        (false, _) if text.contains(':') && !text.ends_with(']') => format!("http://{text}"),
        (false, _) => format!("http://{text}:{API_PORT}"),
    };
    let parsed: Option<Uri> = url.parse().ok();
    match parsed.filter(|url| url.authority().is_some()) {
        Some(url) if url.scheme_str() == Some("http") => Ok(url),
        Some(_) => Err(
            "only http:// is supported; kubectl port-forward provides such an address".to_owned(),
        ),
        None => {
            Err("expected a URL or HOST:PORT: http://127.0.0.1:9154, localhost:9154".to_owned())
        }
    }
}

/// Parses a domain name.
pub(super) fn parse_name(text: &str) -> Result<Name, String> {
    let name = Name::from_text(text);
    name.ok_or_else(|| "expected a domain name, for example db.prod.global".to_owned())
}
