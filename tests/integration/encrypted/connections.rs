//! Connections: whose they are, and who has to go when there are too many.

use std::net::{IpAddr, TcpStream};

use support::certificates::issue_good;
use support::encrypted::{QUIC, connect_from, files, serve};
use support::https::{Http1, PATH, get, post};
use support::query::query;
use support::quic::Quic;
use support::reply::Reply;
use support::tls::{End, Stream, ask, end_of};
use support::wait::{PATIENCE, wait_for};
use support::wire::read_framed;

use super::small;
use crate::connections::{TOO_FEW, start_limited};

const OPEN: &str = "global_dns_tcp_connections";

fn packet() -> Vec<u8> {
    query("db.prod.global. A").0
}

fn is_answered(stream: &mut Stream) -> bool {
    ask(stream, &packet()).is_ok()
}

fn is_answered_by_http(connection: &mut Http1) -> bool {
    connection
        .send(&post(PATH), &packet())
        .is_ok_and(|response| response.status == 200)
}

#[test]
fn a_client_has_its_own_address() {
    let issued = issue_good();
    let server = serve(small(), &issued, &["--allow=127.0.0.5", QUIC]);
    let address = |listener| server.address(listener);
    for (host, wanted) in [(5, "NOERROR"), (1, "REFUSED")] {
        let own = IpAddr::from([127, 0, 0, host]);
        let connect = |listener, protocol| {
            let stream = connect_from(own, address(listener));
            issued.client(&[protocol]).begin(stream).unwrap()
        };
        let tls = ask(&mut connect("tls", "dot"), &packet()).unwrap();
        let mut http = Http1::over(connect("https", "http/1.1"));
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
            assert_eq!(rcode, wanted, "127.0.0.{host} over {over}");
        }
    }
}

#[test]
fn one_more_than_the_limit_takes_the_place_of_the_longest_idle() {
    let issued = issue_good();
    let server = serve(small(), &issued, &["--tcp-connections=2"]);
    let (tls, https) = (server.address("tls"), server.address("https"));
    let mut first = issued.tls(tls);
    let mut second = issued.http1(https);
    assert!(is_answered_by_http(&mut second));
    assert!(is_answered(&mut first), "the one that asked last");
    let mut third = issued.tls(tls);
    end_of(second.0.get_mut());
    assert!(is_answered(&mut third) && is_answered(&mut first));
    server.wait_for_ended("displaced", 1);
    assert_eq!(server.metric(OPEN), 2.0);

    // They take none from those that come without TLS.
    for _ in 0..2 {
        assert_eq!(server.outcome("db.prod.global. A"), "10.96.1.1");
        let mut plain = TcpStream::connect(server.dns).unwrap();
        let framed = support::wire::frame(&packet());
        std::io::Write::write_all(&mut plain, &framed).unwrap();
        assert!(read_framed(&mut plain).is_ok());
    }
    assert!(is_answered(&mut first) && is_answered(&mut third));
}

/// A request over HTTPS is a sign of life like a query over TLS.
#[test]
fn requests_of_http_count_as_queries() {
    let issued = issue_good();
    let server = serve(small(), &issued, &["--tcp-connections=3"]);
    let (tls, https) = (server.address("tls"), server.address("https"));
    let (mut first, mut second) = (issued.http1(https), issued.http2(https));
    let mut third = issued.tls(tls);
    assert!(is_answered(&mut third));
    assert!(is_answered_by_http(&mut first));
    second.send(&get(PATH, &packet()), &[]).unwrap().message();
    let mut fourth = issued.http1(https);
    assert_eq!(end_of(&mut third), End::CloseNotify);
    assert!(is_answered_by_http(&mut fourth));
    assert!(is_answered_by_http(&mut first));
    second.send(&post(PATH), &packet()).unwrap().message();
    server.wait_for_ended("displaced", 1);
}

#[test]
fn who_has_not_said_a_word_goes_before_those_that_ask() {
    let issued = issue_good();
    let server = serve(small(), &issued, &["--tcp-connections=4"]);
    let (tls, https) = (server.address("tls"), server.address("https"));
    let (mut first, mut second) = (issued.tls(tls), issued.http1(https));
    let mut silent: Vec<TcpStream> = Vec::new();
    for round in 0..10 {
        let displaced = std::mem::take(&mut silent);
        for listener in [tls, https] {
            let stream = TcpStream::connect(listener).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            silent.push(stream);
        }
        // When those before have gone, these have come.
        displaced.into_iter().for_each(|mut stream| {
            crate::connections::wait_for_end(&mut stream);
        });
        wait_for("four connections", || {
            (server.metric(OPEN) == 4.0).then_some(())
        });
        assert!(is_answered(&mut first), "round {round}");
        assert!(is_answered_by_http(&mut second), "round {round}");
    }
    server.wait_for_ended("displaced", 18);
}

#[test]
fn who_hoards_connections_loses_its_own() {
    let issued = issue_good();
    let server = serve(small(), &issued, &["--tcp-connections-per-address=3"]);
    let (tls, https) = (server.address("tls"), server.address("https"));
    let from = |host: u8, listener, protocol| {
        let stream = connect_from([127, 0, 0, host].into(), listener);
        issued.client(&[protocol]).begin(stream).unwrap()
    };
    let mut other = from(2, tls, "dot");
    let mut hoard = Vec::new();
    for round in 0..12 {
        hoard.push(match round % 2 {
            0 => from(3, tls, "dot"),
            _ => from(3, https, "http/1.1"),
        });
    }
    for (round, stream) in hoard[..9].iter_mut().enumerate() {
        let end = end_of(stream);
        // HTTP has its own ends of messages.
        assert!(round % 2 == 1 || end == End::CloseNotify, "{end:?}");
    }
    assert!(is_answered(&mut other), "the other client lost its own");
    assert_eq!(server.metric(OPEN), 4.0);
}

#[test]
fn connections_are_no_more_than_the_limit_of_open_files_allows() {
    const OTHERS: u64 = 384 + 2; // as many UDP workers
    let issued = issue_good();
    let server = start_limited("64:500", |folder| {
        let [_, certificate, key] = files(folder, small(), &issued);
        let listen = ["--tls-listen=127.0.0.1:0", "--https-listen=127.0.0.1:0"];
        let listen = listen.map(str::to_owned);
        [&[certificate, key][..], &listen].concat()
    });
    let fields = server.log.wait(0, TOO_FEW);
    // Over TCP, and as many encrypted ones.
    let wanted = [500, OTHERS + 2 * 1024, (500 - OTHERS) / 2];
    let names = ["open_files", "needed", "connections"];
    assert_eq!(names.map(|name| fields[name].as_u64().unwrap()), wanted);
    let (tls, https) = (server.address("tls"), server.address("https"));
    let hoard: Vec<_> = (0..400)
        .map(|round| TcpStream::connect(if round % 2 == 0 { tls } else { https }).unwrap())
        .collect();
    // What is left is enough for all else. Those that wait in another listener's queue would displace who comes now.
    assert_eq!(server.admin("/livez").status, 200);
    server.wait_for_ended("displaced", hoard.len() - wanted[2] as usize);
    assert!(is_answered(&mut issued.tls(tls)));
    assert!(is_answered_by_http(&mut issued.http1(https)));
    assert_eq!(server.outcome("db.prod.global. A"), "10.96.1.1");
    assert!(server.metric(OPEN) <= wanted[2] as f64);
    assert_eq!(server.metric("global_dns_tcp_accept_failures_total"), 0.0);
    drop(hoard);
}
