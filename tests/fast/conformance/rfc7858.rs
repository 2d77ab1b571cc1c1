//! RFC 7858: DNS over TLS; with RFC 7301 (ALPN) and RFC 9325 (recommendations for TLS). Framing, pipelining and sizes are those of
//! TCP (`rfc7766`).

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, HandshakeKind, ProtocolVersion};
use support::encrypted::EncryptedServer;
use support::query::{Packet, query};
use support::tls::{ConnectionEnd, Offer, Stream, alert, ask, read_end, send};
use support::wait::TIMEOUT;
use support::wire::read_framed_or_end;

use crate::conformance::cases::decode;
use crate::conformance::servers::serve_encrypted;

/// TLS record types (RFC 8446 section 5.1).
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;

/// Connects over TCP, without TLS.
fn connect(server: &EncryptedServer) -> TcpStream {
    let stream = TcpStream::connect(server.address("tls")).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

/// Reads until the server ends the connection.
fn read_rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    rest
}

/// Returns the types of the TLS records in the octets. Fails if they hold anything else.
fn record_types(mut octets: &[u8]) -> Vec<u8> {
    let mut types = Vec::new();
    while let [kind, 3, _, high, low, rest @ ..] = octets {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        assert!(rest.len() >= length, "incomplete record: {octets:?}");
        types.push(*kind);
        octets = &rest[length..];
    }
    assert!(octets.is_empty(), "not a TLS record: {octets:?}");
    types
}

/// Builds a ClientHello of an old client. Its only extensions are the supported groups and signature algorithms.
fn client_hello(version: [u8; 2]) -> Vec<u8> {
    let extensions = [
        &[0, 10, 0, 4, 0, 2, 0, 23][..],      // secp256r1
        &[0, 13, 0, 6, 0, 4, 4, 3, 2, 3][..], // ECDSA with SHA-256 and with SHA-1
    ]
    .concat();
    let body = [
        &version[..],
        &[7; 32],                        // random
        &[0],                            // no session
        &[0, 4, 0xc0, 0x09, 0xc0, 0x2b], // ECDHE-ECDSA with AES-128, CBC or GCM
        &[1, 0],                         // no compression
        &[0, extensions.len() as u8],
        &extensions,
    ]
    .concat();
    [&[1, 0, 0, body.len() as u8][..], &body].concat()
}

fn assert_answers(stream: &mut Stream, what: &str) {
    let question = query("db.prod.global. A");
    let reply = ask(stream, &question.0).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(reply[..2], question.0[..2], "{what}");
    assert_eq!(decode(&reply).answers.len(), 4, "{what}");
}

// === 3.1 Session initiation ===

#[test]
fn s3_1_cleartext_is_not_answered() {
    let server = serve_encrypted(&[]);
    let question = query("global. SOA").framed();
    for sent in [
        &question[..],
        &question.repeat(100),
        &question[2..],
        b"GET / HTTP/1.1\r\n\r\n",
    ] {
        let mut stream = connect(&server);
        // The server may close the connection before it has read everything.
        let _ = stream.write_all(sent);
        let _ = stream.shutdown(Shutdown::Write);
        let types = record_types(&read_rest(&mut stream));
        assert!(types.iter().all(|kind| *kind == ALERT), "{types:?}");
    }
    server.assert_answers();
}

// === 3.2 Handshake ===

#[test]
fn s3_2_tls_1_2_and_1_3_are_accepted() {
    let server = serve_encrypted(&[]);
    for (version, number) in [
        (&TLS12, ProtocolVersion::TLSv1_2),
        (&TLS13, ProtocolVersion::TLSv1_3),
    ] {
        let client = server.client(Offer::of(&["dot"]).only(&version));
        let mut stream = client.connect(server.address("tls")).unwrap();
        assert_eq!(stream.conn.protocol_version(), Some(number));
        assert_answers(&mut stream, &format!("{number:?}"));
    }
    let both = server.tls();
    let chosen = both.conn.protocol_version();
    assert_eq!(
        chosen,
        Some(ProtocolVersion::TLSv1_3),
        "the newer version must be chosen"
    );
}

/// RFC 9325 section 3.1.1.
#[test]
fn s3_2_older_versions_are_refused() {
    let server = serve_encrypted(&[]);
    for version in [[3, 0], [3, 1], [3, 2]] {
        let mut stream = connect(&server);
        let hello = client_hello(version);
        let record = [&[HANDSHAKE, 3, 1, 0, hello.len() as u8][..], &hello].concat();
        stream.write_all(&record).unwrap();
        let octets = read_rest(&mut stream);
        assert_eq!(record_types(&octets), [ALERT], "{version:?}: {octets:?}");
    }
    server.assert_answers();
}

/// RFC 7858 defines no ALPN identifier; IANA registered `dot` later.
#[test]
fn s3_2_alpn_is_dot_or_absent() {
    let server = serve_encrypted(&[]);
    let address = server.address("tls");
    for (offered, chosen) in [
        (&["dot"][..], Some(&b"dot"[..])),
        (&["h2", "dot"], Some(b"dot")),
        (&[], None),
    ] {
        let client = server.client(Offer::of(offered));
        let mut stream = client.connect(address).unwrap();
        assert_eq!(stream.conn.alpn_protocol(), chosen, "{offered:?}");
        assert_answers(&mut stream, &format!("{offered:?}"));
    }
}

/// RFC 7301 section 3.2.
#[test]
fn s3_2_other_alpn_protocols_are_refused_with_an_alert() {
    let server = serve_encrypted(&[]);
    for offered in [
        &["h2"][..],
        &["http/1.1"],
        &["doq"],
        &["DOT"],
        &["h2", "http/1.1"],
    ] {
        for version in [&TLS12, &TLS13] {
            let client = server.client(Offer::of(offered).only(&version));
            let error = client.connect(server.address("tls")).map(|_| ());
            let error = error.unwrap_err();
            let received = alert(&error);
            let expected = Some(AlertDescription::NoApplicationProtocol);
            assert_eq!(received, expected, "{offered:?}: {error}");
        }
    }
}

// === 3.3 Messages ===

#[test]
fn s3_3_length_and_message_arrive_together() {
    let server = serve_encrypted(&[]);
    let mut stream = server.tls();
    for _ in 0..50 {
        send(&mut stream, &query("db.prod.global. SRV").0).unwrap();
        // One read returns the content of one record.
        let mut all = [0; 4096];
        let length = stream.read(&mut all).unwrap();
        assert!(length > 2, "the length arrived without the message");
        let announced = usize::from(u16::from_be_bytes([all[0], all[1]]));
        assert_eq!(announced, length - 2);
    }
}

#[test]
fn s3_3_messages_may_span_tls_records() {
    let server = serve_encrypted(&[]);
    let mut stream = server.tls();
    let questions = ["db.prod.global. SRV", "global. SOA", "nope.global. A"].map(query);
    let all: Vec<u8> = questions.iter().flat_map(Packet::framed).collect();
    for step in [1, 2, 3, 7, 30, 64] {
        for part in all.chunks(step) {
            stream.write_all(part).unwrap();
            stream.flush().unwrap();
        }
        for question in &questions {
            let reply = read_framed_or_end(&mut stream).unwrap();
            assert_eq!(reply[..2], question.0[..2], "records of {step} octets");
        }
    }
}

// === 3.4 Reuse and end of a connection ===

#[test]
fn s3_4_close_notify_is_answered_with_close_notify() {
    let server = serve_encrypted(&[]);
    for version in [&TLS12, &TLS13] {
        let client = server.client(Offer::of(&["dot"]).only(&version));
        let mut stream = client.connect(server.address("tls")).unwrap();
        assert_answers(&mut stream, "before");
        stream.conn.send_close_notify();
        stream.flush().unwrap();
        assert_eq!(
            read_end(&mut stream),
            ConnectionEnd::CloseNotify,
            "{version:?}"
        );
    }
}

/// Each direction of a connection ends separately (RFC 8446 section 6.1).
#[test]
fn s3_4_queries_before_close_notify_are_answered() {
    let server = serve_encrypted(&[]);
    let client = server.client(Offer::of(&["dot"]).only(&&TLS13));
    let mut stream = client.connect(server.address("tls")).unwrap();
    let questions = ["db.prod.global. A", "global. SOA"].map(query);
    let all: Vec<u8> = questions.iter().flat_map(Packet::framed).collect();
    stream.write_all(&all).unwrap();
    stream.conn.send_close_notify();
    stream.flush().unwrap();
    for question in &questions {
        assert_eq!(
            read_framed_or_end(&mut stream).unwrap()[..2],
            question.0[..2]
        );
    }
    assert_eq!(read_end(&mut stream), ConnectionEnd::CloseNotify);
}

#[test]
fn s3_4_server_sends_close_notify_before_it_closes() {
    let server = serve_encrypted(&[]);
    let mut response = query("global. SOA");
    response.0[2] |= 0x80;
    for (what, sent) in [
        ("a response", response.framed()),
        ("a length of zero", vec![0, 0]),
        ("a length above the maximum of a query", vec![0x10, 0x01]),
    ] {
        let mut stream = server.tls();
        stream.write_all(&sent).unwrap();
        stream.flush().unwrap();
        assert_eq!(read_end(&mut stream), ConnectionEnd::CloseNotify, "{what}");
    }
    server.assert_answers();
}

#[test]
fn s3_4_connection_without_close_notify_is_closed() {
    let server = serve_encrypted(&[]);
    for part in [&[][..], &[0], &query("global. SOA").framed()[..9]] {
        let mut stream = server.tls();
        stream.write_all(part).unwrap();
        // Without close_notify, an attacker could have truncated the stream.
        stream.sock.shutdown(Shutdown::Write).unwrap();
        assert!(read_framed_or_end(&mut stream).is_none());
    }
    server.assert_answers();
}

/// Section 3.4 with RFC 5077; RFC 8446 section 2.2.
#[test]
fn s3_4_sessions_can_be_resumed() {
    let server = serve_encrypted(&[]);
    for version in [&TLS12, &TLS13] {
        let client = server.client(Offer::of(&["dot"]).only(&version));
        for turn in 0..4 {
            let mut stream = client.connect(server.address("tls")).unwrap();
            let kind = stream.conn.handshake_kind().unwrap();
            let is_resumed = kind == HandshakeKind::Resumed;
            assert_eq!(is_resumed, turn > 0, "{version:?}, turn {turn}: {kind:?}");
            // In TLS 1.3, the tickets arrive with the first reply.
            assert_answers(&mut stream, &format!("{version:?}, turn {turn}"));
        }
    }
}
