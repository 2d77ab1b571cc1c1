//! Exchange of DNS messages over UDP and TCP.

use std::io::{self, Read, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use super::query::{Packet, query};
use super::reply::Reply;
use super::wait::TIMEOUT;

/// Transport of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// One datagram.
    Udp,
    /// A new connection for each query.
    Tcp,
}

impl Transport {
    /// Both transports.
    pub const BOTH: [Self; 2] = [Self::Udp, Self::Tcp];
}

/// Sends a query in the syntax of [`query`]. Fails without a well-formed reply.
pub fn ask(server: SocketAddr, question: &str, over: Transport) -> Reply {
    try_ask(server, &query(question), over, TIMEOUT)
        .unwrap_or_else(|error| panic!("{question} to {server} over {over:?}: {error}"))
}

/// Queries like a resolver: over UDP, then over TCP if the reply is truncated.
pub fn resolve(server: SocketAddr, question: &str) -> Reply {
    let reply = ask(server, question, Transport::Udp);
    if reply.is_truncated() {
        ask(server, question, Transport::Tcp)
    } else {
        reply
    }
}

/// Queries a server that may not answer. A malformed reply or a reply with another ID is an error, too.
pub fn try_ask(
    server: SocketAddr,
    packet: &Packet,
    over: Transport,
    patience: Duration,
) -> io::Result<Reply> {
    let octets = exchange(server, &packet.0, over, patience)?;
    let reply = Reply::read(&octets).map_err(io::Error::other)?;
    if reply.id == packet.id() {
        Ok(reply)
    } else {
        Err(io::Error::other("the reply has another ID"))
    }
}

/// Sends a query and returns the reply.
pub fn exchange(
    server: SocketAddr,
    query: &[u8],
    over: Transport,
    patience: Duration,
) -> io::Result<Vec<u8>> {
    match over {
        Transport::Udp => {
            // The kernel chooses the address, which is not loopback for a cluster IP.
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            socket.connect(server)?;
            socket.set_read_timeout(Some(patience))?;
            socket.send(query)?;
            read_datagram(&socket)
        }
        Transport::Tcp => {
            let mut stream = TcpStream::connect(server)?;
            stream.set_read_timeout(Some(patience))?;
            stream.write_all(&frame(query))?;
            read_framed(&mut stream)
        }
    }
}

/// Reads a datagram of any size.
pub fn read_datagram(socket: &UdpSocket) -> io::Result<Vec<u8>> {
    let mut message = vec![0; 65_535];
    let length = socket.recv(&mut message)?;
    message.truncate(length);
    Ok(message)
}

/// Prefixes a message with its length (RFC 1035 section 4.2.2).
pub fn frame(message: &[u8]) -> Vec<u8> {
    let length = u16::try_from(message.len()).expect("a message that fits its length");
    [&length.to_be_bytes(), message].concat()
}

/// Reads a message with a length prefix.
pub fn read_framed(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut message)?;
    Ok(message)
}

/// Reads a message with a length prefix. Returns `None` at the end of the stream.
pub fn read_framed_or_end(stream: &mut impl Read) -> Option<Vec<u8>> {
    let mut length = [0; 2];
    match stream.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if is_end(&error) => return None,
        Err(error) => panic!("reading a reply: {error}"),
    }
    // The message has started, so the rest must follow.
    Some(read_framed(&mut length.chain(stream)).unwrap())
}

/// Returns whether the peer closed or reset the connection.
pub fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
    )
}
