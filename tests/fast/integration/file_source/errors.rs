//! Invalid input: files at start, single objects at any time.

use std::path::Path;

use serde_json::Value;
use support::objects::{Manifest, mirror, objects, with_cluster_ip};
use support::process::run_global_dns;
use support::server::Server;

fn valid() -> Manifest {
    mirror("prod", "db", "east")
        .endpoint("db-0", &["10.96.1.1"])
        .into()
}

/// Runs a command with invalid files. Returns its standard error without the folder name.
fn error_of(command: &[&str], files: &[(&str, Option<&str>)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut arguments: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
    for (name, text) in files {
        let path = folder.path().join(name);
        if let Some(text) = text {
            std::fs::write(&path, text).unwrap();
        }
        arguments.push(format!("--file={}", path.display()));
    }
    let ended = run_global_dns(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(1), ""),
        "{}",
        ended.stderr
    );
    let folder = Path::new(folder.path()).display().to_string();
    ended.stderr.replace(&format!("{folder}/"), "")
}

const SERVE: [&str; 4] = [
    "serve",
    "--listen=127.0.0.1:0",
    "--admin-listen=127.0.0.1:0",
    "--api-listen=127.0.0.1:0",
];

#[test]
fn invalid_file_is_an_error_at_start() {
    let broken = "apiVersion: v1\nkind: Service\nmetadata:\n  name: db\n name: [\n";
    let cut = valid().text().trim_end().trim_end_matches('}').to_owned();
    let cases = [
        (
            "missing",
            None,
            "error: cannot read a.yaml: No such file or directory (os error 2)\n",
        ),
        (
            "empty",
            Some(""),
            "error: a.yaml: contains no Service or EndpointSlice\n",
        ),
        (
            "other kinds alone",
            Some("kind: Pod\nmetadata: {name: x}\n---\nkind: PodList\nitems: [{}]\n"),
            "error: a.yaml: contains no Service or EndpointSlice\n",
        ),
        (
            "no object at all",
            Some("just words\n"),
            "error: a.yaml: contains no Service or EndpointSlice\n",
        ),
    ];
    for (what, text, expected) in cases {
        for command in [&["table"][..], &SERVE] {
            assert_eq!(error_of(command, &[("a.yaml", text)]), expected, "{what}");
        }
    }
    // The text of a syntax error comes from the parser, but the location is required.
    for (what, text, place) in [
        ("broken YAML", broken, "error: a.yaml:5:"),
        ("truncated JSON", cut.as_str(), "error: a.yaml:"),
    ] {
        for command in [&["table"][..], &SERVE] {
            let message = error_of(command, &[("a.yaml", Some(text))]);
            let rest = message.strip_prefix(place);
            let rest = rest.unwrap_or_else(|| panic!("{what}: {message}"));
            let (position, reason) = rest.split_once(": ").unwrap();
            assert!(
                position.chars().all(|c| c.is_ascii_digit() || c == ':'),
                "{what}: {message}"
            );
            assert!(
                reason.len() > 10 && reason.lines().count() == 1,
                "{what}: {message}"
            );
        }
    }
}

#[test]
fn duplicate_object_is_an_error_that_names_it_and_both_files() {
    let text = valid().text();
    let twice = format!("{text}{text}");
    let slice = Manifest(vec![valid().0[2].clone()]).text();
    for (files, expected) in [
        (
            vec![("a.yaml", Some(text.as_str())), ("b.yaml", Some(&text))],
            "error: Service/prod/db-east occurs twice, in a.yaml and in b.yaml\n",
        ),
        (
            vec![("a.yaml", Some(twice.as_str()))],
            "error: Service/prod/db-east occurs twice, in a.yaml and in a.yaml\n",
        ),
        (
            vec![("a.yaml", Some(text.as_str())), ("b.yaml", Some(&slice))],
            "error: EndpointSlice/prod/db-0-east-7xk2p occurs twice, in a.yaml and in b.yaml\n",
        ),
    ] {
        assert_eq!(error_of(&["table"], &files), expected);
    }
}

#[test]
fn invalid_object_is_skipped_and_counted_and_the_others_are_served() {
    let mut bad = Manifest::from(
        mirror("prod", "db", "west")
            .endpoint("db-0", &["10.96.2.1"])
            .endpoint("db-1", &["10.96.2.2"])
            .endpoint("db-2", &["0.0.0.0"])
            .endpoint("db-3", &["10.96.2.3"])
            .endpoint("db-4", &["10.96.2.4"])
            .endpoint("db-5", &["10.96.2.5"]),
    );
    // The slice of each endpoint mirror follows it.
    let endpoint_mirror = |host: usize| 1 + 2 * host;
    bad.0[endpoint_mirror(1)]["spec"]["ports"] = Value::from("many");
    let names = "/metadata/annotations/mirror.linkerd.io~1remote-svc-fq-name";
    let set = |object: &mut Value, pointer: &str, value: &str| {
        *object.pointer_mut(pointer).unwrap() = Value::from(value);
    };
    let (slash, other) = (endpoint_mirror(3), endpoint_mirror(4));
    set(&mut bad.0[slash], names, "db_3.db.prod.svc.cluster.local");
    set(&mut bad.0[other], names, "db-4.db.bank.svc.cluster.local");
    let orphan = endpoint_mirror(5);
    bad.0[orphan]["metadata"]["labels"]["mirror.linkerd.io/headless-mirror-svc-name"] =
        Value::from("db-gone");
    let cluster_ip = with_cluster_ip(mirror("prod", "web", "east").service(), "10.96.3.1");
    let server = Server::with_objects(objects().with(valid()).with(bad).with(cluster_ip), &[]);

    assert_eq!(server.outcome("db.prod.global. A"), "10.96.1.1 10.96.2.1");
    for host in ["db-1", "db-2", "db-3", "db-4", "db-5"] {
        let name = format!("{host}.west.db.prod.global. A");
        assert_eq!(server.outcome(&name), "NXDOMAIN", "{name}");
    }
    assert_eq!(server.outcome("web.prod.global. A"), "10.96.3.1");
    for (reason, count) in [
        ("unusable-object", 3.0),
        ("namespace-mismatch", 1.0),
        ("no-parent", 1.0),
        ("left-out", 0.0),
    ] {
        let metric = format!("global_dns_skipped_objects{{reason=\"{reason}\"}}");
        assert_eq!(server.metric(&metric), count, "{reason}");
    }
    let skipped = server.api("/api/v1/table")["skipped"].clone();
    let mut seen: Vec<(String, String)> = Vec::new();
    for skip in skipped.as_array().unwrap() {
        let text = |field: &str| skip[field].as_str().unwrap().to_owned();
        assert!(!text("detail").is_empty(), "{skip}");
        seen.push((text("object"), text("reason")));
    }
    seen.sort();
    let expected = [
        ("Service/prod/db-1-west", "unusable-object"),
        ("Service/prod/db-2-west", "unusable-object"),
        ("Service/prod/db-3-west", "unusable-object"),
        ("Service/prod/db-4-west", "namespace-mismatch"),
        ("Service/prod/db-5-west", "no-parent"),
    ]
    .map(|(object, reason)| (object.to_owned(), reason.to_owned()));
    assert_eq!(seen, expected);
    // Each skipped object is logged once.
    server.log.wait(0, "Published table"); // skipped objects are logged before it
    let log = server.log.events();
    let log_count = |object: &str| {
        let lines = log.iter().map(|line| &line["fields"]);
        lines
            .filter(|f| f["problem"].is_string() && f["subject"] == object)
            .count()
    };
    for (object, _) in &expected {
        assert_eq!(log_count(object), 1, "{object}");
    }
}

/// Rule M9: every object that is skipped is reported. `mirrored-service: true` without quotes is a typical mistake.
#[test]
fn object_with_invalid_metadata_is_skipped_and_counted() {
    let label = "/metadata/labels/mirror.linkerd.io~1mirrored-service";
    for (pointer, value, reason) in [
        (label, Value::from(true), "unusable-object"),
        ("/metadata/name", Value::Null, "unusable-object"),
        ("/metadata/namespace", Value::Null, "namespace-mismatch"),
    ] {
        let mut slip = Manifest::from(mirror("prod", "db", "west"));
        *slip.0[0].pointer_mut(pointer).unwrap() = value;
        let server = Server::with_objects(objects().with(valid()).with(slip), &[]);
        assert_eq!(server.outcome("db.prod.global. A"), "10.96.1.1");
        let skipped = server.api("/api/v1/table")["skipped"].take();
        assert_eq!(skipped.as_array().unwrap().len(), 1, "{pointer}: {skipped}");
        assert_eq!(skipped[0]["reason"], reason, "{pointer}");
        let metric = format!("global_dns_skipped_objects{{reason=\"{reason}\"}}");
        assert_eq!(server.metric(&metric), 1.0, "{pointer}");
    }
}
