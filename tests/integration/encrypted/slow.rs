//! Clients that take their time: what they may take, what becomes of them, and as what they are counted.

use std::io::{ErrorKind, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use support::certificates::{Issued, issue_good};
use support::encrypted::serve;
use support::https::{Http1, Http2, PATH, get, post};
use support::query::query;
use support::tls::{End, end_of, localhost, send};
use support::wait::PATIENCE;
use support::wire::frame;

use super::small;
use crate::connections::wait_for_end;

/// What the rest of a message, a body or a handshake may take.
const LIMIT: Duration = Duration::from_secs(5);

fn packet() -> Vec<u8> {
    query("db.prod.global. A").0
}

/// What a client says first.
fn hello(issued: &Issued, protocol: &str) -> Vec<u8> {
    let client = issued.client(&[protocol]);
    let connection = rustls::ClientConnection::new(client.0, localhost());
    let mut hello = Vec::new();
    connection.unwrap().write_tls(&mut hello).unwrap();
    hello
}

fn connect(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Sends octet by octet, slowly, until the other side has had enough. Returns how many it took.
fn trickle(stream: &mut impl std::io::Write, octets: &[u8]) -> usize {
    let sent = octets.iter().take_while(|octet| {
        std::thread::sleep(Duration::from_millis(250));
        let written = stream.write_all(&[**octet]);
        written.and_then(|()| stream.flush()).is_ok()
    });
    sent.count()
}

#[test]
fn a_handshake_that_takes_too_long_ends() {
    let issued = issue_good();
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
            assert!(sent < hello.len(), "it was taken octet by octet");
        }
    });
    // Nobody waits for them.
    issued.ask_tls(server.address("tls"), &packet()).unwrap();
    issued
        .ask_https(server.address("https"), &packet())
        .message();
    for stream in &mut waiting {
        // The answer to a whole hello comes first.
        let _ = std::io::copy(stream, &mut std::io::sink());
    }
    assert!(started.elapsed() >= LIMIT, "too soon");
    slow.join().unwrap();
    server.wait_for_ended("handshake", ended + 1);
    for reason in ["idle", "slow", "broken", "misuse"] {
        assert_eq!(server.ended(reason), 0.0, "{reason}");
    }
}

#[test]
fn a_handshake_that_fails_is_counted_at_once() {
    let issued = issue_good();
    let server = serve(small(), &issued, &[]);
    let mut failed = 0;
    for listener in ["tls", "https"] {
        let address = server.address(listener);
        assert!(issued.client(&["smtp"]).connect(address).is_err());
        let stranger = issue_good();
        let protocol = if listener == "tls" { "dot" } else { "h2" };
        assert!(stranger.client(&[protocol]).connect(address).is_err());
        let mut clear = connect(address);
        clear.write_all(&frame(&packet())).unwrap();
        let _ = std::io::copy(&mut clear, &mut std::io::sink());
        failed += 3;
    }
    server.wait_for_ended("handshake", failed);
    // Who leaves before it is done has failed, too.
    drop(connect(server.address("tls")));
    drop(connect(server.address("https")));
    server.wait_for_ended("handshake", failed + 2);
}

#[test]
fn a_message_that_comes_octet_by_octet_gets_no_more_time_by_it() {
    let issued = issue_good();
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
            assert!(sent < framed.len(), "the whole message was taken");
        });
        // A request that is not whole is none: the head has the time that a first query has.
        scope.spawn(|| {
            let mut connection = issued.http1(https);
            let text = Http1::text(&get(PATH, &[0; 100]), &[]);
            let sent = trickle(connection.0.get_mut(), &text);
            assert!(sent < text.len(), "the whole request was taken");
        });
        assert_eq!(end_of(&mut half), End::CloseNotify);
    });
    assert!(started.elapsed() >= LIMIT, "too soon");
    server.wait_for_ended("slow", 2);
    server.wait_for_ended("idle", 1);
}

/// Writes until neither side's buffers take more, and then until the server has lost its patience.
fn write_until_refused(stream: &mut impl std::io::Write, octets: &[u8]) {
    let refused = (0..10_000_000).find_map(|_| stream.write_all(octets).err());
    let kind = refused.unwrap().kind();
    assert!(
        matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
        "{kind}"
    );
}

#[test]
fn a_client_that_takes_no_replies_is_let_go() {
    let issued = issue_good();
    let server = serve(small(), &issued, &[]);
    let (tls, https) = (server.address("tls"), server.address("https"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = issued.tls(tls);
            stream.sock.set_write_timeout(Some(PATIENCE)).unwrap();
            write_until_refused(&mut stream, &frame(&packet()).repeat(100));
        });
        scope.spawn(|| {
            let mut connection = issued.http1(https);
            let stream = connection.0.get_mut();
            stream.sock.set_write_timeout(Some(PATIENCE)).unwrap();
            let text = Http1::text(&get(PATH, &packet()), &[]);
            write_until_refused(stream, &text.repeat(20));
        });
    });
    server.wait_for_ended("slow", 2);
    issued.ask_tls(tls, &packet()).unwrap();
}

/// A window that is never opened holds a reply back as a full socket does (RFC 9113 section 5.2).
#[test]
fn a_client_of_http_2_that_opens_no_window_is_let_go() {
    let issued = issue_good();
    let server = serve(small(), &issued, &[]);
    let mut settings = h2::client::Builder::new();
    settings.initial_window_size(0);
    let client = issued.client(&["h2"]);
    let deaf = Http2::with(&client, server.address("https"), settings);
    let mut deaf = deaf.unwrap();
    let requests = vec![(post(PATH), packet()); 50];
    for response in deaf.send_all(&requests) {
        assert!(response.is_err(), "{response:?}");
    }
    server.wait_for_ended("slow", 1);
    issued
        .ask_https(server.address("https"), &packet())
        .message();
}

/// Those that end by themselves are no trouble.
#[test]
fn clients_that_are_done_are_counted_as_done() {
    let issued = issue_good();
    let server = serve(small(), &issued, &[]);
    let (tls, https) = (server.address("tls"), server.address("https"));
    for _ in 0..3 {
        let mut stream = issued.tls(tls);
        send(&mut stream, &packet()).unwrap();
        stream.conn.send_close_notify();
        stream.flush().unwrap();
        end_of(&mut stream);
        let mut connection = issued.http1(https);
        connection.send(&post(PATH), &packet()).unwrap().message();
        let stream = connection.0.get_mut();
        stream.conn.send_close_notify();
        stream.flush().unwrap();
        end_of(stream);
        issued.ask_https(https, &packet()).message();
    }
    server.wait_for_ended("done", 9);
    let mut gone = connect(tls);
    gone.write_all(&hello(&issued, "dot")[..3]).unwrap();
    gone.shutdown(std::net::Shutdown::Write).unwrap();
    wait_for_end(&mut gone);
    server.wait_for_ended("handshake", 1);
}
