//! Questions by `dig`, which users have.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};

use crate::commands::{command, tool};
use crate::process::run;
use crate::wire::Over;

/// What `dig` printed.
#[derive(Debug)]
pub struct Dug {
    /// `NOERROR`, `NXDOMAIN`, …
    pub status: String,
    /// `qr aa rd`
    pub flags: String,
    /// Records as in a zone file, single spaces, sorted.
    pub answer: Vec<String>,
    /// The same of the authority section.
    pub authority: Vec<String>,
}

/// Asks once with `dig`, as a resolver asks a name server.
pub fn dig(server: SocketAddr, over: Over, name: &str, kind: &str) -> Result<Dug> {
    dig_with(server, over, name, kind, &["+norec"])
}

/// Asks once with `dig`, as a client asks a resolver.
pub fn dig_recursively(server: SocketAddr, over: Over, name: &str, kind: &str) -> Result<Dug> {
    dig_with(server, over, name, kind, &["+rec"])
}

fn dig_with(
    server: SocketAddr,
    over: Over,
    name: &str,
    kind: &str,
    options: &[&str],
) -> Result<Dug> {
    let mut dig = command(tool("dig")?);
    dig.arg(format!("@{}", server.ip()));
    dig.args(["-p", &server.port().to_string(), "+tries=1", "+time=2"]);
    dig.arg(match over {
        Over::Udp => "+notcp",
        Over::Tcp => "+tcp",
    });
    let text = run(dig.args(options).args([name, kind])).stdout;
    Dug::read(&text).with_context(|| format!("dig {name} {kind} over {over:?}: {text}"))
}

/// The records at `name` are exactly `wanted`, over UDP and TCP, with authority.
pub fn answered(server: SocketAddr, name: &str, kind: &str, wanted: &[String]) -> Result<()> {
    let mut wanted = wanted.to_vec();
    wanted.sort();
    for over in Over::BOTH {
        let dug = dig(server, over, name, kind)?;
        ensure!(
            dug.status == "NOERROR",
            "{name} {kind} over {over:?}: {}",
            dug.status
        );
        ensure!(
            dug.flags.split(' ').any(|flag| flag == "aa"),
            "{name} {kind} over {over:?} without authority"
        );
        ensure!(
            dug.answer == wanted,
            "{name} {kind} over {over:?}: wanted {wanted:#?}, answered {:#?}",
            dug.answer
        );
    }
    Ok(())
}

/// There is no such name, over UDP and TCP, and the zone's SOA says for how long that holds.
pub fn missing(server: SocketAddr, name: &str) -> Result<()> {
    for over in Over::BOTH {
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

/// `nginx.default.global. 5 IN A 10.96.0.1`, one for each address.
pub fn a(name: &str, addresses: &[&[&str]]) -> Vec<String> {
    addresses
        .concat()
        .iter()
        .map(|address| format!("{name}. 5 IN A {address}"))
        .collect()
}

/// `_sql._tcp.nginx.default.global. 5 IN SRV 0 10 26257 nginx-set-0.east.nginx.default.global.`, one for each target.
pub fn srv(name: &str, port: u16, targets: &[&str]) -> Vec<String> {
    targets
        .iter()
        .map(|target| format!("{name}. 5 IN SRV 0 10 {port} {target}."))
        .collect()
}

// === impl Dug ===

impl Dug {
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
