//! Readiness and counters. The suite `conformance` tests the messages.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use support::http::get;
use support::query::query;
use support::server::Server;
use support::watches::WATCHES;
use support::wire::Transport;

use super::{FLAGS, sample};

#[test]
fn before_the_first_table_clients_are_refused_and_readiness_fails() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = closed.local_addr().unwrap();
    drop(closed);
    let server = Server::without_table(address, &[]);
    // A forwarder tries another replica at once.
    let socket = server.socket();
    socket.send(&query("db.prod.global. A").0).unwrap();
    let refused = socket.recv(&mut [0]).map_err(|error| error.kind());
    assert_eq!(refused, Err(ErrorKind::ConnectionRefused));
    let refused = TcpStream::connect(server.dns).map_err(|error| error.kind());
    assert_eq!(refused.err(), Some(ErrorKind::ConnectionRefused));
    // The request waits for a table. The other probe is answered meanwhile.
    let asked = Instant::now();
    let page = thread::scope(|scope| {
        let readyz = scope.spawn(|| server.admin("/readyz"));
        assert_eq!(server.admin("/livez").status, 200);
        readyz.join().unwrap()
    });
    assert_eq!(page.status, 503);
    assert!(asked.elapsed() >= Duration::from_secs(1));
    let mut lines = page.body.lines();
    let first = lines.next().unwrap();
    let start = "No complete table yet: refusing queries (since 20";
    assert!(first.starts_with(start), "{first}");
    let rest: Vec<&str> = lines.collect();
    let unlisted: Vec<&&str> = rest
        .iter()
        .filter(|line| line.contains(": not listed yet"))
        .collect();
    for watch in WATCHES {
        let is_named = unlisted.iter().any(|line| line.contains(watch));
        assert!(is_named, "{}", page.body);
    }
    // Those that fail for one reason have one line.
    assert!(unlisted.len() <= 2, "{}", page.body);
    assert_eq!(server.admin("/livez").status, 200);
    let explain = get(server.api, "/api/v1/explain?name=db.prod.global");
    assert_eq!(explain.unwrap().status, 503);
}

#[test]
fn queries_and_replies_are_counted_but_received_responses_are_not() {
    let server = Server::with_objects(sample(), &FLAGS);
    let mut response = query("db.prod.global. A");
    response.0[2] |= 0x80;
    let socket = server.socket();
    for _ in 0..3 {
        socket.send(&response.0).unwrap();
    }
    // The server reads datagrams of a socket in order, so the reply belongs to the query after them.
    let query = query("db.prod.global. A");
    socket.send(&query.0).unwrap();
    let mut reply = [0; 512];
    socket.recv(&mut reply).unwrap();
    assert_eq!(reply[..2], query.0[..2]);
    server.ask("db.prod.global. AAAA", Transport::Tcp);
    server.ask("db.prod.global. TYPE666", Transport::Udp);
    server.ask("nope.prod.global. SRV", Transport::Tcp);
    server.ask(". NS", Transport::Udp);
    for (metric, count) in [
        ("requests_total{proto=\"udp\",type=\"A\"}", 1.0),
        ("requests_total{proto=\"tcp\",type=\"A\"}", 0.0),
        ("requests_total{proto=\"tcp\",type=\"AAAA\"}", 1.0),
        ("requests_total{proto=\"udp\",type=\"other\"}", 1.0),
        ("requests_total{proto=\"tcp\",type=\"SRV\"}", 1.0),
        ("requests_total{proto=\"udp\",type=\"NS\"}", 1.0),
        ("responses_total{rcode=\"NOERROR\"}", 3.0),
        ("responses_total{rcode=\"NXDOMAIN\"}", 1.0),
        ("responses_total{rcode=\"REFUSED\"}", 1.0),
        ("responses_total{rcode=\"SERVFAIL\"}", 0.0),
        ("request_duration_seconds_count", 5.0),
        (
            "endpoints{remote_cluster=\"east\",state=\"alive\",returned=\"true\"}",
            2.0,
        ),
        (
            "endpoints{remote_cluster=\"west\",state=\"down\",returned=\"true\"}",
            1.0,
        ),
        (
            "endpoints{remote_cluster=\"west\",state=\"down\",returned=\"true\"}",
            1.0,
        ),
        (
            "endpoints{remote_cluster=\"hub\",state=\"not-ready\",returned=\"false\"}",
            1.0,
        ),
        ("services{kind=\"headless\"}", 4.0),
        ("services{kind=\"flat\"}", 0.0),
        ("table_generation", 1.0),
    ] {
        assert_eq!(
            server.metric(&format!("global_dns_{metric}")),
            count,
            "{metric}"
        );
    }
}
