//! Who may ask, and how fast: `--allow`, `--trusted`, `--rate-limit`.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use hickory_proto::op::{Message, ResponseCode};

use crate::support::PATIENCE;
use crate::support::ask::question;
use crate::support::binary::Server;
use crate::support::encrypted::{issue_good, serve};
use crate::support::objects::{Manifest, mirror, objects};
use crate::support::wire::{Over, exchange};

const NAME: &str = "db.prod.global A";

fn sample() -> Manifest {
    let db = (0..20).fold(mirror("prod", "db", "east"), |db, host| {
        db.endpoint(&format!("db-{host}"), &[&format!("192.0.2.{host}")])
    });
    objects().with(db)
}

/// What a client of loopback counts when it asks as fast as it can, each time for 20 addresses.
#[derive(Debug, Default)]
struct Counted {
    whole: usize,
    slipped: usize,
    nothing: usize,
    took: Duration,
}

fn ask_many(server: SocketAddr, count: usize) -> Counted {
    const WINDOW: usize = 50;
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    let packet = question(NAME).edns(1232).packet();
    let started = Instant::now();
    let mut counted = Counted::default();
    let mut reply = [0; 2048];
    for _ in 0..count / WINDOW {
        for _ in 0..WINDOW {
            socket.send(&packet).unwrap();
        }
        for _ in 0..WINDOW {
            let Ok(length) = socket.recv(&mut reply) else {
                break;
            };
            let message = Message::from_vec(&reply[..length]).unwrap();
            if message.metadata.truncation {
                assert!(message.answers.is_empty() && message.edns.is_some());
                assert!(length <= packet.len(), "{length} octets");
                counted.slipped += 1;
            } else {
                assert_eq!(message.answers.len(), 20);
                counted.whole += 1;
            }
        }
    }
    counted.took = started.elapsed();
    counted.nothing = count - counted.whole - counted.slipped;
    counted
}

#[test]
fn who_may_not_ask_is_refused_on_every_transport() {
    let issued = issue_good();
    let server = serve(sample(), &issued, &["--allow=192.0.2.0/24,2001:db8::/32"]);
    let packet = question(NAME).edns(1232).packet();
    let ask = |over| exchange(server.dns, &packet, over, PATIENCE).unwrap();
    let (tls, https) = (server.address("tls"), server.address("https"));
    for (over, reply) in [
        ("UDP", ask(Over::Udp)),
        ("TCP", ask(Over::Tcp)),
        ("TLS", issued.ask_tls(tls, &packet).unwrap()),
        ("HTTPS", issued.ask_https(https, &packet).message()),
    ] {
        let message = Message::from_vec(&reply).unwrap();
        let code = message.metadata.response_code;
        assert_eq!(code, ResponseCode::Refused, "{over}");
        assert!(message.answers.is_empty(), "{over}");
        // The query, and option 15 with code 18, Prohibited.
        assert!(reply.ends_with(&[0, 15, 0, 2, 0, 18]), "{over}");
        assert_eq!(reply.len(), packet.len() + 6, "{over}");
    }
}

#[test]
fn who_may_ask_is_answered() {
    let server = Server::of(sample(), &["--allow=192.0.2.0/24", "--allow=127.0.0.0/8"]);
    for over in [Over::Udp, Over::Tcp] {
        assert_eq!(server.ask(NAME, over).answers.len(), 20);
    }
}

#[test]
fn who_is_trusted_is_never_limited() {
    let server = Server::of(sample(), &["--rate-limit=10"]);
    let counted = ask_many(server.dns, 3000);
    assert_eq!((counted.whole, counted.slipped), (3000, 0), "{counted:?}");
    for action in ["slipped", "dropped"] {
        let metric = format!("global_dns_limited_requests_total{{action=\"{action}\"}}");
        assert_eq!(server.metric(&metric), 0.0);
    }
}

#[test]
fn who_is_not_trusted_gets_its_rate_over_udp_and_everything_over_tcp() {
    const RATE: usize = 100;
    let flags = ["--trusted=192.0.2.0/24", &format!("--rate-limit={RATE}")];
    let server = Server::of(sample(), &flags);
    let counted = ask_many(server.dns, 3000);
    let most = RATE as f64 * (counted.took.as_secs_f64() + 1.0) + 3.0;
    assert!(counted.whole >= RATE, "{counted:?}");
    assert!(counted.whole as f64 <= most, "{counted:?}, {most}");
    let limited = counted.slipped + counted.nothing;
    let share = counted.slipped as f64 / limited as f64;
    assert!((0.4..0.6).contains(&share), "{counted:?}");
    let metric = |action| {
        server.metric(&format!(
            "global_dns_limited_requests_total{{action=\"{action}\"}}"
        )) as usize
    };
    assert_eq!(metric("slipped"), counted.slipped);
    assert_eq!(metric("dropped"), counted.nothing);
    for _ in 0..200 {
        assert_eq!(server.ask(NAME, Over::Tcp).answers.len(), 20);
    }
}

#[test]
fn without_a_limit_nobody_is_limited() {
    let server = Server::of(sample(), &["--trusted=192.0.2.0/24", "--rate-limit=0"]);
    let counted = ask_many(server.dns, 1000);
    assert_eq!(counted.whole, 1000, "{counted:?}");
}
