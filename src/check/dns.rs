//! How the zones are asked for: by name servers' answers, does the server answer, and does the cluster's DNS forward to
//! it?
//!
//! A server of ours is known by its SOA record, whose MNAME is `ns.dns.Z`. The serial is not compared: each replica has
//! its own, and a cache may hold an older one. That another cluster's server has the same SOA record, and other
//! endpoints, is why addresses of some services are compared too.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::{Check, Finding, Known, NotChecked, some_of};
use crate::table::Table;
use crate::wire::Rcode;
use crate::zone::{RecordType, Zone, ZoneKind, ZoneName};

/// Everything that name servers were asked.
#[derive(Clone, Debug)]
pub struct Dns {
    /// `--server`: the server, asked directly.
    pub server: Option<SocketAddr>,
    /// The cluster's DNS.
    pub resolver: Known<SocketAddr>,
    /// The zones.
    pub zones: Vec<ZoneFacts>,
}

/// What was said about one zone.
#[derive(Clone, Debug)]
pub struct ZoneFacts {
    /// The zone.
    pub zone: ZoneName,
    /// What the server said; `None` without a server.
    pub direct: Option<Direct>,
    /// What the cluster's DNS said; `None` where there was nothing to compare with.
    pub through: Option<Through>,
}

/// What the server said.
#[derive(Clone, Debug)]
pub struct Direct {
    /// SOA over UDP.
    pub udp: Asked,
    /// SOA over TCP.
    pub tcp: Asked,
    /// NS.
    pub ns: Asked,
}

/// What the cluster's DNS said.
#[derive(Clone, Debug)]
pub struct Through {
    /// SOA of the zone.
    pub soa: Asked,
    /// SOA of the root: whether it can answer for anything outside.
    pub root: Asked,
    /// Names of services, asked both ways.
    pub samples: Vec<Sample>,
}

/// One question, asked both ways.
#[derive(Clone, Debug)]
pub struct Sample {
    /// What was asked: `db.prod.global. A`
    pub question: String,
    /// What the server said.
    pub direct: Asked,
    /// What the cluster's DNS said.
    pub through: Asked,
}

/// A reply, or why there is none.
pub type Asked = Result<Reply, String>;

/// What matters of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Response code.
    pub rcode: Rcode,
    /// AA.
    pub authoritative: bool,
    /// The answer's SOA record.
    pub soa: Option<Soa>,
    /// The answer's records, as in a zone file but without TTLs, which a cache counts down.
    pub records: BTreeSet<String>,
}

/// An SOA record (RFC 1035 section 3.3.13).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Soa {
    /// MNAME and RNAME.
    pub names: [String; 2],
    /// SERIAL.
    pub serial: u32,
    /// REFRESH, RETRY, EXPIRE and MINIMUM.
    pub timers: [u32; 4],
}

/// Names that are asked both ways, in each zone.
const SAMPLES: usize = 3;

/// Chooses the services whose addresses are compared.
pub fn samples(zone: &Zone, table: &Table) -> Vec<(String, RecordType)> {
    if zone.kind != ZoneKind::Forward {
        return Vec::new();
    }
    let services = table.sorted_services().into_iter();
    let question = |service: &crate::table::Service| {
        let rtype = match (service.own_name.v4.first(), service.own_name.v6.first()) {
            (Some(_), _) => RecordType::A,
            (None, Some(_)) => RecordType::AAAA,
            (None, None) => return None,
        };
        let key = &service.key;
        Some((
            format!("{}.{}.{}", key.service, key.namespace, zone.name),
            rtype,
        ))
    };
    services.filter_map(question).take(SAMPLES).collect()
}

/// Finds the first name server of a `resolv.conf`.
pub fn first_name_server(resolv_conf: &str) -> Option<SocketAddr> {
    const PORT: u16 = 53;
    let server = |line: &str| match line.split_whitespace().collect::<Vec<_>>().as_slice() {
        ["nameserver", address, ..] => Some(SocketAddr::new(address.parse().ok()?, PORT)),
        _ => None,
    };
    resolv_conf.lines().find_map(server)
}

pub(super) fn check(dns: &Dns) -> Vec<Finding> {
    let of_zone = |zone: &ZoneFacts| {
        let server = dns.server.zip(zone.direct.as_ref());
        let answers = server.map(|(server, direct)| answers(server, &zone.zone, direct));
        let soa = match &answers {
            Some(Ok((_, soa))) => Some(soa.clone()),
            Some(Err(_)) | None => None,
        };
        let first = match answers {
            Some(Ok((finding, _)) | Err(finding)) => finding,
            None => {
                Check::Server.not_checked(&format!("the server of {}", zone.zone), &no_server())
            }
        };
        [first, forwarding(dns, zone, soa.as_ref())]
    };
    dns.zones.iter().flat_map(of_zone).collect()
}

fn no_server() -> NotChecked {
    NotChecked::new(
        "--server is not given",
        "give --server the address of the global-dns Service, IP or IP:PORT",
    )
}

// === Direct ===

/// Judges what the server says: its SOA record, or the finding that there is none worth comparing with.
fn answers(
    server: SocketAddr,
    zone: &ZoneName,
    direct: &Direct,
) -> Result<(Finding, Soa), Finding> {
    const REACH: &str = "look at the Pods behind that address (/readyz says what is missing), and whether UDP and TCP to \
                         it are let through";
    let red = |what: String, hint: &str| Err(Check::Server.red(format!("{server} {what}"), hint));
    let mut soas = Vec::new();
    for (over, asked) in [("UDP", &direct.udp), ("TCP", &direct.tcp)] {
        let reply = match asked {
            Ok(reply) => reply,
            Err(why) => return red(format!("does not answer over {over}: {why}"), REACH),
        };
        match (&reply.soa, reply.rcode) {
            (_, Rcode::SERVFAIL) => {
                return red(
                    format!("has no complete table of {zone} yet: SERVFAIL"),
                    REACH,
                );
            }
            (_, Rcode::REFUSED) => {
                return red(
                    format!("does not serve {zone}: REFUSED"),
                    "give check the same --zone as serve",
                );
            }
            (Some(soa), Rcode::NOERROR) if reply.authoritative && is_ours(soa, zone) => {
                soas.push(soa);
            }
            (soa, rcode) => {
                let said = soa
                    .as_ref()
                    .map_or(String::new(), |soa| format!(", SOA {}", soa.names[0]));
                return red(
                    format!(
                        "is no global-dns that serves {zone}: {}{said}",
                        words(rcode)
                    ),
                    "give --server the address of the global-dns Service, not that of the cluster's DNS",
                );
            }
        }
    }
    let [udp, tcp] = soas.as_slice() else {
        return red(format!("does not answer for {zone}"), REACH);
    };
    if !same_but_serial(udp, tcp) {
        return red(
            format!("has one SOA record of {zone} over UDP and another over TCP"),
            "every replica needs the same flags",
        );
    }
    let ns = match &direct.ns {
        Ok(reply) => reply.records.clone(),
        Err(why) => {
            return red(
                format!("does not answer for the NS records of {zone}: {why}"),
                REACH,
            );
        }
    };
    let expected = format!("{zone} NS ns.dns.{zone}");
    if !ns.contains(&expected) {
        return red(
            format!("lacks the NS record of {zone}, has: {}", some_of(ns)),
            "give --server the address of the global-dns Service",
        );
    }
    let serial = udp.serial;
    let sentence = format!("{server} serves {zone} over UDP and TCP, serial {serial}");
    Ok((Check::Server.green(sentence), (*udp).clone()))
}

fn is_ours(soa: &Soa, zone: &ZoneName) -> bool {
    soa.names[0] == format!("ns.dns.{zone}")
}

fn same_but_serial(one: &Soa, other: &Soa) -> bool {
    one.names == other.names && one.timers == other.timers
}

// === Through the cluster's DNS ===

/// Judges what the cluster's DNS says, beside the server's SOA record.
fn forwarding(dns: &Dns, facts: &ZoneFacts, direct: Option<&Soa>) -> Finding {
    let zone = &facts.zone;
    let what = format!("forwarding of {zone}");
    let resolver = match (&dns.server, &dns.resolver) {
        (None, _) => return Check::Forwarding.not_checked(&what, &no_server()),
        (_, Err(reason)) => return Check::Forwarding.not_checked(&what, reason),
        (Some(_), Ok(resolver)) => *resolver,
    };
    let (Some(direct), Some(through)) = (direct, &facts.through) else {
        let reason = NotChecked::new(
            "the server's own answer is missing",
            "look at the line above first",
        );
        return Check::Forwarding.not_checked(&what, &reason);
    };
    match &through.soa {
        Ok(reply) if reply.rcode == Rcode::NOERROR => match &reply.soa {
            Some(soa) if is_ours(soa, zone) => forwarded(resolver, zone, soa, direct, through),
            Some(soa) => {
                let said = format!("its SOA record names {}", soa.names[0]);
                not_forwarded(resolver, zone, &said)
            }
            None => not_forwarded(resolver, zone, "it has no SOA record there"),
        },
        Ok(reply) if reply.rcode != Rcode::SERVFAIL => {
            not_forwarded(resolver, zone, &format!("it says {}", words(reply.rcode)))
        }
        failed => {
            let said = match failed {
                Ok(reply) => format!("says {}", words(reply.rcode)),
                Err(why) => format!("does not answer: {why}"),
            };
            // Without a way out it fails for every name that is not forwarded.
            let fails_everywhere = match &through.root {
                Ok(reply) => reply.rcode == Rcode::SERVFAIL,
                Err(_) => true,
            };
            match fails_everywhere {
                true => not_forwarded(resolver, zone, &format!("it {said}, for the root too")),
                false => Check::Forwarding.red(
                    format!("{resolver} fails for {zone} alone: it {said}"),
                    "the stanza forwards to where nobody answers, or the resolver validates the public zone of that name \
                     (domain-insecure): compare the stanza's address with that of the Service",
                ),
            }
        }
    }
}

/// The usual state between the installation and the stanza, so no error.
fn not_forwarded(resolver: SocketAddr, zone: &ZoneName, said: &str) -> Finding {
    Check::Forwarding.yellow(
        format!("{resolver} does not forward {zone} yet: {said}"),
        "add the stanza for the zone to the cluster's DNS: see coredns/",
    )
}

fn forwarded(
    resolver: SocketAddr,
    zone: &ZoneName,
    soa: &Soa,
    direct: &Soa,
    through: &Through,
) -> Finding {
    const HINT: &str = "the stanza forwards to another global-dns, of another cluster or with other flags: compare its \
                        address with that of the Service";
    if !same_but_serial(soa, direct) {
        let sentence = format!("{resolver} has another SOA record of {zone} than the server");
        return Check::Forwarding.red(sentence, HINT);
    }
    let differing = through.samples.iter().filter(|sample| sample.differs());
    let differing: Vec<&String> = differing.map(|sample| &sample.question).collect();
    if !differing.is_empty() {
        return Check::Forwarding.red(
            format!(
                "{resolver} answers otherwise than the server: {}",
                some_of(differing)
            ),
            HINT,
        );
    }
    let questions = through.samples.iter().map(|sample| &sample.question);
    let compared = match through.samples.is_empty() {
        true => "the same SOA record".to_owned(),
        false => format!(
            "the same SOA record, and the same answer for {}",
            some_of(questions)
        ),
    };
    Check::Forwarding.green(format!(
        "{resolver} forwards {zone} to the server: {compared}"
    ))
}

// === impl Sample ===

impl Sample {
    /// Tells whether the cluster's DNS answers otherwise than the server.
    pub fn differs(&self) -> bool {
        match (&self.direct, &self.through) {
            (Ok(direct), Ok(through)) => {
                (direct.rcode, &direct.records) != (through.rcode, &through.records)
            }
            (Err(_), _) => false, // nothing to compare with
            (Ok(_), Err(_)) => true,
        }
    }
}

/// Names a response code.
fn words(rcode: Rcode) -> String {
    match rcode {
        Rcode::NOERROR => "NOERROR".to_owned(),
        Rcode::FORMERR => "FORMERR".to_owned(),
        Rcode::SERVFAIL => "SERVFAIL".to_owned(),
        Rcode::NXDOMAIN => "NXDOMAIN".to_owned(),
        Rcode::NOTIMP => "NOTIMP".to_owned(),
        Rcode::REFUSED => "REFUSED".to_owned(),
        Rcode(other) => format!("RCODE {other}"),
    }
}

#[cfg(test)]
mod tests;
