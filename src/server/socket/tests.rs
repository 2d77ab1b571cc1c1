//! Tests of the budget and of the ends of connections, with real connections.

use std::net::{Ipv4Addr, SocketAddr};

use futures::FutureExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket};
use tokio::time::advance;

use super::*;

const PART: usize = 8 * 1024;

/// Returns a connection of the budget with its client, which has a small buffer.
async fn connect(budget: &Budget) -> (Socket, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let client = TcpSocket::new_v4().unwrap();
    client.set_recv_buffer_size(1).unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let client = client.connect(address).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    (budget.add(stream), client)
}

fn is_cut(socket: &Socket) -> bool {
    socket.cut().now_or_never().is_some()
}

#[tokio::test(start_paused = true)]
async fn slowest_readers_are_closed_above_the_budget() {
    const LIMIT: usize = 512 * 1024;
    let budget = Budget::new(LIMIT);
    let (mut reading, mut reader) = connect(&budget).await;
    let mut slow = Vec::new();
    for round in 0..100 {
        let (mut socket, client) = connect(&budget).await;
        socket.write_all(&[0; PART]).await.unwrap();
        let queued = socket.queue(PART);
        slow.push((socket, client, queued));
        advance(MAX_DELAY).await;
        // The oldest connection of all. Its client reads.
        let (written, read) = tokio::join!(reading.write_all(&[0; PART]), async {
            reader.read_exact(&mut [0; PART]).await.map(|_| ())
        });
        written.unwrap();
        read.unwrap();
        assert!(
            budget.in_use() <= LIMIT,
            "round {round}: {}",
            budget.in_use()
        );
    }
    assert!(!is_cut(&reading));
    let cut: Vec<bool> = slow.iter().map(|(socket, ..)| is_cut(socket)).collect();
    let first = cut.iter().take_while(|is_cut| **is_cut).count();
    // Each needs twice this, and a bit more in the kernel.
    assert!(first >= 100 - LIMIT / (2 * PART), "{first}");
    assert!(cut[first..].iter().all(|is_cut| !is_cut), "{cut:?}");
    assert!(first < 90, "{first}");
    drop((slow, reading));
    assert_eq!(budget.in_use(), 0);
}

#[tokio::test(start_paused = true)]
async fn reply_that_is_never_written_is_unread() {
    let budget = Budget::new(10 * PART);
    let (stuck, _client) = connect(&budget).await;
    let _queued = stuck.queue(4 * PART);
    advance(2 * MAX_DELAY).await;
    let (fresh, _other) = connect(&budget).await;
    let mut queued = Vec::new();
    while !is_cut(&stuck) {
        assert!(!is_cut(&fresh));
        queued.push(fresh.queue(PART));
    }
    assert!(!is_cut(&fresh));
}

/// The client acknowledges a reply late. Its memory in the kernel is larger than all replies together.
#[tokio::test(start_paused = true)]
async fn client_that_reads_small_replies_is_not_the_slowest() {
    let budget = Budget::new(4 * PART);
    let (mut reading, mut reader) = connect(&budget).await;
    reading.write_all(&[0]).await.unwrap();
    reader.read_exact(&mut [0]).await.unwrap();
    advance(MAX_DELAY).await;
    let (slow, _client) = connect(&budget).await;
    let _queued = slow.queue(3 * PART);
    advance(2 * MAX_DELAY).await;
    let mut more = Vec::new();
    while !is_cut(&slow) {
        reading.write_all(&[0]).await.unwrap();
        reader.read_exact(&mut [0]).await.unwrap();
        more.push(reading.queue(10));
    }
    assert!(!is_cut(&reading));
}

/// The acknowledgement of a client that reads at once may be on the way.
#[tokio::test(start_paused = true)]
async fn largest_of_the_last_moment_is_the_slowest() {
    let budget = Budget::new(10 * PART);
    let (small, _first) = connect(&budget).await;
    let _queued = small.queue(PART);
    advance(MAX_DELAY / 2).await;
    let (large, _second) = connect(&budget).await;
    let _more = [large.queue(5 * PART), large.queue(5 * PART)];
    assert_eq!([&small, &large].map(is_cut), [false, true]);
}

/// TLS copies replies.
#[tokio::test]
async fn reply_counts_until_it_is_flushed() {
    let budget = Budget::new(usize::MAX);
    let (mut socket, _client) = connect(&budget).await;
    drop(socket.queue(PART));
    assert_eq!(budget.in_use(), PART);
    socket.flush().await.unwrap();
    assert_eq!(budget.in_use(), 0);
}

/// Other connections of the same thread get their turn.
#[tokio::test]
async fn client_that_sends_without_pause_yields() {
    let (mut socket, mut client) = connect(&Budget::new(usize::MAX)).await;
    client.write_all(&[0; 3 * READ_QUOTA]).await.unwrap();
    let mut buffer = [0; READ_QUOTA];
    for _ in 0..3 {
        socket.read_exact(&mut buffer).await.unwrap();
        assert!(socket.read(&mut buffer).now_or_never().is_none());
    }
}

/// Otherwise, the kernel keeps the octets for minutes.
#[tokio::test]
async fn kernel_forgets_replies_of_a_slow_client() {
    let budget = Budget::new(usize::MAX);
    let (mut socket, mut client) = connect(&budget).await;
    socket.write_all(&[0; PART]).await.unwrap();
    socket.close(EndReason::Slow, false);
    let error = client.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

/// Otherwise, another read would fail before each wait for octets.
#[tokio::test]
async fn read_that_does_not_fill_its_buffer_ends_the_readiness() {
    let budget = Budget::new(usize::MAX);
    let (mut socket, mut client) = connect(&budget).await;
    let mut buffer = [0; 2];
    client.write_all(&[0; 3]).await.unwrap();
    assert_eq!(socket.read(&mut buffer).await.unwrap(), 2);
    assert!(socket.readable().now_or_never().is_some());
    assert_eq!(socket.read(&mut buffer).await.unwrap(), 1);
    assert!(socket.readable().now_or_never().is_none());
    client.write_all(&[0]).await.unwrap();
    drop(client);
    assert_eq!(socket.read(&mut buffer).await.unwrap(), 1);
    assert_eq!(socket.read(&mut buffer).await.unwrap(), 0);
}

#[tokio::test]
async fn client_receives_the_last_reply_after_the_end_of_its_connection() {
    let budget = Budget::new(usize::MAX);
    let (mut socket, mut client) = connect(&budget).await;
    client.write_all(&[0; PART]).await.unwrap(); // never read
    socket.write_all(&[1; PART]).await.unwrap();
    socket.close(EndReason::Done, true);
    client.write_all(&[0; PART]).await.unwrap();
    let mut reply = Vec::new();
    client.read_to_end(&mut reply).await.unwrap();
    assert_eq!(reply, [1; PART]);
}

#[tokio::test]
async fn number_of_lingering_connections_is_limited() {
    let budget = Budget::new(usize::MAX);
    let mut clients = Vec::new();
    for _ in 0..MAX_LINGERING + 10 {
        let (socket, client) = connect(&budget).await;
        socket.close(EndReason::Done, true);
        clients.push(client);
    }
    let open = || budget.0.sockets.lock().open.len();
    while open() > MAX_LINGERING {
        tokio::task::yield_now().await;
    }
    // A client that closes its side ends the wait.
    drop(clients);
    while open() > 0 {
        tokio::task::yield_now().await;
    }
}
