//! Comparison of a parsed reply with the result of hickory-proto.

use hickory_proto::op::{Edns, Message};
use hickory_proto::rr::{RData, Record as HickoryRecord};

use super::super::query::hex;
use super::super::reader::Result;
use super::{Opt, Record, Reply, rtype};

/// Fails unless hickory-proto parses the reply with the same result.
pub(super) fn check_same(octets: &[u8], ours: &Reply) -> Result<()> {
    let theirs = Message::from_vec(octets).map_err(|error| {
        format!(
            "hickory-proto cannot parse the reply: {error}: {}",
            hex(octets)
        )
    })?;
    let header = &theirs.metadata;
    let same = [
        u16::from(header.response_code) == ours.rcode,
        u8::from(header.op_code) == ours.opcode,
        header.authoritative == ours.is_authoritative(),
        header.truncation == ours.is_truncated(),
        theirs.queries.len() == ours.questions.len(),
        theirs.edns.as_ref().map(opt) == ours.opt,
        are_same(&theirs.answers, &ours.answers),
        are_same(&theirs.authorities, &ours.authority),
        are_same(&theirs.additionals, &ours.additional),
    ];
    if same.contains(&false) {
        Err(format!(
            "hickory-proto parses {theirs:?} instead of {ours:?}"
        ))
    } else {
        Ok(())
    }
}

fn opt(edns: &Edns) -> Opt {
    let options = edns.options().options.iter().map(|(code, option)| {
        let value = Vec::try_from(option).unwrap();
        (u16::from(*code), value)
    });
    Opt {
        version: edns.version(),
        payload: edns.max_payload(),
        flags: u16::from(*edns.flags()),
        options: options.collect(),
    }
}

fn are_same(theirs: &[HickoryRecord], ours: &[Record]) -> bool {
    theirs.len() == ours.len()
        && theirs.iter().zip(ours).all(|(theirs, ours)| {
            let head = (
                u16::from(theirs.record_type()),
                u16::from(theirs.dns_class),
                theirs.ttl,
            );
            head == (ours.rtype, ours.class, ours.ttl)
                && is_same(&theirs.name.to_string(), &ours.owner)
                && has_data(&theirs.data, ours)
        })
}

/// Returns whether texts are equal. Accepts any text with escapes, because the libraries escape differently.
fn is_same(theirs: &str, ours: &str) -> bool {
    theirs == ours || ours.contains('\\')
}

fn has_data(theirs: &RData, ours: &Record) -> bool {
    let text = match theirs {
        RData::A(address) => address.to_string(),
        RData::AAAA(address) => address.to_string(),
        RData::NS(name) => name.to_string(),
        RData::PTR(name) => name.to_string(),
        RData::SRV(srv) => {
            let (priority, weight, port) = (srv.priority, srv.weight, srv.port);
            format!("{priority} {weight} {port} {}", srv.target)
        }
        RData::SOA(soa) => format!(
            "{} {} {} {} {} {} {}",
            soa.mname, soa.rname, soa.serial, soa.refresh, soa.retry, soa.expire, soa.minimum
        ),
        RData::TXT(text) => {
            let strings = text.txt_data.iter();
            let strings = strings.map(|string| format!("\"{}\"", string.escape_ascii()));
            strings.collect::<Vec<_>>().join(" ")
        }
        // Other types have RDATA in hexadecimal on our side.
        _ => return ![rtype::A, rtype::AAAA, rtype::SRV, rtype::SOA].contains(&ours.rtype),
    };
    is_same(&text, &ours.data)
}
