//! RFC 7766: TCP.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use support::query::{Packet, octets, query};
use support::wait::TIMEOUT;
use support::wire::{is_end, read_framed_or_end};

use crate::conformance::cases::decode;
use crate::conformance::servers::serve_sample;

/// A malformed message in between changes nothing for its neighbors.
#[test]
fn s6_2_1_1_pipelined_queries_are_answered_in_order() {
    let server = serve_sample();
    let mut stream = server.connect();
    let malformed = octets("4321 0000 0001 0000 0000 0000 c00c 0001 0001");
    let questions = [
        (query("db.prod.global. SRV"), 0),
        (query("nope.global. A"), 3),
        (query("global. SOA +do"), 0),
        (query("www.example. A"), 5),
        (query("global. AXFR"), 5),
        (malformed, 1),
    ];
    let questions: Vec<&(Packet, u16)> = questions.iter().cycle().take(200).collect();
    let all = questions.iter().flat_map(|(packet, _)| packet.framed());
    stream.write_all(&all.collect::<Vec<_>>()).unwrap();
    for (question, rcode) in questions {
        let reply = read_framed_or_end(&mut stream).unwrap();
        assert_eq!(reply[..2], question.0[..2]);
        assert_eq!(decode(&reply).rcode, *rcode);
    }
}

/// CoreDNS reuses a connection for ten seconds. If the server closes it earlier, a query fails.
#[test]
fn s6_2_3_idle_connection_outlives_the_reuse_time_of_clients() {
    const REUSE: Duration = Duration::from_secs(11);
    let server = serve_sample();
    let (fresh, mut used) = (server.connect(), server.connect());
    used.write_all(&query("global. SOA").framed()).unwrap();
    read_framed_or_end(&mut used).unwrap();
    let deadline = Instant::now() + REUSE;
    for mut stream in [fresh, used] {
        let rest = deadline.saturating_duration_since(Instant::now());
        let rest = rest.max(Duration::from_millis(1)); // a zero timeout is an error
        stream.set_read_timeout(Some(rest)).unwrap();
        let result = stream.read(&mut [0]).map_err(|error| error.kind());
        assert!(
            matches!(result, Err(ErrorKind::WouldBlock | ErrorKind::TimedOut)),
            "{result:?}"
        );
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.write_all(&query("global. SOA").framed()).unwrap();
        assert_eq!(
            decode(&read_framed_or_end(&mut stream).unwrap())
                .answers
                .len(),
            1
        );
    }
}

#[test]
fn s6_2_4_queries_before_a_half_close_are_answered() {
    let server = serve_sample();
    let mut stream = server.connect();
    let questions = [query("db.prod.global. A"), query("global. SOA")];
    stream
        .write_all(&[questions[0].framed(), questions[1].framed()].concat())
        .unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    for question in &questions {
        assert_eq!(
            read_framed_or_end(&mut stream).unwrap()[..2],
            question.0[..2]
        );
    }
    assert_eq!(
        read_framed_or_end(&mut stream),
        None,
        "the connection must end"
    );
}

#[test]
fn s8_length_and_message_arrive_together() {
    let server = serve_sample();
    let mut stream = server.connect();
    for _ in 0..50 {
        stream
            .write_all(&query("db.prod.global. SRV").framed())
            .unwrap();
        let mut all = [0; 4096];
        let length = stream.read(&mut all).unwrap();
        assert!(length > 2, "the length arrived without the message");
        assert_eq!(
            usize::from(u16::from_be_bytes([all[0], all[1]])),
            length - 2
        );
    }
}

#[test]
fn s8_a_query_may_arrive_octet_by_octet() {
    let server = serve_sample();
    let mut stream = server.connect();
    for octet in query("global. SOA").framed() {
        stream.write_all(&[octet]).unwrap();
    }
    assert_eq!(
        decode(&read_framed_or_end(&mut stream).unwrap())
            .answers
            .len(),
        1
    );
}

#[test]
fn s8_length_of_zero_ends_the_connection() {
    let server = serve_sample();
    let mut stream = server.connect();
    stream.write_all(&[0, 0]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_framed_or_end(&mut stream), None);
    server.assert_answers();
}

/// Section 6.2.3: an incomplete message gets a shorter timeout than an idle connection.
#[test]
fn s6_2_3_incomplete_message_times_out() {
    let server = serve_sample();
    let parts = [&[0][..], &[0, 30], &[0, 30, 0x12, 0x34, 0]];
    let streams = parts.map(|part| {
        let mut stream = server.connect();
        stream.write_all(part).unwrap();
        stream
    });
    server.assert_answers();
    for (mut stream, part) in streams.into_iter().zip(parts) {
        match stream.read(&mut [0]) {
            Ok(0) => {}
            Err(error) if is_end(&error) => {}
            other => panic!("{other:?} after {part:?}"),
        }
    }
    server.wait_for_ended_connections("slow", parts.len());
    server.assert_answers();
}

/// No query needs more than 4,096 octets. An announced length must not make the server allocate more.
#[test]
fn s10_message_above_4096_octets_ends_the_connection() {
    let server = serve_sample();
    for length in [4097, 65_535_u16] {
        let mut stream = server.connect();
        stream.write_all(&length.to_be_bytes()).unwrap();
        let ended = stream.read(&mut [0]).map_err(|error| is_end(&error));
        assert!(matches!(ended, Ok(0) | Err(true)), "{ended:?}");
    }
    let mut stream = server.connect();
    let mut long = query("global. SOA");
    long.0.resize(4096, 0);
    stream.write_all(&long.framed()).unwrap();
    assert_eq!(
        decode(&read_framed_or_end(&mut stream).unwrap())
            .answers
            .len(),
        1
    );
}

#[test]
fn s10_silent_connections_do_not_block_others() {
    let server = serve_sample();
    let silent: Vec<_> = (0..200).map(|_| server.connect()).collect();
    server.assert_answers();
    drop(silent);
    server.assert_answers();
}
