//! UDP: one datagram in, at most one out.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::Answerer;
use crate::wire::Transport;

/// Octets of a datagram that are read: a query takes some hundred at most.
const QUERY: usize = 4096;
/// Octets of a reply: `--udp-max` is 4096 at most.
const REPLY: usize = 4096;
/// How long receiving rests when it fails, so that a failure that lasts does not spin.
const REST: Duration = Duration::from_millis(10);

/// Answers until `stop`, and then what is still in the socket's queue.
pub(super) async fn serve(socket: UdpSocket, answerer: Arc<Answerer>, stop: CancellationToken) {
    let (mut packet, mut out) = ([0; QUERY], [0; REPLY]);
    loop {
        let received = tokio::select! {
            received = socket.recv_from(&mut packet) => received,
            () = stop.cancelled() => break,
        };
        match received {
            Ok((length, client)) => {
                if let Some(reply) =
                    answerer.answer(&packet[..length], Transport::Udp, client, &mut out)
                {
                    note_failure(client, socket.send_to(&out[..reply], client).await);
                }
            }
            // Linux reports failures of earlier replies here; the socket itself is well.
            Err(error) => {
                debug!(%error, "Receiving failed");
                tokio::time::sleep(REST).await;
            }
        }
    }
    // The kernel is asked directly from here on: what tokio remembers of the socket may be older than the queue.
    let Ok(socket) = socket.into_std() else {
        return;
    };
    refuse_more(&socket);
    while let Ok((length, client)) = socket.recv_from(&mut packet) {
        if let Some(reply) = answerer.answer(&packet[..length], Transport::Udp, client, &mut out) {
            note_failure(client, socket.send_to(&out[..reply], client));
        }
    }
}

/// Connects a socket to itself: what is queued stays, and what comes now is refused instead of being lost between the
/// last look into the queue and the end. A wildcard socket is left alone, because its replies would all leave by one
/// address then.
fn refuse_more(socket: &std::net::UdpSocket) {
    if let Ok(own) = socket.local_addr()
        && !own.ip().is_unspecified()
        && let Err(error) = socket.connect(own)
    {
        debug!(%error, "The socket cannot refuse what comes now");
    }
}

fn note_failure(client: SocketAddr, sent: std::io::Result<usize>) {
    if let Err(error) = sent {
        debug!(%client, %error, "A reply could not be sent");
    }
}
