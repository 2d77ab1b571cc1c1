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

/// What to do if a name server does not forward the zone.
const ADD: &str = "add the stanza for the zone to the cluster's DNS: see coredns/";

// === The question ===

impl Question {
    /// Returns the question for the SOA record of a zone.
    pub fn of_apex(zone: &str) -> Self {
        Self {
            name: zone.to_owned(),
            rtype: RecordType::SOA,
            exists: true,
            zone: zone.to_owned(),
            ..Self::of_name(&[])
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
        let answer = of("answers").find(|one| one["result"] == "NOERROR");
        let failing = of("answers").find(|one| one["result"] == "SERVFAIL");
        let rtype = match answer.map(|one| text(one, "rtype")) {
            Some("AAAA") => RecordType::AAAA,
            Some("SRV") => RecordType::SRV,
            Some("SOA") => RecordType::SOA,
            _ => RecordType::A,
        };
        Self {
            name: name.map_or("", |one| text(one, "name")).to_owned(),
            rtype,
            endpoints: of("endpoints").cloned().collect(),
            // The addresses of the targets may not fit.
            has_order: of("service").any(|one| !one["failover"].is_null())
                || rtype == RecordType::SRV,
            exists: answer.is_some(),
            failure: failing.map(|one| text(one, "reason").to_owned()),
            zone: String::new(),
        }
    }

    /// Returns whether all addresses of a reply are those of endpoints.
    fn is_known(&self, reply: &ReceivedReply) -> bool {
        let known: BTreeSet<IpAddr> = self.endpoints.iter().flat_map(addresses).collect();
        reply.addresses.is_subset(&known)
    }

    /// Returns whether a reply has the addresses that the server returns, if it is for addresses.
    fn is_returned(&self, reply: &ReceivedReply) -> bool {
        let is_v6 = match self.rtype {
            RecordType::A => false,
            RecordType::AAAA => true,
            _ => return self.is_known(reply),
        };
        let returned = self.endpoints.iter().filter(|one| one["returned"] == true);
        let returned = returned
            .flat_map(addresses)
            .filter(|ip| ip.is_ipv6() == is_v6);
        reply.addresses == returned.collect()
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
    let usable = facts.services.iter().filter_map(|service| {
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
        let mut compared = self.replies().map(|reply| self.compare(reply));
        let direct = self.direct_reply();
        compared.any(|one| one.state == FindingState::Failing)
            || direct.is_some_and(|reply| !self.question.is_known(reply))
    }

    /// Returns the addresses that the first name server answers.
    pub fn answered(&self) -> BTreeSet<IpAddr> {
        let mut addresses = self.replies().flatten().map(|reply| &reply.addresses);
        addresses.next().cloned().unwrap_or_default()
    }

    /// Returns the findings: about the server, and each name server of the cluster.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::from_iter(self.direct_answer());
        findings.extend(
            self.resolvers
                .iter()
                .filter_map(|one| self.cluster_answer(one)),
        );
        findings
    }

    /// Checks the answers of a name server of the cluster.
    fn cluster_answer(&self, resolver: &Resolver) -> Option<Finding> {
        const CACHE: &str =
            "wait for the time that it keeps negative answers, or restart the cluster's DNS";
        const DIFFER: &str = "the replicas of the cluster's DNS differ: each loads the stanza within two minutes, or when it restarts";
        let Resolver {
            server,
            replies,
            has_zone,
        } = resolver;
        let compared = replies.iter().map(|reply| self.compare(reply));
        let is_wrong = |one: &Finding| one.state == FindingState::Failing;
        let wrong = compared.clone().filter(is_wrong).count();
        // The first of the worst.
        let mut finding = compared.rev().max_by_key(|one| one.state)?;
        finding.sentence = format!("{server} {}", finding.sentence);
        if wrong > 0 && wrong < replies.len() {
            let counts = format!("{wrong} of {} answers", replies.len());
            finding.sentence = format!("{counts}: {}", finding.sentence);
            finding.hint = DIFFER.to_owned();
        } else if *has_zone && finding.hint == ADD {
            let question = &self.question;
            finding.sentence =
                format!("{server} has an older answer for {question}, and forwards the zone");
            finding.hint = CACHE.to_owned();
        }
        Some(finding)
    }

    /// Checks the answer of the server.
    fn direct_answer(&self) -> Option<Finding> {
        const CHECK: Check = Check::DirectAnswer;
        const REACH: &str = "check the Pods at this address (/readyz names what is missing), and whether a NetworkPolicy or \
                             firewall blocks UDP or TCP";
        const OTHER: &str =
            "--dns is another server: compare it with the address of the global-dns Service";
        let question = &self.question;
        let explain = format!(
            "global-dns explain {} says why; or --dns is another server; REFUSED: the name is in none of its zones, or limits.allow \
             excludes this machine",
            question.name
        );
        let Some(Direct { server, udp, tcp }) = &self.direct else {
            let is_missing = !question.exists && question.failure.is_none();
            let sentence = format!("the server has no {question}");
            return is_missing.then(|| CHECK.failing(sentence, explain));
        };
        let reply = match (udp, tcp) {
            (Ok(reply), Ok(_)) => reply,
            (Err(why), _) | (_, Err(why)) => {
                let over = if udp.is_ok() { " over TCP" } else { "" };
                let sentence = format!("{server} does not answer {question}{over}: {why}");
                return Some(CHECK.failing(sentence, REACH));
            }
        };
        let (code, data) = (&reply.code, data(reply));
        Some(match &question.failure {
            _ if reply.has_records && question.is_known(reply) => {
                CHECK.ok(format!("{server} answers {question}: {data}"))
            }
            _ if reply.has_records => {
                let sentence = format!(
                    "{server} answers {question} with {data}, which no endpoint of the service has"
                );
                CHECK.failing(sentence, OTHER)
            }
            // The server's own problem says how bad a closed gate is.
            Some(failure) if code == "SERVFAIL" => {
                let sentence = format!("{server} answers {code} for {question}: {failure}");
                let hint = "see the problem of the service";
                CHECK.attention(sentence, hint)
            }
            _ => {
                let sentence = format!("{server} answers {code} for {question}, without a record");
                CHECK.failing(sentence, explain)
            }
        })
    }

    /// Compares the reply of a name server with the server. The sentence lacks the name server.
    fn compare(&self, reply: &Fact<ReceivedReply>) -> Finding {
        const COMPARE: &str = "the stanza forwards to another server, of another cluster or with other settings: compare its \
                               address with that of the global-dns Service";
        const NO_SERVER: &str = "no server answers at the address in the stanza, the zone is not forwarded, or the resolver \
                                 validates the public zone of that name with DNSSEC (domain-insecure): compare the address in the \
                                 stanza with that of the Service";
        const NO_REPLY: &str = "check the cluster's DNS and the network to it";
        let question = &self.question;
        let agrees = |how: &str| Check::ClusterAnswer.ok(format!("{how}: {question}"));
        let wrong = |what: String, hint| Check::ClusterAnswer.failing(what, hint);
        let reply = match reply {
            Ok(reply) => reply,
            Err(why) => return wrong(format!("does not answer {question}: {why}"), NO_REPLY),
        };
        let server_answers = match self.direct_reply() {
            Some(reply) => reply.has_records,
            None => question.exists,
        };
        if reply.has_records {
            if server_answers && self.is_same(reply) {
                return agrees("answers as the server does");
            }
            if server_answers && self.is_part(reply) {
                return agrees(
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
        match reply.code.as_str() {
            code if !server_answers && (question.failure.is_none() || code == "SERVFAIL") => {
                agrees("has no answer either")
            }
            "NOERROR" => wrong(
                format!("answers {question} without records: another server has the zone"),
                ADD,
            ),
            "SERVFAIL" => wrong(format!("answers SERVFAIL for {question}"), NO_SERVER),
            code => wrong(
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
        match self.direct_reply() {
            Some(direct) => direct.addresses == reply.addresses,
            None => self.question.is_returned(reply),
        }
    }

    /// Returns whether the addresses of a reply are a part of those of the service, where answers may be different parts.
    fn is_part(&self, reply: &ReceivedReply) -> bool {
        let mut replies = [Some(reply), self.direct_reply()].into_iter().flatten();
        let may_differ = self.question.has_order || replies.any(|one| one.is_truncated);
        may_differ && reply.primary.is_none() && self.question.is_known(reply)
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
