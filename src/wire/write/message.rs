//! A message that is being written.

use crate::wire::query::HEADER;

pub(super) const QUESTION: usize = 0;
pub(super) const ANSWER: usize = 1;
pub(super) const AUTHORITY: usize = 2;
pub(super) const ADDITIONAL: usize = 3;

/// An unfinished message.
pub(super) struct Message<'o> {
    pub(super) out: &'o mut [u8],
    pub(super) length: usize,
    pub(super) limit: usize,
    /// QDCOUNT, ANCOUNT, NSCOUNT, ARCOUNT.
    pub(super) counts: [u16; 4],
}

impl<'o> Message<'o> {
    /// Creates an empty message with space for the header.
    pub(super) fn new(out: &'o mut [u8], limit: usize) -> Self {
        Self {
            out,
            length: HEADER,
            limit,
            counts: [0; 4],
        }
    }

    /// Extends the message by this many octets. Returns `None` if it would exceed its limit.
    #[inline]
    pub(super) fn room(&mut self, octets: usize) -> Option<&mut [u8]> {
        let start = self.length;
        let end = start + octets;
        if end > self.limit {
            return None;
        }
        self.length = end;
        Some(&mut self.out[start..end])
    }

    /// Writes all octets, or none if they do not fit.
    pub(super) fn put(&mut self, octets: &[u8]) -> bool {
        let room = self.room(octets.len());
        room.map(|room| room.copy_from_slice(octets)).is_some()
    }
}
