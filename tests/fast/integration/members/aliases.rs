//! Aliases over DNS, the API and the command line.

use support::objects::{mirror, objects};
use support::process::run_global_dns;
use support::server::Server;

use super::{check_outcomes, problems_of_kind};

#[test]
fn alias_unites_services_of_several_namespaces() {
    let manifest = objects()
        .with(mirror("crdb-east", "crdb", "east").endpoint("crdb-0", &["10.96.1.1"]))
        .with(mirror("crdb-west", "crdb", "west").endpoint("crdb-0", &["10.96.2.1"]));
    let alias = "--alias=crdb.prod=crdb.crdb-east+crdb.crdb-west+crdb.crdb-north";
    let server = Server::with_objects(manifest, &[alias]);
    check_outcomes(
        &server,
        "answers of the alias",
        &[
            ("crdb.prod.global. A", "10.96.1.1 10.96.2.1"),
            ("west.crdb.prod.global. A", "10.96.2.1"),
            ("crdb-0.east.crdb.prod.global. A", "10.96.1.1"),
            ("crdb.crdb-east.global. A", "10.96.1.1"),
            (
                "_sql._tcp.west.crdb.prod.global. SRV",
                "0 10 26257 crdb-0.west.crdb.crdb-west.global.",
            ),
        ],
    );
    let unknown = problems_of_kind(&server, "unknown-alias");
    assert_eq!(unknown[0]["detail"], "crdb.crdb-north");
    let explained = server.api("/api/v1/explain?name=crdb.prod");
    let notes = explained["notes"].to_string();
    let expected = "an alias (--alias) with the members of crdb.crdb-east, crdb.crdb-west";
    assert!(notes.contains(expected), "{notes}");
    // The objects are those of the services.
    assert_eq!(
        explained["endpoints"][0]["object"],
        "Service/crdb-east/crdb-0-east"
    );
}

#[test]
fn aliases_that_contradict_each_other_are_refused() {
    for (flags, expected) in [
        (
            &["--alias=a.n=a.n"][..],
            "--alias: a.n is an alias of itself",
        ),
        (
            &["--alias=a.n=b.n", "--alias=b.n=c.n"],
            "a.n is an alias of b.n, which is an alias, too",
        ),
        (
            &["--alias=a.n=b.n", "--alias=a.n=c.n"],
            "it has the alias a.n twice",
        ),
        (&["--alias=a.n"], "it has no '='"),
        (
            &["--alias=a=b.n"],
            "'a' has no '.'; write SERVICE.NAMESPACE",
        ),
        (&["--alias=a.n=B.n"], "'B'"),
    ] {
        let refused = run_global_dns(&[&["serve", "--file", "none.yaml"], flags].concat());
        assert!(
            !refused.is_success() && refused.stderr.contains(expected),
            "{}",
            refused.stderr
        );
    }
}
