//! Answers of earlier times: `--at` of `explain` and `table`, and `?at=` of the API.

use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;
use support::http::get;
use support::objects::{Manifest, mirror, objects};
use support::process::run_global_dns;
use support::server::Server;
use support::wait::wait_for;

/// A service whose only endpoint has a number in its address.
fn numbered(number: u8) -> Manifest {
    let address = format!("10.96.1.{number}");
    objects().with(mirror("prod", "db", "east").endpoint("db-0", &[&address]))
}

/// Writes a file for each number, and waits until it is answered. Returns a time at which each was answered.
fn write_numbers(server: &Server, numbers: std::ops::RangeInclusive<u8>) -> Vec<(u8, String)> {
    let write = |number: u8| {
        std::fs::write(&server.file, numbered(number).text()).unwrap();
        wait_for("the answer", || {
            (addresses(&server.items("explain?name=db.prod.global"))
                == [format!("10.96.1.{number}")])
            .then_some(())
        });
        // The history keeps one table for each 100 ms of the real time, so the next one must be later.
        sleep(Duration::from_millis(250));
        let time = format!("{:.3}", jiff::Timestamp::now());
        (number, time)
    };
    numbers.map(write).collect()
}

fn addresses(explained: &[Value]) -> Vec<String> {
    let answer = explained.iter().find(|one| one["section"] == "answers");
    let records = answer.unwrap()["records"].as_array().unwrap();
    records
        .iter()
        .map(|record| record["data"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn each_time_is_explained_with_the_answer_of_that_time() {
    let server = Server::with_objects(numbered(1), &[]);
    let start = server.status()["since"].clone();
    let times = write_numbers(&server, 2..=5);
    let url = format!("--server=http://{}", server.api);
    for (number, time) in &times {
        let expected = [format!("10.96.1.{number}")];
        let path = format!("/api/v1/explain?name=db.prod.global&at={time}");
        let explained = server.api(&path);
        assert_eq!(explained["at"], **time);
        let explained = explained["items"].as_array().unwrap();
        assert_eq!(addresses(explained), expected, "{time}");
        // Later changes are not in its history. Those that follow each other closely are one.
        let events = explained.iter().filter(|one| one["section"] == "events");
        let changed = events.filter(|event| event["kind"] == "address");
        assert!(changed.count() < usize::from(*number), "{explained:#?}");
        let at = format!("--at={time}");
        let text = run_global_dns(&["explain", "db.prod", &url, &at]).stdout;
        let local = time.replace('T', " ").replace('Z', " UTC");
        assert!(
            text.contains(&format!(", at {local}\n")) && text.contains(&expected[0]),
            "{text}"
        );
        let table = run_global_dns(&["table", &url, &at, "-o", "json"]).stdout;
        let table: Value = serde_json::from_str(&table).unwrap();
        assert_eq!(table["at"], **time);
        let zone = run_global_dns(&["table", &url, &at, "-o", "zone"]).stdout;
        assert!(zone.contains(&expected[0]), "{zone}");
    }
    let now = server.items("explain?name=db.prod.global");
    let ago = run_global_dns(&["explain", "db.prod", &url, "--at", "-0s", "-o", "json"]);
    let ago: Value = serde_json::from_str(&ago.stdout).unwrap();
    assert_eq!(addresses(ago["items"].as_array().unwrap()), addresses(&now));
    // The last event appears when its window ends.
    wait_for("the same document at this moment", || {
        let now = server.items("explain?name=db.prod.global");
        (server.items("explain?name=db.prod.global&at=-0s") == now).then_some(())
    });
    assert!(start.is_string());
}

#[test]
fn times_without_a_table_are_errors() {
    let server = Server::with_objects(numbered(1), &["history=0s"]);
    let refused = |at: &str| {
        let page = get(server.api, &format!("/api/v1/explain?name=db.prod&at={at}")).unwrap();
        (page.status, page.body)
    };
    let (status, text) = refused("2020-01-01T00:00:00Z");
    assert_eq!(status, 404);
    assert!(text.starts_with("the history begins at 20"), "{text}");
    let (status, text) = refused("2999-01-01T00:00:00Z");
    assert_eq!(
        (status, text.as_str()),
        (
            400,
            "at: '2999-01-01T00:00:00Z' cannot be used: it is in the future\n"
        )
    );
    let (status, text) = refused("yesterday");
    assert_eq!(status, 400);
    assert!(
        text.starts_with("at: 'yesterday' cannot be used: a time is like 03:12 "),
        "{text}"
    );
    // Without a history, only the current table is known.
    let before = format!("{:.3}", jiff::Timestamp::now());
    write_numbers(&server, 2..=2);
    assert_eq!(refused(&before).0, 404);
    let file = format!("--file={}", server.file.display());
    let ended = run_global_dns(&["explain", "db.prod", &file, "--at", "-1m"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    let ended = run_global_dns(&["table", "--at", "soon"]);
    assert!(
        ended
            .stderr
            .contains("a time is like 03:12 (the last such local time)"),
        "{ended:?}"
    );
}
