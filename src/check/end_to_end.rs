//! Checks of one name from end to end: the server's answer, the answer of the cluster's DNS, the rules of
//! `/etc/resolv.conf`, and connections to the answered addresses. Each step has its own finding and its own reasons.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::dns::{CHECK_REACHABILITY, QueryResult, ReplySummary, is_of_global_dns, rcode_name};
use super::finding::{Check, Fact, Finding, NotChecked, list_some};
use super::question::{Question, QuestionOrigin, Target};
use crate::wire::Rcode;
use crate::zone::ZoneName;

/// The way of one name from a program on this machine to an endpoint.
#[derive(Clone, Debug)]
pub struct EndToEnd {
    /// The question.
    pub question: Question,
    /// Address of the server.
    pub server: SocketAddr,
    /// The reply of the server.
    pub direct: QueryResult,
    /// The replies of each name server of the resolver.
    pub resolvers: Fact<Vec<ResolverReply>>,
    /// The names that a program asks for first, with the replies.
    pub searched: Vec<(String, QueryResult)>,
    /// Connections to the answered addresses; `None` without `--connect`.
    pub connections: Option<Fact<Vec<ConnectionAttempt>>>,
}

/// The replies of one name server of the resolver.
#[derive(Clone, Debug)]
pub struct ResolverReply {
    /// Its address.
    pub server: SocketAddr,
    /// The reply for the question.
    pub answer: QueryResult,
    /// The reply for the SOA record of the zone of the name.
    pub soa: QueryResult,
    /// That zone.
    pub zone: ZoneName,
}

/// The attempt to connect to a target.
#[derive(Clone, Debug)]
pub struct ConnectionAttempt {
    /// The target.
    pub target: Target,
    /// The time that it took, or the reason of the failure. `None`: nothing shows that more than a proxy was reached.
    pub result: Result<Option<Duration>, String>,
}

// === The findings ===

pub(super) fn check(fact: &Fact<EndToEnd>) -> Vec<Finding> {
    match fact {
        Ok(way) => {
            let mut findings = vec![direct_answer(way)];
            findings.extend(cluster_answers(way));
            findings.push(resolver(way));
            findings.extend(connections(way));
            findings
        }
        Err(reason) => vec![Check::DirectAnswer.not_checked(reason)],
    }
}

// === The server ===

/// Checks the answer of the server.
fn direct_answer(way: &EndToEnd) -> Finding {
    const EXPLAIN: &str =
        "global-dns explain NAME shows which endpoints the name has, and why others are omitted";
    let (server, question) = (way.server, &way.question);
    let (fault, hint) = match &way.direct {
        Err(why) => (
            format!("does not answer {question}: {why}"),
            CHECK_REACHABILITY,
        ),
        Ok(reply) => match reply.rcode {
            Rcode::NOERROR if reply.has_records() => {
                let addresses = list_some(reply.addresses());
                let sentence = format!("{server} answers {question}: {addresses}");
                return Check::DirectAnswer.green(sentence);
            }
            Rcode::NOERROR => (format!("answers {question} without records"), EXPLAIN),
            Rcode::NXDOMAIN => (
                format!("answers NXDOMAIN for {question}: the server does not have this name"),
                EXPLAIN,
            ),
            Rcode::SERVFAIL => (
                format!(
                    "answers SERVFAIL for {question}: it has no complete table, its table is too old, or the name waits for \
                     expected clusters"
                ),
                "/readyz of the server has the reason",
            ),
            Rcode::REFUSED => (
                format!(
                    "answers REFUSED for {question}: the name is in none of its zones, or limits.allow excludes this machine"
                ),
                "use a name of a zone of --zone, and compare limits.allow of serve with the address of this machine",
            ),
            other => (
                format!("answers {} for {question}", rcode_name(other)),
                CHECK_REACHABILITY,
            ),
        },
    };
    Check::DirectAnswer.red(format!("{server} {fault}"), hint)
}

impl EndToEnd {
    /// Returns the reply of the server, if it has records.
    fn expected(&self) -> Option<&ReplySummary> {
        let reply = self.direct.as_ref().ok();
        reply.filter(|reply| reply.rcode == Rcode::NOERROR && reply.has_records())
    }

    /// Returns whether a name server of the resolver answers as the server does.
    fn is_equal(&self, reply: &ResolverReply) -> bool {
        let expected = self.expected();
        expected.is_some_and(|expected| expected.is_answered_by(&reply.answer))
    }

    /// Returns whether the answers should be asked for again, because a cache may have an older one.
    pub fn differs(&self) -> bool {
        let mut replies = self.resolvers.iter().flatten();
        self.expected().is_some() && replies.any(|reply| !self.is_equal(reply))
    }

    /// Returns the addresses that the first name server of the resolver answers.
    pub fn answered(&self) -> BTreeSet<IpAddr> {
        let first = self.resolvers.as_ref().ok().and_then(|all| all.first());
        let reply = first.and_then(|first| first.answer.as_ref().ok());
        reply.map(ReplySummary::addresses).unwrap_or_default()
    }
}

// === The cluster's DNS ===

/// Checks the answer of each name server of the resolver.
fn cluster_answers(way: &EndToEnd) -> Vec<Finding> {
    let replies = match (&way.resolvers, way.expected()) {
        (Err(reason), _) => return vec![Check::ClusterAnswer.not_checked(reason)],
        (Ok(_), None) => {
            let reason = NotChecked::consequence("the server does not answer the name");
            return vec![Check::ClusterAnswer.not_checked(&reason)];
        }
        (Ok(replies), Some(_)) => replies,
    };
    let finding = |(number, reply): (usize, &ResolverReply)| {
        if way.is_equal(reply) {
            Check::ClusterAnswer.green(format!(
                "{} answers {} as the server does",
                reply.server, way.question
            ))
        } else {
            other_answer(way, reply, number == 0)
        }
    };
    replies.iter().enumerate().map(finding).collect()
}

/// Checks a name server that answers something else than the server.
fn other_answer(way: &EndToEnd, reply: &ResolverReply, is_first: bool) -> Finding {
    let (cause, reason, hint) = cause_of(way, reply);
    let server = reply.server;
    let sentence = if is_first {
        format!("{server} {reason}")
    } else {
        format!("{server}, a further name server of /etc/resolv.conf, {reason}")
    };
    // A missing stub zone is normal between the installation and the stanza. Programs use further name servers if the
    // first one fails; musl uses all of them at once.
    let is_red = is_first && (cause == Cause::Wrong || way.question.origin == QuestionOrigin::Flag);
    if is_red {
        Check::ClusterAnswer.red(sentence, hint)
    } else {
        Check::ClusterAnswer.yellow(sentence, hint)
    }
}

/// Why a name server does not answer as the server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The zone is not forwarded.
    NotForwarded,
    /// The zone is forwarded, but wrongly.
    Wrong,
}

/// Returns the cause, the reason in words, and the hint.
fn cause_of(way: &EndToEnd, reply: &ResolverReply) -> (Cause, String, &'static str) {
    const ADD: &str = "add the stanza for the zone to the cluster's DNS: see coredns/";
    const COMPARE: &str = "compare the address in the stanza with that of the Service, and query again when caches have expired";
    let question = &way.question;
    let is_forwarded = matches!(&reply.soa, Ok(soa) if soa.soa.as_ref().is_some_and(|soa| is_of_global_dns(soa, &reply.zone)));
    let answer = match &reply.answer {
        Ok(answer) => answer,
        Err(why) => {
            let hint = "check the cluster's DNS and the network to it";
            return (
                Cause::Wrong,
                format!("does not answer {question}: {why}"),
                hint,
            );
        }
    };
    let code = rcode_name(answer.rcode);
    match answer.rcode {
        Rcode::NXDOMAIN | Rcode::REFUSED if !is_forwarded => (
            Cause::NotForwarded,
            format!("answers {code} for {question}: the stub zone is missing"),
            ADD,
        ),
        Rcode::SERVFAIL if !is_forwarded => (
            Cause::NotForwarded,
            format!(
                "answers SERVFAIL for {question}: no server answers at the address of its stub zone, or the zone is not \
                 forwarded and the resolver cannot reach other servers"
            ),
            COMPARE,
        ),
        Rcode::NOERROR if answer.has_records() => (
            Cause::Wrong,
            format!(
                "answers {question} with {}, not with the server's addresses: another server, or an older answer from a cache",
                list_some(answer.addresses())
            ),
            COMPARE,
        ),
        Rcode::NOERROR if !is_forwarded => (
            Cause::NotForwarded,
            format!(
                "answers {question} without records: another server has the zone; the stub zone is missing"
            ),
            ADD,
        ),
        _ => (
            Cause::Wrong,
            format!(
                "forwards the zone, but answers {code} for {question}: another server, or an older answer from a cache"
            ),
            COMPARE,
        ),
    }
}

// === The resolver ===

/// Checks the names of the search list, which programs ask for first.
fn resolver(way: &EndToEnd) -> Finding {
    const HINT: &str = "write the name with a final dot in the program's configuration, or correct the search domain";
    let name = way.question.name.trim_end_matches('.');
    let first = match &way.resolvers {
        Ok(replies) => replies.first(),
        Err(reason) => return Check::Resolver.not_checked(reason),
    };
    if !first.is_some_and(|first| way.is_equal(first)) {
        let reason = NotChecked::consequence("the cluster's DNS does not answer the name");
        return Check::Resolver.not_checked(&reason);
    }
    let mut failures = Vec::new();
    for (searched, reply) in &way.searched {
        match reply {
            Ok(reply) if reply.rcode == Rcode::NOERROR && reply.has_records() => {
                let addresses = list_some(reply.addresses());
                return Check::Resolver.red(
                    format!("{searched} has the addresses {addresses}: programs that ask for {name} get these first"),
                    HINT,
                );
            }
            Ok(reply) if [Rcode::NOERROR, Rcode::NXDOMAIN].contains(&reply.rcode) => {}
            Ok(reply) => failures.push(format!("{searched}: {}", rcode_name(reply.rcode))),
            Err(why) => failures.push(format!("{searched}: {why}")),
        }
    }
    if !failures.is_empty() {
        let failures = list_some(failures);
        return Check::Resolver.yellow(
            format!(
                "names of the search list fail, and some programs (musl) stop there: {failures}"
            ),
            HINT,
        );
    }
    Check::Resolver.green(match way.searched.len() {
        0 => format!("programs ask for {name} as it is"),
        searched => format!(
            "programs find {name} with {} queries, the first {searched} for names of the search list (ndots); a final dot \
             saves them",
            searched + 1
        ),
    })
}

// === Connections ===

/// Checks the connections, one finding for each.
fn connections(way: &EndToEnd) -> Vec<Finding> {
    match &way.connections {
        None => Vec::new(),
        Some(Err(reason)) => vec![Check::Connections.not_checked(reason)],
        Some(Ok(connections)) => connections.iter().map(connection).collect(),
    }
}

fn connection(connection: &ConnectionAttempt) -> Finding {
    let Target { endpoint, address } = &connection.target;
    match &connection.result {
        Ok(Some(time)) => Check::Connections.green(format!(
            "connected to {address} ({endpoint}) in {:.1} ms, and it replied",
            time.as_secs_f64() * 1000.0
        )),
        Ok(None) => {
            let hint = "a proxy accepts before it reaches the endpoint: test with a client of its protocol";
            let reason = NotChecked::new("accepted by the proxy, without a reply", hint);
            Check::Connections.part_not_checked(&format!("{address} ({endpoint})"), &reason)
        }
        Err(why) => Check::Connections.red(
            format!("cannot connect to {address} ({endpoint}): {why}"),
            "only meshed clients reach endpoints of other clusters: run check in a Pod with Linkerd's proxy, and check the \
             gateway (linkerd multicluster gateways) and the pods in that cluster",
        ),
    }
}

#[cfg(test)]
mod tests;
