//! The measured stanzas.

use std::fs;

use anyhow::{Context, Result};
use support::repository::repository;

/// What a stanza shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    NoCache,
    /// The stanza in `coredns/Corefile`.
    Shipped,
    /// The stanza for everything but databases.
    Services,
    Stale,
    Other,
}

/// A stanza.
#[derive(Clone, Debug)]
pub struct Stanza {
    pub kind: Setting,
    /// The difference to the shipped stanza, for the table.
    pub text: &'static str,
    /// The lines of the server block.
    pub body: String,
}

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
    let other = |text, body| (Setting::Other, text, body);
    let short = "cache {\nsuccess 9984 1 1\ndenial 9984 1 1\nservfail 1s\n}";
    let list = [
        (Setting::NoCache, "no `cache`", forward.clone()),
        (
            Setting::Shipped,
            "**`Corefile`**: `cache 5`",
            body_of("coredns/Corefile")?,
        ),
        (
            Setting::Services,
            "**`Corefile.services`**",
            body_of("coredns/Corefile.services")?,
        ),
        other(
            "`success 9984 1 1`, `denial 9984 1 1`, `servfail 1s`",
            cached(short),
        ),
        other("`prefetch 2`", cached("cache 5 {\nprefetch 2\n}")),
        (
            Setting::Stale,
            "`serve_stale`",
            cached("cache 5 {\nserve_stale\n}"),
        ),
        other(
            "`serve_stale 1h verify`",
            cached("cache 5 {\nserve_stale 1h verify\n}"),
        ),
        other(
            "`serve_stale 1m verify 200ms`",
            cached("cache 5 {\nserve_stale 1m verify 200ms\n}"),
        ),
        other(
            "`loadbalance`",
            format!("loadbalance\n{}", cached("cache 5")),
        ),
        other(
            "`health_check 100ms`, `max_fails 1`",
            one("health_check 100ms\nmax_fails 1"),
        ),
        other("`read_timeout 300ms`", one("read_timeout 300ms")),
        other("`force_tcp`", one("force_tcp")),
        other("`forward . tls://IP`", tls),
        other("two IPs, `policy random`", pair("policy random")),
        other("two IPs, `policy round_robin`", pair("policy round_robin")),
        other("two IPs, `policy sequential`", pair("policy sequential")),
        other(
            "two IPs, `policy sequential`, `read_timeout 300ms`",
            pair("policy sequential\nread_timeout 300ms"),
        ),
        other(
            "two IPs, `policy sequential`, `health_check 100ms`, `max_fails 1`",
            pair("policy sequential\nhealth_check 100ms\nmax_fails 1"),
        ),
        other(
            "two IPs, `policy sequential`, `force_tcp`",
            pair("policy sequential\nforce_tcp"),
        ),
    ];
    let stanza = |(kind, text, body)| Stanza { kind, text, body };
    Ok(list.into_iter().map(stanza).collect())
}

/// Returns the lines of the server block in a file.
fn body_of(file: &str) -> Result<String> {
    let text = fs::read_to_string(repository(file))?;
    let (_, rest) = text.split_once("{\n").context("no server block")?;
    let (body, _) = rest.rsplit_once('}').context("no server block")?;
    Ok(body.to_owned())
}
