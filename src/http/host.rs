//! The hosts that requests to the API may name in `Host` (RFC 9110 section 7.2) and in `Origin`.
//!
//! A web page may resolve its own name to an address of this server (DNS rebinding). The browser then treats responses
//! of the API as those of the page, and the page can read them. Such requests have the host of the page, so they are
//! refused.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;
use std::sync::Arc;

use axum::http::header::HOST;
use axum::http::{self, Version};

use crate::server::LocalAddress;
use crate::setting_text::setting_text;

/// The host of a URL: an address, or a name in lower case without a trailing dot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiHost {
    /// An IPv4 or IPv6 address.
    Address(IpAddr),
    /// A name.
    Name(String),
}

/// `listen.apiHosts`: allowed hosts, in addition to loopback and the server's own address. Clones share it.
#[derive(Clone, Debug)]
pub struct ApiHosts(Arc<[ApiHost]>);

/// The error for a text that is not a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a host must be a name or an IP address, without a port")]
pub struct InvalidHost;

/// The reason why the host of a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HostRefusal {
    /// It has no host, several, or an invalid one (RFC 9112 section 3.2).
    Malformed,
    /// Its host is not allowed (RFC 9110 section 15.5.20).
    Misdirected(ApiHost),
}

// === impl ApiHosts ===

impl ApiHosts {
    /// Creates the list of allowed hosts.
    pub fn new(hosts: Vec<ApiHost>) -> Self {
        Self(hosts.into())
    }

    /// Checks the host that a request is for.
    pub(super) fn check<B>(&self, request: &http::Request<B>) -> Result<(), HostRefusal> {
        let mut headers = request.headers().get_all(HOST).iter();
        let header = headers.next();
        if headers.next().is_some() || (header.is_none() && request.version() >= Version::HTTP_11) {
            return Err(HostRefusal::Malformed);
        }
        let text = match (request.uri().authority(), header) {
            // A target in absolute form takes precedence over the header (RFC 9112 section 3.2.2).
            (Some(authority), _) => authority.as_str(),
            (None, Some(header)) => header.to_str().map_err(|_| HostRefusal::Malformed)?,
            // HTTP/1.0. No browser uses it.
            (None, None) => return Ok(()),
        };
        let host = host_of(text).ok_or(HostRefusal::Malformed)?;
        let local = request.extensions().get::<LocalAddress>();
        if self.is_allowed(&host, local) {
            Ok(())
        } else {
            Err(HostRefusal::Misdirected(host))
        }
    }

    /// Returns whether a host is loopback, the local address of the connection, or one of `listen.apiHosts`.
    pub(super) fn is_allowed(&self, host: &ApiHost, local: Option<&LocalAddress>) -> bool {
        let is_own = match host {
            ApiHost::Address(ip) => {
                ip.is_loopback() || local.is_some_and(|local| local.0.to_canonical() == *ip)
            }
            ApiHost::Name(name) => name == "localhost",
        };
        is_own || self.0.contains(host)
    }
}

/// Parses a host with an optional port (RFC 3986 section 3.2).
pub(super) fn host_of(text: &str) -> Option<ApiHost> {
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
            // Without brackets, it is not an IPv6 address.
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
            let is_valid = |octet: u8| octet.is_ascii_alphanumeric() || b"-_".contains(&octet);
            (1..=63).contains(&label.len()) && label.bytes().all(is_valid)
        };
        if name.len() <= 253 && name.split('.').all(is_label) {
            Ok(Self::Name(name.to_ascii_lowercase()))
        } else {
            Err(InvalidHost)
        }
    }
}

impl fmt::Display for ApiHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

setting_text!(ApiHost: r"^[A-Za-z0-9._:-]+$");

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Decision {
        Allowed,
        Malformed,
        Misdirected,
    }
    const ALLOWED: Decision = Decision::Allowed;
    const MALFORMED: Decision = Decision::Malformed;
    const MISDIRECTED: Decision = Decision::Misdirected;

    /// Returns the decision on a request to 192.0.2.7.
    fn decide(version: Version, target: &str, hosts: &[&str]) -> Decision {
        let allowed =
            ["dns.example.com", "198.51.100.1", "2001:db8::1"].map(|host| host.parse().unwrap());
        let mut request = http::Request::get(target)
            .version(version)
            .extension(LocalAddress([192, 0, 2, 7].into()));
        for host in hosts {
            request = request.header(HOST, *host);
        }
        let hosts = ApiHosts::new(allowed.to_vec());
        match hosts.check(&request.body(()).unwrap()) {
            Ok(()) => ALLOWED,
            Err(HostRefusal::Malformed) => MALFORMED,
            Err(HostRefusal::Misdirected(_)) => MISDIRECTED,
        }
    }

    fn decide_host(host: &str) -> Decision {
        decide(Version::HTTP_11, "/api/v1/table", &[host])
    }

    #[test]
    fn loopback_the_local_address_and_api_hosts_are_allowed() {
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
            assert_eq!(decide_host(host), ALLOWED, "{host}");
        }
    }

    #[test]
    fn other_hosts_are_misdirected() {
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
            // Browsers normalize these to 127.0.0.1.
            "127.1:9154",
            "2130706433",
            "0x7f000001",
        ] {
            assert_eq!(decide_host(host), MISDIRECTED, "{host}");
        }
    }

    #[test]
    fn invalid_hosts_are_malformed() {
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
                assert_eq!(decide_host(host), MALFORMED, "{host}");
            }
            assert_eq!(host_of(host), None, "{host}");
        }
    }

    #[test]
    fn request_must_have_one_host() {
        const PATH: &str = "/api/v1/table";
        const OWN: &str = "http://localhost:9154/api/v1/table";
        const OTHER: &str = "http://attacker.example/api/v1/table";
        for (version, target, hosts, decision) in [
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
            (Version::HTTP_10, PATH, &[], ALLOWED),
            (Version::HTTP_10, PATH, &["localhost"], ALLOWED),
            (Version::HTTP_10, PATH, &["attacker.example"], MISDIRECTED),
            (Version::HTTP_11, OWN, &["localhost"], ALLOWED),
            (Version::HTTP_11, OWN, &["attacker.example"], ALLOWED),
            (Version::HTTP_11, OTHER, &["localhost"], MISDIRECTED),
            (Version::HTTP_10, OTHER, &[], MISDIRECTED),
            (Version::HTTP_11, OWN, &[], MALFORMED),
            (Version::HTTP_11, "*", &["attacker.example"], MISDIRECTED),
        ] {
            assert_eq!(
                decide(version, target, hosts),
                decision,
                "{target} {hosts:?}"
            );
        }
    }

    #[test]
    fn api_host_is_a_name_or_an_address() {
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
