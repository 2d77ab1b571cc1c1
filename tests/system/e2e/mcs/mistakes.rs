//! Objects that contradict each other. Each mistake is reported in one sentence, in the table, by `explain` and in the log,
//! and changes no other answer.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::objects::{import, import_slice};
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;

use super::{erase, fixtures, start_ready, write};

/// A mistake, and what the server makes of it.
struct Mistake {
    what: &'static str,
    objects: Vec<Value>,
    /// The service that has the mistake, and the addresses of its name.
    service: &'static str,
    answer: &'static str,
    /// The object or the service, the reason or the kind of conflict, and a part of the sentence.
    reported: Vec<[&'static str; 3]>,
}

/// Questions about the fixtures, in both zones.
const OTHERS: [&str; 12] = [
    "db.prod.svc.clusterset.local. A",
    "db.prod.svc.clusterset.local. SRV",
    "db-0.east.db.prod.svc.clusterset.local. A",
    "web.prod.svc.clusterset.local. A",
    "db.shop.svc.clusterset.local. A",
    "web.shop.svc.clusterset.local. A",
    "db.dual.svc.clusterset.local. AAAA",
    "db.ports.svc.clusterset.local. SRV",
    "db.prod.global. A",
    "east.db.prod.global. A",
    "db.shop.global. A",
    "web.prod.global. A",
];

/// The state before the mistakes.
struct Before {
    server: Server,
    /// The outcomes of the questions about the fixtures.
    answers: Vec<String>,
    reports: Vec<[String; 3]>,
}

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.forget_failed_prerequisite();
    let mut state = None;
    steps.prerequisite("fixtures_are_answered_before_the_mistakes", || {
        write(cluster, &fixtures()?)?;
        let server = start_ready(cluster);
        let answers = server.with_log(answers_of_fixtures(&server))?;
        let reports = reports(&server.try_api("/api/v1/table")?)?;
        state = Some(Before {
            server,
            answers,
            reports,
        });
        Ok(())
    });
    for mistake in mistakes() {
        let fact = format!("one_sentence_reports_{}", mistake.what.replace(' ', "_"));
        steps.step(&fact, || {
            let before = state.as_ref().context("no server")?;
            let checked = before.check(cluster, &mistake);
            erase(cluster, &mistake.objects)?;
            let server = &before.server;
            server.with_log(checked)?;
            eventually("the end of the mistake", || {
                let reports = reports(&server.try_api("/api/v1/table")?)?;
                ensure!(reports == before.reports, "the table has {reports:?}");
                Ok(())
            })
        });
    }
}

/// Returns the outcomes of the questions about the fixtures.
fn outcomes(server: &Server) -> Vec<String> {
    OTHERS
        .iter()
        .map(|question| server.outcome(question))
        .collect()
}

fn answers_of_fixtures(server: &Server) -> Result<Vec<String>> {
    eventually("the fixtures", || {
        let outcomes = outcomes(server);
        let missing = OTHERS
            .iter()
            .zip(&outcomes)
            .find(|(_, outcome)| *outcome == "NXDOMAIN");
        ensure!(missing.is_none(), "{missing:?}");
        Ok(outcomes)
    })
}

// === impl Before ===

impl Before {
    /// Makes a mistake, and asserts what the server makes of it.
    fn check(&self, cluster: &Cluster, mistake: &Mistake) -> Result<()> {
        let server = &self.server;
        let mark = server.log.mark();
        write(cluster, &mistake.objects)?;
        eventually("the reports", || {
            let mut table = reports(&server.try_api("/api/v1/table")?)?;
            table.retain(|one| !self.reports.contains(one));
            mistake.assert_reported("the table", &table)?;
            let page = format!(
                "/api/v1/explain?name={}.svc.clusterset.local",
                mistake.service
            );
            mistake.assert_reported("explain", &reports(&server.try_api(&page)?)?)?;
            // Between two writes, an import has no slices yet, which is logged, too.
            let mut logged = server.log.problems(mark);
            logged.retain(|one| {
                mistake
                    .reported
                    .iter()
                    .any(|[name, reason, _]| one[..2] == [*name, *reason])
            });
            mistake.assert_reported("the log", &logged)?;
            let question = format!("{}.svc.clusterset.local. A", mistake.service);
            let outcome = server.outcome(&question);
            ensure!(outcome == mistake.answer, "{question} is {outcome}");
            Ok(())
        })?;
        let after = outcomes(server);
        for (question, (before, after)) in OTHERS.iter().zip(self.answers.iter().zip(&after)) {
            ensure!(before == after, "{question} was {before} and is {after}");
        }
        Ok(())
    }
}

// === impl Mistake ===

impl Mistake {
    /// Asserts that the expected sentences are reported, each once, and no others.
    fn assert_reported(&self, by: &str, found: &[[String; 3]]) -> Result<()> {
        let is_found = |[name, reason, detail]: &[&str; 3]| {
            let is_it =
                |one: &[String; 3]| one[0] == *name && one[1] == *reason && one[2].contains(detail);
            found.iter().any(is_it)
        };
        let is_exact = found.len() == self.reported.len() && self.reported.iter().all(is_found);
        ensure!(is_exact, "{by} has {found:?}, expected {:?}", self.reported);
        Ok(())
    }
}

/// Returns the skipped objects and the conflicts of a report, except the objects that Submariner keeps for its own use.
fn reports(report: &Value) -> Result<Vec<[String; 3]>> {
    let mut all = Vec::new();
    for (part, fields) in [
        ("skipped", ["object", "reason", "detail"]),
        ("conflicts", ["name", "kind", "detail"]),
    ] {
        let entries = report[part]
            .as_array()
            .with_context(|| format!("no {part}"))?;
        for entry in entries.iter().filter(|entry| !is_of_submariner(entry)) {
            all.push(fields.map(|field| entry[field].as_str().unwrap_or_default().to_owned()));
        }
    }
    Ok(all)
}

fn is_of_submariner(entry: &Value) -> bool {
    let object = entry["object"].as_str().unwrap_or_default();
    ["/submariner-operator/", "/submariner-k8s-broker/"]
        .iter()
        .any(|part| object.contains(part))
}

// === Mistakes ===

fn mistakes() -> Vec<Mistake> {
    let headless = |namespace: &str, name: &str| import(namespace, name, "Headless", &[]);
    let other_host = slice("bad", "twin", "east", "db-0", "192.0.2.2");
    vec![
        Mistake {
            what: "an import without slices",
            objects: vec![headless("bad", "lonely")],
            service: "lonely.bad",
            answer: "NXDOMAIN",
            reported: vec![["ServiceImport/bad/lonely", "no-slice", "no EndpointSlice"]],
        },
        Mistake {
            what: "an import without addresses",
            objects: vec![import("bad", "empty", "ClusterSetIP", &[])],
            service: "empty.bad",
            answer: "NXDOMAIN",
            reported: vec![["ServiceImport/bad/empty", "no-slice", "ips is empty"]],
        },
        Mistake {
            what: "slices without an import",
            objects: vec![slice("bad", "orphan", "east", "db-0", "192.0.2.1")],
            service: "orphan.bad",
            answer: "NXDOMAIN",
            reported: vec![[
                "EndpointSlice/bad/orphan-east",
                "no-parent",
                "ServiceImport bad/orphan",
            ]],
        },
        Mistake {
            what: "two implementations with slices of one import",
            objects: vec![
                headless("bad", "twin"),
                slice("bad", "twin", "east", "db-0", "192.0.2.1"),
                renamed(other_host, "twin-of-another-implementation"),
            ],
            service: "twin.bad",
            answer: "192.0.2.1 192.0.2.2",
            reported: vec![["bad/twin", "endpoint", "'db-0' of cluster 'east'"]],
        },
        Mistake {
            what: "a source cluster that is no name",
            objects: vec![
                headless("bad", "label"),
                slice("bad", "label", "west", "db-0", "192.0.2.1"),
                renamed(
                    slice("bad", "label", "East_1", "db-0", "192.0.2.2"),
                    "label-east",
                ),
            ],
            service: "label.bad",
            answer: "192.0.2.1",
            reported: vec![["EndpointSlice/bad/label-east", "bad-name", "'East_1'"]],
        },
        Mistake {
            what: "an import for a service of another namespace",
            objects: vec![
                labelled(
                    headless("bad", "db"),
                    "lighthouse.submariner.io/sourceNamespace",
                    "prod",
                ),
                labelled(
                    slice("bad", "db", "east", "db-9", "192.0.2.9"),
                    "lighthouse.submariner.io/sourceNamespace",
                    "prod",
                ),
            ],
            service: "db.bad",
            answer: "NXDOMAIN",
            reported: vec![
                ["ServiceImport/bad/db", "internal", "sourceNamespace"],
                ["EndpointSlice/bad/db-east", "internal", "'prod'"],
            ],
        },
    ]
}

/// Returns the slice `SERVICE-CLUSTER` with one endpoint.
fn slice(namespace: &str, service: &str, cluster: &str, host: &str, address: &str) -> Value {
    let slice = import_slice(namespace, service, cluster, &[(host, address)]);
    renamed(slice, &format!("{service}-{cluster}"))
}

fn renamed(mut object: Value, name: &str) -> Value {
    object["metadata"]["name"] = json!(name);
    object
}

fn labelled(mut object: Value, label: &str, value: &str) -> Value {
    object["metadata"]["labels"][label] = json!(value);
    object
}
