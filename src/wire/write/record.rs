//! Writes the parts of a message: octets, and single records. A record is written completely or not at all.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::wire::query::HEADER;
use crate::zone::records::soa_numbers;
use crate::zone::walk::Addresses;
use crate::zone::{Data, MessageSection, Name, Record, RecordName, RecordType, SRV_WEIGHT};

pub(super) const QUESTION: usize = 0;
pub(super) const ANSWER: usize = 1;
const AUTHORITY: usize = 2;
pub(super) const ADDITIONAL: usize = 3;

/// Length of a record before its data, if its owner name is a pointer.
const HEAD: usize = 12;

/// Length of the data of an SRV record before its target: priority, weight and port.
const SRV_HEAD: usize = 6;

/// Maximum offset of a compression pointer.
const MAX_POINTER: usize = 0x3fff;

/// An unfinished message.
pub(super) struct Unfinished<'o> {
    pub(super) out: &'o mut [u8],
    pub(super) length: usize,
    pub(super) limit: usize,
    /// QDCOUNT, ANCOUNT, NSCOUNT, ARCOUNT.
    pub(super) counts: [u16; 4],
}

/// Writes the records of a message.
pub(super) struct RecordWriter<'m, 'o> {
    message: &'m mut Unfinished<'o>,
    class: u16,
    /// Offset of the end of the question's name.
    question_end: usize,
    /// Index of a record of the answer section.
    index: usize,
    /// Offset of that record.
    offset: usize,
    /// The last RRset of the additional section.
    rrset: Rrset,
}

/// An RRset of the additional section.
#[derive(Default)]
struct Rrset {
    /// Index of the record with the owner name as target, and the type.
    key: Option<(usize, RecordType)>,
    /// Offset of the first record.
    offset: usize,
    /// Number of records of the section before it.
    count: u16,
}

/// Reserved octets of a message that are not yet written.
struct Room<'r>(&'r mut [u8]);

// === impl Unfinished ===

impl<'o> Unfinished<'o> {
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

// === impl RecordWriter ===

impl<'m, 'o> RecordWriter<'m, 'o> {
    /// Begins with the answer section, after the question.
    pub(super) fn new(message: &'m mut Unfinished<'o>, question: &Name, class: u16) -> Self {
        Self {
            class,
            question_end: HEADER + question.wire().len(),
            index: 0,
            offset: message.length,
            rrset: Rrset::default(),
            message,
        }
    }

    /// Writes a record, or as many of its addresses as fit. Returns `false` if not all fit. In the additional section, its whole
    /// RRset is then removed.
    pub(super) fn put(&mut self, record: &Record<'_>) -> bool {
        let owner = suffix_pointer(&record.owner, self.question_end);
        match record.section {
            MessageSection::Answer => self.put_all(ANSWER, owner, record),
            MessageSection::Authority => self.put_all(AUTHORITY, owner, record),
            MessageSection::Additional { of } => self.put_additional(of, record),
        }
    }

    /// Writes addresses of a target.
    fn put_additional(&mut self, of: usize, record: &Record<'_>) -> bool {
        let key = Some((of, record.data.rtype()));
        if self.rrset.key != key {
            self.rrset = Rrset {
                key,
                offset: self.message.length,
                count: self.message.counts[ADDITIONAL],
            };
        }
        let target = self.target_offset(of);
        let is_complete = if target <= MAX_POINTER {
            self.put_all(ADDITIONAL, pointer(target), record)
        } else {
            self.put_with_labels(record)
        };
        if !is_complete {
            self.message.length = self.rrset.offset;
            self.message.counts[ADDITIONAL] = self.rrset.count;
        }
        is_complete
    }

    /// Writes addresses of a target beyond the maximum offset of a pointer. Each owner name is written as labels and a pointer to
    /// the suffix in the question.
    fn put_with_labels(&mut self, record: &Record<'_>) -> bool {
        let Data::Addresses(addresses) = record.data else {
            return false; // no other data is in this section
        };
        addresses.each().all(|one| {
            let owner = &record.owner;
            let data = Data::Addresses(one);
            let Some(labels) = self.message.room(name_length(owner, &[])) else {
                return false;
            };
            Room(labels).put_name(owner, &[]);
            let suffix = suffix_pointer(owner, self.question_end);
            self.put_all(ADDITIONAL, suffix, &Record { data, ..*record })
        })
    }

    /// Returns the offset of the target of a record of the answer section. Indexes never decrease, so each record is
    /// skipped only once.
    fn target_offset(&mut self, index: usize) -> usize {
        let out = &self.message.out;
        let read = |at: usize| u16::from_be_bytes([out[at], out[at + 1]]);
        while self.index < index {
            self.offset += HEAD + usize::from(read(self.offset + HEAD - 2));
            self.index += 1;
        }
        let before = match RecordType(read(self.offset + 2)) {
            RecordType::SRV => SRV_HEAD,
            _ => 0,
        };
        self.offset + HEAD + before
    }

    /// Writes a record, or as many of its addresses as fit, with a pointer as owner name. Returns whether all fit.
    fn put_all(&mut self, section: usize, owner: [u8; 2], record: &Record<'_>) -> bool {
        let (count, is_complete) = match record.data {
            Data::Addresses(Addresses::V4(ips)) => {
                self.put_addresses(owner, record, ips, Ipv4Addr::octets)
            }
            Data::Addresses(Addresses::V6(ips)) => {
                self.put_addresses(owner, record, ips, Ipv6Addr::octets)
            }
            _ => {
                let is_complete = self.put_record(owner, record).is_some();
                (usize::from(is_complete), is_complete)
            }
        };
        self.message.counts[section] += count as u16; // a message has no room for more than 4,096
        is_complete
    }

    /// Writes addresses as one block. Returns how many fit, and whether all fit.
    #[inline]
    fn put_addresses<A, const N: usize>(
        &mut self,
        owner: [u8; 2],
        record: &Record<'_>,
        ips: [&[A]; 2],
        octets: impl Fn(&A) -> [u8; N],
    ) -> (usize, bool) {
        let head = self.head(owner, record, N);
        let size = HEAD + N;
        let free = self.message.limit.saturating_sub(self.message.length);
        let all = ips[0].len() + ips[1].len();
        let count = all.min(free / size);
        let mut records = self
            .message
            .room(count * size)
            .unwrap_or_default()
            .chunks_exact_mut(size);
        for part in ips {
            for (ip, record) in part.iter().zip(records.by_ref()) {
                let (head_at, ip_at) = record.split_at_mut(HEAD);
                head_at.copy_from_slice(&head);
                ip_at.copy_from_slice(&octets(ip));
            }
        }
        (count, count == all)
    }

    /// Writes a record with a pointer as owner name.
    fn put_record(&mut self, owner: [u8; 2], record: &Record<'_>) -> Option<()> {
        match &record.data {
            Data::Addresses(_) => return None, // they are written as a block
            Data::Srv { port, target } => {
                let ([w1, w2], [p1, p2]) = (SRV_WEIGHT.to_be_bytes(), port.to_be_bytes());
                let length = SRV_HEAD + name_length(target, target.rest);
                self.room(owner, record, length)?
                    .put(&[0, 0, w1, w2, p1, p2])
                    .put_name(target, target.rest)
            }
            Data::Ns(target) => {
                let rest = suffix_pointer(target, self.question_end);
                self.room(owner, record, name_length(target, &rest))?
                    .put_name(target, &rest)
            }
            Data::Soa(zone, serial) => {
                let [primary, mailbox] = RecordName::of_soa(zone);
                let numbers = soa_numbers(*serial);
                let apex = suffix_pointer(&primary, self.question_end);
                let names = name_length(&primary, &apex) + name_length(&mailbox, &apex);
                let room = self
                    .room(owner, record, names + 4 * numbers.len())?
                    .put_name(&primary, &apex)
                    .put_name(&mailbox, &apex);
                let numbers = numbers.map(u32::to_be_bytes);
                room.put(numbers.as_flattened())
            }
            Data::Txt(text) => {
                self.room(owner, record, 1 + text.len())?
                    .put(&[text.len() as u8])
                    .put(text) // at most 128 octets
            }
        };
        Some(())
    }

    /// Writes a record without its data, and returns the octets for the data. Returns `None` if the record does not
    /// fit.
    #[inline]
    fn room(&mut self, owner: [u8; 2], record: &Record<'_>, length: usize) -> Option<Room<'_>> {
        let head = self.head(owner, record, length);
        Some(self.message.room(HEAD + length).map(Room)?.put(&head))
    }

    /// Returns a record without its data, which has this length.
    #[inline]
    fn head(&self, [o1, o2]: [u8; 2], record: &Record<'_>, length: usize) -> [u8; HEAD] {
        let [t1, t2] = record.data.rtype().0.to_be_bytes();
        let [c1, c2] = self.class.to_be_bytes();
        let [a, b, c, d] = record.ttl.to_be_bytes();
        let [l1, l2] = (length as u16).to_be_bytes(); // less than 512
        [o1, o2, t1, t2, c1, c2, a, b, c, d, l1, l2]
    }
}

// === impl Room ===

impl<'r> Room<'r> {
    /// Writes octets, and returns the remaining room.
    #[inline]
    fn put(self, octets: &[u8]) -> Self {
        let (at, rest) = self.0.split_at_mut(octets.len());
        at.copy_from_slice(octets);
        Self(rest)
    }

    /// Writes the labels of a name, and `end` as its suffix.
    #[inline]
    fn put_name(self, name: &RecordName<'_>, end: &[u8]) -> Self {
        name.labels.into_iter().fold(self, Self::put_label).put(end)
    }

    /// Writes a label, unless it is empty: a cluster IP has no hostname.
    #[inline]
    fn put_label(self, label: &str) -> Self {
        match label.len() {
            0 => self,
            length => self.put(&[length as u8]).put(label.as_bytes()), // at most 63
        }
    }
}

/// Returns the length of a name with `end` as its suffix.
#[inline]
fn name_length(name: &RecordName<'_>, end: &[u8]) -> usize {
    let mut length = end.len();
    for label in name.labels {
        length += label.len() + usize::from(!label.is_empty());
    }
    length
}

/// Returns a pointer to the suffix of a name in the question.
#[inline]
fn suffix_pointer(name: &RecordName<'_>, question_end: usize) -> [u8; 2] {
    pointer(question_end - name.rest.len())
}

/// Returns a compression pointer to an offset up to [`MAX_POINTER`] (RFC 1035 section 4.1.4).
#[inline]
fn pointer(at: usize) -> [u8; 2] {
    (0xc000 | at as u16).to_be_bytes()
}
