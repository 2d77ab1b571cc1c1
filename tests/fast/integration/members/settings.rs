//! Each setting of members and short names changes the answers as documented. The rules themselves are proved by models.

use support::objects::{Gateway, Manifest, local, mirror, objects};
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
| db.prod = 10.96.1.1 192.0.2.1 | db = NXDOMAIN | solo.prod = 192.0.2.2 | solo = 192.0.2.2
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
shortNames.defaultNamespace=test | db = NXDOMAIN
shortNames.pinned.db=prod; shortNames.defaultNamespace=shop | db = 10.96.1.1 192.0.2.1
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
fn zone_of_an_unknown_cluster_is_a_problem_with_the_nearest_name() {
    let zones = "zones=[global, {name: svc.wset.test, cluster: wset}]";
    let server = Server::with_objects(sample(), &[zones]);
    let unknown = problems_of_kind(&server, "zone-cluster-unknown");
    let detail = "no Link, mirror or Lease names cluster 'wset'; the nearest name is 'west'";
    assert_eq!((unknown.len(), &unknown[0]["detail"]), (1, &detail.into()));
    let explained = server.section("explain?name=db.prod.svc.wset.test", "problems");
    assert!(explained.iter().any(|one| one["detail"] == detail));
}
