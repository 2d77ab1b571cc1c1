//! `explain` and `table`: their output, offline and from a running server.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};
use support::commands::global_dns;
use support::http::get;
use support::objects::{Gateway, Manifest, local, mirror, objects};
use support::process::{ProcessOutput, run_global_dns};
use support::server::Server;

fn sample() -> Manifest {
    let misleading = mirror("prod", "db", "north").endpoint("db-0", &["0.0.0.0"]);
    objects()
        .with(
            mirror("prod", "db", "east")
                .ports(&[("sql", "TCP", 26257), ("http", "TCP", 8080)])
                .endpoint("db-0", &["10.96.1.1", "2001:db8::1"])
                .endpoint_behind(Gateway::Down, "db-1", &["10.96.1.2"]),
        )
        .with(
            local("prod", "db")
                .exported()
                .endpoint(Some("db-0"), "192.0.2.1", true),
        )
        .with(misleading)
        .with(mirror("shop", "db", "west").endpoint("db-0", &["10.96.2.1"]))
        .with(mirror("shop", "idle", "west"))
}

/// Returns the flag for the server's file.
fn offline(server: &Server) -> String {
    format!("--file={}", server.file.display())
}

/// Removes the times of problems, which only a running server knows. Each problem has one.
fn without_times(mut document: Value) -> Value {
    for problem in document["problems"].as_array_mut().unwrap() {
        let fields = problem.as_object_mut().unwrap();
        let time = (fields.remove("since"), fields.remove("isOlder"));
        // The server found them when it started.
        assert!(
            matches!(time, (Some(_), Some(Value::Bool(true)))),
            "{problem}"
        );
    }
    let services = document.get_mut("services").and_then(Value::as_array_mut);
    let services = services.into_iter().flatten();
    let of_services = services.flat_map(|service| service["endpoints"].as_array_mut().unwrap());
    of_services.for_each(remove_time);
    let own = document.get_mut("endpoints").and_then(Value::as_array_mut);
    own.into_iter().flatten().for_each(remove_time);
    document
}

/// Removes the time since which an endpoint is down or not ready.
fn remove_time(endpoint: &mut Value) {
    let is_alive = ["alive", "standby", "omitted"]
        .iter()
        .any(|state| endpoint["state"] == *state);
    let fields = endpoint.as_object_mut().unwrap();
    let time = fields.remove("since");
    fields.remove("isOlder");
    assert_ne!(time.is_some(), is_alive, "{endpoint}");
}

const FLAGS: [&str; 2] = ["--cluster-name=hub", "ttl=7"];

fn json_of(ended: &ProcessOutput) -> Value {
    serde_json::from_str(&ended.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}\n{}", ended.stdout, ended.stderr))
}

/// Names of all kinds: with records, without records, missing, outside the zone. The number is the exit code.
const NAMES: [(&str, i32); 17] = [
    ("db.prod.global", 0),
    ("DB.Prod.GLOBAL.", 0),
    ("db.global", 3),
    ("idle.global", 3),
    ("east.db.prod.global", 0),
    ("db-0.hub.db.prod.global", 0),
    ("_sql._tcp.db.prod.global", 0),
    ("_tcp.db.prod.global", 0),
    ("prod.global", 0),
    ("global", 0),
    ("dns.global", 0),
    ("ns.dns.global", 0),
    ("dns-version.global", 0),
    ("db.nowhere.global", 3),
    ("south.db.prod.global", 3),
    ("idle.shop.global", 3),
    ("www.example.org", 3),
];

/// Removes the serial of the SOA record, which is the time of the table.
fn remove_serial(explanation: &mut Value) {
    let soa = "/answers/0/records/0/data";
    if explanation["answers"][0]["rtype"] == "SOA"
        && let Some(data) = explanation.pointer_mut(soa)
    {
        let fields: Vec<&str> = data.as_str().unwrap().split(' ').collect();
        *data = json!([fields[..2].join(" "), fields[3..].join(" ")]);
    }
}

#[test]
fn explain_is_equal_offline_from_a_server_and_from_its_api() {
    let server = Server::with_objects(sample(), &FLAGS);
    for (name, code) in NAMES {
        let mut api = server.api(&format!("/api/v1/explain?name={name}"));
        remove_serial(&mut api);
        for source in [offline(&server), format!("--server=http://{}", server.api)] {
            let (model, api): (&[&str], _) = if source.starts_with("--file") {
                (&FLAGS, without_times(api.clone()))
            } else {
                (&[], api.clone())
            };
            let ended =
                run_global_dns(&[&["explain", name, &source, "--output=json"][..], model].concat());
            assert_eq!(ended.code, Some(code), "{name}: {}", ended.stderr);
            let mut explanation = json_of(&ended);
            remove_serial(&mut explanation);
            assert_eq!(explanation, api, "{name}");
        }
    }
}

#[test]
fn table_is_equal_offline_from_a_server_and_from_its_api() {
    let server = Server::with_objects(sample(), &FLAGS);
    let api = server.api("/api/v1/table");
    let url = format!("--server=http://{}", server.api);
    assert_eq!(
        json_of(&run_global_dns(&["table", &url, "--output=json"])),
        api
    );
    let file = offline(&server);
    let mut offline = json_of(&run_global_dns(
        &[&["table", &file, "--output=json"][..], &FLAGS].concat(),
    ));
    offline["serial"] = api["serial"].clone();
    assert_eq!(offline, without_times(api.clone()));
    let zone = get(server.api, "/api/v1/table?output=zone").unwrap().body;
    assert_eq!(
        run_global_dns(&["table", &url, "--output=zone"]).stdout,
        zone
    );
    assert!(
        zone.contains("db.prod.global.\t7\tIN\tA\t10.96.1.1\n"),
        "{zone}"
    );
}

#[test]
fn closed_pipe_is_not_an_error() {
    // The output exceeds the buffer of a pipe, so that a write fails.
    let mut manifest = objects();
    for index in 0..200 {
        let name = format!("service-{index}");
        let member = mirror("prod", &name, "east").endpoint(&format!("{name}-0"), &["10.96.1.1"]);
        manifest = manifest.with(member);
    }
    let server = Server::with_objects(manifest, &[]);
    for form in ["text", "wide", "json", "zone"] {
        let mut command = global_dns(&["table", &offline(&server), "--output", form]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut first = String::new();
        let mut stdout = BufReader::with_capacity(16, child.stdout.take().unwrap());
        stdout.read_line(&mut first).unwrap();
        drop(stdout);
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!first.is_empty(), "{form}");
        assert_eq!(
            (output.status.code(), stderr.as_str()),
            (Some(0), ""),
            "{form}"
        );
    }
}
