//! Queries of servers that may not answer yet, in the form that `dig` prints.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::query::query;
use crate::reply::{Record, Reply};
use crate::wire::{Transport, try_ask};

/// A reply as `dig` prints it.
#[derive(Debug)]
pub struct DigOutput {
    /// The response code: `NOERROR`, `NXDOMAIN`, …
    pub status: String,
    /// The header flags: `qr aa rd`.
    pub flags: String,
    /// The answer section in zone file syntax, sorted.
    pub answer: Vec<String>,
    /// The authority section in the same form.
    pub authority: Vec<String>,
}

/// Time after which a query has failed.
const PATIENCE: Duration = Duration::from_secs(10);

/// Queries once without recursion, like a resolver that queries a name server.
pub fn dig(server: SocketAddr, over: Transport, name: &str, kind: &str) -> Result<DigOutput> {
    dig_with(server, over, &format!("{name} {kind} +ad +edns"))
}

/// Queries once with recursion, like a client that queries a resolver.
pub fn dig_recursively(
    server: SocketAddr,
    over: Transport,
    name: &str,
    kind: &str,
) -> Result<DigOutput> {
    dig_with(server, over, &format!("{name} {kind} +rd +ad +edns"))
}

fn dig_with(server: SocketAddr, over: Transport, question: &str) -> Result<DigOutput> {
    let reply = try_ask(server, &query(question), over, PATIENCE);
    let reply = reply.with_context(|| format!("{question} of {server} over {over:?}"))?;
    Ok(DigOutput::of(&reply))
}

/// Fails unless `name` is NXDOMAIN over UDP and TCP, with the zone's SOA record for negative caching.
pub fn check_nxdomain(server: SocketAddr, name: &str) -> Result<()> {
    for over in Transport::BOTH {
        let dug = dig(server, over, name, "A")?;
        let soa = dug.authority.iter();
        let soa = soa.filter(|record| record.starts_with("global. 5 IN SOA "));
        ensure!(
            dug.status == "NXDOMAIN" && dug.authority.len() == 1 && soa.count() == 1,
            "{name} over {over:?}: {dug:?}"
        );
    }
    Ok(())
}

/// Returns `nginx.default.global. 5 IN A 10.96.0.1`, one record for each address.
pub fn a_records(name: &str, addresses: &[&[&str]]) -> Vec<String> {
    let addresses = addresses.iter().copied().flatten();
    addresses
        .map(|address| format!("{name}. 5 IN A {address}"))
        .collect()
}

/// Returns `_sql._tcp.nginx.default.global. 5 IN SRV 0 10 26257 nginx-set-0.east.nginx.default.global.`, one record for
/// each target.
pub fn srv_records(name: &str, port: u16, targets: &[&str]) -> Vec<String> {
    let targets = targets.iter();
    targets
        .map(|target| format!("{name}. 5 IN SRV 0 10 {port} {target}."))
        .collect()
}

// === impl DigOutput ===

impl DigOutput {
    fn of(reply: &Reply) -> Self {
        let sorted = |records: &[Record]| {
            let mut texts: Vec<String> = records.iter().map(Record::to_string).collect();
            texts.sort();
            texts
        };
        Self {
            status: reply.status(),
            flags: reply.flags(),
            answer: sorted(&reply.answers),
            authority: sorted(&reply.authority),
        }
    }
}
