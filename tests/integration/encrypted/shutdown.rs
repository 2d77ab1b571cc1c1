//! SIGTERM: what is asked during the grace period is answered, and then every connection ends as its protocol has it.

use std::io::Write as _;

use http::Method;
use support::certificates::{Issued, issue_good};
use support::encrypted::{QUIC, serve};
use support::https::{Http1, PATH, get, post};
use support::query::query;
use support::server::Server;
use support::tls::{End, Stream, ask, end_of, send};
use support::wait::wait_for;
use support::wire::{frame, read_framed};

use super::small;

fn packet() -> Vec<u8> {
    query("db.prod.global. A").0
}

fn start(grace: &str) -> (Issued, Server) {
    let issued = issue_good();
    let server = serve(small(), &issued, &[grace, QUIC]);
    (issued, server)
}

/// Sends the signal, and waits until the server has taken it.
fn terminate(server: &Server) {
    server.signal("TERM");
    wait_for("503", || {
        Some(server.admin("/readyz")).filter(|page| page.status == 503)
    });
}

#[test]
fn answers_go_on_during_the_grace_period_and_the_end_is_clean() {
    let (issued, mut server) = start("--grace=3s");
    let (tls, https) = (server.address("tls"), server.address("https"));
    let mut of_quic = packet();
    of_quic[..2].fill(0);
    let (mut kept, mut idle) = (issued.tls(tls), issued.tls(tls));
    let (mut first, mut second) = (issued.http1(https), issued.http2(https));
    let quic = issued.quic(server.address("quic"));
    terminate(&server);
    // Over connections that were open before, and over new ones.
    ask(&mut kept, &packet()).unwrap();
    first.send(&post(PATH), &packet()).unwrap().message();
    second.send(&get(PATH, &packet()), &[]).unwrap().message();
    quic.ask(&of_quic).unwrap();
    issued.ask_tls(tls, &packet()).unwrap();
    issued.ask_https(https, &packet()).message();
    let new = issued.quic(server.address("quic"));
    new.ask(&of_quic).unwrap();
    assert!(!server.has_ended());

    // Idle connections do not keep it, and learn that it ends. HTTP/2 first: its client has a part in it, which the server
    // does not wait for long.
    let ended = second.ended();
    // What the client says after GOAWAY may come too late to be taken.
    let is_clean = |error: &h2::Error| {
        let late = error.get_io().map(std::io::Error::kind);
        error.reason() == Some(h2::Reason::NO_ERROR) || late == Some(std::io::ErrorKind::BrokenPipe)
    };
    assert!(ended.as_ref().map_or_else(is_clean, |()| true), "{ended:?}");
    assert_eq!(end_of(&mut idle), End::CloseNotify);
    assert_eq!(end_of(&mut kept), End::CloseNotify);
    assert_eq!(end_of(first.0.get_mut()), End::CloseNotify);
    quic.closed();
    assert_eq!(server.exit_code(), Some(0));
    server.log.wait(0, "Stopped");
}

/// What has arrived is answered before the connection ends, pipelined or not.
#[test]
fn nothing_that_was_asked_before_the_end_is_lost() {
    const QUERIES: usize = 200;
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
        assert_eq!(end_of(stream), End::CloseNotify);
    }
    for connection in &mut pages {
        connection.receive(&Method::GET).unwrap().message();
        assert_eq!(end_of(connection.0.get_mut()), End::CloseNotify);
    }
    assert_eq!(server.exit_code(), Some(0));
}

/// A request that had begun when the end came is answered, and no other is taken (RFC 9113 section 6.8).
#[test]
fn a_request_that_has_begun_is_answered() {
    let (issued, mut server) = start("--grace=10ms");
    let https = server.address("https");
    let (mut first, mut second) = (issued.http1(https), issued.http2(https));
    let text = Http1::text(&post(PATH), &packet());
    let (begun, rest) = text.split_at(text.len() - 5);
    first.write(begun).unwrap();
    let (part, last) = packet_parts();
    let mut upload = second.begin(&post(PATH)).unwrap();
    second.send_part(&mut upload, &part, false).unwrap();
    // Each of the two is known to the server when it answers another one behind it.
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

/// Clients that never pause cannot keep the server, nor can those that never go on.
#[test]
fn nobody_keeps_the_server_from_its_end() {
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
