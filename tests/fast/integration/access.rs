//! Access control and rate limits: `--allow`, `--trusted`, `--rate-limit`.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use support::certificates::issue_valid;
use support::encrypted::serve;
use support::objects::{Manifest, mirror, objects};
use support::query::{hex, query};
use support::reply::Reply;
use support::server::Server;
use support::wait::{TIMEOUT, wait_for};
use support::wire::{Transport, exchange, read_datagram};

const NAME: &str = "db.prod.global A";

fn sample() -> Manifest {
    let db = (0..20).fold(mirror("prod", "db", "east"), |db, host| {
        db.endpoint(&format!("db-{host}"), &[&format!("192.0.2.{host}")])
    });
    objects().with(db)
}

/// Results of a loopback client that sends many queries for 20 addresses as fast as it can.
#[derive(Debug, Default)]
struct Counted {
    whole: usize,
    truncated: usize,
    nothing: usize,
    took: Duration,
}

/// Sends queries until each one is answered or counted as limited.
fn ask_many(server: &Server, packet: &[u8], count: usize) -> Counted {
    const WINDOW: usize = 50;
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.dns).unwrap();
    // Time without a reply before the counters of the server are read.
    socket
        .set_read_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    let started = Instant::now();
    let mut counted = Counted::default();
    let mut reply = [0; 2048];
    for sent in (1..=count / WINDOW).map(|round| round * WINDOW) {
        for _ in 0..WINDOW {
            socket.send(packet).unwrap();
        }
        while counted.whole + counted.truncated + counted.nothing < sent {
            let Ok(length) = socket.recv(&mut reply) else {
                counted.nothing = limited(server, "dropped");
                assert!(started.elapsed() < TIMEOUT, "{sent}: {counted:?}");
                continue;
            };
            let message = Reply::read(&reply[..length]).unwrap();
            if message.is_truncated() {
                assert!(message.answers.is_empty() && message.opt.is_some());
                assert!(length <= packet.len(), "{length} octets");
                counted.truncated += 1;
            } else {
                assert_eq!(message.answers.len(), 20);
                counted.whole += 1;
            }
        }
    }
    counted.took = started.elapsed();
    counted
}

fn limited(server: &Server, action: &str) -> usize {
    server.metric(&format!(
        "global_dns_limited_requests_total{{action=\"{action}\"}}"
    )) as usize
}

fn packet() -> Vec<u8> {
    query(&format!("{NAME} +edns")).0
}

/// Returns a query with a cookie.
fn packet_with(cookie: &[u8]) -> Vec<u8> {
    query(&format!("{NAME} +cookie={}", hex(cookie))).0
}

#[test]
fn disallowed_client_is_refused_on_every_transport() {
    let issued = issue_valid();
    let server = serve(sample(), &issued, &["--allow=192.0.2.0/24,2001:db8::/32"]);
    let packet = packet();
    let ask = |over| exchange(server.dns, &packet, over, TIMEOUT).unwrap();
    let tls = server.address("tls");
    for (over, reply) in [
        ("UDP", ask(Transport::Udp)),
        ("TCP", ask(Transport::Tcp)),
        ("TLS", issued.ask_tls(tls, &packet).unwrap()),
    ] {
        assert_eq!(Reply::read(&reply).unwrap().outcome(), "REFUSED", "{over}");
        // The reply is the query plus option 15 with code 18, Prohibited.
        assert!(reply.ends_with(&[0, 15, 0, 2, 0, 18]), "{over}");
        assert_eq!(reply.len(), packet.len() + 6, "{over}");
    }
}

#[test]
fn allowed_client_is_answered() {
    let server = Server::with_objects(sample(), &["--allow=192.0.2.0/24", "--allow=127.0.0.0/8"]);
    for over in [Transport::Udp, Transport::Tcp] {
        assert_eq!(server.ask(NAME, over).answers.len(), 20);
    }
}

#[test]
fn trusted_client_is_never_limited() {
    let server = Server::with_objects(sample(), &["--rate-limit=10"]);
    let counted = ask_many(&server, &packet(), 3000);
    assert_eq!((counted.whole, counted.truncated), (3000, 0), "{counted:?}");
    for action in ["truncated", "dropped"] {
        assert_eq!(limited(&server, action), 0);
    }
}

#[test]
fn untrusted_client_is_limited_over_udp_but_not_over_tcp() {
    const RATE: usize = 100;
    let flags = ["--trusted=192.0.2.0/24", &format!("--rate-limit={RATE}")];
    let server = Server::with_objects(sample(), &flags);
    let counted = ask_many(&server, &packet(), 3000);
    let most = RATE as f64 * (counted.took.as_secs_f64() + 1.0) + 3.0;
    assert!(counted.whole >= RATE, "{counted:?}");
    assert!(counted.whole as f64 <= most, "{counted:?}, {most}");
    let above = counted.truncated + counted.nothing;
    assert_eq!(counted.whole + above, 3000, "{counted:?}");
    let share = counted.truncated as f64 / above as f64;
    assert!((0.4..0.6).contains(&share), "{counted:?}");
    assert_eq!(limited(&server, "truncated"), counted.truncated);
    assert_eq!(limited(&server, "dropped"), counted.nothing);
    for _ in 0..200 {
        assert_eq!(server.ask(NAME, Transport::Tcp).answers.len(), 20);
    }
}

#[test]
fn queries_over_connections_are_not_limited() {
    let issued = issue_valid();
    let flags = ["--trusted=192.0.2.0/24", "--rate-limit=1"];
    let server = serve(sample(), &issued, &flags);
    let tls = server.address("tls");
    for _ in 0..30 {
        for (over, reply) in [
            (
                "TCP",
                exchange(server.dns, &packet(), Transport::Tcp, TIMEOUT).unwrap(),
            ),
            ("TLS", issued.ask_tls(tls, &packet()).unwrap()),
        ] {
            let message = Reply::read(&reply).unwrap();
            assert!(!message.is_truncated(), "{over}");
            assert_eq!(message.answers.len(), 20, "{over}");
        }
    }
    assert_eq!(
        limited(&server, "truncated") + limited(&server, "dropped"),
        0
    );
}

#[test]
fn client_with_valid_cookie_is_not_limited_by_others_of_its_network() {
    const CLIENT: &[u8] = b"12345678";
    let server = Server::with_objects(sample(), &["--trusted=192.0.2.0/24", "--rate-limit=10"]);
    let reply = exchange(server.dns, &packet_with(CLIENT), Transport::Tcp, TIMEOUT).unwrap();
    let option = [&[0, 10, 0, 24], CLIENT].concat();
    let at = reply
        .windows(option.len())
        .position(|octets| octets == option);
    let cookie = &reply[at.unwrap() + 4..][..24];
    let dns = server.dns;
    let done = AtomicBool::new(false);
    let asked = std::thread::scope(|scope| {
        // Another client of the same /24, with the first client's cookie and with an invalid one.
        let flood = scope.spawn(|| {
            let socket = UdpSocket::bind("127.0.0.77:0").unwrap();
            socket.connect(dns).unwrap();
            let forged = packet_with(&[CLIENT, &[1; 16]].concat());
            let mut asked = 0;
            while !done.load(SeqCst) {
                socket.send(&packet_with(cookie)).unwrap();
                socket.send(&forged).unwrap();
                asked += 2;
                std::thread::sleep(Duration::from_micros(500));
            }
            asked
        });
        wait_for("the limit", || {
            (limited(&server, "truncated") > 20).then_some(())
        });
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(dns).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        for _ in 0..500 {
            socket.send(&packet_with(cookie)).unwrap();
            let reply = read_datagram(&socket).unwrap();
            assert_eq!(reply[6..8], [0, 20], "20 addresses");
        }
        done.store(true, SeqCst);
        flood.join().unwrap()
    });
    assert!(limited(&server, "truncated") + limited(&server, "dropped") > asked / 2);
}

#[test]
fn without_a_rate_limit_no_client_is_limited() {
    let server = Server::with_objects(sample(), &["--trusted=192.0.2.0/24", "--rate-limit=0"]);
    let counted = ask_many(&server, &packet(), 1000);
    assert_eq!(counted.whole, 1000, "{counted:?}");
}
