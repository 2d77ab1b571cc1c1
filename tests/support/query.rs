//! Queries, written as people write them: `db.prod.global. A +edns +do`, or octet by octet.
//!
//! A question is `NAME [CLASS] TYPE` and any number of marks, which are dig's where dig has one:
//!
//! | mark | what the query has |
//! |---|---|
//! | `+rd` `+ad` `+cd` `+z` `+aa` `+tc` `+ra` | that bit of the header (none is set otherwise) |
//! | `+opcode=N` | another opcode than QUERY |
//! | `+edns` `+edns=V` | an OPT record, of EDNS version 0 or V, that takes 1232 octets |
//! | `+bufsize=N` | an OPT record that takes N octets |
//! | `+do` `+ednsflags=0xN` | an OPT record with the DO bit, with these flags |
//! | `+nsid` `+keepalive` `+cookie=HEX` `+ednsopt=CODE[:HEX]` | an OPT record with that option |
//!
//! Octets are written as hexadecimal digits, `'text'` and `<a.domain.name.>`; blanks and `|` separate.

use std::sync::atomic::{AtomicU16, Ordering};

use crate::codes::{class_number, type_number};
use crate::wire::frame;

/// A query as octets.
#[derive(Clone, Debug)]
pub struct Packet(pub Vec<u8>);

/// A query as it is put together, for who needs one that no text says.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The header's flags, opcode included.
    pub bits: u16,
    /// The labels of the name.
    pub labels: Vec<Vec<u8>>,
    /// The type.
    pub rtype: u16,
    /// The class.
    pub class: u16,
    /// The OPT record.
    pub edns: Option<Edns>,
}

/// What a client says by EDNS.
#[derive(Clone, Debug)]
pub struct Edns {
    /// Octets that it takes over UDP.
    pub payload: u16,
    /// The higher bits of a response code, of which a query has none.
    pub rcode: u8,
    /// The version.
    pub version: u8,
    /// DO, and bits without a meaning.
    pub flags: u16,
    /// Codes and values.
    pub options: Vec<(u16, Vec<u8>)>,
}

/// Builds a query.
pub fn query(text: &str) -> Packet {
    let words = text
        .split(' ')
        .filter(|word| !word.is_empty() && !word.starts_with('+'));
    let words: Vec<&str> = words.collect();
    let (name, class, rtype) = match words[..] {
        [name, rtype] => (name, 1, rtype),
        [name, class, rtype] => (name, class_number(class), rtype),
        _ => panic!("'{text}' is no question"),
    };
    let (mut bits, mut edns) = (0_u16, None);
    for mark in text.split(' ').filter_map(|word| word.strip_prefix('+')) {
        let (mark, value) = mark.split_once('=').unwrap_or((mark, ""));
        let bit = match mark {
            "aa" => 0x0400,
            "tc" => 0x0200,
            "rd" => 0x0100,
            "ra" => 0x0080,
            "z" => 0x0040,
            "ad" => 0x0020,
            "cd" => 0x0010,
            "opcode" => value.parse::<u16>().unwrap() << 11,
            _ => {
                edns.get_or_insert_with(Edns::plain).mark(mark, value);
                0
            }
        };
        bits |= bit;
    }
    static IDENTIFIER: AtomicU16 = AtomicU16::new(0x1001);
    let parts = Parts {
        bits,
        labels: labels(name),
        rtype: type_number(rtype),
        class,
        edns,
    };
    parts.packet(IDENTIFIER.fetch_add(1, Ordering::Relaxed))
}

/// Builds any octets.
pub fn octets(text: &str) -> Packet {
    let mut packet = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '\'' => rest[1..].find('\'').unwrap() + 2,
            '<' => rest.find('>').unwrap() + 1,
            _ => rest.find([' ', '|', '\'', '<', '\n']).unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at(end.max(1));
        match first {
            '\'' => packet.extend(&token.as_bytes()[1..end - 1]),
            '<' => packet.extend(wire_name(&token[1..end - 1])),
            ' ' | '|' | '\n' => {}
            _ => packet.extend(unhex(token)),
        }
        rest = after;
    }
    Packet(packet)
}

/// Writes a name in wire format; `\DDD` is an octet, and `\X` that character (RFC 1035 section 5.1). The last dot may be
/// left out.
pub fn wire_name(text: &str) -> Vec<u8> {
    wire(&labels(text))
}

/// Writes labels in wire format.
pub fn wire(labels: &[Vec<u8>]) -> Vec<u8> {
    let mut wire = Vec::new();
    for label in labels {
        wire.push(u8::try_from(label.len()).unwrap());
        wire.extend_from_slice(label);
    }
    wire.push(0);
    wire
}

fn labels(text: &str) -> Vec<Vec<u8>> {
    let (mut labels, mut label) = (Vec::new(), Vec::new());
    let mut rest = text.strip_prefix('.').unwrap_or(text).as_bytes();
    while let [octet, after @ ..] = rest {
        rest = after;
        match (octet, after) {
            (b'.', _) => labels.push(std::mem::take(&mut label)),
            (b'\\', [a @ b'0'..=b'9', b, c, after @ ..]) => {
                let digits = [*a, *b, *c];
                label.push(std::str::from_utf8(&digits).unwrap().parse().unwrap());
                rest = after;
            }
            (b'\\', [octet, after @ ..]) => {
                label.push(*octet);
                rest = after;
            }
            (other, _) => label.push(*other),
        }
    }
    if !label.is_empty() {
        labels.push(label);
    }
    labels
}

/// Octets in hexadecimal.
pub fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    assert!(
        text.len().is_multiple_of(2),
        "'{text}' has half an octet too much"
    );
    let octet = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(octet).collect()
}

// === impl Packet ===

impl Packet {
    /// The identifier.
    pub fn id(&self) -> u16 {
        self.number(0)
    }

    /// The header's flags, opcode included.
    pub fn bits(&self) -> u16 {
        self.number(2)
    }

    fn number(&self, at: usize) -> u16 {
        let two = self.0.get(at..at + 2);
        two.map_or(0, |two| u16::from_be_bytes([two[0], two[1]]))
    }

    /// The same query with another identifier.
    #[must_use]
    pub fn with_id(&self, id: u16) -> Self {
        let mut octets = self.0.clone();
        octets[..2].copy_from_slice(&id.to_be_bytes());
        Self(octets)
    }

    /// Behind its length, as over TCP.
    pub fn framed(&self) -> Vec<u8> {
        frame(&self.0)
    }
}

// === impl Parts ===

impl Parts {
    /// The query with an identifier.
    pub fn packet(&self, id: u16) -> Packet {
        let counts = [1, 0, 0, u16::from(self.edns.is_some())];
        let header = [id, self.bits].into_iter().chain(counts);
        let mut packet: Vec<u8> = header.flat_map(u16::to_be_bytes).collect();
        packet.extend(wire(&self.labels));
        packet.extend(self.rtype.to_be_bytes());
        packet.extend(self.class.to_be_bytes());
        packet.extend(self.edns.iter().flat_map(Edns::octets));
        Packet(packet)
    }
}

// === impl Edns ===

impl Edns {
    /// Version 0, 1232 octets, and nothing else.
    fn plain() -> Self {
        Self {
            payload: 1232,
            rcode: 0,
            version: 0,
            flags: 0,
            options: Vec::new(),
        }
    }

    fn mark(&mut self, mark: &str, value: &str) {
        match mark {
            "edns" if value.is_empty() => {}
            "edns" => self.version = value.parse().unwrap(),
            "bufsize" => self.payload = value.parse().unwrap(),
            "do" => self.flags |= 0x8000,
            "ednsflags" => {
                self.flags |= u16::from_str_radix(value.strip_prefix("0x").unwrap(), 16).unwrap();
            }
            "nsid" => self.options.push((3, unhex(value))),
            "cookie" => self.options.push((10, unhex(value))),
            "keepalive" => self.options.push((11, unhex(value))),
            "ednsopt" => {
                let (code, value) = value.split_once(':').unwrap_or((value, ""));
                self.options.push((code.parse().unwrap(), unhex(value)));
            }
            other => panic!("there is no mark '+{other}'"),
        }
    }

    fn octets(&self) -> Vec<u8> {
        let mut data = Vec::new();
        for (code, value) in &self.options {
            data.extend(code.to_be_bytes());
            data.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
            data.extend_from_slice(value);
        }
        let mut octets = vec![0, 0, 41];
        octets.extend(self.payload.to_be_bytes());
        octets.extend([self.rcode, self.version]);
        octets.extend(self.flags.to_be_bytes());
        octets.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
        octets.extend(data);
        octets
    }
}
