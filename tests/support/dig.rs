//! Queries with `dig`, the tool that users have.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};

use crate::commands::{command, tool};
use crate::process::run;
use crate::wire::Transport;

/// The parsed output of `dig`.
#[derive(Debug)]
pub struct DigOutput {
    /// The response code: `NOERROR`, `NXDOMAIN`, …
    pub status: String,
    /// The header flags: `qr aa rd`.
    pub flags: String,
    /// The answer section in zone file syntax with single spaces, sorted.
    pub answer: Vec<String>,
    /// The authority section in the same form.
    pub authority: Vec<String>,
}

/// Runs `dig` once without recursion, like a resolver that queries a name server.
pub fn dig(server: SocketAddr, over: Transport, name: &str, kind: &str) -> Result<DigOutput> {
    dig_with(server, over, name, kind, &["+norec"])
}

/// Runs `dig` once with recursion, like a client that queries a resolver.
pub fn dig_recursively(
    server: SocketAddr,
    over: Transport,
    name: &str,
    kind: &str,
) -> Result<DigOutput> {
    dig_with(server, over, name, kind, &["+rec"])
}

fn dig_with(
    server: SocketAddr,
    over: Transport,
    name: &str,
    kind: &str,
    options: &[&str],
) -> Result<DigOutput> {
    let mut dig = command(tool("dig")?);
    dig.arg(format!("@{}", server.ip()));
    dig.args(["-p", &server.port().to_string(), "+tries=1", "+time=10"]);
    dig.arg(match over {
        Transport::Udp => "+notcp",
        Transport::Tcp => "+tcp",
    });
    let text = run(dig.args(options).args([name, kind])).stdout;
    DigOutput::read(&text).with_context(|| format!("dig {name} {kind} over {over:?}: {text}"))
}

/// Fails unless the records at `name` are exactly `expected`, over UDP and TCP, with the AA bit.
pub fn check_answer(server: SocketAddr, name: &str, kind: &str, expected: &[String]) -> Result<()> {
    let mut expected = expected.to_vec();
    expected.sort();
    for over in Transport::BOTH {
        let dug = dig(server, over, name, kind)?;
        ensure!(
            dug.status == "NOERROR",
            "{name} {kind} over {over:?}: {}",
            dug.status
        );
        ensure!(
            dug.flags.split(' ').any(|flag| flag == "aa"),
            "{name} {kind} over {over:?}: the AA bit is not set"
        );
        ensure!(
            dug.answer == expected,
            "{name} {kind} over {over:?}: expected {expected:#?}, got {:#?}",
            dug.answer
        );
    }
    Ok(())
}

/// Fails unless `name` is NXDOMAIN over UDP and TCP, with the zone's SOA record for negative caching.
pub fn check_nxdomain(server: SocketAddr, name: &str) -> Result<()> {
    for over in Transport::BOTH {
        let dug = dig(server, over, name, "A")?;
        ensure!(
            dug.status == "NXDOMAIN",
            "{name} over {over:?}: {} {:?}",
            dug.status,
            dug.answer
        );
        ensure!(
            dug.authority.len() == 1
                && dug
                    .authority
                    .iter()
                    .all(|record| record.starts_with("global. 5 IN SOA ")),
            "{name} over {over:?}: the authority section is {:?}",
            dug.authority
        );
    }
    Ok(())
}

/// Returns `nginx.default.global. 5 IN A 10.96.0.1`, one record for each address.
pub fn a_records(name: &str, addresses: &[&[&str]]) -> Vec<String> {
    addresses
        .concat()
        .iter()
        .map(|address| format!("{name}. 5 IN A {address}"))
        .collect()
}

/// Returns `_sql._tcp.nginx.default.global. 5 IN SRV 0 10 26257 nginx-set-0.east.nginx.default.global.`, one record for
/// each target.
pub fn srv_records(name: &str, port: u16, targets: &[&str]) -> Vec<String> {
    targets
        .iter()
        .map(|target| format!("{name}. 5 IN SRV 0 10 {port} {target}."))
        .collect()
}

// === impl DigOutput ===

impl DigOutput {
    fn read(text: &str) -> Result<Self> {
        let header = |key: &str, end: char| {
            let start = text.find(key).with_context(|| format!("no {key:?}"))? + key.len();
            let length = text[start..].find(end).context("an unfinished header")?;
            anyhow::Ok(text[start..start + length].trim().to_owned())
        };
        let section = |title: &str| {
            let lines = text
                .lines()
                .skip_while(|line| !line.contains(title))
                .skip(1);
            let mut records: Vec<String> = lines
                .take_while(|line| !line.is_empty())
                .map(single_spaced)
                .collect();
            records.sort();
            records
        };
        Ok(Self {
            status: header("status: ", ',')?,
            flags: header("flags: ", ';')?,
            answer: section("ANSWER SECTION:"),
            authority: section("AUTHORITY SECTION:"),
        })
    }
}

fn single_spaced(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}
