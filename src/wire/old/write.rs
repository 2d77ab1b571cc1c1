//! [`Reply`] → bytes. A writer without rules of its own: it renders what [`respond`](respond()) decided, as far
//! as it fits.
//!
//! OPT is reserved first (RFC 6891 section 7). Records are written whole or not at all, and so are the RRsets of the
//! additional section; TC is set if and only if the answer section is incomplete (RFC 2181 section 9). Owner names point
//! into the question, which is echoed as it came, so they take the case that was asked in; SRV targets are written out,
//! lower case (RFC 2782).

mod record;

use std::ops::ControlFlow;

pub use record::whole_answer;
use record::{host_length, pointer};

use super::order::visit_rows;
use crate::zone::Order;
use crate::wire::query::{CLASS_CH, CLASS_IN, HEADER, Query, Reject, option};
use crate::wire::respond::{Body, PADDING_BLOCK, Reply, ReplyEdns};
use crate::zone::answer::addresses_of;
use super::print::DNS_VERSION;
use crate::zone::{Answer, RecordType, RowData, View};

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Octets.
    pub length: usize,
    /// The answer section is incomplete, and TC is set.
    pub is_truncated: bool,
}

/// Writes a reply to the message `packet`, which `query` was read from. `out` takes at least 512 octets.
pub fn write(
    reply: &Reply<'_>,
    query: &Result<Query, Reject>,
    packet: &[u8],
    out: &mut [u8],
) -> Written {
    let opt = reply.edns.as_ref().map_or(0, opt_length);
    let limit = usize::from(reply.limit).min(out.len());
    let mut message = Message {
        out,
        length: HEADER,
        limit: limit - opt,
        counts: [0; 4],
    };
    let question = match query {
        Ok(query) => query.question(),
        Err(Reject::With { question, .. }) => *question,
        Err(Reject::Drop) => 0,
    };
    if question > 0 && message.put(&packet[HEADER..HEADER + question]) {
        message.counts[QUESTION] = 1;
    }
    let complete = match (&reply.body, query) {
        (Body::Answer(answer), Ok(query)) => message.put_answer(answer, reply, query),
        (Body::Chaos(text), Ok(_)) => message.put_text(CLASS_CH, 0, text),
        (Body::ByTcp, _) => false,
        (Body::Code, _) | (_, Err(_)) => true,
    };
    message.limit = limit;
    if let Some(edns) = &reply.edns {
        message.put_opt(edns, reply);
    }
    message.finish(reply, packet, !complete)
}

const QUESTION: usize = 0;
const ANSWER: usize = 1;
const AUTHORITY: usize = 2;
const ADDITIONAL: usize = 3;

/// A pointer to the name of the question (RFC 1035 section 4.1.4).
const QNAME: [u8; 2] = [0xc0, HEADER as u8];

/// Octets of an SRV record before its target: a pointer, the fixed part, priority, weight and port.
const SRV_DATA: usize = 12 + 6;

/// Octets of an OPT record without options.
const OPT: usize = 11;

/// A message that is being written.
struct Message<'o> {
    out: &'o mut [u8],
    length: usize,
    limit: usize,
    /// QDCOUNT, ANCOUNT, NSCOUNT, ARCOUNT.
    counts: [u16; 4],
}

// === Sections ===

impl Message<'_> {
    /// Writes the sections of an answer; `false` if the answer section is incomplete.
    fn put_answer(&mut self, answer: &Answer<'_>, reply: &Reply<'_>, query: &Query) -> bool {
        match answer {
            Answer::Data(_, view, rtype) => self.put_rows(view, *rtype, reply, query),
            Answer::Soa(zone) => self.put_soa(ANSWER, zone, reply.serial, HEADER),
            Answer::Ns(zone) => {
                let name_at = HEADER + query.question() + 12;
                let is_whole =
                    self.put_record(ANSWER, &QNAME, RecordType::NS, CLASS_IN, zone.ttl, |data| {
                        data.put(b"\x02ns\x03dns") && data.put(&QNAME)
                    });
                let owner = pointer(name_at);
                let _ = [RecordType::A, RecordType::AAAA].into_iter().all(|rtype| {
                    let mut ips = addresses_of(zone, rtype);
                    self.put_rrset(|rrset| {
                        ips.all(|ip| rrset.put_address(ADDITIONAL, &owner, zone.ttl, ip))
                    })
                });
                is_whole
            }
            Answer::Address(zone, rtype) => {
                let mut ips = addresses_of(zone, *rtype);
                ips.all(|ip| self.put_address(ANSWER, &QNAME, zone.ttl, ip))
            }
            Answer::Text(zone) => self.put_text(CLASS_IN, zone.ttl, DNS_VERSION.as_bytes()),
            Answer::Pointers(zone, pointers) => {
                let (ttl, mut endpoints) = (pointers.ttl(), pointers.endpoints());
                endpoints
                    .all(|(service, endpoint)| self.put_pointer(zone, ttl, &service.key, endpoint))
            }
            Answer::NoData(zone) | Answer::NxDomain(zone) => {
                let apex_at = HEADER + query.name.wire().len() - zone.name.wire().len();
                // Too long a name for the SOA record to fit does not exist: it takes less than 80 octets.
                self.put_soa(AUTHORITY, zone, reply.serial, apex_at);
                true
            }
            Answer::Refused | Answer::NotReady | Answer::Expired => true,
        }
    }

    /// Writes rows, and those RRsets of SRV targets' addresses that fit; `false` if the rows are incomplete.
    fn put_rows(
        &mut self,
        view: &View<'_>,
        rtype: RecordType,
        reply: &Reply<'_>,
        query: &Query,
    ) -> bool {
        let ttl = view.service.ttl;
        if let (Some(own), Some(turn)) = (view.own_name(), rotation(reply)) {
            match rtype {
                RecordType::A => return self.put_addresses(&own.v4, turn, ttl),
                RecordType::AAAA => return self.put_addresses(&own.v6, turn, ttl),
                _ => {}
            }
        }
        let tail = super::target_tail(view, &query.name);
        let mut target_at = self.length + SRV_DATA;
        let rows = visit_rows(view, rtype, reply.order, reply.turn, |row| {
            go_on(match row.data {
                RowData::Address(ip) => self.put_address(ANSWER, &QNAME, ttl, ip),
                RowData::Srv(port) => self.put_srv(row.endpoint, port, ttl, &tail),
            })
        });
        if rows.is_break() {
            return false;
        }
        // Addresses of the targets, up to the first RRset that does not fit: each target's with the first of its rows.
        let _ = visit_rows(view, rtype, reply.order, reply.turn, |row| {
            let RowData::Srv(_) = row.data else {
                return ControlFlow::Break(());
            };
            let at = target_at;
            target_at += host_length(row.endpoint) + tail.len() + SRV_DATA;
            let addresses: &[_] = match row.is_first {
                true => row.endpoint.addresses.as_slice(),
                false => &[],
            };
            // They are sorted, so that those of one type follow each other.
            let mut rrsets = addresses.chunk_by(|a, b| a.ip.is_ipv4() == b.ip.is_ipv4());
            go_on(rrsets.all(|own| {
                self.put_rrset(|rrset| {
                    let mut ips = own.iter().map(|own| own.ip);
                    ips.all(|ip| rrset.put_target_address(view, row.endpoint, at, ip))
                })
            }))
        });
        true
    }

    fn put_opt(&mut self, edns: &ReplyEdns<'_>, reply: &Reply<'_>) {
        let high = (reply.rcode.0 >> 4 & 0xff) as u8; // masked to eight bits
        let flags = if edns.dnssec_ok { 0x80 } else { 0 };
        let padding = edns.is_padded.then(|| self.padding(edns));
        let ttl = u32::from_be_bytes([high, 0, flags, 0]);
        self.put_record(
            ADDITIONAL,
            &[0],
            RecordType::OPT,
            edns.payload,
            ttl,
            |data| {
                if let Some(nsid) = edns.nsid {
                    data.put_option(option::NSID, nsid);
                }
                if let Some(cookie) = &edns.cookie {
                    data.put_option(option::COOKIE, cookie);
                }
                if let Some(tenths) = edns.keepalive {
                    data.put_option(option::KEEPALIVE, &tenths.to_be_bytes());
                }
                if let Some(error) = edns.error {
                    data.put_option(option::ERROR, &error.code().to_be_bytes());
                }
                if let Some(octets) = padding {
                    data.put_option(option::PADDING, &[0; PADDING_BLOCK][..octets]);
                }
                true
            },
        );
    }

    /// Returns how many octets of padding fill the message up, as far as there is room. What comes before OPT is there.
    fn padding(&self, edns: &ReplyEdns<'_>) -> usize {
        let length = self.length + opt_length(edns);
        let missing = length.next_multiple_of(PADDING_BLOCK) - length;
        missing.min(self.limit - length)
    }

    /// Writes the header, last, when the counts are known.
    fn finish(self, reply: &Reply<'_>, packet: &[u8], is_truncated: bool) -> Written {
        let (opcode, rd) = (packet[2] & 0x78, packet[2] & 0x01);
        let aa = if reply.authoritative { 0x04 } else { 0 };
        let tc = if is_truncated { 0x02 } else { 0 };
        // RA, Z, AD and CD are clear (RFC 4035 section 3.1.6 on CD).
        let rcode = (reply.rcode.0 & 0x0f) as u8; // masked to four bits
        self.out[..4].copy_from_slice(&[packet[0], packet[1], 0x80 | opcode | aa | tc | rd, rcode]);
        for (at, count) in [4, 6, 8, 10].into_iter().zip(self.counts) {
            self.out[at..at + 2].copy_from_slice(&count.to_be_bytes());
        }
        Written {
            length: self.length,
            is_truncated,
        }
    }
}

/// Octets of our OPT record, without what fills a padded message up.
fn opt_length(edns: &ReplyEdns<'_>) -> usize {
    let option = |length: Option<usize>| length.map_or(0, |length| 4 + length);
    OPT + option(edns.nsid.map(<[u8]>::len))
        + option(edns.cookie.map(|cookie| cookie.len()))
        + option(edns.keepalive.map(|_| 2))
        + option(edns.error.map(|_| 2))
        + option(edns.is_padded.then_some(0))
}

/// Returns by how much rows are rotated, if that is all that becomes of their order.
fn rotation(reply: &Reply<'_>) -> Option<u32> {
    match reply.order {
        Order::Rotate => Some(reply.turn),
        Order::Stable => Some(0),
        Order::Shuffle | Order::LocalFirst => None,
    }
}

fn go_on(fits: bool) -> ControlFlow<()> {
    if fits {
        ControlFlow::Continue(())
    } else {
        ControlFlow::Break(())
    }
}

