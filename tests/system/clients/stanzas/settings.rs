//! The measured stanzas.

use std::fs;

use anyhow::{Context, Result};
use support::repository::repository;

/// A stanza.
#[derive(Clone, Debug)]
pub struct Stanza {
    /// The difference to the shipped stanza.
    pub name: &'static str,
    /// The lines of the server block.
    pub body: String,
}

pub const NO_CACHE: &str = "no `cache`";
/// The stanza in `coredns/Corefile`.
pub const SHIPPED: &str = "**`Corefile`**: `cache 5`";
/// The stanza for everything but databases.
pub const SERVICES: &str = "**`Corefile.services`**";
pub const STALE: &str = "`serve_stale`";

/// The cluster IP of the Service, with both replicas.
const SERVICE: &str = "10.96.0.53";

/// Cluster IPs of two Services with one replica each. The first one is that of the replica that fails.
const PAIR: &str = "10.96.0.62 10.96.0.61";

/// Returns all stanzas. `CA` is a placeholder of the certificate's file.
pub fn settings() -> Result<Vec<Stanza>> {
    let forward = format!("forward . {SERVICE}");
    let pair = |options: &str| format!("cache 5\nforward . {PAIR} {{\n{options}\n}}");
    let cached = |cache: &str| format!("{cache}\n{forward}");
    let one = |options: &str| format!("cache 5\n{forward} {{\n{options}\n}}");
    let tls =
        format!("cache 5\nforward . tls://{SERVICE} {{\ntls CA\ntls_servername localhost\n}}");
    let short = "cache {\nsuccess 9984 1 1\ndenial 9984 1 1\nservfail 1s\n}";
    let list = [
        (NO_CACHE, forward.clone()),
        (SHIPPED, body_of("coredns/Corefile")?),
        (SERVICES, body_of("coredns/Corefile.services")?),
        (
            "`success 9984 1 1`, `denial 9984 1 1`, `servfail 1s`",
            cached(short),
        ),
        ("`prefetch 2`", cached("cache 5 {\nprefetch 2\n}")),
        (STALE, cached("cache 5 {\nserve_stale\n}")),
        (
            "`serve_stale 1h verify`",
            cached("cache 5 {\nserve_stale 1h verify\n}"),
        ),
        (
            "`serve_stale 1m verify 200ms`",
            cached("cache 5 {\nserve_stale 1m verify 200ms\n}"),
        ),
        (
            "`loadbalance`",
            format!("loadbalance\n{}", cached("cache 5")),
        ),
        (
            "`health_check 100ms`, `max_fails 1`",
            one("health_check 100ms\nmax_fails 1"),
        ),
        ("`read_timeout 300ms`", one("read_timeout 300ms")),
        ("`force_tcp`", one("force_tcp")),
        ("`forward . tls://IP`", tls),
        ("two IPs, `policy random`", pair("policy random")),
        ("two IPs, `policy round_robin`", pair("policy round_robin")),
        ("two IPs, `policy sequential`", pair("policy sequential")),
        (
            "two IPs, `policy sequential`, `read_timeout 300ms`",
            pair("policy sequential\nread_timeout 300ms"),
        ),
        (
            "two IPs, `policy sequential`, `health_check 100ms`, `max_fails 1`",
            pair("policy sequential\nhealth_check 100ms\nmax_fails 1"),
        ),
        (
            "two IPs, `policy sequential`, `force_tcp`",
            pair("policy sequential\nforce_tcp"),
        ),
    ];
    let stanza = |(name, body)| Stanza { name, body };
    Ok(list.into_iter().map(stanza).collect())
}

/// Returns the lines of the server block in a file.
fn body_of(file: &str) -> Result<String> {
    let text = fs::read_to_string(repository(file))?;
    let (_, rest) = text.split_once("{\n").context("no server block")?;
    let (body, _) = rest.rsplit_once('}').context("no server block")?;
    Ok(body.to_owned())
}
