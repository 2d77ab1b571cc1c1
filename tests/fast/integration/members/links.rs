//! Links in files (rules L1 to L3, L5).

use serde_json::json;
use support::objects::{self, Manifest, mirror, objects};
use support::server::Server;

use super::problems_of_kind;

const NAME: &str = "db.prod.global. A";
const BOTH: &str = "10.96.1.1 10.96.2.1";
const FLAG: &str = "links.unlinkedAfter=1s";

/// Returns `prod/db` in east and west.
fn mirrors() -> Manifest {
    objects()
        .with(mirror("prod", "db", "east").endpoint("db-0", &["10.96.1.1"]))
        .with(mirror("prod", "db", "west").endpoint("db-0", &["10.96.2.1"]))
}

fn link(namespace: &str, cluster: &str) -> serde_json::Value {
    objects::link(namespace, cluster, cluster)
}

#[test]
fn cluster_without_a_link_leaves_the_name_and_returns_with_it() {
    let east = || mirrors().with(link("linkerd-multicluster", "east"));
    let both = || east().with(link("linkerd-multicluster", "west"));
    let server = Server::with_objects(both(), &[FLAG]);
    // They start before the Link is removed, so they would change their answers before the first server does.
    let of_a_tenant = mirrors().with(link("tenant", "east"));
    let unconcerned = [
        ("no Link", Server::with_objects(mirrors(), &[FLAG])),
        ("of a tenant", Server::with_objects(of_a_tenant, &[FLAG])),
        (
            "off",
            Server::with_objects(east(), &[FLAG, "links.enabled=false"]),
        ),
    ];
    assert_eq!(server.outcome(NAME), BOTH);
    assert_eq!(server.metric("global_dns_clusters{state=\"linked\"}"), 2.0);
    // Somebody who may create a Link in another namespace cannot keep the cluster.
    server.rewrite(&east().with(link("tenant", "west")).text());
    server.wait_for_outcome(NAME, "10.96.1.1");
    assert_eq!(
        server.metric("global_dns_clusters{state=\"unlinked\"}"),
        1.0
    );
    for (what, other) in unconcerned {
        assert_eq!(other.outcome(NAME), BOTH, "{what}");
        for kind in ["unlinked", "links-unknown"] {
            assert!(problems_of_kind(&other, kind).is_empty(), "{what}: {kind}");
        }
    }
    let problems = problems_of_kind(&server, "unlinked");
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0]["cluster"], "west");
    let table = server.api("/api/v1/table");
    let endpoints = table["services"][0]["endpoints"].as_array().unwrap();
    let states = endpoints
        .iter()
        .map(|one| json!([one["state"], one["returned"], one["why"]]));
    let expected = json!([
        ["alive", true, null],
        ["down", false, "no Link names its cluster"]
    ]);
    assert_eq!(json!(states.collect::<Vec<_>>()), expected);
    let explained = server.api("/api/v1/explain?name=db.prod.global")["problems"].to_string();
    assert!(explained.contains("unlinked"), "{explained}");
    server.rewrite(&both().text());
    server.wait_for_outcome(NAME, BOTH);
    assert!(problems_of_kind(&server, "unlinked").is_empty());
}
