//! `table --output zone`: other name servers load the zone without warnings, and a running Knot with this zone gives
//! the same answers.

mod knot;

use std::collections::BTreeSet;
use std::path::Path;
use std::thread;

use support::differences::assert_none;
use support::http::get;
use support::objects::{Gateway, Manifest, local, mirror, objects};
use support::process::run_tool;
use support::reply::{Reply, sorted_texts};
use support::server::Server;
use support::wire::resolve;

use crate::peers::zone_file::knot::Knot;

/// Returns some hundred services with one to four clusters and one to three endpoints in each. They have both address
/// families, ports of all protocols and without names, dashes, gateways that are down, local members, and names in several
/// namespaces.
fn generated() -> Manifest {
    let clusters = ["east", "west", "north-1", "south"];
    let ports: [&[(&str, &str, u16)]; 4] = [
        &[("sql", "TCP", 26257)],
        &[("sql", "TCP", 26257), ("http", "TCP", 8080)],
        &[
            ("dns", "UDP", 53),
            ("dns", "TCP", 53),
            ("diameter", "SCTP", 3868),
        ],
        &[],
    ];
    let mut all = objects();
    for index in 0..300 {
        let namespace = ["prod", "shop", "team-a", "kafka"][index % 4];
        // Every tenth name is in two namespaces. Some look like another name plus a cluster name.
        let service = match index % 10 {
            0 => format!("db-{}", index / 20),
            1 => format!("db-{}-east", index / 10),
            _ => format!("service-{index}"),
        };
        let used =
            1 + (index % 7 == 0) as usize + (index % 11 == 0) as usize + (index % 13 == 0) as usize;
        for (number, cluster) in clusters.iter().enumerate().take(used) {
            let mut member =
                mirror(namespace, &service, cluster).ports(ports[(index + number) % 4]);
            for host in 0..1 + (index + number) % 3 {
                let v4 = format!(
                    "10.{}.{}.{}",
                    96 + number,
                    index % 256,
                    1 + host + 4 * (index / 256)
                );
                let v6 = format!("2001:db8:{number:x}::{index:x}:{host:x}");
                let addresses: &[&str] = match index % 5 {
                    0 => &[&v4, &v6],
                    1 => &[&v6],
                    _ => &[&v4],
                };
                let gateway = if (index + number + host) % 9 == 0 {
                    Gateway::Down
                } else {
                    Gateway::Up
                };
                member = member.endpoint_behind(gateway, &format!("{service}-{host}"), addresses);
            }
            all = all.with(member);
        }
        if index % 12 == 0 {
            let own = local(namespace, &service)
                .endpoint(
                    Some(&format!("{service}-0")),
                    &format!("192.0.2.{}", 1 + index % 250),
                    true,
                )
                .endpoint(None, &format!("192.0.2.{}", 2 + index % 250), true)
                .endpoint(None, &format!("2001:db8:ffff::{index:x}"), true);
            all = all.with(own);
        }
    }
    // A canonical name that hides a short one, and an empty non-terminal that a short name replaces.
    all.with(mirror("prod", "kafka", "west").endpoint("kafka-0", &["10.100.1.1"]))
        .with(mirror("kafka", "west", "east").endpoint("west-0", &["10.100.1.2"]))
        .with(mirror("prod", "idle", "west"))
}

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

fn zone_of(server: &Server, query: &str) -> String {
    let page = get(server.api, &format!("/api/v1/table?output=zone{query}")).unwrap();
    assert_eq!(page.status, 200, "{}", page.body);
    page.body
}

#[test]
fn zone_of_the_demo_loads_everywhere() {
    let sample = std::fs::read_to_string(support::repository::repository("src/demo.yaml")).unwrap();
    let server = Server::with_text(&sample, &["--cluster-name=hub"]);
    check_zone("global", &zone_of(&server, ""));
}

#[test]
fn empty_zone_loads_everywhere() {
    let server = Server::with_objects(mirror("prod", "db", "east"), &[]);
    let zone = zone_of(&server, "");
    assert_eq!(zone.lines().count(), 4, "{zone}");
    check_zone("global", &zone);
}

#[test]
fn large_zone_loads_everywhere() {
    let server = Server::with_objects(generated(), &["--cluster-name=hub"]);
    let zone = zone_of(&server, "");
    assert!(
        zone.lines().count() > 5000,
        "{} records",
        zone.lines().count()
    );
    check_zone("global", &zone);
}

#[test]
fn nested_zones_load_everywhere_and_do_not_overlap() {
    let manifest = objects()
        .with(mirror("prod", "db", "east").endpoint("db-0", &["10.96.1.1"]))
        .with(mirror("eu", "cache", "east").endpoint("cache-0", &["10.96.2.1"]));
    let server = Server::with_objects(manifest, &["--zone=global", "--zone=eu.global"]);
    let (outer, inner) = (
        zone_of(&server, "&zone=global"),
        zone_of(&server, "&zone=eu.global"),
    );
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

/// Names between the outer zone and the nested one exist; sibling names do not (RFC 8020).
#[test]
fn names_around_nested_zones_are_answered_like_by_knot() {
    let manifest = mirror("prod", "db", "east").endpoint("db-0", &["10.96.1.1"]);
    let zones = [
        "--zone=global",
        "--zone=a.b.c.global",
        "--zone=x.db.prod.global",
    ];
    let server = Server::with_objects(manifest, &zones);
    let knot = Knot::start("global", &zone_of(&server, "&zone=global"));
    for (name, outcome) in [
        ("c.global. A", "NODATA"),
        ("b.c.global. SRV", "NODATA"),
        ("x.c.global. A", "NXDOMAIN"),
        ("x.b.c.global. A", "NXDOMAIN"),
        ("ac.global. A", "NXDOMAIN"),
        ("db.prod.global. A", "10.96.1.1"),
        ("db.prod.global. AAAA", "NODATA"),
        ("y.db.prod.global. A", "NXDOMAIN"),
        ("prod.global. A", "NODATA"),
    ] {
        assert_eq!(server.outcome(name), outcome, "{name}");
        let asked = format!("{name} +bufsize=4096");
        let ours = compared_parts(&resolve(server.dns, &asked));
        assert_eq!(
            ours,
            compared_parts(&resolve(knot.address, &asked)),
            "{name}"
        );
    }
}

#[test]
fn zone_file_lines_equal_answers() {
    let server = Server::with_objects(
        generated(),
        &["--cluster-name=hub", "--ns-address=192.0.2.53"],
    );
    let zone = zone_of(&server, "");
    let record = |line: &str| line.replace('\t', " ");
    let lines: BTreeSet<String> = zone.lines().map(record).collect();
    assert_eq!(lines.len(), zone.lines().count(), "a record occurs twice");
    let mut answered = BTreeSet::new();
    for (owner, rtype) in owners_and_types(&zone) {
        let reply = resolve(server.dns, &format!("{owner} {rtype}"));
        answered.extend(reply.answers.iter().map(ToString::to_string));
    }
    assert_eq!(answered, lines);
}

/// Returns owner and type of each RRset of a zone file.
fn owners_and_types(zone: &str) -> BTreeSet<(String, String)> {
    let fields = zone
        .lines()
        .map(|line| line.split('\t').collect::<Vec<_>>());
    fields
        .map(|fields| (fields[0].to_owned(), fields[3].to_owned()))
        .collect()
}

/// Returns questions for every RRset, every type of every owner, the names above and around them, and similar names.
fn questions(zone: &str) -> Vec<String> {
    let rrsets = owners_and_types(zone);
    let owners: BTreeSet<&String> = rrsets.iter().map(|(owner, _)| owner).collect();
    let mut asked: BTreeSet<String> = rrsets
        .iter()
        .map(|(owner, rtype)| format!("{owner} {rtype}"))
        .collect();
    for (index, owner) in owners.iter().enumerate() {
        let mut above = owner.as_str();
        while let Some((_, rest)) = above.split_once('.') {
            if rest.is_empty() {
                break;
            }
            asked.insert(format!("{rest} A"));
            above = rest;
        }
        if index % 9 == 0 {
            for rtype in ["A", "AAAA", "SRV", "TXT", "MX", "HTTPS", "TYPE666"] {
                asked.insert(format!("{owner} {rtype}"));
            }
            for wrong in [
                "nope",
                "_nope._tcp",
                "_tcp",
                "_udp",
                "_sql",
                "east",
                "x.y.z",
            ] {
                asked.insert(format!("{wrong}.{owner} SRV"));
            }
            let (first, rest) = owner.split_once('.').unwrap();
            asked.insert(format!("{first}x.{rest} A"));
        }
    }
    asked.into_iter().collect()
}

/// Returns the parts of a reply that must agree: response code, AA, answer records, and the SOA record of a negative
/// answer.
fn compared_parts(reply: &Reply) -> (u16, bool, BTreeSet<String>, Vec<String>) {
    let authority = if reply.answers.is_empty() {
        sorted_texts(&reply.authority)
    } else {
        Vec::new()
    };
    let answers = BTreeSet::from_iter(sorted_texts(&reply.answers));
    assert_eq!(answers.len(), reply.answers.len(), "{reply:?}");
    (reply.rcode, reply.is_authoritative(), answers, authority)
}

#[test]
fn answers_equal_those_of_a_running_knot() {
    let server = Server::with_objects(
        generated(),
        &["--cluster-name=hub", "--ns-address=192.0.2.53"],
    );
    let zone = zone_of(&server, "");
    let knot = Knot::start("global", &zone);
    let asked = questions(&zone);
    assert!(asked.len() > 5000, "{} questions", asked.len());
    let workers = 4;
    let differences: Vec<String> = thread::scope(|scope| {
        let handles: Vec<_> = asked
            .chunks(asked.len().div_ceil(workers))
            .map(|part| {
                let (ours, theirs) = (server.dns, knot.address);
                scope.spawn(move || {
                    let differs = |asked: &String| {
                        let question = format!("{asked} +bufsize=4096");
                        let ours = compared_parts(&resolve(ours, &question));
                        let theirs = compared_parts(&resolve(theirs, &question));
                        (ours != theirs)
                            .then(|| format!("{asked}:\n  ours {ours:?}\n  Knot {theirs:?}"))
                    };
                    part.iter().filter_map(differs).collect::<Vec<_>>()
                })
            })
            .collect();
        handles
            .into_iter()
            .flat_map(|handle| handle.join().unwrap())
            .collect()
    });
    let codes = asked.iter().step_by(50).map(|asked| server.outcome(asked));
    let codes: BTreeSet<String> = codes.collect();
    assert!(
        codes.contains("NXDOMAIN") && codes.contains("NODATA"),
        "{codes:?}"
    );
    assert_none(&differences);
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn records_of_explain_are_lines_of_the_zone_file() {
    let server = Server::with_objects(generated(), &[]);
    let zone = get(server.api, "/api/v1/table?output=zone").unwrap().body;
    for name in ["service-4.prod.global", "_sql._tcp.service-4.prod.global"] {
        let explained = server.api(&format!("/api/v1/explain?name={name}"));
        let answers = explained["answers"].as_array().unwrap().iter();
        let records = answers.flat_map(|answer| answer["records"].as_array().unwrap());
        let lines = records.map(|record| {
            let text = |field: &str| record[field].as_str().unwrap();
            let (name, rtype, data) = (text("name"), text("type"), text("data"));
            format!("{name}\t{}\tIN\t{rtype}\t{data}", record["ttl"])
        });
        let lines: Vec<String> = lines.collect();
        let owner = format!("{name}.\t");
        let expected = zone.lines().filter(|line| line.starts_with(&owner));
        assert!(!lines.is_empty(), "{name}");
        assert_eq!(lines, expected.collect::<Vec<_>>());
    }
}
