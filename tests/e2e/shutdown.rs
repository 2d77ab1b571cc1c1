//! The end: readiness goes first, the answers last, and no query that the kernel has taken is lost.

use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail, ensure};
use support::cluster::Cluster;
use support::http::Page;
use support::observer::{Observer, Seen, Sighting};
use support::query::query;
use support::say::say;
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;
use support::wire::{read_datagram, read_framed};

use crate::clusters_come_and_go::{
    FOLLOW, NGINX, PAUSE, answer_after_the_recordings, state_after_the_recordings,
};

/// Shutdowns, each with so many clients, which always have one query open: what is lost is lost in a moment that not
/// every shutdown meets, between two queries of few clients or with the queue full of many.
const UDP_CLIENTS: [usize; 12] = [1, 12, 2, 1, 12, 2, 1, 12, 2, 1, 12, 2];
/// The same, with one burst of queries open.
const TCP_CLIENTS: [usize; 6] = [2; 6];
/// Queries that are written at once: few enough for one segment.
const BURST: u16 = 50;
/// A query that is not answered within this time is lost.
const LOST: Duration = Duration::from_secs(3);

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.step(
        "sigterm_ends_readiness_then_after_the_grace_the_answers",
        || sigterm_is_graceful(cluster),
    );
    steps.step(
        "every_datagram_that_came_before_the_end_is_answered",
        || no_query_is_lost(cluster, "UDP", &UDP_CLIENTS, datagrams_until_the_end),
    );
    steps.step(
        "every_query_that_was_pipelined_before_the_end_is_answered",
        || no_query_is_lost(cluster, "TCP", &TCP_CLIENTS, bursts_until_the_end),
    );
    steps.step("a_second_sigterm_ends_at_once", || {
        second_sigterm_ends_at_once(cluster)
    });
}

fn sigterm_is_graceful(cluster: &Cluster) -> Result<()> {
    cluster.become_state(&state_after_the_recordings()?)?;
    let mut server = Server::ready_of_cluster(&cluster.kubeconfig, &["--grace", "1s"]);
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    let asked = Instant::now();
    server.signal("TERM");
    eventually("readiness to end", Duration::from_millis(900), || {
        let Page { status, body: text } = server.readyz()?;
        ensure!(status == 503, "/readyz says {status}: {text}");
        Ok(())
    })?;
    observer.wait("no answer any more", FOLLOW, |seen| {
        *seen != answer_after_the_recordings()
    })?;
    let status = server.end()?;
    ensure!(status.code() == Some(0), "it ended with {status}");
    let history = observer.history();
    let [
        answers,
        Sighting {
            seen: Seen::Nothing(end),
            ..
        },
        ..,
    ] = history.as_slice()
    else {
        bail!("the answer changed at the end");
    };
    ensure!(
        end.contains("Connection refused"),
        "the query after the last answer was lost: {end}"
    );
    let grace = answers.last - asked;
    ensure!(
        grace >= Duration::from_millis(950),
        "answers ended {grace:?} after SIGTERM, before the grace of 1 s"
    );
    say(&format!(
        "shutdown: answers for {:.2} s after SIGTERM, exit code 0; the next query {end}",
        grace.as_secs_f64()
    ));
    Ok(())
}

fn second_sigterm_ends_at_once(cluster: &Cluster) -> Result<()> {
    let mut server = Server::ready_of_cluster(&cluster.kubeconfig, &["--grace", "60s"]);
    server.signal("TERM");
    eventually("readiness to end", FOLLOW, || {
        let Page { status, body: text } = server.readyz()?;
        ensure!(status == 503, "/readyz says {status}: {text}");
        Ok(())
    })?;
    let again = Instant::now();
    server.signal("TERM");
    server.end()?;
    let took = again.elapsed();
    // Long before the grace of a minute.
    ensure!(took < Duration::from_secs(20), "it took {took:?}");
    Ok(())
}

/// Shuts one server after the other down under the load of so many clients, each of which says how many of its queries were answered before the
/// end, or which one was lost.
fn no_query_is_lost(
    cluster: &Cluster,
    transport: &str,
    shutdowns: &[usize],
    client: fn(SocketAddr) -> Result<u64>,
) -> Result<()> {
    let (mut answered, mut losses) = (0, Vec::new());
    for (&clients, number) in shutdowns.iter().zip(1..) {
        let mut server = Server::ready_of_cluster(&cluster.kubeconfig, &["--grace", "300ms"]);
        let address = server.dns;
        let threads: Vec<_> = (0..clients)
            .map(|_| thread::spawn(move || client(address)))
            .collect();
        thread::sleep(Duration::from_millis(100));
        server.signal("TERM");
        let status = server.end()?;
        ensure!(status.code() == Some(0), "it ended with {status}");
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
    say(&format!(
        "shutdown under load over {transport}: {} times, {answered} queries answered, {} of {} clients lost any",
        shutdowns.len(),
        losses.len(),
        shutdowns.iter().sum::<usize>(),
    ));
    ensure!(losses.is_empty(), "{}", losses.join("\n    "));
    Ok(())
}

/// Asks one query after the other until the kernel refuses one, because nobody has the port any more.
fn datagrams_until_the_end(server: SocketAddr) -> Result<u64> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(LOST))?;
    let query = query(&format!("{NGINX} A"));
    for answered in 0_u64.. {
        let query = query.with_id(answered as u16); // the lower bits will do
        let replied = socket.send(&query.0).and_then(|_| read_datagram(&socket));
        match replied {
            Ok(reply) => ensure!(
                reply.starts_with(&query.id().to_be_bytes()),
                "the reply to query {answered} is to another one"
            ),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Ok(answered),
            Err(error) => bail!("no answer to query {answered}, and no refusal: {error}"),
        }
    }
    bail!("there was no end")
}

/// Writes one burst of queries after the other into a connection until it ends. A burst is one segment, which the
/// server's kernel takes as a whole or not at all: when a part of one is answered, the rest has waited there as well.
fn bursts_until_the_end(server: SocketAddr) -> Result<u64> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LOST))?;
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
                    bail!("no answer to query {id} of a burst, and no end: {error}")
                }
                // Nobody can tell whether the burst or the end came first.
                Err(_) if id == 0 => return Ok(answered),
                Err(error) => bail!("of a burst of {BURST} queries, {id} were answered: {error}"),
            }
            answered += 1;
        }
    }
    Ok(answered)
}
