//! Tests with tables of few and of many names.

use serde_json::Value;

use super::*;
use crate::testing::support::rounds::rounds;
use crate::testing::{endpoint, mirror, service_mirror, table, zones};

/// Returns the nearest names in zone `global.`, and the effort.
fn search(table: &Table, name: &str) -> (Vec<String>, usize) {
    let mut search = Search { table, effort: 0 };
    let names = search.names(&zones(&["global"]), &Name::from_text(name).unwrap());
    (names, search.effort)
}

fn database() -> Vec<Value> {
    vec![
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
        endpoint("prod", "db", "east", "db-1", &["10.96.0.2"]),
        mirror("prod", "db", "west"),
        endpoint("prod", "db", "west", "db-0", &["10.96.0.3"]),
    ]
}

/// Returns a table with a database, and this number of other namespaces and other services in its namespace.
fn large(count: usize) -> Table {
    let mut objects = database();
    for number in 0..count {
        objects.push(service_mirror(
            &format!("team-{number}"),
            "web",
            "east",
            "10.97.0.1",
        ));
        objects.push(service_mirror(
            "prod",
            &format!("api-{number}"),
            "east",
            "10.97.0.2",
        ));
    }
    table(&objects)
}

/// A name with a typing error, and the nearest name.
const ERRORS: [(&str, &str); 19] = [
    ("db.prod.globl", "db.prod.global."),
    ("db.prod.gloabl", "db.prod.global."),
    ("db.prod.globall", "db.prod.global."),
    ("db.prdo.global", "db.prod.global."),
    ("db.prd.global", "db.prod.global."),
    ("db.prood.global", "db.prod.global."),
    ("db.prof.global", "db.prod.global."),
    ("dbb.prod.global", "db.prod.global."),
    ("d.prod.global", "db.prod.global."),
    ("bd.prod.global", "db.prod.global."),
    ("dv.prdo.globl", "db.prod.global."),
    ("db.production.global", "db.prod.global."),
    ("wset.db.prod.global", "west.db.prod.global."),
    ("east.dv.prod.global", "east.db.prod.global."),
    ("db-9.east.db.prod.global", "db-0.east.db.prod.global."),
    ("db0.west.db.prod.global", "db-0.west.db.prod.global."),
    ("dbb.global", "db.global."),
    ("eastt.db.global", "east.db.global."),
    ("_sqk._tcp.db.prod.global", "_sql._tcp.db.prod.global."),
];

#[test]
fn one_error_in_any_label_is_found_in_tables_of_any_size() {
    for table in [large(0), large(150)] {
        for (wrong, right) in ERRORS {
            let (names, _) = search(&table, wrong);
            assert_eq!(
                names.first().map(String::as_str),
                Some(right),
                "{wrong}: {names:?}"
            );
        }
    }
}

#[test]
fn effort_does_not_grow_with_the_table() {
    let (small, large) = (large(150), large(usize::from(rounds(3000)).max(600)));
    let label = "a".repeat(63);
    let long = format!("{label}.{label}.{label}.{}.global", "b".repeat(50));
    for (name, _) in ERRORS.iter().chain(&[(long.as_str(), "")]) {
        let efforts = [&small, &large].map(|table| search(table, name).1);
        assert_eq!(efforts[0], efforts[1], "{name}");
        assert!(efforts[1] <= MAX_EFFORT + 63 * 63, "{name}: {efforts:?}");
    }
}

#[test]
fn every_correction_is_one_error_away() {
    let mut corrections = BTreeSet::new();
    for_each_correction("abc", |distance, text| {
        assert_eq!(
            typing_errors("abc", text),
            distance.min(usize::from(text != "abc"))
        );
        corrections.insert(text.to_owned());
    });
    // All that exist: 3 deletions, 2 exchanges, 3 × 36 other letters, 4 × 37 insertions without 3 that occur twice, and
    // the label.
    assert_eq!(corrections.len(), 3 + 2 + 3 * 36 + 4 * 37 - 3 + 1);
    for_each_correction("", |_, text| assert!(text.len() <= 1));
}
