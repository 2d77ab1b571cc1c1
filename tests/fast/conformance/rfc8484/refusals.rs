//! Invalid HTTP requests: they get an HTTP error status and an explanation as text (RFC 8484 section 4.2.1, RFC 9110
//! section 15).

use http::{Method, Request};
use support::encrypted::EncryptedServer;
use support::https::{
    Http1, MEDIA_TYPE, PATH, Response, base64url, get, post, request, with, without,
};
use support::query::query;

use super::send;
use crate::conformance::cases::decode;
use crate::conformance::servers::serve_encrypted;

/// The maximum length of a query in octets.
const LONGEST: usize = 4096;

/// Asserts that a response has this status and an explanation.
fn assert_refused(response: &Response, status: u16, what: &str) {
    assert_eq!(response.status, status, "{what}: {response:?}");
    let kind = response.header("content-type").unwrap_or_default();
    assert!(kind.starts_with("text/plain"), "{what}: {response:?}");
    let text = std::str::from_utf8(&response.body).unwrap();
    assert!(
        text.trim().contains(' '),
        "{what}: no explanation: {text:?}"
    );
}

/// Builds a query of this length. The octets after the question are ignored.
fn query_of_length(octets: usize) -> Vec<u8> {
    let mut message = query("global. SOA").0;
    message.resize(octets, 0);
    message
}

fn get_with(target: &str) -> Request<()> {
    request("GET", &format!("{PATH}{target}"))
}

#[test]
fn s4_1_get_without_a_valid_message_gets_400() {
    let server = serve_encrypted(&[]);
    let dns = base64url(&query("global. SOA").0);
    let standard = {
        // Standard Base64 has '+' and '/' instead of '-' and '_' (RFC 4648 section 4).
        let mut message = query("global. SOA").0;
        message.extend([0xfb, 0xff, 0xbf, 0xff, 0xfe]);
        base64url(&message).replace('-', "+").replace('_', "/")
    };
    assert!(standard.contains(['+', '/']));
    for target in [
        String::new(),
        "?".to_owned(),
        "?dns".to_owned(),
        "?dns=".to_owned(),
        "?x=y".to_owned(),
        format!("?DNS={dns}"),
        format!("?dns={dns}&dns={dns}"),
        format!("?dns={dns}&dns="),
        format!("?dns={standard}"),
        format!("?dns={dns}%"),
        format!("?dns={dns}!"),
        format!("?dns=*{dns}"),
        // No Base64 text has a length of one more than a multiple of four.
        "?dns=AAAAA".to_owned(),
    ] {
        let response = send(&server, &get_with(&target), &[]);
        assert_refused(&response, 400, &target);
    }
    server.assert_answers();
}

/// Section 6: padding characters are not allowed.
#[test]
fn s6_base64url_padding_gets_400() {
    let server = serve_encrypted(&[]);
    let message = query("global. SOA").0;
    for length in 0..3 {
        let message = [&message[..], &vec![0; length]].concat();
        let padding = "=".repeat((3 - message.len() % 3) % 3);
        let target = format!("?dns={}{padding}", base64url(&message));
        let response = send(&server, &get_with(&target), &[]);
        match padding.as_str() {
            "" => drop(response.message()),
            _ => assert_refused(&response, 400, &target),
        }
    }
}

#[test]
fn s4_2_1_message_that_is_not_a_query_gets_400() {
    let server = serve_encrypted(&[]);
    let mut response = query("global. SOA").0;
    response[2] |= 0x80;
    for (what, message) in [
        ("a response", &response[..]),
        ("an incomplete header", &[0x12, 0x34, 1, 0][..]),
        ("a header without its last octet", &[0; 11]),
    ] {
        let by_post = send(&server, &post(PATH), message);
        assert_refused(&by_post, 400, what);
        let by_get = send(&server, &get(PATH, message), &[]);
        assert_refused(&by_get, 400, what);
    }
    assert_refused(&send(&server, &post(PATH), &[]), 400, "an empty body");
}

#[test]
fn s4_1_other_paths_get_404() {
    let server = serve_encrypted(&[]);
    let question = query("global. SOA").0;
    for path in [
        "/",
        "/dns-query/",
        "/DNS-QUERY",
        "/dns-query/x",
        "/dns-queryx",
        "/resolve",
        "//dns-query",
    ] {
        assert_refused(&send(&server, &post(path), &question), 404, path);
        assert_refused(&send(&server, &get(path, &question), &[]), 404, path);
        // An unknown path is checked before the method.
        assert_refused(&send(&server, &request("PUT", path), &[]), 404, path);
    }
}

/// RFC 9110 section 15.5.6: the response lists the allowed methods.
#[test]
fn s4_1_other_methods_get_405() {
    let server = serve_encrypted(&[]);
    let question = query("global. SOA").0;
    for method in [
        "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND", "get", "QUERY",
    ] {
        for body in [&[][..], &question] {
            let request = with(request(method, PATH), "content-type", MEDIA_TYPE);
            let response = send(&server, &request, body);
            assert_refused(&response, 405, method);
            assert_eq!(response.header("allow"), Some("GET, HEAD, POST, OPTIONS"));
        }
    }
}

#[test]
fn s4_1_other_media_types_get_415() {
    let server = serve_encrypted(&[]);
    let question = query("global. SOA").0;
    let none = without(post(PATH), "content-type");
    assert_refused(&send(&server, &none, &question), 415, "no media type");
    for kind in [
        "text/plain",
        "application/dns-json",
        "application/json",
        "application/dns-messages",
        "application/dns",
        "message/dns",
        "application/x-www-form-urlencoded",
        "",
    ] {
        let request = with(post(PATH), "content-type", kind);
        assert_refused(&send(&server, &request, &question), 415, kind);
    }
    // A GET request has no body, so its media type is ignored.
    let by_get = with(get(PATH, &question), "content-type", "text/plain");
    send(&server, &by_get, &[]).message();
}

#[test]
fn s4_1_body_above_4096_octets_gets_413() {
    let server = serve_encrypted(&[]);
    let accepted = send(&server, &post(PATH), &query_of_length(LONGEST)).message();
    assert_eq!(decode(&accepted).answers.len(), 1);
    for length in [LONGEST + 1, 8_000] {
        let response = send(&server, &post(PATH), &query_of_length(length));
        assert_refused(&response, 413, &length.to_string());
    }
    // Over HTTP/1.1, these clients send everything before they read.
    for length in [65_535, 65_536, 200_000, 900_000] {
        for (path, status) in [(PATH, 413), ("/nope", 404)] {
            let message = query_of_length(length);
            let response = server.http2().send(&post(path), &message);
            assert_refused(&response.unwrap(), status, &length.to_string());
            let response = server.http1().send(&post(path), &message);
            assert_refused(&response.unwrap(), status, &length.to_string());
        }
    }
    server.assert_answers();
}

#[test]
fn s4_1_content_length_above_4096_gets_413_without_the_body() {
    let server = serve_encrypted(&[]);
    for length in ["4097", "1000000000", "9223372036854775807"] {
        let request = with(post(PATH), "content-length", length);
        let mut connection = server.http1();
        let head = format!(
            "POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {length}\r\n\r\n"
        );
        connection.write(head.as_bytes()).unwrap();
        let response = connection.receive(&Method::POST).unwrap();
        assert_refused(&response, 413, length);
        let mut connection = server.http2();
        let upload = connection.begin(&request).unwrap();
        let response = connection.end(upload).unwrap();
        assert_refused(&response, 413, length);
    }
    server.assert_answers();
}

#[test]
fn s4_1_get_with_a_message_above_4096_octets_gets_414() {
    let server = serve_encrypted(&[]);
    let accepted = send(&server, &get(PATH, &query_of_length(LONGEST)), &[]).message();
    assert_eq!(decode(&accepted).answers.len(), 1);
    for length in [LONGEST + 1, 5_000, 8_000] {
        let response = send(&server, &get(PATH, &query_of_length(length)), &[]);
        assert_refused(&response, 414, &length.to_string());
    }
    server.assert_answers();
}

/// RFC 9110 section 15.5.9. A slow client occupies a slot that others need.
#[test]
fn s4_1_incomplete_body_gets_408() {
    let server = serve_encrypted(&[]);
    let question = query("global. SOA").0;
    let (begun, rest) = question.split_at(7);
    let mut first = server.http1();
    let text = Http1::text(&post(PATH), &question);
    first.write(&text[..text.len() - rest.len()]).unwrap();
    let mut second = server.http2();
    let mut upload = second.begin(&post(PATH)).unwrap();
    second.send_part(&mut upload, begun, false).unwrap();
    // The slow stream does not block other streams of its connection.
    second.send(&post(PATH), &question).unwrap().message();

    let response = second.end(upload).unwrap();
    assert_refused(&response, 408, "HTTP/2");
    second.send(&post(PATH), &question).unwrap().message();
    let response = first.receive(&Method::POST).unwrap();
    assert_refused(&response, 408, "HTTP/1.1");
}

/// A HEAD request gets the status of the GET request, without the explanation.
#[test]
fn s4_1_invalid_head_request_gets_no_body() {
    let server = serve_encrypted(&[]);
    let question = query("global. SOA").0;
    for (target, status) in [
        (PATH.to_owned(), 400),
        (format!("{PATH}?dns=="), 400),
        (format!("/nope?dns={}", base64url(&question)), 404),
        (
            format!("{PATH}?dns={}", base64url(&query_of_length(LONGEST + 1))),
            414,
        ),
    ] {
        let response = send(&server, &request("HEAD", &target), &[]);
        assert_eq!((response.status, response.body.len()), (status, 0));
    }
}

#[test]
fn s4_2_1_connection_stays_open_after_an_error_status() {
    let server: EncryptedServer = serve_encrypted(&[]);
    let question = query("global. SOA").0;
    let (mut first, mut second) = (server.http1(), server.http2());
    for (request, body, status) in [
        (post("/nope"), &question[..], 404),
        (request("PUT", PATH), &[], 405),
        (
            with(post(PATH), "content-type", "text/plain"),
            &question,
            415,
        ),
        (post(PATH), &question[..5], 400),
        (get_with("?dns=!"), &[], 400),
    ] {
        assert_eq!(first.send(&request, body).unwrap().status, status);
        assert_eq!(second.send(&request, body).unwrap().status, status);
        first.send(&post(PATH), &question).unwrap().message();
        second.send(&post(PATH), &question).unwrap().message();
    }
}
