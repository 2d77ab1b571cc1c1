//! Client addresses of connections, and the connection limit.

use std::net::{IpAddr, TcpStream};

use support::certificates::issue_valid;
use support::encrypted::{QUIC, connect_from, files, serve};
use support::quic::Quic;
use support::reply::Reply;
use support::tls::{ConnectionEnd, Stream, ask, read_end};
use support::wait::{TIMEOUT, wait_for};
use support::wire::read_framed;

use super::{packet, small};
use crate::integration::connections::{TOO_FEW, start_limited};

const OPEN: &str = "global_dns_tcp_connections";

fn is_answered(stream: &mut Stream) -> bool {
    ask(stream, &packet()).is_ok()
}

#[test]
fn allow_applies_to_the_address_of_the_client() {
    let issued = issue_valid();
    let server = serve(small(), &issued, &["--allow=127.0.0.5", QUIC]);
    let address = |listener| server.address(listener);
    for (host, expected) in [(5, "NOERROR"), (1, "REFUSED")] {
        let own = IpAddr::from([127, 0, 0, host]);
        let stream = connect_from(own, address("tls"));
        let mut stream = issued.client(&["dot"]).handshake(stream).unwrap();
        let tls = ask(&mut stream, &packet()).unwrap();
        let quic = Quic::connect_from(&issued.client(&["doq"]), own, address("quic"));
        let mut of_quic = packet();
        of_quic[..2].fill(0);
        let quic = quic.unwrap().ask(&of_quic).unwrap();
        for (over, reply) in [("TLS", tls), ("QUIC", quic)] {
            let rcode = Reply::read(&reply).unwrap().status();
            assert_eq!(rcode, expected, "127.0.0.{host} over {over}");
        }
    }
}

#[test]
fn connection_above_the_limit_replaces_the_longest_idle_one() {
    let issued = issue_valid();
    let server = serve(small(), &issued, &["--tcp-connections=2"]);
    let tls = server.address("tls");
    let mut first = issued.tls(tls);
    let mut second = issued.tls(tls);
    assert!(is_answered(&mut second));
    assert!(is_answered(&mut first), "the most recently used one");
    let mut third = issued.tls(tls);
    read_end(&mut second);
    assert!(is_answered(&mut third) && is_answered(&mut first));
    server.wait_for_ended_connections("replaced", 1);
    assert_eq!(server.metric(OPEN), 2.0);

    // Encrypted connections do not replace connections without TLS.
    for _ in 0..2 {
        assert_eq!(server.outcome("db.prod.global. A"), "10.96.1.1");
        let mut plain = TcpStream::connect(server.dns).unwrap();
        let framed = support::wire::frame(&packet());
        std::io::Write::write_all(&mut plain, &framed).unwrap();
        assert!(read_framed(&mut plain).is_ok());
    }
    assert!(is_answered(&mut first) && is_answered(&mut third));
}

#[test]
fn connections_without_a_query_are_replaced_first() {
    let issued = issue_valid();
    let server = serve(small(), &issued, &["--tcp-connections=4"]);
    let tls = server.address("tls");
    let (mut first, mut second) = (issued.tls(tls), issued.tls(tls));
    let mut silent: Vec<TcpStream> = Vec::new();
    for round in 0..10 {
        let replaced = std::mem::take(&mut silent);
        for _ in 0..2 {
            let stream = TcpStream::connect(tls).unwrap();
            stream.set_read_timeout(Some(TIMEOUT)).unwrap();
            silent.push(stream);
        }
        // The end of the earlier connections shows that the server has accepted these.
        replaced.into_iter().for_each(|mut stream| {
            crate::integration::connections::wait_for_end(&mut stream);
        });
        wait_for("four connections", || {
            (server.metric(OPEN) == 4.0).then_some(())
        });
        assert!(is_answered(&mut first), "round {round}");
        assert!(is_answered(&mut second), "round {round}");
    }
    server.wait_for_ended_connections("replaced", 18);
}

#[test]
fn client_with_most_connections_loses_its_own() {
    let issued = issue_valid();
    let server = serve(small(), &issued, &["--tcp-connections-per-address=3"]);
    let tls = server.address("tls");
    let from = |host: u8| {
        let stream = connect_from([127, 0, 0, host].into(), tls);
        issued.client(&["dot"]).handshake(stream).unwrap()
    };
    let mut other = from(2);
    let mut hoard: Vec<_> = (0..12).map(|_| from(3)).collect();
    for stream in &mut hoard[..10] {
        assert_eq!(read_end(stream), ConnectionEnd::CloseNotify);
    }
    assert!(
        is_answered(&mut other),
        "the other client lost its connection"
    );
    assert_eq!(server.metric(OPEN), 3.0);
}

#[test]
fn limit_of_open_files_reduces_the_connection_limit() {
    const OTHERS: u64 = 384 + 2; // as many UDP workers
    let issued = issue_valid();
    let server = start_limited("64:500", |folder| {
        let [_, certificate, key] = files(folder, small(), &issued);
        vec![certificate, key, "--tls-listen=127.0.0.1:0".to_owned()]
    });
    let fields = server.log.wait(0, TOO_FEW);
    // Connections over TCP, and as many encrypted ones.
    let expected = [500, OTHERS + 2 * 1024, (500 - OTHERS) / 2];
    let names = ["open_files", "needed", "connections"];
    assert_eq!(names.map(|name| fields[name].as_u64().unwrap()), expected);
    let tls = server.address("tls");
    let hoard: Vec<_> = (0..400).map(|_| TcpStream::connect(tls).unwrap()).collect();
    // The remaining descriptors suffice for everything else. Connections in the queue of another listener would
    // replace new ones.
    assert_eq!(server.admin("/livez").status, 200);
    server.wait_for_ended_connections("replaced", hoard.len() - expected[2] as usize);
    assert!(is_answered(&mut issued.tls(tls)));
    assert_eq!(server.outcome("db.prod.global. A"), "10.96.1.1");
    assert!(server.metric(OPEN) <= expected[2] as f64);
    assert_eq!(server.metric("global_dns_tcp_accept_failures_total"), 0.0);
    drop(hoard);
}
