//! Input forms: documents, lists, typed lists, JSON, several files, and the output of `kubectl`.

use global_dns::model::ProblemKind;
use serde_json::{Value, json};
use support::differences::set;
use support::objects::{Gateway, Manifest, local, mirror, objects};
use support::process::{ProcessOutput, run_global_dns};
use support::repository::repository;
use support::server::Server;
use support::wire::Transport;

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
            "hint": ProblemKind::GatewayDown.row().hint, "anchor": "problems.html#gateway-down"},
        {"kind": "pod-not-ready", "level": "note", "subject": "prod/db", "service": "prod/db",
            "sentence": "Pods are not ready", "detail": "in this cluster: db-1",
            "hint": ProblemKind::PodNotReady.row().hint, "anchor": "problems.html#pod-not-ready"},
    ])
}

#[test]
fn documents_lists_typed_lists_and_json_result_in_the_same_table() {
    let sample = sample();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": sample.0});
    let services = typed_list(&sample, "Service", "v1");
    let slices = typed_list(&sample, "EndpointSlice", "discovery.k8s.io/v1");
    let nested = json!({"apiVersion": "v1", "kind": "List", "items": [list]});
    let forms = [
        ("YAML documents", sample.text()),
        ("a List in YAML", yaml(&list)),
        ("a List in JSON", list.to_string()),
        ("a List in indented JSON", format!("{list:#}")),
        ("a List in a List", yaml(&nested)),
        (
            "a ServiceList and an EndpointSliceList",
            format!("{}---\n{}", yaml(&services), yaml(&slices)),
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

#[test]
fn output_of_kubectl_is_read() {
    let mut items = recorded("services");
    items.extend(recorded("endpointslices"));
    let list = json!({"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}});
    let text = yaml(&list);
    // Features of this form: a list without indentation, quoted empty strings, and a literal block.
    for particular in [
        "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Service\n",
        "kind: List\nmetadata:\n  resourceVersion: \"\"\n",
        "last-applied-configuration: |\n",
        "    clusterIP: None\n    clusterIPs:\n    - None\n",
        "creationTimestamp: \"2026-",
    ] {
        assert!(text.contains(particular), "{particular}");
    }
    let server = Server::with_text(&text, &[]);
    let east = ["10.96.146.197", "10.96.48.116", "10.96.33.115"];
    let west = ["10.96.200.190", "10.96.46.26", "10.96.139.176"];
    let north = ["10.96.195.82", "10.96.55.36", "10.96.106.244"];
    let data = |name: &str| server.ask(name, Transport::Udp).data_set();
    assert_eq!(
        data("nginx.default.global. A"),
        set([east, west, north].concat())
    );
    assert_eq!(data("west.nginx.default.global. A"), set(west));
    assert_eq!(
        data("nginx-set-1.north.nginx.default.global. A"),
        set([north[1]])
    );
    let srv = |host: &str| {
        set([80, 26257].map(|port| format!("0 10 {port} {host}.east.nginx.default.global.")))
    };
    assert_eq!(
        data("nginx-set-2.east.nginx.default.global. SRV"),
        srv("nginx-set-2")
    );
    let report = server.api("/api/v1/table");
    assert_eq!(
        (&report["skipped"], &report["conflicts"]),
        (&json!([]), &json!([]))
    );
}

/// Returns the initial objects of one resource in a recording.
fn recorded(resource: &str) -> Vec<Value> {
    let path = repository("tests/fixtures/recordings/02-scale-up-east.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let start = lines.take_while(|line| line.get("synced").is_none());
    start
        .filter(|line| line["resource"] == resource)
        .map(|line| line["object"].clone())
        .collect()
}

/// Writes YAML in the style of `kubectl -o yaml`.
fn yaml(value: &Value) -> String {
    let mut text = String::new();
    write(&mut text, value, 0);
    text
}

fn write(text: &mut String, value: &Value, indent: usize) {
    let margin = " ".repeat(indent);
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                text.push_str(&format!("{margin}{name}:"));
                match value {
                    Value::Object(inner) if !inner.is_empty() => {
                        text.push('\n');
                        write(text, value, indent + 2);
                    }
                    // Items have the same indentation as the name of their list.
                    Value::Array(items) if !items.is_empty() => {
                        text.push('\n');
                        write(text, value, indent);
                    }
                    Value::Object(_)
                    | Value::Array(_)
                    | Value::String(_)
                    | Value::Number(_)
                    | Value::Bool(_)
                    | Value::Null => {
                        text.push(' ');
                        write(text, value, indent + 2);
                    }
                }
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                let mut inner = String::new();
                write(&mut inner, item, indent + 2);
                text.push_str(&format!("{margin}- {}", inner.trim_start()));
            }
        }
        Value::String(line) => text.push_str(&format!("{}\n", scalar(line, &margin))),
        Value::Object(_) | Value::Array(_) | Value::Number(_) | Value::Bool(_) | Value::Null => {
            text.push_str(&format!("{value}\n"))
        }
    }
}

fn scalar(line: &str, margin: &str) -> String {
    if let Some(body) = line.strip_suffix('\n') {
        return format!("|\n{margin}{}", body.replace('\n', &format!("\n{margin}")));
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let means_something_else = line.parse::<f64>().is_ok()
        || ["true", "false", "null", "yes", "no", "on", "off"].contains(&line)
        || line.starts_with('-');
    if line.is_empty() || !line.chars().all(is_plain) || means_something_else {
        Value::from(line).to_string()
    } else {
        line.to_owned()
    }
}
