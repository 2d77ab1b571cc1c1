//! Replies, read strictly, to their last octet, by code that shares nothing with the server's. hickory-proto reads each of
//! them, too, and must read the same.

mod foreign;

use std::collections::BTreeSet;
use std::fmt;

use crate::codes::{class_name, rcode_name, type_name};
use crate::query::hex;
use crate::reader::{Reader, Result};

/// The types of which [`Record::data`] is as in a zone file.
pub mod rtype {
    /// An IPv4 address.
    pub const A: u16 = 1;
    /// A name server.
    pub const NS: u16 = 2;
    /// The start of a zone.
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
    /// All of them.
    pub const ANY: u16 = 255;
}

/// A message, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The identifier.
    pub id: u16,
    /// The second word of the header, without operation and response code.
    pub bits: u16,
    /// The operation.
    pub opcode: u8,
    /// The response code, with the higher bits of the OPT record.
    pub rcode: u16,
    /// What was asked, as it was written.
    pub questions: Vec<Asked>,
    /// The answer section.
    pub answers: Vec<Record>,
    /// The authority section.
    pub authority: Vec<Record>,
    /// The additional section without the OPT record.
    pub additional: Vec<Record>,
    /// The OPT record.
    pub opt: Option<Opt>,
    /// Octets of the message.
    pub octets: usize,
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// With a final dot.
    pub name: String,
    /// The type.
    pub rtype: u16,
    /// The class.
    pub class: u16,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    /// With a final dot.
    pub owner: String,
    /// The type.
    pub rtype: u16,
    /// The class.
    pub class: u16,
    /// The TTL.
    pub ttl: u32,
    /// As in a zone file for the types that we serve, hexadecimal for others.
    pub data: String,
}

/// What an OPT record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opt {
    /// The version of EDNS.
    pub version: u8,
    /// Octets that are taken over UDP.
    pub payload: u16,
    /// DO, and bits that nobody has given a meaning.
    pub flags: u16,
    /// Codes and values.
    pub options: Vec<(u16, Vec<u8>)>,
}

// === impl Reply ===

impl Reply {
    /// Reads a message that ends where its last record does.
    pub fn read(octets: &[u8]) -> Result<Self> {
        let (read, reader) = Self::read_start(octets)?;
        reader.end()?;
        foreign::check_same(octets, &read)?;
        Ok(read)
    }

    /// Reads what begins with a message: hickory-server leaves octets of what it has cut behind the rest.
    pub fn read_cut(octets: &[u8]) -> Result<Self> {
        Ok(Self::read_start(octets)?.0)
    }

    fn read_start(octets: &[u8]) -> Result<(Self, Reader<'_>)> {
        let mut reader = Reader::new(octets);
        let (id, word) = (reader.number()?, reader.number()?);
        let counts: Vec<u16> = (0..4).map(|_| reader.number()).collect::<Result<_>>()?;
        let questions = (0..counts[0]).map(|_| {
            Ok(Asked {
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
                        return Err("a second OPT record, or one that is not at the root".into());
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
        Ok((read, reader))
    }

    /// The same without what differs between replies to one question: the identifier and the size.
    #[must_use]
    pub fn content(self) -> Self {
        Self {
            id: 0,
            octets: 0,
            ..self
        }
    }

    /// The same with names in lower case.
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

    /// Whether records are missing: TC.
    pub fn is_truncated(&self) -> bool {
        self.bits & 0x0200 != 0
    }

    /// Whether the server is one of the zone: AA.
    pub fn is_authoritative(&self) -> bool {
        self.bits & 0x0400 != 0
    }

    /// Bits that are set, in the order of the header: `qr aa tc rd ra z ad cd`.
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

    /// The name of the response code: `NOERROR`, `NXDOMAIN`.
    pub fn status(&self) -> String {
        rcode_name(self.rcode)
    }

    /// The first EDNS option with this code, in hexadecimal.
    pub fn option(&self, code: u16) -> Option<String> {
        let mut options = self.opt.iter().flat_map(|opt| &opt.options);
        let found = options.find(|(own, _)| *own == code);
        found.map(|(_, value)| hex(value))
    }

    /// The extended error (RFC 8914).
    pub fn extended_error(&self) -> Option<u16> {
        let option = self.option(15)?;
        u16::from_str_radix(&option[..4], 16).ok()
    }

    /// The data of the answers, in their order.
    pub fn data(&self) -> Vec<&str> {
        let answers = self.answers.iter();
        answers.map(|record| record.data.as_str()).collect()
    }

    /// The data of the answers. Fails if a record occurs twice.
    pub fn data_set(&self) -> BTreeSet<String> {
        let data: BTreeSet<String> = self.data().into_iter().map(str::to_owned).collect();
        assert_eq!(data.len(), self.answers.len(), "{:#?}", self.answers);
        data
    }

    /// The data of the answers in some order, `NODATA`, or the response code.
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
    /// The same in lower case, for who compares names.
    pub fn in_lower_case(&self) -> Self {
        Self {
            owner: self.owner.to_lowercase(),
            data: self.data.to_lowercase(),
            ..*self
        }
    }

    /// As in a zone file; serials, which differ, are replaced by the word.
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

// === impl Opt ===

impl Opt {
    /// Whether the client wants records of DNSSEC: DO.
    pub fn is_dnssec_ok(&self) -> bool {
        self.flags & 0x8000 != 0
    }
}

/// Texts of records, sorted.
pub fn sorted_texts(records: &[Record]) -> Vec<String> {
    let mut texts: Vec<String> = records.iter().map(Record::text).collect();
    texts.sort();
    texts
}

#[cfg(test)]
mod tests {
    use super::Reply;
    use crate::query::query;

    #[test]
    fn a_message_with_a_record_cut_short_or_with_more_than_its_records_is_not_read() {
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
