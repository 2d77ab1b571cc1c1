//! The connection limit.

use std::net::TcpStream;

use support::certificates::issue_valid;
use support::encrypted::serve;
use support::tls::{Stream, ask};
use support::wait::{TIMEOUT, wait_for};

use super::{packet, small};

const OPEN: &str = "global_dns_tcp_connections";

fn is_answered(stream: &mut Stream) -> bool {
    ask(stream, &packet()).is_ok()
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
    // Connections without TLS have a limit of their own.
    let plain: Vec<TcpStream> = (0..4).map(|_| server.connect()).collect();
    assert!(is_answered(&mut first) && is_answered(&mut second));
    drop(plain);
}
