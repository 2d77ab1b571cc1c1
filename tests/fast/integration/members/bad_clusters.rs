//! Invalid or unusual objects. Each is skipped or served by a rule, and `table` and `explain` show the reason.

use serde_json::{Value, json};
use support::differences::assert_none;
use support::objects::{Manifest, local, mirror, objects};
use support::server::Server;

const CLUSTER: &str = "/metadata/labels/mirror.linkerd.io~1cluster-name";
const FQ_NAME: &str = "/metadata/annotations/mirror.linkerd.io~1remote-svc-fq-name";

/// Returns valid objects, which other objects must not affect.
fn valid() -> Manifest {
    objects().with(mirror("prod", "db", "east").endpoint("db-0", &["10.96.1.1"]))
}

struct Case {
    what: &'static str,
    objects: Manifest,
    /// Queries with their outcomes.
    asked: (&'static str, &'static str),
    /// An object with its skip reason, or a name with its kind of conflict.
    reported: Option<(&'static str, &'static str)>,
}

fn case(
    what: &'static str,
    objects: impl Into<Manifest>,
    asked: (&'static str, &'static str),
    reported: Option<(&'static str, &'static str)>,
) -> Case {
    Case {
        what,
        objects: objects.into(),
        asked,
        reported,
    }
}

/// Changes one field of the object at `index`.
fn with(manifest: impl Into<Manifest>, index: usize, pointer: &str, value: Value) -> Manifest {
    let mut manifest = manifest.into();
    *manifest.0[index].pointer_mut(pointer).unwrap() = value;
    manifest
}

fn west(host: &str, address: &str) -> Manifest {
    Manifest::from(mirror("prod", "db", "west").endpoint(host, &[address]))
}

fn cases() -> Vec<Case> {
    let only_east = ("db.prod.global. A", "10.96.1.1");
    let pods = |addresses: &[(Option<&str>, &str)]| {
        let mut service = local("prod", "db").exported();
        for (host, address) in addresses {
            service = service.endpoint(*host, address, true);
        }
        service
    };
    let label_of_63 = "a".repeat(63);
    let long = mirror("prod", "long", &label_of_63).endpoint(&label_of_63, &["10.96.2.1"]);
    let of_another_link = || {
        let mut manifest = west("db-0", "10.96.2.1");
        for (object, name) in manifest
            .0
            .iter_mut()
            .zip(["db-west-2", "db-0-west-2", "slice-2"])
        {
            object["metadata"]["name"] = json!(name);
        }
        let parent = "mirror.linkerd.io/headless-mirror-svc-name";
        manifest.0[1]["metadata"]["labels"][parent] = json!("db-west-2");
        manifest.0[2]["metadata"]["labels"]["kubernetes.io/service-name"] = json!("db-0-west-2");
        manifest
    };
    vec![
        case(
            "one address in two clusters",
            west("db-0", "10.96.1.1"),
            only_east,
            None,
        ),
        case(
            "one address in two slices",
            pods(&[(Some("db-0"), "192.0.2.1"), (Some("db-1"), "192.0.2.1")]),
            ("hub.db.prod.global. A", "192.0.2.1"),
            None,
        ),
        case(
            "no host's address",
            west("db-0", "0.0.0.0"),
            only_east,
            Some(("Service/prod/db-0-west", "bad-address")),
        ),
        case(
            "a loopback address",
            west("db-0", "127.0.0.1"),
            only_east,
            Some(("Service/prod/db-0-west", "bad-address")),
        ),
        case(
            "a multicast address",
            west("db-0", "224.0.0.251"),
            only_east,
            Some(("Service/prod/db-0-west", "bad-address")),
        ),
        case(
            "a pod with the unspecified address",
            pods(&[(Some("db-0"), "192.0.2.1"), (Some("db-1"), "0.0.0.0")]),
            ("hub.db.prod.global. A", "192.0.2.1"),
            Some(("EndpointSlice/prod/db-ipv4", "bad-address")),
        ),
        case(
            "a pod with a loopback address",
            pods(&[(Some("db-0"), "192.0.2.1"), (Some("db-1"), "127.0.0.1")]),
            ("db-1.hub.db.prod.global. A", "NXDOMAIN"),
            Some(("EndpointSlice/prod/db-ipv4", "bad-address")),
        ),
        case(
            "a pod with a multicast address",
            pods(&[(Some("db-0"), "192.0.2.1"), (Some("db-1"), "239.1.1.1")]),
            ("hub.db.prod.global. A", "192.0.2.1"),
            Some(("EndpointSlice/prod/db-ipv4", "bad-address")),
        ),
        case(
            "a hostname of a pod that is not a label",
            pods(&[(Some("db_0.x"), "192.0.2.1")]),
            ("192-0-2-1.hub.db.prod.global. A", "192.0.2.1"),
            Some(("EndpointSlice/prod/db-ipv4", "bad-name")),
        ),
        case(
            "a mirrored hostname that is not a label",
            with(
                west("db-0", "10.96.2.1"),
                1,
                FQ_NAME,
                json!("db_0.db.prod.svc.cluster.local"),
            ),
            only_east,
            Some(("Service/prod/db-0-west", "bad-name")),
        ),
        case(
            "a cluster label with dots",
            with(
                west("db-0", "10.96.2.1"),
                1,
                CLUSTER,
                json!("west.example.com"),
            ),
            only_east,
            Some(("Service/prod/db-0-west", "bad-name")),
        ),
        case(
            "a parent with dots in its cluster label",
            with(
                west("db-0", "10.96.2.1"),
                0,
                CLUSTER,
                json!("west.example.com"),
            ),
            only_east,
            Some(("Service/prod/db-west", "bad-name")),
        ),
        case(
            "names of 63 octets",
            long,
            ("long.prod.global. A", "10.96.2.1"),
            None,
        ),
        case(
            "a hostname of 64 octets",
            mirror("prod", "db", "west").endpoint(&"b".repeat(64), &["10.96.2.1"]),
            only_east,
            Some((
                "Service/prod/bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb-west",
                "bad-name",
            )),
        ),
        case(
            "an endpoint mirror without a parent",
            Manifest(west("db-0", "10.96.2.1").0.split_off(1)),
            only_east,
            Some(("Service/prod/db-0-west", "no-parent")),
        ),
        case(
            // Two links with the same name and mirrors that do not overwrite each other.
            "two links with one cluster name",
            of_another_link().with(west("db-0", "10.96.2.2")),
            ("db-0.west.db.prod.global. A", "10.96.2.1 10.96.2.2"),
            Some(("prod/db", "endpoint")),
        ),
        case(
            "an annotation of 200 KB",
            mirror("prod", "db", "west")
                .annotation(
                    "kubectl.kubernetes.io/last-applied-configuration",
                    &"{\\\"".repeat(70_000),
                )
                .endpoint("db-0", &["10.96.2.1"]),
            ("db.prod.global. A", "10.96.1.1 10.96.2.1"),
            None,
        ),
        case(
            "a global-dns annotation of 200 KB",
            mirror("prod", "db", "west").annotation("global-dns/ttl", &"9".repeat(200_000)),
            only_east,
            Some(("prod/db", "annotation")),
        ),
        case(
            "a name of 200 KB",
            with(
                west("db-0", "10.96.2.1"),
                1,
                FQ_NAME,
                json!("x".repeat(200_000)),
            ),
            only_east,
            Some(("Service/prod/db-0-west", "bad-name")),
        ),
    ]
}

#[test]
fn invalid_objects_are_skipped_or_served_by_rule_with_a_reason() {
    let mut differences = Vec::new();
    for Case {
        what,
        objects,
        asked: (asked, expected),
        reported,
    } in cases()
    {
        let server = Server::with_objects(valid().with(objects), &["--cluster-name=hub"]);
        let outcome = server.outcome(asked);
        if outcome != expected {
            differences.push(format!("{what}: {asked} is {outcome}, expected {expected}"));
        }
        if server.outcome("east.db.prod.global. A") != "10.96.1.1" {
            differences.push(format!("{what}: valid objects are affected"));
        }
        let name = asked.split(' ').next().unwrap();
        let table = server.api("/api/v1/table");
        let explained = server.api(&format!("/api/v1/explain?name={name}"));
        for (report, by) in [(&table, "table"), (&explained, "explain")] {
            if report.to_string().len() > 10_000 {
                differences.push(format!("{what}: {by} does not shorten a long text"));
            }
            let found = reasons(report);
            let is_as_expected = match reported {
                Some((of, reason)) => found.contains(&(of.to_owned(), reason.to_owned())),
                None => found.iter().all(|(_, reason)| reason == "not-exported"),
            };
            if !is_as_expected {
                differences.push(format!(
                    "{what}: {by} reports {found:?}, expected {reported:?}"
                ));
            }
        }
    }
    assert_none(&differences);
}

/// Returns the objects of a report with skip reasons and its names with kinds of conflicts.
fn reasons(report: &Value) -> Vec<(String, String)> {
    let list = |part: &str, of: &str, reason: &str| -> Vec<(String, String)> {
        let entries = report[part].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        entries
            .map(|entry| (text(&entry[of]), text(&entry[reason])))
            .collect()
    };
    [
        list("skipped", "object", "reason"),
        list("conflicts", "name", "kind"),
    ]
    .concat()
}
