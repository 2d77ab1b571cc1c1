//! [`Reply`] → bytes. A writer without rules of its own: it renders what [`respond`](super::respond()) decided, as far
//! as it fits.
//!
//! OPT is reserved first (RFC 6891 section 7). Records are written whole or not at all; TC is set if and only if the
//! answer section is incomplete (RFC 2181 section 9). Owner names point into the question, which is echoed as it came,
//! so they take the case that was asked in; SRV targets are written out, lower case (RFC 2782).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::ControlFlow;

use super::order::{Order, visit_rows};
use super::query::{CLASS_CH, CLASS_IN, HEADER, Query, Reject, option};
use super::respond::{Body, Reply, ReplyEdns};
use crate::table::{Endpoint, Service};
use crate::zone::answer::rtype_of;
use crate::zone::print::{DNS_VERSION, SOA_TIMERS, SRV_WEIGHT};
use crate::zone::{Answer, RecordType, RowData, View, Zone, ZoneKind};

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

/// The last octet that a pointer can lead to.
const POINTABLE: usize = 0x3fff;

/// Octets of an SRV record before its target: a pointer, the fixed part, priority, weight and port.
const SRV_DATA: usize = 12 + 6;

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
                for ip in &zone.ns_addresses {
                    self.put_address(ADDITIONAL, &owner, zone.ttl, *ip);
                }
                is_whole
            }
            Answer::Address(zone, rtype) => {
                let mut ips = zone
                    .ns_addresses
                    .iter()
                    .filter(|ip| rtype_of(**ip) == *rtype);
                ips.all(|ip| self.put_address(ANSWER, &QNAME, zone.ttl, *ip))
            }
            Answer::Text(zone) => self.put_text(CLASS_IN, zone.ttl, DNS_VERSION.as_bytes()),
            Answer::Pointers(zone, pointers) => {
                let mut endpoints = pointers.endpoints();
                endpoints.all(|(service, endpoint)| self.put_pointer(zone, service, endpoint))
            }
            Answer::NoData(zone) | Answer::NxDomain(zone) => {
                let apex_at = HEADER + query.name.wire().len() - zone.name.wire().len();
                // Too long a name for the SOA record to fit does not exist: it takes less than 80 octets.
                self.put_soa(AUTHORITY, zone, reply.serial, apex_at);
                true
            }
            Answer::Refused | Answer::NotReady => true,
        }
    }

    /// Writes rows, and the addresses of SRV targets as far as they fit; `false` if the rows are incomplete.
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
        let tail = &query.name.wire()[view.tail..];
        let mut target_at = self.length + SRV_DATA;
        let rows = visit_rows(view, rtype, reply.order, reply.turn, |row| {
            go_on(match row.data {
                RowData::Address(ip) => self.put_address(ANSWER, &QNAME, ttl, ip),
                RowData::Srv(port) => self.put_srv(row.endpoint, port, ttl, tail),
            })
        });
        if rows.is_break() {
            return false;
        }
        // Addresses of the targets, as far as they fit: each target's with the first of its rows.
        let _ = visit_rows(view, rtype, reply.order, reply.turn, |row| {
            let RowData::Srv(_) = row.data else {
                return ControlFlow::Break(());
            };
            let at = target_at;
            target_at += host_length(row.endpoint) + tail.len() + SRV_DATA;
            let mut ips = row.endpoint.addresses.iter().filter(|_| row.is_first);
            let mut put = |ip| self.put_target_address(row.endpoint, at, ttl, view.tail, ip);
            go_on(ips.all(|own| put(own.ip)))
        });
        true
    }

    /// Writes address records with the name of the question, beginning with the one whose turn it is; `false` if not
    /// all of them fit.
    fn put_addresses<A: Address<N>, const N: usize>(
        &mut self,
        ips: &[A],
        turn: u32,
        ttl: u32,
    ) -> bool {
        let [t1, t2] = A::RTYPE.0.to_be_bytes();
        let [a, b, c, d] = ttl.to_be_bytes();
        let head = [QNAME[0], QNAME[1], t1, t2, 0, 1, a, b, c, d, 0, N as u8]; // 4 or 16
        let first = turn as usize % ips.len().max(1);
        let (last, start) = ips.split_at(first);
        let size = head.len() + N;
        let count = ips.len().min(self.limit.saturating_sub(self.length) / size);
        let end = self.length + count * size;
        let mut records = self.out[self.length..end].chunks_exact_mut(size);
        for part in [start, last] {
            for (ip, record) in part.iter().zip(&mut records) {
                record[..12].copy_from_slice(&head);
                record[12..].copy_from_slice(&ip.octets());
            }
        }
        self.length = end;
        self.counts[ANSWER] += count as u16; // a message has no room for more than 4,096
        count == ips.len()
    }

    fn put_opt(&mut self, edns: &ReplyEdns<'_>, reply: &Reply<'_>) {
        let high = (reply.rcode.0 >> 4 & 0xff) as u8; // masked to eight bits
        let flags = if edns.dnssec_ok { 0x80 } else { 0 };
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
                true
            },
        );
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

/// Octets of our OPT record.
fn opt_length(edns: &ReplyEdns<'_>) -> usize {
    let option = |length: Option<usize>| length.map_or(0, |length| 4 + length);
    11 + option(edns.nsid.map(<[u8]>::len))
        + option(edns.cookie.map(|cookie| cookie.len()))
        + option(edns.keepalive.map(|_| 2))
        + option(edns.error.map(|_| 2))
}

// === Records ===

impl Message<'_> {
    fn put_address(&mut self, section: usize, owner: &[u8; 2], ttl: u32, ip: IpAddr) -> bool {
        let data = match ip {
            IpAddr::V4(_) => 4,
            IpAddr::V6(_) => 16,
        };
        let Some(record) = self.room(section, owner, rtype_of(ip), ttl, data) else {
            return false;
        };
        match ip {
            IpAddr::V4(ip) => record.copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => record.copy_from_slice(&ip.octets()),
        }
        true
    }

    fn put_srv(&mut self, endpoint: &Endpoint, port: u16, ttl: u32, tail: &[u8]) -> bool {
        let host = host_length(endpoint);
        let length = 6 + host + tail.len();
        let Some(data) = self.room(ANSWER, &QNAME, RecordType::SRV, ttl, length) else {
            return false;
        };
        let ([w1, w2], [p1, p2]) = (SRV_WEIGHT.to_be_bytes(), port.to_be_bytes());
        data[..6].copy_from_slice(&[0, 0, w1, w2, p1, p2]);
        let (host_at, tail_at) = data[6..].split_at_mut(host);
        copy_host(endpoint, host_at);
        tail_at.copy_from_slice(tail);
        true
    }

    /// Makes room for a record of class IN whose owner is a pointer, writes all of it but the data, and returns where
    /// those go. `None` if there is not room for all of it.
    fn room(
        &mut self,
        section: usize,
        owner: &[u8; 2],
        rtype: RecordType,
        ttl: u32,
        length: usize,
    ) -> Option<&mut [u8]> {
        let end = self.length + 12 + length;
        if end > self.limit {
            return None;
        }
        let ([t1, t2], [a, b, c, d]) = (rtype.0.to_be_bytes(), ttl.to_be_bytes());
        let [l1, l2] = (length as u16).to_be_bytes(); // names and addresses: some 300 octets at most
        let record = &mut self.out[self.length..end];
        let (head, data) = record.split_at_mut(12);
        head.copy_from_slice(&[owner[0], owner[1], t1, t2, 0, 1, a, b, c, d, l1, l2]);
        self.length = end;
        self.counts[section] += 1;
        Some(data)
    }

    /// Writes an address of an SRV target whose name is at `target_at`.
    fn put_target_address(
        &mut self,
        endpoint: &Endpoint,
        target_at: usize,
        ttl: u32,
        tail: usize,
        ip: IpAddr,
    ) -> bool {
        if target_at <= POINTABLE {
            return self.put_address(ADDITIONAL, &pointer(target_at), ttl, ip);
        }
        // Too far away: the owner is `H.C.` and a pointer to the rest of it in the question.
        let mark = self.length;
        let is_whole = self.put_host(endpoint)
            && self.put_address(ADDITIONAL, &pointer(HEADER + tail), ttl, ip);
        if !is_whole {
            self.length = mark;
        }
        is_whole
    }

    fn put_pointer(&mut self, zone: &Zone, service: &Service, endpoint: &Endpoint) -> bool {
        let ZoneKind::Reverse(below) = &zone.kind else {
            return true;
        };
        let key = &service.key;
        let labels = [key.service.as_str(), key.namespace.as_str()];
        self.put_record(
            ANSWER,
            &QNAME,
            RecordType::PTR,
            CLASS_IN,
            service.ttl,
            |data| data.put_host(endpoint) && data.put_labels(labels) && data.put(below.wire()),
        )
    }

    fn put_text(&mut self, class: u16, ttl: u32, text: &[u8]) -> bool {
        let text = &text[..text.len().min(255)]; // one character string (RFC 1035 section 3.3)
        self.put_record(ANSWER, &QNAME, RecordType::TXT, class, ttl, |data| {
            data.put(&[text.len() as u8]) && data.put(text)
        })
    }

    fn put_soa(&mut self, section: usize, zone: &Zone, serial: u32, apex_at: usize) -> bool {
        let apex = pointer(apex_at);
        let (refresh, retry, expire) = SOA_TIMERS;
        self.put_record(
            section,
            &apex,
            RecordType::SOA,
            CLASS_IN,
            zone.negative_ttl,
            |data| {
                let names = data.put(b"\x02ns\x03dns")
                    && data.put(&apex)
                    && data.put(b"\x0ahostmaster")
                    && data.put(&apex);
                let numbers = [serial, refresh, retry, expire, zone.negative_ttl];
                names && numbers.iter().all(|number| data.put(&number.to_be_bytes()))
            },
        )
    }

    /// Writes a record whole, or nothing of it.
    fn put_record(
        &mut self,
        section: usize,
        owner: &[u8],
        rtype: RecordType,
        class: u16,
        ttl: u32,
        data: impl FnOnce(&mut Self) -> bool,
    ) -> bool {
        let mark = self.length;
        let [t1, t2] = rtype.0.to_be_bytes();
        let [c1, c2] = class.to_be_bytes();
        let [a, b, c, d] = ttl.to_be_bytes();
        let is_whole = self.put(owner) && self.put(&[t1, t2, c1, c2, a, b, c, d, 0, 0]) && {
            let start = self.length;
            let is_whole = data(self);
            let length = (self.length - start) as u16; // a message has at most 65,535 octets
            self.out[start - 2..start].copy_from_slice(&length.to_be_bytes());
            is_whole
        };
        if is_whole {
            self.counts[section] += 1;
        } else {
            self.length = mark;
        }
        is_whole
    }

    fn put_option(&mut self, code: u16, value: &[u8]) -> bool {
        let [c1, c2] = code.to_be_bytes();
        let [l1, l2] = (value.len() as u16).to_be_bytes(); // options of ours have at most some 100 octets
        self.put(&[c1, c2, l1, l2]) && self.put(value)
    }

    fn put_host(&mut self, endpoint: &Endpoint) -> bool {
        self.put_labels([endpoint.hostname.as_str(), endpoint.cluster.as_str()])
    }

    fn put_labels(&mut self, labels: [&str; 2]) -> bool {
        // A label has at most 63 octets.
        labels
            .iter()
            .all(|label| self.put(&[label.len() as u8]) && self.put(label.as_bytes()))
    }

    fn put(&mut self, octets: &[u8]) -> bool {
        let end = self.length + octets.len();
        let fits = end <= self.limit;
        if fits {
            self.out[self.length..end].copy_from_slice(octets);
            self.length = end;
        }
        fits
    }
}

/// Octets of the labels `H.C` of an endpoint.
fn host_length(endpoint: &Endpoint) -> usize {
    2 + endpoint.hostname.as_str().len() + endpoint.cluster.as_str().len()
}

/// Writes the labels `H.C` of an endpoint, which fill `out`.
fn copy_host(endpoint: &Endpoint, out: &mut [u8]) {
    let (host, cluster) = (endpoint.hostname.as_str(), endpoint.cluster.as_str());
    let (host_at, cluster_at) = out.split_at_mut(1 + host.len());
    for (label, at) in [(host, host_at), (cluster, cluster_at)] {
        at[0] = label.len() as u8; // a label has at most 63 octets
        at[1..].copy_from_slice(label.as_bytes());
    }
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

/// An address as its record has it.
trait Address<const N: usize>: Copy {
    const RTYPE: RecordType;
    fn octets(self) -> [u8; N];
}

impl Address<4> for Ipv4Addr {
    const RTYPE: RecordType = RecordType::A;
    fn octets(self) -> [u8; 4] {
        Self::octets(&self)
    }
}

impl Address<16> for Ipv6Addr {
    const RTYPE: RecordType = RecordType::AAAA;
    fn octets(self) -> [u8; 16] {
        Self::octets(&self)
    }
}

/// Makes a compression pointer to one of the first [`POINTABLE`] octets.
fn pointer(at: usize) -> [u8; 2] {
    (0xc000 | at as u16).to_be_bytes()
}

#[cfg(test)]
mod tests;
