//! Every JSON document of the binary and of the API, validated with its schema of `src/report/schema`.

use jsonschema::Validator;
use serde_json::{Value, json};
use support::http::get;
use support::objects::{Gateway, Manifest, local, mirror, objects};
use support::process::run_global_dns;
use support::repository::repository;
use support::server::Server;
use support::wait::wait_for;

/// The documents. Each has a schema of its name.
const DOCUMENTS: [&str; 9] = [
    "table", "explain", "replicas", "check", "fleet", "status", "problems", "events", "history",
];

fn schema(document: &str) -> Value {
    let path = repository(&format!("src/report/schema/{document}.json"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns a page of the API.
fn page(server: &Server, path: &str) -> String {
    get(server.api, path).unwrap().body
}

/// Validates a document, and that `schemaVersion` is its first field.
fn validate(document: &str, text: &str) -> Value {
    let value: Value =
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{document}: {error}: {text}"));
    let options = jsonschema::draft202012::options().should_validate_formats(true);
    let validator: Validator = options.build(&schema(document)).unwrap();
    let problems: Vec<String> = validator
        .iter_errors(&value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(problems.is_empty(), "{document}: {problems:#?}");
    let compact: String = text.split_whitespace().collect();
    assert!(compact.starts_with("{\"schemaVersion\":2,"), "{text}");
    value
}

/// Objects with every problem: conflicts, skipped objects, ambiguous short names, endpoints in every state.
fn broken() -> Manifest {
    objects()
        .with(
            mirror("prod", "db", "east")
                .ports(&[("sql", "TCP", 26257), ("dns", "UDP", 53)])
                .endpoint("db-0", &["10.96.1.1", "2001:db8::1"])
                .endpoint_behind(Gateway::Down, "db-1", &["10.96.1.2"]),
        )
        .with(
            local("prod", "db")
                .endpoint(Some("db-0"), "192.0.2.1", true)
                .endpoint(Some("db-1"), "192.0.2.2", false),
        )
        .with(mirror("prod", "db", "north").endpoint("db-0", &["0.0.0.0"]))
        .with(mirror("prod", "dead", "east").endpoint_behind(Gateway::Down, "d-0", &["10.96.1.3"]))
        .with(mirror("shop", "db", "west").endpoint("db-0", &["10.96.2.1"]))
        .with(mirror("shop", "idle", "west"))
}

/// Names with each result.
const NAMES: [(&str, &str); 8] = [
    ("db.prod.global", "NOERROR"),
    ("_sql._tcp.db.prod.global", "NODATA"),
    ("prod.global", "NODATA"),
    ("db.global", "NXDOMAIN"),
    ("idle.shop.global", "NXDOMAIN"),
    ("www.example.org", "REFUSED"),
    ("global.", "NOERROR"),
    ("dns-version.global", "NOERROR"),
];

/// Validates the documents of a server and of its file. Returns the results of `explain`, for type A.
fn validate_all(server: &Server, names: &[&str]) -> Vec<String> {
    let (file, url) = (server.file.display(), server.api);
    let (file, url) = (format!("--file={file}"), format!("--server=http://{url}"));
    let page = |path: &str| page(server, path);
    for source in [&file, &url] {
        let table = run_global_dns(&["table", "--output=json", source]);
        validate("table", &table.stdout);
    }
    validate("table", &page("/api/v1/table"));
    validate("status", &page("/api/v1/status"));
    validate("status", &page("/api/v1/summary"));
    validate("problems", &page("/api/v1/problems"));
    let history = validate("history", &page("/api/v1/history"));
    // The moment before the first table, and the one of now.
    for time in ["start", "now"] {
        let at = history[time].as_str().unwrap();
        let past = validate("status", &page(&format!("/api/v1/summary?at={at}")));
        assert!(past["from"].is_string());
        validate("problems", &page(&format!("/api/v1/problems?at={at}")));
    }
    let events = run_global_dns(&["events", "--output=json", &url]);
    validate("events", &events.stdout);
    validate("events", &page("/api/v1/events"));
    let check = run_global_dns(&["check", "--output=json", &file]);
    validate("check", &check.stdout);
    let one = format!("--server=one={}", server.api);
    let other = format!("--file=other={}", server.file.display());
    let fleet = run_global_dns(&[
        "fleet",
        "--output=json",
        &one,
        &other,
        "--server=none=127.0.0.1:1",
    ]);
    validate("fleet", &fleet.stdout);
    let dns = format!("--dns={}", server.dns);
    let resolver = format!("--resolver={}", server.dns);
    let check = [
        "check",
        "--output=json",
        &file,
        &dns,
        &resolver,
        "--connect",
    ];
    validate("check", &run_global_dns(&check).stdout);
    let explain = |name: &&str| {
        for source in [&file, &url] {
            let explained = run_global_dns(&["explain", name, "--output=json", source]);
            validate("explain", &explained.stdout);
        }
        let explained = validate("explain", &page(&format!("/api/v1/explain?name={name}")));
        explained["answers"][0]["result"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    names.iter().map(explain).collect()
}

#[test]
fn documents_of_the_demo_match_their_schemas() {
    let sample = std::fs::read_to_string(repository("src/demo.yaml")).unwrap();
    let server = Server::with_text(&sample, &["--cluster-name=hub"]);
    let names = [
        "db.prod.global",
        "web.shop.global",
        "pay.shop.global",
        "cache.prod.global",
    ];
    assert_eq!(validate_all(&server, &names), ["NOERROR"; 4]);
    let explained = validate("explain", &page(&server, "/api/v1/explain?name=10.96.20.1"));
    assert_ne!(explained["names"], json!([]));
    // A change makes events.
    server.rewrite(&sample.replace("10.96.30.1", "10.96.30.7"));
    server.wait_for_outcome("db-east.shop.global. A", "10.96.30.7");
    let events = || validate("events", &page(&server, "/api/v1/events"));
    wait_for("an event", || {
        (events()["events"] != json!([])).then_some(())
    });
    let history = page(&server, "/api/v1/history?name=db-east.shop.global");
    let history = validate("history", &history);
    assert_ne!(history["changes"], json!([]));
}

#[test]
fn documents_of_broken_objects_match_their_schemas() {
    let server = Server::with_objects(broken(), &["--watch-timeout=1s", "--max-stale=10s"]);
    let (names, results): (Vec<&str>, Vec<&str>) = NAMES.into_iter().unzip();
    assert_eq!(validate_all(&server, &names), results);
    let table = validate("table", &page(&server, "/api/v1/table"));
    for list in ["conflicts", "skipped"] {
        assert_ne!(table[list], json!([]), "{list}");
    }
    server.write_invalid("just words\n");
    server.wait_for_outcome("db.prod.global. A", "SERVFAIL");
    let explained = validate(
        "explain",
        &page(&server, "/api/v1/explain?name=db.prod.global"),
    );
    assert_eq!(explained["answers"][0]["result"], "SERVFAIL");
    let table = validate("table", &page(&server, "/api/v1/table"));
    assert_eq!(table["expired"], true);
    let history = validate("history", &page(&server, "/api/v1/history"));
    let last = history["spells"].as_array().unwrap().last().unwrap();
    assert_eq!(last["level"], "failing");
    assert_eq!(last["end"], Value::Null);
}

/// The command in `src/report/README.md` does the same.
#[test]
fn records_of_explain_are_lines_of_the_zone_file() {
    let server = Server::with_objects(broken(), &[]);
    let zone = page(&server, "/api/v1/table?output=zone");
    for name in ["db.prod.global", "_sql._tcp.db.prod.global"] {
        let explained = server.api(&format!("/api/v1/explain?name={name}"));
        let answers = explained["answers"].as_array().unwrap().iter();
        let records = answers.flat_map(|answer| answer["records"].as_array().unwrap());
        let text = |record: &Value, field: &str| record[field].as_str().unwrap().to_owned();
        let lines = records.map(|record| {
            let (name, rtype) = (text(record, "name"), text(record, "type"));
            format!(
                "{name}\t{}\tIN\t{rtype}\t{}",
                record["ttl"],
                text(record, "data")
            )
        });
        let lines: Vec<String> = lines.collect();
        let owner = format!("{name}.\t");
        let expected = zone.lines().filter(|line| line.starts_with(&owner));
        assert!(!lines.is_empty());
        assert_eq!(lines, expected.collect::<Vec<_>>());
    }
}

/// Each document can be used with its own schema alone, so that parts of several schemas are repeated.
#[test]
fn schemas_are_valid_closed_and_agree_on_common_parts() {
    let schemas = DOCUMENTS.map(schema);
    for (document, schema) in DOCUMENTS.iter().zip(&schemas) {
        assert!(jsonschema::meta::is_valid(schema), "{document}");
        assert_eq!(schema["title"], *document);
        let mut wrong = Vec::new();
        find_open_objects(schema, document, &mut wrong);
        assert!(wrong.is_empty(), "{wrong:?}");
        for (name, part) in schema["$defs"].as_object().into_iter().flatten() {
            for other in &schemas {
                let other = &other["$defs"][name];
                assert!(other.is_null() || other == part, "{document}: {name}");
            }
        }
    }
    // A field that the schema does not have is an error.
    let validator = jsonschema::draft202012::new(&schema("problems")).unwrap();
    let page = json!({"schemaVersion": 2, "total": 0, "problems": []});
    assert!(validator.is_valid(&page));
    for (field, value) in [("more", 1), ("schemaVersion", 1)] {
        let mut wrong = page.clone();
        wrong[field] = json!(value);
        assert!(!validator.is_valid(&wrong), "{field}");
    }
}

/// Lists the objects of a schema that allow further fields, or do not require all of theirs except those that can be absent.
fn find_open_objects(schema: &Value, path: &str, wrong: &mut Vec<String>) {
    let children = schema.as_object().into_iter().flatten();
    for (key, child) in children {
        find_open_objects(child, &format!("{path}/{key}"), wrong);
    }
    if schema["type"] == "object" {
        let fields = schema["properties"].as_object().unwrap().keys();
        let required = schema["required"].as_array().unwrap();
        let is_closed = schema["additionalProperties"] == false;
        // The description of an optional field says when it is absent.
        let is_optional = |field: &String| {
            let description = &schema["properties"][field]["description"];
            description
                .as_str()
                .is_some_and(|text| text.contains("Absent"))
        };
        let mut fields = fields.filter(|field| !is_optional(field));
        let is_complete = fields.all(|field| required.contains(&json!(field)));
        wrong.extend((!is_closed || !is_complete).then(|| path.to_owned()));
    }
}
