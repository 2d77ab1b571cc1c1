//! Shutdown under load: no query that the kernel accepted is lost.

use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow, bail, ensure};
use support::cluster::Cluster;
use support::output::print_line;
use support::query::query;
use support::server::Server;
use support::steps::Steps;
use support::wire::{read_datagram, read_framed};

use crate::e2e::linked_clusters::{NGINX, state_after_recordings};

/// Number of clients in each shutdown over UDP. Each client always has one outstanding query. A loss depends on timing,
/// so there are many shutdowns, with few and with many clients.
const UDP_CLIENTS: [usize; 12] = [1, 12, 2, 1, 12, 2, 1, 12, 2, 1, 12, 2];
/// Number of clients in each shutdown over TCP. Each client always has one outstanding burst of queries.
const TCP_CLIENTS: [usize; 6] = [2; 6];
/// Number of queries in one write. They fit into one TCP segment.
const BURST: u16 = 50;
/// A query without a reply after this time is lost.
const LOSS_TIMEOUT: Duration = Duration::from_secs(30);

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.step("datagrams_received_before_the_end_are_answered", || {
        no_query_is_lost(cluster, "UDP", &UDP_CLIENTS, datagrams_until_the_end)
    });
    steps.step("queries_pipelined_before_the_end_are_answered", || {
        no_query_is_lost(cluster, "TCP", &TCP_CLIENTS, bursts_until_the_end)
    });
}

/// Asks a server until it ends, and sends a word after the first reply. Returns the number of answered queries, or an error for a
/// lost one.
type Client = fn(SocketAddr, &Sender<()>) -> Result<u64>;

/// Shuts servers down, one after another, under the load of the given number of clients, each of which has had a reply.
fn no_query_is_lost(
    cluster: &Cluster,
    transport: &str,
    shutdowns: &[usize],
    client: Client,
) -> Result<()> {
    cluster.apply_state(&state_after_recordings()?)?;
    let (mut answered, mut losses) = (0, Vec::new());
    for (&clients, number) in shutdowns.iter().zip(1..) {
        let mut server = Server::ready_of_cluster(&cluster.kubeconfig, &["grace=300ms"]);
        let address = server.dns;
        let (first_reply, first_replies) = channel();
        let threads: Vec<_> = (0..clients)
            .map(|_| {
                let first_reply = first_reply.clone();
                thread::spawn(move || client(address, &first_reply))
            })
            .collect();
        for _ in 0..clients {
            first_replies.recv_timeout(LOSS_TIMEOUT)?;
        }
        server.signal("TERM");
        let status = server.end()?;
        ensure!(status.code() == Some(0), "the server ended with {status}");
        for thread in threads {
            let outcome = thread.join().map_err(|_| anyhow!("a client panicked"))?;
            match outcome {
                Ok(count) => answered += count,
                Err(error) => {
                    losses.push(format!("shutdown {number}, {clients} clients: {error:#}"))
                }
            }
        }
    }
    print_line(&format!(
        "shutdown under load over {transport}: {} shutdowns, {answered} queries answered, {} of {} clients lost a query",
        shutdowns.len(),
        losses.len(),
        shutdowns.iter().sum::<usize>(),
    ));
    ensure!(losses.is_empty(), "{}", losses.join("\n    "));
    Ok(())
}

/// Sends queries one by one until the kernel refuses one, because the port is closed.
fn datagrams_until_the_end(server: SocketAddr, first_reply: &Sender<()>) -> Result<u64> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(LOSS_TIMEOUT))?;
    let query = query(&format!("{NGINX} A"));
    for answered in 0_u64.. {
        let query = query.with_id(answered as u16); // truncated on purpose
        let replied = socket.send(&query.0).and_then(|_| read_datagram(&socket));
        match replied {
            Ok(reply) => ensure!(
                reply.starts_with(&query.id().to_be_bytes()),
                "the reply to query {answered} has another identifier"
            ),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Ok(answered),
            Err(error) => bail!("query {answered} was neither answered nor refused: {error}"),
        }
        if answered == 0 {
            first_reply.send(())?;
        }
    }
    bail!("the server never refused a query")
}

/// Writes bursts of queries into a connection until it ends. A burst is one segment, which the server's kernel accepts
/// as a whole or not at all. If a part of a burst is answered, the rest must be answered too.
fn bursts_until_the_end(server: SocketAddr, first_reply: &Sender<()>) -> Result<u64> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LOSS_TIMEOUT))?;
    let query = query(&format!("{NGINX} A"));
    let burst: Vec<u8> = (0..BURST)
        .flat_map(|id| query.with_id(id).framed())
        .collect();
    let mut answered = 0;
    while stream.write_all(&burst).is_ok() {
        for id in 0..BURST {
            match read_framed(&mut stream) {
                Ok(reply) => ensure!(
                    reply.starts_with(&id.to_be_bytes()),
                    "the replies to a burst are out of order at {id}"
                ),
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    bail!(
                        "query {id} of a burst was not answered, and the connection did not end: {error}"
                    )
                }
                // The connection may have ended before the burst arrived.
                Err(_) if id == 0 => return Ok(answered),
                Err(error) => {
                    bail!("only {id} of {BURST} queries of a burst were answered: {error}")
                }
            }
            answered += 1;
            if answered == 1 {
                first_reply.send(())?;
            }
        }
    }
    Ok(answered)
}
