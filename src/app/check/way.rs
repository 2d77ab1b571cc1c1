//! The way of queries: asks the server and the cluster's DNS as programs do, and connects to the answered addresses.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::app::told;
use crate::check::dns_client::query;
use crate::check::finding::{Check, Fact, Finding, State, items};
use crate::check::probe::{Probe, Question};
use crate::check::targets::{Target, targets};
use crate::check::told::Told;
use crate::cli::{Api, CheckArgs};
use crate::log::error_chain;

/// The file with the system's name servers.
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// Time for which CoreDNS may cache an answer: `cache 5` of the recommended Corefile stanza, and one second.
const CACHED: Duration = Duration::from_secs(6);
/// Timeout of one connection. A proxy in front of an unreachable gateway takes a few seconds to report it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time to wait for a reply, or for the close. Linkerd's proxy accepts each connection itself, and closes it when the endpoint
/// refuses: within 3 seconds if a gateway has died.
const OPEN_FOR: Duration = Duration::from_secs(3);
/// Ports of protocols with servers that speak first: FTP, SSH, SMTP, POP3, IMAP, MySQL, NATS, Galera.
const SERVER_FIRST: [u16; 10] = [21, 22, 25, 110, 143, 587, 3306, 4222, 4567, 6222];
/// Maximum number of connections, all at once.
const MAX_CONNECTIONS: usize = 50;

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
    let mut probes = ask_all(args, &resolvers, told).await;
    if probes.iter().any(Probe::differs) {
        sleep(CACHED).await;
        match told::read(source, &args.view.source.namespace).await {
            Ok(told) => probes = ask_all(args, &resolvers, &told).await,
            Err(error) => unknown(&error_chain(error.as_ref()), "try again"),
        }
    }
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

/// Returns a question for each zone. The name of `--name` is that of its zone, or of the first one.
fn questions(args: &CheckArgs, Told { status, table }: &Told) -> Vec<Question> {
    let zones = || items(status, "zones").filter_map(Value::as_str);
    let suffixes = items(status, "nameSuffixes").filter_map(Value::as_str);
    let name = args.name.as_ref().map(ToString::to_string);
    let is_within = |zone: &&str| name.iter().any(|name| name.ends_with(&format!(".{zone}")));
    let own = zones()
        .filter(is_within)
        .max_by_key(|zone| zone.len())
        .or_else(|| zones().next());
    let questions = zones().zip(suffixes).map(|(zone, suffix)| {
        let name = name.as_deref().filter(|_| own == Some(zone));
        Question::of_zone(zone, suffix, name, table)
    });
    questions.collect()
}

/// Sends a question for each zone to the server and to all name servers, at the same time.
async fn ask_all(args: &CheckArgs, resolvers: &[SocketAddr], told: &Told) -> Vec<Probe> {
    let probes = questions(args, told).into_iter();
    let probes = probes.map(async |question| {
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

/// Connects to the addresses that the cluster's DNS answers for the first question that has some.
async fn connect_all(probes: &[Probe]) -> Vec<Finding> {
    let unknown = |why: &str| {
        let hint = "name a service with TCP ports: --name";
        vec![Finding::new(State::Unknown, Check::Connections, why, hint)]
    };
    let Some(probe) = probes.iter().find(|probe| !probe.answered().is_empty()) else {
        return unknown("the cluster's DNS answers no address");
    };
    let question = &probe.question;
    let mut targets = targets(&question.name, &probe.answered(), &question.endpoints);
    if targets.is_empty() {
        return unknown("no endpoint with an answered address has a TCP port");
    }
    targets.truncate(MAX_CONNECTIONS);
    join_all(targets.into_iter().map(connect)).await
}

/// Connects to a target. The time does not include the wait for a proxy that closes the connection.
async fn connect(target: Target) -> Finding {
    const CHECK: Check = Check::Connections;
    const UNREACHED: &str = "only meshed clients reach endpoints of other clusters: run check in a Pod with Linkerd's proxy, and \
                             check the gateway (linkerd multicluster gateways) and the pods in that cluster";
    let Target { endpoint, address } = target;
    let started = Instant::now();
    let opened = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
    let time = started.elapsed().as_secs_f64() * 1000.0;
    let reached = match opened {
        Err(_) => Err(format!(
            "no connection within {} s",
            CONNECT_TIMEOUT.as_secs()
        )),
        Ok(Err(error)) => Err(error.to_string()),
        Ok(Ok(stream)) => is_reached(stream, address.port()).await,
    };
    match reached {
        Ok(true) => Finding::ok(
            CHECK,
            format!("connected to {address} ({endpoint}) in {time:.1} ms, and it replied"),
        ),
        Ok(false) => Finding::new(
            State::Unknown,
            CHECK,
            format!("{address} ({endpoint}) accepted, without a reply"),
            "a proxy accepts before it reaches the endpoint: test with a client of its protocol",
        ),
        Err(why) => {
            let sentence = format!("cannot connect to {address} ({endpoint}): {why}");
            Finding::failing(CHECK, sentence, UNREACHED)
        }
    }
}

/// Waits for a reply on a new connection, or for its close. Returns whether a reply shows that the endpoint was reached.
async fn is_reached(mut stream: TcpStream, port: u16) -> Result<bool, String> {
    let closed = |how: &str| {
        format!(
            "the connection was accepted and then {how}, as a proxy does that cannot reach the endpoint"
        )
    };
    let mut reply = [0; 4];
    let exchange = async {
        if !SERVER_FIRST.contains(&port) {
            // It begins no request of HTTP, so that a proxy connects to the endpoint at once, and is no whole message.
            stream.write_all(&[0]).await?;
        }
        stream.read(&mut reply).await
    };
    match timeout(OPEN_FOR, exchange).await {
        Err(_) => Ok(false),
        Ok(Ok(0)) => Err(closed("closed")),
        // A proxy itself sends a status of HTTP/1, or the settings of HTTP/2.
        Ok(Ok(_)) => Ok(!matches!(reply, [b'H', ..] | [0, 0, _, 4])),
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionReset => Err(closed("reset")),
        Ok(Err(error)) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
