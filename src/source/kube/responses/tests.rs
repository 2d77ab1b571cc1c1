use futures::io::Cursor;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Reads a list in chunks of `step` octets.
fn read(text: &[u8], step: usize) -> Result<(Vec<Value>, String), RequestFailure> {
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
fn list_without_items_is_empty() {
    for items in ["null", "[]"] {
        let text = format!(r#"{{"metadata":{{"resourceVersion":"7"}},"items":{items}}}"#);
        assert_eq!(read(text.as_bytes(), 5).unwrap(), (vec![], "7".to_owned()));
    }
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

/// A proxy may send with 200 what the API server said.
#[test]
fn reason_without_a_list_is_refused() {
    let text = r#"{"kind":"Status","metadata":{},"status":"Failure","code":503}"#;
    let refused = read(text.as_bytes(), 9).unwrap_err().to_string();
    assert!(refused.contains("missing field `items`"), "{refused}");
    let empty = r#"{"metadata":{"resourceVersion":"7"},"items":null}"#;
    assert!(read(empty.as_bytes(), 9).is_ok());
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

#[tokio::test]
async fn events_end_with_the_response_or_with_an_error() {
    let event =
        |name: &str| format!(r#"{{"type":"ADDED","object":{{"metadata":{{"name":"{name}"}}}}}}"#);
    let (a, b) = (event("a"), event("b"));
    let long = "x".repeat(MAX_OBJECT_OCTETS);
    let cases: [(&str, String, &[&str]); 8] = [
        ("a blank line", format!("{a}\n \n{b}\r\n"), &["a", "b"]),
        (
            "a last line without its end",
            format!("{a}\n{b}"),
            &["a", "b"],
        ),
        ("a broken connection", format!("{a}\n{}", &b[..20]), &["a"]),
        (
            "a line that is no event",
            format!("{a}\nwords\n{b}\n"),
            &[
                "a",
                "cannot decode an event: expected value at line 1 column 1",
            ],
        ),
        (
            "an incomplete event",
            format!("{}\n{b}\n", &a[..20]),
            &["cannot decode an event: EOF while parsing a string at line 1 column 20"],
        ),
        (
            "a refusal",
            r#"{"kind":"Status","code":504,"message":"slow"}"#.to_owned(),
            &["the API server returned 504: slow"],
        ),
        (
            "the longest line",
            format!("{}{a}\n", &long.replace('x', " ")[a.len() + 1..]),
            &["a"],
        ),
        (
            "a longer line",
            format!("{long}x\n"),
            &["a line of the watch has more than 16 MiB"],
        ),
    ];
    for (what, text, expected) in cases {
        let mut events = EventReader::new(Cursor::new(text));
        let mut read = Vec::new();
        loop {
            match events.next().await {
                Ok(Some(event)) => read.push(event.object.name().to_owned()),
                Ok(None) | Err(RequestFailure::Ended(_)) => break,
                Err(failure) => {
                    read.push(failure.to_string());
                    break;
                }
            }
        }
        assert_eq!(read, expected, "{what}");
    }
}
