//! Values of flags. Each error names the expected form.

use std::net::{IpAddr, SocketAddr};

use hyper::Uri;
use hyper::http::uri::Authority;

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
    is_subject(text)
        .then(|| text.to_owned())
        .ok_or(rule.to_owned())
}

/// Parses the address of a server's API: an `http` URL, or a host and a port.
pub(super) fn parse_server(text: &str) -> Result<Uri, String> {
    let url = if text.contains("://") {
        text.to_owned()
    } else {
        format!("http://{text}")
    };
    let url = url.parse().ok().filter(|url: &Uri| {
        // A port that is no number up to 65535 is a part of the authority, and no port.
        url.scheme_str() == Some("http")
            && (url.port().is_some()
                || text.contains("://") && url.authority().map(Authority::as_str) == url.host())
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
