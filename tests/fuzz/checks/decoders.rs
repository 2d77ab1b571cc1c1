//! Decodes replies with other libraries: the test reader, which also uses hickory-proto, and `domain` of NLnet Labs.

use std::net::IpAddr;

use domain::base::Message as DomainMessage;
use domain::rdata::AllRecordData;
use support::reply::{Reply, rtype};

/// The parts of a reply that both decoders return.
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

/// Decodes a reply with both decoders.
///
/// # Panics
///
/// If a decoder fails, or if the results differ.
pub fn decode(reply: &[u8], over: &str) -> Decoded {
    let one = decode_with_reader(reply).unwrap_or_else(|e| panic!("{over}: {e}: {reply:?}"));
    let other =
        decode_with_domain(reply).unwrap_or_else(|e| panic!("{over}: domain: {e}: {reply:?}"));
    assert_eq!(one, other, "{over}: the decoders disagree: {reply:?}");
    one
}

fn decode_with_reader(reply: &[u8]) -> Result<Decoded, String> {
    let read = Reply::read(reply)?.in_lower_case();
    let addresses = |records: &[support::reply::Record]| -> Vec<IpAddr> {
        let own = records.iter();
        let own = own.filter(|record| [rtype::A, rtype::AAAA].contains(&record.rtype));
        own.map(|record| record.data.parse().unwrap()).collect()
    };
    let targets = read.answers.iter();
    let targets = targets.filter(|record| record.rtype == rtype::SRV);
    let target = |data: &str| data.rsplit(' ').next().unwrap_or_default().to_owned();
    Ok(Decoded {
        rcode: read.rcode,
        is_authoritative: read.is_authoritative(),
        is_truncated: read.is_truncated(),
        has_edns: read.opt.is_some(),
        counts: [&read.answers, &read.authority, &read.additional].map(|records| records.len()),
        addresses: addresses(&read.answers),
        additional: addresses(&read.additional),
        targets: targets.map(|record| target(&record.data)).collect(),
        ttls: read.answers.iter().map(|record| record.ttl).collect(),
    })
}

fn decode_with_domain(reply: &[u8]) -> Result<Decoded, String> {
    let message = DomainMessage::from_octets(reply).map_err(|e| e.to_string())?;
    let message_of = |e: domain::base::wire::ParseError| e.to_string();
    let (_, answer, authority, additional) = message.sections().map_err(message_of)?;
    for question in message.question() {
        question.map_err(message_of)?;
    }
    let header = message.header();
    let mut decoded = Decoded {
        rcode: message.opt_rcode().to_int(),
        is_authoritative: header.aa(),
        is_truncated: header.tc(),
        has_edns: message.opt().is_some(),
        counts: [0; 3],
        addresses: Vec::new(),
        additional: Vec::new(),
        targets: Vec::new(),
        ttls: Vec::new(),
    };
    for (index, section) in [answer, authority, additional].into_iter().enumerate() {
        for record in section {
            let record = record
                .map_err(message_of)?
                .to_any_record::<AllRecordData<_, _>>()
                .map_err(message_of)?;
            let address = match record.data() {
                AllRecordData::Opt(opt) => {
                    for option in opt.iter::<domain::base::opt::AllOptData<_, _>>() {
                        option.map_err(message_of)?;
                    }
                    continue;
                }
                AllRecordData::A(a) => Some(IpAddr::V4(a.addr())),
                AllRecordData::Aaaa(aaaa) => Some(IpAddr::V6(aaaa.addr())),
                AllRecordData::Srv(srv) if index == 0 => {
                    decoded.targets.push(text(srv.target()));
                    None
                }
                _ => None,
            };
            decoded.counts[index] += 1;
            match index {
                0 => {
                    decoded.addresses.extend(address);
                    decoded.ttls.push(record.ttl().as_secs());
                }
                2 => decoded.additional.extend(address),
                _ => {}
            }
        }
    }
    Ok(decoded)
}

fn text(name: &impl domain::base::ToName) -> String {
    name.fmt_with_dot().to_string().to_ascii_lowercase()
}
