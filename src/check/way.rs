//! The way of queries: asks the server and the cluster's DNS as programs do.

use std::net::SocketAddr;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::sleep;

use super::connection::connect_all;
use super::dns_client::query;
use super::finding::{Check, Fact, Finding};
use super::probe::{Probe, Question};
use crate::log::error_chain;

/// The file with the system's name servers.
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// Time for which CoreDNS may cache an answer: `cache 5` of the recommended Corefile stanza, and one second.
const CACHED: Duration = Duration::from_secs(6);

/// The name servers to ask.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// The DNS Service of the server. `None`: its API says what it answers.
    pub dns: Option<SocketAddr>,
    /// The cluster's DNS. `None`: the name servers of this machine.
    pub resolver: Option<SocketAddr>,
    /// Whether to connect to the answered addresses.
    pub connects: bool,
}

// === impl Way ===

impl Way {
    /// Returns the findings about the way of questions. If an answer differs, `again` returns the questions that are asked when caches
    /// have expired: it may have changed a moment ago.
    pub async fn findings(
        self,
        questions: anyhow::Result<Vec<Question>>,
        again: impl AsyncFnOnce() -> anyhow::Result<Vec<Question>>,
    ) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut unknown =
            |why: &str, hint| findings.push(Finding::unknown(Check::ClusterAnswer, why, hint));
        let resolvers = self.resolvers().unwrap_or_else(|why| {
            unknown(&why, "set --resolver to the address of the cluster's DNS");
            Vec::new()
        });
        let ask = async |questions: anyhow::Result<_>| {
            anyhow::Ok(self.ask_all(&resolvers, questions?).await)
        };
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
        if self.connects {
            findings.extend(connect_all(&probes).await);
        }
        findings
    }

    /// Returns the name servers of the cluster.
    fn resolvers(self) -> Fact<Vec<SocketAddr>> {
        const PORT: u16 = 53;
        if let Some(server) = self.resolver {
            return Ok(vec![server]);
        }
        let text = std::fs::read_to_string(RESOLV_CONF);
        let text = text.map_err(|error| format!("cannot read {RESOLV_CONF}: {error}"))?;
        let servers = text.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            words.next().filter(|word| *word == "nameserver")?;
            Some(SocketAddr::new(words.next()?.parse().ok()?, PORT))
        });
        // Programs ignore further ones.
        let servers: Vec<SocketAddr> = servers.take(3).collect();
        match servers.is_empty() {
            true => Err(format!("{RESOLV_CONF} has no name server")),
            false => Ok(servers),
        }
    }

    /// Sends each question to the server and to all name servers, at the same time.
    async fn ask_all(self, resolvers: &[SocketAddr], questions: Vec<Question>) -> Vec<Probe> {
        let probes = questions.into_iter().map(async |question| {
            let (name, rtype) = (question.name.as_str(), question.rtype);
            let ask = |server, over_tcp| query(server, over_tcp, name, rtype);
            let direct = async {
                let server = self.dns?;
                let (udp, tcp) = tokio::join!(ask(server, false), ask(server, true));
                Some((server, udp, tcp))
            };
            let replies = resolvers.iter();
            let replies = replies.map(async |server| (*server, ask(*server, false).await));
            let (direct, resolvers) = tokio::join!(direct, join_all(replies));
            Probe {
                question,
                direct,
                resolvers,
            }
        });
        join_all(probes).await
    }
}
