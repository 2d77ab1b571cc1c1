//! Access control: `limits.allow`.

use std::net::{IpAddr, UdpSocket};

use support::certificates::issue_valid;
use support::encrypted::{QUIC, connect_from, serve};
use support::objects::{Manifest, mirror, objects};
use support::query::query;
use support::quic::Quic;
use support::reply::Reply;
use support::tls::ask;
use support::wait::TIMEOUT;
use support::wire::{Transport, exchange, read_datagram};

const NAME: &str = "db.prod.global A";

fn sample() -> Manifest {
    let db = (0..20).fold(mirror("prod", "db", "east"), |db, host| {
        db.endpoint(&format!("db-{host}"), &[&format!("192.0.2.{host}")])
    });
    objects().with(db)
}

fn packet() -> Vec<u8> {
    query(&format!("{NAME} +edns")).0
}

#[test]
fn disallowed_client_is_refused_on_every_transport() {
    let issued = issue_valid();
    let server = serve(
        sample(),
        &issued,
        &["limits.allow=[192.0.2.0/24, '2001:db8::/32']"],
    );
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
    let problem = &server.section("problems?kind=refused-client", "problems")[0];
    assert_eq!(problem["detail"], "127.0.0.0/24");
    assert_eq!(problem["level"], "error");
}

/// The address of the client is that of its connection.
#[test]
fn allowed_client_is_answered_on_every_transport() {
    let issued = issue_valid();
    let flags = [
        "limits.allow=[192.0.2.0/24]",
        "limits.allow=[127.0.0.5]",
        QUIC,
    ];
    let server = serve(sample(), &issued, &flags);
    let packet = packet();
    for (host, outcome) in [(5, "NOERROR"), (1, "REFUSED")] {
        let own = IpAddr::from([127, 0, 0, host]);
        let stream = connect_from(own, server.address("tls"));
        let mut stream = issued.client(&["dot"]).handshake(stream).unwrap();
        let tls = ask(&mut stream, &packet).unwrap();
        let quic = Quic::connect_from(&issued.client(&["doq"]), own, server.address("quic"));
        let quic = quic
            .unwrap()
            .ask(&[&[0, 0], &packet[2..]].concat())
            .unwrap();
        let udp = UdpSocket::bind((own, 0)).unwrap();
        udp.connect(server.dns).unwrap();
        udp.set_read_timeout(Some(TIMEOUT)).unwrap();
        udp.send(&packet).unwrap();
        let udp = read_datagram(&udp).unwrap();
        for (over, reply) in [("UDP", udp), ("TLS", tls), ("QUIC", quic)] {
            let status = Reply::read(&reply).unwrap().status();
            assert_eq!(status, outcome, "127.0.0.{host} over {over}");
        }
    }
}
