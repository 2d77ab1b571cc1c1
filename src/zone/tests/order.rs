//! Tests of the order of rows.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::*;
use crate::testing::{gateway, local};
use crate::zone::walk::{Walk, visit_addresses, visit_srv};

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

/// Returns the view of `db.prod.global`.
fn with_view<R>(table: &Table, ask: impl FnOnce(&View<'_>) -> R) -> R {
    let name = Name::from_text("db.prod.global").unwrap();
    let zones = zones(&["global"]);
    let Reading::View(_, view) = read(&zones, table, &name) else {
        panic!()
    };
    ask(&view)
}

/// Returns the IPv4 addresses of `db.prod.global` in an order.
fn addresses(table: &Table, order: AnswerOrder, turn: u32) -> Vec<String> {
    let mut all = Vec::new();
    let _ = with_view(table, |view| {
        visit_addresses(view, RecordType::A, Walk { order, turn }, |part| {
            all.extend(part.each().map(|one| Data::Addresses(one).to_string()));
            ControlFlow::Continue(())
        })
    });
    all.iter().map(|text| text.replace("A\t", "")).collect()
}

/// Returns the hosts and ports of the SRV records of `db.prod.global` in an order.
fn rows(table: &Table, order: AnswerOrder, turn: u32) -> Vec<(String, u16)> {
    let mut rows = Vec::new();
    let _ = with_view(table, |view| {
        visit_srv(view, Walk { order, turn }, |index, port, _| {
            let endpoint = &view.service.endpoints[index];
            rows.push((endpoint.labels().join("."), port));
            ControlFlow::Continue(())
        })
    });
    rows
}

#[test]
fn rows_rotate_and_local_rows_come_first_if_configured() {
    let table = shop();
    let (remote, own) = (
        ["10.96.0.1", "10.96.0.2", "10.96.0.3"],
        ["192.0.2.1", "192.0.2.2"],
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
            addresses(&table, AnswerOrder::Rotate, number),
            rotated(&all, turn)
        );
        let remote_turn = number.rotate_left(16) as usize;
        let own_first = [rotated(&own, turn), rotated(&remote, remote_turn)].concat();
        assert_eq!(
            addresses(&table, AnswerOrder::LocalFirst, number),
            own_first
        );
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
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..400 {
        let (order, turn) = (AnswerOrder::LocalFirst, random.u32(..));
        let all = addresses(&table, order, turn);
        assert!(all[1].starts_with("192.0.2.") && all[2].starts_with("10.96."));
        let rows = rows(&table, order, turn);
        assert!(rows[1].0.ends_with("hub") && rows[2].0.ends_with("east"));
        *counts.entry((all[0].clone(), all[2].clone())).or_insert(0) += 1;
    }
    assert_eq!(counts.len(), 4);
    assert!(
        counts.values().all(|count| (70..130).contains(count)),
        "{counts:?}"
    );
}

/// Only some endpoints are alive, and each has three ports, of which two have one number.
#[test]
fn services_begin_at_each_endpoint_and_port_equally_often() {
    let ports =
        json!([{"name": "a", "port": 1}, {"name": "b", "port": 1}, {"name": "c", "port": 2}]);
    let mut objects = vec![mirror("prod", "db", "east")];
    for number in 0..150 {
        let host = format!("db-{number}");
        let mut mirror = endpoint("prod", "db", "east", &host, &[&format!("10.96.0.{number}")]);
        mirror["spec"]["ports"] = ports.clone();
        objects.push(mirror);
        objects.push(gateway("prod", &format!("{host}-east"), number % 30 == 7));
    }
    let table = table(&objects);
    let (mut first, mut set) = (BTreeMap::new(), BTreeMap::new());
    for turn in 0..200 {
        let rows = rows(&table, AnswerOrder::Rotate, turn);
        *first.entry(rows[0].clone()).or_insert(0) += 1;
        for row in rows {
            *set.entry(row).or_insert(0) += 1;
        }
    }
    assert_eq!(set.len(), 10);
    assert!(set.values().all(|count| *count == 200), "{set:?}");
    // Two of three choices are the first number.
    assert_eq!(first.len(), 10);
    assert!(
        first.values().all(|count| (10..30).contains(count)),
        "{first:?}"
    );
}
