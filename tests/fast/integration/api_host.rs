//! The `Host`, `Origin` and `Sec-Fetch-Site` headers that the API accepts, a protection against DNS rebinding and other
//! sites; methods and headers of responses.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use support::objects::{Manifest, mirror, objects};
use support::server::Server;
use support::wait::TIMEOUT;

const PATHS: [&str; 8] = [
    "/api/v1/status",
    "/api/v1/events",
    "/api/v1/table",
    "/api/v1/endpoints",
    "/api/v1/problems",
    "/api/v1/zone",
    "/api/v1/explain?name=db.prod.global",
    "/no-such-page",
];

fn sample() -> Manifest {
    objects().with(mirror("prod", "db", "east").endpoint("db-0", &["192.0.2.1"]))
}

/// Sends the head of a request unchanged. Returns the status and the whole response.
fn send(server: SocketAddr, lines: &[&str]) -> (u16, String) {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let head = lines.iter().map(|line| format!("{line}\r\n"));
    let head: String = head.chain(["\r\n".to_owned()]).collect();
    stream.write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let status = text.split(' ').nth(1).and_then(|code| code.parse().ok());
    (status.unwrap_or_else(|| panic!("{lines:?}: {text}")), text)
}

/// Fails unless a response has the headers that all responses of the API have.
fn assert_protected(text: &str) {
    let head = text.split("\r\n\r\n").next().unwrap().to_lowercase() + "\r\n";
    for line in [
        "cache-control: no-store\r\n",
        "x-content-type-options: nosniff\r\n",
        "cross-origin-resource-policy: same-origin\r\n",
    ] {
        assert_eq!(head.matches(line).count(), 1, "{line}: {text}");
    }
    assert!(!head.contains("access-control-"), "{text}");
}

/// Sends each request, asserts its status and the headers of every response. A refusal has the sentence.
fn check(server: &Server, cases: &[(&[&str], u16)], refused: u16, sentence: &str) {
    for (lines, status) in cases {
        let (got, text) = send(server.api, lines);
        assert_eq!(got, *status, "{lines:?}: {text}");
        if *status != 400 {
            assert_protected(&text);
        }
        assert_eq!(got == refused, text.contains(sentence), "{lines:?}: {text}");
    }
}

const TABLE: &str = "GET /api/v1/table HTTP/1.1";
const LOCAL: &str = "Host: localhost";

/// A page of another site may send requests with its origin to a port-forward.
#[test]
fn requests_of_other_sites_are_rejected() {
    let server = Server::with_objects(sample(), &["listen.apiHosts=[dns.example.com]"]);
    let origins = [
        (&*server.api.to_string(), 200),
        ("[::1]:19154", 200),
        ("dns.example.com", 200),
        ("attacker.example", 403),
        ("attacker.example:9154", 403),
        ("localhost.attacker.example", 403),
        ("127.0.0.1.attacker.example", 403),
        ("a.dns.example.com", 403),
        // Two origins, of which one is allowed.
        ("localhost\r\nOrigin: http://attacker.example", 403),
    ];
    let origins = origins.map(|(host, status)| (format!("Origin: http://{host}"), status));
    let others = ["file://", "null", ""].map(|origin| (format!("Origin: {origin}"), 403));
    let sentence =
        "is not allowed: only pages of this server may read it; listen.apiHosts adds hosts";
    let stream = "Accept: text/event-stream";
    for (origin, status) in origins.into_iter().chain(others) {
        let of_events = ["GET /api/v1/events HTTP/1.1", LOCAL, stream, &origin];
        let cases: [(&[&str], u16); 2] = [(&[TABLE, LOCAL, &origin], status), (&of_events, status)];
        check(
            &server,
            &cases[..1 + usize::from(status == 403)],
            403,
            sentence,
        );
    }
}

#[test]
fn api_is_read_only() {
    let server = Server::with_objects(sample(), &[]);
    for path in PATHS {
        let [found, refused] = match path {
            "/no-such-page" => [404, 404],
            _ => [200, 405],
        };
        for (method, status) in [
            ("HEAD", found),
            ("POST", refused),
            ("DELETE", refused),
            ("TRACE", refused),
        ] {
            let head = format!("{method} {path} HTTP/1.1");
            check(
                &server,
                &[(&[&head, LOCAL], status)],
                405,
                "allow: GET,HEAD\r\n",
            );
        }
    }
}

#[test]
fn requests_with_a_foreign_host_are_rejected() {
    let flags = ["listen.apiHosts=[dns.example.com, '2001:db8::1', 192.0.2.9]"];
    let server = Server::with_objects(sample(), &flags);
    let own = server.api.to_string();
    for (host, status) in [
        // A port-forward can use any port of the user's machine.
        (&*own, 200),
        ("localhost", 200),
        ("LOCALHOST:19154", 200),
        ("127.0.0.1:19154", 200),
        ("[::1]:19154", 200),
        ("DNS.example.com.:8080", 200),
        ("[2001:db8::1]:443", 200),
        ("192.0.2.9", 200),
        ("attacker.example", 421),
        ("attacker.example:9154", 421),
        ("127.0.0.1.attacker.example", 421),
        ("localhost.attacker.example", 421),
        ("a.dns.example.com", 421),
        ("192.0.2.8", 421),
    ] {
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        let sentence = format!(
            "Host '{name}' is not a name of this server; to allow it, add it to listen.apiHosts\n"
        );
        for path in PATHS {
            let status = match (path, status) {
                ("/no-such-page", 200) => 404,
                _ => status,
            };
            let head = format!("GET {path} HTTP/1.1");
            let host = format!("Host: {host}");
            check(&server, &[(&[&head, &host], status)], 421, &sentence);
        }
    }
    // The kubelet and Prometheus may use any address.
    let probe = ["GET /readyz HTTP/1.1", "Host: attacker.example"];
    assert_eq!(send(server.admin, &probe).0, 200);
    assert_eq!(send(server.admin, &["GET /livez HTTP/1.0"]).0, 200);
}
