//! The way of a query from a program of this cluster to the server: one question for each zone, sent to the server and to the
//! cluster's DNS, and one comparison.
//!
//! Two answers to one question are equal if they have the same addresses. An order of failover, or an answer longer than a
//! message, may give different parts of the service's addresses. Any other address is that of another server.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde_json::Value;

use super::dns_client::ReceivedReply;
use super::facts::{ServerFacts, ZoneFacts};
use super::finding::{Check, Fact, Finding, FindingState, items, key_of, list, text};
use crate::zone::RecordType;

/// A question for the addresses of a name, and what the server's API says about it.
#[derive(Clone, Debug)]
pub struct Question {
    /// The absolute name, with the final dot.
    pub name: String,
    /// A or AAAA; SRV for the name of a port; SOA for a zone without a service.
    pub rtype: RecordType,
    /// All endpoints of its service, or of the name.
    pub endpoints: Vec<Value>,
    /// Their addresses.
    pub known: BTreeSet<IpAddr>,
    /// Those that the server returns, if the question is for addresses.
    pub returned: Option<BTreeSet<IpAddr>>,
    /// Whether the answers may have different parts of the known addresses, because the service has an order of failover.
    pub has_order: bool,
    /// Whether the server says that it has such records.
    pub exists: bool,
    /// Why the server says that the name fails, such as a closed gate.
    pub failure: Option<String>,
    /// The zone of the name.
    pub zone: String,
}

/// The way of one question.
#[derive(Debug)]
pub struct Probe {
    /// The question.
    pub question: Question,
    /// The replies of the server. `None`: its address is not known. It may not be reachable from here.
    pub direct: Option<Direct>,
    /// The name servers of the cluster, in the order of `/etc/resolv.conf`.
    pub resolvers: Vec<Resolver>,
}

/// The server, with its replies.
#[derive(Debug)]
pub struct Direct {
    /// Its address.
    pub server: SocketAddr,
    /// Its reply over UDP.
    pub udp: Fact<ReceivedReply>,
    /// Its reply over TCP.
    pub tcp: Fact<ReceivedReply>,
}

/// A name server of the cluster. Behind its address may be several replicas.
#[derive(Debug)]
pub struct Resolver {
    /// Its address.
    pub server: SocketAddr,
    /// Its replies to the same question.
    pub replies: Vec<Fact<ReceivedReply>>,
    /// Whether it answers for another name of the zone as the server does, if it says that there is no such name.
    pub has_zone: bool,
}

/// How the answer of a name server is not that of the server.
struct Disagreement {
    sentence: String,
    /// What to do.
    hint: &'static str,
}

/// What to do if a name server does not forward the zone.
const ADD: &str = "add the stanza for the zone to the cluster's DNS: see coredns/";

// === The question ===

impl Question {
    /// Returns the question for the SOA record of a zone.
    pub fn of_apex(zone: &str) -> Self {
        Self {
            zone: zone.to_owned(),
            ..Self::new(zone.to_owned(), RecordType::SOA, Vec::new())
        }
    }

    /// Returns the question for a name, for the first type that it has, from the items of its explanation.
    pub fn of_name(explained: &[Value]) -> Self {
        let of = |section: &'static str| {
            explained
                .iter()
                .filter(move |one| one["section"] == section)
        };
        let name = explained.iter().find(|one| !one["reading"].is_null());
        let name = name.map_or("", |one| text(one, "name")).to_owned();
        let answer = of("answers").find(|one| one["result"] == "NOERROR");
        let rtype = RecordType::OF_SERVICES
            .into_iter()
            .chain([RecordType::SOA])
            .find(|rtype| answer.is_some_and(|one| text(one, "rtype") == rtype.to_string()))
            .unwrap_or(RecordType::A);
        let failing = of("answers").find(|one| one["result"] == "SERVFAIL");
        Self {
            // The addresses of the targets may not fit.
            has_order: of("service").any(|one| !one["failover"].is_null())
                || rtype == RecordType::SRV,
            exists: answer.is_some(),
            failure: failing.map(|one| text(one, "reason").to_owned()),
            ..Self::new(name, rtype, of("endpoints").cloned().collect())
        }
    }

    fn new(name: String, rtype: RecordType, endpoints: Vec<Value>) -> Self {
        let returned = endpoints.iter().filter(|one| one["returned"] == true);
        let is_v6 = rtype == RecordType::AAAA;
        let returned = returned
            .flat_map(addresses)
            .filter(|one| one.is_ipv6() == is_v6);
        Self {
            name,
            rtype,
            known: endpoints.iter().flat_map(addresses).collect(),
            returned: matches!(rtype, RecordType::A | RecordType::AAAA).then(|| returned.collect()),
            endpoints,
            has_order: false,
            exists: true,
            failure: None,
            zone: String::new(),
        }
    }

    /// Returns whether all addresses of a reply are those of endpoints, if the server says which they are.
    fn is_known(&self, reply: &ReceivedReply) -> bool {
        self.returned.is_none() || reply.addresses.is_subset(&self.known)
    }
}

fn addresses(endpoint: &Value) -> impl Iterator<Item = IpAddr> {
    items(endpoint, "addresses").filter_map(|one| one.as_str()?.parse().ok())
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.rtype)
    }
}

/// Returns the data of a reply for a sentence.
fn data(reply: &ReceivedReply) -> String {
    match &reply.primary {
        Some(primary) => format!("SOA {primary}"),
        None => list(&reply.addresses),
    }
}

/// Returns the name in a zone that is asked for: that of the smallest service that answers there with an endpoint that is alive.
pub fn name_in(zone: ZoneFacts<'_>, facts: &ServerFacts) -> Option<String> {
    let aliases = &facts.status["settings"]["aliases"];
    let usable = facts.table.services.iter().filter_map(|service| {
        let (part, size) = match zone.cluster {
            "" if text(service, "answer") != "NOERROR" => return None,
            "" => (service, "returned"),
            // What aliases add has no name in the zone of a cluster.
            _ if !aliases[key_of(service).join("/")].is_null() => return None,
            cluster => (
                items(service, "clusters").find(|cell| text(cell, "cluster") == cluster)?,
                "endpoints",
            ),
        };
        (part["alive"].as_u64() > Some(0)).then(|| (part[size].as_u64(), service))
    });
    let (_, service) = usable.min_by_key(|(size, _)| *size)?;
    let [namespace, name] = key_of(service);
    Some(format!("{name}.{namespace}.{}", zone.suffix))
}

// === The comparison ===

impl Probe {
    /// Returns whether a name server answers otherwise, so that all are asked again: a cache may have an older answer.
    pub fn differs(&self) -> bool {
        let mut replies = self.replies();
        let direct = self.direct_reply();
        replies.any(|reply| self.compare(reply).is_err())
            || direct.is_some_and(|reply| !self.question.is_known(reply))
    }

    /// Returns the addresses that the first name server answers.
    pub fn answered(&self) -> BTreeSet<IpAddr> {
        self.replies()
            .find_map(|reply| reply.as_ref().ok())
            .map_or_else(BTreeSet::new, |reply| reply.addresses.clone())
    }

    /// Returns the findings: about the server, and each name server of the cluster.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::from_iter(self.direct_answer());
        findings.extend(self.resolvers.iter().map(|one| self.cluster_answer(one)));
        findings
    }

    /// Checks the answers of a name server of the cluster.
    fn cluster_answer(&self, resolver: &Resolver) -> Finding {
        let Resolver {
            server,
            replies,
            has_zone,
        } = resolver;
        const CHECK: Check = Check::ClusterAnswer;
        const CACHE: &str =
            "wait for the time that it keeps negative answers, or restart the cluster's DNS";
        const DIFFER: &str = "the replicas of the cluster's DNS differ: each loads the stanza within two minutes, or when it restarts";
        let (mut agreement, mut wrong) = ("", Vec::new());
        for reply in replies {
            match self.compare(reply) {
                Ok(how) => agreement = how,
                Err(one) => wrong.push(one),
            }
        }
        let counts = format!("{} of {} answers", wrong.len(), replies.len());
        let differ = wrong.len() < replies.len();
        let question = &self.question;
        let Some(Disagreement { sentence, hint }) = wrong.into_iter().next() else {
            return Finding::ok(CHECK, format!("{server} {agreement}: {question}"));
        };
        if differ {
            return Finding::failing(CHECK, format!("{counts}: {server} {sentence}"), DIFFER);
        }
        if *has_zone && hint == ADD {
            let sentence =
                format!("{server} has an older answer for {question}, and forwards the zone");
            return Finding::failing(CHECK, sentence, CACHE);
        }
        Finding::failing(CHECK, format!("{server} {sentence}"), hint)
    }

    /// Checks the answer of the server.
    fn direct_answer(&self) -> Option<Finding> {
        const CHECK: Check = Check::DirectAnswer;
        const REACH: &str = "check the Pods at this address (/readyz names what is missing), and whether a NetworkPolicy or \
                             firewall blocks UDP or TCP";
        let question = &self.question;
        let explain = format!(
            "global-dns explain {} says why; or --dns is another server; REFUSED: the name is in none of its zones, or limits.allow \
             excludes this machine",
            question.name
        );
        let Some(Direct { server, udp, tcp }) = &self.direct else {
            let is_missing = !question.exists && question.failure.is_none();
            let sentence = format!("the server has no {question}");
            return is_missing.then(|| Finding::failing(CHECK, sentence, explain));
        };
        let reply = match (udp, tcp) {
            (Ok(reply), Ok(_)) => reply,
            (Err(why), _) | (_, Err(why)) => {
                let over = if udp.is_ok() { " over TCP" } else { "" };
                let sentence = format!("{server} does not answer {question}{over}: {why}");
                return Some(Finding::failing(CHECK, sentence, REACH));
            }
        };
        let code = &reply.code;
        Some(match &question.failure {
            _ if reply.has_records && question.is_known(reply) => {
                let sentence = format!("{server} answers {question}: {}", data(reply));
                Finding::ok(CHECK, sentence)
            }
            _ if reply.has_records => {
                let data = data(reply);
                let sentence = format!(
                    "{server} answers {question} with {data}, which no endpoint of the service has"
                );
                Finding::failing(
                    CHECK,
                    sentence,
                    "--dns is another server: compare it with the address of the global-dns Service",
                )
            }
            // The server's own problem says how bad a closed gate is.
            Some(failure) if code == "SERVFAIL" => {
                let sentence = format!("{server} answers {code} for {question}: {failure}");
                let hint = "see the problem of the service";
                Finding::new(FindingState::Attention, CHECK, sentence, hint)
            }
            _ => {
                let sentence = format!("{server} answers {code} for {question}, without a record");
                Finding::failing(CHECK, sentence, explain)
            }
        })
    }

    /// Compares the reply of a name server with the server. Returns how it agrees.
    fn compare(&self, reply: &Fact<ReceivedReply>) -> Result<&'static str, Disagreement> {
        const COMPARE: &str = "the stanza forwards to another server, of another cluster or with other settings: compare its \
                               address with that of the global-dns Service";
        const NO_SERVER: &str = "no server answers at the address in the stanza, the zone is not forwarded, or the resolver \
                                 validates the public zone of that name with DNSSEC (domain-insecure): compare the address in the \
                                 stanza with that of the Service";
        const NO_REPLY: &str = "check the cluster's DNS and the network to it";
        let question = &self.question;
        let wrong = |sentence: String, hint| Err(Disagreement { sentence, hint });
        let reply = match reply {
            Ok(reply) => reply,
            Err(why) => return wrong(format!("does not answer {question}: {why}"), NO_REPLY),
        };
        let server_answers = match self.direct_reply() {
            Some(reply) => reply.has_records,
            None => question.exists,
        };
        let code = reply.code.as_str();
        if reply.has_records {
            if server_answers && self.is_same(reply) {
                return Ok("answers as the server does");
            }
            if server_answers && self.is_part(reply) {
                return Ok(
                    "answers other endpoints of the service, as an order or a rotation does",
                );
            }
            let server = if server_answers {
                "otherwise"
            } else {
                "does not"
            };
            let data = data(reply);
            return wrong(
                format!("answers {question} with {data}, and the server {server}"),
                COMPARE,
            );
        }
        match code {
            _ if !server_answers && (question.failure.is_none() || code == "SERVFAIL") => {
                Ok("has no answer either")
            }
            "NOERROR" => wrong(
                format!("answers {question} without records: another server has the zone"),
                ADD,
            ),
            "SERVFAIL" => wrong(format!("answers SERVFAIL for {question}"), NO_SERVER),
            _ => wrong(
                format!("answers {code} for {question}: the zone is not forwarded"),
                ADD,
            ),
        }
    }

    /// Returns whether a reply has the data of the server: those of its reply, or else of its API.
    fn is_same(&self, reply: &ReceivedReply) -> bool {
        if let Some(primary) = &reply.primary {
            return *primary == format!("ns.dns.{}", self.question.name);
        }
        let expected = self.direct_reply().map(|direct| &direct.addresses);
        match expected.or(self.question.returned.as_ref()) {
            Some(expected) => *expected == reply.addresses,
            None => reply.addresses.is_subset(&self.question.known),
        }
    }

    /// Returns whether the addresses of a reply are a part of those of the service, where answers may be different parts.
    fn is_part(&self, reply: &ReceivedReply) -> bool {
        let direct = self.direct_reply();
        let is_truncated = reply.is_truncated || direct.is_some_and(|direct| direct.is_truncated);
        let may_differ = self.question.has_order || is_truncated;
        may_differ && reply.primary.is_none() && reply.addresses.is_subset(&self.question.known)
    }

    fn replies(&self) -> impl Iterator<Item = &Fact<ReceivedReply>> {
        self.resolvers.iter().flat_map(|one| &one.replies)
    }

    fn direct_reply(&self) -> Option<&ReceivedReply> {
        self.direct.as_ref()?.udp.as_ref().ok()
    }
}

#[cfg(test)]
mod tests;
