//! A fast path for the addresses of `S.N.Z`, the most common question. It writes a block of records instead of single
//! records. For nine addresses, it takes a third of the time.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::super::query::HEADER;
use super::super::respond::{Body, Reply};
use super::{ANSWER, Message};
use crate::zone::{Answer, Order, RecordType};

/// An address in the format of its record.
trait Address<const N: usize>: Copy {
    const RTYPE: RecordType;
    fn octets(self) -> [u8; N];
}

impl Message<'_> {
    /// Writes the addresses of a service's own name, if they are the answer. Returns `Some(false)` if not all of them
    /// fit.
    pub(super) fn put_name_addresses(&mut self, reply: &Reply<'_>) -> Option<bool> {
        let Body::Answer(Answer::Data(_, view, rtype)) = &reply.body else {
            return None;
        };
        let (addresses, ttl) = (view.name_addresses()?, view.service.ttl);
        let turn = match reply.order {
            Order::Rotate => reply.turn,
            Order::Stable => 0,
            Order::Shuffle | Order::LocalFirst => return None,
        };
        match *rtype {
            RecordType::A => Some(self.put_addresses(&addresses.v4, turn, ttl)),
            RecordType::AAAA => Some(self.put_addresses(&addresses.v6, turn, ttl)),
            _ => None,
        }
    }

    /// Writes address records with the name of the question, rotated by `turn`. Returns `false` if not all of them fit.
    fn put_addresses<A: Address<N>, const N: usize>(
        &mut self,
        ips: &[A],
        turn: u32,
        ttl: u32,
    ) -> bool {
        let [t1, t2] = A::RTYPE.0.to_be_bytes();
        let [a, b, c, d] = ttl.to_be_bytes();
        // A pointer to the question, type, class, TTL, and 4 or 16 octets of data.
        let head = [0xc0, HEADER as u8, t1, t2, 0, 1, a, b, c, d, 0, N as u8];
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
}

// === impl Address ===

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
