//! Resolvers and endpoints on loopback addresses.

use std::net::{Ipv4Addr, UdpSocket};
use std::thread;

use super::*;
use crate::zone::Name;

/// Starts a name server that returns NOERROR without records for names that end in `known`, and `other` for the rest.
fn name_server(known: &'static str, other: u8) -> SocketAddr {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut query = [0; 512];
        while let Ok((length, client)) = socket.recv_from(&mut query) {
            let mut reply = query[..length].to_vec();
            let known = Name::from_text(known).unwrap();
            let is_known = reply
                .windows(known.wire().len())
                .any(|part| part == known.wire());
            reply[2] |= 0x80; // QR
            reply[3] = reply[3] & 0xf0 | if is_known { 0 } else { other };
            // The client may have closed its socket.
            let _ = socket.send_to(&reply, client);
        }
    });
    address
}

const SERVFAIL: u8 = 2;
const NXDOMAIN: u8 = 3;

#[tokio::test]
async fn names_of_the_search_list_are_asked_at_the_next_server_if_the_first_fails() {
    let conf = ResolvConf {
        servers: vec![
            name_server("here.test", SERVFAIL),
            name_server("there.test", NXDOMAIN),
        ],
        search: ["here.test", "there.test", "nowhere.test"]
            .map(str::to_owned)
            .into(),
        ndots: 5,
    };
    let question = Question::of_zone("global.", "global.", Some("db.prod.global."), &[]);
    let probe = ask(None, Some(&conf), "global.", question, true).await;
    let codes: Vec<(String, Rcode)> = probe
        .searched
        .into_iter()
        .map(|(name, reply)| (name, reply.unwrap().rcode))
        .collect();
    let expected = [
        ("db.prod.global.here.test.", Rcode::NOERROR),
        ("db.prod.global.there.test.", Rcode::NOERROR),
        ("db.prod.global.nowhere.test.", Rcode::NXDOMAIN),
    ];
    assert_eq!(
        codes,
        expected.map(|(name, rcode)| (name.to_owned(), rcode))
    );
    let codes = probe
        .resolvers
        .iter()
        .map(|(_, reply)| reply.as_ref().unwrap().rcode);
    assert_eq!(
        codes.collect::<Vec<_>>(),
        [Rcode::SERVFAIL, Rcode::NXDOMAIN]
    );
}

#[tokio::test]
async fn connection_must_be_accepted_and_stay_open() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = Target {
        endpoint: "db-0 of cluster east".to_owned(),
        address: listener.local_addr().unwrap(),
    };
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
    let listener = tokio::net::TcpListener::bind(target.address).await.unwrap();
    assert_eq!(connect(target).await.state, State::Unknown);
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
