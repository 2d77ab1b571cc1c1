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

use std::str::FromStr as _;
use std::sync::atomic::{AtomicU16, Ordering};

use hickory_proto::rr::RecordType;

/// A query as octets.
#[derive(Clone, Debug)]
pub struct Packet(pub Vec<u8>);

/// What a client says by EDNS.
struct Edns {
    payload: u16,
    version: u8,
    flags: u16,
    options: Vec<u8>,
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
    let identifier = IDENTIFIER.fetch_add(1, Ordering::Relaxed);
    let opt = edns.map_or_else(Vec::new, |edns| edns.octets());
    let counts = [1, 0, 0, u16::from(!opt.is_empty())];
    let header = [identifier, bits]
        .into_iter()
        .chain(counts)
        .flat_map(u16::to_be_bytes);
    let mut packet: Vec<u8> = header.collect();
    packet.extend(wire_name(name));
    packet.extend(type_number(rtype).to_be_bytes());
    packet.extend(class.to_be_bytes());
    packet.extend(opt);
    Packet(packet)
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

/// Writes a name in wire format; `\DDD` is an octet (RFC 1035 section 5.1).
pub fn wire_name(text: &str) -> Vec<u8> {
    let (mut wire, mut label) = (Vec::new(), Vec::new());
    let mut octets = text.strip_prefix('.').unwrap_or(text).bytes();
    while let Some(octet) = octets.next() {
        match octet {
            b'.' => {
                wire.push(u8::try_from(label.len()).unwrap());
                wire.append(&mut label);
            }
            b'\\' => {
                let digits: Vec<u8> = octets.by_ref().take(3).collect();
                label.push(std::str::from_utf8(&digits).unwrap().parse().unwrap());
            }
            other => label.push(other),
        }
    }
    assert!(label.is_empty(), "'{text}' does not end in a dot");
    wire.push(0);
    wire
}

fn class_number(class: &str) -> u16 {
    match class {
        "IN" => 1,
        "CH" => 3,
        "HS" => 4,
        "NONE" => 254,
        "ANY" => 255,
        other => other.strip_prefix("CLASS").unwrap().parse().unwrap(),
    }
}

fn type_number(rtype: &str) -> u16 {
    match rtype {
        "OPT" => 41,
        "TKEY" => 249,
        "TSIG" => 250,
        "IXFR" => 251,
        "MAILB" => 253,
        "MAILA" => 254,
        other => match other.strip_prefix("TYPE") {
            Some(number) => number.parse().unwrap(),
            None => RecordType::from_str(other).unwrap().into(),
        },
    }
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
    /// The header's flags, opcode included.
    pub fn bits(&self) -> u16 {
        let bits = self
            .0
            .get(2..4)
            .map(|two| u16::from_be_bytes([two[0], two[1]]));
        bits.unwrap_or_default()
    }
}

// === impl Edns ===

impl Edns {
    fn plain() -> Self {
        Self {
            payload: 1232,
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
            "nsid" => self.option(3, value),
            "cookie" => self.option(10, value),
            "keepalive" => self.option(11, value),
            "ednsopt" => {
                let (code, value) = value.split_once(':').unwrap_or((value, ""));
                self.option(code.parse().unwrap(), value);
            }
            other => panic!("there is no mark '+{other}'"),
        }
    }

    fn option(&mut self, code: u16, value: &str) {
        let value = unhex(value);
        self.options.extend(code.to_be_bytes());
        self.options
            .extend(u16::try_from(value.len()).unwrap().to_be_bytes());
        self.options.extend(value);
    }

    fn octets(self) -> Vec<u8> {
        let mut octets = vec![0, 0, 41];
        octets.extend(self.payload.to_be_bytes());
        octets.extend([0, self.version]);
        octets.extend(self.flags.to_be_bytes());
        octets.extend(u16::try_from(self.options.len()).unwrap().to_be_bytes());
        octets.extend(self.options);
        octets
    }
}
