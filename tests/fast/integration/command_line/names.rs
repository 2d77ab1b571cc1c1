//! Names without a zone, addresses, filters, and the formats of the output.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::Value;
use support::commands::global_dns;
use support::objects::{Gateway, Manifest, mirror, objects};
use support::process::{Process, ProcessOutput, run_global_dns};
use support::server::Server;

fn sample() -> Manifest {
    objects()
        .with(
            mirror("prod", "db", "east")
                .endpoint("db-0", &["10.96.1.1"])
                .endpoint_behind(Gateway::Down, "db-1", &["10.96.1.2"]),
        )
        .with(mirror("prod", "db", "west").endpoint("db-0", &["10.96.2.1"]))
        .with(mirror("shop", "cart", "west").endpoint("cart-0", &["10.96.2.1", "2001:db8::1"]))
        .with(mirror("shop", "bad", "west").endpoint("bad-0", &["0.0.0.0"]))
}

/// Runs a command with the server and with its file. Asserts that both print the same. The generation, the serial and the
/// times of problems are facts of a process.
fn by_both(server: &Server, arguments: &[&str]) -> ProcessOutput {
    let file = format!("--file={}", server.file.display());
    let by_file = run_global_dns(&[arguments, &[&file]].concat());
    let by_server = run_global_dns(&[arguments, &[&format!("--server={}", server.api)]].concat());
    let text = |ended: &ProcessOutput| {
        let facts = |line: &&str| !line.contains("serial") && !line.contains("isOlder");
        let lines = ended.stdout.lines().filter(facts);
        lines
            .filter(|line| !line.is_empty())
            .map(without_time)
            .filter(|line| !line.is_empty())
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert_eq!(text(&by_server), text(&by_file), "{arguments:?}");
    assert_eq!(by_server.code, by_file.code, "{arguments:?}");
    by_server
}

/// Removes the time of a problem or of an endpoint: `before 2026-11-24T06:30:00Z`, `(before …)`, or the field.
fn without_time(line: &str) -> String {
    let words = line.split_whitespace();
    let words: Vec<&str> = words.collect();
    let is_time = |word: &str| word.trim_start_matches('"').starts_with("20");
    let is_age = |pair: &[&str]| {
        let word = pair[0].trim_start_matches(['(', '"']);
        (word.starts_with("since") || word == "before") && is_time(pair[1])
    };
    let Some(index) = words.windows(2).position(is_age) else {
        return words.join(" ");
    };
    [&words[..index], &words[(index + 2).min(words.len())..]]
        .concat()
        .join(" ")
}

fn json_of(ended: &ProcessOutput) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

#[test]
fn zone_is_added_to_a_name_that_needs_one() {
    let server = Server::with_objects(sample(), &[]);
    for (arguments, name, code) in [
        (&["db.prod"][..], "db.prod.global.", 0),
        (&["prod/db"], "db.prod.global.", 0),
        (&["db"], "db.global.", 0),
        (&["db", "-n", "prod"], "db.prod.global.", 0),
        (&["db-0.west.db.prod"], "db-0.west.db.prod.global.", 0),
        (&["DB.Prod"], "db.prod.global.", 0),
        (&["db.prod.global"], "db.prod.global.", 0),
        (&["db.prod.global."], "db.prod.global.", 0),
        // Not a name of the zone: a final dot, or more labels than a service has.
        (&["db.prod."], "db.prod.", 3),
        (&["www.example.org"], "www.example.org.", 3),
        (&["prod/nope"], "nope.prod.global.", 3),
        (&["nope.prod"], "nope.prod.global.", 3),
    ] {
        let ended = by_both(&server, &[&["explain"], arguments].concat());
        let first = ended.stdout.lines().next();
        assert_eq!(
            (ended.code, first),
            (Some(code), Some(name)),
            "{arguments:?}"
        );
    }
    let ended = run_global_dns(&["explain", "a/b/c..", &format!("--server={}", server.api)]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
}

/// `fuzz::views` compares the names with the replies.
#[test]
fn address_is_explained_by_the_names_that_return_it() {
    let server = Server::with_objects(sample(), &[]);
    let names = |arguments: &[&str]| {
        let ended = by_both(&server, &[&["explain", "-o", "json"], arguments].concat());
        let explained = json_of(&ended);
        let names = explained["names"].as_array().map_or(0, Vec::len);
        (ended.code, names)
    };
    for (arguments, code, count) in [
        (&["10.96.2.1"][..], 0, 12),
        (&["10.96.2.1", "-n", "shop"], 0, 6),
        (&["2001:db8::1"], 0, 6),
        // Behind a gateway that is down: only the names of the endpoint itself.
        (&["10.96.1.2"], 0, 2),
        (&["192.0.2.9"], 3, 0),
    ] {
        assert_eq!(names(arguments), (Some(code), count), "{arguments:?}");
    }
    let text = by_both(&server, &["explain", "10.96.1.2"]).stdout;
    for part in [
        "10.96.1.2\n  an address that 2 names return\n",
        "  db-1.east.db.prod.global.\n",
        "Service/prod/db-1-east  its gateway is down; returned because nothing better is left",
    ] {
        assert!(text.contains(part), "{text} lacks {part}");
    }
    assert!(!text.contains("answers:"), "{text}");
}

#[test]
fn standard_input_is_read_as_a_file() {
    for (arguments, expected) in [
        (&["table", "-f", "-"][..], "10.96.1.1"),
        (&["explain", "db.prod", "--file=-"], "10.96.1.1"),
        // Also searches for a Service that is no mirror, in the same text.
        (&["explain", "nope.prod", "-f", "-"], "NXDOMAIN"),
    ] {
        let mut command = global_dns(arguments);
        command.stdin(Stdio::piped());
        let mut process = Process::start_with_pipes("table", command).unwrap();
        let (mut stdin, stdout) = process.pipes();
        stdin.write_all(sample().text().as_bytes()).unwrap();
        drop(stdin);
        let text = std::io::read_to_string(stdout).unwrap();
        assert!(text.contains(expected), "{arguments:?}: {text}");
    }
}

#[test]
fn watch_ends_silently_when_the_reader_is_gone() {
    let server = Server::with_objects(sample(), &[]);
    let url = format!("--server={}", server.api);
    let command = global_dns(&["table", "--watch", &url]);
    let mut process = Process::start_with_pipes("table --watch", command).unwrap();
    let (_stdin, stdout) = process.pipes();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::with_capacity(1, stdout));
    assert!(lines.next().unwrap().unwrap().starts_with("generation"));
    drop(lines);
    server.rewrite(&mirror_only().text());
    assert_eq!(process.end().unwrap().code(), Some(0));
    assert_eq!(process.log().text(), "");
}

fn mirror_only() -> Manifest {
    mirror("prod", "other", "east")
        .endpoint("other-0", &["10.96.1.7"])
        .into()
}
