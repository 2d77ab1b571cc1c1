//! SIGTERM and SIGINT: not ready at once, answers during the grace period, a clean end.

use std::time::{Duration, Instant};

use support::http::Page;
use support::objects::{Manifest, mirror};
use support::server::Server;
use support::wait::wait_for;
use support::wire::Over;

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
fn readiness_fails_answers_go_on_and_the_end_is_clean() {
    for signal in ["TERM", "INT"] {
        let grace = Duration::from_secs(5); // all below fits in it on a busy machine
        let mut server = Server::of(sample(), &["--grace=5s"]);
        let sent = Instant::now();
        server.signal(signal);
        let page = wait_for_not_ready(&server);
        assert_eq!(page.body, "shutting down\n");
        assert_eq!(server.admin("/livez").status, 200);
        for over in [Over::Udp, Over::Tcp] {
            let reply = server.ask("db.prod.global. A", over);
            assert_eq!(reply.data(), ["10.96.1.1"], "{signal}, {over:?}");
        }
        assert!(!server.has_ended(), "SIG{signal}");
        assert_eq!(server.exit_code(), Some(0), "SIG{signal}");
        assert!(sent.elapsed() >= grace, "{:?}", sent.elapsed());
        let fields = server
            .log
            .wait(0, "Shutting down: no longer ready, still answering");
        assert_eq!(fields["signal"], format!("SIG{signal}"));
        server.log.wait(0, "Stopped");
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    for (first, second) in [("TERM", "TERM"), ("INT", "TERM"), ("TERM", "INT")] {
        let mut server = Server::of(sample(), &["--grace=10m"]);
        server.signal(first);
        wait_for_not_ready(&server);
        assert!(!server.has_ended());
        server.signal(second);
        // A minute is waited for the end, and not ten. Which exit code it has is not promised; a signal's death has none.
        assert!(server.exit_code().is_some(), "{first}, {second}");
    }
}

#[test]
fn a_signal_without_grace_ends_it_cleanly() {
    let mut server = Server::of(sample(), &["--grace=0s"]);
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
}
