//! Failover orders (rules K5 to K7), with objects from a file. `tests/system/e2e` has the delays.

use serde_json::{Value, json};
use support::objects::{Gateway, Local, Manifest, gateway_mirror, local, mirror, objects};
use support::server::Server;

use super::{check_outcomes, problems_of_kind};

/// Returns `prod/db` in east and west.
fn mirrors() -> Manifest {
    mirrors_behind(Gateway::Up)
}

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

/// Returns the log lines of failovers: the level and the fields.
fn logged_failovers(server: &Server) -> Vec<Value> {
    let events = server.log.events().into_iter();
    events
        .filter(|event| event["fields"]["kind"] == "failover")
        .map(|mut event| json!([event["level"].take(), event["fields"].take()]))
        .collect()
}

#[test]
fn annotation_comes_before_the_flags() {
    let flags = ["--failover=prod/db=auto:west:east", "--failover=local:*"];
    let server = Server::with_objects(mirrors().with(own(&[("x", "y")])), &flags);
    assert_eq!(server.outcome("db.prod.global. A"), "10.96.2.1");
    let by_flag = failover(&server);
    assert_eq!(
        json!([by_flag["order"], by_flag["origin"]]),
        json!(["auto:west:east", "service-flag"])
    );

    let annotations = [("failover", "east:west")];
    let server = Server::with_objects(mirrors().with(own(&annotations)), &flags);
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

    // An empty annotation is no order, and the flags do not count.
    let annotations = [("failover", "")];
    let server = Server::with_objects(mirrors().with(own(&annotations)), &flags);
    assert_eq!(server.outcome("db.prod.global. A"), "10.96.1.1 10.96.2.1");
    assert!(failover(&server).is_null());
}

#[test]
fn default_order_does_not_split_headless_services() {
    let pay = |cluster: &str, address: &str| gateway_mirror("prod", "pay", cluster, address);
    let manifest = mirrors()
        .with(own(&[("x", "y")]))
        .with(pay("east", "10.96.1.9"))
        .with(pay("west", "10.96.2.9"));
    let server = Server::with_objects(manifest, &["--failover", "west:*"]);
    check_outcomes(
        &server,
        "answers",
        &[
            ("db.prod.global. A", "10.96.1.1 10.96.2.1"),
            ("pay.prod.global. A", "10.96.2.9"),
            ("east.pay.prod.global. A", "10.96.1.9"),
        ],
    );
}

/// The first table has no predecessor, so no delay applies. The first step of an order that is held answers although it is down.
#[test]
fn first_table_has_the_step_that_the_order_says() {
    let pods = || mirrors_behind(Gateway::Down);
    let cluster_ips = || {
        let east = gateway_mirror("prod", "db", "east", "10.96.1.1");
        objects()
            .with(east.without_ready_endpoint())
            .with(gateway_mirror("prod", "db", "west", "10.96.2.1"))
    };
    let (auto, held) = (
        "--failover=prod/db=auto:east:west",
        "--failover=prod/db=east:west",
    );
    for (manifest, flag, has_warning, answer) in [
        (pods(), auto, true, "10.96.2.1"),
        (pods(), held, false, "10.96.1.1"),
        (cluster_ips(), auto, false, "10.96.2.1"),
        (cluster_ips(), held, false, "10.96.1.1"),
    ] {
        let server = Server::with_objects(manifest, &[flag]);
        assert_eq!(server.outcome("db.prod.global. A"), answer, "{flag}");
        assert_eq!(server.generation_and_serial().0, 1);
        let warnings = problems_of_kind(&server, "auto-with-pods");
        assert_eq!(warnings.len(), usize::from(has_warning), "{flag}");
        assert!(warnings.iter().all(|problem| problem["level"] == "warning"));
    }
}

#[test]
fn failover_is_one_log_line_with_service_steps_and_reason() {
    let manifest = |east| {
        let order = [("failover", "auto:east:west")];
        mirrors_behind(east).with(own(&order)).text()
    };
    let server = Server::with_text(&manifest(Gateway::Up), &["--failover-delay", "0s"]);
    assert_eq!(server.outcome("db.prod.global. A"), "10.96.1.1");
    server.rewrite(&manifest(Gateway::Down));
    server.wait_for_outcome("db.prod.global. A", "10.96.2.1");
    // A thread writes the log.
    let sentence = "Step west of the failover order answers for prod/db instead of east: no endpoint of the last step is alive.";
    server.log.wait(0, sentence);
    let expected = json!(["INFO", {
        "message": sentence,
        "kind": "failover",
        "namespace": "prod",
        "service": "db",
        "before": "east",
        "after": "west",
        "cause": "step-down",
        "count": 1,
    }]);
    let mut logged = logged_failovers(&server);
    let fields = logged[0][1].as_object_mut().unwrap();
    assert!(fields.remove("time").is_some());
    assert_eq!(logged, [expected]);
}

/// A promoted standby and an old primary must not swap clients because of a gateway (rule K5a).
#[test]
fn order_that_is_held_changes_its_step_only_with_its_annotation() {
    let manifest = |order, east| {
        mirrors_behind(east)
            .with(own(&[("failover", order)]))
            .text()
    };
    let old_primary = "east:west";
    let server = Server::with_text(
        &manifest(old_primary, Gateway::Up),
        &["--failover-delay=0s", "--failback-delay=0s"],
    );
    server.log.wait(0, "Published table"); // this line can come after readiness
    let mut mark = server.log.mark();
    let reason = "Step west of the failover order answers for prod/db instead of east: the order has changed.";
    let down = "Endpoint db-0 of cluster east in prod/db is down: its gateway is not ready.";
    let up = "Endpoint db-0 of cluster east in prod/db is up again: its gateway is ready.";
    for (order, east, answer, line) in [
        (old_primary, Gateway::Down, "10.96.1.1", down),
        ("west:east", Gateway::Down, "10.96.2.1", reason),
        ("west:east", Gateway::Up, "10.96.2.1", up),
    ] {
        server.rewrite(&manifest(order, east));
        server.log.wait(mark, line);
        mark = server.log.mark();
        assert_eq!(server.outcome("db.prod.global. A"), answer, "{order}");
    }
    assert_eq!(logged_failovers(&server).len(), 1);
}

/// Steps never answer together, and no typing error promotes a standby.
#[test]
fn order_that_cannot_be_read_is_reported_and_keeps_the_places_of_its_steps() {
    let long = "east:".repeat(40_000);
    for (order, answer, sentence) in [
        (":", "SERVFAIL", "step 1 is empty"),
        (":west", "SERVFAIL", "step 1 is empty"),
        ("east::west", "10.96.1.1", "step 2 is empty"),
        (
            "ea_st:west",
            "SERVFAIL",
            "'ea_st' is not the name of a cluster",
        ),
        ("east:east", "10.96.1.1", "'east' occurs twice"),
        ("west+*", "10.96.2.1", "'*' stands for all other clusters"),
        (
            long.as_str(),
            "SERVFAIL",
            "it has 200000 octets; at most 4096 are allowed",
        ),
    ] {
        let server = Server::with_objects(mirrors().with(own(&[("failover", order)])), &[]);
        let short: String = order.chars().take(40).collect();
        assert_eq!(server.outcome("db.prod.global. A"), answer, "{short}");
        assert_eq!(server.outcome("west.db.prod.global. A"), "10.96.2.1");
        let [problem] = &problems_of_kind(&server, "unreadable-setting")[..] else {
            panic!("{short}: the order is not one problem");
        };
        let detail = problem["detail"].as_str().unwrap();
        let start = format!("annotation global-dns/failover={short}: {sentence}");
        assert!(detail.starts_with(&start), "{detail}");
        assert!(detail.len() < 200, "{}", detail.len());
        assert_eq!(problem["level"], "error");
        let explained = server.api("/api/v1/explain?name=db.prod.global")["problems"].take();
        assert!(
            explained.as_array().unwrap().contains(problem),
            "{explained}"
        );
        server.log.wait(0, "Published table"); // its lines come last
        let logged = server.log.problems(0);
        let expected = ["prod/db", "unreadable-setting", detail].map(str::to_owned);
        assert_eq!(
            logged.iter().filter(|one| **one == expected).count(),
            1,
            "{logged:?}"
        );
    }
}

/// People write orders during an outage.
#[test]
fn order_is_read_kindly() {
    for (order, clusters) in [
        ("west,east", ["west", "east"]),
        (" West : EAST ", ["west", "east"]),
        ("west:east:", ["west", "east"]),
        ("east,*,", ["east", "*"]),
        ("Auto: west, east", ["west", "east"]),
    ] {
        let server = Server::with_objects(mirrors().with(own(&[("failover", order)])), &[]);
        let answer = match clusters[0] {
            "west" => "10.96.2.1",
            _ => "10.96.1.1",
        };
        assert_eq!(server.outcome("db.prod.global. A"), answer, "{order}");
        let steps = failover(&server)["steps"].take();
        let steps = steps.as_array().unwrap().iter();
        let steps: Vec<&str> = steps.filter_map(|step| step["clusters"].as_str()).collect();
        assert_eq!(steps, clusters, "{order}");
        let unreadable = problems_of_kind(&server, "unreadable-setting");
        assert_eq!(unreadable, [Value::Null; 0], "{order}");
    }
}

/// A person who writes the annotation on a mirror, or in the exporting cluster, learns that it is ignored.
#[test]
fn annotation_of_a_mirror_is_ignored_and_explained() {
    let east = mirror("prod", "db", "east")
        .annotation("global-dns/failover", "east")
        .endpoint("db-0", &["10.96.1.1"]);
    let west = mirror("prod", "db", "west").endpoint("db-0", &["10.96.2.1"]);
    let server = Server::with_objects(objects().with(east).with(west), &[]);
    check_outcomes(
        &server,
        "annotation of a mirror",
        &[("db.prod.global. A", "10.96.1.1 10.96.2.1")],
    );
    let problems = server.api("/api/v1/explain?name=db.prod.global")["problems"].to_string();
    let detail = "global-dns/failover=east";
    assert!(problems.contains(detail), "{problems}");
}
