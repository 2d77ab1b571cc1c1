//! The end of a TCP connection.

use std::io;
use std::net::Shutdown;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::connections::{ConnectionPlace, MESSAGE_TIMEOUT};
use super::counters::EndReason;
use super::platform::has_unsent;

/// Maximum number of octets that are read and discarded of a client whose connection has ended.
const MAX_DISCARDED: usize = 1 << 20;
/// Interval between two checks of whether a client has received the last replies.
const LINGER_TICK: Duration = Duration::from_millis(50);

/// Prepares the end of a connection. A client that reads has a few seconds to receive the last replies, unless the connection is
/// `replaced`; otherwise the kernel forgets them, which it would keep for minutes. After an error, the client may still be sending. A
/// socket that is closed with unread octets resets the connection, and the client would see that instead of the last reply.
pub(super) async fn close(place: &ConnectionPlace, reason: EndReason) {
    let stream = &place.stream;
    let is_error = matches!(reason, EndReason::Malformed | EndReason::Handshake);
    if !matches!(reason, EndReason::Slow | EndReason::Replaced) && (is_error || has_unsent(stream))
    {
        tokio::select! {
            _ = timeout(MESSAGE_TIMEOUT, linger(stream, is_error)) => {}
            () = place.replaced.cancelled() => {}
        }
    }
    discard_unsent(stream);
}

/// Makes the kernel forget unsent octets when the connection is closed. It would keep them for minutes.
pub(super) fn discard_unsent(stream: &TcpStream) {
    if has_unsent(stream) {
        let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
    }
}

/// Waits until the client has received everything and, if `awaits_client` is set, has closed the connection.
async fn linger(stream: &TcpStream, awaits_client: bool) {
    let _ = SockRef::from(stream).shutdown(Shutdown::Write);
    let mut left = MAX_DISCARDED;
    let mut is_open = true;
    while has_unsent(stream) || (awaits_client && is_open) {
        tokio::select! {
            read = discard(stream), if is_open => match read {
                Ok(length) if length > 0 && length < left => left -= length,
                Ok(0) => is_open = false,
                Ok(_) | Err(_) => return,
            },
            () = sleep(LINGER_TICK) => {}
        }
    }
}

/// Reads and discards octets.
async fn discard(stream: &TcpStream) -> io::Result<usize> {
    loop {
        stream.readable().await?;
        match stream.try_read(&mut [0; 4096]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpSocket};

    use super::*;
    use crate::server::connections::Connections;
    use crate::server::socket::Socket;
    use crate::wire::{Access, Transport};

    const PART: usize = 8 * 1024;

    /// Returns a connection with its client, which has a small buffer.
    async fn connect() -> (Arc<ConnectionPlace>, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let client = TcpSocket::new_v4().unwrap();
        client.set_recv_buffer_size(1).unwrap();
        let client = client.connect(listener.local_addr().unwrap()).await;
        let (stream, peer) = listener.accept().await.unwrap();
        let access = Access::for_all(&[]);
        let connections = Connections::new(9, access, Transport::Tcp, Arc::default());
        (connections.add(stream, peer), client.unwrap())
    }

    /// Otherwise, the kernel keeps the octets for minutes.
    #[tokio::test(start_paused = true)]
    async fn kernel_forgets_replies_of_a_slow_client() {
        for (reason, seconds) in [
            (EndReason::Slow, 0),
            (EndReason::Replaced, 0),
            (EndReason::Done, 5),
        ] {
            let (place, mut client) = connect().await;
            let mut stream = Socket::new(place.clone(), usize::MAX);
            stream.write_all(&[0; 4 * PART]).await.unwrap();
            let started = tokio::time::Instant::now();
            close(&place, reason).await;
            assert_eq!(started.elapsed().as_secs(), seconds);
            drop((stream, place));
            let error = client.read_to_end(&mut Vec::new()).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
    }

    #[tokio::test]
    async fn client_receives_the_last_reply_after_an_error() {
        let (place, mut client) = connect().await;
        client.write_all(&[0; PART]).await.unwrap(); // never read
        Socket::new(place.clone(), usize::MAX)
            .write_all(&[1; PART])
            .await
            .unwrap();
        let closing = tokio::spawn(async move { close(&place, EndReason::Malformed).await });
        client.write_all(&[0; PART]).await.unwrap();
        let mut reply = Vec::new();
        client.read_to_end(&mut reply).await.unwrap();
        assert_eq!(reply, [1; PART]);
        drop(client); // a client that closes its side ends the wait
        closing.await.unwrap();
    }
}
