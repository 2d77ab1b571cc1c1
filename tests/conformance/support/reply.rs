//! A reply, decoded by hickory-proto, and by a second decoder that must agree where a run uses one.

use std::fmt::Write as _;

use hickory_proto::op::Message as HickoryMessage;
use hickory_proto::rr::rdata::opt::EdnsCode;
use hickory_proto::rr::{RData, Record};
use serde::Deserialize;

use super::second_decoder;

/// What both decoders see.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Message {
    /// Extended by EDNS.
    pub rcode: u16,
    pub opcode: u8,
    pub questions: usize,
    /// Records as in a zone file.
    pub answer: Vec<String>,
    pub authority: Vec<String>,
    pub additional: Vec<String>,
    pub opt: Option<Opt>,
}

/// An OPT record.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Opt {
    pub version: u8,
    pub payload: u16,
    pub flags: u16,
    /// Codes, and values in hexadecimal.
    pub options: Vec<(u16, String)>,
}

/// Decodes a reply. Fails if a decoder cannot, or if they disagree.
pub fn decode(bytes: &[u8]) -> Message {
    let ours = HickoryMessage::from_vec(bytes).unwrap_or_else(|error| {
        panic!(
            "hickory-proto cannot decode the reply: {error}\n{}",
            hex(bytes)
        )
    });
    let ours = by_hickory(&ours);
    if let Some(theirs) = second_decoder::decode(bytes) {
        let theirs = theirs.unwrap_or_else(|error| panic!("dnspython: {error}\n{}", hex(bytes)));
        assert_eq!(
            ours,
            theirs,
            "hickory-proto (left) and dnspython (right) decode differently: {}",
            hex(bytes)
        );
    }
    ours
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn by_hickory(message: &HickoryMessage) -> Message {
    let texts = |records: &[Record]| records.iter().map(text).collect();
    let opt = message.edns.as_ref().map(|edns| {
        let option = |(code, option): &(EdnsCode, _)| {
            let value: Vec<u8> = Vec::try_from(option).unwrap();
            (u16::from(*code), hex(&value))
        };
        Opt {
            version: edns.version(),
            payload: edns.max_payload(),
            flags: u16::from(*edns.flags()),
            options: edns.options().options.iter().map(option).collect(),
        }
    });
    Message {
        rcode: message.metadata.response_code.into(),
        opcode: message.metadata.op_code.into(),
        questions: message.queries.len(),
        answer: texts(&message.answers),
        authority: texts(&message.authorities),
        additional: texts(&message.additionals),
        opt,
    }
}

/// Writes a record as in a zone file; types that no answer of ours has fail.
fn text(record: &Record) -> String {
    let mut text = format!(
        "{} {} {} {} ",
        record.name,
        record.ttl,
        record.dns_class,
        record.record_type()
    );
    match &record.data {
        RData::A(ip) => write!(text, "{ip}"),
        RData::AAAA(ip) => write!(text, "{ip}"),
        RData::NS(name) => write!(text, "{name}"),
        RData::SRV(srv) => write!(
            text,
            "{} {} {} {}",
            srv.priority, srv.weight, srv.port, srv.target
        ),
        RData::SOA(soa) => write!(
            text,
            "{} {} {} {} {} {} {}",
            soa.mname, soa.rname, soa.serial, soa.refresh, soa.retry, soa.expire, soa.minimum
        ),
        RData::TXT(txt) => {
            let strings = txt.txt_data.iter();
            let strings: Vec<_> = strings
                .map(|string| format!("\"{}\"", string.escape_ascii()))
                .collect();
            write!(text, "{}", strings.join(" "))
        }
        other => panic!("no answer of ours has a record like {other:?}"),
    }
    .unwrap();
    text
}
