//! Tests of the summary and of clients that follow it.

use axum::body::{Body, to_bytes};
use axum::http::Request;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;
use crate::admin::tests::state;
use crate::admin::{ApiHosts, Liveness, api_routes};
use crate::model::Timestamp;
use crate::table::{Built, Publisher};
use crate::testing::{endpoint, gateway, mirror, service_keys, table};

/// A server with the tables of a publisher.
struct TestServer {
    publisher: Publisher,
    state: AdminState,
}

impl TestServer {
    fn new() -> Self {
        let publisher = Publisher::default();
        let state = state(&publisher, Liveness::new([]));
        Self { publisher, state }
    }

    /// Publishes a table of these objects, in which these services were built.
    fn publish(&self, objects: &[Value], services: &[&str]) {
        let services = service_keys(services);
        let last = self.state.reader.load();
        let built = Built {
            table: table(objects),
            is_changed: true,
            has_other_answers: true,
            services: services.clone(),
            timers: Vec::new(),
        };
        let now = self.publisher.publish(built, Timestamp(1000), 1).unwrap();
        let changed = last.table.as_ref().map(|_| &services);
        self.state.feeds.events.note_table(&now, changed);
    }

    fn follower(&self, tables: u64) -> SummaryFollower {
        SummaryFollower::new(self.state.clone(), tables)
    }

    /// Requests the summary. Returns status, entity tag and document.
    async fn summary(&self, known: Option<&str>) -> (u16, String, Value) {
        let routes = api_routes(self.state.clone(), ApiHosts::new(Vec::new()));
        let request = Request::get("/api/v1/summary").header("host", "localhost");
        let request = match known {
            Some(tag) => request.header("if-none-match", tag),
            None => request,
        };
        let request = request.body(Body::empty()).unwrap();
        let response = routes.oneshot(request).await.unwrap();
        let tag = response.headers()["etag"].to_str().unwrap().to_owned();
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        let document = serde_json::from_slice(&body).unwrap_or_default();
        (status, tag, document)
    }
}

/// A service with two endpoints in one cluster.
fn database(name: &str, is_up: bool) -> Vec<Value> {
    let hosts = ["a", "b"].map(|host| format!("{name}-{host}"));
    let mut objects = vec![mirror("prod", name, "east")];
    for (number, host) in hosts.iter().enumerate() {
        let address = format!("10.96.0.{}", number + 1);
        objects.push(endpoint("prod", name, "east", host, &[&address]));
    }
    objects.push(gateway("prod", &format!("{name}-a-east"), is_up));
    objects
}

/// Returns the cause that a gateway is down. The watches of this server are not listed, which is another cause.
fn gateway_cause(head: &Value) -> Value {
    let mut causes = head["attention"].as_array().unwrap().iter();
    causes
        .find(|cause| cause["kind"] == "gateway-down")
        .unwrap()
        .clone()
}

fn services(changes: Option<Result<SummaryChanges, TooMany>>) -> Vec<String> {
    let changes = changes.unwrap().unwrap();
    changes
        .services
        .iter()
        .map(|row| row.service.clone())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn follower_gets_the_rows_that_changed_since_its_summary() {
    let server = TestServer::new();
    server.publish(&database("db", true), &["db"]);
    let (_, _, summary) = server.summary(None).await;
    let mut follower = server.follower(summary["tables"].as_u64().unwrap());
    let both = [database("db", true), database("other", true)].concat();
    server.publish(&both, &["other"]);
    assert_eq!(services(follower.look()), ["other"]);
    server.publish(&database("db", true), &["other"]);
    // A storm of changes is one message per second.
    assert!(follower.look().is_none());
    let next = follower.next_look();
    assert!(next <= Instant::now() + PAUSE);
    tokio::time::sleep_until(next).await;
    let changes = follower.look().unwrap().unwrap();
    assert_eq!(
        (changes.services.len(), changes.removed),
        (0, vec!["prod/other".to_owned()])
    );
    // The head is the one before, but for the numbers of the table.
    assert_eq!(changes.head, None);
    // Without a change, there is no message, and the next look is later.
    tokio::time::sleep(PAUSE).await;
    assert!(follower.look().is_none());
    assert!(follower.next_look() > Instant::now() + PAUSE);
}

#[tokio::test(start_paused = true)]
async fn follower_gets_the_head_if_a_cause_is_new() {
    let server = TestServer::new();
    server.publish(&database("db", true), &["db"]);
    let mut follower = server.follower(1);
    let first = follower.look().unwrap().unwrap();
    assert!(first.head.is_some() && first.services.is_empty());
    tokio::time::sleep(PAUSE).await;
    server.publish(&database("db", false), &["db"]);
    let changes = serde_json::to_value(follower.look().unwrap().unwrap()).unwrap();
    assert_eq!(changes["services"][0]["level"], "attention");
    assert_eq!(changes["head"]["level"], "attention");
    let cause = gateway_cause(&changes["head"]);
    let facts = [
        "kind",
        "cluster",
        "subject",
        "count",
        "services",
        "endpoints",
        "failing",
    ]
    .map(|fact| cause[fact].clone());
    let expected = json!(["gateway-down", "east", "east", 1, 1, 1, 0]);
    assert_eq!(json!(facts), expected, "{cause}");
}

#[tokio::test(start_paused = true)]
async fn follower_of_another_process_loads_the_summary_again() {
    let server = TestServer::new();
    server.publish(&database("db", true), &["db"]);
    let mut follower = server.follower(7);
    assert!(matches!(follower.look(), Some(Err(TooMany))));
    tokio::time::sleep(PAUSE).await;
    assert!(follower.look().is_none());
    // The first table of a process has everything.
    let mut follower = server.follower(0);
    assert!(matches!(follower.look(), Some(Err(TooMany))));
}

#[tokio::test]
async fn summary_has_an_entity_tag_that_changes_with_its_content() {
    let server = TestServer::new();
    let (_, none, _) = server.summary(None).await;
    server.publish(&database("db", true), &["db"]);
    let (status, tag, summary) = server.summary(Some(&none)).await;
    assert_eq!((status, tag != none), (200, true));
    let row = json!({
        "namespace": "prod", "service": "db", "kind": "headless", "level": "fine", "result": "NOERROR",
        "returned": 2, "alive": 2, "endpoints": 2,
        "cells": [{"cluster": "east", "state": "alive", "alive": 2, "endpoints": 2, "returned": 2}],
    });
    assert_eq!(summary["services"], json!([row]));
    for known in [tag.clone(), format!("W/{tag}"), format!("\"other\", {tag}")] {
        let (status, again, body) = server.summary(Some(&known)).await;
        assert_eq!((status, &again, body), (304, &tag, Value::Null), "{known}");
    }
    server.publish(&database("db", false), &["db"]);
    let (status, changed, summary) = server.summary(Some(&tag)).await;
    assert_eq!((status, changed != tag), (200, true));
    let row = &summary["services"][0];
    let counts = ["returned", "alive", "endpoints"].map(|count| row[count].clone());
    assert_eq!(
        (json!(counts), &row["cells"][0]["state"]),
        (json!([1, 1, 2]), &json!("down"))
    );
    // The same objects, but a later table: its number is the position in the stream.
    server.publish(&database("db", false), &[]);
    assert_eq!(server.summary(Some(&changed)).await.0, 200);
}

#[tokio::test]
async fn name_without_an_endpoint_that_is_alive_is_failing() {
    let server = TestServer::new();
    let objects = vec![
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-a", &["10.96.0.1"]),
        gateway("prod", "db-a-east", false),
    ];
    server.publish(&objects, &["db"]);
    let (_, _, summary) = server.summary(None).await;
    // It is returned, because nothing better is left, but clients cannot connect.
    let row = &summary["services"][0];
    let facts = ["level", "result", "returned", "alive"].map(|fact| row[fact].clone());
    assert_eq!(json!(facts), json!(["failing", "NOERROR", 1, 0]));
    assert_eq!(summary["level"], "failing");
    assert_eq!(gateway_cause(&summary)["failing"], 1);
}
