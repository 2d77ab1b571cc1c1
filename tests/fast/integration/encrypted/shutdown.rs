//! SIGTERM: queries during the grace period are answered, then each connection ends as its protocol specifies.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use support::certificates::{Identity, issue_valid};
use support::encrypted::{QUIC, serve};
use support::server::Server;
use support::tls::{ConnectionEnd, Stream, ask, read_end, send};
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
    let message = "Shutting down; answering queries during the grace period";
    server.log.wait(0, message);
}

#[test]
fn queries_are_answered_during_the_grace_period_and_connections_end_cleanly() {
    let (issued, mut server) = start("grace=15s");
    let tls = server.address("tls");
    let mut of_quic = packet();
    of_quic[..2].fill(0);
    let (mut kept, mut idle) = (issued.tls(tls), issued.tls(tls));
    let quic = issued.quic(server.address("quic"));
    terminate(&server);
    // Over existing and over new connections.
    ask(&mut kept, &packet()).unwrap();
    quic.ask(&of_quic).unwrap();
    issued.ask_tls(tls, &packet()).unwrap();
    let new = issued.quic(server.address("quic"));
    new.ask(&of_quic).unwrap();
    assert!(!server.has_ended());

    // Idle connections do not delay the end, and the server closes them with a notification.
    assert_eq!(read_end(&mut idle), ConnectionEnd::CloseNotify);
    assert_eq!(read_end(&mut kept), ConnectionEnd::CloseNotify);
    quic.wait_for_close();
    assert_eq!(server.exit_code(), Some(0));
    server.log.wait(0, "Stopped");
}

/// Queries that have arrived are answered before the connection ends, pipelined or not.
#[test]
fn queries_before_the_end_are_answered() {
    const QUERIES: usize = 50;
    let (issued, mut server) = start("grace=10ms");
    let tls = server.address("tls");
    let mut streams: Vec<Stream> = (0..8).map(|_| issued.tls(tls)).collect();
    for stream in &mut streams {
        stream.write_all(&frame(&packet()).repeat(QUERIES)).unwrap();
        stream.flush().unwrap();
    }
    server.signal("TERM");
    for stream in &mut streams {
        for _ in 0..QUERIES {
            read_framed(stream).unwrap();
        }
        assert_eq!(read_end(stream), ConnectionEnd::CloseNotify);
    }
    assert_eq!(server.exit_code(), Some(0));
}

/// The server is stopped, so that the kernel accepts all connections before the server sees the first one, or SIGTERM. Then it
/// performs all handshakes, also one that takes longer than the end of other connections.
#[test]
fn each_connection_that_the_kernel_has_accepted_is_answered() {
    const CONNECTIONS: usize = 60;
    let slow = Duration::from_millis(2500);
    for grace in ["grace=0s", "grace=1s"] {
        let (issued, mut server) = start(grace);
        let (client, tls) = (issued.client(&["dot"]), server.address("tls"));
        server.signal("STOP");
        let connect = || client.begin(TcpStream::connect(tls).unwrap()).unwrap();
        let streams: Vec<Stream> = (0..CONNECTIONS).map(|_| connect()).collect();
        server.signal("TERM");
        server.signal("CONT");
        std::thread::scope(|scope| {
            for (number, mut stream) in streams.into_iter().enumerate() {
                scope.spawn(move || {
                    if number == 0 {
                        std::thread::sleep(slow); // the client, not a wait of the test
                    }
                    ask(&mut stream, &packet()).unwrap_or_else(|error| panic!("{number}: {error}"));
                });
            }
        });
        assert_eq!(server.exit_code(), Some(0));
    }
}

/// Neither clients that send continuously nor clients that stall can delay the end.
#[test]
fn no_client_can_delay_the_end() {
    let (issued, mut server) = start("grace=10ms");
    let tls = server.address("tls");
    let mut half = issued.tls(tls);
    half.write_all(&frame(&packet())[..7]).unwrap();
    half.flush().unwrap();
    let silent: Vec<_> = (0..4).map(|_| TcpStream::connect(tls).unwrap()).collect();
    let busy = issued.tls(tls);
    let asking = std::thread::spawn(move || {
        let mut busy = busy;
        while send(&mut busy, &packet()).is_ok() && read_framed(&mut busy).is_ok() {}
    });
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
    asking.join().unwrap();
    drop((half, silent));
}
