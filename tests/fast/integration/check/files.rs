//! `check` with files.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};
use support::commands::global_dns;
use support::objects::{self, Gateway, Manifest, local, mirror, objects};
use support::process::{run, run_global_dns};
use support::repository::repository;
use tempfile::TempDir;

use super::{checkup, finding};
use crate::integration::kubeconfig::Kubeconfig;

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
            "red: Short name is ambiguous: db: exists in namespaces prod, shop; no setting assigns it, so it is NXDOMAIN",
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
            "yellow: Object cannot be used: Service/prod/db-7-east: '0.0.0.0' is not the address of a host",
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
            "yellow: Member is not exported: prod/db: cluster 'hub' is a member here only, and only while a mirror of its name exists: its Service is not exported",
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
            &["--namespace=prod,prdo", "shortNames.pinned.db=porod"],
            "namespaces",
            "yellow: namespaces that do not exist here: 'porod', which a flag names, 'prdo', which a flag names",
        ),
        (
            json!({"kind": "Namespace", "metadata": {"name": "empty"}}).into(),
            &["shortNames.defaultNamespace=empty"],
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
fn model_flags_have_the_same_effect_as_for_the_server() {
    let ambiguous = mirror("shop", "db", "east").endpoint("db-0", &["10.96.1.9"]);
    let manifest = healthy().with(ambiguous);
    for flags in [
        &["shortNames.pinned.db=prod"][..],
        &["shortNames.defaultNamespace=shop"],
        &["shortNames.which=none"],
        &["--namespace=prod"],
    ] {
        let (checkup, code) = check_of(manifest.clone(), flags);
        let found = finding(&checkup, "short-names");
        assert_eq!(found, "green: no short name is ambiguous", "{flags:?}");
        assert_eq!(code, Some(0), "{flags:?}");
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
fn unreachable_api_server_is_one_red_line() {
    let kubeconfig = Kubeconfig::of_closed_port();
    for (flag, message) in [
        (kubeconfig.flag(), "onnection refused"),
        (
            "--kubeconfig=/nonexistent/kubeconfig".to_owned(),
            "/nonexistent/kubeconfig",
        ),
    ] {
        let flag = flag.as_str();
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
