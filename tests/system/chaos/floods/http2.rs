//! An HTTP/2 client of an attacker, which writes single frames. It can also send a query and read its reply.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustls::ClientConfig;

use super::tls::{self, Stream};

/// Frame types (RFC 9113 section 6).
pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
/// Flags.
pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;
/// Setting: initial flow-control window of a stream.
pub const INITIAL_WINDOW_SIZE: u16 = 4;

/// `:status: 200` in the static table (RFC 7541 appendix A).
const STATUS_200: u8 = 0x88;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A frame.
#[derive(Debug)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

/// A connection.
pub struct Http2 {
    pub stream: Stream,
    next: u32,
}

/// Writes a frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = (payload.len() as u32).to_be_bytes();
    let head = [&length[..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head[..], payload].concat()
}

/// Writes settings.
pub fn settings(settings: &[(u16, u32)]) -> Vec<u8> {
    let one = |(name, value): &(u16, u32)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat();
    let payload: Vec<u8> = settings.iter().flat_map(one).collect();
    frame(SETTINGS, 0, 0, &payload)
}

// === Fields (RFC 7541) ===

/// Returns a field that is not added to the dynamic table.
pub fn field(name: &str, value: &str) -> Vec<u8> {
    [&[0][..], &text(name), &text(value)].concat()
}

/// Returns a field that becomes the first entry of the dynamic table.
pub fn indexed_field(name: &str, value: &str) -> Vec<u8> {
    [&[0x40][..], &text(name), &text(value)].concat()
}

/// Reference to the first entry of the dynamic table.
pub const FIRST_INDEXED: u8 = 0x80 | 62;

fn text(text: &str) -> Vec<u8> {
    const MOST: usize = 127; // the maximum of a prefix of seven bits
    let mut octets = vec![];
    match text.len() {
        length @ 0..MOST => octets.push(length as u8),
        length => {
            octets.push(MOST as u8);
            let mut rest = length - MOST;
            while rest >= 0x80 {
                octets.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            octets.push(rest as u8);
        }
    }
    octets.extend(text.as_bytes());
    octets
}

/// Returns the fields of a GET request with a message.
pub fn get(packet: &[u8]) -> Vec<u8> {
    let path = format!("/dns-query?dns={}", base64url(packet));
    // :method GET, :scheme https
    [
        &[0x82, 0x87][..],
        &field(":authority", "localhost"),
        &field(":path", &path),
    ]
    .concat()
}

/// Returns the fields of a POST request.
pub fn post() -> Vec<u8> {
    // :method POST, :scheme https
    [
        &[0x83, 0x87][..],
        &field(":authority", "localhost"),
        &field(":path", "/dns-query"),
        &field("content-type", "application/dns-message"),
    ]
    .concat()
}

/// Encodes octets with the URL alphabet, without padding (RFC 4648 section 5).
pub fn base64url(octets: &[u8]) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let letters = octets.chunks(3).flat_map(|three| {
        let bits = three
            .iter()
            .fold(0_u32, |bits, octet| bits << 8 | u32::from(*octet));
        let bits = bits << (8 * (3 - three.len()));
        let letter = move |index: usize| ALPHABET[(bits >> (18 - 6 * index)) as usize & 63];
        (0..=three.len()).map(letter)
    });
    letters.map(char::from).collect()
}

// === impl Http2 ===

impl Http2 {
    /// Performs a handshake over a blocking connection and sends settings.
    pub fn begin(
        stream: TcpStream,
        config: &Arc<ClientConfig>,
        said: &[(u16, u32)],
    ) -> io::Result<Self> {
        let mut stream = tls::begin(stream, config)?;
        stream.write_all(&[PREFACE, &settings(said)].concat())?;
        Ok(Self { stream, next: 1 })
    }

    /// Returns the number of a new stream.
    pub fn next_stream(&mut self) -> u32 {
        self.next += 2;
        self.next - 2
    }

    /// Sends a query with POST over a blocking connection.
    pub fn ask(&mut self, packet: &[u8]) -> io::Result<Vec<u8>> {
        let number = self.next_stream();
        let request = [
            frame(HEADERS, END_HEADERS, number, &post()),
            frame(DATA, END_STREAM, number, packet),
        ];
        self.stream.write_all(&request.concat())?;
        let mut reply = Vec::new();
        loop {
            let frame = self.read()?;
            match (frame.kind, frame.stream) {
                (HEADERS, stream) if stream == number => {
                    // An update of the dynamic table's size may precede the status.
                    let mut fields = frame.payload.iter().skip_while(|octet| **octet >> 5 == 1);
                    if fields.next() != Some(&STATUS_200) {
                        return Err(io::Error::other("status is not 200"));
                    }
                }
                (DATA, stream) if stream == number => reply.extend(&frame.payload),
                (RST_STREAM, stream) if stream == number => {
                    return Err(io::Error::other("the server reset the stream"));
                }
                (GOAWAY, _) => return Err(io::Error::other("the server sent GOAWAY")),
                _ => {}
            }
            let is_last = frame.flags & END_STREAM != 0 && matches!(frame.kind, HEADERS | DATA);
            if frame.stream == number && is_last {
                return Ok(reply);
            }
        }
    }

    /// Reads a frame from a blocking connection, and replies to frames that require a reply.
    pub fn read(&mut self) -> io::Result<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head)?;
        let [a, b, c, kind, flags, stream @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        self.stream.read_exact(&mut payload)?;
        let answer = match kind {
            SETTINGS if flags & ACK == 0 => frame(SETTINGS, ACK, 0, &[]),
            PING if flags & ACK == 0 => frame(PING, ACK, 0, &payload),
            DATA if !payload.is_empty() => {
                frame(WINDOW_UPDATE, 0, 0, &(payload.len() as u32).to_be_bytes())
            }
            _ => vec![],
        };
        self.stream.write_all(&answer)?;
        Ok(Frame {
            kind,
            flags,
            stream: u32::from_be_bytes(stream) & 0x7fff_ffff,
            payload,
        })
    }
}

// === Non-blocking writes ===

/// Whether an attacker reads the data of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    All,
    Nothing,
}

/// Sends all octets over a non-blocking connection. Returns false if the server closes the connection or the time is
/// over.
pub fn send_all(stream: &mut Stream, octets: &[u8], reading: Reading, until: Instant) -> bool {
    let mut rest = octets;
    while !rest.is_empty() || stream.conn.wants_write() {
        if Instant::now() > until {
            return false;
        }
        match stream.conn.writer().write(rest) {
            Ok(taken) => rest = &rest[taken..],
            Err(_) => return false,
        }
        let waits = match stream.conn.write_tls(&mut stream.sock) {
            Ok(_) => false,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => true,
            Err(_) => return false,
        };
        if reading == Reading::All && !drain(stream) {
            return false;
        }
        if waits {
            thread::sleep(Duration::from_millis(1));
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
