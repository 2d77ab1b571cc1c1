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

/// The replies for one zone.
#[derive(Clone, Debug)]
pub struct ZoneFacts {
    /// The zone.
    pub zone: ZoneName,
    /// The replies of the server.
    pub server: Fact<ServerReplies>,
    /// The replies of the cluster's DNS.
    pub resolver: Fact<ResolverReplies>,
}

/// The replies of the server.
#[derive(Clone, Debug)]
pub struct ServerReplies {
    /// Its address.
    pub address: SocketAddr,
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
    /// Its address.
    pub address: SocketAddr,
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

pub(super) fn check(zones: &[ZoneFacts]) -> Vec<Finding> {
    zones.iter().flat_map(ZoneFacts::check).collect()
}

/// Returns the reason for which nothing is queried.
pub fn no_server() -> NotChecked {
    NotChecked::new(
        "--dns is not given",
        "give --dns the address of the global-dns Service as IP or IP:PORT",
    )
}

// === impl ZoneFacts ===

impl ZoneFacts {
    /// Returns the finding about the server, and that about the cluster's DNS.
    fn check(&self) -> [Finding; 2] {
        let zone = &self.zone;
        let (server, soa) = match self.server.as_ref().map(|replies| replies.check(zone)) {
            Ok(Ok((finding, soa))) => (finding, Some(soa)),
            Ok(Err(finding)) => (finding, None),
            Err(reason) => {
                let part = format!("server of {zone}");
                (Check::Server.part_not_checked(&part, reason), None)
            }
        };
        let forwarding = match (&self.resolver, soa) {
            (Ok(replies), Some(soa)) => replies.check(zone, soa),
            (resolver, _) => {
                let silent = NotChecked::new("the server did not answer", "see the line above");
                let reason = resolver.as_ref().err().unwrap_or(&silent);
                Check::Forwarding.part_not_checked(&format!("forwarding of {zone}"), reason)
            }
        };
        [server, forwarding]
    }
}

// === impl ServerReplies ===

impl ServerReplies {
    /// Checks the replies. Returns the SOA record, or the finding that there is no valid one to compare with.
    fn check(&self, zone: &ZoneName) -> Result<(Finding, &SoaFields), Finding> {
        let udp = self.expect_soa(zone, "UDP", &self.udp)?;
        let tcp = self.expect_soa(zone, "TCP", &self.tcp)?;
        if !is_equal_except_serial(udp, tcp) {
            let fault = format!("has different SOA records of {zone} over UDP and TCP");
            return Err(self.fault(&fault, "give all replicas the same flags"));
        }
        let ns = self.expect_reply(&self.ns, &format!("for the NS records of {zone}"))?;
        if !ns.records.contains(&format!("{zone} NS ns.dns.{zone}")) {
            let found = list_some(&ns.records);
            let fault = format!("has no NS record ns.dns.{zone} for {zone}, but: {found}");
            return Err(self.fault(&fault, "give --dns the address of the global-dns Service"));
        }
        let (server, serial) = (self.address, udp.serial);
        let sentence = format!("{server} serves {zone} over UDP and TCP, serial {serial}");
        Ok((Check::Server.green(sentence), udp))
    }

    /// Returns the SOA record of a reply, or the finding that it is not the record of a global-dns server.
    fn expect_soa<'a>(
        &self,
        zone: &ZoneName,
        transport: &str,
        result: &'a QueryResult,
    ) -> Result<&'a SoaFields, Finding> {
        let reply = self.expect_reply(result, &format!("over {transport}"))?;
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
        Err(self.fault(&fault, hint))
    }

    /// Returns a reply, or the finding that there is none.
    fn expect_reply<'a>(
        &self,
        result: &'a QueryResult,
        query: &str,
    ) -> Result<&'a ReplySummary, Finding> {
        result.as_ref().map_err(|why| {
            let fault = format!("does not answer {query}: {why}");
            self.fault(&fault, CHECK_REACHABILITY)
        })
    }

    /// Makes the finding of a fault.
    fn fault(&self, fault: &str, hint: &str) -> Finding {
        Check::Server.red(format!("{} {fault}", self.address), hint)
    }
}

pub(super) fn is_of_global_dns(soa: &SoaFields, zone: &ZoneName) -> bool {
    soa.names[0] == format!("ns.dns.{zone}")
}

fn is_equal_except_serial(one: &SoaFields, other: &SoaFields) -> bool {
    one.names == other.names && one.timers == other.timers
}

// === impl ResolverReplies ===

impl ResolverReplies {
    /// Checks the replies, compared with the SOA record of the server.
    fn check(&self, zone: &ZoneName, server_soa: &SoaFields) -> Finding {
        let reason = match &self.soa {
            Err(why) => return self.query_failed(zone, &format!("does not answer: {why}")),
            Ok(reply) => match (reply.rcode, &reply.soa) {
                (Rcode::SERVFAIL, _) => return self.query_failed(zone, "returns SERVFAIL"),
                (Rcode::NOERROR, Some(soa)) if is_of_global_dns(soa, zone) => {
                    return self.check_forwarded(zone, soa, server_soa);
                }
                (Rcode::NOERROR, Some(soa)) => format!("its SOA record names {}", soa.names[0]),
                (Rcode::NOERROR, None) => "it returns no SOA record".to_owned(),
                (rcode, _) => format!("it returns {}", rcode_name(rcode)),
            },
        };
        self.not_forwarded(zone, &reason)
    }

    /// Checks a cluster's DNS that fails for the zone. Without access to the Internet, it fails for all names that it does
    /// not forward.
    fn query_failed(&self, zone: &ZoneName, failure: &str) -> Finding {
        let works = |reply: &ReplySummary| reply.rcode != Rcode::SERVFAIL;
        if !self.root.as_ref().is_ok_and(works) {
            return self.not_forwarded(zone, &format!("it {failure}, also for the root zone"));
        }
        Check::Forwarding.red(
            format!("{} fails only for {zone}: it {failure}", self.address),
            "no server answers at the address in the stanza, or the resolver validates the public zone of that name with \
             DNSSEC (domain-insecure): compare the address in the stanza with that of the Service",
        )
    }

    /// Makes the finding of a zone that is not forwarded. It is yellow, as usual between the installation and the stanza.
    fn not_forwarded(&self, zone: &ZoneName, reason: &str) -> Finding {
        Check::Forwarding.yellow(
            format!("{} does not forward {zone} yet: {reason}", self.address),
            "add the stanza for the zone to the cluster's DNS: see coredns/",
        )
    }

    /// Checks a cluster's DNS that forwards to a global-dns server: compares its replies with those of the server.
    fn check_forwarded(&self, zone: &ZoneName, soa: &SoaFields, server_soa: &SoaFields) -> Finding {
        let resolver = self.address;
        if !is_equal_except_serial(soa, server_soa) {
            let sentence =
                format!("{resolver} and the server have different SOA records of {zone}");
            return Check::Forwarding.red(sentence, OTHER_ANSWERS);
        }
        let (differing, equal): (Vec<&Sample>, Vec<&Sample>) =
            self.samples.iter().partition(|sample| sample.differs());
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
