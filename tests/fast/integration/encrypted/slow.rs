//! Slow clients: timeouts, and the reasons in the counters.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use support::certificates::{Identity, issue_valid};
use support::encrypted::serve;
use support::tls::{localhost, read_end, send};
use support::wait::TIMEOUT;
use support::wire::frame;

use super::{packet, small};
use crate::integration::connections::wait_for_end;

/// Timeout of the rest of a message or a handshake.
const LIMIT: Duration = Duration::from_secs(5);

/// Returns the ClientHello of a client.
fn hello(issued: &Identity) -> Vec<u8> {
    let client = issued.client(&["dot"]);
    let connection = rustls::ClientConnection::new(client.0, localhost());
    let mut hello = Vec::new();
    connection.unwrap().write_tls(&mut hello).unwrap();
    hello
}

fn connect(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.set_write_timeout(Some(TIMEOUT)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Sends single octets slowly until the peer closes the connection. Returns the number of sent octets.
fn trickle(stream: &mut impl std::io::Write, octets: &[u8]) -> usize {
    let sent = octets.iter().take_while(|octet| {
        std::thread::sleep(Duration::from_millis(250));
        let written = stream.write_all(&[**octet]);
        written.and_then(|()| stream.flush()).is_ok()
    });
    sent.count()
}

#[test]
fn slow_handshake_is_aborted() {
    let issued = issue_valid();
    let server = serve(small(), &issued, &[]);
    let started = Instant::now();
    let mut ended = 0;
    let mut waiting = Vec::new();
    let hello = hello(&issued);
    for part in [&[][..], &hello[..1], &hello[..hello.len() / 2], &hello] {
        let mut stream = connect(server.address("tls"));
        stream.write_all(part).unwrap();
        waiting.push(stream);
        ended += 1;
    }
    let slow = std::thread::spawn({
        let address = server.address("tls");
        move || {
            let sent = trickle(&mut connect(address), &hello);
            assert!(sent < hello.len(), "the server read the whole handshake");
        }
    });
    // Other clients do not wait.
    issued.ask_tls(server.address("tls"), &packet()).unwrap();
    for stream in &mut waiting {
        // The response to a complete ClientHello comes first.
        let _ = std::io::copy(stream, &mut std::io::sink());
    }
    assert!(started.elapsed() >= LIMIT, "too soon");
    slow.join().unwrap();
    server.wait_for_ended_connections("handshake", ended + 1);
    for reason in ["idle", "slow", "broken", "malformed"] {
        assert_eq!(server.ended_connections(reason), 0.0, "{reason}");
    }
}

#[test]
fn failed_handshake_is_counted_at_once() {
    let issued = issue_valid();
    let server = serve(small(), &issued, &[]);
    let address = server.address("tls");
    assert!(issued.client(&["smtp"]).connect(address).is_err());
    let stranger = issue_valid();
    assert!(stranger.client(&["dot"]).connect(address).is_err());
    let mut clear = connect(address);
    clear.write_all(&frame(&packet())).unwrap();
    let _ = std::io::copy(&mut clear, &mut std::io::sink());
    server.wait_for_ended_connections("handshake", 3);
    // A client that disconnects during the handshake also counts as failed.
    drop(connect(address));
    server.wait_for_ended_connections("handshake", 4);
}

/// Clients that close their connections are not counted as failures.
#[test]
fn clients_that_close_their_connections_are_counted_as_done() {
    let issued = issue_valid();
    let server = serve(small(), &issued, &[]);
    let tls = server.address("tls");
    for _ in 0..3 {
        let mut stream = issued.tls(tls);
        send(&mut stream, &packet()).unwrap();
        stream.conn.send_close_notify();
        stream.flush().unwrap();
        read_end(&mut stream);
    }
    server.wait_for_ended_connections("done", 3);
    let mut gone = connect(tls);
    gone.write_all(&hello(&issued)[..3]).unwrap();
    gone.shutdown(std::net::Shutdown::Write).unwrap();
    wait_for_end(&mut gone);
    server.wait_for_ended_connections("handshake", 1);
}
