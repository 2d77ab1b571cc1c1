//! Requests that are none of DNS: status codes of HTTP, with a sentence for people (RFC 8484 section 4.2.1, RFC 9110
//! section 15).

use http::{Method, Request};
use support::encrypted::Encrypted;
use support::https::{
    Http1, MEDIA_TYPE, PATH, Response, base64url, get, post, request, with, without,
};
use support::query::query;

use super::ask;
use crate::cases::decode;
use crate::servers::encrypted;

/// The longest query that is taken, and one more.
const LONGEST: usize = 4096;

/// Fails unless a response is this refusal: a code, with a sentence.
fn assert_refused(response: &Response, status: u16, what: &str) {
    assert_eq!(response.status, status, "{what}: {response:?}");
    let kind = response.header("content-type").unwrap_or_default();
    assert!(kind.starts_with("text/plain"), "{what}: {response:?}");
    let text = std::str::from_utf8(&response.body).unwrap();
    assert!(text.trim().contains(' '), "{what}: no sentence: {text:?}");
}

/// A message of this length; what is behind its question does not matter.
fn long(octets: usize) -> Vec<u8> {
    let mut message = query("global. SOA").0;
    message.resize(octets, 0);
    message
}

fn get_of(target: &str) -> Request<()> {
    request("GET", &format!("{PATH}{target}"))
}

#[test]
fn s4_1_a_get_without_a_message_is_a_bad_request() {
    let server = encrypted(&[]);
    let dns = base64url(&query("global. SOA").0);
    let standard = {
        // '+' and '/' instead of '-' and '_' (RFC 4648 section 4), where there are any.
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
        // No number of octets has one digit more than a multiple of four.
        "?dns=AAAAA".to_owned(),
    ] {
        let response = ask(&server, &get_of(&target), &[]);
        assert_refused(&response, 400, &target);
    }
    server.assert_well();
}

/// Section 6: padding characters are not to be there.
#[test]
fn s6_padding_of_base64url_is_a_bad_request() {
    let server = encrypted(&[]);
    let message = query("global. SOA").0;
    for length in 0..3 {
        let message = [&message[..], &vec![0; length]].concat();
        let padding = "=".repeat((3 - message.len() % 3) % 3);
        let target = format!("?dns={}{padding}", base64url(&message));
        let response = ask(&server, &get_of(&target), &[]);
        match padding.as_str() {
            "" => drop(response.message()),
            _ => assert_refused(&response, 400, &target),
        }
    }
}

#[test]
fn s4_2_1_a_message_that_is_never_answered_is_a_bad_request() {
    let server = encrypted(&[]);
    let mut response = query("global. SOA").0;
    response[2] |= 0x80;
    for (what, message) in [
        ("a response", &response[..]),
        ("half a header", &[0x12, 0x34, 1, 0][..]),
        ("one octet less than a header", &[0; 11]),
    ] {
        let by_post = ask(&server, &post(PATH), message);
        assert_refused(&by_post, 400, what);
        let by_get = ask(&server, &get(PATH, message), &[]);
        assert_refused(&by_get, 400, what);
    }
    assert_refused(&ask(&server, &post(PATH), &[]), 400, "an empty body");
}

#[test]
fn s4_1_another_path_is_not_found() {
    let server = encrypted(&[]);
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
        assert_refused(&ask(&server, &post(path), &question), 404, path);
        assert_refused(&ask(&server, &get(path, &question), &[]), 404, path);
        // What is not there has no methods either.
        assert_refused(&ask(&server, &request("PUT", path), &[]), 404, path);
    }
}

/// RFC 9110 section 15.5.6: with the methods that there are.
#[test]
fn s4_1_another_method_is_not_allowed() {
    let server = encrypted(&[]);
    let question = query("global. SOA").0;
    for method in [
        "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND", "get", "QUERY",
    ] {
        for body in [&[][..], &question] {
            let request = with(request(method, PATH), "content-type", MEDIA_TYPE);
            let response = ask(&server, &request, body);
            assert_refused(&response, 405, method);
            assert_eq!(response.header("allow"), Some("GET, HEAD, POST, OPTIONS"));
        }
    }
}

#[test]
fn s4_1_another_media_type_is_not_supported() {
    let server = encrypted(&[]);
    let question = query("global. SOA").0;
    let none = without(post(PATH), "content-type");
    assert_refused(&ask(&server, &none, &question), 415, "no type");
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
        assert_refused(&ask(&server, &request, &question), 415, kind);
    }
    // A GET has no content that could have a type.
    let by_get = with(get(PATH, &question), "content-type", "text/plain");
    ask(&server, &by_get, &[]).message();
}

#[test]
fn s4_1_a_body_longer_than_any_query_is_too_large() {
    let server = encrypted(&[]);
    let taken = ask(&server, &post(PATH), &long(LONGEST)).message();
    assert_eq!(decode(&taken).answers.len(), 1);
    for length in [LONGEST + 1, 8_000] {
        let response = ask(&server, &post(PATH), &long(length));
        assert_refused(&response, 413, &length.to_string());
    }
    // A client of HTTP/1.1 that goes on sending may find the connection closed before it has read why.
    for length in [65_535, 65_536, 200_000] {
        let response = server.http2().send(&post(PATH), &long(length));
        assert_refused(&response.unwrap(), 413, &length.to_string());
    }
    server.assert_well();
}

#[test]
fn s4_1_a_body_that_is_announced_too_large_is_not_waited_for() {
    let server = encrypted(&[]);
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
    server.assert_well();
}

#[test]
fn s4_1_a_message_in_a_get_that_is_longer_than_any_query_is_too_long() {
    let server = encrypted(&[]);
    let taken = ask(&server, &get(PATH, &long(LONGEST)), &[]).message();
    assert_eq!(decode(&taken).answers.len(), 1);
    for length in [LONGEST + 1, 5_000, 8_000] {
        let response = ask(&server, &get(PATH, &long(length)), &[]);
        assert_refused(&response, 414, &length.to_string());
    }
    server.assert_well();
}

/// RFC 9110 section 15.5.9. A client that takes its time keeps a place from others.
#[test]
fn s4_1_a_body_that_does_not_come_times_out() {
    let server = encrypted(&[]);
    let question = query("global. SOA").0;
    let (begun, rest) = question.split_at(7);
    let mut first = server.http1();
    let text = Http1::text(&post(PATH), &question);
    first.write(&text[..text.len() - rest.len()]).unwrap();
    let mut second = server.http2();
    let mut upload = second.begin(&post(PATH)).unwrap();
    second.send_part(&mut upload, begun, false).unwrap();
    // Another stream of that connection does not wait for it.
    second.send(&post(PATH), &question).unwrap().message();

    let response = second.end(upload).unwrap();
    assert_refused(&response, 408, "HTTP/2");
    second.send(&post(PATH), &question).unwrap().message();
    let response = first.receive(&Method::POST).unwrap();
    assert_refused(&response, 408, "HTTP/1.1");
}

/// A HEAD is refused like the GET, without the sentence.
#[test]
fn s4_1_a_bad_head_has_no_body() {
    let server = encrypted(&[]);
    let question = query("global. SOA").0;
    for (target, status) in [
        (PATH.to_owned(), 400),
        (format!("{PATH}?dns=="), 400),
        (format!("/nope?dns={}", base64url(&question)), 404),
        (format!("{PATH}?dns={}", base64url(&long(LONGEST + 1))), 414),
    ] {
        let response = ask(&server, &request("HEAD", &target), &[]);
        assert_eq!((response.status, response.body.len()), (status, 0));
    }
}

/// What one request gets wrong does not end the connection for the others.
#[test]
fn s4_2_1_a_refusal_does_not_end_the_connection() {
    let server: Encrypted = encrypted(&[]);
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
        (get_of("?dns=!"), &[], 400),
    ] {
        assert_eq!(first.send(&request, body).unwrap().status, status);
        assert_eq!(second.send(&request, body).unwrap().status, status);
        first.send(&post(PATH), &question).unwrap().message();
        second.send(&post(PATH), &question).unwrap().message();
    }
}
