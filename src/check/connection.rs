//! Connections to the answered addresses, as programs make them.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::finding::{Check, Finding, FindingState, items, text};
use super::probe::Probe;

/// Timeout of one connection. A proxy in front of an unreachable gateway takes a few seconds to report it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time to wait for a reply, or for the close. Linkerd's proxy accepts each connection itself, and closes it when the endpoint
/// refuses: within 3 seconds if a gateway has died.
const OPEN_FOR: Duration = Duration::from_secs(3);
/// Ports of protocols with servers that speak first: FTP, SSH, SMTP, POP3, IMAP, MySQL, NATS, Galera. If a proxy waits for the client on
/// one of them, programs get no connection.
const SERVER_FIRST: [u16; 10] = [21, 22, 25, 110, 143, 587, 3306, 4222, 4567, 6222];
/// Maximum number of connections, all at once.
const MAX_CONNECTIONS: usize = 50;

/// An endpoint, such as `db-0 of cluster east`, with an address and port.
type Target = (String, SocketAddr);

/// Connects to the addresses that the cluster's DNS answers for the first question that has some.
pub async fn connect_all(probes: &[Probe]) -> Vec<Finding> {
    let unknown = |why: &str| {
        let hint = "name a service with TCP ports: --name";
        vec![Check::Connections.finding(FindingState::Unknown, why, hint)]
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
async fn connect((endpoint, address): Target) -> Finding {
    const CHECK: Check = Check::Connections;
    const UNREACHED: &str = "only meshed clients reach endpoints of other clusters: run check in a Pod with Linkerd's proxy, and \
                             check the gateway (linkerd multicluster gateways) and the pods in that cluster";
    let started = Instant::now();
    let opened = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
    let time = started.elapsed().as_secs_f64() * 1000.0;
    let reached = match opened {
        Err(_) => Err(format!("no connection within {CONNECT_TIMEOUT:?}")),
        Ok(Err(error)) => Err(error.to_string()),
        Ok(Ok(stream)) => is_reached(stream, address.port()).await,
    };
    match reached {
        Ok(true) => CHECK.ok(format!(
            "connected to {address} ({endpoint}) in {time:.1} ms, and it replied"
        )),
        Ok(false) => CHECK.finding(
            FindingState::Unknown,
            format!("{address} ({endpoint}) accepted, without a reply"),
            "a proxy accepts before it reaches the endpoint: test with a client of its protocol",
        ),
        Err(why) => {
            let sentence = format!("cannot connect to {address} ({endpoint}): {why}");
            CHECK.failing(sentence, UNREACHED)
        }
    }
}

/// Waits for a reply on a new connection, or for its close. Returns whether a reply shows that the endpoint was reached.
async fn is_reached(mut stream: TcpStream, port: u16) -> Result<bool, String> {
    const CLOSED: &str = "the connection was accepted and then closed, as a proxy does that cannot reach the endpoint";
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
        Ok(Ok(0)) => Err(CLOSED.to_owned()),
        // A proxy itself sends a status of HTTP/1, or the settings of HTTP/2.
        Ok(Ok(_)) => Ok(!matches!(reply, [b'H', ..] | [0, 0, _, 4])),
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionReset => Err(CLOSED.to_owned()),
        Ok(Err(error)) => Err(error.to_string()),
    }
}

/// Returns the answered addresses with the TCP ports of their endpoints, the items of `endpoints`. A name of a port, such as
/// `_sql._tcp.db.prod.global.`, has only that port.
fn targets(name: &str, answered: &BTreeSet<IpAddr>, endpoints: &[Value]) -> Vec<Target> {
    let port_name = name
        .strip_prefix('_')
        .and_then(|rest| rest.split_once("._"));
    let is_wanted = |port: &&Value| {
        let is_tcp = text(port, "protocol").eq_ignore_ascii_case("tcp");
        is_tcp && port_name.is_none_or(|(wanted, _)| text(port, "name") == wanted)
    };
    let mut targets = Vec::new();
    for endpoint in endpoints {
        let addresses = items(endpoint, "addresses").filter_map(|one| one.as_str()?.parse().ok());
        for ip in addresses.filter(|ip| answered.contains(ip)) {
            let ports = items(endpoint, "ports")
                .filter(is_wanted)
                .filter_map(|port| u16::try_from(port["port"].as_u64()?).ok());
            targets.extend(ports.map(|port| (describe(endpoint), SocketAddr::new(ip, port))));
        }
    }
    targets
}

fn describe(endpoint: &Value) -> String {
    match ["hostname", "cluster"].map(|field| text(endpoint, field)) {
        ["", ""] => "the federated service".to_owned(),
        ["", cluster] => format!("cluster {cluster}"),
        [host, cluster] => format!("{host} of cluster {cluster}"),
    }
}

#[cfg(test)]
mod tests;
