//! A parser for lists of the API server: one JSON object around an array of up to a hundred thousand objects.
//!
//! It splits off each object when it has arrived, so that memory holds one object and not the whole list. The rest is
//! the list without its items. It shows whether the list is complete.

use serde::Deserialize;

/// The maximum length of an object, or of the list without its items, in octets. The default limit of etcd is 1.5 MiB
/// for an object, which needs less than this as JSON.
pub(super) const MAX_OBJECT_OCTETS: usize = 16 << 20;

/// The maximum number of objects in a list: ten times the largest measured list. An endless list must not fill the
/// memory.
pub(super) const MAX_OBJECTS: usize = 1_000_000;

/// Splits a list into objects.
#[derive(Default)]
pub(super) struct ListReader {
    /// The list without its items.
    frame: Vec<u8>,
    /// The current item, incomplete.
    item: Vec<u8>,
    /// The number of open objects and arrays.
    depth: usize,
    /// Whether the reader is in the array `items`. Objects at depth [`ITEMS_DEPTH`] are items then.
    is_in_items: bool,
    is_in_string: bool,
    is_escaped: bool,
    /// The number of complete items.
    items: usize,
}

/// The depth at which items start: the list and its array `items` are open.
const ITEMS_DEPTH: usize = 2;

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
        let mut rest = octets;
        while !rest.is_empty() {
            let was_item = self.is_item();
            let (run, after) = rest.split_at(self.run(rest));
            rest = after;
            if self.is_separator(run) {
                continue;
            }
            self.track(run);
            let is_item = self.is_item();
            if was_item || is_item {
                append(&mut self.item, run)?
            } else {
                append(&mut self.frame, run)?
            }
            if was_item && !is_item {
                self.end_item(&mut take)?;
            }
        }
        Ok(())
    }

    /// Returns whether a run of octets separates two items. Separators are not part of the frame.
    fn is_separator(&self, run: &[u8]) -> bool {
        run == b"," && self.is_in_items && self.depth == ITEMS_DEPTH
    }

    /// Calls `take` with the item, which is complete.
    fn end_item(&mut self, take: &mut impl FnMut(&str)) -> Result<(), ListError> {
        self.items += 1;
        if self.items > MAX_OBJECTS {
            return Err(ListError::TooMany);
        }
        match str::from_utf8(&self.item) {
            Ok(json) => take(json),
            Err(_) => take(&String::from_utf8_lossy(&self.item)),
        }
        self.item.clear();
        Ok(())
    }

    /// Returns the length of the next run of octets: one structural octet, or all octets before the next one.
    fn run(&self, octets: &[u8]) -> usize {
        let is_structural = |octet: &u8| {
            if self.is_in_string {
                self.is_escaped || matches!(octet, b'"' | b'\\')
            } else {
                matches!(octet, b'"' | b'{' | b'}' | b'[' | b']' | b',')
            }
        };
        let length = octets.iter().position(is_structural);
        length.unwrap_or(octets.len()).max(1)
    }

    /// Updates the state of the reader by a run of octets.
    fn track(&mut self, run: &[u8]) {
        match (self.is_in_string, run[0]) {
            (true, _) if self.is_escaped => self.is_escaped = false,
            (true, b'\\') => self.is_escaped = true,
            (true, b'"') => self.is_in_string = false,
            (false, b'"') => self.is_in_string = true,
            (false, b'{' | b'[') => {
                self.is_in_items |= run == b"[" && self.depth == 1 && self.is_after_items_key();
                self.depth += 1;
            }
            (false, b'}' | b']') => {
                self.depth = self.depth.saturating_sub(1);
                self.is_in_items &= self.depth >= ITEMS_DEPTH;
            }
            _ => {}
        }
    }

    /// Returns whether the reader is within an item.
    fn is_item(&self) -> bool {
        self.is_in_items && self.depth > ITEMS_DEPTH
    }

    /// Ends the list. Returns its resource version.
    ///
    /// # Errors
    ///
    /// If the list is not complete.
    pub(super) fn finish(self) -> Result<String, ListError> {
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
        let List { metadata } = serde_json::from_slice(&self.frame)?;
        match metadata.continue_token {
            Some(token) if !token.is_empty() => Err(ListError::Partial),
            _ => Ok(metadata.resource_version),
        }
    }

    /// Returns whether the frame ends with the key `items`.
    fn is_after_items_key(&self) -> bool {
        let frame = self.frame.trim_ascii_end();
        let name = frame.strip_suffix(b":").map(<[u8]>::trim_ascii_end);
        name.is_some_and(|name| name.ends_with(b"\"items\""))
    }
}

/// Appends a run of octets to a part of a list.
fn append(part: &mut Vec<u8>, run: &[u8]) -> Result<(), ListError> {
    if part.len() + run.len() > MAX_OBJECT_OCTETS {
        return Err(ListError::TooLong);
    }
    part.extend_from_slice(run);
    Ok(())
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
        for octets in text.chunks(step.max(1)) {
            reader.read(octets, |json| {
                items.push(serde_json::from_str(json).unwrap_or(Value::Null));
            })?;
        }
        Ok((items, reader.finish()?))
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
