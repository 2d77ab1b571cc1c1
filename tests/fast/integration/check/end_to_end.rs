//! `check --connect`: the endpoints of a name, with a running server, a forwarder and listeners.

use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};

use serde_json::Value;
use support::objects::{Manifest, mirror, objects};
use support::server::Server;

use super::forwarder::{forward, start};
use super::{checkup, finding, findings};

/// Returns the address of this machine, because a loopback address is not that of an endpoint.
fn own_address() -> IpAddr {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    // A UDP socket sends nothing when it connects.
    socket
        .connect("192.0.2.1:9")
        .expect("a route to other machines");
    socket.local_addr().unwrap().ip()
}

/// A service with one endpoint on this machine, and one with two.
fn sample(port: u16) -> Manifest {
    let own = own_address().to_string();
    let small = mirror("prod", "web", "east").ports(&[("http", "TCP", port)]);
    let large = mirror("prod", "db", "east")
        .endpoint("db-0", &["10.96.1.1"])
        .endpoint("db-1", &["10.96.1.2"]);
    objects().with(large).with(small.endpoint("web-0", &[&own]))
}

fn check_of(server: &Server, resolver: SocketAddr, flags: &[&str]) -> (Value, Option<i32>) {
    let api = format!("--server={}", server.api);
    let dns = format!("--dns={}", server.dns);
    let resolver = format!("--resolver={resolver}");
    checkup(&[&[api.as_str(), &dns, &resolver], flags].concat())
}

#[test]
fn smallest_service_is_asked_for_and_its_endpoint_is_connected_to() {
    let listener = TcpListener::bind((own_address(), 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::with_objects(sample(address.port()), &[]);
    let (dns, upstream) = (server.dns, server.dns);
    let resolver = start(move |_, query| forward(upstream, query));
    let (checkup, exit) = check_of(&server, resolver, &["--connect"]);
    assert_eq!(exit, Some(0), "{checkup:#}");
    for (check, expected) in [
        (
            "direct-answer",
            format!("ok: {dns} answers web.prod.global. A: {}", address.ip()),
        ),
        (
            "cluster-answer",
            format!("ok: {resolver} answers as the server does: web.prod.global. A"),
        ),
    ] {
        assert_eq!(finding(&checkup, check), expected);
    }
    let expected = format!("unknown: {address} (web-0 of cluster east) accepted, without a reply");
    assert_eq!(finding(&checkup, "connections"), expected);
    // Without the flag, nothing is connected to.
    let (checkup, _) = check_of(&server, resolver, &[]);
    assert_eq!(findings(&checkup, "connections"), [""; 0]);
    drop(listener);
    let (checkup, exit) = check_of(&server, resolver, &["--connect"]);
    assert_eq!(exit, Some(1));
    let expected = format!(
        "failing: cannot connect to {address} (web-0 of cluster east): Connection refused (os error 111)"
    );
    assert_eq!(finding(&checkup, "connections"), expected);
}
