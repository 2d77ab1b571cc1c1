//! The connection limit.

use std::net::TcpStream;

use support::certificates::issue_valid;
use support::encrypted::serve;
use support::tls::{Stream, ask, read_end};
use support::wait::{TIMEOUT, wait_for};
use support::wire::read_framed;

use super::{packet, small};

const OPEN: &str = "global_dns_tcp_connections";

fn is_answered(stream: &mut Stream) -> bool {
    ask(stream, &packet()).is_ok()
}

#[test]
fn connection_above_the_limit_replaces_the_longest_idle_one() {
    let issued = issue_valid();
    let server = serve(small(), &issued, &["limits.connections=4"]);
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
    let server = serve(small(), &issued, &["limits.connections=8"]);
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
