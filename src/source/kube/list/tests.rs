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
    let text =
        json!({"items": [{"a": 1}, {"a": "}"}], "metadata": {"resourceVersion": "7"}}).to_string();
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
