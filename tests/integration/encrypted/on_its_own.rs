//! What hickory-server does on its own, before a message is ours. Each line is a deviation that the README lists: when
//! one of these tests fails because hickory has learned better, the README gets better, too.

use h2::Reason;
use hickory_proto::op::{Message, ResponseCode};

use super::small;
use crate::support::ask::question;
use crate::support::binary::Server;
use crate::support::encrypted::{Issued, Response, issue_good, post, send, serve};
use crate::support::wire::read_framed;

fn start() -> (Issued, Server) {
    let issued = issue_good();
    let server = serve(small(), &issued, &[]);
    (issued, server)
}

/// Messages that hickory cannot read.
const UNREADABLE: [(&str, &[u8]); 8] = [
    ("a question that is cut off", b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x02a"),
    ("a header that promises 65,535 questions", b"\x12\x34\x01\0\xff\xff\0\0\0\0\0\0"),
    ("a response that cannot be read", b"\x12\x34\x81\0\0\x01\0\0\0\0\0\0\x02a"),
    ("a name with a loop", b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\xc0\x0c\0\x01\0\x01"),
    (
        "a record that is cut off",
        b"\x12\x34\x01\0\0\x01\0\0\0\0\0\x01\x01a\0\0\x01\0\x01\0\0\x29\x04",
    ),
    (
        "an option that is cut off",
        b"\x12\x34\x01\0\0\x01\0\0\0\0\0\x01\x01a\0\0\x01\0\x01\0\0\x29\x04\xd0\0\0\0\0\0\x03\0\x03\0",
    ),
    (
        "two OPT records",
        b"\x12\x34\x01\0\0\x01\0\0\0\0\0\x02\x01a\0\0\x01\0\x01\0\0\x29\x04\xd0\0\0\0\0\0\0\0\0\x29\x04\xd0\0\0\0\0\0\0",
    ),
    (
        "a client subnet of an unknown family",
        b"\x12\x34\x01\0\0\x01\0\0\0\0\0\x01\x01a\0\0\x01\0\x01\0\0\x29\x04\xd0\0\0\0\0\0\x08\0\x08\0\x04\0\x09\0\0",
    ),
];

#[test]
fn what_hickory_cannot_read_gets_formerr_without_question_and_opt() {
    let (issued, server) = start();
    for (what, packet) in UNREADABLE {
        let tls = issued.ask_tls(server.address("tls"), packet).unwrap();
        let https = issued.ask_https(server.address("https"), packet).message();
        assert_eq!(tls, https, "{what}");
        let reply = Message::from_vec(&tls).unwrap();
        assert_eq!(reply.metadata.id, 0x1234, "{what}");
        assert_eq!(
            reply.metadata.response_code,
            ResponseCode::FormErr,
            "{what}"
        );
        assert_eq!(tls.len(), 12, "{what}: {tls:?}");
    }
    // Nobody of ours has seen them.
    let of = |proto: &str| format!("global_dns_requests_total{{proto=\"{proto}\",type=\"other\"}}");
    assert_eq!(server.metric(&of("tls")), 0.0);
    assert_eq!(server.metric(&of("https")), 0.0);
}

#[test]
fn what_must_not_be_answered_is_passed_over_on_tls_and_resets_the_stream_on_https() {
    let (issued, server) = start();
    let mut response = question("db.prod.global. A").packet();
    response[2] |= 0x80;
    for (what, packet) in [
        ("a response", &response[..]),
        ("half a header", b"\x12\x34\x01\0"),
    ] {
        let mut stream = issued.connect(server.address("tls"), "dot").unwrap();
        let another = question("global. SOA").packet();
        send(&mut stream, packet).unwrap();
        send(&mut stream, &another).unwrap();
        let reply = read_framed(&mut stream).unwrap();
        assert_eq!(reply[..2], another[..2], "{what}");
        let https = issued.ask_https(server.address("https"), packet);
        assert_eq!(https, Response::Reset(Reason::CANCEL), "{what}");
    }
}

#[test]
fn an_http_request_that_is_not_as_hickory_wants_it_resets_the_stream() {
    let (issued, server) = start();
    let packet = question("db.prod.global. A").packet();
    let get = "https://localhost/dns-query?dns=AAABAAABAAAAAAAAAmRiBHByb2QGZ2xvYmFsAAABAAE";
    let with = |name: &'static str, value: Option<&'static str>| {
        let mut request = post("/dns-query");
        request.headers_mut().remove(name);
        if let Some(value) = value {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        request
    };
    let get_of = |mut request: http::Request<()>| {
        *request.method_mut() = http::Method::GET;
        *request.uri_mut() = get.parse().unwrap();
        request
    };
    let mut put = post("/dns-query");
    *put.method_mut() = http::Method::PUT;
    let bad: [(&str, http::Request<()>, &[u8]); 7] = [
        ("GET", get_of(with("content-type", None)), b""),
        ("GET with a content type", get_of(post("/")), b""),
        ("PUT", put, &packet),
        ("another path", post("/resolve"), &packet),
        (
            "another content type",
            with("content-type", Some("text/plain")),
            &packet,
        ),
        (
            "another type accepted",
            with("accept", Some("text/html")),
            &packet,
        ),
        ("no type accepted", with("accept", None), &packet),
    ];
    for (what, request, body) in bad {
        let response = issued.request(server.address("https"), request, body);
        assert_eq!(response, Response::Reset(Reason::CANCEL), "{what}");
    }
    let good: [(&str, http::Request<()>); 2] = [
        ("as it should be", post("/dns-query")),
        ("with a question mark", post("/dns-query?x=y")),
    ];
    for (what, request) in good {
        let response = issued.request(server.address("https"), request, &packet);
        let reply = Message::from_vec(&response.message()).unwrap();
        assert_eq!(reply.answers.len(), 1, "{what}");
    }
}

#[test]
fn only_its_own_protocol_is_spoken_on_a_listener() {
    let (issued, server) = start();
    for (listener, protocol) in [("tls", "h2"), ("https", "dot"), ("https", "http/1.1")] {
        let error = issued.connect(server.address(listener), protocol);
        let error = error.map(|_| ()).unwrap_err().to_string();
        assert!(
            error.contains("NoApplicationProtocol"),
            "{listener}: {error}"
        );
    }
}

#[test]
fn neither_queries_nor_what_clients_get_wrong_are_logged() {
    let (issued, server) = start();
    server.log.wait(0, "Published table"); // it may come after the server is ready
    let mark = server.log.mark();
    let packet = question("db.prod.global. A").edns(1232).packet();
    let no_length: &[u8] =
        b"\x12\x34\x01\0\0\x01\0\0\0\0\0\x01\x01a\0\0\x01\0\x01\0\0\x29\x04\xd0\0\0\0\0\0\x02\0\x03";
    for packet in [&packet, no_length, UNREADABLE[0].1] {
        issued.ask_tls(server.address("tls"), packet).unwrap();
        issued.ask_https(server.address("https"), packet);
    }
    issued.request(server.address("https"), post("/nothing"), &packet);
    assert!(issued.connect(server.address("tls"), "h2").is_err());
    assert_eq!(server.log.lines()[mark..], [] as [String; 0]);
}
