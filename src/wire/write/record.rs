//! Single records, each written whole or not at all.

use super::super::query::HEADER;
use super::{ADDITIONAL, ANSWER, AUTHORITY, Message};
use crate::zone::records::{Labels, SRV_WEIGHT, host_labels};
use crate::zone::{Data, Name, Record, RecordName, RecordType, Section};

/// Octets of a record before its data, if its owner name is a pointer.
const HEAD: usize = 12;

/// Octets of an SRV record's data before its target: priority, weight and port.
const SRV_HEAD: usize = 6;

/// The last octet that a pointer can lead to.
const POINTABLE: usize = 0x3fff;

/// Writes the records of a message.
pub(super) struct RecordWriter<'m, 'o> {
    message: &'m mut Message<'o>,
    class: u16,
    /// Where the name of the question ends.
    question_end: usize,
    /// The number of a record of the answer section.
    number: usize,
    /// Where that record is.
    at: usize,
    /// The last RRset of the additional section.
    rrset: Rrset,
}

/// An RRset of the additional section.
struct Rrset {
    /// Number of the record whose target owns it, and its type.
    key: Option<(usize, RecordType)>,
    /// Where it is.
    at: usize,
    /// Records of the section before it.
    count: u16,
}

/// Octets of a message that are to be filled.
struct Room<'r>(&'r mut [u8]);

// === impl RecordWriter ===

impl<'m, 'o> RecordWriter<'m, 'o> {
    /// Begins with the answer section; the question has been written.
    pub(super) fn new(message: &'m mut Message<'o>, question: &Name, class: u16) -> Self {
        Self {
            class,
            question_end: HEADER + question.wire().len(),
            number: 0,
            at: message.length,
            rrset: Rrset {
                key: None,
                at: 0,
                count: 0,
            },
            message,
        }
    }

    /// Writes a record; `false` if it does not fit. Then nothing is left of its RRset in the additional section, either.
    pub(super) fn put(&mut self, record: &Record<'_>) -> bool {
        let owner = rest_of(&record.owner, self.question_end);
        let (section, fits) = match record.section {
            Section::Answer => (ANSWER, self.put_record(owner, record)),
            Section::Authority => (AUTHORITY, self.put_record(owner, record)),
            Section::Additional { of } => (ADDITIONAL, self.put_additional(of, record)),
        };
        self.message.counts[section] += u16::from(fits.is_some());
        fits.is_some()
    }

    /// Writes an address of a target.
    fn put_additional(&mut self, of: usize, record: &Record<'_>) -> Option<()> {
        let key = Some((of, record.data.rtype()));
        if self.rrset.key != key {
            self.rrset = Rrset {
                key,
                at: self.message.length,
                count: self.message.counts[ADDITIONAL],
            };
        }
        let target = self.target_of(of);
        let fits = match target <= POINTABLE {
            true => self.put_record(pointer(target), record),
            false => self.put_far(record),
        };
        if fits.is_none() {
            self.message.length = self.rrset.at;
            self.message.counts[ADDITIONAL] = self.rrset.count;
        }
        fits
    }

    /// Writes an address of a target that no pointer reaches: the labels of its name, and a pointer to the rest of it in
    /// the question.
    fn put_far(&mut self, record: &Record<'_>) -> Option<()> {
        let owner = &record.owner;
        Room(self.message.room(length_of(owner, &[]))?).put_name(owner, &[]);
        self.put_record(rest_of(owner, self.question_end), record)
    }

    /// Returns where the target of a record of the answer section is. Numbers never fall, so that each record is hopped
    /// over once.
    fn target_of(&mut self, number: usize) -> usize {
        let out = &self.message.out;
        let read = |at: usize| u16::from_be_bytes([out[at], out[at + 1]]);
        while self.number < number {
            self.at += HEAD + usize::from(read(self.at + HEAD - 2));
            self.number += 1;
        }
        let before = match RecordType(read(self.at + 2)) {
            RecordType::SRV => SRV_HEAD,
            _ => 0,
        };
        self.at + HEAD + before
    }

    /// Writes a record whose owner is a pointer.
    fn put_record(&mut self, owner: [u8; 2], record: &Record<'_>) -> Option<()> {
        match &record.data {
            Data::A(ip) => self.room(owner, record, 4)?.put(&ip.octets()),
            Data::Aaaa(ip) => self.room(owner, record, 16)?.put(&ip.octets()),
            Data::Srv { port, target } => {
                let ([w1, w2], [p1, p2]) = (SRV_WEIGHT.to_be_bytes(), port.to_be_bytes());
                let length = SRV_HEAD + length_of(target, target.rest);
                let room = self.room(owner, record, length)?;
                room.put(&[0, 0, w1, w2, p1, p2])
                    .put_name(target, target.rest)
            }
            Data::Ns(target) => {
                let rest = rest_of(target, self.question_end);
                let room = self.room(owner, record, length_of(target, &rest))?;
                room.put_name(target, &rest)
            }
            Data::Soa(soa) => {
                let ([primary, mailbox], numbers) = (soa.names(), soa.numbers());
                let apex = rest_of(&primary, self.question_end);
                let names = length_of(&primary, &apex) + length_of(&mailbox, &apex);
                let room = self.room(owner, record, names + 4 * numbers.len())?;
                let room = room.put_name(&primary, &apex).put_name(&mailbox, &apex);
                let numbers = numbers.map(u32::to_be_bytes);
                room.put(numbers.as_flattened())
            }
            Data::Ptr(target) => {
                let room = self.room(owner, record, length_of(target, target.rest))?;
                room.put_name(target, target.rest)
            }
            Data::Txt(text) => {
                let room = self.room(owner, record, 1 + text.len())?;
                room.put(&[text.len() as u8]).put(text) // at most 128 octets
            }
        };
        Some(())
    }

    /// Writes all of a record but its data, and returns where those go. `None` if there is not room for all of it.
    #[inline]
    fn room(&mut self, owner: [u8; 2], record: &Record<'_>, length: usize) -> Option<Room<'_>> {
        let [o1, o2] = owner;
        let [t1, t2] = record.data.rtype().0.to_be_bytes();
        let [c1, c2] = self.class.to_be_bytes();
        let [a, b, c, d] = record.ttl.to_be_bytes();
        let [l1, l2] = (length as u16).to_be_bytes(); // less than 512
        let room = self.message.room(HEAD + length).map(Room)?;
        Some(room.put(&[o1, o2, t1, t2, c1, c2, a, b, c, d, l1, l2]))
    }
}

// === impl Room ===

impl<'r> Room<'r> {
    /// Fills the beginning, and returns the rest.
    #[inline]
    fn put(self, octets: &[u8]) -> Self {
        let (at, rest) = self.0.split_at_mut(octets.len());
        at.copy_from_slice(octets);
        Self(rest)
    }

    /// Writes a name that ends in this way.
    #[inline]
    fn put_name(self, name: &RecordName<'_>, end: &[u8]) -> Self {
        let labels = match name.labels {
            Labels::Fixed(labels) => self.put(labels),
            Labels::Host(endpoint) => self.put_labels(host_labels(endpoint)),
            Labels::HostOf(endpoint, key) => self
                .put_labels(host_labels(endpoint))
                .put_labels(key.labels()),
        };
        labels.put(end)
    }

    #[inline]
    fn put_labels(self, [one, other]: [&str; 2]) -> Self {
        self.put_label(one).put_label(other)
    }

    #[inline]
    fn put_label(self, label: &str) -> Self {
        self.put(&[label.len() as u8]).put(label.as_bytes()) // at most 63
    }
}

/// Octets of a name that ends in this way.
#[inline]
fn length_of(name: &RecordName<'_>, end: &[u8]) -> usize {
    let length = |[one, other]: [&str; 2]| 2 + one.len() + other.len();
    let labels = match name.labels {
        Labels::Fixed(labels) => labels.len(),
        Labels::Host(endpoint) => length(host_labels(endpoint)),
        Labels::HostOf(endpoint, key) => length(host_labels(endpoint)) + length(key.labels()),
    };
    labels + end.len()
}

/// Makes a pointer to the rest of a name in the question, which ends with it.
#[inline]
fn rest_of(name: &RecordName<'_>, question_end: usize) -> [u8; 2] {
    pointer(question_end - name.rest.len())
}

/// Makes a compression pointer to one of the first [`POINTABLE`] octets (RFC 1035 section 4.1.4).
#[inline]
fn pointer(at: usize) -> [u8; 2] {
    (0xc000 | at as u16).to_be_bytes()
}
