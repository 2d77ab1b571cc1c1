//! The way of queries: asks the server and the cluster's DNS as programs do, and connects to the answered addresses.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::check::dns_client::{QueryMode, Reply, query};
use crate::check::finding::{Check, Fact, Finding, State, items};
use crate::check::probe::{Probe, Question};
use crate::check::resolv_conf::ResolvConf;
use crate::check::targets::{Target, connection, targets};
use crate::cli::{Api, CheckArgs};
use crate::log::error_chain;
use crate::view::{Filter, View};
use crate::wire::Rcode;
use crate::zone::RecordType;

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

/// Returns the findings about the way of one question for each zone. If an answer differs, all are asked again when caches have
/// expired: it may have changed a moment ago.
pub(super) async fn findings(args: &CheckArgs, source: &mut Api, status: &Value) -> Vec<Finding> {
    let resolver = resolver(args);
    let mut findings = Vec::new();
    if let Err(why) = &resolver {
        let hint = "run it in a pod, or set --resolver to the address of the cluster's DNS, and --dns to that of the Service";
        findings.push(Finding::unknown(Check::ClusterAnswer, why, hint));
        if args.dns.is_none() {
            return findings;
        }
    }
    let resolver = resolver.ok();
    let ask = async |source: &mut Api| ask_all(args, source, status, resolver.as_ref()).await;
    let mut asked = ask(source).await;
    if let Ok(probes) = &asked
        && probes.iter().any(Probe::differs)
    {
        sleep(CACHED).await;
        asked = ask(source).await;
    }
    let probes = match asked {
        Ok(probes) => probes,
        Err(error) => {
            let why = error_chain(error.as_ref());
            findings.push(Finding::unknown(Check::ClusterAnswer, &why, "try again"));
            return findings;
        }
    };
    findings.extend(probes.iter().flat_map(Probe::findings));
    if args.connect {
        findings.extend(connect_all(source, &probes).await);
    }
    findings
}

/// Returns the settings of the resolver: `--resolver` alone, or `/etc/resolv.conf`, which is that of the cluster in a pod only.
fn resolver(args: &CheckArgs) -> Fact<ResolvConf> {
    if let Some(server) = args.resolver {
        return Ok(ResolvConf::of_server(server));
    }
    if args.dns.is_none() && std::env::var_os("KUBERNETES_SERVICE_HOST").is_none() {
        return Err("this is no pod, so that its resolver is not the cluster's DNS".to_owned());
    }
    let text = std::fs::read_to_string(RESOLV_CONF);
    let text = text.map_err(|error| format!("cannot read {RESOLV_CONF}: {error}"))?;
    let conf = ResolvConf::parse(&text);
    match conf.servers.is_empty() {
        true => Err(format!("{RESOLV_CONF} has no name server")),
        false => Ok(conf),
    }
}

/// Asks one question for each zone. The name of `--name` is that of its zone, or of the first one.
async fn ask_all(
    args: &CheckArgs,
    source: &mut Api,
    status: &Value,
    resolver: Option<&ResolvConf>,
) -> anyhow::Result<Vec<Probe>> {
    let services = source.items(View::Table, &Filter::default()).await?;
    let zones: Vec<&str> = items(status, "zones").filter_map(Value::as_str).collect();
    let suffixes: Vec<&str> = items(status, "nameSuffixes")
        .filter_map(Value::as_str)
        .collect();
    let name = args.name.as_ref().map(ToString::to_string);
    let is_of_zone = |zone: &&&str| {
        name.as_ref()
            .is_some_and(|name| name.ends_with(&format!(".{zone}")))
    };
    let own_zone = zones
        .iter()
        .filter(is_of_zone)
        .max_by_key(|zone| zone.len())
        .or(zones.first());
    let mut asked = Vec::new();
    for (index, zone) in zones.iter().enumerate() {
        let suffix = suffixes.get(index).unwrap_or(zone);
        let name = name.as_deref().filter(|_| own_zone == Some(zone));
        let question = Question::of_zone(zone, suffix, name, &services);
        let endpoints = endpoints_of(source, &question).await?;
        let question = question.with_endpoints(&endpoints, suffix);
        asked.push((*zone, question));
    }
    let asked = asked.into_iter().enumerate();
    Ok(join_all(
        asked.map(|(index, (zone, question))| ask(args.dns, resolver, zone, question, index == 0)),
    )
    .await)
}

/// Returns the endpoints of the service of a question.
async fn endpoints_of(source: &mut Api, question: &Question) -> anyhow::Result<Vec<Value>> {
    match &question.service {
        None => Ok(Vec::new()),
        Some(service) => {
            let filter = Filter {
                text: vec![service.join("/")],
                ..Filter::default()
            };
            let mut endpoints = source.items(View::Endpoints, &filter).await?;
            endpoints.retain(|one| one["namespace"] == service[0] && one["service"] == service[1]);
            Ok(endpoints)
        }
    }
}

/// Sends a question to all name servers, once. The search list is that of all zones, so one zone suffices.
async fn ask(
    server: Option<SocketAddr>,
    resolver: Option<&ResolvConf>,
    zone: &str,
    question: Question,
    is_searched: bool,
) -> Probe {
    let (name, rtype) = (&question.name, question.rtype);
    let direct = async {
        let server = server?;
        let (udp, tcp) = tokio::join!(
            query(server, QueryMode::Udp, name, rtype),
            query(server, QueryMode::Tcp, name, rtype),
        );
        Some((server, udp, tcp))
    };
    let servers: &[SocketAddr] = resolver.map_or(&[], |conf| &conf.servers);
    let resolvers = join_all(servers.iter().map(async |server| {
        (
            *server,
            query(*server, QueryMode::Resolver, name, rtype).await,
        )
    }));
    let is_address = rtype != RecordType::SOA;
    let conf = resolver.filter(|_| is_searched && is_address);
    let names = conf.map_or_else(Vec::new, |conf| {
        conf.names_before(name.trim_end_matches('.'))
    });
    let searched = join_all(names.into_iter().map(async |name| {
        let reply = resolve_by_any(servers, &name, rtype).await;
        (name, reply)
    }));
    let (direct, resolvers, searched) = tokio::join!(direct, resolvers, searched);
    Probe {
        zone: zone.to_owned(),
        direct,
        resolvers,
        searched,
        question,
    }
}

/// Asks the name servers in turn until one answers with or without the name, as resolvers do.
async fn resolve_by_any(servers: &[SocketAddr], name: &str, rtype: RecordType) -> Fact<Reply> {
    let mut last = Err("there is no name server".to_owned());
    for server in servers {
        last = query(*server, QueryMode::Resolver, name, rtype).await;
        let is_final = |reply: &Reply| [Rcode::NOERROR, Rcode::NXDOMAIN].contains(&reply.rcode);
        if last.as_ref().is_ok_and(is_final) {
            break;
        }
    }
    last
}

/// Connects to the addresses that the cluster's DNS answers for the first question that has some.
async fn connect_all(source: &mut Api, probes: &[Probe]) -> Vec<Finding> {
    let unknown = |why: &str| {
        let hint = "name a service with TCP ports: --name";
        vec![Finding::new(State::Unknown, Check::Connections, why, hint)]
    };
    let Some(probe) = probes.iter().find(|probe| !probe.answered().is_empty()) else {
        return unknown("the cluster's DNS answers no address");
    };
    let endpoints = match endpoints_of(source, &probe.question).await {
        Ok(endpoints) => endpoints,
        Err(error) => return unknown(&error_chain(error.as_ref())),
    };
    let mut targets = targets(&probe.question.name, &probe.answered(), &endpoints);
    if targets.is_empty() {
        return unknown("no endpoint with an answered address has a TCP port");
    }
    targets.truncate(MAX_CONNECTIONS);
    join_all(targets.into_iter().map(connect)).await
}

/// Connects to a target. The time does not include the wait for a proxy that closes the connection.
async fn connect(target: Target) -> Finding {
    let started = Instant::now();
    let result = match timeout(CONNECT_TIMEOUT, TcpStream::connect(target.address)).await {
        Ok(Ok(stream)) => {
            let time = started.elapsed();
            let is_reached = is_reached(stream, target.address.port()).await;
            is_reached.map(|is_reached| is_reached.then_some(time))
        }
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!(
            "no connection within {} s",
            CONNECT_TIMEOUT.as_secs()
        )),
    };
    connection(&target, result)
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
