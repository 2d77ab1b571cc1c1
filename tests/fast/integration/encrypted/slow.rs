//! Slow clients: timeouts, and the reasons in the counters.

use std::io::{ErrorKind, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use support::certificates::{Identity, issue_valid};
use support::encrypted::serve;
use support::https::{Http1, Http2, PATH, get, post};
use support::tls::{ConnectionEnd, localhost, read_end, send};
use support::wait::TIMEOUT;
use support::wire::frame;

use super::{packet, small};
use crate::integration::connections::wait_for_end;

/// Timeout of the rest of a message, a body or a handshake.
const LIMIT: Duration = Duration::from_secs(5);

/// Returns the ClientHello of a client.
fn hello(issued: &Identity, protocol: &str) -> Vec<u8> {
    let client = issued.client(&[protocol]);
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
    for (listener, protocol) in [("tls", "dot"), ("https", "h2")] {
        let hello = hello(&issued, protocol);
        for part in [&[][..], &hello[..1], &hello[..hello.len() / 2], &hello] {
            let mut stream = connect(server.address(listener));
            stream.write_all(part).unwrap();
            waiting.push(stream);
            ended += 1;
        }
    }
    let slow = std::thread::spawn({
        let (hello, address) = (hello(&issued, "dot"), server.address("tls"));
        move || {
            let sent = trickle(&mut connect(address), &hello);
            assert!(sent < hello.len(), "the server read the whole handshake");
        }
    });
    // Other clients do not wait.
    issued.ask_tls(server.address("tls"), &packet()).unwrap();
    issued
        .ask_https(server.address("https"), &packet())
        .message();
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
    let mut failed = 0;
    for listener in ["tls", "https"] {
        let address = server.address(listener);
        assert!(issued.client(&["smtp"]).connect(address).is_err());
        let stranger = issue_valid();
        let protocol = if listener == "tls" { "dot" } else { "h2" };
        assert!(stranger.client(&[protocol]).connect(address).is_err());
        let mut clear = connect(address);
        clear.write_all(&frame(&packet())).unwrap();
        let _ = std::io::copy(&mut clear, &mut std::io::sink());
        failed += 3;
    }
    server.wait_for_ended_connections("handshake", failed);
    // A client that disconnects during the handshake also counts as failed.
    drop(connect(server.address("tls")));
    drop(connect(server.address("https")));
    server.wait_for_ended_connections("handshake", failed + 2);
}

#[test]
fn message_that_arrives_octet_by_octet_gets_no_extra_time() {
    let issued = issue_valid();
    let server = serve(small(), &issued, &[]);
    let (tls, https) = (server.address("tls"), server.address("https"));
    let mut half = issued.tls(tls);
    half.write_all(&frame(&packet())[..9]).unwrap();
    half.flush().unwrap();
    let started = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let framed = frame(&packet());
            let sent = trickle(&mut issued.tls(tls), &framed);
            assert!(sent < framed.len(), "the server read the whole message");
        });
        // An incomplete request does not count as a request, so its head has the timeout of a first query.
        scope.spawn(|| {
            let mut connection = issued.http1(https);
            let text = Http1::text(&get(PATH, &[0; 100]), &[]);
            let sent = trickle(connection.0.get_mut(), &text);
            assert!(sent < text.len(), "the server read the whole request");
        });
        assert_eq!(read_end(&mut half), ConnectionEnd::CloseNotify);
    });
    assert!(started.elapsed() >= LIMIT, "too soon");
    server.wait_for_ended_connections("slow", 2);
    server.wait_for_ended_connections("idle", 1);
}

/// Writes until all buffers are full, then until the server closes the connection.
fn write_until_refused(stream: &mut impl std::io::Write, octets: &[u8]) {
    let refused = (0..10_000_000).find_map(|_| stream.write_all(octets).err());
    let kind = refused.unwrap().kind();
    assert!(
        matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
        "{kind}"
    );
}

#[test]
fn client_that_reads_no_replies_is_disconnected() {
    let issued = issue_valid();
    let server = serve(small(), &issued, &[]);
    let (tls, https) = (server.address("tls"), server.address("https"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = issued.tls(tls);
            stream.sock.set_write_timeout(Some(TIMEOUT)).unwrap();
            write_until_refused(&mut stream, &frame(&packet()).repeat(100));
        });
        scope.spawn(|| {
            let mut connection = issued.http1(https);
            let stream = connection.0.get_mut();
            stream.sock.set_write_timeout(Some(TIMEOUT)).unwrap();
            let text = Http1::text(&get(PATH, &packet()), &[]);
            write_until_refused(stream, &text.repeat(20));
        });
    });
    server.wait_for_ended_connections("slow", 2);
    issued.ask_tls(tls, &packet()).unwrap();
}

/// A closed flow-control window blocks a reply like a full socket (RFC 9113 section 5.2).
#[test]
fn http2_client_with_a_closed_window_is_disconnected() {
    let issued = issue_valid();
    let server = serve(small(), &issued, &[]);
    let mut settings = h2::client::Builder::new();
    settings.initial_window_size(0);
    let client = issued.client(&["h2"]);
    let mut deaf = Http2::connect_with(&client, server.address("https"), settings).unwrap();
    let requests = vec![(post(PATH), packet()); 50];
    for response in deaf.send_all(&requests) {
        assert!(response.is_err(), "{response:?}");
    }
    server.wait_for_ended_connections("slow", 1);
    issued
        .ask_https(server.address("https"), &packet())
        .message();
}

/// Clients that close their connections are not counted as failures.
#[test]
fn clients_that_close_their_connections_are_counted_as_done() {
    let issued = issue_valid();
    let server = serve(small(), &issued, &[]);
    let (tls, https) = (server.address("tls"), server.address("https"));
    for _ in 0..3 {
        let mut stream = issued.tls(tls);
        send(&mut stream, &packet()).unwrap();
        stream.conn.send_close_notify();
        stream.flush().unwrap();
        read_end(&mut stream);
        let mut connection = issued.http1(https);
        connection.send(&post(PATH), &packet()).unwrap().message();
        let stream = connection.0.get_mut();
        stream.conn.send_close_notify();
        stream.flush().unwrap();
        read_end(stream);
        issued.ask_https(https, &packet()).message();
    }
    server.wait_for_ended_connections("done", 9);
    let mut gone = connect(tls);
    gone.write_all(&hello(&issued, "dot")[..3]).unwrap();
    gone.shutdown(std::net::Shutdown::Write).unwrap();
    wait_for_end(&mut gone);
    server.wait_for_ended_connections("handshake", 1);
}
