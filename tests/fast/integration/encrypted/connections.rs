//! Client addresses of connections, and the connection limit.

use std::net::{IpAddr, TcpStream};

use support::certificates::issue_valid;
use support::encrypted::{QUIC, connect_from, files, serve};
use support::https::{Http1, PATH, get, post};
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

fn is_answered_by_http(connection: &mut Http1) -> bool {
    connection
        .send(&post(PATH), &packet())
        .is_ok_and(|response| response.status == 200)
}

#[test]
fn allow_applies_to_the_address_of_the_client() {
    let issued = issue_valid();
    let server = serve(small(), &issued, &["--allow=127.0.0.5", QUIC]);
    let address = |listener| server.address(listener);
    for (host, expected) in [(5, "NOERROR"), (1, "REFUSED")] {
        let own = IpAddr::from([127, 0, 0, host]);
        let connect = |listener, protocol| {
            let stream = connect_from(own, address(listener));
            issued.client(&[protocol]).handshake(stream).unwrap()
        };
        let tls = ask(&mut connect("tls", "dot"), &packet()).unwrap();
        let mut http = Http1::from_stream(connect("https", "http/1.1"));
        let by_post = http.send(&post(PATH), &packet()).unwrap().message();
        let by_get = http.send(&get(PATH, &packet()), &[]).unwrap().message();
        let quic = Quic::connect_from(&issued.client(&["doq"]), own, address("quic"));
        let mut of_quic = packet();
        of_quic[..2].fill(0);
        let quic = quic.unwrap().ask(&of_quic).unwrap();
        for (over, reply) in [
            ("TLS", tls),
            ("POST", by_post),
            ("GET", by_get),
            ("QUIC", quic),
        ] {
            let rcode = Reply::read(&reply).unwrap().status();
            assert_eq!(rcode, expected, "127.0.0.{host} over {over}");
        }
    }
}

#[test]
fn connection_above_the_limit_replaces_the_longest_idle_one() {
    let issued = issue_valid();
    let server = serve(small(), &issued, &["--tcp-connections=2"]);
    let (tls, https) = (server.address("tls"), server.address("https"));
    let mut first = issued.tls(tls);
    let mut second = issued.http1(https);
    assert!(is_answered_by_http(&mut second));
    assert!(is_answered(&mut first), "the most recently used one");
    let mut third = issued.tls(tls);
    read_end(second.0.get_mut());
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

/// A request over HTTPS ends the idle time of a connection like a query over TLS.
#[test]
fn http_requests_count_as_queries() {
    let issued = issue_valid();
    let server = serve(small(), &issued, &["--tcp-connections=3"]);
    let (tls, https) = (server.address("tls"), server.address("https"));
    let (mut first, mut second) = (issued.http1(https), issued.http2(https));
    let mut third = issued.tls(tls);
    assert!(is_answered(&mut third));
    assert!(is_answered_by_http(&mut first));
    second.send(&get(PATH, &packet()), &[]).unwrap().message();
    let mut fourth = issued.http1(https);
    assert_eq!(read_end(&mut third), ConnectionEnd::CloseNotify);
    assert!(is_answered_by_http(&mut fourth));
    assert!(is_answered_by_http(&mut first));
    second.send(&post(PATH), &packet()).unwrap().message();
    server.wait_for_ended_connections("replaced", 1);
}

#[test]
fn connections_without_a_query_are_replaced_first() {
    let issued = issue_valid();
    let server = serve(small(), &issued, &["--tcp-connections=4"]);
    let (tls, https) = (server.address("tls"), server.address("https"));
    let (mut first, mut second) = (issued.tls(tls), issued.http1(https));
    let mut silent: Vec<TcpStream> = Vec::new();
    for round in 0..10 {
        let replaced = std::mem::take(&mut silent);
        for listener in [tls, https] {
            let stream = TcpStream::connect(listener).unwrap();
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
        assert!(is_answered_by_http(&mut second), "round {round}");
    }
    server.wait_for_ended_connections("replaced", 18);
}

#[test]
fn client_with_most_connections_loses_its_own() {
    let issued = issue_valid();
    let server = serve(small(), &issued, &["--tcp-connections-per-address=3"]);
    let (tls, https) = (server.address("tls"), server.address("https"));
    let from = |host: u8, listener, protocol| {
        let stream = connect_from([127, 0, 0, host].into(), listener);
        issued.client(&[protocol]).handshake(stream).unwrap()
    };
    let mut other = from(2, tls, "dot");
    let mut hoard = Vec::new();
    for round in 0..12 {
        hoard.push(match round % 2 {
            0 => from(3, tls, "dot"),
            _ => from(3, https, "http/1.1"),
        });
    }
    for (round, stream) in hoard[..10].iter_mut().enumerate() {
        let end = read_end(stream);
        // HTTP connections can end in other ways.
        assert!(
            round % 2 == 1 || end == ConnectionEnd::CloseNotify,
            "{end:?}"
        );
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
        let listen = ["--tls-listen=127.0.0.1:0", "--https-listen=127.0.0.1:0"].map(str::to_owned);
        [&[certificate, key][..], &listen].concat()
    });
    let fields = server.log.wait(0, TOO_FEW);
    // Connections over TCP, and as many encrypted ones.
    let expected = [500, OTHERS + 2 * 1024, (500 - OTHERS) / 2];
    let names = ["open_files", "needed", "connections"];
    assert_eq!(names.map(|name| fields[name].as_u64().unwrap()), expected);
    let (tls, https) = (server.address("tls"), server.address("https"));
    let hoard: Vec<_> = (0..400)
        .map(|round| TcpStream::connect(if round % 2 == 0 { tls } else { https }).unwrap())
        .collect();
    // The remaining descriptors suffice for everything else. Connections in the queue of another listener would
    // replace new ones.
    assert_eq!(server.admin("/livez").status, 200);
    server.wait_for_ended_connections("replaced", hoard.len() - expected[2] as usize);
    assert!(is_answered(&mut issued.tls(tls)));
    assert!(is_answered_by_http(&mut issued.http1(https)));
    assert_eq!(server.outcome("db.prod.global. A"), "10.96.1.1");
    assert!(server.metric(OPEN) <= expected[2] as f64);
    assert_eq!(server.metric("global_dns_tcp_accept_failures_total"), 0.0);
    drop(hoard);
}
