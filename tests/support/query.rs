//! Builds queries from a text such as `db.prod.global. A +edns +do`, or octet by octet.
//!
//! The text is `NAME [CLASS] TYPE` and any number of options. An option that dig also has is spelled like dig's:
//!
//! | option | effect on the query |
//! |---|---|
//! | `+rd` `+ad` `+cd` `+z` `+aa` `+tc` `+ra` | sets a bit of the header; by default, none is set |
//! | `+opcode=N` | sets an opcode other than QUERY |
//! | `+edns` `+edns=V` | adds an OPT record of EDNS version 0 or V with a payload size of 1232 octets |
//! | `+bufsize=N` | adds an OPT record with a payload size of N octets |
//! | `+do` `+ednsflags=0xN` | adds an OPT record with the DO bit or with these flags |
//! | `+nsid` `+keepalive` `+cookie=HEX` `+ednsopt=CODE[:HEX]` | adds an OPT record with an EDNS option |
//!
//! The syntax of octets is: hexadecimal digits, `'text'` and `<a.domain.name.>`, separated by blanks and `|`.

use std::sync::atomic::{AtomicU16, Ordering};

use super::codes::{class_number, type_number};
use super::wire::frame;

/// A query as octets.
#[derive(Clone, Debug)]
pub struct Packet(pub Vec<u8>);

/// The fields of a query, for queries that the text syntax does not cover.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The header's flags, including the opcode.
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

/// An OPT record.
#[derive(Clone, Debug)]
pub struct Edns {
    /// The client's UDP payload size.
    pub payload: u16,
    /// The extended bits of the response code, which are zero in a query.
    pub rcode: u8,
    /// The version.
    pub version: u8,
    /// The DO bit and unassigned bits.
    pub flags: u16,
    /// Codes and values of the options.
    pub options: Vec<(u16, Vec<u8>)>,
}

/// Builds a query from a text.
pub fn query(text: &str) -> Packet {
    let words: Vec<&str> = text
        .split(' ')
        .filter(|word| !word.is_empty() && !word.starts_with('+'))
        .collect();
    let (name, class, rtype) = match words[..] {
        [name, rtype] => (name, 1, rtype),
        [name, class, rtype] => (name, class_number(class), rtype),
        _ => panic!("'{text}' is not NAME [CLASS] TYPE"),
    };
    let (mut bits, mut edns) = (0_u16, None);
    for option in text.split(' ').filter_map(|word| word.strip_prefix('+')) {
        let (option, value) = option.split_once('=').unwrap_or((option, ""));
        let bit = match option {
            "aa" => 0x0400,
            "tc" => 0x0200,
            "rd" => 0x0100,
            "ra" => 0x0080,
            "z" => 0x0040,
            "ad" => 0x0020,
            "cd" => 0x0010,
            "opcode" => value.parse::<u16>().unwrap() << 11,
            _ => {
                edns.get_or_insert_with(Edns::plain).apply(option, value);
                0
            }
        };
        bits |= bit;
    }
    static IDENTIFIER: AtomicU16 = AtomicU16::new(0x1001);
    let parts = Parts {
        bits,
        class,
        edns,
        ..Parts::new(name, type_number(rtype))
    };
    parts.packet(IDENTIFIER.fetch_add(1, Ordering::Relaxed))
}

/// Builds a packet from octets.
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

/// Encodes a name in wire format. `\DDD` is an octet and `\X` a literal character (RFC 1035 section 5.1). The final dot
/// is optional.
pub fn wire_name(text: &str) -> Vec<u8> {
    wire(&labels(text))
}

/// Encodes labels in wire format.
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

/// Formats octets in hexadecimal.
pub fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    assert!(
        text.len().is_multiple_of(2),
        "'{text}' has an odd number of hexadecimal digits"
    );
    let octet = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(octet).collect()
}

// === impl Packet ===

impl Packet {
    /// Returns the ID.
    pub fn id(&self) -> u16 {
        self.number(0)
    }

    /// Returns the header's flags, including the opcode.
    pub fn bits(&self) -> u16 {
        self.number(2)
    }

    fn number(&self, at: usize) -> u16 {
        let two = self.0.get(at..at + 2);
        two.map_or(0, |two| u16::from_be_bytes([two[0], two[1]]))
    }

    /// Returns the same query with another ID.
    #[must_use]
    pub fn with_id(&self, id: u16) -> Self {
        let mut octets = self.0.clone();
        octets[..2].copy_from_slice(&id.to_be_bytes());
        Self(octets)
    }

    /// Returns the packet with a length prefix, as over TCP.
    pub fn framed(&self) -> Vec<u8> {
        frame(&self.0)
    }
}

// === impl Parts ===

impl Parts {
    /// Returns the fields of a query without flags and without an OPT record.
    pub fn new(name: &str, rtype: u16) -> Self {
        Self {
            bits: 0,
            labels: labels(name),
            rtype,
            class: 1,
            edns: None,
        }
    }

    /// Builds the query with an ID.
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
    /// Returns an OPT record of version 0 with a payload size of 1232 octets.
    pub fn plain() -> Self {
        Self {
            payload: 1232,
            rcode: 0,
            version: 0,
            flags: 0,
            options: Vec::new(),
        }
    }

    fn apply(&mut self, option: &str, value: &str) {
        match option {
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
            other => panic!("unknown option '+{other}'"),
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
