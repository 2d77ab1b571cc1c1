//! RFC 9250: DNS over QUIC.

use quinn::{ConnectionError, ReadError, ReadToEndError};
use support::encrypted::Encrypted;
use support::objects::members;
use support::query::{Packet, query};
use support::quic::Quic;
use support::tls::Offer;
use support::wire::Over;

use crate::cases::decode;
use crate::servers::{encrypted, encrypted_objects};

/// No application protocol (RFC 7301 section 3.2), as QUIC writes an alert (RFC 9001 section 4.8).
const NO_APPLICATION_PROTOCOL: u64 = 0x100 + 120;

/// A query as a client of QUIC sends it (section 4.2.1).
fn ask(connection: &Quic, text: &str) -> Vec<u8> {
    connection.ask(&query(text).with_id(0).0).unwrap()
}

fn assert_answers(connection: &Quic, what: &str) {
    let reply = ask(connection, "db.prod.global. A");
    assert_eq!(decode(&reply).answers.len(), 4, "{what}");
}

// === 4.1 Connections ===

#[test]
fn s4_1_1_the_protocol_is_doq() {
    let server = encrypted(&[]);
    let connect = |offered: &[&str]| {
        let client = server.client(Offer::of(offered));
        Quic::connect(&client, server.address("quic")).map(|_| ())
    };
    connect(&["doq"]).unwrap();
    connect(&["h3", "doq"]).unwrap();
    for offered in [&["h3"][..], &["dot"], &["doq-i00"], &[]] {
        let Err(ConnectionError::ConnectionClosed(closed)) = connect(offered) else {
            panic!("{offered:?} is not refused");
        };
        let code = u64::from(closed.error_code);
        assert_eq!(code, NO_APPLICATION_PROTOCOL, "{offered:?}: {closed}");
    }
}

#[test]
fn s4_1_cleartext_is_not_answered() {
    let server = encrypted(&[]);
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.address("quic")).unwrap();
    for _ in 0..10 {
        socket.send(&query("global. SOA").0).unwrap();
    }
    // Nobody can wait for nothing: what is answered behind it shows that it was passed over.
    assert_answers(&server.quic(), "another client");
    socket.set_nonblocking(true).unwrap();
    let silence = socket.recv(&mut [0; 1500]).map_err(|error| error.kind());
    assert_eq!(silence, Err(std::io::ErrorKind::WouldBlock));
}

// === 4.2 Streams and queries ===

#[test]
fn s4_2_a_query_has_a_stream_and_the_reply_ends_it() {
    let server = encrypted(&[]);
    let connection = server.quic();
    for text in ["db.prod.global. A", "nope.global. A", "global. SOA +edns"] {
        let mut exchange = connection.open().unwrap();
        let question = query(text).with_id(0).framed();
        connection.write(&mut exchange, &question, true).unwrap();
        let octets = connection.read(exchange).unwrap();
        let length = usize::from(u16::from_be_bytes([octets[0], octets[1]]));
        assert_eq!(octets.len(), 2 + length, "one reply, and the end");
        decode(&octets[2..]);
    }
}

#[test]
fn s4_2_replies_have_the_records_of_tcp() {
    let server = encrypted(&["--order=stable"]);
    let connection = server.quic();
    for text in [
        "db.prod.global. A",
        "db.prod.global. SRV +edns",
        "web.shop.global. AAAA +do",
        "global. NS",
        "dns-version.global. TXT",
        "prod.global. A",
        "nope.global. A +edns",
        "www.example. A +edns",
        "global. AXFR +edns",
        "global. SOA +edns=1",
        "dB.pRoD.gLoBaL. A",
    ] {
        let question = query(text).with_id(0);
        let tcp = decode(&server.server.send(&question, Over::Tcp).unwrap());
        let quic = decode(&connection.ask(&question.0).unwrap());
        // Names of records are the same in upper and lower case.
        let [quic, tcp] = [quic, tcp].map(|reply| reply.in_lower_case().content());
        assert_eq!(quic, tcp, "{text}");
    }
}

/// RFC 9250 section 4.2: in any order, and all at once.
#[test]
fn s4_2_streams_do_not_wait_for_each_other() {
    let server = encrypted(&[]);
    let connection = server.quic();
    let mut slow = connection.open().unwrap();
    let question = query("db.prod.global. A").with_id(0).framed();
    connection.write(&mut slow, &question[..7], false).unwrap();
    let texts = ["db.prod.global. A", "nope.global. A", "global. SOA"];
    let questions: Vec<_> = (0..30).map(|n| query(texts[n % 3]).with_id(0).0).collect();
    connection.write(&mut slow, &question[7..], true).unwrap();
    for (n, reply) in connection.ask_all(&questions).into_iter().enumerate() {
        let rcode = decode(&reply.unwrap()).rcode;
        assert_eq!(rcode, [0, 3, 0][n % 3]);
    }
    assert!(!connection.read(slow).unwrap().is_empty());
}

#[test]
fn s4_2_a_query_may_arrive_octet_by_octet() {
    let server = encrypted(&[]);
    let connection = server.quic();
    let mut exchange = connection.open().unwrap();
    for octet in query("db.prod.global. A").with_id(0).framed() {
        connection.write(&mut exchange, &[octet], false).unwrap();
    }
    connection.write(&mut exchange, &[], true).unwrap();
    let octets = connection.read(exchange).unwrap();
    assert_eq!(decode(&octets[2..]).answers.len(), 4);
}

#[test]
fn s4_2_1_the_identifier_of_a_reply_is_zero() {
    let server = encrypted(&[]);
    let connection = server.quic();
    for text in ["db.prod.global. A", "nope.global. A", "global. AXFR"] {
        assert_eq!(ask(&connection, text)[..2], [0, 0], "{text}");
    }
}

// === 4.3 Errors ===

/// Section 4.3.1: a client that gives up one query asks others.
#[test]
fn s4_3_1_a_cancelled_query_harms_no_other() {
    const REQUEST_CANCELLED: u32 = 3;
    let server = encrypted(&[]);
    let connection = server.quic();
    assert_answers(&connection, "before");
    let question = query("db.prod.global. A").with_id(0).framed();
    for sent in [&question[..], &question[..question.len() - 1]] {
        let mut exchange = connection.open().unwrap();
        let is_whole = sent.len() == question.len();
        connection.write(&mut exchange, sent, is_whole).unwrap();
        exchange.receive.stop(REQUEST_CANCELLED.into()).unwrap();
        if !is_whole {
            continue; // what follows a query that is not whole is no concern of this one
        }
        assert_answers(&connection, "after");
    }
    server.assert_well();
}

/// Section 4.3.3: what no client may do. Whatever becomes of its connection, the others' go on.
#[test]
fn s4_3_3_a_protocol_error_harms_no_other_connection() {
    let server = encrypted(&[]);
    let other = server.quic();
    let question = query("db.prod.global. A").with_id(0);
    let framed = question.framed();
    let mut response = question.clone();
    response.0[2] |= 0x80;
    for (what, sent) in [
        ("half a length", &framed[..1]),
        ("half a query", &framed[..9]),
        ("nothing", &[]),
        ("a length of zero", &[0, 0]),
        ("a response", &response.framed()),
        ("less than a header", &[0, 4, 0, 0, 1, 0]),
        ("two queries", &framed.repeat(2)),
        ("octets behind a query", &[&framed[..], &[1, 2, 3]].concat()),
        ("an identifier", &query("db.prod.global. A").framed()),
        (
            "keepalive",
            &query("db.prod.global. A +keepalive").with_id(0).framed(),
        ),
    ] {
        let connection = server.quic();
        let mut exchange = connection.open().unwrap();
        let _ = connection.write(&mut exchange, sent, true);
        // A reply, an end, or an error: no more than one reply in any case.
        match connection.read(exchange) {
            Ok(octets) if octets.is_empty() => {}
            Ok(octets) => {
                let length = usize::from(u16::from_be_bytes([octets[0], octets[1]]));
                assert_eq!(octets.len(), 2 + length, "{what}: more than a reply");
                assert_eq!(octets[2..4], [0, 0], "{what}: the identifier");
            }
            Err(ReadToEndError::Read(ReadError::Reset(_) | ReadError::ConnectionLost(_))) => {}
            Err(error) => panic!("{what}: {error}"),
        }
        assert_answers(&other, what);
    }
    server.assert_well();
}

/// Section 4.2: a stream in one direction has no place for a reply.
#[test]
fn s4_3_3_streams_in_one_direction_are_not_opened() {
    let server = encrypted(&[]);
    let connection = server.quic();
    assert!(connection.open_uni().is_none());
    assert_answers(&connection, "afterwards");
}

// === 4.4 and 4.6 Reuse, sizes ===

#[test]
fn s4_4_a_connection_takes_several_queries() {
    let server = encrypted(&[]);
    let connection = server.quic();
    for turn in 0..50 {
        assert_answers(&connection, &format!("query {turn}"));
    }
    assert!(!connection.is_closed());
}

/// The library that writes replies here compresses names less than ours, so that fewer records fit.
#[test]
fn s4_6_replies_have_up_to_65535_octets() {
    let server: Encrypted = encrypted_objects(members(&[1500]), &["--order=stable"]);
    let question: Packet = query("s1500.prod.global. A").with_id(0);
    let tcp = server.server.send(&question, Over::Tcp).unwrap();
    let quic = server.quic().ask(&question.0).unwrap();
    assert_eq!(decode(&quic).answers, decode(&tcp).answers);
    assert_eq!(decode(&quic).answers.len(), 1500);
}

/// Section 5.5.2 with RFC 7828 section 3.3.2: how long a connection lasts is a matter of QUIC.
#[test]
fn s5_5_2_keepalive_is_not_told() {
    let server = encrypted(&[]);
    let connection = server.quic();
    let question = query("db.prod.global. A +edns").with_id(0);
    let reply = decode(&connection.ask(&question.0).unwrap());
    let options = reply.opt.expect("an OPT record").options;
    assert!(options.is_empty(), "{options:?}");
}
