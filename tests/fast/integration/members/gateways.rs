//! Liveness of gateways (rule M3) and answers with gateways that are down (rule M4).

use serde_json::{Value, json};
use support::objects::{Gateway, Manifest, Mirror, local, mirror, objects};
use support::server::Server;

use super::{check_outcomes, conflicts, expected, problems_of_kind};

/// Returns `prod/db` and `shop/cache`. The gateway of east is up. The gateway of west, which has the only IPv6 address
/// and the only `admin` port, and that of `shop/cache` are down.
fn sample() -> Manifest {
    annotated(None)
}

/// Returns [`sample`] with `global-dns/gateway-down` on each mirror.
fn annotated(value: Option<&str>) -> Manifest {
    let annotate = |mirror: Mirror| match value {
        Some(value) => mirror.annotation(ANNOTATION, value),
        None => mirror,
    };
    objects()
        .with(annotate(
            mirror("prod", "db", "east").endpoint("db-0", &["10.96.1.1"]),
        ))
        .with(annotate(
            mirror("prod", "db", "west")
                .ports(&[("sql", "TCP", 26257), ("admin", "TCP", 8080)])
                .endpoint_behind(Gateway::Down, "db-0", &["10.96.2.1", "2001:db8::2"]),
        ))
        .with(annotate(mirror("shop", "cache", "west").endpoint_behind(
            Gateway::Down,
            "cache-0",
            &["10.96.3.1"],
        )))
}

const ANNOTATION: &str = "global-dns/gateway-down";

const EAST_SRV: &str = "0 10 26257 db-0.east.db.prod.global.";
const WEST_SQL: &str = "0 10 26257 db-0.west.db.prod.global.";
const WEST_ADMIN: &str = "0 10 8080 db-0.west.db.prod.global.";
const CACHE_SRV: &str = "0 10 26257 cache-0.west.cache.shop.global.";

/// Returns questions with their outcomes under `last-resort` and `include`.
fn cases() -> Vec<(&'static str, [String; 2])> {
    let same = |text: &str| [text.to_owned(), text.to_owned()];
    let differ = |texts: [&str; 2]| texts.map(str::to_owned);
    let both_sql = format!("{EAST_SRV} {WEST_SQL}");
    let west = format!("{WEST_SQL} {WEST_ADMIN}");
    vec![
        (
            "db.prod.global. A",
            differ(["10.96.1.1", "10.96.1.1 10.96.2.1"]),
        ),
        // The decision applies to an owner name, not to a record type.
        ("db.prod.global. AAAA", differ(["NODATA", "2001:db8::2"])),
        (
            "_sql._tcp.db.prod.global. SRV",
            differ([EAST_SRV, &both_sql]),
        ),
        ("_admin._tcp.db.prod.global. SRV", same(WEST_ADMIN)),
        ("east.db.prod.global. A", same("10.96.1.1")),
        ("west.db.prod.global. A", same("10.96.2.1")),
        ("west.db.prod.global. AAAA", same("2001:db8::2")),
        ("west.db.prod.global. SRV", same(&west)),
        ("_sql._tcp.west.db.prod.global. SRV", same(WEST_SQL)),
        ("db-0.west.db.prod.global. A", same("10.96.2.1")),
        ("db-0.west.db.prod.global. AAAA", same("2001:db8::2")),
        (
            "_admin._tcp.db-0.west.db.prod.global. SRV",
            same(WEST_ADMIN),
        ),
        ("cache.shop.global. A", same("10.96.3.1")),
        ("cache.shop.global. SRV", same(CACHE_SRV)),
        ("cache.global. A", same("10.96.3.1")),
        ("cache-0.west.cache.shop.global. A", same("10.96.3.1")),
        ("cache-0.west.cache.global. A", same("10.96.3.1")),
        // An unknown port does not exist under any rule.
        ("_nope._tcp.cache.shop.global. SRV", same("NXDOMAIN")),
        ("south.cache.shop.global. A", same("NXDOMAIN")),
    ]
}

const RULES: [&str; 2] = ["last-resort", "include"];

fn cases_of(rule: usize, cases: &[(&'static str, [String; 2])]) -> Vec<(&'static str, String)> {
    let of_rule =
        |(asked, outcomes): &(&'static str, [String; 2])| (*asked, outcomes[rule].clone());
    cases.iter().map(of_rule).collect()
}

fn check(server: &Server, what: &str, cases: &[(&'static str, String)]) {
    let cases: Vec<(&str, &str)> = cases.iter().map(|(a, o)| (*a, o.as_str())).collect();
    check_outcomes(server, what, &cases);
}

#[test]
fn each_rule_has_its_answers() {
    let cases = cases();
    for (index, rule) in RULES.iter().enumerate() {
        let flag = format!("--gateway-down={rule}");
        let server = Server::with_objects(sample(), &[&flag]);
        check(&server, rule, &cases_of(index, &cases));
    }
    let by_default = Server::with_objects(sample(), &[]);
    check(&by_default, "by default", &cases_of(0, &cases));
}

#[test]
fn annotation_of_the_own_service_overrides_the_flag() {
    // Services without endpoints, which only decide.
    let decided = |value: &str| {
        let own = |namespace: &str, name: &str| {
            let own = local(namespace, name).without_selector();
            own.annotation(ANNOTATION, value)
        };
        sample().with(own("prod", "db")).with(own("shop", "cache"))
    };
    let cases = cases();
    for (index, rule) in RULES.iter().enumerate() {
        let other = RULES[(index + 1) % RULES.len()];
        let flag = format!("--gateway-down={other}");
        let server = Server::with_objects(decided(rule), &[&flag]);
        check(&server, rule, &cases_of(index, &cases));
        assert_eq!(conflicts(&server), expected(&[]));
        assert_eq!(problems_of_kind(&server, "unreadable-setting").len(), 0);
    }
    let server = Server::with_objects(decided("never"), &["--gateway-down=include"]);
    check(&server, "an invalid annotation", &cases_of(1, &cases));
    let unreadable = problems_of_kind(&server, "unreadable-setting");
    let unreadable = unreadable.iter();
    let reported: Vec<Value> = unreadable
        .map(|one| json!([one["level"], one["subject"], one["detail"]]))
        .collect();
    let detail = "annotation global-dns/gateway-down=never: it is not last-resort or include";
    let expected = ["prod/db", "shop/cache"].map(|one| json!(["error", one, detail]));
    assert_eq!(reported, expected);
}

/// Each cluster exports its annotations to all others. None of them decides what this one answers (rule K6).
#[test]
fn annotation_of_a_mirror_is_ignored_and_noted() {
    let cases = cases();
    for (index, rule) in RULES.iter().enumerate() {
        for value in RULES.iter().chain(&["never"]) {
            let flag = format!("--gateway-down={rule}");
            let server = Server::with_objects(annotated(Some(value)), &[&flag]);
            let what = format!("{rule}, mirrors with {value}");
            check(&server, &what, &cases_of(index, &cases));
            assert_eq!(conflicts(&server), expected(&[]), "{what}");
            let ignored = problems_of_kind(&server, "ignored-annotation");
            let detail = format!("{ANNOTATION}={value}");
            let is_note = |one: &Value| one["level"] == "note" && one["detail"] == detail.as_str();
            assert!(ignored.iter().all(is_note), "{what}: {ignored:?}");
            let subjects = ignored.iter().map(|one| one["subject"].as_str().unwrap());
            let mirrors = ["prod/db-east", "prod/db-west", "shop/cache-west"];
            assert!(
                subjects.eq(mirrors.map(|mirror| format!("Service/{mirror}"))),
                "{what}: {ignored:?}"
            );
        }
    }
}

#[test]
fn table_shows_the_state_of_each_endpoint_and_whether_it_is_returned() {
    for (rule, returned) in [
        ("last-resort", [true, false, true]),
        ("include", [true, true, true]),
    ] {
        let server = Server::with_objects(sample(), &[&format!("--gateway-down={rule}")]);
        let report = server.api("/api/v1/table");
        let places = [(0, 0), (0, 1), (1, 0)];
        let seen = |field: &str| {
            let endpoint = |(service, endpoint): (usize, usize)| {
                report["services"][service]["endpoints"][endpoint][field].clone()
            };
            json!(places.map(endpoint))
        };
        assert_eq!(seen("state"), json!(["alive", "down", "down"]), "{rule}");
        assert_eq!(seen("returned"), json!(returned), "{rule}");
    }
}

#[test]
fn endpoint_is_alive_with_a_ready_gateway_or_without_a_slice() {
    let mut manifest = Manifest::from(
        mirror("prod", "db", "east")
            .endpoint_behind(Gateway::Unknown, "no-slice", &["10.96.1.1"])
            .endpoint_behind(Gateway::Up, "no-endpoint", &["10.96.1.2"])
            .endpoint_behind(Gateway::Down, "one-of-two", &["10.96.1.3"])
            .endpoint_behind(Gateway::Down, "one-of-two-slices", &["10.96.1.4"])
            .endpoint_behind(Gateway::Up, "unknown", &["10.96.1.5"])
            .endpoint_behind(Gateway::Down, "dead", &["10.96.1.6"])
            .endpoint_behind(Gateway::Down, "dead-twice", &["10.96.1.7"]),
    );
    let position = |manifest: &Manifest, host: &str| {
        let name = format!("{host}-east-7xk2p");
        let found = manifest
            .0
            .iter()
            .position(|o| o["metadata"]["name"] == name.as_str());
        found.unwrap()
    };
    let gateway = |address: &str, ready: bool| json!({"addresses": [address], "conditions": {"ready": ready}});
    let at = position(&manifest, "no-endpoint");
    manifest.0[at]["endpoints"] = json!([]);
    let at = position(&manifest, "one-of-two");
    manifest.0[at]["endpoints"] = json!([
        gateway("198.51.100.10", false),
        gateway("198.51.100.11", true)
    ]);
    let at = position(&manifest, "one-of-two-slices");
    let mut second = manifest.0[at].clone();
    second["metadata"]["name"] = json!("one-of-two-slices-east-9dk4w");
    second["endpoints"] = json!([gateway("2001:db8::10", true)]);
    manifest.0.push(second);
    // An absent ready condition means ready (EndpointSlice API).
    let at = position(&manifest, "unknown");
    manifest.0[at]["endpoints"] = json!([{"addresses": ["198.51.100.10"]}]);
    let at = position(&manifest, "dead-twice");
    manifest.0[at]["endpoints"] = json!([
        gateway("198.51.100.10", false),
        gateway("198.51.100.11", false)
    ]);
    let server = Server::with_objects(manifest, &[]);
    let alive = "10.96.1.1 10.96.1.2 10.96.1.3 10.96.1.4 10.96.1.5";
    assert_eq!(server.outcome("db.prod.global. A"), alive);
}

#[test]
fn loss_and_return_of_a_gateway_change_the_answer() {
    let state = |west: Gateway| {
        objects()
            .with(mirror("prod", "db", "east").endpoint("db-0", &["10.96.1.1"]))
            .with(mirror("prod", "db", "west").endpoint_behind(west, "db-0", &["10.96.2.1"]))
            .text()
    };
    let server = Server::with_text(&state(Gateway::Up), &[]);
    assert_eq!(server.outcome("db.prod.global. A"), "10.96.1.1 10.96.2.1");
    server.rewrite(&state(Gateway::Down));
    server.wait_for_outcome("db.prod.global. A", "10.96.1.1");
    assert_eq!(server.outcome("west.db.prod.global. A"), "10.96.2.1");
    assert_eq!(server.generation_and_serial().0, 2);
    server.rewrite(&state(Gateway::Up));
    server.wait_for_outcome("db.prod.global. A", "10.96.1.1 10.96.2.1");
    assert_eq!(server.generation_and_serial().0, 3);
}
