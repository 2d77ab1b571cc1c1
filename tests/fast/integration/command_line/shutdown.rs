//! SIGTERM and SIGINT: not ready at once, answers during the grace period, exit code 0.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use support::http::Page;
use support::objects::{Manifest, mirror};
use support::query::query;
use support::server::Server;
use support::wait::wait_for;
use support::wire::{Transport, frame, read_framed};

fn sample() -> Manifest {
    mirror("prod", "db", "east")
        .endpoint("db-0", &["10.96.1.1"])
        .into()
}

fn wait_for_not_ready(server: &Server) -> Page {
    wait_for("503", || {
        Some(server.admin("/readyz")).filter(|page| page.status == 503)
    })
}

#[test]
fn readiness_fails_at_once_and_queries_are_answered_during_the_grace_period() {
    let grace = Duration::from_secs(15); // enough for the steps below on a busy machine
    let check = |signal: &str| {
        let mut server = Server::with_objects(sample(), &["grace=15s"]);
        let sent = Instant::now();
        server.signal(signal);
        let page = wait_for_not_ready(&server);
        assert_eq!(page.body, "Server is shutting down\n");
        assert_eq!(server.admin("/livez").status, 200);
        for over in [Transport::Udp, Transport::Tcp] {
            let reply = server.ask("db.prod.global. A", over);
            assert_eq!(reply.data(), ["10.96.1.1"], "{signal}, {over:?}");
        }
        assert!(!server.has_ended(), "SIG{signal}");
        assert_eq!(server.exit_code(), Some(0), "SIG{signal}");
        assert!(sent.elapsed() >= grace, "{:?}", sent.elapsed());
        let fields = server.log.wait(
            0,
            "Shutting down; answering queries during the grace period",
        );
        assert_eq!(fields["signal"], format!("SIG{signal}"));
        server.log.wait(0, "Stopped");
    };
    std::thread::scope(|scope| {
        scope.spawn(|| check("TERM"));
        scope.spawn(|| check("INT"));
    });
}

/// The server is stopped, so that the kernel accepts all connections and datagrams before the server sees the first one, or SIGTERM.
#[test]
fn each_connection_and_datagram_that_the_kernel_has_accepted_is_answered() {
    const CONNECTIONS: usize = 1000;
    const DATAGRAMS: usize = 100;
    for grace in ["grace=0s", "grace=2s"] {
        let mut server = Server::with_objects(sample(), &[grace]);
        let packet = frame(&query("db.prod.global. A").0);
        server.signal("STOP");
        let connect = |_| {
            let mut stream = server.connect();
            stream.write_all(&packet).unwrap();
            stream
        };
        let mut streams: Vec<TcpStream> = (0..CONNECTIONS).map(connect).collect();
        let socket = server.socket();
        for _ in 0..DATAGRAMS {
            socket.send(&packet[2..]).unwrap();
        }
        server.signal("TERM");
        server.signal("CONT");
        for (number, stream) in streams.iter_mut().enumerate() {
            let reply = read_framed(stream).unwrap_or_else(|error| panic!("{number}: {error}"));
            assert_eq!(reply[6..8], [0, 1]);
        }
        for _ in 0..DATAGRAMS {
            assert!(socket.recv(&mut [0; 512]).is_ok());
        }
        assert_eq!(server.exit_code(), Some(0));
    }
}

#[test]
fn hangup_is_ignored() {
    let mut server = Server::with_objects(sample(), &[]);
    server.signal("HUP");
    for _ in 0..10 {
        server.assert_answers();
        assert!(!server.has_ended());
        std::thread::sleep(Duration::from_millis(20)); // there is no event to wait for
    }
}

#[test]
fn second_signal_ends_the_server_at_once() {
    for (first, second) in [("TERM", "TERM"), ("INT", "TERM"), ("TERM", "INT")] {
        let mut server = Server::with_objects(sample(), &["grace=10m"]);
        server.signal(first);
        wait_for_not_ready(&server);
        assert!(!server.has_ended());
        server.signal(second);
        // The grace period is longer than the timeout of this wait. The exit code is not specified, but a process that
        // a signal killed has none.
        assert!(server.exit_code().is_some(), "{first}, {second}");
    }
}

#[test]
fn signal_without_grace_period_ends_the_server_with_exit_code_0() {
    let mut server = Server::with_objects(sample(), &["grace=0s"]);
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
}
