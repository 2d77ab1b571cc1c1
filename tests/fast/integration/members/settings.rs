//! Each setting of members and short names changes the answers as documented. The rules themselves are proved by models.

use support::objects::{Gateway, Manifest, local, mirror, objects};
use support::process::run_global_dns;
use support::server::Server;

use super::{check_outcomes, problems_of_kind};

/// Returns `prod/db` in three clusters, `shop/db` in one, and `prod/solo`, which only this cluster has. The gateway of west is
/// down for `prod/db`.
fn sample() -> Manifest {
    objects()
        .with(mirror("prod", "db", "east").endpoint("db-0", &["10.96.1.1"]))
        .with(mirror("prod", "db", "west").endpoint_behind(Gateway::Down, "db-0", &["10.96.2.1"]))
        .with(local("prod", "db").endpoint(Some("db-0"), "192.0.2.1", true))
        .with(mirror("shop", "db", "west").endpoint("db-0", &["10.96.3.1"]))
        .with(
            local("prod", "solo")
                .exported()
                .endpoint(Some("solo-0"), "192.0.2.2", true),
        )
}

const DB: &str = "db.prod.global. A";
const SHORT: &str = "db.global. A";
const SOLO: &str = "solo.prod.global. A";
const OF_PROD: &str = "10.96.1.1 192.0.2.1";
const OF_SHOP: &str = "10.96.3.1";

/// Flags, and questions with their outcomes.
type Case = (
    &'static [&'static str],
    &'static [(&'static str, &'static str)],
);

const CASES: [Case; 18] = [
    (
        &[],
        &[(DB, OF_PROD), (SHORT, "NXDOMAIN"), (SOLO, "192.0.2.2")],
    ),
    (
        &["clusterAliases.west=us-1"],
        &[
            ("us-1.db.prod.global. A", "10.96.2.1"),
            ("west.db.prod.global. A", "NXDOMAIN"),
        ],
    ),
    (
        &["excludeClusters=[east]"],
        &[(DB, "192.0.2.1"), ("east.db.prod.global. A", "NXDOMAIN")],
    ),
    // The flag takes the name after aliases.
    (
        &["clusterAliases.east=eu-1", "excludeClusters=[eu-1]"],
        &[(DB, "192.0.2.1")],
    ),
    // It does not concern members of this cluster.
    (&["excludeClusters=[hub]"], &[(DB, OF_PROD)]),
    (
        &["gatewayDown=include"],
        &[(DB, "10.96.1.1 10.96.2.1 192.0.2.1")],
    ),
    (
        &["services.prod/db.gatewayDown=include"],
        &[(DB, "10.96.1.1 10.96.2.1 192.0.2.1")],
    ),
    (&["localMembers=matching"], &[(DB, OF_PROD)]),
    (
        &["localMembers=exported"],
        &[(DB, "10.96.1.1"), (SOLO, "192.0.2.2")],
    ),
    (
        &["localMembers=none"],
        &[(DB, "10.96.1.1"), (SOLO, "NXDOMAIN")],
    ),
    (
        &[
            "shortNames.pinned.db=shop",
            "shortNames.defaultNamespace=prod",
        ],
        &[(SHORT, OF_SHOP), ("west.db.global. A", OF_SHOP)],
    ),
    (&["shortNames.defaultNamespace=prod"], &[(SHORT, OF_PROD)]),
    (
        &[
            "shortNames.which=pinned",
            "shortNames.defaultNamespace=shop",
        ],
        &[(SHORT, OF_SHOP)],
    ),
    (
        &["shortNames.which=pinned"],
        &[(SHORT, "NXDOMAIN"), ("solo.global. A", "NXDOMAIN")],
    ),
    // A pin without the service does not fall back.
    (
        &[
            "shortNames.pinned.db=test",
            "shortNames.defaultNamespace=prod",
        ],
        &[(SHORT, "NXDOMAIN")],
    ),
    (
        &["shortNames.which=none", "shortNames.pinned.db=prod"],
        &[(SHORT, "NXDOMAIN"), (DB, OF_PROD)],
    ),
    (
        &["services.prod/db.failover=west:east"],
        &[(DB, "10.96.2.1")],
    ),
    (
        &["aliases.all/db=[prod/db, shop/db]"],
        // The same host of two services is one endpoint, which is alive if one of its mirrors is.
        &[(
            "db.all.global. A",
            "10.96.1.1 10.96.2.1 10.96.3.1 192.0.2.1",
        )],
    ),
];

#[test]
fn each_setting_changes_the_answers() {
    for (flags, outcomes) in CASES {
        let server = Server::with_objects(sample(), &[flags, &["--cluster-name=hub"]].concat());
        check_outcomes(&server, &format!("{flags:?}"), outcomes);
    }
}

#[test]
fn explain_shows_why_a_short_name_has_no_owner() {
    let server = Server::with_objects(sample(), &[]);
    let file = format!("--file={}", server.file.display());
    for source in [file, format!("--server=http://{}", server.api)] {
        for name in ["db.global", "west.db.global"] {
            let ended = run_global_dns(&["explain", name, &source]);
            assert_eq!(ended.code, Some(3), "{}", ended.stderr);
            for part in [
                "ambiguous: 'db' exists in the namespaces prod, shop",
                "shortNames.pinned",
                "short-name  db  ",
                "  Short name is ambiguous: exists in namespaces prod, shop",
            ] {
                assert!(ended.stdout.contains(part), "{}", ended.stdout);
            }
        }
    }
}

#[test]
fn explain_names_the_objects_of_an_alias() {
    let alias = "aliases.all/db=[prod/db, shop/db, north/db]";
    let server = Server::with_objects(sample(), &[alias]);
    let unknown = problems_of_kind(&server, "unknown-alias");
    assert_eq!(unknown[0]["detail"], "north/db");
    let endpoints = server.section("explain?name=db.all", "endpoints");
    // The objects are those of the services.
    assert_eq!(endpoints[0]["object"], "Service/prod/db-0-east");
}
