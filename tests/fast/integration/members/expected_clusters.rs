//! Expected clusters (rule K8): a name waits for them for a time, and then watches them.

use serde_json::{Value, json};
use support::objects::{Manifest, local, mirror, objects};
use support::server::Server;
use support::wire::Transport;

use super::{check_outcomes, problems_of_kind};

/// Returns `prod/db` in clusters, each with one endpoint: 10.96.1.1, 10.96.2.1, …
fn mirrors(clusters: &[&str]) -> Manifest {
    let mirrors = clusters.iter().zip(1..);
    mirrors.fold(objects(), |all, (cluster, number)| {
        let address = format!("10.96.{number}.1");
        all.with(mirror("prod", "db", cluster).endpoint("db-0", &[&address]))
    })
}

/// Returns the Service `prod/db` of this cluster, without endpoints. `annotations` are without their prefix.
fn own(created: Option<String>, annotations: &[(&str, &str)]) -> Value {
    let mut service = local("prod", "db").without_selector().service();
    for (key, value) in annotations {
        service["metadata"]["annotations"][format!("global-dns/{key}")] = json!(value);
    }
    if let Some(created) = created {
        service["metadata"]["creationTimestamp"] = json!(created);
    }
    service
}

/// Returns a time in RFC 3339.
fn minutes_ago(minutes: i64) -> String {
    let seconds = jiff::Timestamp::now().as_second() - 60 * minutes;
    jiff::Timestamp::from_second(seconds).unwrap().to_string()
}

/// Returns the level, the subject and the detail of the problems of a kind.
fn problems(server: &Server, kind: &str) -> Vec<[String; 3]> {
    let problems = problems_of_kind(server, kind).into_iter();
    let text = |problem: &Value, field: &str| problem[field].as_str().unwrap().to_owned();
    problems
        .map(|one| ["level", "subject", "detail"].map(|field| text(&one, field)))
        .collect()
}

#[test]
fn name_waits_for_expected_clusters_for_an_hour() {
    let new = own(Some(minutes_ago(1)), &[("expected-clusters", "east+north")]);
    let manifest = |clusters: &[&str]| mirrors(clusters).with(new.clone()).text();
    let server = Server::with_text(&manifest(&["east", "west"]), &[]);
    check_outcomes(
        &server,
        "answers",
        &[
            ("db.prod.global. A", "SERVFAIL"),
            ("db.global. A", "SERVFAIL"),
            ("_sql._tcp.db.prod.global. SRV", "SERVFAIL"),
            ("west.db.prod.global. A", "10.96.2.1"),
            ("db-0.west.db.prod.global. A", "10.96.2.1"),
        ],
    );
    assert_eq!(server.admin("/readyz").status, 200);
    let [[level, subject, detail]] = &problems(&server, "expected-clusters-missing")[..] else {
        panic!("{}", server.status());
    };
    assert_eq!([level, subject], ["warning", "prod/db"]);
    assert!(
        detail.starts_with("not answered; waits for north until 20"),
        "{detail}"
    );
    let gauge = "global_dns_problems{kind=\"expected-clusters-missing\",level=\"warning\"}";
    assert_eq!(server.metric(gauge), 1.0);
    // The cluster comes, and leaves again: no process remembers that the name was answered.
    server.rewrite(&manifest(&["east", "west", "north"]));
    server.wait_for_outcome("db.prod.global. A", "10.96.1.1 10.96.2.1 10.96.3.1");
    assert_eq!(problems(&server, "expected-clusters-missing").len(), 0);
    server.rewrite(&manifest(&["east", "west"]));
    server.wait_for_outcome("db.prod.global. A", "SERVFAIL");
}

/// Clients log the text of an extended error (RFC 8914), so people see it first.
#[test]
fn name_that_fails_says_why() {
    let waiting = own(Some(minutes_ago(1)), &[("expected-clusters", "east+north")]);
    let empty_step = own(None, &[("failover", "north:east")]);
    for (service, text) in [
        (waiting, "expected clusters are missing"),
        (empty_step, "the failover step that answers has no endpoint"),
    ] {
        let server = Server::with_objects(mirrors(&["east"]).with(service), &[]);
        for over in Transport::BOTH {
            let error = |asked: &str| {
                let reply = server.ask(&format!("{asked} +bufsize=1232"), over);
                let opt = reply.opt.clone().unwrap();
                let mut options = opt.options.into_iter();
                let error = options.find_map(|(code, value)| (code == 15).then_some(value));
                (reply.outcome(), error)
            };
            let not_ready = [&[0, 14], text.as_bytes()].concat();
            let failed = ("SERVFAIL".to_owned(), Some(not_ready));
            for asked in [
                "db.prod.global. A",
                "db.global. AAAA",
                "_sql._tcp.db.prod.global. SRV",
            ] {
                assert_eq!(error(asked), failed, "{asked} over {over:?}");
            }
            let answered = ("10.96.1.1".to_owned(), None);
            assert_eq!(error("east.db.prod.global. A"), answered);
        }
    }
}
