//! Endpoints on loopback addresses.

use serde_json::json;

use super::*;

#[tokio::test]
async fn connection_must_be_accepted_and_stay_open() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target: Target = (
        "db-0 of cluster east".to_owned(),
        listener.local_addr().unwrap(),
    );
    // Linkerd's proxy accepts a connection before it knows whether the endpoint does.
    let closes = tokio::spawn(async move { drop(listener.accept().await.unwrap()) });
    let why = connect(target.clone()).await.sentence;
    assert!(
        why.contains(": the connection was accepted and then "),
        "{why}"
    );
    closes.await.unwrap();
    let why = connect(target.clone()).await.sentence;
    assert!(why.contains("refused"), "{why}");
    let listener = tokio::net::TcpListener::bind(target.1).await.unwrap();
    assert_eq!(connect(target).await.state, FindingState::Unknown);
    drop(listener);
}

/// Connects to a server that reads an octet, if clients speak first, and sends a reply. Returns what is known then.
async fn connect_to(client_speaks_first: bool, reply: &'static [u8]) -> Result<bool, String> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut octets = [0; 2];
        if client_speaks_first {
            assert_eq!(stream.read(&mut octets).await.unwrap(), 1);
        }
        stream.write_all(reply).await.unwrap();
        // A client that waits for the server sends nothing.
        if !reply.is_empty() && !client_speaks_first {
            assert_eq!(stream.read(&mut octets).await.unwrap(), 0);
        }
    });
    let stream = TcpStream::connect(address).await.unwrap();
    let result = is_reached(stream, if client_speaks_first { 5432 } else { 3306 }).await;
    server.await.unwrap();
    result
}

#[tokio::test]
async fn endpoint_is_reached_if_it_replies() {
    for (client_speaks_first, reply) in [
        (true, &b"-ERR"[..]),
        (true, b"\x15\x03\x01\0"),
        (false, b"INFO"),
        (false, b"J\0\0\0"),
    ] {
        let is_reached = connect_to(client_speaks_first, reply).await;
        assert_eq!(is_reached, Ok(true), "{reply:?}");
    }
    // A proxy itself may send these.
    for reply in [&b"HTTP/1.1 400 Bad Request"[..], b"\0\0\x12\x04\0"] {
        assert_eq!(connect_to(true, reply).await, Ok(false), "{reply:?}");
    }
}

#[tokio::test]
async fn connection_that_closes_after_an_octet_has_failed() {
    for client_speaks_first in [true, false] {
        let why = connect_to(client_speaks_first, b"").await.unwrap_err();
        assert!(why.contains("accepted and then closed"), "{why}");
    }
}

#[test]
fn targets_are_the_answered_addresses_with_tcp_ports() {
    let endpoints = [json!({
        "cluster": "east", "hostname": "db-0", "addresses": ["10.0.0.1", "10.0.0.2"],
        "ports": [
            {"name": "sql", "protocol": "TCP", "port": 26257},
            {"name": "http", "protocol": "TCP", "port": 8080},
            {"name": "dns", "protocol": "UDP", "port": 53},
        ],
    })];
    let answered = BTreeSet::from(["10.0.0.1".parse().unwrap()]);
    for (name, expected) in [
        ("db.prod.global.", vec!["10.0.0.1:26257", "10.0.0.1:8080"]),
        ("_http._tcp.db.prod.global.", vec!["10.0.0.1:8080"]),
    ] {
        let targets = targets(name, &answered, &endpoints);
        let found: Vec<String> = targets.iter().map(|one| one.1.to_string()).collect();
        assert_eq!(found, expected, "{name}");
        assert_eq!(targets[0].0, "db-0 of cluster east");
    }
}
