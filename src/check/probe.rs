//! The way of a query from a program of this cluster to the server: one question for each zone, sent to the server and to the
//! cluster's DNS, and one comparison.
//!
//! Two answers to one question are equal if they have the same addresses. An order of failover, or an answer longer than a
//! message, may give different parts of the service's addresses. Any other address is that of another server.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde_json::Value;

use super::dns_client::Reply;
use super::finding::{Check, Fact, Finding, State, items, list, text};
use crate::wire::Rcode;
use crate::zone::RecordType;

/// A question for the addresses of a name, and what the server's API says about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The absolute name, with the final dot.
    pub name: String,
    /// A or AAAA; SOA for a zone without a service.
    pub rtype: RecordType,
    /// The namespace and the name of its service.
    pub service: Option<[String; 2]>,
    /// The addresses of all endpoints of the service.
    pub known: BTreeSet<IpAddr>,
    /// Those that the server returns, if the name is that of the whole service.
    pub returned: Option<BTreeSet<IpAddr>>,
    /// Whether the answers may have different parts of the known addresses, because the service has an order of failover.
    pub has_order: bool,
    /// Why the server says that the name fails, such as a closed gate.
    pub failure: Option<String>,
}

/// The way of one question.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The zone, with the final dot.
    pub zone: String,
    /// The question.
    pub question: Question,
    /// The server, with its reply over UDP, and over TCP. `None`: its address is not known.
    pub direct: Option<(SocketAddr, Fact<Reply>, Fact<Reply>)>,
    /// The name servers of the cluster, in the order of `/etc/resolv.conf`, with their replies.
    pub resolvers: Vec<(SocketAddr, Fact<Reply>)>,
    /// The names of the search list that a program asks for first, with the replies.
    pub searched: Vec<(String, Fact<Reply>)>,
}

/// What a name server answers, compared with the server.
enum Verdict {
    /// The same.
    Same(&'static str),
    /// Nothing to compare with: the server does not answer either.
    Nothing,
    /// Something else: the sentence, and what to do.
    Wrong(String, &'static str),
}

// === The question ===

impl Question {
    /// Returns the question for a zone: a given name of the zone, else the name of the smallest service that answers, else
    /// the SOA record of the zone. `suffix` follows the namespace in the names of services.
    pub fn of_zone(zone: &str, suffix: &str, name: Option<&str>, services: &[Value]) -> Self {
        let name_of = |service: &Value| {
            let [namespace, service] = ["namespace", "service"].map(|field| text(service, field));
            format!("{service}.{namespace}.{suffix}")
        };
        if let Some(name) = name {
            let short = |service: &Value| {
                let is_owner = service["ownsShortName"].as_bool() == Some(true);
                is_owner.then(|| format!("{}.{zone}", text(service, "service")))
            };
            let is_within = |own: &str| name == own || name.ends_with(&format!(".{own}"));
            let service = services.iter().find(|one| is_within(&name_of(one)));
            let by_short_name = |one: &&Value| short(one).is_some_and(|own| is_within(&own));
            let service = service.or_else(|| services.iter().find(by_short_name));
            return Self::new(name.to_owned(), service);
        }
        let answering = services.iter().filter(|one| {
            let is_alive = one["alive"].as_u64().is_some_and(|alive| alive > 0);
            text(one, "answer") == "NOERROR" && is_alive
        });
        match answering.min_by_key(|one| one["returned"].as_u64()) {
            Some(service) => Self::new(name_of(service), Some(service)),
            None => Self {
                rtype: RecordType::SOA,
                ..Self::new(zone.to_owned(), None)
            },
        }
    }

    fn new(name: String, service: Option<&Value>) -> Self {
        let key = |one: &Value| ["namespace", "service"].map(|field| text(one, field).to_owned());
        Self {
            name,
            rtype: RecordType::A,
            service: service.map(key),
            known: BTreeSet::new(),
            returned: None,
            has_order: service.is_some_and(|one| !one["failover"].is_null()),
            failure: service.and_then(|one| Some(one["failure"].as_str()?.to_owned())),
        }
    }

    /// Adds the addresses of the endpoints of the service: items of `endpoints`. If all are IPv6, the question is for AAAA.
    pub fn with_endpoints(mut self, endpoints: &[Value], suffix: &str) -> Self {
        let addresses = |is_counted: &dyn Fn(&Value) -> bool| -> BTreeSet<IpAddr> {
            let counted = endpoints.iter().filter(|one| is_counted(one));
            let texts = counted
                .flat_map(|one| items(one, "addresses"))
                .filter_map(Value::as_str);
            texts.filter_map(|text| text.parse().ok()).collect()
        };
        let mut returned = addresses(&|one| one["returned"].as_bool() == Some(true));
        self.known = addresses(&|_| true);
        if !self.known.is_empty() && self.known.iter().all(IpAddr::is_ipv6) {
            self.rtype = RecordType::AAAA;
        }
        let is_v6 = self.rtype == RecordType::AAAA;
        returned.retain(|address| address.is_ipv6() == is_v6);
        let is_whole = self.service.as_ref().is_some_and(|[namespace, service]| {
            self.name == format!("{service}.{namespace}.{suffix}")
        });
        self.returned = Some(returned).filter(|_| is_whole);
        self
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.rtype)
    }
}

// === The comparison ===

impl Probe {
    /// Returns whether a name server answers otherwise, so that all are asked again: a cache may have an older answer.
    pub fn differs(&self) -> bool {
        let mut replies = self.resolvers.iter();
        replies.any(|(_, reply)| matches!(self.compare(reply), Verdict::Wrong(..)))
    }

    /// Returns the addresses that the first name server answers.
    pub fn answered(&self) -> BTreeSet<IpAddr> {
        let first = self
            .resolvers
            .iter()
            .find_map(|(_, reply)| reply.as_ref().ok());
        first
            .map(|reply| reply.addresses.clone())
            .unwrap_or_default()
    }

    /// Returns the findings: about the server, each name server of the cluster, and the search list.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        findings.extend(self.direct_answer());
        let resolvers = self.resolvers.iter().enumerate();
        findings
            .extend(resolvers.map(|(number, (server, reply))| self.answer(number, *server, reply)));
        if !self.searched.is_empty() {
            findings.push(self.search_list());
        }
        findings
    }

    /// Returns the replies of the server over UDP, if they are known.
    fn expected(&self) -> Option<&Reply> {
        let (_, udp, _) = self.direct.as_ref()?;
        udp.as_ref().ok()
    }

    /// Checks the answer of the server.
    fn direct_answer(&self) -> Option<Finding> {
        const CHECK: Check = Check::DirectAnswer;
        const REACH: &str = "check the Pods at this address (/readyz names what is missing), and whether a NetworkPolicy or \
                             firewall blocks UDP or TCP";
        let (server, udp, tcp) = self.direct.as_ref()?;
        let question = &self.question;
        let failing =
            |fault: &str, hint| Finding::failing(CHECK, format!("{server} {fault}"), hint);
        let reply = match (udp, tcp) {
            (Ok(reply), Ok(_)) => reply,
            (Err(why), _) => {
                return Some(failing(
                    &format!("does not answer {question}: {why}"),
                    REACH,
                ));
            }
            (_, Err(why)) => {
                return Some(failing(
                    &format!("does not answer {question} over TCP: {why}"),
                    REACH,
                ));
            }
        };
        let code = code(reply.rcode);
        Some(match (reply.rcode, &question.failure) {
            (Rcode::NOERROR, _) if has_data(reply, question) => {
                let data = data(reply);
                Finding::ok(CHECK, format!("{server} answers {question}: {data}"))
            }
            // The server's own problem says how bad that is.
            (Rcode::SERVFAIL, Some(failure)) => {
                let sentence = format!("{server} answers SERVFAIL for {question}: {failure}");
                let hint = "see the problem of the service above";
                Finding::new(State::Attention, CHECK, sentence, hint)
            }
            (Rcode::NOERROR, _) => failing(
                &format!("answers {question} without records"),
                "global-dns explain NAME says why; or --dns is not the address of the global-dns Service",
            ),
            (Rcode::REFUSED, _) => failing(
                &format!("answers REFUSED for {question}"),
                "the name is in none of its zones, limits.allow excludes this machine, or --dns is another server",
            ),
            _ => failing(
                &format!("answers {code} for {question}"),
                "global-dns explain NAME says why; or --dns is not the address of the global-dns Service",
            ),
        })
    }

    /// Compares the reply of a name server with the server.
    fn compare(&self, reply: &Fact<Reply>) -> Verdict {
        const ADD: &str = "add the stanza for the zone to the cluster's DNS: see coredns/";
        const COMPARE: &str = "the stanza forwards to another server, of another cluster or with other settings: compare its \
                               address with that of the global-dns Service";
        const NO_SERVER: &str = "no server answers at the address in the stanza, the zone is not forwarded, or the resolver \
                                 validates the public zone of that name with DNSSEC (domain-insecure): compare the address in the \
                                 stanza with that of the Service";
        let (question, expected) = (&self.question, self.expected());
        let reply = match reply {
            Ok(reply) => reply,
            Err(why) => {
                let hint = "check the cluster's DNS and the network to it";
                return Verdict::Wrong(format!("does not answer {question}: {why}"), hint);
            }
        };
        let fails = |reply: &Reply| !has_data(reply, question);
        let server_fails = expected.map_or(question.failure.is_some(), fails);
        if self.direct.is_some() && expected.is_none() || server_fails {
            let is_equal = expected.is_none_or(|expected| expected.rcode == reply.rcode);
            return match (has_data(reply, question), is_equal) {
                (true, _) => Verdict::Wrong(
                    format!(
                        "answers {question} with {}, and the server does not",
                        data(reply)
                    ),
                    COMPARE,
                ),
                (false, _) => Verdict::Nothing,
            };
        }
        if question.rtype == RecordType::SOA {
            let own = format!("ns.dns.{}", self.zone);
            return match &reply.primary {
                Some(primary) if *primary == own => Verdict::Same("forwards the zone"),
                Some(primary) => {
                    Verdict::Wrong(format!("gets {} from {primary}", self.zone), COMPARE)
                }
                None => {
                    let code = code(reply.rcode);
                    Verdict::Wrong(
                        format!("answers {question} with {code}, without a record"),
                        ADD,
                    )
                }
            };
        }
        match reply.rcode {
            Rcode::NOERROR if reply.addresses.is_empty() => Verdict::Wrong(
                format!("answers {question} without records: another server has the zone"),
                ADD,
            ),
            Rcode::NOERROR => self.compare_addresses(reply, COMPARE),
            Rcode::SERVFAIL => {
                Verdict::Wrong(format!("answers SERVFAIL for {question}"), NO_SERVER)
            }
            other => {
                let code = code(other);
                Verdict::Wrong(
                    format!("answers {code} for {question}: the zone is not forwarded"),
                    ADD,
                )
            }
        }
    }

    /// Compares addresses with those of the server: of its reply, else of its API.
    fn compare_addresses(&self, reply: &Reply, hint: &'static str) -> Verdict {
        let (question, direct) = (&self.question, self.expected());
        let found = &reply.addresses;
        let expected = direct
            .map(|direct| &direct.addresses)
            .or(question.returned.as_ref());
        let is_known = found.is_subset(&question.known);
        let is_truncated = reply.is_truncated || direct.is_some_and(|direct| direct.is_truncated);
        match expected {
            Some(expected) if expected == found => Verdict::Same("answers as the server does"),
            Some(_) if question.has_order && is_known => {
                Verdict::Same("answers from another step of the failover order")
            }
            Some(_) if is_truncated && is_known => Verdict::Same(
                "answers a part of the endpoints, which are more than a message can have",
            ),
            None if is_known && !found.is_empty() => {
                Verdict::Same("answers endpoints of the service")
            }
            _ => Verdict::Wrong(
                format!(
                    "answers {question} with {}, and the server otherwise",
                    data(reply)
                ),
                hint,
            ),
        }
    }

    /// Makes the finding about a name server. Programs ask the first one; musl asks all at once.
    fn answer(&self, number: usize, server: SocketAddr, reply: &Fact<Reply>) -> Finding {
        let check = Check::ClusterAnswer;
        let place = match number {
            0 => server.to_string(),
            _ => format!("{server}, a further name server of /etc/resolv.conf,"),
        };
        match self.compare(reply) {
            Verdict::Same(how) => Finding::ok(check, format!("{place} {how}: {}", self.question)),
            Verdict::Nothing => Finding::ok(
                check,
                format!("{place} has no answer for {} either", self.question),
            ),
            Verdict::Wrong(sentence, hint) => {
                let state = if number == 0 {
                    State::Failing
                } else {
                    State::Attention
                };
                Finding::new(state, check, format!("{place} {sentence}"), hint)
            }
        }
    }

    /// Checks the names of the search list, which programs ask for first.
    fn search_list(&self) -> Finding {
        const CHECK: Check = Check::SearchList;
        const HINT: &str = "write the name with a final dot in the program's configuration, or correct the search domain";
        let name = self.question.name.trim_end_matches('.');
        let mut failures = Vec::new();
        for (searched, reply) in &self.searched {
            match reply {
                Ok(reply) if !reply.addresses.is_empty() => {
                    let data = data(reply);
                    return Finding::failing(
                        CHECK,
                        format!(
                            "{searched} has the addresses {data}: programs that ask for {name} get these first"
                        ),
                        HINT,
                    );
                }
                Ok(reply) if [Rcode::NOERROR, Rcode::NXDOMAIN].contains(&reply.rcode) => {}
                Ok(reply) => failures.push(format!("{searched}: {}", code(reply.rcode))),
                Err(why) => failures.push(format!("{searched}: {why}")),
            }
        }
        let none = format!(
            "programs find {name} with {} queries, the first {} for names of the search list (ndots); a final dot saves them",
            self.searched.len() + 1,
            self.searched.len()
        );
        let what = "names of the search list fail, and some programs (musl) stop there";
        Finding::list(
            State::Attention,
            CHECK,
            failures,
            [none.as_str(), what, HINT],
        )
    }
}

/// Returns whether a reply has what the question asks for.
fn has_data(reply: &Reply, question: &Question) -> bool {
    let has_data = match question.rtype {
        RecordType::SOA => reply.primary.is_some(),
        _ => !reply.addresses.is_empty(),
    };
    reply.rcode == Rcode::NOERROR && has_data
}

/// Returns the data of a reply for a sentence.
fn data(reply: &Reply) -> String {
    match &reply.primary {
        Some(primary) => format!("SOA {primary}"),
        None => list(&reply.addresses),
    }
}

/// Returns the name of a response code.
fn code(rcode: Rcode) -> String {
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
