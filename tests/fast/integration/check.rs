//! `check`: output lines, JSON and exit codes, with files, with a running server, and behind a forwarder.

mod end_to_end;
mod forwarder;
mod linkerd;
mod no_api_server;
mod servers;

use serde_json::Value;
use support::process::run_global_dns;

/// Runs `check`. Returns its JSON output and its exit code.
fn checkup(arguments: &[&str]) -> (Value, Option<i32>) {
    let ended = run_global_dns(&[&["check", "--output=json"], arguments].concat());
    let document = serde_json::from_str(&ended.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}\n{}", ended.stdout, ended.stderr));
    (document, ended.code)
}

/// Returns the findings of one check, or of one kind of problem, as `state: sentence`.
fn findings(checkup: &Value, name: &str) -> Vec<String> {
    let items = checkup["items"].as_array().unwrap().iter();
    let own = items.filter(|one| one["name"] == name);
    let text = |one: &Value| {
        let (state, sentence) = (one["state"].as_str(), one["sentence"].as_str());
        format!("{}: {}", state.unwrap(), sentence.unwrap())
    };
    own.map(text).collect()
}

/// Returns the only finding of one check.
fn finding(checkup: &Value, name: &str) -> String {
    let mut all = findings(checkup, name);
    assert_eq!(all.len(), 1, "{name}: {all:?}");
    all.remove(0)
}
