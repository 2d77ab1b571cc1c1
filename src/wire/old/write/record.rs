//! Single records, each written whole or not at all.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::ControlFlow;

use crate::wire::query::{CLASS_IN, HEADER};
use super::{ADDITIONAL, ANSWER, Message, OPT, QNAME};
use crate::mirror::ServiceKey;
use crate::table::Endpoint;
use crate::zone::answer::rtype_of;
use super::super::print::{SOA_TIMERS, SRV_WEIGHT};
use crate::zone::{Name, RecordType, RowData, Targets, View, Zone, ZoneKind};

/// Octets of a record before its data, if its owner name is a pointer.
const HEAD: usize = 12;

/// The last octet that a pointer can lead to.
const POINTABLE: usize = 0x3fff;

impl Message<'_> {
    /// Writes address records with the name of the question, beginning with the one whose turn it is; `false` if not
    /// all of them fit.
    pub(super) fn put_addresses<A: Address<N>, const N: usize>(
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
                let (head_at, ip_at) = record.split_at_mut(head.len());
                head_at.copy_from_slice(&head);
                ip_at.copy_from_slice(&ip.octets());
            }
        }
        self.length = end;
        self.counts[ANSWER] += count as u16; // a message has no room for more than 4,096
        count == ips.len()
    }

    pub(super) fn put_address(
        &mut self,
        section: usize,
        owner: &[u8; 2],
        ttl: u32,
        ip: IpAddr,
    ) -> bool {
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

    pub(super) fn put_srv(
        &mut self,
        endpoint: &Endpoint,
        port: u16,
        ttl: u32,
        tail: &[u8],
    ) -> bool {
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
    pub(super) fn room(
        &mut self,
        section: usize,
        owner: &[u8; 2],
        rtype: RecordType,
        ttl: u32,
        length: usize,
    ) -> Option<&mut [u8]> {
        let end = self.length + HEAD + length;
        if end > self.limit {
            return None;
        }
        let ([t1, t2], [a, b, c, d]) = (rtype.0.to_be_bytes(), ttl.to_be_bytes());
        let [l1, l2] = (length as u16).to_be_bytes(); // names and addresses: some 300 octets at most
        let record = &mut self.out[self.length..end];
        let (head, data) = record.split_at_mut(HEAD);
        head.copy_from_slice(&[owner[0], owner[1], t1, t2, 0, 1, a, b, c, d, l1, l2]);
        self.length = end;
        self.counts[section] += 1;
        Some(data)
    }

    /// Writes an RRset whole, or nothing of it; `records` returns `false` if one does not fit.
    pub(super) fn put_rrset(&mut self, records: impl FnOnce(&mut Self) -> bool) -> bool {
        let (length, counts) = (self.length, self.counts);
        let is_whole = records(self);
        if !is_whole {
            (self.length, self.counts) = (length, counts);
        }
        is_whole
    }

    /// Writes an address of an SRV target whose name is at `target_at`.
    pub(super) fn put_target_address(
        &mut self,
        view: &View<'_>,
        endpoint: &Endpoint,
        target_at: usize,
        ip: IpAddr,
    ) -> bool {
        let ttl = view.service.ttl;
        if target_at <= POINTABLE {
            return self.put_address(ADDITIONAL, &pointer(target_at), ttl, ip);
        }
        // Too far away: the owner is `H.C.` and a pointer to the rest of it in the question.
        let mark = self.length;
        let (labels, rest_at) = match view.targets {
            Targets::Asked(at) => (None, at),
            Targets::Canonical(at) => (Some(view.service.key.labels()), at),
        };
        let is_whole = self.put_host(endpoint)
            && labels.is_none_or(|labels| self.put_labels(labels))
            && self.put_address(ADDITIONAL, &pointer(HEADER + rest_at), ttl, ip);
        if !is_whole {
            self.length = mark;
        }
        is_whole
    }

    pub(super) fn put_pointer(
        &mut self,
        zone: &Zone,
        ttl: u32,
        key: &ServiceKey,
        endpoint: &Endpoint,
    ) -> bool {
        let ZoneKind::Reverse(below) = &zone.kind else {
            return true;
        };
        let labels = key.labels();
        self.put_record(ANSWER, &QNAME, RecordType::PTR, CLASS_IN, ttl, |data| {
            data.put_host(endpoint) && data.put_labels(labels) && data.put(below.wire())
        })
    }

    pub(super) fn put_text(&mut self, class: u16, ttl: u32, text: &[u8]) -> bool {
        let text = &text[..text.len().min(255)]; // one character string (RFC 1035 section 3.3)
        self.put_record(ANSWER, &QNAME, RecordType::TXT, class, ttl, |data| {
            data.put(&[text.len() as u8]) && data.put(text)
        })
    }

    pub(super) fn put_soa(
        &mut self,
        section: usize,
        zone: &Zone,
        serial: u32,
        apex_at: usize,
    ) -> bool {
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
    pub(super) fn put_record(
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

    pub(super) fn put_option(&mut self, code: u16, value: &[u8]) -> bool {
        let [c1, c2] = code.to_be_bytes();
        let [l1, l2] = (value.len() as u16).to_be_bytes(); // options of ours have at most some 100 octets
        self.put(&[c1, c2, l1, l2]) && self.put(value)
    }

    pub(super) fn put_host(&mut self, endpoint: &Endpoint) -> bool {
        self.put_labels([endpoint.hostname.as_str(), endpoint.cluster.as_str()])
    }

    pub(super) fn put_labels(&mut self, labels: [&str; 2]) -> bool {
        // A label has at most 63 octets.
        labels
            .iter()
            .all(|label| self.put(&[label.len() as u8]) && self.put(label.as_bytes()))
    }

    pub(super) fn put(&mut self, octets: &[u8]) -> bool {
        let end = self.length + octets.len();
        let fits = end <= self.limit;
        if fits {
            self.out[self.length..end].copy_from_slice(octets);
            self.length = end;
        }
        fits
    }
}

/// Returns the octets of a message that answers with all rows of a view: header, question, the rows, and an OPT record
/// without options.
pub fn whole_answer(view: &View<'_>, rtype: RecordType, name: &Name) -> usize {
    let tail = super::super::target_tail(view, name).len();
    let mut octets = HEADER + name.wire().len() + 4 + OPT;
    let _ = view.visit_rows(rtype, &mut |row| {
        octets += HEAD
            + match row.data {
                RowData::Address(IpAddr::V4(_)) => 4,
                RowData::Address(IpAddr::V6(_)) => 16,
                RowData::Srv(_) => 6 + host_length(row.endpoint) + tail,
            };
        ControlFlow::Continue(())
    });
    octets
}

/// Octets of the labels `H.C` of an endpoint.
pub(super) fn host_length(endpoint: &Endpoint) -> usize {
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

/// An address as its record has it.
pub(super) trait Address<const N: usize>: Copy {
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
pub(super) fn pointer(at: usize) -> [u8; 2] {
    (0xc000 | at as u16).to_be_bytes()
}
