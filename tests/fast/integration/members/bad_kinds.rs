//! Invalid objects of services with cluster IPs. Each is reported once, in one sentence, and changes no other answer.

use serde_json::{Value, json};
use support::differences::assert_none;
use support::objects::{
    Manifest, exported, federated, flat_mirror, gateway_mirror, mirror, objects,
};
use support::server::Server;

const DISCOVERY: &str = "multicluster.linkerd.io/remote-discovery";

/// Returns valid services of each kind. Some have the name of the invalid service, in another namespace.
fn valid() -> Manifest {
    objects()
        .with(mirror("prod", "db", "east").endpoint("db-0", &["10.96.1.1"]))
        .with(gateway_mirror("prod", "pay", "east", "10.96.2.1"))
        .with(flat_mirror("prod", "api", "west", "10.96.3.1"))
        .with(federated(
            "prod",
            "site",
            "10.96.4.1",
            "site@east,site@west",
        ))
        .with(exported("prod", "shop", "10.96.5.1"))
        .with(gateway_mirror("bank", "web", "east", "10.96.6.1"))
}

/// Questions about the valid services, with their outcomes.
const VALID: [(&str, &str); 9] = [
    ("db.prod.global. A", "10.96.1.1"),
    ("db-0.east.db.prod.global. A", "10.96.1.1"),
    ("pay.prod.global. A", "10.96.2.1"),
    ("api.prod.global. A", "10.96.3.1"),
    ("west.api.prod.global. A", "10.96.3.1"),
    ("site.prod.global. A", "10.96.4.1"),
    ("shop.prod.global. A", "10.96.5.1"),
    ("web.bank.global. A", "10.96.6.1"),
    ("east.web.bank.global. A", "10.96.6.1"),
];

struct Case {
    what: &'static str,
    objects: Manifest,
    /// The addresses of `web.prod.global`, or `NXDOMAIN`.
    answer: &'static str,
    /// The object or the service, the reason or the kind of conflict, and the sentence.
    reported: [String; 3],
}

/// An invalid annotation, which does not change the answer.
fn annotation(what: &'static str, objects: impl Into<Manifest>, problem: &str) -> Case {
    let sentence = format!("annotation {problem}");
    Case {
        what,
        objects: objects.into(),
        answer: "10.96.9.1",
        reported: ["prod/web".to_owned(), "annotation".to_owned(), sentence],
    }
}

/// An object that is skipped.
fn skipped(what: &'static str, object: Value, name: &str, reason: &str, sentence: &str) -> Case {
    Case {
        what,
        objects: object.into(),
        answer: "NXDOMAIN",
        reported: [
            format!("Service/prod/{name}"),
            reason.to_owned(),
            sentence.to_owned(),
        ],
    }
}

/// Returns the federated service `prod/web` with members.
fn web_federated(members: &str) -> Manifest {
    federated("prod", "web", "10.96.9.1", members).into()
}

/// Returns the flat mirror of `prod/web` in `east` with a changed field.
fn changed_mirror(field: &str, value: Value) -> Value {
    let mut mirror = Manifest::from(flat_mirror("prod", "web", "east", "10.96.9.1")).0;
    let mut mirror = mirror.remove(0);
    *mirror.pointer_mut(field).unwrap() = value;
    mirror
}

fn federated_cases() -> Vec<Case> {
    let many = |item: &str| [item; 25_000].join(",");
    let headless = {
        let mut object = web_federated("web@east").0.remove(0);
        object["spec"]["clusterIP"] = json!("None");
        object["spec"]["clusterIPs"] = json!(["None"]);
        object
    };
    let without_suffix = {
        let mut object = web_federated("web@east").0.remove(0);
        object["metadata"]["name"] = json!("web");
        object
    };
    vec![
        annotation(
            "a member in another namespace",
            web_federated("web@west,web.bank@east"),
            &format!("{DISCOVERY}=web.bank@east: it is not SERVICE@CLUSTER"),
        ),
        annotation(
            "a member without a cluster",
            web_federated("web@,web@west"),
            &format!("{DISCOVERY}=web@: it is not SERVICE@CLUSTER"),
        ),
        annotation(
            "a cluster twice",
            web_federated("web@east,web@west,web@east"),
            &format!("{DISCOVERY}: it names cluster 'east' twice"),
        ),
        annotation(
            "two services of a cluster",
            web_federated("web@east,api@east"),
            &format!("{DISCOVERY}: it names cluster 'east' twice"),
        ),
        annotation(
            "200 KB of one cluster",
            web_federated(&many("web@east")),
            &format!("{DISCOVERY}: it names cluster 'east' twice"),
        ),
        annotation(
            "a cluster of 200 KB",
            web_federated(&format!("web@{}", "x".repeat(200_000))),
            &format!(
                "{DISCOVERY}=web@{}: it is not SERVICE@CLUSTER",
                "x".repeat(36)
            ),
        ),
        skipped(
            "a federated service without a cluster IP",
            headless,
            "web-federated",
            "bad-address",
            "'None' is not an IP address",
        ),
        skipped(
            "a federated service without the suffix",
            without_suffix,
            "web",
            "bad-name",
            "a federated service, but 'web' does not end in '-federated'",
        ),
    ]
}

fn mirror_cases() -> Vec<Case> {
    let label = |name: &str| format!("/metadata/labels/multicluster.linkerd.io~1{name}");
    let fq_name = "/metadata/annotations/mirror.linkerd.io~1remote-svc-fq-name";
    let with_ttl = {
        let mut mirror = Manifest::from(gateway_mirror("prod", "web", "east", "10.96.9.1"));
        mirror.0[0]["metadata"]["annotations"]["global-dns/ttl"] = json!("9".repeat(200_000));
        mirror
    };
    vec![
        skipped(
            "a remote service that is no name",
            changed_mirror(&label("remote-service"), json!("No_Name")),
            "web-east",
            "bad-name",
            "label multicluster.linkerd.io/remote-service is 'No_Name', but the mirror is of 'web'",
        ),
        skipped(
            "an empty remote service",
            changed_mirror(&label("remote-service"), json!("")),
            "web-east",
            "bad-name",
            "label multicluster.linkerd.io/remote-service is '', but the mirror is of 'web'",
        ),
        skipped(
            "a remote cluster that is another one",
            changed_mirror(&label("remote-discovery"), json!("west")),
            "web-east",
            "bad-name",
            "label multicluster.linkerd.io/remote-discovery is 'west', but the mirror is of 'east'",
        ),
        skipped(
            "a Service of another namespace",
            changed_mirror(fq_name, json!("web.bank.svc.cluster.local")),
            "web-east",
            "namespace-mismatch",
            "the annotation names namespace 'bank', but the object is in 'prod'",
        ),
        annotation(
            "a TTL of 200 KB",
            with_ttl,
            &format!(
                "global-dns/ttl={}: it is not a number of seconds",
                "9".repeat(40)
            ),
        ),
    ]
}

#[test]
fn invalid_object_is_reported_in_one_sentence_and_changes_no_other_answer() {
    let mut differences = Vec::new();
    for case in federated_cases().into_iter().chain(mirror_cases()) {
        let Case {
            what,
            objects,
            answer,
            reported,
        } = case;
        let server = Server::with_objects(valid().with(objects), &["--cluster-name=hub"]);
        for (asked, expected) in VALID.into_iter().chain([("web.prod.global. A", answer)]) {
            let outcome = server.outcome(asked);
            if outcome != expected {
                differences.push(format!("{what}: {asked} is {outcome}, expected {expected}"));
            }
        }
        server.log.wait(0, "Published table"); // skipped objects are logged before it
        let table = server.api("/api/v1/table");
        let explained = server.api("/api/v1/explain?name=web.prod.global");
        let other = server.api("/api/v1/explain?name=web.bank.global");
        for (by, found, expected) in [
            ("table", reports(&table), vec![reported.clone()]),
            ("explain", reports(&explained), vec![reported.clone()]),
            ("explain of another name", reports(&other), vec![]),
            ("log", server.log.problems(0), vec![reported.clone()]),
        ] {
            if found != expected {
                differences.push(format!("{what}: {by} has {found:?}, expected {expected:?}"));
            }
        }
    }
    assert_none(&differences);
}

/// A valid annotation of 200 KB names thousands of clusters. `west` is not one of them, so it answers too (rule K1).
#[test]
fn thousands_of_clusters_are_listed_in_one_short_sentence() {
    let members: Vec<String> = (0..20_000).map(|n| format!("w@c{n:05}")).collect();
    let mut service = Manifest::from(federated("prod", "w", "10.96.9.1", &members.join(",")));
    service = service.with(gateway_mirror("prod", "w", "west", "10.96.9.2"));
    let server = Server::with_objects(valid().with(service), &["--cluster-name=hub"]);
    assert_eq!(server.outcome("w.prod.global. A"), "10.96.9.1 10.96.9.2");
    let explained = server.api("/api/v1/explain?name=w.prod.global").to_string();
    assert!(explained.contains("c00000, c00001"), "{explained}");
    assert!(explained.contains("and 226 more"), "{explained}");
    assert!(explained.len() < 10_000, "{} octets", explained.len());
    let reported = reports(&server.api("/api/v1/table"));
    let mut kinds: Vec<&str> = reported.iter().map(|report| &*report[1]).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["annotation", "kind"]);
    for report in &reported {
        assert!(report[2].len() < 1_000, "{report:?}");
    }
}

/// Returns the skipped objects and the conflicts of a report: what, why, and the sentence.
fn reports(report: &Value) -> Vec<[String; 3]> {
    let list = |part: &str, fields: [&str; 3]| -> Vec<[String; 3]> {
        let entries = report[part].as_array().unwrap().iter();
        entries
            .map(|entry| fields.map(|field| entry[field].as_str().unwrap().to_owned()))
            .collect()
    };
    [
        list("skipped", ["object", "reason", "detail"]),
        list("conflicts", ["name", "kind", "detail"]),
    ]
    .concat()
}
