//! Weights of clusters within a step of a failover order (rule K5w).

use std::collections::BTreeMap;

use super::*;
use crate::model::GatewayDown;
use crate::table::{Rules, ServiceKind};
use crate::testing::{backends, exported, service_mirror};
use crate::zone::order::mix;

/// Returns `shop/pay` behind a cluster IP in east, west and north, of which these are alive, with an order.
fn objects(order: &str, alive: [bool; 3]) -> Vec<Value> {
    let clusters = [("east", 1), ("west", 2), ("north", 3)];
    let mirrors = clusters.into_iter().zip(alive);
    let mirrors = mirrors.flat_map(|((cluster, number), is_alive)| {
        let mut mirror = service_mirror("shop", "pay", cluster, &format!("10.96.0.{number}"));
        mirror["spec"]["clusterIPs"] =
            json!([format!("10.96.0.{number}"), format!("fd00::{number}")]);
        [
            mirror,
            backends("shop", &format!("pay-{cluster}"), true, is_alive),
        ]
    });
    mirrors.chain([own(order, "auto")]).collect()
}

/// Returns the Service of this cluster with an order.
fn own(order: &str, mode: &str) -> Value {
    json!({
        "metadata": {"namespace": "shop", "name": "pay", "annotations": {
            "global-dns/failover": order,
            "global-dns/failover-mode": mode,
        }},
        "spec": {"clusterIP": "10.96.9.9", "clusterIPs": ["10.96.9.9"], "ports": []},
    })
}

/// Returns one answer to a question, with a number that differs from answer to answer.
fn draw(table: &Table, name: &str, rtype: RecordType, order: AnswerOrder, number: u32) -> String {
    let zones = zones(&["global", "set=mcs"]);
    let name = Name::from_text(name).unwrap();
    let answer = answer(read(&zones, table, &name), rtype);
    let context = AnswerContext {
        order,
        turn: Some(mix(number)),
        ..AnswerContext::new(&name, 7)
    };
    let records = answer.records(context).into_iter();
    let texts = records.map(|record| record.data.to_string().replace('\t', " "));
    texts.collect::<Vec<_>>().join(", ")
}

/// Returns the number of each answer to a question.
fn draws(table: &Table, name: &str, rtype: RecordType, count: u32) -> BTreeMap<String, u32> {
    let mut draws = BTreeMap::new();
    for number in 0..count {
        let answer = draw(table, name, rtype, AnswerOrder::Rotate, number);
        *draws.entry(answer).or_default() += 1;
    }
    draws
}

/// Returns the different answers to a question for type A.
fn answers(table: &Table) -> Vec<String> {
    draws(table, "pay.shop.global", RecordType::A, 400)
        .into_keys()
        .collect()
}

/// Asserts that counts have these shares in percent, within five standard deviations.
fn assert_shares(draws: &BTreeMap<String, u32>, shares: &[(&str, f64)]) {
    let total = f64::from(draws.values().sum::<u32>());
    let names: Vec<&str> = shares.iter().map(|(name, _)| *name).collect();
    assert_eq!(draws.keys().collect::<Vec<_>>(), names);
    for (name, percent) in shares {
        let share = percent / 100.0;
        let deviation = (total * share * (1.0 - share)).sqrt();
        let difference = f64::from(draws[*name]) - total * share;
        assert!(
            difference.abs() <= 5.0 * deviation,
            "{draws:?}: {name} {percent}"
        );
    }
}

#[test]
fn each_answer_has_one_cluster_by_weight() {
    let table = table(&objects("east=90+west=10:north", [true; 3]));
    for name in ["pay.shop.global", "PAY.shop.global"] {
        let counts = draws(&table, name, RecordType::A, 4_000);
        assert_shares(&counts, &[("A 10.96.0.1", 90.0), ("A 10.96.0.2", 10.0)]);
    }
    let counts = draws(&table, "pay.shop.global", RecordType::AAAA, 4_000);
    assert_shares(&counts, &[("AAAA fd00::1", 90.0), ("AAAA fd00::2", 10.0)]);
    // Each order of answers draws.
    for order in [AnswerOrder::Rotate, AnswerOrder::LocalFirst] {
        let mut counts = BTreeMap::new();
        for number in 0..4_000 {
            let answer = draw(&table, "pay.shop.global", RecordType::A, order, number);
            *counts.entry(answer).or_default() += 1;
        }
        assert_shares(&counts, &[("A 10.96.0.1", 90.0), ("A 10.96.0.2", 10.0)]);
    }
}

#[test]
fn srv_has_all_clusters_with_their_weights() {
    let table = table(&objects("east=90+west=10+north=0", [true; 3]));
    let counts = draws(&table, "_http._tcp.pay.shop.global", RecordType::SRV, 50);
    let texts: Vec<String> = counts.into_keys().collect();
    let (east, west) = (
        "SRV 0 90 80 east.pay.shop.global.",
        "SRV 0 10 80 west.pay.shop.global.",
    );
    let addresses = ["A 10.96.0.1, AAAA fd00::1", "A 10.96.0.2, AAAA fd00::2"];
    let [of_east, of_west] = addresses;
    assert_eq!(
        texts,
        [
            format!("{west}, {east}, {of_west}, {of_east}"),
            format!("{east}, {west}, {of_east}, {of_west}"),
        ]
    );
    // The name of a cluster is never filtered, and has no weights.
    let name = "_http._tcp.north.pay.shop.global";
    let answer = ask(&zones(&["global"]), &table, name, RecordType::SRV);
    assert_eq!(answer, "SRV 0 10 80 north.pay.shop.global.");
    let answer = ask(
        &zones(&["global"]),
        &table,
        "north.pay.shop.global",
        RecordType::A,
    );
    assert_eq!(answer, "A 10.96.0.3");
}

#[test]
fn share_of_a_dead_cluster_goes_to_the_others() {
    let partly = table(&objects("east=60+west=30+north=10", [false, true, true]));
    let counts = draws(&partly, "pay.shop.global", RecordType::A, 4_000);
    assert_shares(&counts, &[("A 10.96.0.2", 75.0), ("A 10.96.0.3", 25.0)]);
    // If all are down, all answer, by weight.
    let all_down = table(&objects("east=60+west=30+north=10", [false; 3]));
    let counts = draws(&all_down, "pay.shop.global", RecordType::A, 4_000);
    assert_shares(
        &counts,
        &[
            ("A 10.96.0.1", 60.0),
            ("A 10.96.0.2", 30.0),
            ("A 10.96.0.3", 10.0),
        ],
    );
}

/// Rule `include` returns endpoints that are down. With weights, an answer has one cluster, so it has one that is alive.
#[test]
fn dead_cluster_is_not_drawn_with_include() {
    let include = Rules {
        gateway_down: GatewayDown::Include,
        ..rules()
    };
    let table = table_by(&include, &objects("east=90+west=10", [false, true, true]));
    assert_eq!(answers(&table), ["A 10.96.0.2"]);
}

#[test]
fn drained_cluster_answers_only_if_nothing_else_does() {
    let (east, west) = ("A 10.96.0.1", "A 10.96.0.2");
    for (order, alive, expected) in [
        ("east=0+west=100:north", [true, true, true], &[west][..]),
        ("east=0+west=1", [true, true, true], &[west]),
        // The other one is down: the drained one is better than one that is down.
        ("east=0+west=100", [true, false, true], &[east]),
        // A step whose clusters are drained counts as down.
        ("east=0+west=0:north", [true, true, true], &["A 10.96.0.3"]),
        ("east=0:west", [true, true, true], &[west]),
        ("west:east=0", [true, true, true], &[west]),
        // All steps count as down: the first one answers.
        ("east=0+west=0:north", [true, true, false], &[east, west]),
        ("east=0", [true, true, true], &[east]),
        // All are down.
        ("east=0+west=5", [false, false, true], &[west]),
        ("east=0+west=0", [false, false, true], &[east, west]),
    ] {
        let table = table(&objects(order, alive));
        assert_eq!(answers(&table), expected, "{order} {alive:?}");
    }
}

/// In mode `hold`, the first step answers, drained or not.
#[test]
fn drained_step_answers_in_mode_hold() {
    let mut objects = objects("", [true; 3]);
    objects.pop();
    objects.push(own("east=0:west", "hold"));
    assert_eq!(answers(&table(&objects)), ["A 10.96.0.1"]);
}

/// A typing error in a weight moves no load to one cluster: all clusters of the step answer, as without weights.
#[test]
fn weight_that_cannot_be_read_ends_the_weights_of_its_step() {
    for order in [
        "east=9x+west=10:north",
        "east=4294967295+west=1:north",
        "east=90+west:north",
        "east=-1+west=5:north",
        "east=+west=5:north",
    ] {
        let table = table(&objects(order, [true; 3]));
        let expected = ["A 10.96.0.1, A 10.96.0.2", "A 10.96.0.2, A 10.96.0.1"];
        assert_eq!(answers(&table), expected, "{order}");
        let problems: Vec<String> = table.problems().map(|one| one.to_string()).collect();
        assert!(
            problems[0].starts_with("Setting of a service cannot be read"),
            "{problems:?}"
        );
    }
}

/// The pods of a database are in each answer. A weight must not take one of them away.
#[test]
fn cluster_that_answers_with_pods_takes_no_part() {
    let mut objects = objects("east=90+west=10+south=50", [true; 3]);
    objects.extend([
        mirror("shop", "pay", "south"),
        endpoint("shop", "pay", "south", "pay-0", &["10.96.1.1"]),
        endpoint("shop", "pay", "south", "pay-1", &["10.96.1.2"]),
    ]);
    let table = table(&objects);
    for answer in answers(&table) {
        let mut addresses: Vec<&str> = answer.split(", ").collect();
        addresses.sort_unstable();
        let drawn = addresses.remove(0);
        assert!(["A 10.96.0.1", "A 10.96.0.2"].contains(&drawn), "{answer}");
        assert_eq!(addresses, ["A 10.96.1.1", "A 10.96.1.2"]);
    }
    let problems: Vec<String> = table
        .problems()
        .filter(|one| one.kind == crate::model::ProblemKind::UnusedWeight)
        .map(|one| one.to_string())
        .collect();
    assert_eq!(
        problems,
        [
            "Weight of a cluster does not apply: shop/pay: east=90+west=10+south=50: cluster 'south' answers \
             with pods, which are in each answer"
        ]
    );
}

/// This cluster takes part with its exported Service.
#[test]
fn own_cluster_has_a_weight() {
    let mut objects = objects("", [true; 3]);
    objects.pop();
    let mut own = exported("shop", "pay", "10.96.9.9");
    own["metadata"]["annotations"]["global-dns/failover"] = json!("local=50+east=50");
    own["metadata"]["annotations"]["global-dns/failover-mode"] = json!("auto");
    objects.extend([own, backends("shop", "pay", false, true)]);
    let counts = draws(&table(&objects), "pay.shop.global", RecordType::A, 4_000);
    assert_shares(&counts, &[("A 10.96.0.1", 50.0), ("A 10.96.9.9", 50.0)]);
}

/// A cluster with an address of one family has no share of the answers for the other one.
#[test]
fn families_are_drawn_separately() {
    let mut objects = objects("east=90+west=10", [true; 3]);
    objects[0]["spec"]["clusterIPs"] = json!(["10.96.0.1"]);
    let table = table(&objects);
    assert_eq!(answers(&table), ["A 10.96.0.1", "A 10.96.0.2"]);
    let counts = draws(&table, "pay.shop.global", RecordType::AAAA, 100);
    assert_eq!(counts.into_keys().collect::<Vec<_>>(), ["AAAA fd00::2"]);
}

/// Zones with the grammar `mcs` have one SRV target for all cluster IPs. The addresses that come with it are an answer for
/// its name.
#[test]
fn zone_of_the_api_draws_too() {
    let rules = Rules {
        has_mcs_zones: true,
        ..rules()
    };
    let table = table_by(&rules, &objects("east=90+west=10", [true; 3]));
    let draws_of = |name, rtype| draws(&table, name, rtype, 4_000);
    let shares = [("A 10.96.0.1", 90.0), ("A 10.96.0.2", 10.0)];
    assert_shares(&draws_of("pay.shop.svc.set", RecordType::A), &shares);
    let srv = "SRV 0 10 80 pay.shop.svc.set.";
    let answers = ["1", "2"]
        .map(|one| ["1", "2"].map(|other| format!("{srv}, A 10.96.0.{one}, AAAA fd00::{other}")));
    let counts = draws_of("_http._tcp.pay.shop.svc.set", RecordType::SRV);
    assert!(
        counts
            .keys()
            .all(|answer| answers.as_flattened().contains(answer)),
        "{counts:?}"
    );
    assert!(counts[&answers[0][0]] > 3_000, "{counts:?}");
}

/// A zone file and `explain` have all clusters.
#[test]
fn all_clusters_are_listed_without_a_turn() {
    let table = table(&objects("east=90+west=10:north", [true; 3]));
    let answer = ask(
        &zones(&["global"]),
        &table,
        "pay.shop.global",
        RecordType::A,
    );
    assert_eq!(answer, "A 10.96.0.1, A 10.96.0.2");
    assert_eq!(
        table.service("shop", "pay").unwrap().kind,
        ServiceKind::Gateway
    );
}

/// Pearson's test over a million answers: with 3 degrees of freedom, the statistic exceeds 21.1 once in 10,000 series. The
/// turns are fixed, so that the result is.
#[test]
fn shares_are_those_of_the_weights_over_a_million_answers() {
    let mut objects = objects("", [true; 3]);
    objects.pop();
    let mut own = exported("shop", "pay", "10.96.0.4");
    own["metadata"]["annotations"]["global-dns/failover"] =
        json!("east=500+west=333+north=166+local=1");
    own["metadata"]["annotations"]["global-dns/failover-mode"] = json!("auto");
    objects.extend([own, backends("shop", "pay", false, true)]);
    let table = table(&objects);
    let addresses = &table.service("shop", "pay").unwrap().name_addresses;
    // A listener counts its queries. A client that queries A and AAAA in turn gets every second number.
    for (start, step) in [(0, 1), (0, 2), (1, 2), (u32::MAX - 500_000, 1), (7, 10)] {
        let mut counts = [0_u32; 4];
        for number in 0..1_000_000_u32 {
            let turn = mix(number.wrapping_mul(step).wrapping_add(start));
            let [one] = addresses.drawn_v4(turn) else {
                panic!("{turn}");
            };
            counts[usize::from(one.octets()[3]) - 1] += 1;
        }
        let expected = [500_000.0, 333_000.0, 166_000.0, 1_000.0];
        let statistic: f64 = counts
            .iter()
            .zip(expected)
            .map(|(count, expected)| (f64::from(*count) - expected).powi(2) / expected)
            .sum();
        assert!(statistic < 21.1, "{start} {step}: {counts:?} {statistic}");
    }
}
