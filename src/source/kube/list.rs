//! A parser for lists of the API server: one JSON object around an array of up to a hundred thousand objects.
//!
//! It splits off each object when it has arrived, so that memory holds one object and not the whole list. The rest is
//! the list without its items. It shows whether the list is complete.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::requests::RequestFailure;

/// The maximum length of an object, or of the list without its items, in octets. The default limit of etcd is 1.5 MiB
/// for an object, which needs less than this as JSON.
pub(super) const MAX_OBJECT_OCTETS: usize = 16 << 20;

/// The maximum number of objects in a list: ten times the largest measured list. An endless list must not fill the
/// memory.
const MAX_OBJECTS: usize = 1_000_000;

/// Splits a list into objects.
#[derive(Default)]
pub(super) struct ListReader {
    /// What has arrived and was not read.
    buffer: Vec<u8>,
    /// The length of `buffer` with which reading goes on. It doubles while an object is incomplete, so that a long object is not
    /// read again for each of its parts.
    enough: usize,
    part: Part,
    /// The list without its items.
    frame: Vec<u8>,
    /// The number of complete items.
    items: usize,
}

/// A part of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    /// The octets before the array `items`.
    #[default]
    Head,
    Items,
    /// The octets after it.
    Tail,
}

// === impl ListReader ===

impl ListReader {
    /// Reads the next octets. Calls `take` with the JSON of each object that is complete.
    ///
    /// # Errors
    ///
    /// If an object is too long, or there are too many objects.
    pub(super) fn read(
        &mut self,
        octets: &[u8],
        mut take: impl FnMut(&str),
    ) -> Result<(), RequestFailure> {
        self.buffer.extend_from_slice(octets);
        if self.buffer.len() >= self.enough {
            if self.part == Part::Head {
                self.read_head();
            }
            if self.part == Part::Items {
                self.read_items(&mut take)?;
            }
            self.enough = (2 * self.buffer.len()).min(MAX_OBJECT_OCTETS);
        }
        if self.part == Part::Tail {
            self.frame.append(&mut self.buffer);
        }
        if self.buffer.len().max(self.frame.len()) > MAX_OBJECT_OCTETS {
            let mebibytes = MAX_OBJECT_OCTETS >> 20;
            let reason = format!("the list has an object of more than {mebibytes} MiB");
            return Err(RequestFailure::Unreadable(reason));
        }
        Ok(())
    }

    /// Ends the head where the array `items` of the list starts: with null in its place, the head is an object.
    fn read_head(&mut self) {
        const KEY: &[u8] = b"\"items\"";
        let keys = self.buffer.windows(KEY.len()).enumerate();
        for (start, _) in keys.filter(|(_, octets)| *octets == KEY) {
            let after = &self.buffer[start + KEY.len()..];
            let array = after.iter().position(|octet| !b": \t\r\n".contains(octet));
            let Some(array) = array.filter(|array| after[*array] == b'[') else {
                continue;
            };
            let end = start + KEY.len() + array;
            let head = [&self.buffer[..end], b"null"].concat();
            if serde_json::from_slice::<IgnoredAny>(&[&head, &b"}"[..]].concat()).is_ok() {
                (self.frame, self.part) = (head, Part::Items);
                self.buffer.drain(..=end);
                return;
            }
        }
    }

    /// Takes the complete items out of the buffer.
    fn read_items(&mut self, take: &mut impl FnMut(&str)) -> Result<(), RequestFailure> {
        let mut start = 0;
        loop {
            let separators = self.buffer[start..]
                .iter()
                .position(|octet| !b", \t\r\n".contains(octet));
            start += separators.unwrap_or(self.buffer.len() - start);
            if self.buffer.get(start) == Some(&b']') {
                self.part = Part::Tail;
                start += 1;
                break;
            }
            let mut items = serde_json::Deserializer::from_slice(&self.buffer[start..])
                .into_iter::<&RawValue>();
            // The rest has not arrived, or is no JSON, which the end of the list shows.
            let Some(Ok(item)) = items.next() else {
                break;
            };
            self.items += 1;
            if self.items > MAX_OBJECTS {
                let reason = format!("the list has more than {MAX_OBJECTS} objects");
                return Err(RequestFailure::Unreadable(reason));
            }
            take(item.get());
            start += items.byte_offset();
        }
        self.buffer.drain(..start);
        Ok(())
    }

    /// Ends the list. Returns its resource version.
    ///
    /// # Errors
    ///
    /// If the list is not complete, as a single page is not.
    pub(super) fn finish(mut self, take: impl FnMut(&str)) -> Result<String, RequestFailure> {
        #[derive(Deserialize)]
        struct List {
            metadata: ListMeta,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct ListMeta {
            #[serde(default)]
            resource_version: String,
            #[serde(rename = "continue")]
            continue_token: Option<String>,
        }
        self.enough = 0;
        self.read(&[], take)?;
        self.frame.append(&mut self.buffer);
        let List { metadata } = serde_json::from_slice(&self.frame).map_err(|error| {
            RequestFailure::Unreadable(format!("cannot parse the list: {error}"))
        })?;
        if metadata
            .continue_token
            .is_some_and(|token| !token.is_empty())
        {
            let reason = "the API server returned one page instead of the whole list";
            return Err(RequestFailure::Unreadable(reason.to_owned()));
        }
        Ok(metadata.resource_version)
    }
}

#[cfg(test)]
mod tests;
