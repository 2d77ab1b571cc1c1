//! The way of queries: asks the server and the cluster's DNS as programs do.

use std::net::SocketAddr;
use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;
use tokio::time::sleep;

use crate::app::told;
use crate::check::connection::connect_all;
use crate::check::dns_client::query;
use crate::check::finding::{Check, Fact, Finding, items};
use crate::check::probe::{Probe, Question};
use crate::check::told::Told;
use crate::cli::{Api, CheckArgs};
use crate::log::error_chain;
use crate::view::{Filter, View};

/// The file with the system's name servers.
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// Time for which CoreDNS may cache an answer: `cache 5` of the recommended Corefile stanza, and one second.
const CACHED: Duration = Duration::from_secs(6);

/// Returns whether there is a name server to ask: a flag names one, or this is a pod of the cluster.
pub(super) fn is_asked(args: &CheckArgs) -> bool {
    let is_pod = || std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    args.resolver.is_some() || args.dns.is_some() || is_pod()
}

/// Returns the findings about the way of one question for each zone. If an answer differs, all are asked again when caches have
/// expired: it may have changed a moment ago.
pub(super) async fn findings(args: &CheckArgs, source: &Api, told: &Told) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut unknown =
        |why: &str, hint| findings.push(Finding::unknown(Check::ClusterAnswer, why, hint));
    let resolvers = resolvers(args).unwrap_or_else(|why| {
        unknown(&why, "set --resolver to the address of the cluster's DNS");
        Vec::new()
    });
    let ask = async |told| {
        anyhow::Ok(ask_all(args, &resolvers, questions(args, source, told).await?).await)
    };
    let mut probes = ask(told).await;
    if probes.iter().flatten().any(Probe::differs) {
        sleep(CACHED).await;
        let told = told::read(source, &args.view.source.namespace).await;
        probes = match told {
            Ok(told) => ask(&told).await,
            Err(error) => Err(error),
        };
    }
    let probes = probes.unwrap_or_else(|error| {
        unknown(&error_chain(error.as_ref()), "try again");
        Vec::new()
    });
    findings.extend(probes.iter().flat_map(Probe::findings));
    if args.connect {
        findings.extend(connect_all(&probes).await);
    }
    findings
}

/// Returns the name servers of the cluster: `--resolver`, or those of this machine.
fn resolvers(args: &CheckArgs) -> Fact<Vec<SocketAddr>> {
    const PORT: u16 = 53;
    if let Some(server) = args.resolver {
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

/// Returns the question for the name of `--name`, or else one for each zone.
async fn questions(
    args: &CheckArgs,
    source: &Api,
    Told { status, table }: &Told,
) -> anyhow::Result<Vec<Question>> {
    if let Some(name) = &args.name {
        let filter = Filter {
            // Without its zone, as `explain` takes it.
            name: Some(name.to_string().trim_end_matches('.').to_owned()),
            ..Filter::default()
        };
        let explained = source.items(View::Explain, &filter).await?;
        return Ok(vec![Question::of_name(&explained)]);
    }
    let zones = items(status, "zones").filter_map(Value::as_str);
    let suffixes = items(status, "nameSuffixes").filter_map(Value::as_str);
    let questions = zones.zip(suffixes);
    let questions = questions.map(|(zone, suffix)| Question::of_zone(zone, suffix, table));
    Ok(questions.collect())
}

/// Sends each question to the server and to all name servers, at the same time.
async fn ask_all(
    args: &CheckArgs,
    resolvers: &[SocketAddr],
    questions: Vec<Question>,
) -> Vec<Probe> {
    let probes = questions.into_iter().map(async |question| {
        let (name, rtype) = (question.name.as_str(), question.rtype);
        let direct = async {
            let server = args.dns?;
            let (udp, tcp) = tokio::join!(
                query(server, false, name, rtype),
                query(server, true, name, rtype)
            );
            Some((server, udp, tcp))
        };
        let replies = resolvers
            .iter()
            .map(async |server| (*server, query(*server, false, name, rtype).await));
        let (direct, resolvers) = tokio::join!(direct, join_all(replies));
        Probe {
            question,
            direct,
            resolvers,
        }
    });
    join_all(probes).await
}
