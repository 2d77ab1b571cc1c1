//! The way of queries: asks the server and the cluster's DNS as programs do.

use std::net::SocketAddr;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::sleep;

use super::connection::connect_all;
use super::dns_client::query;
use super::finding::{Check, Fact, Finding};
use super::probe::{Direct, Probe, Question, Resolver};
use crate::log::error_chain;
use crate::zone::RecordType;

/// The file with the system's name servers.
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// Time for which CoreDNS may cache an answer: `cache 5` of the recommended Corefile stanza, and one second.
const CACHED: Duration = Duration::from_secs(6);

/// Number of queries for a question to each name server. Behind a cluster IP, each may reach another replica, one of which may not have
/// loaded the stanza: each query has a port of its own.
const QUERIES: usize = 5;

/// Returns the findings about the way of questions. `dns` is the DNS Service of the server; without it, the API says what the server
/// answers. `resolver` is the cluster's DNS; without it, the name servers of this machine are. If an answer differs, `again` returns
/// the questions that are asked when caches have expired: it may have changed a moment ago. `connects`: to the answered addresses.
pub async fn findings(
    dns: Option<SocketAddr>,
    resolver: Option<SocketAddr>,
    connects: bool,
    questions: anyhow::Result<Vec<Question>>,
    again: impl AsyncFnOnce() -> anyhow::Result<Vec<Question>>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut unknown = |why: &str, hint| findings.push(Check::ClusterAnswer.unknown(why, hint));
    let resolvers = resolver
        .map_or_else(own_resolvers, |one| Ok(vec![one]))
        .unwrap_or_else(|why| {
            unknown(&why, "set --resolver to the address of the cluster's DNS");
            Vec::new()
        });
    let ask =
        async |questions: anyhow::Result<_>| anyhow::Ok(ask_all(dns, &resolvers, questions?).await);
    let mut probes = ask(questions).await;
    if probes.iter().flatten().any(Probe::differs) {
        sleep(CACHED).await;
        probes = ask(again().await).await;
    }
    let probes = probes.unwrap_or_else(|error| {
        unknown(&error_chain(error.as_ref()), "try again");
        Vec::new()
    });
    findings.extend(probes.iter().flat_map(Probe::findings));
    if connects {
        findings.extend(connect_all(&probes).await);
    }
    findings
}

/// Returns the name servers of this machine.
fn own_resolvers() -> Fact<Vec<SocketAddr>> {
    const PORT: u16 = 53;
    let text = std::fs::read_to_string(RESOLV_CONF)
        .map_err(|error| format!("cannot read {RESOLV_CONF}: {error}"))?;
    let servers = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        words.next().filter(|word| *word == "nameserver")?;
        Some(SocketAddr::new(words.next()?.parse().ok()?, PORT))
    });
    // Programs ignore further ones.
    let servers: Vec<SocketAddr> = servers.take(3).collect();
    if servers.is_empty() {
        return Err(format!("{RESOLV_CONF} has no name server"));
    }
    Ok(servers)
}

/// Sends each question to the server and several times to all name servers, at the same time.
async fn ask_all(
    dns: Option<SocketAddr>,
    resolvers: &[SocketAddr],
    questions: Vec<Question>,
) -> Vec<Probe> {
    let probes = questions.into_iter().map(async |question| {
        let (name, rtype) = (question.name.as_str(), question.rtype);
        let ask = |server, over_tcp| query(server, over_tcp, name, rtype);
        let direct = async {
            let server = dns?;
            let (udp, tcp) = tokio::join!(ask(server, false), ask(server, true));
            Some(Direct { server, udp, tcp })
        };
        let resolvers = resolvers.iter().map(async |&server| {
            let replies = join_all([server; QUERIES].map(|server| ask(server, false))).await;
            let is_missing = replies.iter().flatten().any(|one| one.code == "NXDOMAIN");
            let has_zone = is_missing && has_zone(server, &question).await;
            Resolver {
                server,
                replies,
                has_zone,
            }
        });
        let (direct, resolvers) = tokio::join!(direct, join_all(resolvers));
        Probe {
            question,
            direct,
            resolvers,
        }
    });
    join_all(probes).await
}

/// Returns whether a name server answers for the zone of a question as the server does: a cache may have an older answer for the name.
async fn has_zone(server: SocketAddr, question: &Question) -> bool {
    let zone = &question.zone;
    let reply = query(server, false, zone, RecordType::SOA).await;
    let primary = reply.ok().and_then(|reply| reply.primary);
    primary == Some(format!("ns.dns.{zone}")) && question.name != *zone
}
