//! `demo`: the built-in sample by the way of `serve --file`, and the lines to try.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use support::commands::global_dns;
use support::differences::set;
use support::process::{run_global_dns, run_tool};
use support::server::{Await, Server};
use support::wait::wait_for;
use support::wire::Over;

/// Starts the demo on free ports; what it prints goes to a file.
fn demo() -> (Server, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let printed = folder.path().join("printed");
    let mut command = global_dns(&[
        "demo",
        "--listen=127.0.0.1:0",
        "--admin-listen=127.0.0.1:0",
        "--api-listen=127.0.0.1:0",
        "--log-format=json",
    ]);
    // Its copy of the sample goes with the folder, even if the demo is killed.
    command.env("TMPDIR", folder.path());
    command.stdout(Stdio::from(File::create(&printed).unwrap()));
    let server = Server::start_command(folder, command, Await::Ready);
    (server, printed)
}

/// What the demo prints, once it is whole.
fn text(printed: &Path) -> String {
    wait_for("the hints", || {
        let text = fs::read_to_string(printed).unwrap();
        text.contains("Ctrl-C").then_some(text)
    })
}

#[test]
#[ignore = "needs dig"]
fn each_printed_line_works() {
    let (server, printed) = demo();
    let mut questions = Vec::new();
    let mut commands = Vec::new();
    let text = text(&printed);
    // Lines to try are indented, so that they can be told from the words around them.
    for line in text.lines().filter_map(|line| line.strip_prefix("  ")) {
        let words: Vec<&str> = line.split(' ').collect();
        let (program, arguments) = words.split_first().unwrap();
        let ended = run_tool(program, arguments);
        assert_eq!(ended.code, Some(0), "{line}: {}", ended.stderr);
        let ["dig", at, "-p", port, asked @ ..] = words.as_slice() else {
            assert_eq!(*program, env!("CARGO_BIN_EXE_global-dns"), "{line}");
            assert!(
                ended.stdout.contains("10.96.20.1"),
                "{line}: {}",
                ended.stdout
            );
            commands.push(arguments[0].to_owned());
            continue;
        };
        assert_eq!(format!("{}:{port}", &at[1..]), server.dns.to_string());
        questions.push(asked.join(" "));
        let said = &ended.stdout;
        assert!(said.contains("status: NOERROR"), "{line}: {said}");
        assert!(said.contains("flags: qr aa rd;"), "{line}: {said}");
        assert!(!said.contains("ANSWER: 0,"), "{line}: {said}");
        assert!(!said.contains("WARNING: Message"), "{line}: {said}");
    }
    // The sample shows a service in three clusters, its ports and parts, dashes, and a dead gateway.
    let expected = [
        "db.prod.global",
        "_sql._tcp.db.prod.global SRV",
        "db.global",
        "east.db.prod.global",
        "db-0.west.db.prod.global",
        "db-east.shop.global",
        "cache.prod.global",
    ];
    assert_eq!(questions, expected);
    assert_eq!(commands, ["explain", "table"]);
}

#[test]
fn the_sample_is_one_service_in_three_clusters_and_what_can_happen_to_others() {
    let (server, _printed) = demo();
    let data = |name: &str| server.ask(name, Over::Udp).data_set();
    let db = [
        "10.96.10.1",
        "10.96.10.2",
        "10.96.20.1",
        "192.0.2.10",
        "192.0.2.11",
    ];
    assert_eq!(data("db.prod.global. A"), set(db));
    assert_eq!(data("hub.db.prod.global. A"), set(&db[3..]));
    assert_eq!(data("db-east.shop.global. A"), set(["10.96.30.1"]));
    assert_eq!(data("cache.prod.global. A"), set(["10.96.40.1"]));
    let report = server.api("/api/v1/table");
    let endpoints = &report["services"][0]["endpoints"];
    assert_eq!(endpoints[0]["state"], "last-resort");
    assert_eq!(report["skipped"].as_array().unwrap().len(), 1);
    assert_eq!(report["skipped"][0]["reason"], "namespace-mismatch");
}

#[test]
fn the_sample_can_be_changed_and_goes_with_the_demo() {
    let (mut server, printed) = demo();
    let printed = text(&printed);
    let (_, rest) = printed.split_once("Change ").unwrap();
    let copy = rest.split(' ').next().unwrap().to_owned();
    let text = fs::read_to_string(&copy).unwrap();
    fs::write(&copy, text.replace("10.96.30.1", "10.96.30.7")).unwrap();
    server.wait_for_outcome("db-east.shop.global. A", "10.96.30.7");
    server.signal("INT");
    assert_eq!(server.exit_code(), Some(0));
    assert!(!Path::new(&copy).exists(), "{copy}");
}

#[test]
fn demo_takes_no_other_source() {
    for flag in ["--file=x", "--kubeconfig=x", "--zone=a.test"] {
        assert_eq!(run_global_dns(&["demo", flag]).code, Some(2), "{flag}");
    }
}
