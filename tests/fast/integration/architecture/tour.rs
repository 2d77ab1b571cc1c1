//! The tour in `lib.rs` lists the files of each way completely: each file that a listed file uses is listed, too, or is an exception
//! below.

use std::collections::{BTreeMap, BTreeSet};

use support::differences::assert_none;
use support::repository::repository;

use super::circles::Files;
use super::source::sources;

/// Files that decide nothing about a datum: types with their texts and fields, flags, logging, random numbers.
const WITHOUT_DECISION: [&str; 18] = [
    "admin/state",
    "log",
    "model/item",
    "model/key",
    "model/keys",
    "model/label",
    "model/line",
    "model/object",
    "model/object_name",
    "model/ports",
    "model/problem",
    "model/timestamp",
    "random",
    "report/document",
    "server/listen_address",
    "table/rules",
    "wire/rcode",
    "zone/record_type",
];
/// Files that `server/encrypted.rs` uses before there is a query, or for queries over QUIC.
const OTHER_LISTENERS: [&str; 2] = ["server/bind", "server/encrypted/quic"];

#[test]
fn tour_lists_each_file_that_a_listed_file_uses() {
    let tour = std::fs::read_to_string(repository("src/lib.rs")).unwrap();
    let (_, rest) = tour.split_once("//! # Six ways").unwrap();
    let (ways, _) = rest.split_once("//! # Terms").unwrap();
    let named = ways.split('`').filter_map(|word| word.strip_suffix(".rs"));
    let listed: BTreeSet<&str> = named.collect();
    let sources = sources();
    let mut used_by: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (file, used) in Files::new(&sources).uses() {
        let file = file.join("/");
        if listed.contains(&*file) {
            for used in used {
                used_by
                    .entry(used.join("/"))
                    .or_default()
                    .push(file.clone());
            }
        }
    }
    let exceptions = WITHOUT_DECISION.into_iter().chain(OTHER_LISTENERS);
    let exceptions: BTreeSet<&str> = exceptions.collect();
    let missing = used_by.iter().filter(|(used, _)| {
        let used = used.as_str();
        !listed.contains(used) && !exceptions.contains(used)
    });
    let missing = missing.map(|(used, files)| format!("{used} is used by {}", files.join(", ")));
    let superfluous = exceptions
        .iter()
        .filter(|file| listed.contains(**file) || !used_by.contains_key(**file));
    let superfluous = superfluous.map(|file| format!("{file} is a superfluous exception"));
    assert_none(&missing.chain(superfluous).collect::<Vec<_>>());
}
