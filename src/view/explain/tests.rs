//! What an explanation says is in the cases of `tests/fixtures/commands`. Here is what no command without a server shows.

use crate::clock::unix_seconds;
use crate::model::Timestamp;
use crate::source::Feeds;
use crate::table::change::{Change, ChangeKind};
use crate::table::{Built, Difference, Publisher, Table};
use crate::testing::{backends, mirror, record_now, service_mirror, table, zones};
use crate::view::{Filter, Identity, Server, ViewKind, document};

fn server_of(table: Table) -> Server {
    let publisher = Publisher::default();
    let built = Built {
        table,
        difference: Difference::Answers,
        ..Built::default()
    };
    publisher.publish(built, Timestamp::from_seconds(1), unix_seconds());
    Server::of_objects(
        publisher.reader(),
        Feeds::new(&[]),
        zones(&["global"]),
        Identity::default(),
    )
}

/// An event of a cluster names no service.
#[test]
fn filter_of_events_without_a_service_is_told_beside_events_of_clusters() {
    let server = server_of(table(&[mirror("prod", "db", "east")]));
    let unlinked = Change::new(ChangeKind::Unlinked, "Cluster west has no Link.");
    record_now(&server.feeds.events, unlinked);
    for (text, is_told) in [("nope", true), ("db", false)] {
        let filter = Filter {
            text: vec![text.to_owned()],
            ..Filter::default()
        };
        let document = document(ViewKind::Events, &server, &filter).unwrap();
        assert_eq!(document.sections[0].rows.len(), 1);
        let told = document.sections.iter().flat_map(|one| &one.rows);
        let mut told = told.flat_map(|row| &row.cells);
        assert_eq!(
            told.any(|cell| cell.starts_with("no service matches 'nope'")),
            is_told
        );
    }
}

/// At most five causes of services of one namespace are listed.
#[test]
fn problem_of_the_source_is_listed_beside_any_number_of_failing_services() {
    let failing = (0..60).flat_map(|number| {
        let namespace = if number == 59 { "shop" } else { "prod" };
        let (service, cluster) = (format!("s{number}"), format!("c{number}"));
        let slice = backends(namespace, &format!("{service}-{cluster}"), true, false);
        [
            service_mirror(namespace, &service, &cluster, "10.96.0.1"),
            slice,
        ]
    });
    let server = server_of(table(&failing.collect::<Vec<_>>()));
    let feed = server.feeds.all().pop_first().unwrap();
    server
        .feeds
        .note_failure(&feed, "cannot reach https://10.0.0.1");
    let rows = document(ViewKind::Problems, &server, &Filter::default());
    let rows = rows.unwrap().objects();
    let causes = rows.iter().filter(|one| one["section"] == "causes");
    let kinds: Vec<_> = causes.map(|one| one["kind"].as_str()).collect();
    let down = kinds.iter().filter(|one| **one == Some("gateway-down"));
    assert_eq!((down.count(), kinds.len()), (6, 7), "{kinds:?}");
    assert!(kinds.contains(&Some("source-unavailable")), "{kinds:?}");
}
