//! Failover orders in the JSON of the API and in the log. Models prove rules K5 to K7, `tests/system/e2e` the delays.

use serde_json::{Value, json};
use support::objects::{Gateway, Local, Manifest, local, mirror, objects};
use support::server::Server;

/// Returns `prod/db` in east, behind a gateway, and in west.
fn mirrors_behind(east: Gateway) -> Manifest {
    objects()
        .with(mirror("prod", "db", "east").endpoint_behind(east, "db-0", &["10.96.1.1"]))
        .with(mirror("prod", "db", "west").endpoint("db-0", &["10.96.2.1"]))
}

/// Returns the Service `prod/db` of this cluster, which only decides, with annotations.
fn own(annotations: &[(&str, &str)]) -> Local {
    let own = local("prod", "db").without_selector();
    let annotations = annotations.iter();
    annotations.fold(own, |own, (key, value)| {
        own.annotation(&format!("global-dns/{key}"), value)
    })
}

/// Returns the failover of the only service.
fn failover(server: &Server) -> Value {
    server.api("/api/v1/table")["services"][0]["failover"].take()
}

#[test]
fn annotation_comes_before_the_settings() {
    let flags = [
        "services.prod/db.failover=auto:west:east",
        "failover.default=local:*",
    ];
    let server = Server::with_objects(mirrors_behind(Gateway::Up).with(own(&[("x", "y")])), &flags);
    assert_eq!(server.outcome("db.prod.global. A"), "10.96.2.1");
    let by_flag = failover(&server);
    assert_eq!(
        json!([by_flag["order"], by_flag["origin"]]),
        json!(["auto:west:east", "services"])
    );

    let annotations = [("failover", "east:west")];
    let server = Server::with_objects(mirrors_behind(Gateway::Up).with(own(&annotations)), &flags);
    assert_eq!(server.outcome("db.prod.global. A"), "10.96.1.1");
    assert_eq!(server.outcome("west.db.prod.global. A"), "10.96.2.1");
    let step = |clusters: &str| json!({"clusters": clusters, "state": "alive"});
    let expected = json!({
        "order": "east:west", "origin": "annotation",
        "step": 1, "steps": [step("east"), step("west")],
    });
    assert_eq!(failover(&server), expected);
    let table = server.api("/api/v1/table");
    assert_eq!(table["services"][0]["endpoints"][1]["state"], "standby");

    // An empty annotation is no order, and the settings do not count.
    let annotations = [("failover", "")];
    let server = Server::with_objects(mirrors_behind(Gateway::Up).with(own(&annotations)), &flags);
    assert_eq!(server.outcome("db.prod.global. A"), "10.96.1.1 10.96.2.1");
    assert!(failover(&server).is_null());
}

#[test]
fn failover_is_one_log_line_with_service_steps_and_reason() {
    let manifest = |east| {
        let order = [("failover", "auto:east:west")];
        mirrors_behind(east).with(own(&order)).text()
    };
    let server = Server::with_text(&manifest(Gateway::Up), &["failover.delay=0s"]);
    assert_eq!(server.outcome("db.prod.global. A"), "10.96.1.1");
    server.rewrite(&manifest(Gateway::Down));
    server.wait_for_outcome("db.prod.global. A", "10.96.2.1");
    // A thread writes the log.
    let sentence = "The step that answers for prod/db changed from east to west: no endpoint of east is alive.";
    server.log.wait(0, sentence);
    let expected = json!(["INFO", {
        "message": sentence,
        "kind": "step",
        "services": "prod/db",
        "before": "east",
        "after": "west",
        "cause": "no endpoint of east is alive",
        "count": 1,
    }]);
    let events = server.log.events().into_iter();
    let mut logged: Vec<Value> = events
        .filter(|event| event["fields"]["kind"] == "step")
        .map(|mut event| json!([event["level"].take(), event["fields"].take()]))
        .collect();
    let fields = logged[0][1].as_object_mut().unwrap();
    assert!(fields.remove("time").is_some());
    assert_eq!(logged, [expected]);
}
