//! `check` with files.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};
use support::commands::global_dns;
use support::objects::{self, Gateway, Manifest, gateway_mirror, local, mirror, objects};
use support::process::{run, run_global_dns};
use support::repository::repository;
use tempfile::TempDir;

use super::{checkup, finding, findings};

fn file_of(text: &str) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("objects.yaml");
    std::fs::write(&path, text).unwrap();
    let flag = format!("--file={}", path.display());
    (folder, flag)
}

/// Runs `check` with the objects of a manifest. Returns its JSON output and its exit code.
fn check_of(manifest: impl Into<Manifest>, flags: &[&str]) -> (Value, Option<i32>) {
    let (_folder, file) = file_of(&manifest.into().text());
    checkup(&[&[file.as_str()], flags].concat())
}

fn healthy() -> Manifest {
    let db = |cluster: &str, address: &str| {
        let mut manifest: Manifest = mirror("prod", "db", cluster)
            .endpoint("db-0", &[address])
            .into();
        for object in &mut manifest.0 {
            object["metadata"]["annotations"]["config.linkerd.io/opaque-ports"] = json!("26257");
        }
        manifest
    };
    objects()
        .with(db("east", "10.96.1.1"))
        .with(db("west", "10.96.2.1"))
        .with(link("east"))
        .with(link("west"))
}

fn link(cluster: &str) -> Value {
    let name = format!("link-to-{cluster}");
    objects::link("linkerd-multicluster", &name, cluster)
}

/// Returns the objects at the end of a recording.
fn state_after(recording: &str) -> Manifest {
    let path = repository("tests/fixtures/recordings").join(recording);
    let text = std::fs::read_to_string(path).unwrap();
    let mut state: BTreeMap<String, Value> = BTreeMap::new();
    for line in text.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let object = event["object"].clone();
        let metadata = &object["metadata"];
        let key = format!(
            "{} {} {}",
            event["resource"], metadata["namespace"], metadata["name"]
        );
        match event["type"].as_str() {
            Some("DELETED") => drop(state.remove(&key)),
            Some(_) => drop(state.insert(key, object)),
            None => {} // the marker between the initial state and the events
        }
    }
    let with_kind = state.into_iter().map(|(key, mut object)| {
        object["kind"] = match key.split(' ').next() {
            Some("\"services\"") => json!("Service"),
            Some("\"endpoints\"") => json!("Endpoints"),
            _ => json!("EndpointSlice"),
        };
        object
    });
    Manifest(with_kind.collect())
}

/// Lets the pods of a recording listen on the ports of their Services. In the recordings, they listen on others.
fn with_ports_of_services(mut state: Manifest) -> Manifest {
    for object in &mut state.0 {
        let ports = object["spec"]["ports"].as_array_mut();
        for port in ports.into_iter().flatten() {
            port["targetPort"] = port["port"].clone();
        }
        if object["kind"] == "EndpointSlice" {
            object["ports"] = json!([]);
        }
    }
    state
}

#[test]
fn files_of_a_healthy_cluster_have_no_red_line() {
    let (checkup, code) = check_of(healthy(), &[]);
    assert_eq!(
        (code, &checkup["success"]),
        (Some(0), &json!(true)),
        "{checkup:#}"
    );
    for check in ["api-server", "permissions", "more-permissions"] {
        let found = finding(&checkup, check);
        assert!(found.starts_with("grey: "), "{found}");
        assert!(
            found.ends_with(": not checked, the API server is not used with --file"),
            "{found}"
        );
    }
    for (check, expected) in [
        (
            "mirrors",
            "green: 2 headless mirrors of 2 clusters (east, west) with 2 endpoints",
        ),
        ("headless-mirroring", "green: headless mirroring is on"),
        (
            "orphaned-mirrors",
            "green: every mirror's cluster has a Link",
        ),
        ("link-status", "green: no Link reports that mirroring fails"),
        (
            "namespaces",
            "green: every namespace that Links and flags name exists",
        ),
        (
            "endpoint-mirrors",
            "green: every headless mirror has endpoint mirrors",
        ),
        (
            "clobbered-mirrors",
            "green: no headless mirror lists a gateway's address",
        ),
        (
            "mirror-labels",
            "green: every mirrored-service label is 'true'",
        ),
        (
            "long-names",
            "green: no mirror needs a name of more than 63 characters",
        ),
        (
            "opaque-ports",
            "green: no port of an endpoint mirror needs to be marked opaque",
        ),
        (
            "endpoint-slices",
            "grey: EndpointSlices of mirrors: not checked, the files contain no Endpoints",
        ),
        ("gateways", "green: no gateway is down"),
        (
            "dead-ports",
            "green: every port can be reached from other clusters",
        ),
        (
            "gateway-cache",
            "grey: Gateway address cache: not checked, the API server is not used with --file",
        ),
        ("short-names", "green: no short name is ambiguous"),
        ("conflicts", "green: there are no other conflicts"),
        ("skipped-objects", "green: no object is skipped"),
        (
            "answer-sizes",
            "green: every answer fits a message of 65,535 octets",
        ),
        (
            "server",
            "grey: server of global.: not checked, --dns is not given",
        ),
        (
            "forwarding",
            "grey: forwarding of global.: not checked, --dns is not given",
        ),
    ] {
        assert_eq!(finding(&checkup, check), expected);
    }
}

#[test]
fn each_problem_is_found_in_files() {
    let bare = mirror("prod", "cache", "east");
    let down = mirror("prod", "mq", "west")
        .endpoint_behind(Gateway::Down, "mq-0", &["10.96.2.2"])
        .endpoint_behind(Gateway::Up, "mq-1", &["10.96.2.3"]);
    let ambiguous = mirror("shop", "db", "east").endpoint("db-0", &["10.96.1.9"]);
    let orphaned = mirror("prod", "db", "north").endpoint("db-0", &["10.96.3.1"]);
    let skipped = mirror("prod", "db", "east").endpoint("db-7", &["0.0.0.0"]);
    let skipped = Manifest::from(skipped).0.remove(1);
    let here = local("prod", "db").endpoint(Some("db-0"), "192.0.2.1", true);
    // One endpoint more than fits: 48 octets for each, and 45 for header, question and OPT.
    let wide = (0..1365).fold(mirror("prod", "wide", "east"), |wide, number| {
        let address = format!("10.97.{}.{}", number / 250, number % 250 + 1);
        wide.endpoint(&format!("w-{number:04}"), &[&address])
    });
    for (part, check, expected, exit) in [
        (
            Manifest::from(bare),
            "endpoint-mirrors",
            "yellow: Headless mirror without endpoint mirrors: Service/prod/cache-east: no host of cluster 'east'",
            0,
        ),
        (
            down.into(),
            "gateways",
            "yellow: Gateway is down: prod/mq: cluster 'west': mq-0",
            0,
        ),
        (
            ambiguous.into(),
            "short-names",
            "red: Short name is ambiguous: db: exists in namespaces prod, shop; no flag assigns it, so it is NXDOMAIN",
            1,
        ),
        (
            orphaned.into(),
            "orphaned-mirrors",
            "yellow: Cluster has no Link: north: ",
            0,
        ),
        (
            skipped.into(),
            "skipped-objects",
            "yellow: Address cannot be used: Service/prod/db-7-east: '0.0.0.0' is not the address of a host",
            0,
        ),
        (
            wide.into(),
            "answer-sizes",
            "yellow: longer than a message of 65,535 octets: wide.prod.global. SRV (65565 octets)",
            0,
        ),
        (
            here.into(),
            "conflicts",
            "yellow: Member is not exported: prod/db: cluster 'hub' is a member here only: its Service is not exported",
            0,
        ),
    ] {
        let (checkup, code) = check_of(healthy().with(part), &["--cluster-name=hub"]);
        let found = finding(&checkup, check);
        assert!(found.starts_with(expected), "{found}");
        assert_eq!(code, Some(exit), "{check}");
    }
}

#[test]
fn check_and_explain_list_hosts_without_an_endpoint_mirror() {
    let hosts = [("db-0", "10.96.1.1"), ("db-1", "10.96.1.2")];
    let manifest = healthy().with(mirror("prod", "db", "east").listing(&hosts));
    let (checkup, code) = check_of(manifest.clone(), &[]);
    let expected =
        "yellow: Hosts without endpoint mirror: Service/prod/db-east: lists db-1 (10.96.1.2)";
    assert_eq!(finding(&checkup, "endpoint-mirrors"), expected);
    assert_eq!(code, Some(0));
    let (_folder, file) = file_of(&manifest.text());
    for (name, exit) in [("db.prod.global", 0), ("db-1.east.db.prod.global", 3)] {
        let ended = run_global_dns(&["explain", name, &file]);
        assert_eq!(ended.code, Some(exit), "{name}");
        let problem = "missing-host  Service/prod/db-east  Hosts without endpoint mirror: lists db-1 (10.96.1.2)";
        assert!(ended.stdout.contains(problem), "{}", ended.stdout);
    }
    // The same with objects of the real controller, after the removal of one mirror.
    let mut state = state_after("02-scale-up-east.jsonl");
    let (checkup, _) = check_of(state.clone(), &[]);
    let complete = "green: every headless mirror has endpoint mirrors";
    assert_eq!(finding(&checkup, "endpoint-mirrors"), complete);
    let is_lost = |object: &Value| {
        object["kind"] == "Service" && object["metadata"]["name"] == "nginx-set-1-east"
    };
    state.0.retain(|object| !is_lost(object));
    let (checkup, _) = check_of(state, &[]);
    let start =
        "yellow: Hosts without endpoint mirror: Service/default/nginx-east: lists nginx-set-1 (";
    let found = finding(&checkup, "endpoint-mirrors");
    assert!(found.starts_with(start), "{found}");
}

#[test]
fn services_that_linkerd_cannot_mirror_are_found_in_files() {
    let failing = |namespace: &str, name: &str, reason: &str| {
        let mut link = link("west");
        link["metadata"]["name"] = json!("another-link-to-west");
        link["status"] = json!({"mirrorServices": [{
            "remoteRef": {"kind": "Service", "namespace": namespace, "name": name},
            "conditions": [{"type": "Mirrored", "status": "False", "reason": reason, "message": "see the log"}],
        }]});
        link
    };
    let mut odd = Manifest::from(mirror("prod", "cache", "east"));
    odd.0[0]["metadata"]["labels"]["mirror.linkerd.io/mirrored-service"] = json!("True");
    let mut odd_slice =
        Manifest::from(mirror("prod", "cache", "east").endpoint("c-0", &["10.96.1.9"]));
    odd_slice.0.drain(..2);
    odd_slice.0[0]["metadata"]["labels"]["mirror.linkerd.io/mirrored-service"] = json!("yes");
    let ports = mirror("prod", "nats", "east")
        .ports(&[("client", "TCP", 4222), ("http", "TCP", 8222)])
        .endpoint("nats-0", &["10.96.1.8"]);
    let mut dead: Manifest = mirror("prod", "mq", "east")
        .endpoint("mq-0", &["10.96.1.7"])
        .into();
    dead.0[1]["spec"]["ports"][0]["targetPort"] = json!(15432);
    let long = "h".repeat(60);
    let here = local("prod", "web")
        .exported()
        .endpoint(Some(&long), "192.0.2.1", true);
    let no_flags: &[&str] = &[];
    for (part, flags, check, expected) in [
        (
            Manifest::from(failing("prod", "web", "Error")),
            no_flags,
            "link-status",
            "yellow: Links report that mirroring fails: prod/web of cluster 'west' (Error: see the log)",
        ),
        (
            failing("prod", "db", "InvalidService").into(),
            no_flags,
            "link-status",
            "green: no Link reports that mirroring fails",
        ),
        (
            failing("shop", "web", "Error").into(),
            &["--namespace=prod"],
            "link-status",
            "green: no Link reports that mirroring fails",
        ),
        (
            failing("shop", "cart", "MissingNamespace").into(),
            no_flags,
            "namespaces",
            "yellow: namespaces that do not exist here: 'shop', of cart in cluster 'west'",
        ),
        (
            Manifest::default(),
            &["--namespace=prod,prdo", "--short-name=db=porod"],
            "namespaces",
            "yellow: namespaces that do not exist here: 'porod', which a flag names, 'prdo', which a flag names",
        ),
        (
            json!({"kind": "Namespace", "metadata": {"name": "empty"}}).into(),
            &["--default-namespace=empty"],
            "namespaces",
            "green: every namespace that Links and flags name exists",
        ),
        (
            odd,
            no_flags,
            "mirror-labels",
            "yellow: 1 object ignored because of its label mirror.linkerd.io/mirrored-service: \
             Service/prod/cache-east ('True')",
        ),
        (
            odd_slice,
            no_flags,
            "mirror-labels",
            "yellow: 1 object ignored because of its label mirror.linkerd.io/mirrored-service: \
             EndpointSlice/prod/c-0-east-7xk2p ('yes')",
        ),
        (
            ports.into(),
            no_flags,
            "opaque-ports",
            "yellow: not marked opaque: Service/prod/nats-east 4222 (client)",
        ),
        (
            dead,
            no_flags,
            "dead-ports",
            "red: Port cannot be reached from other clusters: prod/mq: cluster 'east': port 26257 is 15432 in its pods",
        ),
        (
            here.into(),
            no_flags,
            "long-names",
            &format!(
                "yellow: mirror names of more than the 63 characters that Kubernetes accepts: Service/prod/{long}-hub \
                 in other clusters"
            ),
        ),
    ] {
        let flags = [flags, &["--cluster-name=hub"]].concat();
        let (checkup, code) = check_of(healthy().with(part), &flags);
        assert_eq!(finding(&checkup, check), expected);
        let is_red = expected.starts_with("red: ");
        assert_eq!(code, Some(i32::from(is_red)), "{check}");
    }
}

#[test]
fn links_with_other_selectors_do_not_cause_the_conflict_not_exported() {
    let here = local("prod", "db").endpoint(Some("db-0"), "192.0.2.1", true);
    let mut own = link("north");
    own["spec"]["selector"] = json!({"matchLabels": {"team.example/global": "yes"}});
    let manifest = healthy().with(here).with(own);
    let (checkup, _) = check_of(manifest, &["--cluster-name=hub"]);
    let expected = "green: there are no other conflicts; not-exported is not checked, because the Link of cluster 'north' \
                    selects exported Services by other labels";
    assert_eq!(finding(&checkup, "conflicts"), expected);
}

#[test]
fn model_flags_have_the_same_effect_as_for_the_server() {
    let ambiguous = mirror("shop", "db", "east").endpoint("db-0", &["10.96.1.9"]);
    let manifest = healthy().with(ambiguous);
    for flags in [
        &["--short-name=db=prod"][..],
        &["--default-namespace=shop"],
        &["--short-names=off"],
        &["--namespace=prod"],
    ] {
        let (checkup, code) = check_of(manifest.clone(), flags);
        let found = finding(&checkup, "short-names");
        assert_eq!(found, "green: no short name is ambiguous", "{flags:?}");
        assert_eq!(code, Some(0), "{flags:?}");
    }
    let (checkup, _) = check_of(manifest, &["--exclude-cluster=west"]);
    let found = finding(&checkup, "mirrors");
    assert!(found.contains("of 1 cluster (east)"), "{found}");
    let (checkup, _) = check_of(healthy(), &["--zone=a.test", "--zone=b.test"]);
    let zones = findings(&checkup, "server").join("; ");
    for zone in ["a.test.", "b.test."] {
        assert!(zones.contains(&format!("server of {zone}")), "{zones}");
    }
}

#[test]
fn recordings_of_the_real_controller_have_the_expected_findings() {
    for (recording, check, expected) in [
        (
            "05-gateway-down-west.jsonl",
            "gateways",
            "yellow: Gateway is down: default/nginx: cluster 'west': nginx-set-0, nginx-set-1, nginx-set-2",
        ),
        (
            "06-gateway-up-west.jsonl",
            "gateways",
            "green: no gateway is down",
        ),
        (
            "07-clobber-annotation-east.jsonl",
            "clobbered-mirrors",
            "yellow: overwritten with gateway addresses: Service/default/nginx-east lists 198.51.100.10",
        ),
        (
            "08-clobber-repaired-east.jsonl",
            "clobbered-mirrors",
            "green: no headless mirror lists a gateway's address",
        ),
        (
            "05-gateway-down-west.jsonl",
            "orphaned-mirrors",
            "grey: Orphaned mirrors: not checked, the files contain no Links",
        ),
    ] {
        let state = with_ports_of_services(state_after(recording));
        let (checkup, code) = check_of(state, &["--cluster-name=hub"]);
        assert_eq!(finding(&checkup, check), expected, "{recording}");
        assert_eq!(code, Some(0), "{recording}: {checkup:#}");
    }
    let state = state_after("05-gateway-down-west.jsonl");
    let (checkup, code) = check_of(state, &["--cluster-name=hub"]);
    let of =
        |cluster: &str| format!("default/nginx: cluster '{cluster}': port 80 is 8080 in its pods");
    let clusters = ["east", "north", "west"].map(of).join(", ");
    let expected = format!("red: Port cannot be reached from other clusters: {clusters}");
    assert_eq!(finding(&checkup, "dead-ports"), expected);
    assert_eq!(code, Some(1));
    // Mirrors of a deleted Link: only the cluster north has no Link.
    let state = state_after("23-all-gateways-down-and-up.jsonl");
    let (checkup, _) = check_of(state.with(link("east")).with(link("west")), &[]);
    let found = finding(&checkup, "orphaned-mirrors");
    let start = "yellow: Cluster has no Link: north: its endpoints count until ";
    assert!(found.starts_with(start), "{found}");
}

/// A cluster may turn off the controller that copies Endpoints to EndpointSlices (KEP-4974).
#[test]
fn endpoints_of_mirrors_without_slices_are_found_in_files() {
    let is_slice = |object: &Value| object["kind"] == "EndpointSlice";
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    let complete = "green: every mirror with Endpoints has an EndpointSlice";
    for recording in [
        "05-gateway-down-west.jsonl",
        "11-scale-to-zero-west.jsonl",
        "13-headless-without-hostnames-east.jsonl",
        "15-flat-federated-clusterip.jsonl",
        "33-unexport-all-kinds-north.jsonl",
    ] {
        let state = with_ports_of_services(state_after(recording));
        let (checkup, code) = check_of(state, &["--cluster-name=hub"]);
        assert_eq!(
            finding(&checkup, "endpoint-slices"),
            complete,
            "{recording}"
        );
        assert_eq!(code, Some(0), "{recording}");
    }
    // The label skip-mirror on one exported Service has this effect.
    let mut state = with_ports_of_services(state_after("05-gateway-down-west.jsonl"));
    state
        .0
        .retain(|object| !is_slice(object) || !name(object).starts_with("nginx-set-0-west-"));
    let (checkup, code) = check_of(state.clone(), &["--cluster-name=hub"]);
    let found = finding(&checkup, "endpoint-slices");
    let start = "yellow: Endpoints of mirrors without an EndpointSlice (1 of ";
    let end = "): Endpoints/default/nginx-set-0-west";
    assert!(found.starts_with(start) && found.ends_with(end), "{found}");
    assert_eq!(code, Some(0));
    // The controller is off. The gateway of west is down, but nothing shows it.
    state.0.retain(|object| !is_slice(object));
    let (checkup, code) = check_of(state, &["--cluster-name=hub"]);
    let found = finding(&checkup, "endpoint-slices");
    let start = "red: Endpoints of mirrors without an EndpointSlice (";
    assert!(found.starts_with(start), "{found}");
    assert_eq!(code, Some(1));
    assert_eq!(finding(&checkup, "gateways"), "green: no gateway is down");
}

#[test]
fn json_has_one_object_for_each_line_of_the_text() {
    let ambiguous = mirror("shop", "db", "east").endpoint("db-0", &["10.96.1.9"]);
    let (_folder, file) = file_of(&healthy().with(ambiguous).text());
    let (checkup, _) = checkup(&[&file]);
    let checks = checkup["checks"].as_array().unwrap();
    let count = |health: &str| checks.iter().filter(|one| one["health"] == health).count();
    for health in ["green", "yellow", "red", "grey"] {
        assert_eq!(checkup[health], count(health), "{health}");
    }
    assert_eq!((count("red"), &checkup["success"]), (1, &json!(false)));
    let readme = std::fs::read_to_string(repository("src/check/README.md")).unwrap();
    let text = run_global_dns(&["check", &file]);
    assert_eq!(text.code, Some(1));
    for one in checks {
        let sign = match one["health"].as_str().unwrap() {
            "green" => '√',
            "yellow" => '‼',
            "grey" => '·',
            _ => '×',
        };
        let line = format!("{sign} {}\n", one["sentence"].as_str().unwrap());
        assert!(text.stdout.contains(&line), "{line}: {}", text.stdout);
        if one["health"] == "green" {
            assert_eq!((&one["hint"], &one["link"]), (&Value::Null, &Value::Null));
            continue;
        }
        let (hint, link) = (one["hint"].as_str().unwrap(), one["link"].as_str().unwrap());
        let (page, anchor) = link.split_once('#').unwrap();
        assert!(page.ends_with("src/check/README.md"), "{link}");
        let manual = match one["anchor"].as_str() {
            Some(anchor) => format!("; in the manual: {anchor}"),
            None => String::new(),
        };
        let below = format!("{line}    {hint}\n    see {link}{manual}\n");
        assert!(text.stdout.contains(&below), "{below}: {}", text.stdout);
        let headings = readme.lines().filter_map(|line| line.strip_prefix("## "));
        let mut anchors = headings.map(|heading| heading.to_lowercase().replace(' ', "-"));
        assert!(anchors.any(|one| one == anchor), "{link}");
    }
    let end = text.stdout.lines().last().unwrap();
    let expected = ["green", "yellow", "red"].map(|h| format!("{} {h}", count(h)));
    let (expected, grey) = (expected.join(", "), count("grey"));
    assert_eq!(end, format!("Status: × ({expected}, {grey} not checked)"));
}

#[test]
fn output_without_a_terminal_has_no_escape_sequences() {
    let (_folder, file) = file_of(&healthy().text());
    for arguments in [
        &["check", &file][..],
        &["check", &file, "--output=json"],
        &["check", "--help"],
    ] {
        let ended = run_global_dns(arguments);
        assert_eq!(
            (ended.code, ended.stderr.as_str()),
            (Some(0), ""),
            "{arguments:?}"
        );
        assert!(!ended.stdout.contains('\u{1b}'), "{arguments:?}");
    }
}

#[test]
fn help_lists_the_exit_codes() {
    let help = run_global_dns(&["check", "--help"]).stdout;
    for part in [
        "Exit codes: 0 ",
        "1 ",
        "2 wrong usage",
        "--dns <IP[:PORT]>",
        "--resolver <IP[:PORT]>",
    ] {
        assert!(help.contains(part), "{part}: {help}");
    }
}

#[test]
fn wrong_usage_exits_with_2_and_names_flag_and_value() {
    let (_folder, file) = file_of(&healthy().text());
    for (flags, parts) in [
        (
            &["--dns=http://127.0.0.1:9154"][..],
            &["'http://127.0.0.1:9154'", "'--dns <IP[:PORT]>'"][..],
        ),
        (
            &["--dns=127.0.0.1:0"],
            &["'127.0.0.1:0'", "expected an IP address"],
        ),
        (
            &["--resolver=kube-dns"],
            &["'kube-dns'", "'--resolver <IP[:PORT]>'"],
        ),
        (&["--output=xml"], &["'xml'", "'--output <FORM>'", "json"]),
        (&["--zone=glo bal"], &["'glo bal'", "'--zone <ZONE[=mcs]>'"]),
        (&["--context=c"], &["'--file <FILE>'", "'--context <NAME>'"]),
        (
            &["--name=a..b", "--dns=127.0.0.1"],
            &["'a..b'", "'--name <NAME>'"],
        ),
        (&["--name=db.prod.global"], &["--dns <IP[:PORT]>"]),
        (&["--connect"], &["--dns <IP[:PORT]>"]),
        (&["--wait=2"], &["'2'", "'--wait <DURATION>'"]),
        (&["--frob"], &["'--frob'"]),
    ] {
        let ended = run_global_dns(&[&["check", &file], flags].concat());
        assert_eq!(
            (ended.code, ended.stdout.as_str()),
            (Some(2), ""),
            "{flags:?}"
        );
        for part in parts {
            assert!(ended.stderr.contains(part), "{flags:?}: {}", ended.stderr);
        }
    }
}

/// Recording 26 has a slice without a ready address, and recording 27 no slice.
#[test]
fn the_two_causes_of_dead_endpoints_are_distinguished() {
    let down = gateway_mirror("prod", "pay", "east", "10.96.3.1").without_ready_endpoint();
    let mut empty = Manifest::from(gateway_mirror("prod", "web", "west", "10.96.3.2"));
    empty.0.retain(|object| object["kind"] == "Service");
    let manifest = healthy().with(down).with(empty);
    let (checkup, code) = check_of(manifest.clone(), &[]);
    let expected = [
        "yellow: Gateway is down: prod/pay: cluster 'east': its cluster IP",
        "yellow: Service has no ready endpoint: prod/web: cluster 'west': its cluster IP",
    ];
    assert_eq!(findings(&checkup, "gateways"), expected);
    assert_eq!(code, Some(0));
    let (_folder, file) = file_of(&manifest.text());
    let explained = run_global_dns(&["explain", "web.prod.global", &file]).stdout;
    let problem = "service-not-ready  prod/web  Service has no ready endpoint: cluster 'west': its cluster IP\n";
    assert!(explained.contains(problem), "{explained}");
}

#[test]
fn check_waits_until_no_line_is_red() {
    let ambiguous = mirror("shop", "db", "east").endpoint("db-0", &["10.96.1.9"]);
    let (folder, file) = file_of(&healthy().with(ambiguous).text());
    // The time is over before the problem is.
    let ended = run_global_dns(&["check", "--wait=1s", &file]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(1), ""));
    assert!(ended.stdout.contains("× "), "{}", ended.stdout);
    let mut command = global_dns(&["check", "--wait=1m", &file]);
    command
        .env("GLOBAL_DNS_LOG_LEVEL", "info")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The first diagnosis reads the file.
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("Published table") {
        line.clear();
        assert_ne!(
            log.read_line(&mut line).unwrap(),
            0,
            "no table was published"
        );
    }
    assert_eq!(child.try_wait().unwrap(), None);
    std::fs::write(folder.path().join("objects.yaml"), healthy().text()).unwrap();
    let rest = std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
    let output = child.wait_with_output().unwrap();
    rest.join().unwrap().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stdout}");
    assert!(!stdout.contains('×') && stdout.contains('‼'), "{stdout}");
}

#[test]
fn unreadable_files_are_an_error() {
    let ended = run_global_dns(&["check", "--file=/nonexistent"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert!(ended.stderr.contains("/nonexistent"), "{}", ended.stderr);
}

#[test]
fn unreachable_api_server_is_one_red_line() {
    // The port is free, so nothing listens on it.
    let port = support::ports::free_port();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
         clusters: [{{name: here, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]\n\
         users: [{{name: me, user: {{}}}}]\n\
         contexts: [{{name: here, context: {{cluster: here, user: me}}}}]\n"
    );
    std::fs::write(&path, text).unwrap();
    let flag = format!("--kubeconfig={}", path.display());
    for (flag, message) in [
        (flag.as_str(), "onnection refused"),
        (
            "--kubeconfig=/nonexistent/kubeconfig",
            "/nonexistent/kubeconfig",
        ),
    ] {
        let (checkup, code) = checkup(&[flag]);
        assert_eq!((code, &checkup["red"]), (Some(1), &json!(1)), "{checkup:#}");
        let found = finding(&checkup, "api-server");
        assert!(
            found.starts_with("red: cannot reach the API server: "),
            "{found}"
        );
        assert!(found.contains(message), "{found}");
        let found = finding(&checkup, "short-names");
        assert_eq!(
            found,
            "grey: Short names: not checked, cannot reach the API server"
        );
        let text = run_global_dns(&["check", flag]).stdout;
        let own = text.lines().filter(|line| line.starts_with(['×', '·']));
        let own: Vec<&str> = own
            .filter(|line| !line.starts_with("· not checked: "))
            .collect();
        let starts = [
            "× cannot reach the API server: ",
            "· Mirror controllers: not checked, ",
            "· server of global.: not checked, --dns is not given",
            "· forwarding of global.: not checked, --dns is not given",
            "· Answer of the server: not checked, --dns is not given",
        ];
        assert_eq!(own.len(), starts.len(), "{text}");
        for (line, start) in own.iter().zip(starts) {
            assert!(line.starts_with(start), "{line}");
        }
    }
}

#[test]
fn missing_kubeconfig_outside_a_pod_is_one_red_line() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = global_dns(&["check"]);
    command.env("HOME", folder.path());
    command
        .env_remove("KUBECONFIG")
        .env_remove("KUBERNETES_SERVICE_HOST");
    let ended = run(&mut command);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let line = "× cannot reach the API server: cannot read the kubeconfig at its default location";
    assert!(ended.stdout.contains(line), "{}", ended.stdout);
}
