//! The parts of a reply that the checks compare. The reader of the tests decodes it, and compares that with hickory-proto.

use std::net::IpAddr;

use support::reply::{Record, Reply, rtype};

/// The parts of a reply.
#[derive(Debug, PartialEq)]
pub struct Decoded {
    pub rcode: u16,
    pub is_authoritative: bool,
    pub is_truncated: bool,
    pub has_edns: bool,
    /// Numbers of records in the answer, authority and additional sections, without OPT.
    pub counts: [usize; 3],
    /// Addresses in the answer section, in its order.
    pub addresses: Vec<IpAddr>,
    /// Addresses in the additional section.
    pub additional: Vec<IpAddr>,
    /// Targets of SRV records in the answer section, lower case with a final dot.
    pub targets: Vec<String>,
    /// TTLs in the answer section.
    pub ttls: Vec<u32>,
}

/// Decodes a reply.
///
/// # Panics
///
/// If it is malformed.
pub fn decode(reply: &[u8], over: &str) -> Decoded {
    let read = Reply::read(reply).unwrap_or_else(|error| panic!("{over}: {error}: {reply:?}"));
    let read = read.in_lower_case();
    let addresses = |records: &[Record]| -> Vec<IpAddr> {
        let own = records.iter();
        let own = own.filter(|record| [rtype::A, rtype::AAAA].contains(&record.rtype));
        own.map(|record| record.data.parse().unwrap()).collect()
    };
    let targets = read.answers.iter();
    let targets = targets.filter(|record| record.rtype == rtype::SRV);
    let target = |data: &str| data.rsplit(' ').next().unwrap_or_default().to_owned();
    Decoded {
        rcode: read.rcode,
        is_authoritative: read.is_authoritative(),
        is_truncated: read.is_truncated(),
        has_edns: read.opt.is_some(),
        counts: [&read.answers, &read.authority, &read.additional].map(|records| records.len()),
        addresses: addresses(&read.answers),
        additional: addresses(&read.additional),
        targets: targets.map(|record| target(&record.data)).collect(),
        ttls: read.answers.iter().map(|record| record.ttl).collect(),
    }
}
