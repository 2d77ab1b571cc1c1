//! Messages on their way, over UDP and over TCP. What is in them is each suite's own business: some write and read them
//! with other code on purpose.

use std::io::{self, Read, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

/// How a question travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    Udp,
    Tcp,
}

/// Sends a query, and returns the reply.
pub fn exchange(
    server: SocketAddr,
    query: &[u8],
    over: Over,
    patience: Duration,
) -> io::Result<Vec<u8>> {
    match over {
        Over::Udp => {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            socket.connect(server)?;
            socket.set_read_timeout(Some(patience))?;
            socket.send(query)?;
            read_datagram(&socket)
        }
        Over::Tcp => {
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

/// A message behind its length (RFC 1035 section 4.2.2).
pub fn frame(message: &[u8]) -> Vec<u8> {
    let length = u16::try_from(message.len()).expect("a message that fits its length");
    [&length.to_be_bytes(), message].concat()
}

/// Reads a message behind its length.
pub fn read_framed(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut message)?;
    Ok(message)
}
