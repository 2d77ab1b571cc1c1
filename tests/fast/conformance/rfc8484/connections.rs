//! HTTP versions, and several requests on one connection (RFC 8484 section 5.2; RFC 9112, RFC 9113).

use std::io::{BufRead as _, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use http::Method;
use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, HandshakeKind};
use support::https::{Http1, Http2, MEDIA_TYPE, PATH, get, post, request, with};
use support::query::query;
use support::tls::{ConnectionEnd, Offer, alert, read_end};
use support::wait::TIMEOUT;

use crate::conformance::cases::decode;
use crate::conformance::servers::serve_encrypted;

// === TLS ===

#[test]
fn s5_2_alpn_chooses_the_http_version() {
    let server = serve_encrypted(&[]);
    let address = server.address("https");
    for (offered, chosen) in [
        (&["h2"][..], Some(&b"h2"[..])),
        (&["http/1.1"], Some(b"http/1.1")),
        (&["h2", "http/1.1"], Some(b"h2")),
        (&["http/1.1", "h2"], Some(b"h2")), // RFC 8484 recommends HTTP/2
        (&["http/1.0", "http/1.1"], Some(b"http/1.1")),
        (&[], None),
    ] {
        let stream = server.client(Offer::of(offered)).connect(address).unwrap();
        assert_eq!(stream.conn.alpn_protocol(), chosen, "{offered:?}");
    }
}

/// RFC 7301 section 3.2.
#[test]
fn s5_2_other_alpn_protocols_are_refused_with_an_alert() {
    let server = serve_encrypted(&[]);
    for offered in [&["dot"][..], &["h3"], &["http/1.0"], &["spdy/3.1"]] {
        for version in [&TLS12, &TLS13] {
            let client = server.client(Offer::of(offered).only(&version));
            let error = client.connect(server.address("https")).map(|_| ());
            let received = alert(&error.unwrap_err());
            assert_eq!(received, Some(AlertDescription::NoApplicationProtocol));
        }
    }
}

#[test]
fn s5_2_client_without_alpn_may_use_either_http_version() {
    let server = serve_encrypted(&[]);
    let client = server.client(Offer::of(&[]));
    let question = query("global. SOA");
    let mut first = Http1::connect(&client, server.address("https")).unwrap();
    first.send(&post(PATH), &question.0).unwrap().message();
    // The connection preface identifies HTTP/2 (prior knowledge, RFC 9113 section 3.3).
    let mut second = Http2::connect(&client, server.address("https")).unwrap();
    second.send(&post(PATH), &question.0).unwrap().message();
}

#[test]
fn s5_2_tls_1_2_and_1_3_are_accepted_and_sessions_resumed() {
    let server = serve_encrypted(&[]);
    let question = query("global. SOA");
    for version in [&TLS12, &TLS13] {
        let client = server.client(Offer::of(&["http/1.1"]).only(&version));
        for turn in 0..3 {
            let stream = client.connect(server.address("https")).unwrap();
            let is_resumed = stream.conn.handshake_kind() == Some(HandshakeKind::Resumed);
            assert_eq!(is_resumed, turn > 0, "{version:?}, turn {turn}");
            let mut connection = Http1::from_stream(stream);
            connection.send(&post(PATH), &question.0).unwrap().message();
        }
        let client = server.client(Offer::of(&["h2"]).only(&version));
        let mut connection = Http2::connect(&client, server.address("https")).unwrap();
        connection.send(&post(PATH), &question.0).unwrap().message();
    }
}

/// Section 5: DNS over HTTPS requires TLS.
#[test]
fn s5_cleartext_is_not_answered() {
    let server = serve_encrypted(&[]);
    let question = query("global. SOA");
    let by_get = Http1::text(&get(PATH, &question.0), &[]);
    let by_post = Http1::text(&post(PATH), &question.0);
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    for sent in [by_get, by_post, preface] {
        let mut stream = TcpStream::connect(server.address("https")).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let _ = stream.write_all(&sent);
        let _ = stream.shutdown(Shutdown::Write);
        let mut octets = Vec::new();
        let ended = stream
            .read_to_end(&mut octets)
            .map_err(|error| error.kind());
        assert!(matches!(ended, Ok(_) | Err(ErrorKind::ConnectionReset)));
        // At most a TLS alert record.
        assert!(matches!(octets[..], [] | [21, 3, ..]), "{octets:?}");
    }
    server.assert_answers();
}

// === HTTP/2 ===

#[test]
fn s5_2_one_connection_serves_many_streams() {
    let server = serve_encrypted(&[]);
    let mut connection = server.http2();
    let texts = [
        "db.prod.global. A",
        "nope.global. A",
        "db.prod.global. SRV",
        "www.example. A",
    ];
    let questions: Vec<_> = (0..300).map(|n| query(texts[n % texts.len()])).collect();
    let requests: Vec<_> = questions
        .iter()
        .enumerate()
        .map(|(n, question)| match n % 2 {
            0 => (post(PATH), question.0.clone()),
            _ => (get(PATH, &question.0), Vec::new()),
        })
        .collect();
    let responses = connection.send_all(&requests);
    for (response, question) in responses.into_iter().zip(&questions) {
        let reply = response.unwrap().message();
        assert_eq!(reply[..2], question.0[..2]);
        decode(&reply);
    }
}

/// RFC 9113 section 5.1.2 recommends a limit of at least 100.
#[test]
fn s5_2_100_streams_may_be_open_at_once() {
    let server = serve_encrypted(&[]);
    let mut connection = server.http2();
    connection
        .send(&post(PATH), &query("global. SOA").0)
        .unwrap();
    assert_eq!(connection.max_streams(), 100);
    // All 100 requests are open before the first body is sent.
    let question = query("global. SOA").0;
    let begin = |_| connection.begin(&post(PATH)).unwrap();
    let mut uploads: Vec<_> = (0..100).map(begin).collect();
    for upload in &mut uploads {
        connection.send_part(upload, &question, true).unwrap();
    }
    for upload in uploads {
        connection.end(upload).unwrap().message();
    }
}

/// RFC 9113 section 8.1.1: a malformed request is a stream error.
#[test]
fn s5_2_malformed_request_ends_only_its_stream() {
    let server = serve_encrypted(&[]);
    let mut connection = server.http2();
    let question = query("global. SOA").0;
    let upload = connection.begin(&with(post(PATH), "content-length", "5"));
    let mut upload = upload.unwrap();
    connection.send_part(&mut upload, &question, true).unwrap();
    match connection.end(upload) {
        Ok(response) => assert_eq!(response.status, 400, "{response:?}"),
        Err(error) => assert_eq!(error.reason(), Some(h2::Reason::PROTOCOL_ERROR)),
    }
    connection.send(&post(PATH), &question).unwrap().message();
}

// === HTTP/1.1 ===

/// RFC 9112 section 9.3.
#[test]
fn s5_2_http_1_1_connection_serves_several_requests() {
    let server = serve_encrypted(&[]);
    let mut connection = server.http1();
    for text in [
        "db.prod.global. A",
        "nope.global. A",
        "global. SOA +edns",
        "www.example. A",
    ] {
        let question = query(text);
        for (request, body) in [(post(PATH), &question.0[..]), (get(PATH, &question.0), &[])] {
            let reply = connection.send(&request, body).unwrap().message();
            assert_eq!(reply[..2], question.0[..2], "{text}");
        }
        let options = connection.send(&request("OPTIONS", PATH), &[]);
        assert_eq!(options.unwrap().status, 204);
        let mut head = get(PATH, &question.0);
        *head.method_mut() = Method::HEAD;
        assert_eq!(connection.send(&head, &[]).unwrap().status, 200);
    }
}

/// RFC 9112 section 9.3.2: responses have the order of the requests.
#[test]
fn s5_2_pipelined_http_1_1_requests_are_answered_in_order() {
    let server = serve_encrypted(&[]);
    let mut connection = server.http1();
    let texts = [
        "db.prod.global. A",
        "nope.global. A",
        "db.prod.global. SRV",
        "www.example. A",
    ];
    let questions: Vec<_> = (0..100).map(|n| query(texts[n % texts.len()])).collect();
    let mut all = Vec::new();
    for (n, question) in questions.iter().enumerate() {
        all.extend(match n % 2 {
            0 => Http1::text(&post(PATH), &question.0),
            _ => Http1::text(&get(PATH, &question.0), &[]),
        });
    }
    connection.write(&all).unwrap();
    for question in &questions {
        let reply = connection.receive(&Method::GET).unwrap().message();
        assert_eq!(reply[..2], question.0[..2]);
    }
}

/// RFC 9112 section 9.6.
#[test]
fn s5_2_connection_close_ends_the_connection() {
    let server = serve_encrypted(&[]);
    let mut connection = server.http1();
    let question = query("global. SOA").0;
    let last = with(post(PATH), "connection", "close");
    connection.send(&last, &question).unwrap().message();
    assert_eq!(connection.0.buffer(), b"");
    assert_eq!(read_end(connection.0.get_mut()), ConnectionEnd::CloseNotify);
}

/// RFC 9112 section 7.1.
#[test]
fn s5_2_chunked_body_is_accepted() {
    let server = serve_encrypted(&[]);
    let question = query("global. SOA").0;
    let head = format!(
        "POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {MEDIA_TYPE}\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    for size in [1, 7, question.len()] {
        let mut connection = server.http1();
        connection.write(head.as_bytes()).unwrap();
        for chunk in question.chunks(size) {
            let length = format!("{:x}\r\n", chunk.len());
            let chunk = [length.as_bytes(), chunk, b"\r\n"].concat();
            connection.write(&chunk).unwrap();
        }
        connection.write(b"0\r\n\r\n").unwrap();
        connection.receive(&Method::POST).unwrap().message();
        connection.send(&post(PATH), &question).unwrap().message();
    }
    // The size limit of a query also applies to a chunked body.
    let mut connection = server.http1();
    connection.write(head.as_bytes()).unwrap();
    for _ in 0..5 {
        let chunk = [&b"400\r\n"[..], &[0; 0x400], b"\r\n"].concat();
        connection.write(&chunk).unwrap();
    }
    assert_eq!(connection.receive(&Method::POST).unwrap().status, 413);
    server.assert_answers();
}

/// RFC 9110 section 10.1.1.
#[test]
fn s5_2_expect_100_continue_is_answered() {
    let server = serve_encrypted(&[]);
    let mut connection = server.http1();
    let question = query("global. SOA").0;
    let request = with(post(PATH), "expect", "100-continue");
    let text = Http1::text(&request, &question);
    let (head, body) = text.split_at(text.len() - question.len());
    connection.write(head).unwrap();
    assert_eq!(connection.receive_head().unwrap().0, 100);
    connection.write(body).unwrap();
    connection.receive(&Method::POST).unwrap().message();
}

#[test]
fn s5_2_request_may_arrive_octet_by_octet() {
    let server = serve_encrypted(&[]);
    let mut connection = server.http1();
    let question = query("global. SOA").0;
    for octet in Http1::text(&post(PATH), &question) {
        connection.write(&[octet]).unwrap();
    }
    connection.receive(&Method::POST).unwrap().message();
}

/// RFC 9112 sections 2.2 and 6.3: an ambiguous request is rejected.
#[test]
fn s5_2_invalid_http_1_1_request_gets_400() {
    let server = serve_encrypted(&[]);
    let head = format!("POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {MEDIA_TYPE}\r\n");
    for bad in [
        "hello\r\n\r\n".to_owned(),
        "GET\r\n\r\n".to_owned(),
        format!("GET {PATH} HTTP/3.7\r\nhost: localhost\r\n\r\n"),
        format!("{head}content-length: x\r\n\r\n"),
        format!("{head}content-length: 5\r\ncontent-length: 6\r\n\r\n12345"),
        format!("{head}content-length: -1\r\n\r\n"),
        format!("{head}a b: c\r\n\r\n"),
        format!("{head}transfer-encoding: chunked\r\n\r\nxyz\r\n"),
    ] {
        let mut connection = server.http1();
        // The server may close the connection before it has read everything.
        let _ = connection.write(bad.as_bytes());
        let status = connection.receive_head().map(|(status, _)| status);
        assert!(
            matches!(status, Ok(400 | 505) | Err(_)),
            "{bad:?}: {status:?}"
        );
    }
    server.assert_answers();
}

/// RFC 9112 section 3.2.
#[test]
fn s5_2_http_1_1_request_without_one_valid_host_gets_400() {
    let server = serve_encrypted(&[]);
    let target = get(PATH, &query("global. SOA").0);
    let target = target.uri().path_and_query().unwrap().as_str();
    for (version, hosts, status) in [
        ("1.1", &["localhost"][..], 200),
        ("1.1", &[""], 200),
        ("1.1", &["[2001:db8::1]:443"], 200),
        ("1.1", &[], 400),
        ("1.1", &["localhost", "localhost"], 400),
        ("1.1", &["localhost", "other"], 400),
        ("1.1", &["a b"], 400),
        ("1.1", &["a/b"], 400),
        ("1.1", &["user@localhost"], 400),
        ("1.1", &["localhost:port"], 400),
        ("1.0", &[], 200),
        ("1.0", &["localhost", "localhost"], 400),
    ] {
        let hosts: String = hosts
            .iter()
            .map(|host| format!("host: {host}\r\n"))
            .collect();
        let mut connection = server.http1();
        let head = format!("GET {target} HTTP/{version}\r\n{hosts}\r\n");
        connection.write(head.as_bytes()).unwrap();
        let mut line = String::new();
        connection.0.read_line(&mut line).unwrap();
        let received = line.split(' ').nth(1).map(str::to_owned);
        assert_eq!(received, Some(status.to_string()), "{head:?}: {line:?}");
    }
}

/// RFC 9112 sections 6.1 and 7: an intermediary may read the body otherwise, so the connection ends.
#[test]
fn s5_2_other_transfer_codings_than_chunked_get_501() {
    let server = serve_encrypted(&[]);
    let question = query("global. SOA").0;
    let chunked = [
        format!("{:x}\r\n", question.len()).as_bytes(),
        &question,
        b"\r\n0\r\n\r\n",
    ]
    .concat();
    for codings in [
        "transfer-encoding: gzip, chunked\r\n",
        "transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked, chunked\r\n",
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
    ] {
        let head = format!(
            "POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {MEDIA_TYPE}\r\n{codings}\r\n"
        );
        let mut connection = server.http1();
        connection.write(head.as_bytes()).unwrap();
        connection.write(&chunked).unwrap();
        let response = connection.receive(&Method::POST).unwrap();
        assert_eq!(response.status, 501, "{codings:?}");
        assert_eq!(response.header("connection"), Some("close"), "{codings:?}");
        assert_eq!(read_end(connection.0.get_mut()), ConnectionEnd::CloseNotify);
    }
}

#[test]
fn s5_2_idle_connection_outlives_the_reuse_time_of_clients() {
    const REUSE: Duration = Duration::from_secs(11);
    let server = serve_encrypted(&[]);
    let question = query("global. SOA").0;
    let (mut first, mut second) = (server.http1(), server.http2());
    let deadline = Instant::now() + REUSE;
    first.send(&post(PATH), &question).unwrap().message();
    second.send(&post(PATH), &question).unwrap().message();
    let rest = deadline.saturating_duration_since(Instant::now());
    let socket = &first.0.get_ref().sock;
    socket.set_read_timeout(Some(rest)).unwrap();
    let result = first.0.fill_buf().map(<[u8]>::len);
    let result = result.map_err(|error| error.kind());
    assert!(
        matches!(result, Err(ErrorKind::WouldBlock | ErrorKind::TimedOut)),
        "{result:?}"
    );
    let socket = &first.0.get_ref().sock;
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    first.send(&post(PATH), &question).unwrap().message();
    second.send(&post(PATH), &question).unwrap().message();
}
