//! Strict parser of replies. It shares no code with the server. hickory-proto also parses each reply, and both results
//! must be equal.

mod hickory;

use std::collections::BTreeSet;
use std::fmt;

use super::codes::{class_name, rcode_name, type_name};
use super::query::hex;
use super::reader::{Reader, Result};

/// Record types, and the query type ANY. The parser knows the RDATA of most of them.
pub mod rtype {
    /// An IPv4 address.
    pub const A: u16 = 1;
    /// A name server.
    pub const NS: u16 = 2;
    /// The start of authority of a zone.
    pub const SOA: u16 = 6;
    /// A pointer.
    pub const PTR: u16 = 12;
    /// Text.
    pub const TXT: u16 = 16;
    /// An IPv6 address.
    pub const AAAA: u16 = 28;
    /// A host and a port.
    pub const SRV: u16 = 33;
    /// EDNS.
    pub const OPT: u16 = 41;
    /// All types.
    pub const ANY: u16 = 255;
}

/// A parsed message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The ID.
    pub id: u16,
    /// The second word of the header without opcode and response code.
    pub bits: u16,
    /// The opcode.
    pub opcode: u8,
    /// The response code, including the extended bits of the OPT record.
    pub rcode: u16,
    /// The question section. Names keep their case.
    pub questions: Vec<Question>,
    /// The answer section.
    pub answers: Vec<Record>,
    /// The authority section.
    pub authority: Vec<Record>,
    /// The additional section without the OPT record.
    pub additional: Vec<Record>,
    /// The OPT record.
    pub opt: Option<Opt>,
    /// Size of the message.
    pub octets: usize,
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The name with a final dot.
    pub name: String,
    /// The type.
    pub rtype: u16,
    /// The class.
    pub class: u16,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    /// The owner name with a final dot.
    pub owner: String,
    /// The type.
    pub rtype: u16,
    /// The class.
    pub class: u16,
    /// The TTL.
    pub ttl: u32,
    /// RDATA in zone file syntax for the types that the server serves, in hexadecimal for others.
    pub data: String,
}

/// An OPT record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opt {
    /// The version of EDNS.
    pub version: u8,
    /// UDP payload size.
    pub payload: u16,
    /// The DO bit and unassigned bits.
    pub flags: u16,
    /// Codes and values of the options.
    pub options: Vec<(u16, Vec<u8>)>,
}

// === impl Reply ===

impl Reply {
    /// Parses a message. Fails if octets follow the last record, or if hickory-proto reads something else.
    pub fn read(octets: &[u8]) -> Result<Self> {
        let read = Self::parse(octets)?;
        hickory::check_same(octets, &read)?;
        Ok(read)
    }

    fn parse(octets: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(octets);
        let (id, word) = (reader.number()?, reader.number()?);
        let counts: Vec<u16> = (0..4).map(|_| reader.number()).collect::<Result<_>>()?;
        let questions = (0..counts[0]).map(|_| {
            Ok(Question {
                name: reader.name()?,
                rtype: reader.number()?,
                class: reader.number()?,
            })
        });
        let questions = questions.collect::<Result<_>>()?;
        let (mut opt, mut rcode) = (None, word & 0x000f);
        let mut sections: [Vec<Record>; 3] = Default::default();
        for (section, count) in sections.iter_mut().zip(&counts[1..]) {
            for _ in 0..*count {
                let (owner, rtype, class) = (reader.name()?, reader.number()?, reader.number()?);
                let ttl = reader.long()?;
                if rtype == rtype::OPT {
                    if opt.is_some() || owner != "." {
                        return Err("second OPT record, or an OPT record not at the root".into());
                    }
                    let [high, version, flags @ ..] = ttl.to_be_bytes();
                    rcode |= u16::from(high) << 4;
                    opt = Some(Opt {
                        version,
                        payload: class,
                        flags: u16::from_be_bytes(flags),
                        options: reader.options()?,
                    });
                    continue;
                }
                section.push(Record {
                    owner,
                    rtype,
                    class,
                    ttl,
                    data: reader.data(rtype)?,
                });
            }
        }
        let [answers, authority, additional] = sections;
        let read = Self {
            id,
            bits: word & 0x87f0,
            opcode: (word >> 11 & 0x0f) as u8,
            rcode,
            questions,
            answers,
            authority,
            additional,
            opt,
            octets: octets.len(),
        };
        reader.end()?;
        Ok(read)
    }

    /// Returns the reply without the ID and the size, which differ between replies to one question.
    #[must_use]
    pub fn content(mut self) -> Self {
        self.id = 0;
        self.octets = 0;
        for section in [&mut self.answers, &mut self.authority, &mut self.additional] {
            section.sort();
        }
        self
    }

    /// Returns the reply with names in lower case.
    #[must_use]
    pub fn in_lower_case(&self) -> Self {
        let lower = |records: &[Record]| records.iter().map(Record::in_lower_case).collect();
        Self {
            answers: lower(&self.answers),
            authority: lower(&self.authority),
            additional: lower(&self.additional),
            ..self.clone()
        }
    }

    /// Returns whether the TC bit is set.
    pub fn is_truncated(&self) -> bool {
        self.bits & 0x0200 != 0
    }

    /// Returns whether the AA bit is set.
    pub fn is_authoritative(&self) -> bool {
        self.bits & 0x0400 != 0
    }

    /// Returns the names of the set bits in the order of the header: `qr aa tc rd ra z ad cd`.
    pub fn flags(&self) -> String {
        let names = ["qr", "aa", "tc", "rd", "ra", "z", "ad", "cd"];
        let masks = [
            0x8000, 0x0400, 0x0200, 0x0100, 0x0080, 0x0040, 0x0020, 0x0010,
        ];
        let set = names.iter().zip(masks);
        let set = set.filter(|(_, mask)| self.bits & mask != 0);
        let set: Vec<&str> = set.map(|(name, _)| *name).collect();
        set.join(" ")
    }

    /// Returns the mnemonic of the response code: `NOERROR`, `NXDOMAIN`.
    pub fn status(&self) -> String {
        rcode_name(self.rcode)
    }

    /// Returns the first EDNS option with this code in hexadecimal.
    pub fn option(&self, code: u16) -> Option<String> {
        let mut options = self.opt.iter().flat_map(|opt| &opt.options);
        let option = options.find(|(own, _)| *own == code);
        option.map(|(_, value)| hex(value))
    }

    /// Returns the RDATA of the answers in their order.
    pub fn data(&self) -> Vec<&str> {
        let answers = self.answers.iter();
        answers.map(|record| record.data.as_str()).collect()
    }

    /// Returns the RDATA of the answers as a set. Fails if a record occurs twice.
    pub fn data_set(&self) -> BTreeSet<String> {
        let data: BTreeSet<String> = self.data().into_iter().map(str::to_owned).collect();
        assert_eq!(data.len(), self.answers.len(), "{:#?}", self.answers);
        data
    }

    /// Returns the sorted RDATA of the answers, `NODATA`, or the response code.
    pub fn outcome(&self) -> String {
        match (self.rcode, self.answers.is_empty()) {
            (0, true) => "NODATA".to_owned(),
            (0, false) => Vec::from_iter(self.data_set()).join(" "),
            _ => self.status(),
        }
    }
}

// === impl Record ===

impl Record {
    /// Returns the record in lower case.
    pub fn in_lower_case(&self) -> Self {
        Self {
            owner: self.owner.to_lowercase(),
            data: self.data.to_lowercase(),
            ..*self
        }
    }

    /// Formats the record in zone file syntax. Replaces the serial of a SOA record by `SERIAL`.
    pub fn text(&self) -> String {
        let mut record = self.clone();
        if self.rtype == rtype::SOA {
            let mut fields: Vec<&str> = self.data.split(' ').collect();
            fields[2] = "SERIAL";
            record.data = fields.join(" ");
        }
        record.to_string()
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (class, rtype) = (class_name(self.class), type_name(self.rtype));
        let (owner, ttl, data) = (&self.owner, self.ttl, &self.data);
        write!(f, "{owner} {ttl} {class} {rtype} {data}")
    }
}

/// Formats records in zone file syntax and sorts them.
pub fn sorted_texts(records: &[Record]) -> Vec<String> {
    let mut texts: Vec<String> = records.iter().map(Record::text).collect();
    texts.sort();
    texts
}

#[cfg(test)]
mod tests {
    use super::super::query::query;
    use super::Reply;

    #[test]
    fn message_with_missing_or_surplus_octets_is_an_error() {
        let mut whole = query("db.prod.global. A").0;
        whole[7] = 1;
        whole.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4, 192, 0, 2, 1]);
        let reply = Reply::read(&whole).unwrap();
        assert_eq!(
            reply.answers[0].to_string(),
            "db.prod.global. 5 IN A 192.0.2.1"
        );
        for length in 0..whole.len() {
            assert!(Reply::read(&whole[..length]).is_err(), "{length}");
        }
        whole.push(0);
        assert!(Reply::read(&whole).is_err());
    }
}
