//! TCP (RFC 7766): any number of queries on a connection, pipelined if the client likes, answered in order.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{Answerer, TCP_IDLE};
use crate::wire::Transport;

/// Connections of one listener that are served at a time; others wait in the kernel's queue.
const CONNECTIONS: usize = 1024;
/// Octets of a query that are accepted: no query needs more, and a client must not make us hold 64 KiB by a promise.
const QUERY: usize = 4096;
/// Octets of the length before a message (RFC 1035 section 4.2.2), and of the longest message.
const PREFIX: usize = 2;
const MESSAGE: usize = 65_535;
/// How long a client may take for the rest of a message that it began, and to take a reply.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a connection may be idle once the server is to stop; after that it ends as soon as no query waits.
const LEAVE: Duration = Duration::from_millis(100);
/// How long a client that never pauses can keep the server from stopping.
const LONGEST_LEAVE: Duration = Duration::from_secs(2);
/// How long accepting rests when it fails, for want of descriptors for instance.
const REST: Duration = Duration::from_millis(50);

/// Serves connections until `stop`; those that are open then end after what their clients have
/// sent.
pub(super) async fn serve(listener: TcpListener, answerer: Arc<Answerer>, stop: CancellationToken) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            Some(_) = connections.join_next() => continue,
            () = stop.cancelled() => break,
        };
        match accepted {
            Ok((stream, client, place)) => {
                connections.spawn(serve_one(
                    stream,
                    client,
                    place,
                    answerer.clone(),
                    stop.clone(),
                ));
            }
            Err(error) => {
                debug!(%error, "Accepting failed");
                tokio::time::sleep(REST).await;
            }
        }
    }
    // Who is in the kernel's queue already is served like the others, to their ends.
    while let Some(Ok((stream, client, place))) = accept(&listener, &places).now_or_never() {
        connections.spawn(serve_one(
            stream,
            client,
            place,
            answerer.clone(),
            stop.clone(),
        ));
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn serve_one(
    stream: TcpStream,
    client: SocketAddr,
    place: OwnedSemaphorePermit,
    answerer: Arc<Answerer>,
    stop: CancellationToken,
) {
    if let Err(error) = connection(stream, client, &answerer, &stop).await {
        debug!(%client, %error, "A connection ended");
    }
    drop(place);
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let place = places
        .clone()
        .acquire_owned()
        .await
        .map_err(io::Error::other)?;
    let (stream, client) = listener.accept().await?;
    Ok((stream, client, place))
}

/// Serves one connection until the client is done, idle for too long, or too slow.
async fn connection(
    mut stream: TcpStream,
    client: SocketAddr,
    answerer: &Answerer,
    stop: &CancellationToken,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (from_client, mut to_client) = stream.split();
    let mut from_client = BufReader::with_capacity(QUERY, from_client);
    let mut packet = [0; QUERY];
    let mut out = vec![0; PREFIX + MESSAGE];
    let mut stopped: Option<Instant> = None;
    loop {
        let since_stop = stopped.map(|at| at.elapsed());
        let is_waiting =
            || !from_client.buffer().is_empty() || has_octets(from_client.get_ref().as_ref());
        match since_stop {
            Some(since) if since > LONGEST_LEAVE => return Ok(()),
            Some(since) if since > LEAVE && !is_waiting() => return Ok(()),
            Some(_) | None => {}
        }
        let idle = if stopped.is_some() { LEAVE } else { TCP_IDLE };
        let first = tokio::select! {
            first = timeout(idle, from_client.read_u8()) => first,
            // What the client has sent by now is answered still.
            () = stop.cancelled(), if stopped.is_none() => {
                stopped = Some(Instant::now());
                continue;
            }
        };
        let first = match first {
            Err(_) => return Ok(()), // idle for too long
            Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Ok(first) => first?,
        };
        let second = timeout(PATIENCE, from_client.read_u8()).await??;
        let length = usize::from(u16::from_be_bytes([first, second]));
        let Some(packet) = packet.get_mut(..length) else {
            return Err(io::Error::other(format!(
                "a message of {length} octets was announced"
            )));
        };
        timeout(PATIENCE, from_client.read_exact(packet)).await??;
        let Some(reply) = answerer.answer(packet, Transport::Tcp, client, &mut out[PREFIX..])
        else {
            return Ok(()); // not a client of DNS
        };
        out[..PREFIX].copy_from_slice(&(reply as u16).to_be_bytes()); // the buffer has 65,535 octets
        // Length and message in one write (RFC 7766 section 8).
        timeout(PATIENCE, to_client.write_all(&out[..PREFIX + reply])).await??;
    }
}

/// Tells whether something waits in the kernel's buffer. What tokio remembers of the socket may be older.
fn has_octets(stream: &TcpStream) -> bool {
    let mut octet = [std::mem::MaybeUninit::uninit()];
    SockRef::from(stream)
        .peek(&mut octet)
        .is_ok_and(|length| length > 0)
}
