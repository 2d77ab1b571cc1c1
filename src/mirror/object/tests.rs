use super::*;
use serde_json::json;

#[test]
fn what_tells_objects_apart_is_read_from_the_top_and_from_metadata() {
    let json = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "namespace": "prod",
            "name": "db-east",
            "resourceVersion": "77",
            "labels": {key::CLUSTER_NAME: "east", "app": "db"},
            "annotations": {key::TTL: "9", "note": "\"quoted\""},
        },
    })
    .to_string();
    let object = KubeObject::read(&json);
    assert_eq!(object.api_version(), Some("v1"));
    assert_eq!(object.kind(), Some("Service"));
    assert_eq!(object.key(), Some(ObjectKey::new("prod", "db-east")));
    assert_eq!((object.namespace(), object.name()), ("prod", "db-east"));
    assert_eq!(object.resource_version(), Some("77"));
    assert_eq!(object.label(key::CLUSTER_NAME), Some("east"));
    assert_eq!(object.annotation(key::TTL), Some("9"));
    // A label is no annotation, and what nobody here asks for is not kept.
    assert_eq!(object.annotation(key::CLUSTER_NAME), None);
    assert_eq!(
        (object.label("app"), object.annotation("note")),
        (None, None)
    );
    assert_eq!(object.problem(), None);
}

#[test]
fn what_is_absent_is_nothing() {
    let object = KubeObject::read("{}");
    assert_eq!((object.api_version(), object.kind()), (None, None));
    assert_eq!((object.namespace(), object.name()), ("", ""));
    assert_eq!((object.key(), object.resource_version()), (None, None));
    assert!(object.service_spec().unwrap().ports.is_none());
    assert!(object.slice_body().unwrap().endpoints.is_none());
}

#[test]
fn one_odd_field_spoils_one_object_and_says_which() {
    for (metadata, problem) in [
        (json!({}), "metadata.name is missing"),
        (
            json!({"name": 7}),
            "invalid type: integer `7`, expected a string",
        ),
        (
            json!({"name": "x", "labels": []}),
            "expected a map of texts",
        ),
        (
            json!({"name": "x", "labels": {"a": "b", "app": 7}}),
            "label app is 7, which is no text",
        ),
    ] {
        let json = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata}).to_string();
        let object = KubeObject::read(&json);
        let found = object.problem().unwrap();
        assert!(found.contains(problem), "{found}");
        // Where it belongs is known all the same.
        assert_eq!(
            (object.api_version(), object.kind()),
            (Some("v1"), Some("Service"))
        );
    }
}
