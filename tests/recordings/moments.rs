//! Whole answers at the interesting moments of each recording.
//!
//! `nginx` has the ports `http` 80 → 8080 and `sql` 26257; `db-east` has `postgres` 5432 → 15432 and `metrics` 9187.

use global_dns::mirror::{GatewayDown, SkipReason};
use global_dns::report::{Report, State};
use global_dns::table::LocalMembers;

use crate::replay::{Recording, Replay, hub_rules, zones};

/// Asserts a whole answer, in any order.
#[track_caller]
fn expect(replay: &Replay, question: &str, records: &[&str]) {
    let mut records: Vec<String> = records.iter().map(|record| (*record).to_owned()).collect();
    records.sort();
    assert_eq!(
        replay.ask(question),
        records,
        "{question} after {} events",
        replay.at
    );
}

const NORTH: [&str; 3] = ["10.96.195.82", "10.96.55.36", "10.96.106.244"];
const WEST: [&str; 3] = ["10.96.200.190", "10.96.46.26", "10.96.139.176"];
const EAST: [&str; 3] = ["10.96.146.197", "10.96.48.116", "10.96.33.115"];
const NXDOMAIN: [&str; 1] = ["NXDOMAIN"];
const NODATA: [&str; 1] = ["NODATA"];

/// The hosts that headless mirrors list without an endpoint mirror.
fn missing(replay: &Replay) -> Vec<String> {
    let now = replay.reader.load();
    let services = now.table.as_ref().unwrap().sorted_services().into_iter();
    let hosts = services.flat_map(|service| service.missing.iter());
    hosts
        .map(|host| format!("{} of {}", host.hostname, host.mirror.key.name))
        .collect()
}

/// Linkerd's lists and its endpoint mirrors agree when it has come to rest.
#[test]
fn no_host_is_missing_when_a_recording_is_over() {
    for number in Recording::numbers() {
        let mut replay = Replay::of(&number);
        replay.finish();
        assert_eq!(missing(&replay), [""; 0], "recording {number}");
    }
}

#[test]
fn r02_scale_up_adds_each_endpoint_with_its_service() {
    let mut replay = Replay::of("02");
    let start = [NORTH, WEST, EAST].concat();
    expect(&replay, "nginx.default.global A", &start);
    expect(
        &replay,
        "nginx-set-4.east.nginx.default.global A",
        &NXDOMAIN,
    );
    expect(
        &replay,
        "_http._tcp.east.nginx.default.global SRV",
        &[
            "0 10 80 nginx-set-0.east.nginx.default.global.",
            "0 10 80 nginx-set-1.east.nginx.default.global.",
            "0 10 80 nginx-set-2.east.nginx.default.global.",
        ],
    );

    // The Service alone is enough: it comes 9 ms before the slice and 12 ms before the headless one.
    replay.until("ADDED", "nginx-set-4-east");
    expect(
        &replay,
        "nginx.default.global A",
        &[&start[..], &["10.96.134.180"]].concat(),
    );
    expect(
        &replay,
        "nginx-set-4.east.nginx.default.global A",
        &["10.96.134.180"],
    );

    replay.finish();
    expect(
        &replay,
        "nginx.default.global A",
        &[&start[..], &["10.96.134.180", "10.96.136.184"]].concat(),
    );
    expect(
        &replay,
        "nginx.global A",
        &[&start[..], &["10.96.134.180", "10.96.136.184"]].concat(),
    );
    expect(
        &replay,
        "nginx-set-3.east.nginx.default.global SRV",
        &[
            "0 10 80 nginx-set-3.east.nginx.default.global.",
            "0 10 26257 nginx-set-3.east.nginx.default.global.",
        ],
    );
    expect(
        &replay,
        "_sql._tcp.nginx-set-3.east.nginx.global SRV",
        &["0 10 26257 nginx-set-3.east.nginx.global."],
    );
}

#[test]
fn r03_scale_down_drops_an_address_while_the_headless_slice_still_lists_it() {
    let mut replay = Replay::of("03");
    let rest = [&NORTH[..], &WEST[..], &EAST[..2]].concat();
    expect(
        &replay,
        "nginx.default.global A",
        &[
            &rest[..],
            &["10.96.33.115", "10.96.134.180", "10.96.136.184"],
        ]
        .concat(),
    );
    assert_eq!(missing(&replay), [""; 0]);
    replay.until("DELETED", "nginx-set-4-east");
    // Which is what a lost mirror looks like, for a moment.
    assert_eq!(missing(&replay), ["nginx-set-4 of nginx-east"]);
    expect(
        &replay,
        "nginx.default.global A",
        &[&rest[..], &["10.96.33.115", "10.96.136.184"]].concat(),
    );
    expect(
        &replay,
        "nginx-set-4.east.nginx.default.global A",
        &NXDOMAIN,
    );
    replay.until("DELETED", "nginx-set-2-east");
    expect(
        &replay,
        "nginx.default.global A",
        &[&rest[..], &["10.96.136.184"]].concat(),
    );
    replay.finish();
    expect(&replay, "nginx.default.global A", &rest);
    expect(&replay, "east.nginx.default.global A", &EAST[..2]);
}

#[test]
fn r04_a_restarted_pod_keeps_its_name_and_gets_a_new_address() {
    let mut replay = Replay::of("04");
    let rest = [&NORTH[..], &EAST[..2], &["10.96.200.190", "10.96.139.176"]].concat();
    let name = "nginx-set-1.west.nginx.default.global A";
    expect(
        &replay,
        "nginx.default.global A",
        &[&rest[..], &["10.96.46.26"]].concat(),
    );
    expect(&replay, name, &["10.96.46.26"]);
    replay.until("DELETED", "nginx-set-1-west");
    expect(&replay, "nginx.default.global A", &rest);
    expect(&replay, name, &NXDOMAIN);
    replay.until("ADDED", "nginx-set-1-west");
    expect(
        &replay,
        "nginx.default.global A",
        &[&rest[..], &["10.96.116.27"]].concat(),
    );
    expect(&replay, name, &["10.96.116.27"]);
    replay.finish();
    expect(&replay, name, &["10.96.116.27"]);
}

const WEST_05: [&str; 3] = ["10.96.200.190", "10.96.116.27", "10.96.139.176"];

#[test]
fn r05_endpoints_behind_a_dead_gateway_leave_the_union_and_keep_their_names() {
    let mut replay = Replay::of("05");
    let rest = [&NORTH[..], &EAST[..2]].concat();
    expect(
        &replay,
        "nginx.default.global A",
        &[&rest[..], &WEST_05].concat(),
    );
    replay.until("MODIFIED", "nginx-set-0-west-j6h9n");
    expect(
        &replay,
        "nginx.default.global A",
        &[&rest[..], &WEST_05[1..]].concat(),
    );
    expect(&replay, "west.nginx.default.global A", &WEST_05[1..]);
    expect(
        &replay,
        "nginx-set-0.west.nginx.default.global A",
        &WEST_05[..1],
    );
    replay.finish();
    expect(&replay, "nginx.default.global A", &rest);
    // A liveness signal must not unname the members: nothing else is left at these names.
    expect(&replay, "west.nginx.default.global A", &WEST_05);
    expect(
        &replay,
        "nginx-set-0.west.nginx.default.global A",
        &WEST_05[..1],
    );
    let srv = |host: usize| format!("0 10 26257 nginx-set-{host}.west.nginx.default.global.");
    let west: Vec<String> = (0..3).map(srv).collect();
    let west: Vec<&str> = west.iter().map(String::as_str).collect();
    expect(&replay, "_sql._tcp.west.nginx.default.global SRV", &west);
    let all = replay.ask("_sql._tcp.nginx.default.global SRV");
    assert!(
        all.iter().all(|record| !record.contains(".west.")),
        "{all:?}"
    );
    assert_eq!(all.len(), 5);
}

#[test]
fn r05_other_gateway_rules() {
    let rules = |gateway_down| global_dns::table::Rules {
        gateway_down,
        ..hub_rules()
    };
    let rest = [&NORTH[..], &EAST[..2]].concat();
    let mut include = Replay::with("05", rules(GatewayDown::Include));
    include.finish();
    expect(
        &include,
        "nginx.default.global A",
        &[&rest[..], &WEST_05].concat(),
    );

    let mut exclude = Replay::with("05", rules(GatewayDown::Exclude));
    exclude.finish();
    expect(&exclude, "nginx.default.global A", &rest);
    expect(&exclude, "west.nginx.default.global A", &NODATA);
    expect(&exclude, "_sql._tcp.west.nginx.default.global SRV", &NODATA);
    expect(
        &exclude,
        "nginx-set-0.west.nginx.default.global A",
        &WEST_05[..1],
    );
    expect(
        &exclude,
        "_sql._tcp.nginx-set-0.west.nginx.default.global SRV",
        &["0 10 26257 nginx-set-0.west.nginx.default.global."],
    );
}

#[test]
fn r06_endpoints_return_with_their_gateway() {
    let mut replay = Replay::of("06");
    let rest = [&NORTH[..], &EAST[..2]].concat();
    expect(&replay, "nginx.default.global A", &rest);
    replay.until("MODIFIED", "nginx-set-0-west-j6h9n");
    expect(
        &replay,
        "nginx.default.global A",
        &[&rest[..], &WEST_05[..1]].concat(),
    );
    replay.finish();
    expect(
        &replay,
        "nginx.default.global A",
        &[&rest[..], &WEST_05].concat(),
    );
}

#[test]
fn r07_a_clobbered_headless_slice_changes_no_answer() {
    let mut replay = Replay::of("07");
    let before = (replay.zone_file(), replay.reader.load().generation);
    expect(&replay, "east.nginx.default.global A", &EAST[..2]);
    replay.finish();
    assert_eq!(
        (replay.zone_file(), replay.reader.load().generation),
        before
    );
}

#[test]
fn r08_the_repair_brings_the_new_pod_and_nothing_else() {
    let mut replay = Replay::of("08");
    let rest = [&NORTH[..], &WEST_05[..], &EAST[..2]].concat();
    expect(&replay, "nginx.default.global A", &rest);
    replay.finish();
    expect(
        &replay,
        "nginx.default.global A",
        &[&rest[..], &["10.96.77.1"]].concat(),
    );
}

#[test]
fn r09_an_unexported_cluster_goes_pod_by_pod() {
    let mut replay = Replay::of("09");
    let rest = [
        &WEST_05[..],
        &["10.96.146.197", "10.96.48.116", "10.96.77.1"],
    ]
    .concat();
    expect(
        &replay,
        "nginx.default.global A",
        &[&rest[..], &NORTH].concat(),
    );
    replay.until("DELETED", "nginx-set-0-north");
    expect(
        &replay,
        "nginx.default.global A",
        &[&rest[..], &NORTH[1..]].concat(),
    );
    replay.until("DELETED", "nginx-set-2-north");
    expect(&replay, "nginx.default.global A", &rest);
    expect(&replay, "north.nginx.default.global A", &NXDOMAIN);
    replay.finish();
    expect(&replay, "nginx.default.global A", &rest);
}

#[test]
fn r10_an_exported_cluster_comes_back_with_new_addresses() {
    let mut replay = Replay::of("10");
    let rest = [
        &WEST_05[..],
        &["10.96.146.197", "10.96.48.116", "10.96.77.1"],
    ]
    .concat();
    expect(&replay, "nginx.default.global A", &rest);
    replay.until("ADDED", "nginx-north");
    // The headless mirror alone is no endpoint.
    expect(&replay, "nginx.default.global A", &rest);
    expect(&replay, "north.nginx.default.global A", &NXDOMAIN);
    replay.until("ADDED", "nginx-set-0-north");
    expect(&replay, "north.nginx.default.global A", &["10.96.140.160"]);
    replay.finish();
    expect(
        &replay,
        "north.nginx.default.global A",
        &["10.96.140.160", "10.96.48.232", "10.96.198.206"],
    );
}

#[test]
fn r11_a_cluster_scaled_to_zero_has_no_name_until_an_endpoint_mirror_returns() {
    let mut replay = Replay::of("11");
    expect(&replay, "west.nginx.default.global A", &WEST_05);
    replay.until("DELETED", "nginx-set-1-west");
    expect(&replay, "west.nginx.default.global A", &NXDOMAIN);
    expect(
        &replay,
        "nginx.default.global A",
        &[
            "10.96.146.197",
            "10.96.48.116",
            "10.96.77.1",
            "10.96.140.160",
            "10.96.48.232",
            "10.96.198.206",
        ],
    );
    // The controller replays an old event: from the objects nobody can tell. The parent exists all along.
    replay.finish();
    expect(&replay, "west.nginx.default.global A", &["10.96.116.172"]);
}

#[test]
fn r13_a_headless_export_without_hostnames_is_a_cluster_ip_mirror_and_no_name() {
    let mut replay = Replay::of("13");
    let before = replay.records();
    replay.finish();
    expect(&replay, "cache.default.global A", &NXDOMAIN);
    assert_eq!(replay.records(), before);
    let report = Report::new(&zones(), &replay.reader.load());
    let skipped = report
        .skipped
        .iter()
        .find(|skip| skip.object == "Service/default/cache-east");
    assert_eq!(
        skipped.map(|skip| skip.reason),
        Some(SkipReason::NotHeadless)
    );
}

#[test]
fn r14_a_name_with_dashes_and_a_clusters_name_in_it() {
    let mut replay = Replay::of("14");
    expect(&replay, "db-east.shop.global A", &NXDOMAIN);
    replay.until("ADDED", "db-east-0-east");
    expect(&replay, "db-east.shop.global A", &["10.96.197.59"]);
    expect(
        &replay,
        "db-east-0.east.db-east.shop.global A",
        &["10.96.197.59"],
    );
    expect(&replay, "shop.global A", &NODATA);
    replay.until("ADDED", "db-east-1-east");
    expect(
        &replay,
        "east.db-east.shop.global A",
        &["10.96.197.59", "10.96.109.71"],
    );
    // Both endpoint mirrors of east go although the pods are ready: the name has nothing behind it.
    replay.until("DELETED", "db-east-1-east");
    expect(&replay, "db-east.shop.global A", &NXDOMAIN);
    expect(&replay, "shop.global A", &NXDOMAIN);
    replay.finish();
    let west = ["10.96.189.172", "10.96.110.63"];
    expect(&replay, "db-east.shop.global A", &west);
    expect(&replay, "west.db-east.shop.global A", &west);
    expect(&replay, "east.db-east.shop.global A", &NXDOMAIN);
    // Nothing was ever cut out of the name: there is no `db`.
    expect(&replay, "db.shop.global A", &NXDOMAIN);
    expect(
        &replay,
        "_postgres._tcp.db-east.shop.global SRV",
        &[
            "0 10 5432 db-east-0.west.db-east.shop.global.",
            "0 10 5432 db-east-1.west.db-east.shop.global.",
        ],
    );
}

#[test]
fn r15_flat_federated_and_cluster_ip_mirrors_are_no_part_of_a_headless_union() {
    let mut replay = Replay::of("15");
    let before = replay.records();
    replay.finish();
    assert_eq!(replay.records(), before);
    for name in [
        "web",
        "web-federated",
        "api",
        "api-east",
        "gw-only",
        "gw-only-east",
    ] {
        expect(&replay, &format!("{name}.default.global A"), &NXDOMAIN);
    }
    let report = Report::new(&zones(), &replay.reader.load());
    let mut skipped: Vec<&str> = report
        .skipped
        .iter()
        .filter(|skip| skip.reason == SkipReason::NotHeadless)
        .map(|skip| skip.object.as_str())
        .collect();
    skipped.sort();
    assert_eq!(
        skipped,
        [
            "Service/default/api-east",
            "Service/default/api-north",
            "Service/default/cache-east",
            "Service/default/gw-only-east",
            "Service/default/gw-only-north",
            "Service/default/web-federated",
        ]
    );
}

#[test]
fn r17_a_pod_that_is_not_ready_has_no_name() {
    let mut replay = Replay::of("17");
    expect(
        &replay,
        "nginx-set-2.west.nginx.default.global A",
        &["10.96.28.240"],
    );
    replay.until("DELETED", "nginx-set-2-west");
    expect(
        &replay,
        "nginx-set-2.west.nginx.default.global A",
        &NXDOMAIN,
    );
    expect(
        &replay,
        "west.nginx.default.global A",
        &["10.96.173.86", "10.96.155.137"],
    );
    expect(&replay, "_admin._tcp.nginx.default.global SRV", &NXDOMAIN);
}

#[test]
fn r18_ports_are_those_of_each_endpoint_mirror_and_not_of_the_pods() {
    let mut replay = Replay::of("18");
    replay.finish();
    // The headless slice lists `admin` 9001 for every host; only the new mirror has the port, and it is 9000.
    let only = ["0 10 9000 nginx-set-2.west.nginx.default.global."];
    expect(&replay, "_admin._tcp.nginx.default.global SRV", &only);
    expect(
        &replay,
        "_admin._tcp.nginx-set-0.west.nginx.default.global SRV",
        &NXDOMAIN,
    );
    expect(
        &replay,
        "nginx-set-2.west.nginx.default.global SRV",
        &[
            "0 10 80 nginx-set-2.west.nginx.default.global.",
            "0 10 9000 nginx-set-2.west.nginx.default.global.",
            "0 10 26257 nginx-set-2.west.nginx.default.global.",
        ],
    );
}

#[test]
fn r19_a_local_member_joins_with_the_ports_of_its_pods_and_leaves_when_not_ready() {
    let mut replay = Replay::of("19");
    let mirrored = [
        "10.96.146.197",
        "10.96.48.116",
        "10.96.77.1",
        "10.96.140.160",
        "10.96.48.232",
        "10.96.198.206",
        "10.96.173.86",
        "10.96.155.137",
        "10.96.160.237",
    ];
    expect(
        &replay,
        "nginx.default.global A",
        &[&mirrored[..], &["10.0.0.1", "10.0.0.2"]].concat(),
    );
    expect(
        &replay,
        "hub.nginx.default.global A",
        &["10.0.0.1", "10.0.0.2"],
    );
    expect(
        &replay,
        "_http._tcp.hub.nginx.default.global SRV",
        &[
            "0 10 8080 nginx-set-0.hub.nginx.default.global.",
            "0 10 8080 nginx-set-1.hub.nginx.default.global.",
        ],
    );
    replay.step(); // terminating: not ready any more
    expect(
        &replay,
        "nginx.default.global A",
        &[&mirrored[..], &["10.0.0.1"]].concat(),
    );
    expect(&replay, "nginx-set-1.hub.nginx.default.global A", &NXDOMAIN);
    let states = |replay: &Replay| -> Vec<(String, State)> {
        let report = Report::new(&zones(), &replay.reader.load());
        let nginx = report
            .services
            .into_iter()
            .find(|service| service.service == "nginx")
            .unwrap();
        let local = nginx
            .endpoints
            .into_iter()
            .filter(|endpoint| endpoint.cluster == "hub");
        local
            .map(|endpoint| (endpoint.hostname, endpoint.state))
            .collect()
    };
    let (first, second) = ("nginx-set-0".to_owned(), "nginx-set-1".to_owned());
    assert_eq!(
        states(&replay),
        [(first.clone(), State::Answered), (second, State::NotReady)]
    );
    replay.step(); // gone
    assert_eq!(states(&replay), [(first, State::Answered)]);
    expect(&replay, "hub.nginx.default.global A", &["10.0.0.1"]);

    let off = global_dns::table::Rules {
        local_members: LocalMembers::Off,
        ..hub_rules()
    };
    let without = Replay::with("19", off);
    expect(&without, "nginx.default.global A", &mirrored);
    expect(&without, "hub.nginx.default.global A", &NXDOMAIN);
}

#[test]
fn r23_when_every_gateway_is_down_all_endpoints_are_the_last_resort() {
    let mut replay = Replay::of("23");
    let (east, west) = (
        ["10.96.41.177", "10.96.88.58"],
        ["10.96.189.172", "10.96.110.63"],
    );
    // The headless slice of west says not ready, and has for a while: it is no liveness signal.
    expect(&replay, "db-east.shop.global A", &[east, west].concat());
    replay.until("MODIFIED", "db-east-1-west-mkgnn");
    expect(&replay, "db-east.shop.global A", &east);
    expect(&replay, "west.db-east.shop.global A", &west);
    replay.until("MODIFIED", "db-east-0-east-szswq");
    expect(&replay, "db-east.shop.global A", &east[1..]);
    replay.until("MODIFIED", "db-east-1-east-pt2b8");
    expect(&replay, "db-east.shop.global A", &[east, west].concat());
    let srv = [
        "0 10 9187 db-east-0.east.db-east.shop.global.",
        "0 10 9187 db-east-0.west.db-east.shop.global.",
        "0 10 9187 db-east-1.east.db-east.shop.global.",
        "0 10 9187 db-east-1.west.db-east.shop.global.",
    ];
    expect(&replay, "_metrics._tcp.db-east.shop.global SRV", &srv);
    // nginx has north, whose mirrors nobody looks after any more, and the local member.
    let rest = ["10.96.140.160", "10.96.48.232", "10.96.198.206", "10.0.0.1"];
    expect(&replay, "nginx.default.global A", &rest);

    replay.until("MODIFIED", "nginx-set-0-west-wz7vl");
    expect(
        &replay,
        "nginx.default.global A",
        &[&rest[..], &["10.96.173.86"]].concat(),
    );
    replay.until("MODIFIED", "db-east-0-east-szswq");
    expect(&replay, "db-east.shop.global A", &east[..1]);
    replay.finish();
    expect(&replay, "db-east.shop.global A", &[east, west].concat());
    expect(
        &replay,
        "nginx.default.global A",
        &[
            &rest[..],
            &["10.96.173.86", "10.96.155.137", "10.96.160.237"],
            &["10.96.146.197", "10.96.48.116", "10.96.77.1"],
        ]
        .concat(),
    );
}
