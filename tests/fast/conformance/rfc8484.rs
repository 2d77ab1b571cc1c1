//! RFC 8484: DNS over HTTPS; with RFC 9110 (methods and status codes).

mod caching;
mod connections;
mod refusals;

use std::net::TcpListener;

use http::Request;
use support::encrypted::EncryptedServer;
use support::https::{MEDIA_TYPE, PATH, Response, base64url, get, post, request, with, without};
use support::objects::members;
use support::query::query;
use support::wire::Transport;

use crate::conformance::cases::decode;
use crate::conformance::servers::{
    serve_encrypted, serve_encrypted_objects, serve_encrypted_without_table,
};

/// Headers that do not depend on the version of HTTP.
const HEADERS: [&str; 4] = ["content-type", "cache-control", "allow", "content-length"];

/// Sends a request over HTTP/1.1 and HTTP/2, each on a separate connection. Fails if the responses differ.
fn send(server: &EncryptedServer, request: &Request<()>, body: &[u8]) -> Response {
    let first = server.http1().send(request, body).unwrap();
    let second = server.http2().send(request, body).unwrap();
    let content = |response: &Response| {
        // If there is no body, only HTTP/1.1 needs `content-length: 0`.
        let value = |name| response.header(name).filter(|value| *value != "0");
        let headers = HEADERS.map(|name| value(name).map(str::to_owned));
        (response.status, headers, response.body.clone())
    };
    assert_eq!(content(&first), content(&second), "{request:?}");
    second
}

/// Queries of every kind, with the expected response codes.
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
fn s4_1_get_and_post_return_the_reply_of_tcp() {
    let server = serve_encrypted(&["--order=stable"]);
    for (text, rcode) in QUESTIONS {
        let question = query(text);
        let tcp = server.server.send(&question, Transport::Tcp).unwrap();
        let by_post = send(&server, &post(PATH), &question.0).message();
        let by_get = send(&server, &get(PATH, &question.0), &[]).message();
        assert_eq!(by_post, tcp, "{text} by POST");
        assert_eq!(by_get, tcp, "{text} by GET");
        assert_eq!(decode(&by_get).rcode, rcode, "{text}");
    }
}

#[test]
fn s4_1_any_identifier_is_copied() {
    let server = serve_encrypted(&[]);
    for id in [0, 1, 0x1234, u16::MAX] {
        let question = query("global. SOA").with_id(id);
        for request in [post(PATH), get(PATH, &question.0)] {
            let is_post = request.method() == http::Method::POST;
            let body = if is_post { &question.0[..] } else { &[] };
            let reply = send(&server, &request, body).message();
            assert_eq!(reply[..2], id.to_be_bytes(), "{request:?}");
        }
    }
}

#[test]
fn s4_1_accept_header_is_ignored() {
    let server = serve_encrypted(&[]);
    let question = query("global. SOA");
    for accept in [
        "*/*",
        "application/*",
        "text/html",
        "application/dns-json",
        "image/png;q=0.1",
    ] {
        send(&server, &with(post(PATH), "accept", accept), &question.0).message();
        let by_get = with(get(PATH, &question.0), "accept", accept);
        send(&server, &by_get, &[]).message();
    }
    send(&server, &without(post(PATH), "accept"), &question.0).message();
    let by_get = without(get(PATH, &question.0), "accept");
    send(&server, &by_get, &[]).message();
}

/// RFC 9110 section 8.3.1: media types are case-insensitive, and may have parameters.
#[test]
fn s4_1_media_type_matches_in_any_case_and_with_parameters() {
    let server = serve_encrypted(&[]);
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
        send(&server, &request, &question.0).message();
    }
}

#[test]
fn s4_1_other_query_parameters_are_ignored() {
    let server = serve_encrypted(&[]);
    let question = query("global. SOA");
    let dns = base64url(&question.0);
    for target in [
        format!("{PATH}?dns={dns}&x=y"),
        format!("{PATH}?x=y&dns={dns}"),
        format!("{PATH}?&dns={dns}&"),
        format!("{PATH}?edns=no&dns={dns}&dnssec"),
    ] {
        send(&server, &request("GET", &target), &[]).message();
    }
    for target in ["?x=y", "?dns=ignored", "?"] {
        send(&server, &post(&format!("{PATH}{target}")), &question.0).message();
    }
}

/// Section 4.1: the operator chooses the path.
#[test]
fn s4_1_path_is_the_value_of_the_flag() {
    let server = serve_encrypted(&["--https-path=/a/b"]);
    let question = query("global. SOA");
    send(&server, &post("/a/b"), &question.0).message();
    send(&server, &get("/a/b", &question.0), &[]).message();
    assert_eq!(send(&server, &post(PATH), &question.0).status, 404);
    assert_eq!(send(&server, &get("/a/b/c", &question.0), &[]).status, 404);
}

/// RFC 9110 section 9.3.2: the response to HEAD has the headers of the response to GET.
#[test]
fn s4_1_head_returns_the_headers_of_get() {
    let server = serve_encrypted(&["--order=stable"]);
    for (text, _) in QUESTIONS {
        let by_get = get(PATH, &query(text).0);
        let mut head = by_get.clone();
        *head.method_mut() = http::Method::HEAD;
        let (got, head) = (send(&server, &by_get, &[]), send(&server, &head, &[]));
        assert_eq!((head.status, head.body.len()), (200, 0), "{text}");
        for name in HEADERS {
            assert_eq!(head.header(name), got.header(name), "{text}: {name}");
        }
    }
}

/// RFC 9110 section 9.3.7.
#[test]
fn s4_1_options_lists_the_methods() {
    let server = serve_encrypted(&[]);
    let response = send(&server, &request("OPTIONS", PATH), &[]);
    assert_eq!(response.status, 204);
    assert_eq!(response.header("allow"), Some("GET, HEAD, POST, OPTIONS"));
    assert!(response.body.is_empty());
}

/// RFC 9112 section 5: header names are case-insensitive.
#[test]
fn s4_1_header_names_match_in_any_case() {
    let server = serve_encrypted(&[]);
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

/// Section 4.2.1: a DNS response code does not change the HTTP status code.
#[test]
fn s4_2_1_dns_error_has_http_status_200() {
    let server = serve_encrypted(&[]);
    let malformed = [
        (
            "a pointer as a question",
            query("global. SOA").0[..12].to_vec(),
            vec![0xc0, 12, 0, 1, 0, 1],
        ),
        (
            "a truncated question",
            query("global. SOA").0[..12].to_vec(),
            vec![2, b'a'],
        ),
        (
            "only a header",
            query("global. SOA").0[..12].to_vec(),
            vec![],
        ),
    ];
    for (what, header, rest) in malformed {
        let message = [header, rest].concat();
        for (request, body) in [(post(PATH), &message[..]), (get(PATH, &message), &[])] {
            let reply = send(&server, &request, body).message();
            assert_eq!(decode(&reply).rcode, 1, "{what}");
            assert_eq!(reply[..2], message[..2], "{what}");
        }
    }
}

#[test]
fn s4_2_1_server_without_a_table_returns_a_dns_error() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = serve_encrypted_without_table(silent.local_addr().unwrap());
    let question = query("db.prod.global. A +edns");
    for (request, body) in [(post(PATH), &question.0[..]), (get(PATH, &question.0), &[])] {
        let response = send(&server, &request, body);
        assert_eq!(response.header("cache-control"), Some("no-store"));
        let reply = decode(&response.message());
        assert_eq!(reply.rcode, 2);
        assert_eq!(reply.extended_error(), Some(14));
    }
}

#[test]
fn s4_2_1_prohibited_client_gets_a_dns_refusal() {
    let server = serve_encrypted(&["--allow=192.0.2.0/24"]);
    let question = query("db.prod.global. A +edns");
    let response = send(&server, &post(PATH), &question.0);
    assert_eq!(response.header("cache-control"), Some("no-store"));
    let reply = decode(&response.message());
    assert_eq!(reply.rcode, 5);
    assert_eq!(reply.extended_error(), Some(18));
}

/// Section 6: the body is one DNS message of up to 65,535 octets, without a length prefix.
#[test]
fn s6_replies_have_up_to_65535_octets() {
    let server = serve_encrypted_objects(members(&[3000]), &["--order=stable"]);
    for text in [
        "s3000.prod.global. A",
        "s3000.prod.global. SRV +bufsize=512",
    ] {
        let question = query(text);
        let tcp = server.server.send(&question, Transport::Tcp).unwrap();
        assert!(tcp.len() > 40_000, "{text}");
        assert_eq!(send(&server, &post(PATH), &question.0).message(), tcp);
        assert_eq!(send(&server, &get(PATH, &question.0), &[]).message(), tcp);
    }
}

#[test]
fn s6_response_has_a_content_length() {
    let server = serve_encrypted(&["--order=stable"]);
    let question = query("db.prod.global. SRV");
    let response = send(&server, &post(PATH), &question.0);
    let length = response.body.len().to_string();
    assert_eq!(response.header("content-length"), Some(&*length));
}

/// RFC 9110 section 6.6.1: caches compute the age of a response from its date.
#[test]
fn s5_1_responses_have_a_date() {
    let server = serve_encrypted(&[]);
    let question = query("db.prod.global. A");
    for response in [
        server.http1().send(&post(PATH), &question.0).unwrap(),
        server.http2().send(&get(PATH, &question.0), &[]).unwrap(),
        server
            .http2()
            .send(&get("/nope", &question.0), &[])
            .unwrap(),
    ] {
        let date = response.header("date").expect("a date header");
        assert!(date.ends_with(" GMT"), "{date}");
    }
}
