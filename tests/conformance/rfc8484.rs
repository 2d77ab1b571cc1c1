//! RFC 8484: DNS over HTTPS; with what RFC 9110 says of methods and status codes.

mod caching;
mod connections;
mod refusals;

use std::net::TcpListener;

use http::Request;
use support::encrypted::Encrypted;
use support::https::{MEDIA_TYPE, PATH, Response, base64url, get, post, request, with, without};
use support::objects::members;
use support::query::query;
use support::wire::Over;

use crate::cases::decode;
use crate::servers::{encrypted, encrypted_nothing_yet, encrypted_objects};

/// Headers that do not depend on the version of HTTP.
const HEADERS: [&str; 4] = ["content-type", "cache-control", "allow", "content-length"];

/// Sends a request by HTTP/1.1 and by HTTP/2, each over a connection of its own. Fails if the responses differ.
fn ask(server: &Encrypted, request: &Request<()>, body: &[u8]) -> Response {
    let first = server.http1().send(request, body).unwrap();
    let second = server.http2().send(request, body).unwrap();
    let seen = |response: &Response| {
        // Where there is no body, only HTTP/1.1 has to say so.
        let value = |name| response.header(name).filter(|value| *value != "0");
        let headers = HEADERS.map(|name| value(name).map(str::to_owned));
        (response.status, headers, response.body.clone())
    };
    assert_eq!(seen(&first), seen(&second), "{request:?}");
    second
}

/// Questions of every kind, with the codes that they get.
const QUESTIONS: [(&str, u16); 9] = [
    ("db.prod.global. A", 0),
    ("db.prod.global. SRV +edns", 0),
    ("db.prod.global. TXT", 0),
    ("nope.global. A +edns", 3),
    ("www.example. A", 5),
    ("global. AXFR", 5),
    ("global. SOA +opcode=2", 4),
    ("global. SOA +edns=1", 16),
    ("global. OPT", 4),
];

// === 4.1 The request ===

#[test]
fn s4_1_get_and_post_give_what_tcp_gives() {
    let server = encrypted(&["--order=stable"]);
    for (text, rcode) in QUESTIONS {
        let question = query(text);
        let tcp = server.server.send(&question, Over::Tcp).unwrap();
        let by_post = ask(&server, &post(PATH), &question.0).message();
        let by_get = ask(&server, &get(PATH, &question.0), &[]).message();
        assert_eq!(by_post, tcp, "{text} by POST");
        assert_eq!(by_get, tcp, "{text} by GET");
        assert_eq!(decode(&by_get).rcode, rcode, "{text}");
    }
}

#[test]
fn s4_1_the_identifier_comes_back_zero_or_not() {
    let server = encrypted(&[]);
    for id in [0, 1, 0x1234, u16::MAX] {
        let question = query("global. SOA").with_id(id);
        for request in [post(PATH), get(PATH, &question.0)] {
            let is_post = request.method() == http::Method::POST;
            let body = if is_post { &question.0[..] } else { &[] };
            let reply = ask(&server, &request, body).message();
            assert_eq!(reply[..2], id.to_be_bytes(), "{request:?}");
        }
    }
}

#[test]
fn s4_1_what_a_client_accepts_does_not_matter() {
    let server = encrypted(&[]);
    let question = query("global. SOA");
    for accept in [
        "*/*",
        "application/*",
        "text/html",
        "application/dns-json",
        "image/png;q=0.1",
    ] {
        ask(&server, &with(post(PATH), "accept", accept), &question.0).message();
        let by_get = with(get(PATH, &question.0), "accept", accept);
        ask(&server, &by_get, &[]).message();
    }
    ask(&server, &without(post(PATH), "accept"), &question.0).message();
    let by_get = without(get(PATH, &question.0), "accept");
    ask(&server, &by_get, &[]).message();
}

/// RFC 9110 section 8.3.1: types are the same in upper and lower case, and may have parameters.
#[test]
fn s4_1_a_media_type_may_have_parameters_and_capitals() {
    let server = encrypted(&[]);
    let question = query("global. SOA");
    for value in [
        "application/dns-message",
        "Application/DNS-Message",
        "APPLICATION/DNS-MESSAGE",
        "application/dns-message;charset=utf-8",
        "application/dns-message; charset=utf-8; q=\"a;b\"",
        "application/dns-message ; a=b",
    ] {
        let request = with(post(PATH), "content-type", value);
        ask(&server, &request, &question.0).message();
    }
}

#[test]
fn s4_1_the_query_string_may_hold_more() {
    let server = encrypted(&[]);
    let question = query("global. SOA");
    let dns = base64url(&question.0);
    for target in [
        format!("{PATH}?dns={dns}&x=y"),
        format!("{PATH}?x=y&dns={dns}"),
        format!("{PATH}?&dns={dns}&"),
        format!("{PATH}?edns=no&dns={dns}&dnssec"),
    ] {
        ask(&server, &request("GET", &target), &[]).message();
    }
    for target in ["?x=y", "?dns=not-looked-at", "?"] {
        ask(&server, &post(&format!("{PATH}{target}")), &question.0).message();
    }
}

/// Section 4.1: the path is what the operator says.
#[test]
fn s4_1_the_path_can_be_another() {
    let server = encrypted(&["--https-path=/a/b"]);
    let question = query("global. SOA");
    ask(&server, &post("/a/b"), &question.0).message();
    ask(&server, &get("/a/b", &question.0), &[]).message();
    assert_eq!(ask(&server, &post(PATH), &question.0).status, 404);
    assert_eq!(ask(&server, &get("/a/b/c", &question.0), &[]).status, 404);
}

/// RFC 9110 section 9.3.2: a HEAD has the headers of the GET.
#[test]
fn s4_1_head_is_get_without_the_body() {
    let server = encrypted(&["--order=stable"]);
    for (text, _) in QUESTIONS {
        let by_get = get(PATH, &query(text).0);
        let mut head = by_get.clone();
        *head.method_mut() = http::Method::HEAD;
        let (got, head) = (ask(&server, &by_get, &[]), ask(&server, &head, &[]));
        assert_eq!((head.status, head.body.len()), (200, 0), "{text}");
        for name in HEADERS {
            assert_eq!(head.header(name), got.header(name), "{text}: {name}");
        }
    }
}

/// RFC 9110 section 9.3.7.
#[test]
fn s4_1_options_names_the_methods() {
    let server = encrypted(&[]);
    let response = ask(&server, &request("OPTIONS", PATH), &[]);
    assert_eq!(response.status, 204);
    assert_eq!(response.header("allow"), Some("GET, HEAD, POST, OPTIONS"));
    assert!(response.body.is_empty());
}

/// RFC 9112 section 5: names of headers are the same in upper and lower case.
#[test]
fn s4_1_names_of_headers_may_have_capitals() {
    let server = encrypted(&[]);
    let question = query("global. SOA");
    for names in [
        ["Host", "Content-Type", "Content-Length"],
        ["HOST", "CONTENT-TYPE", "CONTENT-LENGTH"],
        ["hOsT", "cOnTeNt-tYpE", "cOnTeNt-lEnGtH"],
    ] {
        let [host, kind, length] = names;
        let octets = question.0.len();
        let head = format!(
            "POST {PATH} HTTP/1.1\r\n{host}: localhost\r\n{kind}:{MEDIA_TYPE}\r\n{length}:  {octets}\r\n\r\n"
        );
        let mut connection = server.http1();
        let sent = [head.as_bytes(), &question.0].concat();
        connection.write(&sent).unwrap();
        connection.receive(&http::Method::POST).unwrap().message();
    }
}

// === 4.2 The response ===

/// Section 4.2.1: the code of a DNS reply is none of HTTP's.
#[test]
fn s4_2_1_errors_of_dns_are_successes_of_http() {
    let server = encrypted(&[]);
    let malformed = [
        (
            "a pointer as a question",
            query("global. SOA").0[..12].to_vec(),
            vec![0xc0, 12, 0, 1, 0, 1],
        ),
        (
            "a question that is cut off",
            query("global. SOA").0[..12].to_vec(),
            vec![2, b'a'],
        ),
        (
            "a header alone",
            query("global. SOA").0[..12].to_vec(),
            vec![],
        ),
    ];
    for (what, header, rest) in malformed {
        let message = [header, rest].concat();
        for (request, body) in [(post(PATH), &message[..]), (get(PATH, &message), &[])] {
            let reply = ask(&server, &request, body).message();
            assert_eq!(decode(&reply).rcode, 1, "{what}");
            assert_eq!(reply[..2], message[..2], "{what}");
        }
    }
}

#[test]
fn s4_2_1_a_server_that_is_not_ready_says_so_in_dns() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = encrypted_nothing_yet(silent.local_addr().unwrap());
    let question = query("db.prod.global. A +edns");
    for (request, body) in [(post(PATH), &question.0[..]), (get(PATH, &question.0), &[])] {
        let response = ask(&server, &request, body);
        assert_eq!(response.header("cache-control"), Some("no-store"));
        let reply = decode(&response.message());
        assert_eq!(reply.rcode, 2);
        assert_eq!(reply.extended_error(), Some(14));
    }
}

#[test]
fn s4_2_1_a_client_that_may_not_ask_is_refused_in_dns() {
    let server = encrypted(&["--allow=192.0.2.0/24"]);
    let question = query("db.prod.global. A +edns");
    let response = ask(&server, &post(PATH), &question.0);
    assert_eq!(response.header("cache-control"), Some("no-store"));
    let reply = decode(&response.message());
    assert_eq!(reply.rcode, 5);
    assert_eq!(reply.extended_error(), Some(18));
}

/// Section 6: a message as it is, without a length before it, of up to 65,535 octets.
#[test]
fn s6_a_reply_may_be_as_long_as_over_tcp() {
    let server = encrypted_objects(members(&[3000]), &["--order=stable"]);
    for text in [
        "s3000.prod.global. A",
        "s3000.prod.global. SRV +bufsize=512",
    ] {
        let question = query(text);
        let tcp = server.server.send(&question, Over::Tcp).unwrap();
        assert!(tcp.len() > 40_000, "{text}");
        assert_eq!(ask(&server, &post(PATH), &question.0).message(), tcp);
        assert_eq!(ask(&server, &get(PATH, &question.0), &[]).message(), tcp);
    }
}

#[test]
fn s6_the_length_of_a_body_is_told() {
    let server = encrypted(&["--order=stable"]);
    let question = query("db.prod.global. SRV");
    let response = ask(&server, &post(PATH), &question.0);
    let length = response.body.len().to_string();
    assert_eq!(response.header("content-length"), Some(&*length));
}

/// RFC 9110 section 6.6.1, which is what an age is counted from.
#[test]
fn s5_1_responses_are_dated() {
    let server = encrypted(&[]);
    let question = query("db.prod.global. A");
    for response in [
        server.http1().send(&post(PATH), &question.0).unwrap(),
        server.http2().send(&get(PATH, &question.0), &[]).unwrap(),
        server
            .http2()
            .send(&get("/nope", &question.0), &[])
            .unwrap(),
    ] {
        let date = response.header("date").expect("a date");
        assert!(date.ends_with(" GMT"), "{date}");
    }
}
