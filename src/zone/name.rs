//! The name of a question, in wire format and lower case, with an index of its labels.
//!
//! It needs no allocation: a name has at most 255 octets and 127 labels (RFC 1035 section 2.3.4).

use std::fmt;

/// An absolute domain name in lower case. Only ASCII letters are converted (RFC 4343).
#[derive(Clone)]
pub struct Name {
    octets: [u8; 255],
    /// Number of octets, including the root label.
    length: u8,
    /// Offset of the length octet of each label, except the root.
    starts: [u8; 127],
    /// Number of labels, without the root.
    count: u8,
}

// === impl Name ===

impl Name {
    /// Reads an uncompressed name at the start of `bytes`. Returns `None` if the name is incomplete, has more than 255
    /// octets, or has a compression pointer or another label type, which no question needs.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut name = Self {
            octets: [0; 255],
            length: 0,
            starts: [0; 127],
            count: 0,
        };
        let mut at = 0;
        loop {
            let label_length = *bytes.get(at)?;
            let end = at + 1 + usize::from(label_length);
            if label_length > 63 || end > 255 {
                return None;
            }
            if label_length == 0 {
                name.length = end as u8; // at most 255, checked above
                break;
            }
            *name.starts.get_mut(usize::from(name.count))? = at as u8; // less than `end`
            name.count += 1;
            at = end;
        }
        // Length octets are below 64, so the conversion of letters does not change them.
        let octets = &mut name.octets[..=at];
        octets.copy_from_slice(&bytes[..=at]);
        octets.make_ascii_lowercase();
        Some(name)
    }

    /// Parses the text of a name. The name is absolute, with or without a final dot.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut wire = Vec::with_capacity(text.len() + 2);
        let text = text.strip_suffix('.').unwrap_or(text);
        for label in text.split('.').filter(|_| !text.is_empty()) {
            let length = u8::try_from(label.len())
                .ok()
                .filter(|n| (1..=63).contains(n))?;
            wire.push(length);
            wire.extend(label.as_bytes());
        }
        wire.push(0);
        Self::read(&wire)
    }

    /// Returns the name in wire format, lower case, root label included.
    #[inline]
    pub fn wire(&self) -> &[u8] {
        &self.octets[..usize::from(self.length)]
    }

    /// Returns the number of labels, without the root.
    pub fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// Returns the offset of label `index` in [`Name::wire`]. Past the last label, returns the offset of the root.
    pub fn start_of(&self, index: usize) -> usize {
        match self.starts[..self.count()].get(index) {
            Some(start) => usize::from(*start),
            None => usize::from(self.length) - 1,
        }
    }

    /// Returns the first labels, if all of them are ASCII.
    pub fn labels(&self, count: usize) -> Option<impl Iterator<Item = &str>> {
        let text = str::from_utf8(&self.octets[..self.start_of(count)]);
        let text = text.ok().filter(|text| text.is_ascii())?;
        Some((0..count).map(|index| &text[self.start_of(index) + 1..self.start_of(index + 1)]))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Name {
    /// Writes the name as in a zone file. Octets that are not valid in host names are escaped as `\.` or `\DDD` (RFC
    /// 1035 section 5.1), so that a name cannot forge a log line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.count == 0 {
            return f.write_str(".");
        }
        write_labels(f, labels_of(self.wire()))
    }
}

/// Writes labels, each with a final dot.
pub(super) fn write_labels<'n>(
    f: &mut fmt::Formatter<'_>,
    labels: impl Iterator<Item = &'n [u8]>,
) -> fmt::Result {
    for label in labels {
        for octet in label {
            match octet {
                b'.' | b'\\' | b'"' | b';' | b'(' | b')' | b'@' | b'$' => {
                    write!(f, "\\{}", char::from(*octet))?;
                }
                0x21..=0x7e => write!(f, "{}", char::from(*octet))?,
                _ => write!(f, "\\{octet:03}")?,
            }
        }
        f.write_str(".")?;
    }
    Ok(())
}

/// Returns the labels of a name in wire format, without the root.
pub fn labels_of(wire: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = wire;
    std::iter::from_fn(move || {
        let [length @ 1..=63, after @ ..] = rest else {
            return None;
        };
        let (label, after) = after.split_at_checked(usize::from(*length))?;
        rest = after;
        Some(label)
    })
}
