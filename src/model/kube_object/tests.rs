use super::*;
use serde_json::json;

#[test]
fn invalid_metadata_is_reported_as_a_problem() {
    for (metadata, problem) in [
        (json!({}), "metadata.name is missing"),
        (
            json!({"name": 7}),
            "invalid type: integer `7`, expected a string",
        ),
        (json!({"name": "x", "labels": []}), "expected a map"),
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
