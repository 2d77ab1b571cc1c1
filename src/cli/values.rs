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
    let host = match text.parse() {
        Ok(IpAddr::V6(ip)) => format!("[{ip}]"),
        _ => text.to_owned(),
    };
    let url = if text.contains("://") {
        host
    } else {
        format!("http://{host}")
    };
    let parsed: Option<Uri> = url.parse().ok();
    let parsed = parsed.filter(|url| url.authority().is_some());
    let parsed =
        parsed.ok_or("expected a URL or HOST:PORT: http://127.0.0.1:9154, localhost:9154")?;
    if parsed.scheme_str() != Some("http") {
        return Err(
            "only http:// is supported; kubectl port-forward provides such an address".to_owned(),
        );
    }
    match parsed.port() {
        None if !text.contains("://") => {
            let url = format!("{}:{API_PORT}", url.trim_end_matches('/'));
            url.parse().map_err(|error| format!("{error}"))
        }
        _ => Ok(parsed),
    }
}

/// Parses a domain name.
pub(super) fn parse_name(text: &str) -> Result<Name, String> {
    let name = Name::from_text(text);
    name.ok_or_else(|| "expected a domain name, for example db.prod.global".to_owned())
}
