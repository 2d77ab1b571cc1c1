//! Reader of the elements of DNS messages: numbers, names, record data, options.

use std::fmt::Write as _;
use std::net::IpAddr;

use super::query::hex;
use super::reply::rtype::{A, AAAA, NS, PTR, SOA, SRV, TXT};

/// A parsed value, or the reason why it is malformed.
pub(crate) type Result<T> = std::result::Result<T, String>;

/// A cursor over a message.
pub(crate) struct Reader<'o> {
    octets: &'o [u8],
    at: usize,
}

impl<'o> Reader<'o> {
    pub(crate) fn new(octets: &'o [u8]) -> Self {
        Self { octets, at: 0 }
    }

    /// Fails if octets are left.
    pub(crate) fn end(&self) -> Result<()> {
        match self.octets.len() - self.at {
            0 => Ok(()),
            rest => Err(format!("{rest} octets after the last record")),
        }
    }

    fn take(&mut self, length: usize) -> Result<&'o [u8]> {
        let taken = self.octets.get(self.at..self.at + length);
        let taken =
            taken.ok_or_else(|| format!("message ends within {length} octets at {}", self.at))?;
        self.at += length;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let taken = self.take(N)?;
        Ok(taken.try_into().unwrap())
    }

    pub(crate) fn number(&mut self) -> Result<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn long(&mut self) -> Result<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads a name and keeps its case. Fails if a pointer leads forward.
    pub(crate) fn name(&mut self) -> Result<String> {
        let (mut text, mut at, mut end) = (String::new(), self.at, None);
        let mut length_of_name = 1;
        loop {
            let length = *self.octets.get(at).ok_or("message ends within a name")?;
            match length {
                0 => break,
                0xc0.. => {
                    let low = *self
                        .octets
                        .get(at + 1)
                        .ok_or("message ends within a pointer")?;
                    let to = usize::from(length & 0x3f) << 8 | usize::from(low);
                    if to >= at {
                        return Err(format!("pointer at {at} leads forward to {to}"));
                    }
                    end.get_or_insert(at + 2);
                    at = to;
                }
                1..=63 => {
                    let label = self.octets.get(at + 1..at + 1 + usize::from(length));
                    write_label(&mut text, label.ok_or("message ends within a label")?);
                    length_of_name += 1 + usize::from(length);
                    at += 1 + usize::from(length);
                }
                _ => return Err(format!("label of type {length:#x} at {at}")),
            }
            if length_of_name > 255 {
                return Err("name of more than 255 octets".into());
            }
        }
        self.at = end.unwrap_or(at + 1);
        if text.is_empty() {
            text.push('.');
        }
        Ok(text)
    }

    /// Reads RDATA with its length prefix.
    pub(crate) fn data(&mut self, rtype: u16) -> Result<String> {
        let length = usize::from(self.number()?);
        let end = self.at + length;
        let data = match (rtype, length) {
            (A, 4) => IpAddr::from(self.array::<4>()?).to_string(),
            (AAAA, 16) => IpAddr::from(self.array::<16>()?).to_string(),
            (NS | PTR, _) => self.name()?,
            (SRV, 7..) => {
                let [priority, weight, port] = [self.number()?, self.number()?, self.number()?];
                format!("{priority} {weight} {port} {}", self.name()?)
            }
            (SOA, 22..) => {
                let mut fields = vec![self.name()?, self.name()?];
                for _ in 0..5 {
                    fields.push(self.long()?.to_string());
                }
                fields.join(" ")
            }
            (TXT, 1..) => {
                let mut strings = Vec::new();
                while self.at < end {
                    let [length] = self.array()?;
                    let string = self.take(usize::from(length))?;
                    strings.push(format!("\"{}\"", string.escape_ascii()));
                }
                strings.join(" ")
            }
            (A | AAAA | SRV | SOA | TXT, _) => {
                return Err(format!("{length} octets of RDATA for type {rtype}"));
            }
            _ => hex(self.take(length)?),
        };
        if self.at == end {
            Ok(data)
        } else {
            Err(format!("RDATA of type {rtype} does not end at {end}"))
        }
    }

    /// Reads the options of an OPT record with their length prefix.
    pub(crate) fn options(&mut self) -> Result<Vec<(u16, Vec<u8>)>> {
        let length = usize::from(self.number()?);
        let end = self.at + length;
        let mut options = Vec::new();
        while self.at < end {
            let (code, length) = (self.number()?, self.number()?);
            options.push((code, self.take(usize::from(length))?.to_vec()));
        }
        if self.at == end {
            Ok(options)
        } else {
            Err(format!("options do not end at {end}"))
        }
    }
}

/// Appends a label and a dot. Escapes other than printable characters as `\DDD` (RFC 1035 section 5.1).
fn write_label(text: &mut String, label: &[u8]) {
    for octet in label {
        match octet {
            0x21..=0x7e if !b".\\".contains(octet) => text.push(char::from(*octet)),
            _ => write!(text, "\\{octet:03}").unwrap(),
        }
    }
    text.push('.');
}
