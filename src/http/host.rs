//! The hosts that requests to the API may name in `Host` (RFC 9110 section 7.2) and in `Origin`.
//!
//! A web page may resolve its own name to an address of this server (DNS rebinding). The browser then treats responses
//! of the API as those of the page, and the page can read them. Such requests have the host of the page, so they are
//! refused.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use axum::http::header::HOST;
use axum::http::{self, StatusCode, Version};

use crate::model::ApiHost;
use crate::server::LocalAddress;

/// `listen.apiHosts`: allowed hosts, in addition to loopback and the server's own address. Clones share it.
#[derive(Clone)]
pub struct ApiHosts(Arc<[ApiHost]>);

/// The status and the sentence for a request that is refused.
pub(super) type HostRefusal = (StatusCode, String);

// === impl ApiHosts ===

impl ApiHosts {
    /// Creates the list of allowed hosts.
    pub fn new(hosts: Vec<ApiHost>) -> Self {
        Self(hosts.into())
    }

    /// Checks the host that a request is for: it must have exactly one (RFC 9112 section 3.2), which is allowed (RFC 9110 section
    /// 15.5.20).
    pub(super) fn check<B>(&self, request: &http::Request<B>) -> Result<(), HostRefusal> {
        let malformed = || {
            let sentence = "a request must have exactly one valid Host\n".to_owned();
            (StatusCode::BAD_REQUEST, sentence)
        };
        let mut headers = request.headers().get_all(HOST).iter();
        let header = headers.next();
        if headers.next().is_some() || (header.is_none() && request.version() >= Version::HTTP_11) {
            return Err(malformed());
        }
        let text = match (request.uri().authority(), header) {
            // A target in absolute form takes precedence over the header (RFC 9112 section 3.2.2).
            (Some(authority), _) => authority.as_str(),
            (None, Some(header)) => header.to_str().map_err(|_| malformed())?,
            // HTTP/1.0. No browser uses it.
            (None, None) => return Ok(()),
        };
        let host = host_of(text).ok_or_else(malformed)?;
        if self.is_allowed(&host, request.extensions().get::<LocalAddress>()) {
            return Ok(());
        }
        // The host was parsed, so that it has no characters with a meaning to a browser.
        let sentence = format!(
            "Host '{host}' is not a name of this server; to allow it, add it to listen.apiHosts\n"
        );
        Err((StatusCode::MISDIRECTED_REQUEST, sentence))
    }

    /// Returns whether a host is loopback, the local address of the connection, or one of `listen.apiHosts`.
    pub(super) fn is_allowed(&self, host: &ApiHost, local: Option<&LocalAddress>) -> bool {
        let is_own = match host.as_str().parse::<IpAddr>() {
            Ok(ip) => ip.is_loopback() || local.is_some_and(|local| local.0.to_canonical() == ip),
            Err(_) => host.as_str() == "localhost",
        };
        is_own || self.0.contains(host)
    }
}

/// Parses a host with an optional port (RFC 3986 section 3.2).
pub(super) fn host_of(text: &str) -> Option<ApiHost> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (text, ""),
    };
    let in_brackets = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let host = match in_brackets {
        Some(v6) => v6.parse::<Ipv6Addr>().ok().map(|v6| ApiHost::of(v6.into())),
        // Without brackets, it is not an IPv6 address.
        None => host.parse().ok().filter(|_| !host.contains(':')),
    };
    host.filter(|_| port.bytes().all(|octet| octet.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: u16 = 200;
    const MALFORMED: u16 = 400;
    const MISDIRECTED: u16 = 421;

    /// Returns the status of a request to 192.0.2.7.
    fn decide(version: Version, target: &str, hosts: &[&str]) -> u16 {
        let mut request = http::Request::get(target)
            .version(version)
            .extension(LocalAddress([192, 0, 2, 7].into()));
        for host in hosts {
            request = request.header(HOST, *host);
        }
        let allowed = ApiHosts::new(vec!["dns.example.com".parse().unwrap()]);
        let checked = allowed.check(&request.body(()).unwrap());
        checked.map_or_else(|(status, _)| status.as_u16(), |()| ALLOWED)
    }

    #[test]
    fn hosts_are_allowed_misdirected_or_malformed() {
        for (hosts, expected) in [
            (
                "localhost LocalHost:9154 localhost.:1 127.0.0.1: 127.255.0.1:19154 [::1] [0:0::1]:9154 \
                 [::ffff:127.0.0.1]:9154 192.0.2.7:9154 [::ffff:192.0.2.7] DNS.Example.COM.:80",
                ALLOWED,
            ),
            // Browsers normalize the last ones to 127.0.0.1.
            (
                "attacker.example:9154 localhost.attacker.example 127.0.0.1.attacker.example a.dns.example.com 192.0.2.8 \
                 [2001:db8::2]:9154 0.0.0.0:9154 [::]:9154 127.1:9154 2130706433 0x7f000001",
                MISDIRECTED,
            ),
            (
                ":9154 . localhost.. localhost:http localhost:1:2 ::1 fe80::1:2 [::1 ::1] [::1]9154 [localhost] [127.0.0.1] \
                 [fe80::1%eth0]:9154 attacker.example@localhost localhost, localhost/",
                MALFORMED,
            ),
        ] {
            for host in hosts.split(' ') {
                let status = decide(Version::HTTP_11, "/api/v1/table", &[host]);
                assert_eq!(status, expected, "{host}");
            }
        }
        assert_eq!(host_of(""), None);
    }

    #[test]
    fn request_must_have_one_host() {
        const PATH: &str = "/api/v1/table";
        const OWN: &str = "http://localhost:9154/api/v1/table";
        const OTHER: &str = "http://attacker.example/api/v1/table";
        const ATTACKER: &str = "attacker.example";
        for (version, target, hosts, status) in [
            (Version::HTTP_11, PATH, &[][..], MALFORMED),
            (Version::HTTP_11, PATH, &["localhost", ATTACKER], MALFORMED),
            (Version::HTTP_10, PATH, &["localhost", ATTACKER], MALFORMED),
            (Version::HTTP_10, PATH, &[], ALLOWED),
            (Version::HTTP_10, PATH, &[ATTACKER], MISDIRECTED),
            (Version::HTTP_11, OWN, &[ATTACKER], ALLOWED),
            (Version::HTTP_11, OTHER, &["localhost"], MISDIRECTED),
            (Version::HTTP_10, OTHER, &[], MISDIRECTED),
            (Version::HTTP_11, OWN, &[], MALFORMED),
            (Version::HTTP_11, "*", &[ATTACKER], MISDIRECTED),
        ] {
            let actual = decide(version, target, hosts);
            assert_eq!(actual, status, "{target} {hosts:?}");
        }
    }
}
