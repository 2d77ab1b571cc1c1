//! SIGTERM and SIGINT: ready until twelve seconds before the end, answers during the grace period, exit code 0.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use support::objects::{Manifest, mirror};
use support::query::query;
use support::server::Server;
use support::standin::{Behavior, StandIn};
use support::wait::wait_for;
use support::wire::{Transport, frame, read_framed};

fn sample() -> Manifest {
    mirror("prod", "db", "east")
        .endpoint("db-0", &["10.96.1.1"])
        .into()
}

const SHUTTING_DOWN: &str = "Shutting down; answering queries during the grace period";
const WITHDRAWN: &str =
    "Readiness is withdrawn; answering queries until the end of the grace period";

/// Sends a signal and waits until the server has received it. Returns the fields of the log line.
fn terminate(server: &Server, signal: &str) -> Value {
    server.signal(signal);
    server.log.wait(0, SHUTTING_DOWN)
}

/// Waits until the server withdraws its readiness. Returns how long it will still answer.
fn wait_for_withdrawal(server: &Server) -> Value {
    let fields = server.log.wait(0, WITHDRAWN);
    let page = server.admin("/readyz");
    assert_eq!(page.body, "Server is shutting down\n");
    assert_eq!(page.status, 503);
    fields["end_in"].clone()
}

/// Returns the time of a log line.
fn time(server: &Server, message: &str) -> Timestamp {
    let mut events = server.log.events().into_iter();
    let event = events.find(|event| event["fields"]["message"] == message);
    event.unwrap()["timestamp"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

#[test]
fn readiness_fails_twelve_seconds_before_the_end_and_queries_are_answered_until_then() {
    // The first four seconds are for one request, and the others for the further steps, on a busy machine.
    let grace = Duration::from_secs(16);
    let check = |signal: &str| {
        let mut server = Server::with_objects(sample(), &["grace=16s"]);
        let sent = Instant::now();
        let fields = terminate(&server, signal);
        assert_eq!(fields["signal"], format!("SIG{signal}"));
        let page = server.admin("/readyz");
        assert_eq!(page.body, "ok\nServer is shutting down\n");
        assert_eq!(page.status, 200);
        assert_eq!(wait_for_withdrawal(&server), "12s");
        assert_eq!(server.admin("/livez").status, 200);
        for over in [Transport::Udp, Transport::Tcp] {
            let reply = server.ask("db.prod.global. A", over);
            assert_eq!(reply.data(), ["10.96.1.1"], "{signal}, {over:?}");
        }
        assert!(!server.has_ended(), "SIG{signal}");
        assert_eq!(server.exit_code(), Some(0), "SIG{signal}");
        assert!(sent.elapsed() >= grace, "{:?}", sent.elapsed());
        let [start, withdrawn, end] =
            [SHUTTING_DOWN, WITHDRAWN, "Stopped"].map(|message| time(&server, message));
        let (ready, not_ready) = (
            withdrawn.duration_since(start),
            end.duration_since(withdrawn),
        );
        assert!(ready >= SignedDuration::from_secs(4), "{ready:?}");
        assert!(not_ready >= SignedDuration::from_secs(12), "{not_ready:?}");
    };
    std::thread::scope(|scope| {
        scope.spawn(|| check("TERM"));
        scope.spawn(|| check("INT"));
    });
}

#[test]
fn readiness_fails_at_once_if_the_grace_period_is_short() {
    let server = Server::with_objects(sample(), &["grace=12s"]);
    terminate(&server, "TERM");
    assert_eq!(wait_for_withdrawal(&server), "12s");
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

/// A list from a slow API server would go on for minutes.
#[test]
fn signal_during_a_list_ends_the_server_after_the_grace_period() {
    let standin = StandIn::start(Behavior::Normal, &sample().0).unwrap();
    let mut server = Server::ready_of_cluster(&standin.kubeconfig, &["grace=1s"]);
    let lists = || {
        let requests = standin.requests();
        requests.iter().filter(|request| !request.watch).count()
    };
    let before = lists();
    standin.set_behavior(Behavior::EndlessLists);
    standin.lose_history();
    wait_for("another list", || (lists() > before).then_some(()));
    let signaled = Instant::now();
    server.signal("TERM");
    server.assert_answers();
    assert_eq!(server.exit_code(), Some(0));
    assert!(signaled.elapsed() < Duration::from_secs(20));
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
        terminate(&server, first);
        assert!(!server.has_ended());
        server.signal(second);
        // The grace period is longer than the timeout of this wait. The exit code is not specified, but a process that
        // a signal killed has none.
        assert!(server.exit_code().is_some(), "{first}, {second}");
    }
}
