//! Questions over UDP and TCP, and replies as texts that can be compared whole.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use hickory_proto::op::{Edns, Message, Query};
use hickory_proto::rr::rdata::opt::EdnsOption;
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};

use super::assert_none;
pub use super::wire::Over;
use super::wire::exchange;

/// A query that is not answered within this time counts as failed.
const PATIENCE: Duration = Duration::from_secs(10);

/// A question with everything that a client can say beside it.
#[derive(Clone, Debug)]
pub struct Question {
    pub name: String,
    pub rtype: u16,
    pub class: u16,
    pub opcode: u8,
    /// EDNS: UDP payload size.
    pub edns: Option<u16>,
    pub edns_version: u8,
    pub dnssec_ok: bool,
    pub recursion_desired: bool,
    pub authentic_data: bool,
    pub checking_disabled: bool,
}

/// A reply, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// `NOERROR`, `NXDOMAIN`, …
    pub rcode: String,
    /// Bits that are set, in the order of the header: `qr aa tc rd ra z ad cd`.
    pub flags: String,
    /// `db.prod.global. IN A`
    pub question: Vec<String>,
    /// Records as in a zone file, in the order of the message.
    pub answers: Vec<String>,
    /// The same; an SOA's serial is replaced by the word.
    pub authority: Vec<String>,
    pub additional: Vec<String>,
    /// What the OPT record says.
    pub edns: Option<EdnsSeen>,
    /// Octets of the message.
    pub octets: usize,
}

/// An OPT record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdnsSeen {
    pub version: u8,
    pub dnssec_ok: bool,
    /// Extended DNS Error (RFC 8914).
    pub error: Option<u16>,
}

/// A question as people write it: `db.prod.global. A`, `… TYPE666`.
pub fn question(text: &str) -> Question {
    let (name, rtype) = text.split_once(' ').unwrap();
    Question {
        name: name.to_owned(),
        rtype: number_of(rtype),
        class: 1,
        opcode: 0,
        edns: None,
        edns_version: 0,
        dnssec_ok: false,
        recursion_desired: false,
        authentic_data: false,
        checking_disabled: false,
    }
}

/// Reads an absolute name as in a zone file: `\.` and `\DDD` stand for octets (RFC 1035 section 5.1).
fn name(text: &str) -> Name {
    let mut labels = vec![Vec::new()];
    let mut rest = text.as_bytes();
    while let [octet, after @ ..] = rest {
        rest = after;
        match (octet, after) {
            (b'.', _) => labels.push(Vec::new()),
            (b'\\', [a @ b'0'..=b'9', b, c, after @ ..]) => {
                let digits = [*a, *b, *c];
                let digits = std::str::from_utf8(&digits).unwrap();
                labels.last_mut().unwrap().push(digits.parse().unwrap());
                rest = after;
            }
            (b'\\', [octet, after @ ..]) => {
                labels.last_mut().unwrap().push(*octet);
                rest = after;
            }
            (octet, _) => labels.last_mut().unwrap().push(*octet),
        }
    }
    let labels = labels.iter().filter(|label| !label.is_empty());
    let mut name = Name::from_labels(labels.map(Vec::as_slice)).unwrap();
    name.set_fqdn(true);
    name
}

fn number_of(rtype: &str) -> u16 {
    match rtype.strip_prefix("TYPE") {
        Some(number) => number.parse().unwrap(),
        None => u16::from(rtype.parse::<RecordType>().unwrap()),
    }
}

// === impl Question ===

impl Question {
    /// Says EDNS, with this payload size.
    #[must_use]
    pub fn edns(mut self, payload: u16) -> Self {
        self.edns = Some(payload);
        self
    }

    /// The message in wire format, with an identifier of its own.
    pub fn packet(&self) -> Vec<u8> {
        let mut query = Query::query(name(&self.name), RecordType::from(self.rtype));
        query.set_query_class(DNSClass::from(self.class));
        let mut message = Message::query();
        message.add_query(query);
        message.metadata.recursion_desired = self.recursion_desired;
        message.metadata.authentic_data = self.authentic_data;
        message.metadata.checking_disabled = self.checking_disabled;
        if let Some(payload) = self.edns {
            let mut edns = Edns::new();
            edns.set_max_payload(payload)
                .set_version(self.edns_version)
                .set_dnssec_ok(self.dnssec_ok);
            message.set_edns(edns);
        }
        let mut packet = message.to_vec().unwrap();
        packet[2] |= self.opcode << 3;
        packet
    }

    /// Asks, and fails without an answer.
    pub fn ask(&self, server: SocketAddr, over: Over) -> Reply {
        let packet = self.packet();
        let bytes = exchange(server, &packet, over, PATIENCE);
        let bytes = bytes.unwrap_or_else(|error| panic!("{} over {over:?}: {error}", self.name));
        assert_eq!(bytes[..2], packet[..2], "the identifier of {}", self.name);
        Reply::read(&bytes)
    }

    /// Asks as resolvers do: over UDP, then over TCP if the answer was cut.
    pub fn resolve(&self, server: SocketAddr) -> Reply {
        let reply = self.ask(server, Over::Udp);
        match reply.has_flag("tc") {
            true => self.ask(server, Over::Tcp),
            false => reply,
        }
    }
}

// === impl Reply ===

impl Reply {
    /// Reads a message.
    pub fn read(bytes: &[u8]) -> Self {
        let message = Message::from_vec(bytes).unwrap();
        let bits = u16::from_be_bytes([bytes[2], bytes[3]]);
        let names = ["qr", "aa", "tc", "rd", "ra", "z", "ad", "cd"];
        let masks = [
            0x8000, 0x0400, 0x0200, 0x0100, 0x0080, 0x0040, 0x0020, 0x0010,
        ];
        let flags = names.iter().zip(masks).filter(|(_, mask)| bits & mask != 0);
        let flags: Vec<&str> = flags.map(|(name, _)| *name).collect();
        let question =
            |query: &Query| format!("{} {} {}", query.name, query.query_class, query.query_type);
        let texts = |records: &[Record]| records.iter().map(text).collect();
        Self {
            rcode: rcode_name(u16::from(message.metadata.response_code)),
            flags: flags.join(" "),
            question: message.queries.iter().map(question).collect(),
            answers: texts(&message.answers),
            authority: texts(&message.authorities),
            additional: texts(&message.additionals),
            edns: message.edns.as_ref().map(edns_seen),
            octets: bytes.len(),
        }
    }

    pub fn has_flag(&self, flag: &str) -> bool {
        self.flags.split(' ').any(|own| own == flag)
    }

    /// The data of the answers, sorted: `10.96.0.7`. Fails if a record occurs twice.
    pub fn data(&self) -> BTreeSet<String> {
        let data = self
            .answers
            .iter()
            .map(|record| record.splitn(5, ' ').last().unwrap().to_owned());
        let data: BTreeSet<String> = data.collect();
        assert_eq!(data.len(), self.answers.len(), "{:#?}", self.answers);
        data
    }

    /// NOERROR with these data, NODATA, or the code.
    pub fn outcome(&self) -> String {
        match (self.rcode.as_str(), self.answers.is_empty()) {
            ("NOERROR", true) => "NODATA".to_owned(),
            ("NOERROR", false) => self.data().into_iter().collect::<Vec<_>>().join(" "),
            (code, _) => code.to_owned(),
        }
    }
}

fn text(record: &Record) -> String {
    let text = record.to_string();
    if let RData::SOA(soa) = &record.data {
        return text.replacen(&format!(" {} ", soa.serial), " SERIAL ", 1);
    }
    text
}

fn edns_seen(edns: &Edns) -> EdnsSeen {
    let error = edns.options().options.iter().find_map(|(_, option)| {
        let EdnsOption::Unknown(15, data) = option else {
            return None;
        };
        Some(u16::from_be_bytes([data[0], data[1]]))
    });
    EdnsSeen {
        version: edns.version(),
        dnssec_ok: edns.flags().dnssec_ok,
        error,
    }
}

fn rcode_name(code: u16) -> String {
    let name = match code {
        0 => "NOERROR",
        1 => "FORMERR",
        2 => "SERVFAIL",
        3 => "NXDOMAIN",
        4 => "NOTIMP",
        5 => "REFUSED",
        16 => "BADVERS",
        other => return format!("RCODE{other}"),
    };
    name.to_owned()
}

// === Tables of cases ===

/// What a question should get.
#[derive(Clone, Debug)]
pub enum Expect {
    /// Authoritative, exactly these records in any order, nothing in the authority section.
    Records(BTreeSet<String>),
    /// NOERROR, authoritative, no record, the zone's SOA record.
    NoData(&'static str),
    /// NXDOMAIN, authoritative, the zone's SOA record.
    NxDomain(&'static str),
    /// REFUSED, not authoritative, nothing at all.
    Refused,
}

/// An RRset, written as in a zone file: owner, TTL and type, then the data.
pub fn rrset(owner: &str, ttl_and_type: &str, data: &[&str]) -> Expect {
    let (ttl, rtype) = ttl_and_type.split_once(' ').unwrap();
    let record = |data: &&str| format!("{owner} {ttl} IN {rtype} {data}");
    Expect::Records(data.iter().map(record).collect())
}

pub fn nodata() -> Expect {
    Expect::NoData("global.")
}

pub fn nxdomain() -> Expect {
    Expect::NxDomain("global.")
}

/// Asks every question over UDP and TCP, with EDNS and without, and compares whole replies, the additional section aside.
pub fn check(server: SocketAddr, cases: &[(&str, &str, Expect)]) {
    let mut differences = Vec::new();
    for (what, asked, expected) in cases {
        for over in [Over::Udp, Over::Tcp] {
            for question in [question(asked), question(asked).edns(1232)] {
                let reply = question.ask(server, over);
                let seen = (
                    reply.rcode.clone(),
                    reply.flags.clone(),
                    sorted(&reply.answers),
                    reply.authority.clone(),
                    reply.edns,
                );
                let wanted = expected.in_full(question.edns.is_some());
                if seen != wanted {
                    differences.push(format!(
                        "{what} ({asked}, {over:?}, EDNS {:?}):\n  got    {seen:?}\n  wanted {wanted:?}",
                        question.edns
                    ));
                }
            }
        }
    }
    assert_none(&differences);
}

type InFull = (String, String, Vec<String>, Vec<String>, Option<EdnsSeen>);

impl Expect {
    fn in_full(&self, has_edns: bool) -> InFull {
        let soa = |zone: &str| {
            vec![format!(
                "{zone} 5 IN SOA ns.dns.{zone} hostmaster.{zone} SERIAL 7200 1800 86400 5"
            )]
        };
        let (rcode, flags, answers, authority, error) = match self {
            Self::Records(records) => {
                let records = records.iter().cloned().collect();
                ("NOERROR", "qr aa", records, Vec::new(), None)
            }
            Self::NoData(zone) => ("NOERROR", "qr aa", Vec::new(), soa(zone), None),
            Self::NxDomain(zone) => ("NXDOMAIN", "qr aa", Vec::new(), soa(zone), None),
            Self::Refused => ("REFUSED", "qr", Vec::new(), Vec::new(), Some(20)),
        };
        let edns = EdnsSeen {
            version: 0,
            dnssec_ok: false,
            error,
        };
        (
            rcode.to_owned(),
            flags.to_owned(),
            answers,
            authority,
            has_edns.then_some(edns),
        )
    }
}

fn sorted(texts: &[String]) -> Vec<String> {
    let mut texts = texts.to_vec();
    texts.sort();
    texts
}
