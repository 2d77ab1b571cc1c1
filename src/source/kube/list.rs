//! A parser for lists of the API server: one JSON object around an array of up to a hundred thousand objects.
//!
//! It splits off each object when it has arrived, so that memory holds one object and not the whole list. The rest is
//! the list without its items. It shows whether the list is complete.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// The maximum length of an object, or of the list without its items, in octets. The default limit of etcd is 1.5 MiB
/// for an object, which needs less than this as JSON.
pub(super) const MAX_OBJECT_OCTETS: usize = 16 << 20;

/// The maximum number of objects in a list: ten times the largest measured list. An endless list must not fill the
/// memory.
pub(super) const MAX_OBJECTS: usize = 1_000_000;

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

/// The reason why a list cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ListError {
    /// The response is not a list, or is truncated.
    #[error("cannot parse the list: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// An object is too long.
    #[error("the list has an object of more than {} MiB", MAX_OBJECT_OCTETS >> 20)]
    TooLong,
    /// The list has too many objects.
    #[error("the list has more than {MAX_OBJECTS} objects")]
    TooMany,
    /// The server sent one page, although the request was for the whole list.
    #[error("the API server returned one page instead of the whole list")]
    Partial,
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
    ) -> Result<(), ListError> {
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
            return Err(ListError::TooLong);
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
    fn read_items(&mut self, take: &mut impl FnMut(&str)) -> Result<(), ListError> {
        let mut start = 0;
        loop {
            let mut rest = self.buffer[start..].iter();
            let separators = rest.position(|octet| !b", \t\r\n".contains(octet));
            start += separators.unwrap_or(self.buffer.len() - start);
            if self.buffer.get(start) == Some(&b']') {
                self.part = Part::Tail;
                start += 1;
                break;
            }
            let rest = serde_json::Deserializer::from_slice(&self.buffer[start..]);
            let mut items = rest.into_iter::<&RawValue>();
            // The rest has not arrived, or is no JSON, which the end of the list shows.
            let Some(Ok(item)) = items.next() else {
                break;
            };
            self.items += 1;
            if self.items > MAX_OBJECTS {
                return Err(ListError::TooMany);
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
    /// If the list is not complete.
    pub(super) fn finish(mut self, take: impl FnMut(&str)) -> Result<String, ListError> {
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
        let List { metadata } = serde_json::from_slice(&self.frame)?;
        match metadata.continue_token {
            Some(token) if !token.is_empty() => Err(ListError::Partial),
            _ => Ok(metadata.resource_version),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// Reads a list in chunks of `step` octets.
    fn read(text: &[u8], step: usize) -> Result<(Vec<Value>, String), ListError> {
        let mut reader = ListReader::default();
        let mut items = Vec::new();
        let mut take = |json: &str| items.push(serde_json::from_str(json).unwrap());
        for octets in text.chunks(step.max(1)) {
            reader.read(octets, &mut take)?;
        }
        let version = reader.finish(take)?;
        Ok((items, version))
    }

    #[test]
    fn objects_are_complete_for_every_chunk_size() {
        let items = vec![
            json!({"metadata": {"name": "db", "labels": {"a": "}],{[\"\\"}}}),
            json!({"items": [{"items": [1, 2]}], "metadata": {}}),
            json!({}),
        ];
        for text in [
            json!({"kind": "ServiceList", "metadata": {"resourceVersion": "7"}, "items": items})
                .to_string(),
            // Servers choose the order of keys and the white space.
            format!(
                "{{ \"items\" :\n[ {} , {},{} ] ,\"metadata\":{{\"resourceVersion\":\"7\", \"continue\": \"\"}}}}\n",
                items[0], items[1], items[2]
            ),
        ] {
            for step in [1, 2, 7, text.len()] {
                assert_eq!(
                    read(text.as_bytes(), step).unwrap(),
                    (items.clone(), "7".to_owned())
                );
            }
        }
    }

    #[test]
    fn list_without_items_is_empty() {
        for items in ["null", "[]"] {
            let text = format!(r#"{{"metadata":{{"resourceVersion":"7"}},"items":{items}}}"#);
            assert_eq!(read(text.as_bytes(), 5).unwrap(), (vec![], "7".to_owned()));
        }
    }

    #[test]
    fn nested_items_are_ignored() {
        let text =
            r#"{"other":{"items":[{"a":1}]},"metadata":{"resourceVersion":"7"},"items":[{"b":2}]}"#;
        let (items, _) = read(text.as_bytes(), 3).unwrap();
        assert_eq!(items, [json!({"b": 2})]);
    }

    #[test]
    fn truncated_list_is_refused() {
        let text = json!({"items": [{"a": 1}, {"a": "}"}], "metadata": {"resourceVersion": "7"}})
            .to_string();
        for length in 0..text.len() {
            let cut = read(&text.as_bytes()[..length], 4);
            assert!(cut.is_err(), "{}", &text[..length]);
        }
    }

    #[test]
    fn single_page_is_refused() {
        let text = r#"{"metadata":{"resourceVersion":"7","continue":"more"},"items":[]}"#;
        let refused = read(text.as_bytes(), 9).unwrap_err().to_string();
        assert_eq!(
            refused,
            "the API server returned one page instead of the whole list"
        );
    }

    #[test]
    fn endless_object_is_refused() {
        let mut reader = ListReader::default();
        let mut result = reader.read(br#"{"items":[{"a":""#, |_| {});
        let piece = [b'x'; 4096];
        for _ in 0..MAX_OBJECT_OCTETS / piece.len() {
            result = result.and_then(|()| reader.read(&piece, |_| {}));
        }
        let refused = result.unwrap_err().to_string();
        assert_eq!(refused, "the list has an object of more than 16 MiB");
    }

    /// Its length must not depend on what arrives with it.
    #[test]
    fn object_below_the_limit_is_read_in_any_parts() {
        let name = "x".repeat(MAX_OBJECT_OCTETS * 3 / 4);
        let items = vec![
            json!({"name": name}),
            json!({"name": "y".repeat(MAX_OBJECT_OCTETS / 2)}),
        ];
        let list = json!({"items": items, "metadata": {"resourceVersion": "7"}}).to_string();
        for step in [1 << 16, 1_000_003, list.len()] {
            assert!(read(list.as_bytes(), step).unwrap().0 == items, "{step}");
        }
    }

    #[test]
    fn endless_list_is_refused() {
        let mut reader = ListReader::default();
        let (mut taken, mut result) = (0, reader.read(br#"{"items":["#, |_| {}));
        let piece = b"{},".repeat(1000);
        while result.is_ok() {
            result = reader.read(&piece, |_| taken += 1);
        }
        assert_eq!(taken, MAX_OBJECTS);
        let refused = result.unwrap_err().to_string();
        assert_eq!(refused, "the list has more than 1000000 objects");
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((".*", inner), 0..4)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn objects_are_those_that_a_json_library_reads(
            items in prop::collection::vec(prop::collection::vec((".*", any_json()), 0..4), 0..6),
            step in 1_usize..40,
        ) {
            let items: Vec<Value> = items
                .into_iter()
                .map(|pairs| Value::Object(pairs.into_iter().collect()))
                .collect();
            let list = json!({"metadata": {"resourceVersion": "7"}, "items": items});
            let text = list.to_string();
            prop_assert_eq!(read(text.as_bytes(), step).unwrap().0, items);
        }

        #[test]
        fn arbitrary_octets_do_not_panic(text in prop::collection::vec(any::<u8>(), 0..200), step in 1_usize..40) {
            let _ = read(&text, step);
        }
    }
}
