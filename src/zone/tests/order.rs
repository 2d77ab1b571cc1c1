//! Tests of the order of rows.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::*;
use crate::testing::local;
use crate::zone::order::{mix, visit_rows};

fn shop() -> Table {
    let mut objects = vec![
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.96.0.1", "2001:db8::1"]),
        endpoint("prod", "db", "east", "db-1", &["10.96.0.2"]),
        endpoint("prod", "db", "east", "db-2", &["10.96.0.3"]),
    ];
    let pods = [("db-0", "192.0.2.1", true), ("db-1", "192.0.2.2", true)];
    objects.extend(local("prod", "db", &pods));
    table(&objects)
}

/// Returns the hosts of the rows of `db.prod.global` in an order.
fn hosts(table: &Table, order: AnswerOrder, turn: u32) -> Vec<String> {
    let name = Name::from_text("db.prod.global").unwrap();
    let zones = zones(&["global"]);
    let Reading::View(_, view) = read(&zones, table, &name) else {
        panic!()
    };
    let mut hosts = Vec::new();
    let flow = visit_rows(&view, RecordType::A, order, Some(turn), |row| {
        let origin = if row.endpoint.is_local() {
            "local"
        } else {
            "remote"
        };
        hosts.push(format!("{origin} {}", row.endpoint.labels()[0]));
        ControlFlow::Continue(())
    });
    assert!(flow.is_continue());
    hosts
}

#[test]
fn rows_rotate_and_local_rows_come_first_if_configured() {
    let table = shop();
    let (remote, own) = (
        ["remote db-0", "remote db-1", "remote db-2"],
        ["local db-0", "local db-1"],
    );
    let rotated = |rows: &[&str], turn: usize| -> Vec<String> {
        let mut rows: Vec<String> = rows.iter().map(|row| (*row).to_owned()).collect();
        let first = turn % rows.len();
        rows.rotate_left(first);
        rows
    };
    for turn in 0..12 {
        let number = turn as u32;
        let all = [&remote[..], &own].concat();
        assert_eq!(
            hosts(&table, AnswerOrder::Rotate, number),
            rotated(&all, turn)
        );
        let remote_turn = mix(number) as usize;
        let own_first = [rotated(&own, turn), rotated(&remote, remote_turn)].concat();
        assert_eq!(hosts(&table, AnswerOrder::LocalFirst, number), own_first);
    }
}

#[test]
fn both_parts_of_local_first_rotate_independently() {
    let objects = vec![
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
        endpoint("prod", "db", "east", "db-1", &["10.96.0.2"]),
    ];
    let pods = [("db-0", "192.0.2.1", true), ("db-1", "192.0.2.2", true)];
    let table = table(&[objects, local("prod", "db", &pods).to_vec()].concat());
    let mut counts = BTreeMap::new();
    for count in 0..400 {
        let hosts = hosts(&table, AnswerOrder::LocalFirst, mix(count));
        assert!(hosts[1].starts_with("local") && hosts[2].starts_with("remote"));
        *counts
            .entry((hosts[0].clone(), hosts[2].clone()))
            .or_insert(0) += 1;
    }
    assert_eq!(counts.len(), 4);
    assert!(
        counts.values().all(|count| (70..130).contains(count)),
        "{counts:?}"
    );
}

/// Values of another implementation of `lowbias32`.
#[test]
fn counts_are_mixed_by_the_published_function() {
    let mixed = [0, 1, 2, 0x1234_5678, 0xffff_ffff].map(mix);
    let expected = [0, 0x6889_90c0, 0xd113_2181, 0xf5e7_1c96, 0x6768_824a];
    assert_eq!(mixed, expected);
}
