//! Which `Host` the API answers (RFC 9110 section 7.2).
//!
//! A web page may let its own name lead to an address of this server (DNS rebinding). Its reader's browser then takes what
//! the API says for that page's, and hands it over. But the requests still name the page's host: those are refused.

use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::HOST;
use axum::http::{StatusCode, Version};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::server::LocalAddress;

/// A host as URLs have it: a name in lower case, without a dot at its end, or an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiHost {
    /// An IPv4 or IPv6 address.
    Address(IpAddr),
    /// A name.
    Name(String),
}

/// `--api-host`: hosts that requests may give besides those that are always ours. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ApiHosts(Arc<[ApiHost]>);

/// A text that is no host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a host is a name or an IP address, without a port")]
pub struct InvalidHost;

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// It has no host, several, or one that cannot be read (RFC 9112 section 3.2).
    Malformed,
    /// Its host is another one's (RFC 9110 section 15.5.20).
    Misdirected,
}

/// Lets requests pass that name this server.
pub(super) async fn check(
    State(hosts): State<ApiHosts>,
    request: Request,
    next: Next,
) -> Result<Response, Response> {
    match hosts.judge(&request) {
        Ok(()) => Ok(next.run(request).await),
        Err(refusal) => Err(refusal.into_response()),
    }
}

// === impl ApiHosts ===

impl ApiHosts {
    /// Allows these hosts, too.
    pub fn new(hosts: Vec<ApiHost>) -> Self {
        Self(hosts.into())
    }

    fn judge<B>(&self, request: &http::Request<B>) -> Result<(), Refusal> {
        let mut headers = request.headers().get_all(HOST).iter();
        let header = headers.next();
        if headers.next().is_some() || (header.is_none() && request.version() >= Version::HTTP_11) {
            return Err(Refusal::Malformed);
        }
        let text = match (request.uri().authority(), header) {
            // An absolute-form target counts, and the header does not (RFC 9112 section 3.2.2).
            (Some(authority), _) => authority.as_str(),
            (None, Some(header)) => header.to_str().map_err(|_| Refusal::Malformed)?,
            // HTTP/1.0, which no browser speaks.
            (None, None) => return Ok(()),
        };
        let host = host_of(text).ok_or(Refusal::Malformed)?;
        let local = request.extensions().get::<LocalAddress>();
        match self.is_ours(&host, local) {
            true => Ok(()),
            false => Err(Refusal::Misdirected),
        }
    }

    /// Tells whether a host is loopback, the address that the request came to, or one of `--api-host`.
    fn is_ours(&self, host: &ApiHost, local: Option<&LocalAddress>) -> bool {
        let is_own = match host {
            ApiHost::Address(ip) => {
                ip.is_loopback() || local.is_some_and(|local| local.0.to_canonical() == *ip)
            }
            ApiHost::Name(name) => name == "localhost",
        };
        is_own || self.0.contains(host)
    }
}

/// Reads a host in front of a port, if there is one (RFC 3986 section 3.2).
fn host_of(text: &str) -> Option<ApiHost> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            let address: Ipv6Addr = address.parse().ok()?;
            (
                ApiHost::of(address.into()),
                port.strip_prefix(':').or(port.is_empty().then_some(""))?,
            )
        }
        None => {
            let (host, port) = text.split_once(':').unwrap_or((text, ""));
            // An IPv6 address has brackets.
            (host.parse().ok()?, port)
        }
    };
    port.bytes()
        .all(|octet| octet.is_ascii_digit())
        .then_some(host)
}

// === impl ApiHost ===

impl ApiHost {
    fn of(address: IpAddr) -> Self {
        Self::Address(address.to_canonical())
    }
}

impl FromStr for ApiHost {
    type Err = InvalidHost;

    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        if let Ok(address) = text.parse() {
            return Ok(Self::of(address));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        let is_label = |label: &str| {
            let is_fit = |octet: u8| octet.is_ascii_alphanumeric() || b"-_".contains(&octet);
            (1..=63).contains(&label.len()) && label.bytes().all(is_fit)
        };
        match name.len() <= 253 && name.split('.').all(is_label) {
            true => Ok(Self::Name(name.to_ascii_lowercase())),
            false => Err(InvalidHost),
        }
    }
}

// === impl Refusal ===

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        // What was sent is not said again: it is somebody else's.
        let (status, sentence) = match self {
            Self::Malformed => (
                StatusCode::BAD_REQUEST,
                "a request names one host, and a valid one\n",
            ),
            Self::Misdirected => (
                StatusCode::MISDIRECTED_REQUEST,
                "this host is not one of the server's: allow it with --api-host\n",
            ),
        };
        (status, sentence).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Result<(), Refusal> = Ok(());
    const MALFORMED: Result<(), Refusal> = Err(Refusal::Malformed);
    const MISDIRECTED: Result<(), Refusal> = Err(Refusal::Misdirected);

    /// Judges a request that came to 192.0.2.7.
    fn judge(version: Version, target: &str, hosts: &[&str]) -> Result<(), Refusal> {
        let allowed = ["dns.example.com", "198.51.100.1", "2001:db8::1"];
        let allowed = allowed.map(|host| host.parse().unwrap());
        let mut request = http::Request::get(target)
            .version(version)
            .extension(LocalAddress([192, 0, 2, 7].into()));
        for host in hosts {
            request = request.header(HOST, *host);
        }
        ApiHosts::new(allowed.to_vec()).judge(&request.body(()).unwrap())
    }

    fn judge_host(host: &str) -> Result<(), Refusal> {
        judge(Version::HTTP_11, "/api/v1/table", &[host])
    }

    #[test]
    fn loopback_the_own_address_and_those_allowed_are_ours() {
        for host in [
            "localhost",
            "LocalHost:9154",
            "localhost.:1",
            "127.0.0.1",
            "127.0.0.1:",
            "127.255.0.1:19154",
            "[::1]",
            "[::1]:9154",
            "[0:0::1]:9154",
            "[::ffff:127.0.0.1]:9154",
            "192.0.2.7:9154",
            "[::ffff:192.0.2.7]",
            "dns.example.com",
            "DNS.Example.COM.:80",
            "198.51.100.1:9154",
            "[2001:db8:0::1]:9154",
        ] {
            assert_eq!(judge_host(host), OURS, "{host}");
        }
    }

    #[test]
    fn every_other_host_is_somebody_elses() {
        for host in [
            "attacker.example",
            "attacker.example:9154",
            "localhost.attacker.example",
            "127.0.0.1.attacker.example:9154",
            "attacker-localhost",
            "a.dns.example.com",
            "192.0.2.8",
            "[2001:db8::2]:9154",
            "0.0.0.0:9154",
            "[::]:9154",
            // A browser writes these as 127.0.0.1.
            "127.1:9154",
            "2130706433",
            "0x7f000001",
        ] {
            assert_eq!(judge_host(host), MISDIRECTED, "{host}");
        }
    }

    #[test]
    fn what_is_no_host_is_malformed() {
        for host in [
            "",
            ":9154",
            ".",
            "localhost..",
            "localhost:http",
            "localhost:1:2",
            "::1",
            "[::1",
            "::1]",
            "[::1]9154",
            "[localhost]",
            "[127.0.0.1]",
            "[fe80::1%eth0]:9154",
            "attacker.example@localhost",
            "localhost@attacker.example",
            "localhost, attacker.example",
            "localhost/",
            "local host",
            "lo\u{7f}calhost",
        ] {
            // A header cannot hold some of these.
            if http::HeaderValue::from_str(host).is_ok() {
                assert_eq!(judge_host(host), MALFORMED, "{host}");
            }
            assert_eq!(host_of(host), None, "{host}");
        }
    }

    #[test]
    fn a_request_names_one_host() {
        const PATH: &str = "/api/v1/table";
        const OWN: &str = "http://localhost:9154/api/v1/table";
        const OTHER: &str = "http://attacker.example/api/v1/table";
        for (version, target, hosts, verdict) in [
            (Version::HTTP_11, PATH, &[][..], MALFORMED),
            (
                Version::HTTP_11,
                PATH,
                &["localhost", "localhost"],
                MALFORMED,
            ),
            (
                Version::HTTP_11,
                PATH,
                &["localhost", "attacker.example"],
                MALFORMED,
            ),
            (
                Version::HTTP_10,
                PATH,
                &["localhost", "attacker.example"],
                MALFORMED,
            ),
            (Version::HTTP_10, PATH, &[], OURS),
            (Version::HTTP_10, PATH, &["localhost"], OURS),
            (Version::HTTP_10, PATH, &["attacker.example"], MISDIRECTED),
            (Version::HTTP_11, OWN, &["localhost"], OURS),
            (Version::HTTP_11, OWN, &["attacker.example"], OURS),
            (Version::HTTP_11, OTHER, &["localhost"], MISDIRECTED),
            (Version::HTTP_10, OTHER, &[], MISDIRECTED),
            (Version::HTTP_11, OWN, &[], MALFORMED),
            (Version::HTTP_11, "*", &["attacker.example"], MISDIRECTED),
        ] {
            assert_eq!(judge(version, target, hosts), verdict, "{target} {hosts:?}");
        }
    }

    #[test]
    fn a_flag_takes_a_name_or_an_address() {
        for good in [
            "dns.example.com",
            "dns",
            "192.0.2.1",
            "2001:db8::1",
            "my_host.",
        ] {
            assert!(good.parse::<ApiHost>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "dns:80",
            "http://dns",
            "[::1]",
            "*",
            "*.example.com",
            "a..b",
            "dns/",
        ] {
            assert_eq!(bad.parse::<ApiHost>(), Err(InvalidHost), "{bad}");
        }
    }
}
