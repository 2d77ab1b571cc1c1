//! Go's resolver: SRV at plain names and at names with prefixes, hosts, and both address families.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use support::commands::tool;
use support::process::run_checked;
use support::repository::repository;
use tempfile::TempDir;

use super::{APP, server};

/// Returns questions in the format of `tests/tools/golookup` with their records. Without records, the name does not
/// exist.
fn cases() -> Vec<(&'static str, Vec<String>)> {
    let members = ["db-0.east", "db-1.east", "db-0.hub", "db-0.west"];
    let targets = |port_of: fn(&str) -> u16, ports: &[u16]| {
        let targets = members.iter().flat_map(|member| {
            let ports = ports.iter().copied().chain([port_of(member)]);
            ports.map(move |port| format!("{member}.db.prod.global. {port}"))
        });
        sorted(targets)
    };
    let mongodb = |member: &str| {
        if member.ends_with("west") {
            27018
        } else {
            27017
        }
    };
    let short = targets(mongodb, &[]).into_iter();
    let short = sorted(short.map(|target| target.replace(".prod.global.", ".global.")));
    let v4 = ["10.96.1.1", "10.96.1.2", "10.96.2.1", "192.0.2.1"];
    let v6 = ["2001:db8::1:1"];
    let all = || v4.iter().chain(&v6).map(|ip| (*ip).to_owned());
    vec![
        ("srv::db.prod.global.", targets(mongodb, &[8080])),
        ("srv:mongodb/tcp:db.prod.global.", targets(mongodb, &[])),
        ("srv::_mongodb._tcp.db.prod.global.", targets(mongodb, &[])),
        ("srv:mongodb/tcp:db.global.", short),
        ("srv:mongodb/udp:db.prod.global.", Vec::new()),
        ("srv:mongodb/tcp:app.prod.global.", Vec::new()),
        ("srv::nope.prod.global.", Vec::new()),
        ("host::db.prod.global.", sorted(all())),
        ("host::DB.Global.", sorted(all())),
        ("host::nope.prod.global.", Vec::new()),
        ("ip:ip4:db.prod.global.", sorted(v4.map(str::to_owned))),
        ("ip:ip6:db.prod.global.", sorted(v6.map(str::to_owned))),
        // Too large for a datagram; the second attempt uses TCP.
        (
            "host::app.prod.global.",
            sorted((1..=APP).map(|n| format!("10.97.0.{n}"))),
        ),
        (
            "srv:http/tcp:app.prod.global.",
            sorted((1..=APP).map(|n| format!("app-{n}.east.app.prod.global. 8080"))),
        ),
    ]
}

fn sorted(texts: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut texts: Vec<String> = texts.into_iter().collect();
    texts.sort();
    texts
}

/// The compiled program `tests/tools/golookup`.
struct Lookup {
    program: PathBuf,
    _folder: TempDir,
}

/// Compiles the program.
fn build() -> Lookup {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("golookup");
    let mut build = Command::new(tool("go").unwrap());
    build
        .args(["build", "-trimpath", "-o"])
        .arg(&program)
        .arg(".");
    build.env("GOWORK", "off").env("CGO_ENABLED", "0");
    run_checked(build.current_dir(repository("tests/tools/golookup"))).unwrap();
    Lookup {
        program,
        _folder: folder,
    }
}

impl Lookup {
    /// Queries a server and returns the program's JSON output.
    fn query(&self, server: SocketAddr, questions: &[&str]) -> Value {
        let mut command = Command::new(&self.program);
        command.arg(server.to_string()).args(questions);
        serde_json::from_str(&run_checked(&mut command).unwrap()).unwrap()
    }
}

#[test]
fn go_finds_every_record_with_and_without_prefix() {
    let server = server();
    let cases = cases();
    let questions: Vec<&str> = cases.iter().map(|(question, _)| *question).collect();
    let found = build().query(server.dns, &questions);
    let answers = found["answers"].as_array().unwrap();
    assert_eq!(answers.len(), cases.len());
    for (answer, (question, records)) in answers.iter().zip(&cases) {
        assert_eq!(answer["question"], *question);
        assert_eq!(answer["records"], json!(records), "{answer}");
        assert_eq!(answer["notFound"], records.is_empty(), "{answer}");
        assert_eq!(answer["error"] == "", !records.is_empty(), "{answer}");
    }
    println!("peers: Go's resolver: {} questions", cases.len());
}
