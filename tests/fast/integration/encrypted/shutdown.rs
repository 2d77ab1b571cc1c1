//! SIGTERM: queries during the grace period are answered, then each connection ends as its protocol specifies.

use std::io::Write as _;

use http::Method;
use support::certificates::{Identity, issue_valid};
use support::encrypted::{QUIC, serve};
use support::https::{Http1, PATH, get, post};
use support::server::Server;
use support::tls::{ConnectionEnd, Stream, ask, read_end, send};
use support::wait::wait_for;
use support::wire::{frame, read_framed};

use super::{packet, small};

fn start(grace: &str) -> (Identity, Server) {
    let issued = issue_valid();
    let server = serve(small(), &issued, &[grace, QUIC]);
    (issued, server)
}

/// Sends SIGTERM and waits until the server has received it.
fn terminate(server: &Server) {
    server.signal("TERM");
    wait_for("503", || {
        Some(server.admin("/readyz")).filter(|page| page.status == 503)
    });
}

#[test]
fn queries_are_answered_during_the_grace_period_and_connections_end_cleanly() {
    let (issued, mut server) = start("--grace=8s");
    let (tls, https) = (server.address("tls"), server.address("https"));
    let mut of_quic = packet();
    of_quic[..2].fill(0);
    let (mut kept, mut idle) = (issued.tls(tls), issued.tls(tls));
    let (mut first, mut second) = (issued.http1(https), issued.http2(https));
    let quic = issued.quic(server.address("quic"));
    terminate(&server);
    // Over existing and over new connections.
    ask(&mut kept, &packet()).unwrap();
    first.send(&post(PATH), &packet()).unwrap().message();
    second.send(&get(PATH, &packet()), &[]).unwrap().message();
    quic.ask(&of_quic).unwrap();
    issued.ask_tls(tls, &packet()).unwrap();
    issued.ask_https(https, &packet()).message();
    let new = issued.quic(server.address("quic"));
    new.ask(&of_quic).unwrap();
    assert!(!server.has_ended());

    // Idle connections do not delay the end, and the server closes them with a notification. HTTP/2 comes first: its
    // client must respond, and the server waits for it only briefly.
    let ended = second.wait_for_end();
    // The server may close before it reads the client's frames after GOAWAY.
    let is_clean = |error: &h2::Error| {
        let late = error.get_io().map(std::io::Error::kind);
        error.reason() == Some(h2::Reason::NO_ERROR) || late == Some(std::io::ErrorKind::BrokenPipe)
    };
    assert!(ended.as_ref().map_or_else(is_clean, |()| true), "{ended:?}");
    assert_eq!(read_end(&mut idle), ConnectionEnd::CloseNotify);
    assert_eq!(read_end(&mut kept), ConnectionEnd::CloseNotify);
    assert_eq!(read_end(first.0.get_mut()), ConnectionEnd::CloseNotify);
    quic.wait_for_close();
    assert_eq!(server.exit_code(), Some(0));
    server.log.wait(0, "Stopped");
}

/// Queries that have arrived are answered before the connection ends, pipelined or not.
#[test]
fn queries_before_the_end_are_answered() {
    const QUERIES: usize = 50;
    let (issued, mut server) = start("--grace=10ms");
    let (tls, https) = (server.address("tls"), server.address("https"));
    let mut streams: Vec<Stream> = (0..8).map(|_| issued.tls(tls)).collect();
    let mut pages: Vec<Http1> = (0..8).map(|_| issued.http1(https)).collect();
    for stream in &mut streams {
        stream.write_all(&frame(&packet()).repeat(QUERIES)).unwrap();
        stream.flush().unwrap();
    }
    for connection in &mut pages {
        let text = Http1::text(&get(PATH, &packet()), &[]);
        connection.write(&text).unwrap();
    }
    server.signal("TERM");
    for stream in &mut streams {
        for _ in 0..QUERIES {
            read_framed(stream).unwrap();
        }
        assert_eq!(read_end(stream), ConnectionEnd::CloseNotify);
    }
    for connection in &mut pages {
        connection.receive(&Method::GET).unwrap().message();
        assert_eq!(read_end(connection.0.get_mut()), ConnectionEnd::CloseNotify);
    }
    assert_eq!(server.exit_code(), Some(0));
}

/// A request that started before the end is answered, and later ones are not accepted (RFC 9113 section 6.8).
#[test]
fn started_request_is_answered() {
    let (issued, mut server) = start("--grace=10ms");
    let https = server.address("https");
    let (mut first, mut second) = (issued.http1(https), issued.http2(https));
    let text = Http1::text(&post(PATH), &packet());
    let (begun, rest) = text.split_at(text.len() - 5);
    first.write(begun).unwrap();
    let (part, last) = packet_parts();
    let mut upload = second.begin(&post(PATH)).unwrap();
    second.send_part(&mut upload, &part, false).unwrap();
    // A reply to a later request shows that the server has received both of them.
    second.send(&post(PATH), &packet()).unwrap().message();
    wait_for("both", || {
        (server.metric("global_dns_tcp_connections") == 2.0).then_some(())
    });
    server.signal("TERM");
    first.write(rest).unwrap();
    second.send_part(&mut upload, &last, true).unwrap();
    first.receive(&Method::POST).unwrap().message();
    second.end(upload).unwrap().message();
    assert_eq!(server.exit_code(), Some(0));
}

fn packet_parts() -> (Vec<u8>, Vec<u8>) {
    let packet = packet();
    let (part, last) = packet.split_at(9);
    (part.to_vec(), last.to_vec())
}

/// Neither clients that send continuously nor clients that stall can delay the end.
#[test]
fn no_client_can_delay_the_end() {
    let (issued, mut server) = start("--grace=10ms");
    let (tls, https) = (server.address("tls"), server.address("https"));
    let mut half = issued.tls(tls);
    half.write_all(&frame(&packet())[..7]).unwrap();
    half.flush().unwrap();
    let mut slow = issued.http1(https);
    slow.write(b"GET /dns-query?dns=").unwrap();
    let silent: Vec<_> = [tls, https, tls, https]
        .into_iter()
        .map(|address| std::net::TcpStream::connect(address).unwrap())
        .collect();
    let busy = issued.tls(tls);
    let asking = std::thread::spawn(move || {
        let mut busy = busy;
        while send(&mut busy, &packet()).is_ok() && read_framed(&mut busy).is_ok() {}
    });
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
    asking.join().unwrap();
    drop((half, slow, silent));
}
