//! A forwarder with answers that a test determines. It simulates the DNS of a cluster, with or without the stub zone.

use std::net::{SocketAddr, UdpSocket};
use std::thread;

use support::reply::Reply;
use support::wait::TIMEOUT;
use support::wire::{Transport, exchange};

/// Starts a UDP server that replies with the result of `answer` for the name and the query.
pub fn start(answer: impl Fn(&str, &[u8]) -> Vec<u8> + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut query = [0; 4096];
        while let Ok((length, client)) = socket.recv_from(&mut query) {
            let query = &query[..length];
            let message = Reply::read(query).unwrap();
            assert_eq!(message.flags(), "rd", "the query must request recursion");
            let name = &message.questions[0].name;
            // The client may have closed its socket.
            let _ = socket.send_to(&answer(name, query), client);
        }
    });
    address
}

/// Returns the reply of an upstream server.
pub fn forward(upstream: SocketAddr, query: &[u8]) -> Vec<u8> {
    exchange(upstream, query, Transport::Udp, TIMEOUT).unwrap()
}
