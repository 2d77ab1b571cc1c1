use super::*;
use crate::testing::{endpoint, mirror};

fn parsed(text: &str) -> Result<Lists, String> {
    let texts = [(Path::new("a.yaml"), text.to_owned())];
    parse_texts(&texts).map_err(|error| error.to_string())
}

fn service() -> String {
    mirror("prod", "db", "east").to_string()
}

#[test]
fn lists_may_be_nested_up_to_a_limit() {
    let nested = |depth: usize| {
        let (head, tail) = (r#"{"kind":"List","items":["#, "]}");
        head.repeat(depth) + &service() + &tail.repeat(depth)
    };
    for depth in 0..=MAX_NESTED_LISTS {
        let lists = parsed(&nested(depth)).unwrap();
        assert_eq!(lists[&Kind::Service].len(), 1, "{depth}");
    }
    // Deep enough to overflow the stack of any thread, and to take quadratic time.
    for depth in [MAX_NESTED_LISTS + 1, 40_000] {
        let refused = parsed(&nested(depth)).unwrap_err();
        let expected = "a.yaml: document 1: lists are nested more than 4 deep";
        assert_eq!(refused, expected);
    }
}

#[test]
fn empty_list_is_valid_and_text_without_relevant_objects_is_not() {
    for text in [
        "apiVersion: v1\nitems: []\nkind: List\nmetadata: {resourceVersion: ''}\n",
        r#"{"apiVersion": "v1", "kind": "List", "items": []}"#,
        "kind: ServiceList\nitems: null\n",
        "kind: EndpointSliceList\nitems: []\n",
        "kind: List\nitems: [{kind: ServiceList, items: []}]\n",
        "kind: List\nitems: []\n---\nkind: Pod\nmetadata: {name: p}\n",
    ] {
        let lists = parsed(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(lists.values().all(Objects::is_empty), "{text}");
        assert_eq!(lists.len(), Kind::ALL.len(), "{text}");
    }
    for text in [
        "",
        "---\n",
        "kind: Pod\nmetadata: {name: p}\n",
        "kind: PodList\nitems: []\n",
        "kind: List\nitems: [{kind: Pod, metadata: {name: p}}]\n",
    ] {
        let expected = "a.yaml: contains no Service or EndpointSlice";
        assert_eq!(parsed(text).err().as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn size_of_parsed_yaml_is_proportional_to_its_length() {
    // Lists of ten aliases of the list before: 10^9 texts, or 4 GiB of one.
    let names = ["b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let mut many = "a: &a x\n".to_owned();
    for (last, name) in std::iter::once("a").chain(names).zip(names) {
        many += &format!(
            "{name}: &{name} [{}]\n",
            vec![format!("*{last}"); 10].join(", ")
        );
    }
    let long = "x".repeat(64 * 1024);
    let large = format!("a: &a {long}\nb: [{}]\n", vec!["*a"; 65_536].join(", "));
    for text in [many, large] {
        let refused = parsed(&text).unwrap_err();
        assert!(refused.starts_with("a.yaml:"), "{refused}");
        assert!(refused.contains("too large"), "{refused}");
    }
    // Normal use of aliases is allowed.
    let used = format!(
        "x: &x {{a: b}}\ny: [{}]\n---\n",
        vec!["*x"; 10_000].join(", ")
    );
    assert!(parsed(&format!("{used}{}", service())).is_ok());
}

#[test]
fn nested_brackets_do_not_overflow_the_stack() {
    for text in [
        "[".repeat(100_000),
        "- ".repeat(100_000),
        "{a: ".repeat(100_000),
        r#"{"a":"#.repeat(100_000),
        "? ".repeat(100_000),
    ] {
        let refused = parsed(&text).unwrap_err();
        assert!(refused.starts_with("a.yaml:"), "{refused}");
    }
    let deep = format!("x: {}{}\n", "[".repeat(60), "]".repeat(60));
    let object = endpoint("prod", "db", "east", "db-0", &["10.0.0.1"]).to_string();
    assert!(parsed(&format!("{deep}---\n{object}")).is_ok());
}
