//! The `Host`, `Origin` and `Sec-Fetch-Site` headers that the API accepts, a protection against DNS rebinding and other
//! sites; methods and headers of responses.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use support::objects::{Manifest, mirror, objects};
use support::process::run_global_dns;
use support::server::Server;
use support::wait::TIMEOUT;

const PATHS: [&str; 8] = [
    "/api/v1/status",
    "/api/v1/events",
    "/api/v1/table",
    "/api/v1/table?output=zone",
    "/api/v1/problems",
    "/api/v1/summary",
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

/// A page of another site may send requests with its origin to a port-forward.
#[test]
fn requests_of_other_sites_are_rejected() {
    let server = Server::with_objects(sample(), &["--api-host=dns.example.com"]);
    let own = format!("http://{}", server.api);
    for (origin, status) in [
        (&*own, 200),
        ("http://localhost:9154", 200),
        ("http://[::1]:19154", 200),
        ("https://dns.example.com", 200),
        ("http://attacker.example", 403),
        ("https://attacker.example:9154", 403),
        ("http://localhost.attacker.example", 403),
        ("http://127.0.0.1.attacker.example", 403),
        ("https://a.dns.example.com", 403),
        ("file://", 403),
        ("null", 403),
        ("", 403),
    ] {
        for path in ["/api/v1/table", "/api/v1/status", "/api/v1/events"] {
            let lines = [
                &*format!("GET {path} HTTP/1.1"),
                "Host: localhost",
                &format!("Origin: {origin}"),
            ];
            let (got, text) = send(server.api, &lines);
            assert_eq!(got, status, "{origin}: {text}");
            assert_protected(&text);
            if status == 403 {
                let expected = format!(
                    "\r\n\r\nOrigin '{origin}' is not allowed: only pages of this server may read it; --api-host adds hosts\n"
                );
                assert!(text.ends_with(&expected), "{text}");
            }
        }
    }
    let stream = [
        "GET /api/v1/events HTTP/1.1",
        "Host: localhost",
        "Accept: text/event-stream",
        "Origin: http://attacker.example",
    ];
    assert_eq!(send(server.api, &stream).0, 403);
    // Two origins, of which one is allowed.
    let both = [
        "GET /api/v1/table HTTP/1.1",
        "Host: localhost",
        "Origin: http://localhost",
        "Origin: http://attacker.example",
    ];
    assert_eq!(send(server.api, &both).0, 403);
}

/// Images and `no-cors` requests of a page have no `Origin`.
#[test]
fn requests_that_pages_of_other_sites_cause_are_rejected() {
    let server = Server::with_objects(sample(), &[]);
    let image = ["Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"];
    let link = ["Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"];
    let frame = ["Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"];
    for (site, [mode, destination], path, status) in [
        ("cross-site", image, "/api/v1/table", 403),
        ("same-site", image, "/api/v1/table", 403),
        ("cross-site", image, "/page/icon.svg", 403),
        ("cross-site", image, "/", 403),
        ("cross-site", frame, "/", 403),
        ("cross-site", link, "/api/v1/table", 403),
        ("same-site", link, "/api/v1/explain?name=db.prod", 403),
        // A link to the page.
        ("cross-site", link, "/", 200),
        ("same-site", link, "/", 200),
        // The page itself, and the address bar.
        ("same-origin", image, "/page/icon.svg", 200),
        ("same-origin", image, "/api/v1/table", 200),
        ("none", link, "/api/v1/table", 200),
    ] {
        let head = format!("GET {path} HTTP/1.1");
        let site = format!("Sec-Fetch-Site: {site}");
        let lines = [&*head, "Host: localhost", &site, mode, destination];
        let (got, text) = send(server.api, &lines);
        assert_eq!(got, status, "{lines:?}: {text}");
        assert_protected(&text);
        assert_eq!(
            status == 403,
            text.contains("a page of another site may not")
        );
    }
    // A header that is given twice is not a way around it.
    let twice = [
        "GET /api/v1/table HTTP/1.1",
        "Host: localhost",
        "Sec-Fetch-Site: none",
        "Sec-Fetch-Site: cross-site",
    ];
    assert_eq!(send(server.api, &twice).0, 403);
}

#[test]
fn api_is_read_only() {
    let server = Server::with_objects(sample(), &[]);
    for path in PATHS {
        for (method, status) in [
            ("HEAD", if path == "/no-such-page" { 404 } else { 200 }),
            ("POST", 405),
            ("PUT", 405),
            ("DELETE", 405),
            ("PATCH", 405),
            ("OPTIONS", 405),
            ("TRACE", 405),
        ] {
            let lines = [&*format!("{method} {path} HTTP/1.1"), "Host: localhost"];
            let (got, text) = send(server.api, &lines);
            assert_eq!(got, status, "{method} {path}: {text}");
            assert_protected(&text);
            let is_refused = status == 405;
            assert_eq!(text.contains("allow: GET, HEAD\r\n"), is_refused, "{text}");
        }
    }
}

#[test]
fn requests_with_a_foreign_host_are_rejected() {
    let server = Server::with_objects(sample(), &[]);
    let port = server.api.port();
    for host in [
        "attacker.example".to_owned(),
        format!("attacker.example:{port}"),
        format!("127.0.0.1.attacker.example:{port}"),
        format!("localhost.attacker.example:{port}"),
        format!("192.0.2.1:{port}"),
    ] {
        for path in PATHS {
            let head = format!("GET {path} HTTP/1.1");
            let (status, text) = send(server.api, &[&head, &format!("Host: {host}")]);
            assert_eq!(status, 421, "{host} {path}: {text}");
            let name = host.rsplit_once(':').map_or(&*host, |(name, _)| name);
            let (_, sentence) = text.split_once("\r\n\r\n").unwrap();
            let expected = format!(
                "Host '{name}' is not a name of this server; to allow it, start the server with --api-host {name}\n"
            );
            assert_eq!(sentence, expected);
            assert_protected(&text);
        }
    }
    // The kubelet and Prometheus may use any address.
    let probe = ["GET /readyz HTTP/1.1", "Host: attacker.example"];
    assert_eq!(send(server.admin, &probe).0, 200);
    assert_eq!(send(server.admin, &["GET /livez HTTP/1.0"]).0, 200);
}

/// A port-forward can use any port of the user's machine.
#[test]
fn requests_through_a_port_forward_are_accepted() {
    let server = Server::with_objects(sample(), &[]);
    let own = server.api.to_string();
    for host in [
        &*own,
        "localhost",
        "localhost:19154",
        "LOCALHOST:19154",
        "127.0.0.1:19154",
        "[::1]:19154",
    ] {
        for path in PATHS {
            let head = format!("GET {path} HTTP/1.1");
            let (status, text) = send(server.api, &[&head, &format!("Host: {host}")]);
            assert_protected(&text);
            let expected = if path == "/no-such-page" { 404 } else { 200 };
            assert_eq!(status, expected, "{host} {path}: {text}");
        }
    }
    let url = format!("--server=http://localhost:{}", server.api.port());
    assert_eq!(
        run_global_dns(&["explain", "db.prod.global", &url]).code,
        Some(0)
    );
}

#[test]
fn every_form_of_naming_a_host_is_checked() {
    let server = Server::with_objects(sample(), &[]);
    for (lines, status) in [
        (&["GET /api/v1/table HTTP/1.1"][..], 400),
        (&["GET /api/v1/table HTTP/1.0"], 200),
        (&["GET /api/v1/table HTTP/1.0", "Host: localhost"], 200),
        (
            &["GET /api/v1/table HTTP/1.0", "Host: attacker.example"],
            421,
        ),
        (&["GET /api/v1/table HTTP/1.1", "Host:"], 400),
        (&["GET /api/v1/table HTTP/1.1", "Host: localhost:http"], 400),
        (&["GET /api/v1/table HTTP/1.1", "Host: a@localhost"], 400),
        (&["GET /api/v1/table HTTP/1.1", "Host: ::1"], 400),
        (
            &[
                "GET /api/v1/table HTTP/1.1",
                "Host: localhost",
                "Host: attacker.example",
            ],
            400,
        ),
        (
            &[
                "GET http://localhost/api/v1/table HTTP/1.1",
                "Host: localhost",
            ],
            200,
        ),
        // The request target takes precedence (RFC 9112 section 3.2.2).
        (
            &[
                "GET http://attacker.example/api/v1/table HTTP/1.1",
                "Host: localhost",
            ],
            421,
        ),
        (&["GET http://localhost/api/v1/table HTTP/1.1"], 400),
        (
            &[
                "POST /api/v1/table HTTP/1.1",
                "Host: attacker.example",
                "Content-Length: 0",
            ],
            421,
        ),
        (&["OPTIONS * HTTP/1.1", "Host: attacker.example"], 421),
    ] {
        let (got, text) = send(server.api, lines);
        assert_eq!(got, status, "{lines:?}: {text}");
    }
}

#[test]
fn hosts_of_the_flag_are_accepted() {
    let flags = [
        "--api-host=dns.example.com,2001:db8::1",
        "--api-host=192.0.2.9",
    ];
    let server = Server::with_objects(sample(), &flags);
    for (host, status) in [
        ("dns.example.com", 200),
        ("DNS.example.com.:8080", 200),
        ("[2001:db8::1]:443", 200),
        ("192.0.2.9", 200),
        ("localhost", 200),
        ("a.dns.example.com", 421),
        ("192.0.2.8", 421),
    ] {
        let lines = ["GET /api/v1/problems HTTP/1.1", &format!("Host: {host}")];
        assert_eq!(send(server.api, &lines).0, status, "{host}");
    }
    for wrong in ["dns.example.com:80", "http://dns.example.com", "*", "[::1]"] {
        let ended = run_global_dns(&["serve", &format!("--api-host={wrong}")]);
        assert_eq!(ended.code, Some(2), "{wrong}");
        assert!(
            ended
                .stderr
                .contains("a host must be a name or an IP address, without a port")
        );
    }
}
