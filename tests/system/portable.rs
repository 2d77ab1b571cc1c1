//! The program without what only Linux has (`src/server/platform.rs`), as it is on other systems. `tests/run portable` builds it.

use std::env;
use std::path::PathBuf;
use std::process::Stdio;

use support::commands::command;
use support::process::run;
use support::query::query;
use support::reply::Reply;
use support::server::{Server, WaitUntil};
use support::wait::TIMEOUT;
use support::wire::{Transport, exchange};

/// Returns the path of the program.
fn program() -> PathBuf {
    let path = env::var_os("GLOBAL_DNS_TEST_PORTABLE");
    PathBuf::from(path.expect("tests/run portable sets GLOBAL_DNS_TEST_PORTABLE"))
}

#[test]
fn demo_answers_and_commands_work() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = command(program());
    demo.args(["demo", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"]);
    demo.args(["--api-listen=127.0.0.1:0", "--log-format=json"]);
    demo.env("TMPDIR", folder.path()).stdout(Stdio::null());
    let mut server = Server::start_command(folder, demo, WaitUntil::Ready);
    for transport in [Transport::Udp, Transport::Tcp] {
        for (question, count) in [("db.prod.global A", 5), ("_sql._tcp.db.prod.global SRV", 5)] {
            let reply = exchange(server.dns, &query(question).0, transport, TIMEOUT).unwrap();
            let reply = Reply::read(&reply).unwrap();
            assert_eq!((reply.rcode, reply.answers.len()), (0, count), "{question}");
        }
    }
    let api = format!("http://{}", server.api);
    for (arguments, expected) in [
        (&["table"][..], "cache"),
        (&["explain", "db-0.west.db.prod.global"], "10.96.20.1"),
    ] {
        let output = run(command(program()).args(arguments).args(["--server", &api]));
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        assert!(output.stdout.contains(expected), "{}", output.stdout);
    }
    // Only Linux tells the figures of the process.
    let metrics = server.admin("/metrics").body;
    assert!(!metrics.contains("process_open_fds"));
    server.signal("TERM");
    assert!(server.end().unwrap().success());
}
