//! A list as the API server sends it: one JSON object around an array of objects, which may be a hundred thousand.
//!
//! Objects are cut out as they arrive, so that one of them is held at a time and not all of the list. What is left is a
//! list without items, which says whether it came whole.

use serde::Deserialize;

/// Octets of an object, or of what is around objects, that are accepted. etcd holds no object of more than 1.5 MiB by
/// default, and this is more than JSON makes of one.
pub(super) const LONGEST: usize = 16 << 20;

/// Objects of a list that are accepted: ten times what was ever measured. A list that never ends must not fill memory.
pub(super) const MOST: usize = 1_000_000;

/// Cuts objects out of a list.
#[derive(Default)]
pub(super) struct ListReader {
    /// The list without its items.
    frame: Vec<u8>,
    /// The item that has begun.
    item: Vec<u8>,
    /// How many objects and arrays are open.
    depth: usize,
    /// Objects at depth [`ITEM`] are items.
    is_in_items: bool,
    is_in_text: bool,
    is_escaped: bool,
    /// Items that came whole.
    items: usize,
}

/// How many objects and arrays are open where an item begins: the list, and `items`.
const ITEM: usize = 2;

/// Why a list cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ListError {
    /// It is no list, or it is cut.
    #[error("a list could not be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// An object is longer than any can be.
    #[error("a list holds an object of more than {} MiB", LONGEST >> 20)]
    TooLong,
    /// It has more objects than any cluster.
    #[error("a list holds more than {MOST} objects")]
    TooMany,
    /// The server sent a part of it, although all of it was asked for.
    #[error("a list is one page of several, although all was asked for")]
    Partial,
}

// === impl ListReader ===

impl ListReader {
    /// Takes what has arrived, and gives every object that is whole by now to `take`, as JSON.
    ///
    /// # Errors
    ///
    /// If an object is too long, or there are too many.
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
            self.note(run);
            let is_item = self.is_item();
            match was_item || is_item {
                true => append(&mut self.item, run)?,
                false => append(&mut self.frame, run)?,
            }
            if was_item && !is_item {
                self.end_item(&mut take)?;
            }
        }
        Ok(())
    }

    /// Tells whether a run of octets lies between items, of which the frame has none.
    fn is_separator(&self, run: &[u8]) -> bool {
        run == b"," && self.is_in_items && self.depth == ITEM
    }

    /// Gives the item, which is whole by now, to `take`.
    fn end_item(&mut self, take: &mut impl FnMut(&str)) -> Result<(), ListError> {
        self.items += 1;
        if self.items > MOST {
            return Err(ListError::TooMany);
        }
        match str::from_utf8(&self.item) {
            Ok(json) => take(json),
            Err(_) => take(&String::from_utf8_lossy(&self.item)),
        }
        self.item.clear();
        Ok(())
    }

    /// Returns how many octets can be taken together: one that has a meaning here, or all before the next one.
    fn run(&self, octets: &[u8]) -> usize {
        let has_meaning = |octet: &u8| match self.is_in_text {
            true => self.is_escaped || matches!(octet, b'"' | b'\\'),
            false => matches!(octet, b'"' | b'{' | b'}' | b'[' | b']' | b','),
        };
        let length = octets.iter().position(has_meaning);
        length.unwrap_or(octets.len()).max(1)
    }

    /// Notes what such a run of octets means.
    fn note(&mut self, run: &[u8]) {
        match (self.is_in_text, run[0]) {
            (true, _) if self.is_escaped => self.is_escaped = false,
            (true, b'\\') => self.is_escaped = true,
            (true, b'"') => self.is_in_text = false,
            (false, b'"') => self.is_in_text = true,
            (false, b'{' | b'[') => {
                self.is_in_items |= run == b"[" && self.depth == 1 && self.is_items();
                self.depth += 1;
            }
            (false, b'}' | b']') => {
                self.depth = self.depth.saturating_sub(1);
                self.is_in_items &= self.depth >= ITEM;
            }
            _ => {}
        }
    }

    /// Tells whether an item has begun and not ended.
    fn is_item(&self) -> bool {
        self.is_in_items && self.depth > ITEM
    }

    /// Ends the list, and returns the version that it is of.
    ///
    /// # Errors
    ///
    /// If it is not whole.
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

    /// Tells whether `items` is the name of what begins now.
    fn is_items(&self) -> bool {
        let frame = self.frame.trim_ascii_end();
        let name = frame.strip_suffix(b":").map(<[u8]>::trim_ascii_end);
        name.is_some_and(|name| name.ends_with(b"\"items\""))
    }
}

/// Appends a run of octets to a part of a list.
fn append(part: &mut Vec<u8>, run: &[u8]) -> Result<(), ListError> {
    if part.len() + run.len() > LONGEST {
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

    /// Reads a list in pieces of `step` octets.
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
    fn objects_come_out_whole_however_they_arrive() {
        let items = vec![
            json!({"metadata": {"name": "db", "labels": {"a": "}],{[\"\\"}}}),
            json!({"items": [{"items": [1, 2]}], "metadata": {}}),
            json!({}),
        ];
        for text in [
            json!({"kind": "ServiceList", "metadata": {"resourceVersion": "7"}, "items": items})
                .to_string(),
            // The order is the server's own, and so is white space.
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
    fn a_list_without_items_is_empty() {
        for items in ["null", "[]"] {
            let text = format!(r#"{{"metadata":{{"resourceVersion":"7"}},"items":{items}}}"#);
            assert_eq!(read(text.as_bytes(), 5).unwrap(), (vec![], "7".to_owned()));
        }
    }

    #[test]
    fn only_the_lists_own_items_count() {
        let text =
            r#"{"other":{"items":[{"a":1}]},"metadata":{"resourceVersion":"7"},"items":[{"b":2}]}"#;
        let (items, _) = read(text.as_bytes(), 3).unwrap();
        assert_eq!(items, [json!({"b": 2})]);
    }

    #[test]
    fn one_that_is_cut_anywhere_is_no_list() {
        let text = json!({"items": [{"a": 1}, {"a": "}"}], "metadata": {"resourceVersion": "7"}});
        let text = text.to_string();
        for length in 0..text.len() {
            let cut = read(&text.as_bytes()[..length], 4);
            assert!(cut.is_err(), "{}", &text[..length]);
        }
    }

    #[test]
    fn a_page_of_several_is_refused() {
        let text = r#"{"metadata":{"resourceVersion":"7","continue":"more"},"items":[]}"#;
        let refused = read(text.as_bytes(), 9).unwrap_err().to_string();
        assert_eq!(
            refused,
            "a list is one page of several, although all was asked for"
        );
    }

    #[test]
    fn an_object_without_an_end_is_given_up() {
        let mut reader = ListReader::default();
        let mut result = reader.read(br#"{"items":[{"a":""#, |_| {});
        let piece = [b'x'; 4096];
        for _ in 0..LONGEST / piece.len() {
            result = result.and_then(|()| reader.read(&piece, |_| {}));
        }
        let refused = result.unwrap_err().to_string();
        assert_eq!(refused, "a list holds an object of more than 16 MiB");
    }

    #[test]
    fn a_list_without_an_end_is_given_up() {
        let mut reader = ListReader::default();
        let (mut taken, mut result) = (0, reader.read(br#"{"items":["#, |_| {}));
        let piece = b"{},".repeat(1000);
        while result.is_ok() {
            result = reader.read(&piece, |_| taken += 1);
        }
        assert_eq!(taken, MOST);
        let refused = result.unwrap_err().to_string();
        assert_eq!(refused, "a list holds more than 1000000 objects");
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
        fn what_comes_out_is_what_a_json_library_reads(
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
        fn nothing_panics(text in prop::collection::vec(any::<u8>(), 0..200), step in 1_usize..40) {
            let _ = read(&text, step);
        }
    }
}
