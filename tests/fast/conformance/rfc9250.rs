//! RFC 9250: DNS over QUIC.

use quinn::{ConnectionError, ReadError, ReadToEndError};
use support::encrypted::EncryptedServer;
use support::objects::members;
use support::query::{Packet, query};
use support::quic::Quic;
use support::tls::Offer;
use support::wire::Transport;

use crate::conformance::cases::decode;
use crate::conformance::servers::{serve_encrypted, serve_encrypted_objects};

/// The TLS alert `no_application_protocol` (RFC 7301 section 3.2) as a QUIC error code (RFC 9001 section 4.8).
const NO_APPLICATION_PROTOCOL: u64 = 0x100 + 120;

/// Sends a query with identifier 0, as section 4.2.1 requires; returns the reply.
fn send_query(connection: &Quic, text: &str) -> Vec<u8> {
    connection.ask(&query(text).with_id(0).0).unwrap()
}

fn assert_answers(connection: &Quic, what: &str) {
    let reply = send_query(connection, "db.prod.global. A");
    assert_eq!(decode(&reply).answers.len(), 4, "{what}");
}

// === 4.1 Connections ===

#[test]
fn s4_1_1_only_alpn_doq_is_accepted() {
    let server = serve_encrypted(&[]);
    let connect = |offered: &[&str]| {
        let client = server.client(Offer::of(offered));
        Quic::connect(&client, server.address("quic")).map(|_| ())
    };
    connect(&["doq"]).unwrap();
    connect(&["h3", "doq"]).unwrap();
    for offered in [&["h3"][..], &["dot"], &["doq-i00"], &[]] {
        let Err(ConnectionError::ConnectionClosed(closed)) = connect(offered) else {
            panic!("{offered:?} must be refused");
        };
        let code = u64::from(closed.error_code);
        assert_eq!(code, NO_APPLICATION_PROTOCOL, "{offered:?}: {closed}");
    }
}

#[test]
fn s4_1_cleartext_is_not_answered() {
    let server = serve_encrypted(&[]);
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.address("quic")).unwrap();
    for _ in 0..10 {
        socket.send(&query("global. SOA").0).unwrap();
    }
    // A test cannot wait for the absence of a reply. The reply to a later query shows that these were ignored.
    assert_answers(&server.quic(), "another client");
    socket.set_nonblocking(true).unwrap();
    let result = socket.recv(&mut [0; 1500]).map_err(|error| error.kind());
    assert_eq!(result, Err(std::io::ErrorKind::WouldBlock));
}

// === 4.2 Streams and queries ===

#[test]
fn s4_2_reply_ends_the_stream_of_its_query() {
    let server = serve_encrypted(&[]);
    let connection = server.quic();
    for text in ["db.prod.global. A", "nope.global. A", "global. SOA +edns"] {
        let mut exchange = connection.open().unwrap();
        let question = query(text).with_id(0).framed();
        connection.write(&mut exchange, &question, true).unwrap();
        let octets = connection.read(exchange).unwrap();
        let length = usize::from(u16::from_be_bytes([octets[0], octets[1]]));
        assert_eq!(
            octets.len(),
            2 + length,
            "the stream must hold exactly one reply"
        );
        decode(&octets[2..]);
    }
}

/// RFC 9250 section 4.2: streams are processed concurrently, in any order.
#[test]
fn s4_2_streams_do_not_wait_for_each_other() {
    let server = serve_encrypted(&[]);
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
    let server = serve_encrypted(&[]);
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
fn s4_2_1_identifier_of_a_reply_is_0() {
    let server = serve_encrypted(&[]);
    let connection = server.quic();
    for text in ["db.prod.global. A", "nope.global. A", "global. AXFR"] {
        assert_eq!(send_query(&connection, text)[..2], [0, 0], "{text}");
    }
}

// === 4.3 Errors ===

/// Section 4.3.1: a client may cancel a query and send others.
#[test]
fn s4_3_1_canceled_query_does_not_affect_others() {
    const REQUEST_CANCELLED: u32 = 3;
    let server = serve_encrypted(&[]);
    let connection = server.quic();
    assert_answers(&connection, "before");
    let question = query("db.prod.global. A").with_id(0).framed();
    for sent in [&question[..], &question[..question.len() - 1]] {
        let mut exchange = connection.open().unwrap();
        let is_whole = sent.len() == question.len();
        connection.write(&mut exchange, sent, is_whole).unwrap();
        exchange.receive.stop(REQUEST_CANCELLED.into()).unwrap();
        if !is_whole {
            continue; // the server may close the connection after an incomplete query
        }
        assert_answers(&connection, "after");
    }
    server.assert_answers();
}

/// Section 4.3.3: messages that a client must not send.
#[test]
fn s4_3_3_protocol_error_does_not_affect_other_connections() {
    let server = serve_encrypted(&[]);
    let other = server.quic();
    let question = query("db.prod.global. A").with_id(0);
    let framed = question.framed();
    let mut response = question.clone();
    response.0[2] |= 0x80;
    for (what, sent) in [
        ("an incomplete length", &framed[..1]),
        ("an incomplete query", &framed[..9]),
        ("an empty stream", &[]),
        ("a length of zero", &[0, 0]),
        ("a response", &response.framed()),
        ("shorter than a header", &[0, 4, 0, 0, 1, 0]),
        ("two queries", &framed.repeat(2)),
        ("octets after a query", &[&framed[..], &[1, 2, 3]].concat()),
        (
            "an identifier other than 0",
            &query("db.prod.global. A").framed(),
        ),
        (
            "keepalive",
            &query("db.prod.global. A +keepalive").with_id(0).framed(),
        ),
    ] {
        let connection = server.quic();
        let mut exchange = connection.open().unwrap();
        let _ = connection.write(&mut exchange, sent, true);
        // The server may reply once, end the stream, or send an error.
        match connection.read(exchange) {
            Ok(octets) if octets.is_empty() => {}
            Ok(octets) => {
                let length = usize::from(u16::from_be_bytes([octets[0], octets[1]]));
                assert_eq!(octets.len(), 2 + length, "{what}: more than one reply");
                assert_eq!(octets[2..4], [0, 0], "{what}: the identifier must be 0");
            }
            Err(ReadToEndError::Read(ReadError::Reset(_) | ReadError::ConnectionLost(_))) => {}
            Err(error) => panic!("{what}: {error}"),
        }
        assert_answers(&other, what);
    }
    server.assert_answers();
}

/// Section 4.2: a unidirectional stream cannot carry a reply.
#[test]
fn s4_3_3_unidirectional_streams_are_refused() {
    let server = serve_encrypted(&[]);
    let connection = server.quic();
    assert!(connection.open_uni().is_none());
    assert_answers(&connection, "after the refused stream");
}

// === 4.4 and 4.6 Reuse, sizes ===

/// QUIC replies are written by hickory-server, which compresses names less, so fewer records fit.
#[test]
fn s4_6_replies_have_up_to_65535_octets() {
    let server: EncryptedServer = serve_encrypted_objects(members(&[1500]), &[]);
    let question: Packet = query("s1500.prod.global. A").with_id(0);
    let tcp = server.server.send(&question, Transport::Tcp).unwrap();
    let quic = server.quic().ask(&question.0).unwrap();
    let [quic, tcp] = [quic, tcp].map(|reply| decode(&reply).content().answers);
    assert_eq!(quic, tcp);
    assert_eq!(quic.len(), 1500);
}

/// The names of 3,000 records need more than 65,535 octets there, although the reply over TCP has them all.
#[test]
fn s4_6_reply_that_is_too_long_ends_with_a_whole_record() {
    let server: EncryptedServer = serve_encrypted_objects(members(&[3000]), &[]);
    for question in ["s3000.prod.global. A +edns", "s3000.prod.global. A"] {
        let question: Packet = query(question).with_id(0);
        let reply = server.quic().ask(&question.0).unwrap();
        let decoded = decode(&reply);
        assert!(decoded.is_truncated() && (2000..3000).contains(&decoded.answers.len()));
        assert_eq!(decoded.opt.is_some(), question.0[11] == 1);
    }
}

/// Section 5.5.2 with RFC 7828 section 3.3.2: QUIC has its own idle timeout.
#[test]
fn s5_5_2_keepalive_is_not_sent() {
    let server = serve_encrypted(&[]);
    let connection = server.quic();
    let question = query("db.prod.global. A +edns").with_id(0);
    let reply = decode(&connection.ask(&question.0).unwrap());
    let options = reply.opt.expect("an OPT record").options;
    assert!(options.is_empty(), "{options:?}");
}
