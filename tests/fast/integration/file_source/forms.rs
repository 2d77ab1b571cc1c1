//! Input forms: documents, lists, typed lists and several files. `examples` has YAML as people and `kubectl` write it.

use global_dns::model::ProblemKind;
use serde_json::{Value, json};
use support::objects::{Gateway, Manifest, local, mirror, objects};
use support::process::{ProcessOutput, run_global_dns};

/// Returns a service in two remote clusters and the local one, and another behind a gateway that is down.
fn sample() -> Manifest {
    objects()
        .with(
            mirror("prod", "db", "east")
                .endpoint("db-0", &["10.96.1.1", "2001:db8::1"])
                .endpoint("db-1", &["10.96.1.2"]),
        )
        .with(
            local("prod", "db")
                .exported()
                .endpoint(Some("db-0"), "192.0.2.1", true)
                .endpoint(Some("db-1"), "192.0.2.2", false),
        )
        .with(
            mirror("shop", "cache", "west")
                .ports(&[("redis", "TCP", 6379), ("redis", "UDP", 6379)])
                .endpoint_behind(Gateway::Down, "cache-0", &["10.96.2.1"]),
        )
}

/// Returns the services of [`sample`] in the JSON of the API.
fn services_of_the_sample() -> Value {
    let sql = json!([{"name": "sql", "protocol": "TCP", "port": 26257}]);
    let redis = json!([
        {"name": "redis", "protocol": "TCP", "port": 6379},
        {"name": "redis", "protocol": "UDP", "port": 6379},
    ]);
    json!([
        {"namespace": "prod", "service": "db", "kind": "headless", "ttl": 5, "owns_short_name": true, "endpoints": [
            {"namespace": "prod", "service": "db", "kind": "headless", "cluster": "east", "hostname": "db-0", "addresses": ["10.96.1.1", "2001:db8::1"], "ports": sql,
             "state": "alive", "returned": true, "object": "Service/prod/db-0-east"},
            {"namespace": "prod", "service": "db", "kind": "headless", "cluster": "east", "hostname": "db-1", "addresses": ["10.96.1.2"], "ports": sql,
             "state": "alive", "returned": true, "object": "Service/prod/db-1-east"},
            {"namespace": "prod", "service": "db", "kind": "local", "cluster": "hub", "hostname": "db-0", "addresses": ["192.0.2.1"], "ports": sql,
             "state": "alive", "returned": true, "object": "EndpointSlice/prod/db-ipv4"},
            {"namespace": "prod", "service": "db", "kind": "local", "cluster": "hub", "hostname": "db-1", "addresses": ["192.0.2.2"], "ports": sql,
             "state": "not-ready", "returned": false, "why": "its pod is not ready", "object": "EndpointSlice/prod/db-ipv4"},
        ]},
        {"namespace": "shop", "service": "cache", "kind": "headless", "ttl": 5, "owns_short_name": true, "endpoints": [
            {"namespace": "shop", "service": "cache", "kind": "headless", "cluster": "west", "hostname": "cache-0", "addresses": ["10.96.2.1"], "ports": redis,
             "state": "down", "returned": true,
             "why": "its gateway is down; returned because nothing better is left", "object": "Service/shop/cache-0-west"},
        ]},
    ])
}

/// Writes each text into a file and runs `table` with all files.
fn table_of(texts: &[&str]) -> ProcessOutput {
    let folder = tempfile::tempdir().unwrap();
    let mut arguments = vec!["table".to_owned(), "--output=json".to_owned()];
    arguments.push("--cluster-name=hub".to_owned());
    for (index, text) in texts.iter().enumerate() {
        let path = folder.path().join(format!("{index}.yaml"));
        std::fs::write(&path, text).unwrap();
        arguments.push(format!("--file={}", path.display()));
    }
    run_global_dns(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

fn report(ended: &ProcessOutput) -> Value {
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    serde_json::from_str(&ended.stdout).unwrap()
}

/// Returns a typed list, whose items have no kind and version.
fn typed_list(manifest: &Manifest, kind: &str, version: &str) -> Value {
    let items = manifest.0.iter().filter(|object| object["kind"] == kind);
    let items: Vec<Value> = items
        .cloned()
        .map(|mut object| {
            let fields = object.as_object_mut().unwrap();
            fields.remove("kind");
            fields.remove("apiVersion");
            object
        })
        .collect();
    json!({"apiVersion": version, "kind": format!("{kind}List"), "metadata": {}, "items": items})
}

fn problems_of_the_sample() -> Value {
    json!([
        {"kind": "gateway-down", "level": "warning", "subject": "shop/cache", "service": "shop/cache", "cluster": "west",
            "sentence": "Gateway is down", "detail": "cluster 'west': cache-0",
            "hint": ProblemKind::GatewayDown.hint().replace("CLUSTER", "west"), "anchor": "problems.html#gateway-down"},
        {"kind": "pod-not-ready", "level": "note", "subject": "prod/db", "service": "prod/db",
            "sentence": "Pods are not ready", "detail": "in this cluster: db-1",
            "hint": ProblemKind::PodNotReady.hint().replace("NAMESPACE", "prod"), "anchor": "problems.html#pod-not-ready"},
    ])
}

#[test]
fn documents_lists_typed_lists_and_json_result_in_the_same_table() {
    let sample = sample();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": sample.0});
    let services = typed_list(&sample, "Service", "v1");
    let slices = typed_list(&sample, "EndpointSlice", "discovery.k8s.io/v1");
    let nested = json!({"apiVersion": "v1", "kind": "List", "items": [list]});
    // `kubectl` does not indent the items of a list.
    let items: String = sample.0.iter().map(|item| format!("- {item}\n")).collect();
    let forms = [
        ("YAML documents", sample.text()),
        (
            "a List in YAML",
            format!(
                "apiVersion: v1\nitems:\n{items}kind: List\nmetadata:\n  resourceVersion: \"\"\n"
            ),
        ),
        ("a List in JSON", list.to_string()),
        ("a List in indented JSON", format!("{list:#}")),
        ("a List in a List", nested.to_string()),
        (
            "a ServiceList and an EndpointSliceList",
            format!("{services}\n---\n{slices}\n"),
        ),
        (
            "empty documents and foreign kinds in between",
            format!(
                "---\n---\n# only a comment\n---\nkind: Pod\nmetadata: {{name: x}}\n{}---\nnull\n...\n",
                sample.text()
            ),
        ),
    ];
    for (form, text) in forms {
        let report = report(&table_of(&[&text]));
        let expected = json!({
            "schemaVersion": 2, "generation": 1, "serial": report["serial"], "zones": ["global."],
            "services": services_of_the_sample(), "skipped": [], "conflicts": [], "problems": problems_of_the_sample(),
        });
        assert_eq!(report, expected, "{form}");
    }
}

#[test]
fn kinds_of_the_same_name_in_other_groups_are_ignored() {
    let text = sample().text().replace(
        r#""apiVersion":"v1","kind":"Service""#,
        r#""apiVersion":"serving.knative.dev/v1","kind":"Service""#,
    );
    assert!(text.contains("knative"));
    assert_eq!(report(&table_of(&[&text]))["services"], json!([]));
}

#[test]
fn several_files_are_merged() {
    let manifest = sample();
    let (one, other) = manifest.0.split_at(3);
    let texts = [one, other].map(|part| Manifest(part.to_vec()).text());
    let merged = report(&table_of(&[&texts[0], &texts[1]]));
    assert_eq!(merged["services"], services_of_the_sample());
    let alone = report(&table_of(&[&texts[0]]));
    assert_ne!(alone["services"], services_of_the_sample());
}
