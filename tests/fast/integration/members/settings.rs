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

/// Flags, separated by semicolons, and outcomes of questions for A at names below `global.`
const CASES: &str = "
| db.prod = 10.96.1.1 192.0.2.1 | db = NXDOMAIN | solo.prod = 192.0.2.2
clusterAliases.west=us-1 | us-1.db.prod = 10.96.2.1 | west.db.prod = NXDOMAIN
excludeClusters=[east] | db.prod = 192.0.2.1 | east.db.prod = NXDOMAIN
# The flag takes the name after aliases.
clusterAliases.east=eu-1; excludeClusters=[eu-1] | db.prod = 192.0.2.1
# It does not concern members of this cluster.
excludeClusters=[hub] | db.prod = 10.96.1.1 192.0.2.1
gatewayDown=include | db.prod = 10.96.1.1 10.96.2.1 192.0.2.1
services.prod/db.gatewayDown=include | db.prod = 10.96.1.1 10.96.2.1 192.0.2.1
localMembers=matching | db.prod = 10.96.1.1 192.0.2.1
localMembers=exported | db.prod = 10.96.1.1 | solo.prod = 192.0.2.2
localMembers=none | db.prod = 10.96.1.1 | solo.prod = NXDOMAIN
shortNames.pinned.db=shop; shortNames.defaultNamespace=prod | db = 10.96.3.1 | west.db = 10.96.3.1
shortNames.defaultNamespace=prod | db = 10.96.1.1 192.0.2.1
shortNames.which=pinned; shortNames.defaultNamespace=shop | db = 10.96.3.1
shortNames.which=pinned | db = NXDOMAIN | solo = NXDOMAIN
# A pin without the service does not fall back.
shortNames.pinned.db=test; shortNames.defaultNamespace=prod | db = NXDOMAIN
shortNames.which=none; shortNames.pinned.db=prod | db = NXDOMAIN | db.prod = 10.96.1.1 192.0.2.1
services.prod/db.failover=west:east | db.prod = 10.96.2.1
# The same host of two services is one endpoint, which is alive if one of its mirrors is. What is down of it goes.
aliases.all/db=[prod/db, shop/db] | db.all = 10.96.1.1 10.96.3.1 192.0.2.1
";

#[test]
fn each_setting_changes_the_answers() {
    for line in CASES.lines().filter(|line| line.contains(" | ")) {
        let mut parts = line.trim_start_matches("| ").split(" | ");
        let flags = if line.starts_with('|') {
            ""
        } else {
            parts.next().unwrap()
        };
        let flags = flags.split("; ").filter(|flag| !flag.is_empty());
        let flags: Vec<&str> = flags.chain(["--cluster-name=hub"]).collect();
        let server = Server::with_objects(sample(), &flags);
        for part in parts {
            let (name, outcome) = part.split_once(" = ").unwrap();
            check_outcomes(&server, line, &[(&format!("{name}.global. A"), outcome)]);
        }
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
                "Short name is ambiguous: exists in namespaces prod, shop",
            ] {
                assert!(ended.stdout.contains(part), "{}", ended.stdout);
            }
        }
    }
}

#[test]
fn zone_of_one_cluster_is_explained_and_printed() {
    let zones = "zones=[global, {name: svc.east.test, cluster: east}, {name: svc.wset.test, cluster: wset}]";
    let server = Server::with_objects(sample(), &[zones]);
    let unknown = problems_of_kind(&server, "zone-cluster-unknown");
    let detail = "no Link, mirror or Lease names cluster 'wset'; the nearest name is 'west'";
    assert_eq!((unknown.len(), &unknown[0]["detail"]), (1, &detail.into()));
    let url = format!("--server=http://{}", server.api);
    let host = "cluster 'east', endpoint 'db-0': 1 of 1 endpoint";
    for (arguments, part) in [
        ("explain db-0.db.prod.svc.east.test", host),
        (
            "explain x.y.db.prod.svc.east.test",
            "those of one cluster look like",
        ),
        ("explain db.prod.svc.wset.test", "names cluster 'wset'"),
        (
            "table --output=zone --zone=svc.east.test",
            "db-0.db.prod.svc.east.test.\t5\tIN\tA\t",
        ),
    ] {
        let arguments = arguments.split(' ').chain([&*url]);
        let ended = run_global_dns(&arguments.collect::<Vec<_>>());
        assert!(
            ended.stdout.contains(part),
            "{}{}",
            ended.stdout,
            ended.stderr
        );
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
