//! The way to hickory-server, which accepts whoever comes: its listeners are on loopback, and those that clients see are
//! ours. A connection that has a place among the others is carried, octet by octet, and ends when it has to make room.
//!
//! hickory takes nothing but a listener, and says neither how many connections it has nor lets any of them end. What it
//! costs is two more descriptors for each, and a copy. hickory sees connections from loopback; whose they are is noted
//! under the address that each has there. One that is not noted is not from us, and gets no answer; but nothing limits how
//! many of them a process on the same loopback opens.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tracing::debug;

use crate::server::TCP_IDLE;
use crate::server::connections::Place;
use crate::telemetry::{Counters, Ended};

/// How long hickory may have nothing to say: longer than it lets a connection be idle, because it waits for the first
/// octets of HTTP for as long as they take.
const SILENCE: Duration = Duration::from_secs(TCP_IDLE.as_secs() + 10);
/// How long a connection is kept at most, as over TCP.
const LIFE: Duration = Duration::from_secs(3600);
/// Octets that are carried at a time.
const CHUNK: usize = 4096;

/// Whose the connections on loopback are. Cheap to clone: all clones are one.
#[derive(Clone, Default)]
pub(super) struct Clients(Arc<Mutex<HashMap<SocketAddr, SocketAddr>>>);

/// A note that is taken back when it is dropped.
struct Noted {
    clients: Clients,
    own: SocketAddr,
}

/// Carries a connection to hickory's listener and back, and counts how it ended.
pub(super) async fn carry(
    mut client: TcpStream,
    address: SocketAddr,
    place: Place,
    to: SocketAddr,
    clients: Clients,
    counters: Arc<Counters>,
) {
    let carried = async {
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let _noted = clients.note(socket.local_addr()?, address);
        let inner = socket.connect(to).await?;
        // Whoever opens and closes as fast as can be must not use up the ports of loopback for a minute each.
        SockRef::from(&inner).set_linger(Some(Duration::ZERO))?;
        inner.set_nodelay(true)?;
        client.set_nodelay(true)?;
        exchange(&mut client, inner, &place).await
    };
    let ended = tokio::select! {
        ended = timeout(LIFE, carried) => match ended {
            Ok(Ok(ended)) => ended,
            Ok(Err(error)) => {
                debug!(client = %address, %error, "A connection broke");
                Ended::Broken
            }
            Err(_) => Ended::Old,
        },
        () = place.displaced() => Ended::Displaced,
    };
    // The client's side is still open: it never sees an end that is not counted yet.
    counters.count_ended(ended);
}

/// Carries octets both ways, until hickory ends the connection.
async fn exchange(client: &mut TcpStream, inner: TcpStream, place: &Place) -> io::Result<Ended> {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_inner, mut to_inner) = inner.into_split();
    let questions = async {
        let mut room = [0; CHUNK];
        loop {
            match from_client.read(&mut room).await? {
                0 => break,
                length => to_inner.write_all(&room[..length]).await?,
            }
        }
        to_inner.shutdown().await
    };
    let replies = async {
        let mut room = [0; CHUNK];
        loop {
            let length = match timeout(SILENCE, from_inner.read(&mut room)).await {
                Ok(length) => length?,
                Err(_) => return Ok(Ended::Idle),
            };
            if length == 0 {
                return Ok(Ended::Done);
            }
            // Before the client has the reply: what it does next on another connection comes after this.
            place.note_query();
            match timeout(SILENCE, to_client.write_all(&room[..length])).await {
                Ok(written) => written?,
                Err(_) => return Ok(Ended::Idle),
            }
        }
    };
    tokio::pin!(replies);
    tokio::select! {
        ended = &mut replies => ended,
        // The client has said all it has to say, and is still listening.
        asked = questions => {
            asked?;
            replies.await
        }
    }
}

// === impl Clients ===

impl Clients {
    /// Returns whose a connection is that hickory has from `own`.
    pub(super) fn of(&self, own: SocketAddr) -> Option<SocketAddr> {
        self.lock().get(&own).copied()
    }

    fn note(&self, own: SocketAddr, client: SocketAddr) -> Noted {
        self.lock().insert(own, client);
        let clients = self.clone();
        Noted { clients, own }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SocketAddr, SocketAddr>> {
        // Nothing panics while it holds the lock, and if it did, the notes would still be whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.clients.lock().remove(&self.own);
    }
}
