//! Open sockets: only the listeners of the flags, and one descriptor for each connection.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener};

use support::certificates::issue_valid;
use support::differences::set;
use support::encrypted::{QUIC, files, serve};
use support::query::query;
use support::server::{Server, WaitUntil};
use support::sockets::Socket;
use support::wait::{wait_for, wait_for_ok};
use support::wire::Transport;

use super::small;

/// Returns the addresses of each listener in the log.
fn listeners(server: &Server) -> BTreeMap<String, BTreeSet<SocketAddr>> {
    let mut listeners: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for event in server.log.events() {
        let fields = &event["fields"];
        if fields["message"] == "Listening" {
            let field = |name: &str| fields[name].as_str().unwrap().to_owned();
            let address = field("address").parse().unwrap();
            listeners
                .entry(field("listener"))
                .or_default()
                .insert(address);
        }
    }
    listeners
}

/// Returns the expected sockets of the listeners.
fn expected(listeners: &BTreeMap<String, BTreeSet<SocketAddr>>) -> BTreeSet<Socket> {
    let sockets = listeners.iter().flat_map(|(listener, addresses)| {
        let transports = match listener.as_str() {
            "dns" => &["tcp", "udp"][..],
            "quic" => &["udp"],
            _ => &["tcp"],
        };
        let of_listener = move |local: &SocketAddr| {
            let local = *local;
            transports.iter().map(move |transport| Socket {
                transport,
                local,
                peer: None,
            })
        };
        addresses.iter().flat_map(of_listener)
    });
    sockets.collect()
}

/// Waits until only the listeners are open. Connections do not close at once.
fn wait_for_listeners_only(server: &Server, expected: &BTreeSet<Socket>) {
    wait_for_ok("only listeners to be open", || {
        let open = server.process().sockets();
        (open == *expected)
            .then_some(())
            .ok_or_else(|| format!("open: {open:#?}, expected: {expected:#?}"))
    });
}

#[test]
fn only_configured_listeners_are_open() {
    let issued = issue_valid();
    let packet = query("db.prod.global. A").0;
    let has_v6 = TcpListener::bind("[::1]:0").is_ok();
    for chosen in 0..4 {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path(), small(), &issued);
        let kinds: Vec<&str> = ["tls", "quic"]
            .into_iter()
            .enumerate()
            .filter(|(bit, _)| chosen >> bit & 1 == 1)
            .map(|(_, kind)| kind)
            .collect();
        let mut flags: Vec<String> = Vec::new();
        for kind in ["", "admin-", "api-"] {
            flags.extend(has_v6.then(|| format!("--{kind}listen=[::1]:0")));
        }
        for kind in &kinds {
            let addresses = ["'127.0.0.1:0'", "'[::1]:0'"];
            let addresses = addresses[..1 + usize::from(has_v6)].join(", ");
            flags.push(format!("listen.{kind}=[{addresses}]"));
        }
        // A certificate without such a listener is wrong usage.
        let used = if kinds.is_empty() { 1 } else { 3 };
        flags.extend_from_slice(&files[..used]);
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let server = Server::start(folder, &flags, WaitUntil::Ready);

        let listeners = listeners(&server);
        let named = set(listeners.keys());
        assert_eq!(named, set(["dns", "admin", "api"].iter().chain(&kinds)));
        for (listener, addresses) in &listeners {
            assert_eq!(addresses.len(), 1 + usize::from(has_v6), "{listener}");
        }
        let expected = expected(&listeners);
        wait_for_listeners_only(&server, &expected);

        // Queries must not leave open sockets, either.
        for kind in &kinds {
            for address in &listeners[*kind] {
                match *kind {
                    "tls" => drop(issued.ask_tls(*address, &packet).unwrap()),
                    _ if address.is_ipv6() => {} // the client here has IPv4 only
                    _ => drop(issued.quic(*address).ask(&packet_of_quic(&packet)).unwrap()),
                }
            }
        }
        for address in listeners["dns"].iter().filter(|address| address.is_ipv4()) {
            support::wire::resolve(*address, "db.prod.global. A");
            support::wire::ask(*address, "db.prod.global. A", Transport::Tcp);
        }
        wait_for_listeners_only(&server, &expected);
    }
}

fn packet_of_quic(packet: &[u8]) -> Vec<u8> {
    [&[0, 0], &packet[2..]].concat()
}

#[test]
fn connection_uses_one_descriptor() {
    let issued = issue_valid();
    let server = serve(small(), &issued, &[QUIC]);
    let tls = server.address("tls");
    let packet = query("db.prod.global. A").0;
    wait_for_listeners_only(&server, &expected(&listeners(&server)));
    let before = server.process().descriptors();

    let mut streams: Vec<_> = (0..20).map(|_| issued.tls(tls)).collect();
    for stream in &mut streams {
        support::tls::ask(stream, &packet).unwrap();
    }
    assert_eq!(server.process().descriptors() - before, 20);

    // All QUIC connections share one socket.
    let quic: Vec<_> = (0..10)
        .map(|_| issued.quic(server.address("quic")))
        .collect();
    for connection in &quic {
        connection.ask(&packet_of_quic(&packet)).unwrap();
    }
    assert_eq!(server.process().descriptors() - before, 20);

    drop((streams, quic));
    wait_for("the previous number of descriptors", || {
        (server.process().descriptors() == before).then_some(())
    });
}

/// An incomplete handshake uses one descriptor, and a failed one uses none.
#[test]
fn handshake_uses_one_descriptor_and_releases_it() {
    let issued = issue_valid();
    let server = serve(small(), &issued, &[]);
    wait_for_listeners_only(&server, &expected(&listeners(&server)));
    let before = server.process().descriptors();
    let tls = server.address("tls");
    let silent: Vec<_> = (0..20)
        .map(|_| std::net::TcpStream::connect(tls).unwrap())
        .collect();
    wait_for("a descriptor for each", || {
        (server.process().descriptors() == before + silent.len()).then_some(())
    });
    assert!(issued.client(&["smtp"]).connect(tls).is_err());
    drop(silent);
    wait_for("the previous number of descriptors", || {
        (server.process().descriptors() == before).then_some(())
    });
}
