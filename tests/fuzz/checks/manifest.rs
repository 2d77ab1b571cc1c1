//! Checks of any file as a manifest.

use std::path::Path;

use global_dns::model::{Kind, Object};
use global_dns::source::file::{Lists, parse_texts};
use global_dns::table::{Store, Table, Timers, build};

use super::memory::holds_at_most;
use super::messages::rules;
use super::tables::{services_of, skipped};

/// The result of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Number of objects in the file.
    pub objects: usize,
    /// Number of skipped objects.
    pub skipped: usize,
    /// Number of endpoints in the table.
    pub endpoints: usize,
    /// The error for the file, or an empty text.
    pub error: String,
}

/// Parses octets as a file.
pub fn check(octets: &[u8]) -> Outcome {
    match str::from_utf8(octets) {
        Ok(text) => check_text(text),
        Err(_) => Outcome::default(), // the server rejects a file that is not UTF-8
    }
}

fn check_text(text: &str) -> Outcome {
    // YAML aliases add memory, and so does a tree of maps around single letters.
    let limit = (96 << 20) + 2048 * text.len() as u64;
    let path = Path::new("folder/a.yaml");
    let texts = [(path, text.to_owned())];
    match holds_at_most(limit, "reading a file", || parse_texts(&texts)) {
        Ok(lists) => build_table(lists),
        Err(error) => {
            let error = error.to_string();
            assert!(
                error.contains("folder/a.yaml"),
                "the error does not name the file: {error}"
            );
            Outcome {
                error,
                ..Outcome::default()
            }
        }
    }
}

fn build_table(lists: Lists) -> Outcome {
    let mut outcome = Outcome::default();
    let mut store = Store::default();
    assert!(lists.keys().copied().eq(Kind::ALL), "a kind has no list");
    for (kind, objects) in lists {
        outcome.objects += objects.len();
        let is_skipped = |object: &&Object| matches!(object, Object::Skipped(_));
        outcome.skipped += objects.values().filter(is_skipped).count();
        store.reset(kind, None, objects);
    }
    let timers = Timers::default();
    let table = build(
        &Table::default(),
        &store,
        &services_of(&store),
        &rules(),
        &timers,
    )
    .table;
    assert!(skipped(&table).len() >= outcome.skipped);
    outcome.endpoints = table
        .services()
        .map(|service| service.endpoints.len())
        .sum();
    outcome
}
