//! `table --output zone`: other name servers load the zone without warnings. That its records equal the answers is tested with
//! generated tables (`src/zone/tests.rs`).

use support::objects::{mirror, objects};
use support::process::run_tool;
use support::repository::repository;
use support::server::Server;

use crate::peers::zone_of;

/// Loads a zone into three checkers. Fails if one prints a warning.
fn check_zone(origin: &str, text: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("zone");
    std::fs::write(&file, text).unwrap();
    let path = file.to_str().unwrap();
    let serial = text.split(' ').nth(2).unwrap();
    // `full` would query the system resolver for the address of the name server of a nested zone.
    let apex = format!("{origin}.\t");
    let is_of_child = |line: &str| line.contains("\tNS\t") && !line.starts_with(&apex);
    let integrity = if text.lines().any(is_of_child) {
        "local"
    } else {
        "full"
    };
    let named_flags = [
        "-i", integrity, "-k", "fail", "-m", "fail", "-n", "fail", "-r", "fail", "-W", "warn",
    ];
    for (program, arguments, expected) in [
        (
            "kzonecheck",
            vec!["-v", "-o", origin, path],
            "No semantic error found\n".to_owned(),
        ),
        (
            "nsd-checkzone",
            vec![origin, path],
            format!("zone {origin} is ok\n"),
        ),
        (
            "named-checkzone",
            [&named_flags[..], &[origin, path]].concat(),
            format!("zone {origin}/IN: loaded serial {serial}\nOK\n"),
        ),
    ] {
        let ended = run_tool(program, &arguments);
        let message = format!("{}{}", ended.stdout, ended.stderr);
        assert_eq!((ended.code, message), (Some(0), expected), "{program}");
    }
}

#[test]
fn zone_of_the_demo_loads_everywhere() {
    let sample = std::fs::read_to_string(repository("src/demo.yaml")).unwrap();
    let server = Server::with_text(&sample, &["--cluster-name=hub"]);
    check_zone("global", &zone_of(&server, "global"));
}

#[test]
fn empty_zone_loads_everywhere() {
    let server = Server::with_objects(mirror("prod", "db", "east"), &[]);
    let zone = zone_of(&server, "global");
    assert_eq!(zone.lines().count(), 4, "{zone}");
    check_zone("global", &zone);
}

#[test]
fn nested_zones_load_everywhere_and_do_not_overlap() {
    let manifest = objects()
        .with(mirror("prod", "db", "east").endpoint("db-0", &["10.96.1.1"]))
        .with(mirror("eu", "cache", "east").endpoint("cache-0", &["10.96.2.1"]));
    let server = Server::with_objects(manifest, &["--zone=global", "--zone=eu.global"]);
    let (outer, inner) = (zone_of(&server, "global"), zone_of(&server, "eu.global"));
    check_zone("global", &outer);
    check_zone("eu.global", &inner);
    // The outer zone delegates to the inner one and has none of its names.
    let within: Vec<&str> = outer
        .lines()
        .filter(|line| line.split('\t').next().unwrap().ends_with("eu.global."))
        .collect();
    let cut = [
        "eu.global.\t5\tIN\tNS\tns.dns.eu.global.",
        "ns.dns.eu.global.\t5\tIN\tA\t127.0.0.1",
    ];
    assert_eq!(within, cut);
    assert!(outer.contains("db.prod.global."), "{outer}");
    assert!(
        inner.contains("cache.eu.global.") && inner.contains("cache.eu.eu.global."),
        "{inner}"
    );
}
