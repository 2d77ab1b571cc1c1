//! Checks of the server and of the cluster's DNS, by their replies.
//!
//! MNAME `ns.dns.Z` in the SOA record identifies a global-dns server. The serial is not compared: each replica has its
//! own, and a cache may have an older one. A server of another cluster has the same SOA record but other endpoints.
//! Therefore the addresses of some services are compared too.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use super::finding::{Check, Fact, Finding, NotChecked, list_some};
use super::question::Question;
use crate::wire::Rcode;
use crate::zone::ZoneName;

/// The replies of all name servers.
#[derive(Clone, Debug)]
pub struct DnsFacts {
    /// `--dns`: the address of the server.
    pub server: Option<SocketAddr>,
    /// The address of the cluster's DNS.
    pub resolver: Fact<SocketAddr>,
    /// The zones.
    pub zones: Vec<ZoneFacts>,
}

/// The replies for one zone.
#[derive(Clone, Debug)]
pub struct ZoneFacts {
    /// The zone.
    pub zone: ZoneName,
    /// The replies of the server; `None` without a server.
    pub server: Option<ServerReplies>,
    /// The replies of the cluster's DNS; `None` if there is nothing to compare with.
    pub resolver: Option<ResolverReplies>,
}

/// The replies of the server.
#[derive(Clone, Debug)]
pub struct ServerReplies {
    /// SOA record over UDP.
    pub udp: QueryResult,
    /// SOA record over TCP.
    pub tcp: QueryResult,
    /// NS records.
    pub ns: QueryResult,
}

/// The replies of the cluster's DNS.
#[derive(Clone, Debug)]
pub struct ResolverReplies {
    /// SOA record of the zone.
    pub soa: QueryResult,
    /// SOA record of the root zone: shows whether the resolver can answer for other zones.
    pub root: QueryResult,
    /// Names of services, for comparison.
    pub samples: Vec<Sample>,
}

/// One question, sent to the server and to the cluster's DNS.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The question.
    pub question: Question,
    /// The reply of the server.
    pub server: QueryResult,
    /// The reply of the cluster's DNS.
    pub resolver: QueryResult,
}

/// A reply, or the reason why there is none.
pub type QueryResult = Result<ReplySummary, String>;

/// The parts of a reply that checks compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplySummary {
    /// The response code.
    pub rcode: Rcode,
    /// The AA bit.
    pub authoritative: bool,
    /// The SOA record of the answer section.
    pub soa: Option<SoaFields>,
    /// The records of the answer section, as in a zone file but without TTLs, because caches decrease them.
    pub records: BTreeSet<String>,
}

/// An SOA record (RFC 1035 section 3.3.13).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoaFields {
    /// MNAME and RNAME.
    pub names: [String; 2],
    /// SERIAL.
    pub serial: u32,
    /// REFRESH, RETRY, EXPIRE and MINIMUM.
    pub timers: [u32; 4],
}

/// Hint for a server that does not answer.
pub(super) const CHECK_REACHABILITY: &str = "check the Pods at this address (/readyz names what is missing), and whether a NetworkPolicy \
                                  or firewall blocks UDP or TCP";
/// Hint for a server that refuses the zone.
const SAME_ZONE: &str = "give check the same --zone as serve";
/// Hint for a server that is not global-dns.
const OTHER_SERVER: &str =
    "give --dns the address of the global-dns Service, not that of the cluster's DNS";
/// Hint for a resolver that forwards to another global-dns server.
const OTHER_ANSWERS: &str = "the stanza forwards to another global-dns server, of another cluster or with other flags: compare \
                             its address with that of the Service";

pub(super) fn check(dns: &DnsFacts) -> Vec<Finding> {
    let of_zone = |zone: &ZoneFacts| {
        let server = dns.server.zip(zone.server.as_ref());
        let result = server.map(|(server, replies)| check_server(server, &zone.zone, replies));
        let soa = match &result {
            Some(Ok((_, soa))) => Some(soa.clone()),
            Some(Err(_)) | None => None,
        };
        let first = match result {
            Some(Ok((finding, _)) | Err(finding)) => finding,
            None => Check::Server.not_checked(&format!("server of {}", zone.zone), &no_server()),
        };
        [first, forwarding(dns, zone, soa.as_ref())]
    };
    dns.zones.iter().flat_map(of_zone).collect()
}

/// Returns the reason for which nothing is queried.
pub fn no_server() -> NotChecked {
    NotChecked::new(
        "--dns is not given",
        "give --dns the address of the global-dns Service as IP or IP:PORT",
    )
}

// === The server ===

/// Checks the replies of the server. Returns its SOA record, or the finding that there is no valid one to compare with.
fn check_server(
    server: SocketAddr,
    zone: &ZoneName,
    replies: &ServerReplies,
) -> Result<(Finding, SoaFields), Finding> {
    let udp = expect_soa(server, zone, "UDP", &replies.udp)?;
    let tcp = expect_soa(server, zone, "TCP", &replies.tcp)?;
    if !is_equal_except_serial(udp, tcp) {
        return Err(server_fault(
            server,
            format!("has different SOA records of {zone} over UDP and TCP"),
            "give all replicas the same flags",
        ));
    }
    expect_ns(server, zone, &replies.ns)?;
    let serial = udp.serial;
    let sentence = format!("{server} serves {zone} over UDP and TCP, serial {serial}");
    Ok((Check::Server.green(sentence), udp.clone()))
}

/// Returns the SOA record of a reply, or the finding that it is not the record of a global-dns server.
fn expect_soa<'a>(
    server: SocketAddr,
    zone: &ZoneName,
    transport: &str,
    result: &'a QueryResult,
) -> Result<&'a SoaFields, Finding> {
    let reply = expect_reply(server, result, &format!("over {transport}"))?;
    let (fault, hint) = match (&reply.soa, reply.rcode) {
        (_, Rcode::SERVFAIL) => (
            format!("has no complete table of {zone} yet: SERVFAIL"),
            CHECK_REACHABILITY,
        ),
        (_, Rcode::REFUSED) => (format!("does not serve {zone}: REFUSED"), SAME_ZONE),
        (Some(soa), Rcode::NOERROR) if reply.authoritative && is_of_global_dns(soa, zone) => {
            return Ok(soa);
        }
        (soa, rcode) => {
            let names = soa.as_ref().map(|soa| format!(", SOA {}", soa.names[0]));
            let reply = rcode_name(rcode) + &names.unwrap_or_default();
            let fault = format!("is not a global-dns server of {zone}: {reply}");
            (fault, OTHER_SERVER)
        }
    };
    Err(server_fault(server, fault, hint))
}

/// Checks the NS records of a reply. An error is the finding that they are wrong.
fn expect_ns(server: SocketAddr, zone: &ZoneName, result: &QueryResult) -> Result<(), Finding> {
    let reply = expect_reply(server, result, &format!("for the NS records of {zone}"))?;
    let ns = &reply.records;
    if ns.contains(&format!("{zone} NS ns.dns.{zone}")) {
        return Ok(());
    }
    Err(server_fault(
        server,
        format!(
            "has no NS record ns.dns.{zone} for {zone}, but: {}",
            list_some(ns)
        ),
        "give --dns the address of the global-dns Service",
    ))
}

/// Returns a reply of the server, or the finding that there is none.
fn expect_reply<'a>(
    server: SocketAddr,
    result: &'a QueryResult,
    query: &str,
) -> Result<&'a ReplySummary, Finding> {
    result.as_ref().map_err(|why| {
        server_fault(
            server,
            format!("does not answer {query}: {why}"),
            CHECK_REACHABILITY,
        )
    })
}

/// Makes the finding of a fault of the server.
fn server_fault(server: SocketAddr, fault: String, hint: &str) -> Finding {
    Check::Server.red(format!("{server} {fault}"), hint)
}

pub(super) fn is_of_global_dns(soa: &SoaFields, zone: &ZoneName) -> bool {
    soa.names[0] == format!("ns.dns.{zone}")
}

fn is_equal_except_serial(one: &SoaFields, other: &SoaFields) -> bool {
    one.names == other.names && one.timers == other.timers
}

// === The cluster's DNS ===

/// Checks the replies of the cluster's DNS, compared with the SOA record of the server.
fn forwarding(dns: &DnsFacts, facts: &ZoneFacts, server_soa: Option<&SoaFields>) -> Finding {
    let zone = &facts.zone;
    let subject = format!("forwarding of {zone}");
    let resolver = match (&dns.server, &dns.resolver) {
        (None, _) => return Check::Forwarding.not_checked(&subject, &no_server()),
        (_, Err(reason)) => return Check::Forwarding.not_checked(&subject, reason),
        (Some(_), Ok(resolver)) => *resolver,
    };
    let (Some(server_soa), Some(replies)) = (server_soa, &facts.resolver) else {
        let reason = NotChecked::new("the server did not answer", "see the line above");
        return Check::Forwarding.not_checked(&subject, &reason);
    };
    match &replies.soa {
        Ok(reply) if reply.rcode == Rcode::SERVFAIL => {
            let failure = format!("returns {}", rcode_name(reply.rcode));
            query_failed(resolver, zone, &failure, &replies.root)
        }
        Ok(reply) => check_reply(resolver, zone, reply, server_soa, &replies.samples),
        Err(why) => {
            let failure = format!("does not answer: {why}");
            query_failed(resolver, zone, &failure, &replies.root)
        }
    }
}

/// Checks a reply of the cluster's DNS that is not SERVFAIL.
fn check_reply(
    resolver: SocketAddr,
    zone: &ZoneName,
    reply: &ReplySummary,
    server_soa: &SoaFields,
    samples: &[Sample],
) -> Finding {
    let reason = match (reply.rcode, &reply.soa) {
        (Rcode::NOERROR, Some(soa)) if is_of_global_dns(soa, zone) => {
            return check_forwarded(resolver, zone, soa, server_soa, samples);
        }
        (Rcode::NOERROR, Some(soa)) => format!("its SOA record names {}", soa.names[0]),
        (Rcode::NOERROR, None) => "it returns no SOA record".to_owned(),
        (rcode, _) => format!("it returns {}", rcode_name(rcode)),
    };
    not_forwarded(resolver, zone, &reason)
}

/// Checks a cluster's DNS that fails for the zone. Without access to the Internet, it fails for all names that it does
/// not forward.
fn query_failed(
    resolver: SocketAddr,
    zone: &ZoneName,
    failure: &str,
    root: &QueryResult,
) -> Finding {
    let fails_everywhere = match root {
        Ok(reply) => reply.rcode == Rcode::SERVFAIL,
        Err(_) => true,
    };
    if fails_everywhere {
        not_forwarded(
            resolver,
            zone,
            &format!("it {failure}, also for the root zone"),
        )
    } else {
        Check::Forwarding.red(
            format!("{resolver} fails only for {zone}: it {failure}"),
            "no server answers at the address in the stanza, or the resolver validates the public zone of that name with \
             DNSSEC (domain-insecure): compare the address in the stanza with that of the Service",
        )
    }
}

/// Makes the finding of a zone that is not forwarded. It is yellow, as usual between the installation and the stanza.
fn not_forwarded(resolver: SocketAddr, zone: &ZoneName, reason: &str) -> Finding {
    Check::Forwarding.yellow(
        format!("{resolver} does not forward {zone} yet: {reason}"),
        "add the stanza for the zone to the cluster's DNS: see coredns/",
    )
}

/// Checks a cluster's DNS that forwards to a global-dns server: compares its replies with those of the server.
fn check_forwarded(
    resolver: SocketAddr,
    zone: &ZoneName,
    soa: &SoaFields,
    server_soa: &SoaFields,
    samples: &[Sample],
) -> Finding {
    if !is_equal_except_serial(soa, server_soa) {
        let sentence = format!("{resolver} and the server have different SOA records of {zone}");
        return Check::Forwarding.red(sentence, OTHER_ANSWERS);
    }
    let (differing, equal): (Vec<&Sample>, Vec<&Sample>) =
        samples.iter().partition(|sample| sample.differs());
    let names = |samples: Vec<&Sample>| list_some(samples.iter().map(|one| &one.question));
    if !differing.is_empty() {
        let names = names(differing);
        let sentence = format!("{resolver} and the server answer differently: {names}");
        return Check::Forwarding.red(sentence, OTHER_ANSWERS);
    }
    let mut compared = "the same SOA record".to_owned();
    if !equal.is_empty() {
        compared += &format!(", and the same answer for {}", names(equal));
    }
    let sentence = format!("{resolver} forwards {zone} to the server: {compared}");
    Check::Forwarding.green(sentence)
}

// === impl ReplySummary ===

impl ReplySummary {
    /// Returns whether the answer section has records.
    pub fn has_records(&self) -> bool {
        !self.records.is_empty()
    }

    /// Returns the addresses of the answer section.
    pub fn addresses(&self) -> BTreeSet<IpAddr> {
        let data = self
            .records
            .iter()
            .filter_map(|text| text.rsplit(' ').next());
        data.filter_map(|data| data.parse().ok()).collect()
    }

    /// Returns whether another name server answers the same. This is the only comparison of two answers.
    pub(super) fn is_answered_by(&self, other: &QueryResult) -> bool {
        let is_equal = |other: &Self| (self.rcode, &self.records) == (other.rcode, &other.records);
        other.as_ref().is_ok_and(is_equal)
    }
}

// === impl Sample ===

impl Sample {
    /// Returns whether the cluster's DNS does not answer as the server does. Without a reply of the server, there is nothing to
    /// compare with.
    pub fn differs(&self) -> bool {
        let server = self.server.as_ref();
        server.is_ok_and(|server| !server.is_answered_by(&self.resolver))
    }
}

/// Returns the name of a response code.
pub(super) fn rcode_name(rcode: Rcode) -> String {
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
