use super::*;
use serde_json::json;

#[test]
fn identifying_fields_are_read() {
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
    let of_object = object.type_meta();
    let version = of_object.api_version.as_deref();
    assert_eq!(
        (version, of_object.kind.as_deref()),
        (Some("v1"), Some("Service"))
    );
    assert_eq!(object.key(), Some(ObjectKey::new("prod", "db-east")));
    assert_eq!((object.namespace(), object.name()), ("prod", "db-east"));
    assert_eq!(object.resource_version(), Some("77"));
    assert_eq!(object.label(key::CLUSTER_NAME), Some("east"));
    assert_eq!(object.annotation(key::TTL), Some("9"));
    // Labels and annotations are separate, and unused ones are dropped.
    assert_eq!(object.annotation(key::CLUSTER_NAME), None);
    assert_eq!(
        (object.label("app"), object.annotation("note")),
        (None, None)
    );
    assert_eq!(object.problem(), None);
}

#[test]
fn absent_fields_are_empty() {
    let object = KubeObject::read("{}");
    assert!(object.type_meta().api_version.is_none() && object.type_meta().kind.is_none());
    assert_eq!((object.namespace(), object.name()), ("", ""));
    assert_eq!((object.key(), object.resource_version()), (None, None));
    assert!(object.spec::<ServiceSpec>().unwrap().ports.is_none());
    assert!(object.slice_body().unwrap().endpoints.is_none());
}

#[test]
fn invalid_metadata_is_reported_as_a_problem() {
    for (metadata, problem) in [
        (json!({}), "metadata.name is missing"),
        (
            json!({"name": 7}),
            "invalid type: integer `7`, expected a string",
        ),
        (
            json!({"name": "x", "labels": []}),
            "expected a map of strings",
        ),
        (
            json!({"name": "x", "labels": {"a": "b", "app": 7}}),
            "the value of label app is 7, not a string",
        ),
    ] {
        let json = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata}).to_string();
        let object = KubeObject::read(&json);
        let reported = object.problem().unwrap();
        assert!(reported.contains(problem), "{reported}");
        // The kind of the object is still known.
        assert_eq!(object.type_meta().kind.as_deref(), Some("Service"));
    }
}
