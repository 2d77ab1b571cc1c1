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

/// What to do about a server that does not answer.
const REACH: &str = "look at the Pods behind that address (/readyz says what is missing), and whether UDP and TCP to \
                     it are let through";
/// What to do about a server that refuses the zone.
const SAME_ZONE: &str = "give check the same --zone as serve";
/// What to do about a server that is not ours.
const OTHER_SERVER: &str =
    "give --server the address of the global-dns Service, not that of the cluster's DNS";
/// What to do about a resolver that reaches a server of ours, but not this one.
const OTHER_ANSWERS: &str = "the stanza forwards to another global-dns, of another cluster or with other flags: compare \
                             its address with that of the Service";

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
    let udp = own_soa(server, zone, "UDP", &direct.udp)?;
    let tcp = own_soa(server, zone, "TCP", &direct.tcp)?;
    if !same_but_serial(udp, tcp) {
        return Err(server_fault(
            server,
            format!("has one SOA record of {zone} over UDP and another over TCP"),
            "every replica needs the same flags",
        ));
    }
    check_ns(server, zone, &direct.ns)?;
    let serial = udp.serial;
    let sentence = format!("{server} serves {zone} over UDP and TCP, serial {serial}");
    Ok((Check::Server.green(sentence), udp.clone()))
}

/// Returns the SOA record that the server gives over one transport, or the finding that it is not that of a server of
/// ours.
fn own_soa<'a>(
    server: SocketAddr,
    zone: &ZoneName,
    over: &str,
    asked: &'a Asked,
) -> Result<&'a Soa, Finding> {
    let reply = answered(server, asked, &format!("over {over}"))?;
    let (what, hint) = match (&reply.soa, reply.rcode) {
        (_, Rcode::SERVFAIL) => (
            format!("has no complete table of {zone} yet: SERVFAIL"),
            REACH,
        ),
        (_, Rcode::REFUSED) => (format!("does not serve {zone}: REFUSED"), SAME_ZONE),
        (Some(soa), Rcode::NOERROR) if reply.authoritative && is_ours(soa, zone) => {
            return Ok(soa);
        }
        (soa, rcode) => {
            let names = soa.as_ref().map(|soa| format!(", SOA {}", soa.names[0]));
            let said = words(rcode) + &names.unwrap_or_default();
            let what = format!("is no global-dns that serves {zone}: {said}");
            (what, OTHER_SERVER)
        }
    };
    Err(server_fault(server, what, hint))
}

/// Judges the NS records that the server gives: an error is the finding that they are wrong.
fn check_ns(server: SocketAddr, zone: &ZoneName, asked: &Asked) -> Result<(), Finding> {
    let reply = answered(server, asked, &format!("for the NS records of {zone}"))?;
    let ns = &reply.records;
    if ns.contains(&format!("{zone} NS ns.dns.{zone}")) {
        return Ok(());
    }
    Err(server_fault(
        server,
        format!("lacks the NS record of {zone}, has: {}", some_of(ns)),
        "give --server the address of the global-dns Service",
    ))
}

/// Returns a reply of the server, or the finding that there is none.
fn answered<'a>(server: SocketAddr, asked: &'a Asked, how: &str) -> Result<&'a Reply, Finding> {
    asked
        .as_ref()
        .map_err(|why| server_fault(server, format!("does not answer {how}: {why}"), REACH))
}

/// Makes the finding that something is wrong with the server.
fn server_fault(server: SocketAddr, what: String, hint: &str) -> Finding {
    Check::Server.red(format!("{server} {what}"), hint)
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
        Ok(reply) if reply.rcode == Rcode::SERVFAIL => {
            let said = format!("says {}", words(reply.rcode));
            not_answered(resolver, zone, &said, &through.root)
        }
        Ok(reply) => resolved(resolver, zone, reply, direct, &through.samples),
        Err(why) => {
            let said = format!("does not answer: {why}");
            not_answered(resolver, zone, &said, &through.root)
        }
    }
}

/// Judges what the cluster's DNS says if it resolves the zone, or says that there is none.
fn resolved(
    resolver: SocketAddr,
    zone: &ZoneName,
    reply: &Reply,
    direct: &Soa,
    samples: &[Sample],
) -> Finding {
    let said = match (reply.rcode, &reply.soa) {
        (Rcode::NOERROR, Some(soa)) if is_ours(soa, zone) => {
            return forwarded(resolver, zone, soa, direct, samples);
        }
        (Rcode::NOERROR, Some(soa)) => format!("its SOA record names {}", soa.names[0]),
        (Rcode::NOERROR, None) => "it has no SOA record there".to_owned(),
        (rcode, _) => format!("it says {}", words(rcode)),
    };
    not_forwarded(resolver, zone, &said)
}

/// Judges a cluster's DNS that fails for the zone. Without a way out it fails for every name that is not forwarded.
fn not_answered(resolver: SocketAddr, zone: &ZoneName, said: &str, root: &Asked) -> Finding {
    let fails_everywhere = match root {
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

/// The usual state between the installation and the stanza, so no error.
fn not_forwarded(resolver: SocketAddr, zone: &ZoneName, said: &str) -> Finding {
    Check::Forwarding.yellow(
        format!("{resolver} does not forward {zone} yet: {said}"),
        "add the stanza for the zone to the cluster's DNS: see coredns/",
    )
}

/// Judges the answers of a cluster's DNS that reaches a server of ours: `soa` is its SOA record, `direct` the server's.
fn forwarded(
    resolver: SocketAddr,
    zone: &ZoneName,
    soa: &Soa,
    direct: &Soa,
    samples: &[Sample],
) -> Finding {
    if !same_but_serial(soa, direct) {
        let sentence = format!("{resolver} has another SOA record of {zone} than the server");
        return Check::Forwarding.red(sentence, OTHER_ANSWERS);
    }
    let question = |sample: &'_ Sample| sample.question.clone();
    let differing = samples.iter().filter(|sample| sample.differs());
    let differing: Vec<String> = differing.map(question).collect();
    if !differing.is_empty() {
        let names = some_of(differing);
        let sentence = format!("{resolver} answers otherwise than the server: {names}");
        return Check::Forwarding.red(sentence, OTHER_ANSWERS);
    }
    let mut compared = "the same SOA record".to_owned();
    if !samples.is_empty() {
        let names = some_of(samples.iter().map(question));
        compared += &format!(", and the same answer for {names}");
    }
    let sentence = format!("{resolver} forwards {zone} to the server: {compared}");
    Check::Forwarding.green(sentence)
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
