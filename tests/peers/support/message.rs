//! DNS messages: questions written, replies read strictly, to their last octet, by code that shares nothing with ours.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use super::PATIENCE;
pub use super::wire::Over;
use super::wire::exchange;

pub const A: u16 = 1;
pub const NS: u16 = 2;
pub const SOA: u16 = 6;
pub const TXT: u16 = 16;
pub const AAAA: u16 = 28;
pub const SRV: u16 = 33;
pub const ANY: u16 = 255;
const OPT: u16 = 41;

/// A question with what a client can say beside it.
#[derive(Clone, Debug)]
pub struct Question {
    /// Labels, joined by dots; no label holds a dot.
    pub name: String,
    pub rtype: u16,
    /// EDNS: UDP payload size.
    pub edns: Option<u16>,
    pub dnssec_ok: bool,
    pub recursion_desired: bool,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    /// Lower case, with a final dot.
    pub owner: String,
    pub rtype: u16,
    pub class: u16,
    pub ttl: u32,
    /// As in a zone file for the types that we serve, hexadecimal for others; names in lower case.
    pub data: String,
}

/// What the OPT record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opt {
    pub version: u8,
    pub dnssec_ok: bool,
}

/// A message, read.
#[derive(Clone, Debug)]
pub struct Message {
    /// With the higher bits of the OPT record.
    pub rcode: u16,
    /// The second word of the header, without the response code.
    pub flags: u16,
    /// Name as it was written, type, class.
    pub questions: Vec<(String, u16, u16)>,
    pub answers: Vec<Record>,
    pub authority: Vec<Record>,
    /// Without the OPT record.
    pub additional: Vec<Record>,
    pub opt: Option<Opt>,
    pub octets: usize,
}

// === impl Question ===

/// A question without EDNS: `db.prod.global.`, `A`.
pub fn question(name: &str, rtype: u16) -> Question {
    Question {
        name: name.to_owned(),
        rtype,
        edns: None,
        dnssec_ok: false,
        recursion_desired: false,
    }
}

impl Question {
    /// Says EDNS, with this payload size, or nothing.
    #[must_use]
    pub fn edns(mut self, payload: Option<u16>) -> Self {
        self.edns = payload;
        self
    }

    /// Writes it.
    pub fn packet(&self, id: u16) -> Vec<u8> {
        let rd = u16::from(self.recursion_desired) << 8;
        let counts = [1, 0, 0, u16::from(self.edns.is_some())];
        let mut packet: Vec<u8> = [&[id, rd][..], &counts]
            .concat()
            .into_iter()
            .flat_map(u16::to_be_bytes)
            .collect();
        for label in self.name.split('.').filter(|label| !label.is_empty()) {
            packet.push(u8::try_from(label.len()).unwrap());
            packet.extend(label.bytes());
        }
        packet.push(0);
        packet.extend(self.rtype.to_be_bytes());
        packet.extend([0, 1]);
        if let Some(payload) = self.edns {
            packet.extend([0, 0, 41]);
            packet.extend(payload.to_be_bytes());
            packet.extend([0, 0, u8::from(self.dnssec_ok) << 7, 0, 0, 0]);
        }
        packet
    }

    /// Asks, and fails without an answer that is well formed.
    pub fn ask(&self, server: SocketAddr, over: Over) -> Message {
        let fail = |error: &dyn std::fmt::Display| -> ! {
            panic!("{self:?} to {server} over {over:?}: {error}")
        };
        let packet = self.packet(fastrand::u16(..));
        let bytes = exchange(server, &packet, over, PATIENCE);
        let bytes = bytes.unwrap_or_else(|error| fail(&error));
        assert_eq!(bytes[..2], packet[..2], "the identifier of {self:?}");
        Message::read(&bytes).unwrap_or_else(|error| fail(&error))
    }

    /// Asks a server that may not be there yet, over TCP.
    pub fn try_ask(&self, server: SocketAddr) -> Option<Message> {
        let bytes = exchange(server, &self.packet(1), Over::Tcp, PATIENCE).ok()?;
        Message::read(&bytes).ok()
    }

    /// Asks as resolvers do: over UDP, then over TCP if the answer was cut.
    pub fn resolve(&self, server: SocketAddr) -> Message {
        let reply = self.ask(server, Over::Udp);
        match reply.is_truncated() {
            true => self.ask(server, Over::Tcp),
            false => reply,
        }
    }
}

// === impl Message ===

type Parsed<T> = Result<T, String>;

impl Message {
    pub fn is_truncated(&self) -> bool {
        self.flags & 0x0200 != 0
    }

    pub fn is_authoritative(&self) -> bool {
        self.flags & 0x0400 != 0
    }

    /// Reads a message that ends where its last record does.
    pub fn read(bytes: &[u8]) -> Parsed<Self> {
        let mut reader = Reader { bytes, at: 0 };
        reader.number()?;
        let flags = reader.number()?;
        let counts: Vec<u16> = (0..4).map(|_| reader.number()).collect::<Parsed<_>>()?;
        let questions = (0..counts[0]).map(|_| {
            let name = reader.name()?;
            Ok((name, reader.number()?, reader.number()?))
        });
        let questions = questions.collect::<Parsed<_>>()?;
        let mut opt = None;
        let mut rcode = flags & 0x000f;
        let mut sections: [Vec<Record>; 3] = Default::default();
        for (section, count) in sections.iter_mut().zip(&counts[1..]) {
            for _ in 0..*count {
                let record = reader.record()?;
                if record.rtype == OPT {
                    if opt.is_some() || record.owner != "." {
                        return Err("a second OPT record, or one that is not at the root".into());
                    }
                    let [high, version, flags, _] = record.ttl.to_be_bytes();
                    rcode |= u16::from(high) << 4;
                    let dnssec_ok = flags & 0x80 != 0;
                    opt = Some(Opt { version, dnssec_ok });
                } else {
                    section.push(record);
                }
            }
        }
        if reader.at != bytes.len() {
            let over = bytes.len() - reader.at;
            return Err(format!("{over} octets after the last record"));
        }
        let [answers, authority, additional] = sections;
        Ok(Self {
            rcode,
            flags: flags & !0x000f,
            questions,
            answers,
            authority,
            additional,
            opt,
            octets: bytes.len(),
        })
    }

    /// The data of the answers.
    pub fn data(&self) -> Vec<&str> {
        self.answers.iter().map(|r| r.data.as_str()).collect()
    }
}

/// What is read, and where.
struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl Reader<'_> {
    fn take(&mut self, length: usize) -> Parsed<&[u8]> {
        let taken = self.bytes.get(self.at..self.at + length);
        let taken =
            taken.ok_or_else(|| format!("it ends within {length} octets at {}", self.at))?;
        self.at += length;
        Ok(taken)
    }

    fn number(&mut self) -> Parsed<u16> {
        let octets = self.take(2)?;
        Ok(u16::from_be_bytes([octets[0], octets[1]]))
    }

    fn long(&mut self) -> Parsed<u32> {
        Ok(u32::from(self.number()?) << 16 | u32::from(self.number()?))
    }

    /// A name, in the case in which it was written; pointers lead backwards.
    fn name(&mut self) -> Parsed<String> {
        let (mut text, mut at, mut end) = (String::new(), self.at, None);
        loop {
            let length = *self.bytes.get(at).ok_or("it ends within a name")?;
            match length {
                0 => break,
                0xc0.. => {
                    let low = *self.bytes.get(at + 1).ok_or("it ends within a pointer")?;
                    let to = usize::from(length & 0x3f) << 8 | usize::from(low);
                    if to >= at {
                        return Err(format!("a pointer at {at} leads forward, to {to}"));
                    }
                    end.get_or_insert(at + 2);
                    at = to;
                }
                1..=63 => {
                    let label = self.bytes.get(at + 1..at + 1 + usize::from(length));
                    for octet in label.ok_or("it ends within a label")? {
                        match octet {
                            0x21..=0x7e if !b".\\".contains(octet) => {
                                text.push(char::from(*octet));
                            }
                            _ => write!(text, "\\{octet:03}").unwrap(),
                        }
                    }
                    text.push('.');
                    at += 1 + usize::from(length);
                }
                _ => return Err(format!("a label of type {length:#x} at {at}")),
            }
            if text.len() > 1024 {
                return Err("a name of more than 255 octets".into());
            }
        }
        self.at = end.unwrap_or(at + 1);
        if text.is_empty() {
            text.push('.');
        }
        Ok(text)
    }

    fn record(&mut self) -> Parsed<Record> {
        let owner = self.name()?.to_lowercase();
        let (rtype, class) = (self.number()?, self.number()?);
        let ttl = self.long()?;
        let length = usize::from(self.number()?);
        let end = self.at + length;
        let data = match (rtype, length) {
            (A, 4) => {
                let octets: [u8; 4] = self.take(4)?.try_into().unwrap();
                IpAddr::from(octets).to_string()
            }
            (AAAA, 16) => {
                let octets: [u8; 16] = self.take(16)?.try_into().unwrap();
                IpAddr::from(octets).to_string()
            }
            (NS, _) => self.name()?.to_lowercase(),
            (SRV, 7..) => {
                let [priority, weight, port] = [self.number()?, self.number()?, self.number()?];
                let target = self.name()?.to_lowercase();
                format!("{priority} {weight} {port} {target}")
            }
            (SOA, 22..) => {
                let names = [self.name()?, self.name()?].join(" ").to_lowercase();
                let numbers: Vec<String> = (0..5)
                    .map(|_| Ok(self.long()?.to_string()))
                    .collect::<Parsed<_>>()?;
                format!("{names} {}", numbers.join(" "))
            }
            (TXT, 1..) => {
                let octets = self.take(length)?.to_vec();
                let text = String::from_utf8_lossy(&octets[1..]);
                format!("{text:?}")
            }
            (A | AAAA | SRV | SOA | TXT, _) => {
                return Err(format!("{length} octets of data of type {rtype}"));
            }
            _ => {
                let octets = self.take(length)?;
                octets.iter().map(|octet| format!("{octet:02x}")).collect()
            }
        };
        if self.at != end {
            return Err(format!("the data of type {rtype} do not end at {end}"));
        }
        Ok(Record {
            owner,
            rtype,
            class,
            ttl,
            data,
        })
    }
}

#[test]
fn a_message_with_a_record_cut_short_or_with_more_than_its_records_is_not_read() {
    let mut whole = question("db.prod.global.", A).packet(7);
    whole[7] = 1;
    whole.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4, 192, 0, 2, 1]);
    let message = Message::read(&whole).unwrap();
    assert_eq!(message.answers[0].owner, "db.prod.global.");
    assert_eq!(message.data(), ["192.0.2.1"]);
    for length in 0..whole.len() {
        assert!(Message::read(&whole[..length]).is_err(), "{length}");
    }
    whole.push(0);
    assert!(Message::read(&whole).is_err());
}
