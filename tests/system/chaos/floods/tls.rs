//! TLS clients of attackers and of the honest client.

use std::io::{self, Read as _, Write as _};

use rustls::ClientConnection;
use rustls::version::TLS13;
use support::tls::{Client, Offer, Stream, localhost};

use super::harness::IDENTITY;

/// Returns a client of TLS 1.3.
pub fn client() -> Client {
    Client::new(&IDENTITY, Offer::of(&["dot"]).only(&&TLS13))
}

/// Returns the first record of a client.
pub fn hello() -> Vec<u8> {
    let mut hello = Vec::new();
    let mut connection = ClientConnection::new(client().0, localhost()).unwrap();
    connection.write_tls(&mut hello).unwrap();
    hello
}

/// Sends as much as a non-blocking connection accepts. Returns whether it is still open.
pub fn push(stream: &mut Stream, octets: &[u8]) -> bool {
    // Octets beyond the limit of the library's buffer are not sent.
    let _ = stream.conn.writer().write(octets);
    while stream.conn.wants_write() {
        match stream.conn.write_tls(&mut stream.sock) {
            Ok(_) => {}
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
    }
    true
}

/// Reads and discards available data of a non-blocking connection. Returns whether it is still open.
pub fn drain(stream: &mut Stream) -> bool {
    loop {
        match stream.conn.read_tls(&mut stream.sock) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
        let Ok(state) = stream.conn.process_new_packets() else {
            return false;
        };
        let mut octets = vec![0; state.plaintext_bytes_to_read()];
        if stream.conn.reader().read_exact(&mut octets).is_err() || state.peer_has_closed() {
            return false;
        }
    }
}
