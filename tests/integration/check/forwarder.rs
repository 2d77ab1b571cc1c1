//! A forwarder that answers as a test wants: the cluster's DNS, with or without the stanza.

use std::net::{SocketAddr, UdpSocket};
use std::thread;

use support::reply::Reply;
use support::wait::PATIENCE;
use support::wire::{Over, exchange};

/// SERVFAIL, NXDOMAIN, REFUSED (RFC 1035 section 4.1.1).
pub const SERVFAIL: u8 = 2;
pub const NXDOMAIN: u8 = 3;
pub const REFUSED: u8 = 5;

/// Answers over UDP what `answer` makes of a name and the query, until the test ends.
pub fn start(answer: impl Fn(&str, &[u8]) -> Vec<u8> + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut query = [0; 4096];
        while let Ok((length, client)) = socket.recv_from(&mut query) {
            let query = &query[..length];
            let message = Reply::read(query).unwrap();
            assert_eq!(message.flags(), "rd", "a resolver is asked to recurse");
            let name = &message.questions[0].name;
            // The client may have given up.
            let _ = socket.send_to(&answer(name, query), client);
        }
    });
    address
}

/// What an upstream says.
pub fn forward(upstream: SocketAddr, query: &[u8]) -> Vec<u8> {
    exchange(upstream, query, Over::Udp, PATIENCE).unwrap()
}

/// The query as a reply with a response code.
pub fn code(query: &[u8], code: u8) -> Vec<u8> {
    let mut reply = query.to_vec();
    reply[2] |= 0x80; // QR
    reply[3] = reply[3] & 0xf0 | code;
    reply
}
