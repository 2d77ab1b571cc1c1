//! Weights of clusters (rule K5w), orders that are tried, and aliases, over DNS, the API and the commands.

use serde_json::{Value, json};
use support::objects::{Manifest, gateway_mirror, local, mirror, objects};
use support::process::run_global_dns;
use support::server::Server;

use super::{check_outcomes, problems_of_kind};

/// Returns `shop/pay` behind a cluster IP in east and west.
fn pay() -> Manifest {
    objects()
        .with(gateway_mirror("shop", "pay", "east", "10.96.1.1"))
        .with(gateway_mirror("shop", "pay", "west", "10.96.2.1"))
}

fn weighted(order: &str) -> Server {
    let order = format!("--failover=shop/pay={order}");
    Server::with_objects(pay(), &[&order, "--failover-mode=shop/pay=auto"])
}

/// Returns the number of answers with each address.
fn draws(server: &Server, count: usize) -> [usize; 2] {
    let mut draws = [0; 2];
    for _ in 0..count {
        match server.outcome("pay.shop.global. A").as_str() {
            "10.96.1.1" => draws[0] += 1,
            "10.96.2.1" => draws[1] += 1,
            other => panic!("{other}"),
        }
    }
    draws
}

#[test]
fn answers_over_dns_have_the_shares_of_the_weights() {
    let server = weighted("east=90+west=10");
    // Within five standard deviations.
    let [east, west] = draws(&server, 2_000);
    assert!((130..270).contains(&west), "{east} {west}");
    let endpoints = &server.api("/api/v1/table")["services"][0]["endpoints"];
    let weights: Vec<&Value> = (0..2).map(|index| &endpoints[index]["weight"]).collect();
    assert_eq!(weights, [&json!(90), &json!(10)]);
}

/// A person drains a cluster by an annotation. The next answer has the other one.
#[test]
fn drained_cluster_has_no_answers() {
    let with = |order: &str| {
        let own = local("shop", "pay").without_selector();
        let own = own.annotation("global-dns/failover", order);
        pay().with(own.annotation("global-dns/failover-mode", "auto"))
    };
    let server = Server::with_objects(with("east=50+west=50"), &[]);
    let [east, west] = draws(&server, 200);
    assert!(east > 40 && west > 40, "{east} {west}");
    server.rewrite(&with("east=0+west=100").text());
    server.wait_for_outcome(
        "_http._tcp.pay.shop.global. SRV",
        "0 100 80 west.pay.shop.global.",
    );
    assert_eq!(draws(&server, 200), [0, 200]);
    let endpoints = &server.api("/api/v1/table")["services"][0]["endpoints"];
    assert_eq!(endpoints[0]["state"], "drained");
    assert_eq!(endpoints[0]["why"], "its cluster has weight 0");
}

#[test]
fn order_is_tried_and_nothing_changes() {
    let server = weighted("east:west");
    let generation = server.generation_and_serial();
    let tried = server.api("/api/v1/explain?name=pay.shop&whatIf=west:east");
    assert_eq!(tried["whatIf"], "west:east");
    assert_eq!(tried["answers"][0]["records"][0]["data"], "10.96.2.1");
    let notes = tried["notes"].to_string();
    assert!(notes.contains("(--what-if; nothing is changed)"), "{notes}");
    let drawn = server.api("/api/v1/explain?name=pay.shop&whatIf=east=75%2Bwest=25");
    let notes = drawn["notes"].to_string();
    assert!(
        notes.contains("drawn at random: east 75 %, west 25 %"),
        "{notes}"
    );
    assert_eq!(server.generation_and_serial(), generation);
    assert_eq!(server.outcome("pay.shop.global. A"), "10.96.1.1");
    for (query, expected) in [
        (
            "name=pay.shop&whatIf=ea_st",
            "whatIf: 'ea_st' is not the name of a cluster",
        ),
        ("name=pay.shop&whatIf=", "whatIf: step 1 is empty"),
        (
            "name=nope.shop&whatIf=east",
            "'nope.shop' is not the name of a service",
        ),
        (
            "name=10.96.1.1&whatIf=east",
            "'10.96.1.1' is not the name of a service",
        ),
        (
            "name=pay.shop&whatIf=east&at=2026-11-24T03:12:00Z",
            "at and whatIf exclude each other",
        ),
    ] {
        let error = server
            .try_api(&format!("/api/v1/explain?{query}"))
            .unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains(expected), "{query}: {error}");
    }
}

/// The command tries an order on the objects of a file, too.
#[test]
fn command_tries_an_order_without_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("objects.yaml");
    std::fs::write(&file, pay().text()).unwrap();
    let file = format!("--file={}", file.display());
    let explain = |name: &str, flags: &[&str]| {
        run_global_dns(&[&["explain", name, &file][..], flags].concat())
    };
    let tried = explain("pay.shop", &["--what-if", "west:east"]);
    assert!(tried.is_success(), "{}", tried.stderr);
    let first = "what if the failover order were west:east? (nothing is changed)\n";
    assert!(tried.stdout.starts_with(first), "{}", tried.stdout);
    assert!(
        tried.stdout.contains("10.96.2.1") && tried.stdout.contains("answering step 1 of 2, west")
    );
    for (name, order, expected) in [
        ("pay.shop", "east::west", "step 2 is empty"),
        (
            "nope.shop",
            "east",
            "'nope.shop' is not the name of a service",
        ),
    ] {
        let refused = explain(name, &["--what-if", order]);
        assert!(
            !refused.is_success() && refused.stderr.contains(expected),
            "{}",
            refused.stderr
        );
    }
}

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
