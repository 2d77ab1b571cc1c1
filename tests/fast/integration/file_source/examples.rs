//! The examples of Linkerd's objects in one file: the steady state, other kinds of mirrors, and all variants, including
//! old label sets.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use support::differences::set;
use support::repository::repository;
use support::server::Server;
use support::wire::Transport;

/// Serves the objects of the source cluster. The objects before section 1 are in another cluster.
fn examples() -> Server {
    let text = std::fs::read_to_string(repository("tests/fixtures/linkerd-examples.yaml")).unwrap();
    let start = text.find("# 1. Link and credentials").unwrap();
    Server::with_text(&text[start..], &[])
}

const EAST: [&str; 2] = ["10.43.12.10", "10.43.12.11"];
const WEST: [&str; 3] = ["10.43.77.20", "10.43.77.21", "10.43.77.22"];
const NORTH: [&str; 1] = ["10.43.201.30"];

#[test]
fn steady_state_is_answered_with_the_five_live_endpoints() {
    let server = examples();
    let data = |name: &str| server.ask(name, Transport::Udp).data_set();
    let live = set([&EAST[..], &WEST].concat());
    assert_eq!(data("nginx.default.global. A"), live);
    assert_eq!(data("east.nginx.default.global. A"), set(EAST));
    assert_eq!(data("west.nginx.default.global. A"), set(WEST));
    // The gateway of north is down, but the names of north still resolve (rule M4).
    assert_eq!(data("north.nginx.default.global. A"), set(NORTH));
    assert_eq!(
        data("nginx-set-0.north.nginx.default.global. A"),
        set(NORTH)
    );
    let targets = |port: u16| {
        let hosts = [
            "nginx-set-0.east",
            "nginx-set-1.east",
            "nginx-set-0.west",
            "nginx-set-1.west",
            "nginx-set-2.west",
        ];
        set(hosts.map(|host| format!("0 10 {port} {host}.nginx.default.global.")))
    };
    // The ports are those of the Service, not of the pod.
    for (port, number) in [("http", 80), ("metrics", 9113), ("peer", 7000)] {
        let name = format!("_{port}._tcp.nginx.default.global. SRV");
        assert_eq!(data(&name), targets(number), "{name}");
    }
    let outcomes = [
        ("nginx.default.global. AAAA", "NODATA"),
        // Other namespaces of the file also have an `nginx`.
        ("nginx.global. A", "NXDOMAIN"),
        ("default.global. A", "NODATA"),
        ("nginx-set-2.east.nginx.default.global. A", "NXDOMAIN"),
        ("south.nginx.default.global. A", "NXDOMAIN"),
    ];
    for (asked, expected) in outcomes {
        assert_eq!(server.outcome(asked), expected, "{asked}");
    }
}

#[test]
fn mirrors_of_every_kind_are_answered() {
    let server = examples();
    let report = server.api("/api/v1/table");
    let skipped = report["skipped"].as_array().unwrap();
    assert_eq!(skipped.len(), 0, "{skipped:?}");
    let services = report["services"].as_array().unwrap().iter();
    let services = services.filter(|service| service["namespace"] == "default");
    let kinds: BTreeSet<(&str, &str)> = services
        .map(|s| (s["service"].as_str().unwrap(), s["kind"].as_str().unwrap()))
        .collect();
    for kind in [
        ("api", "flat"),
        ("cache", "gateway"),
        ("nginx", "headless"),
        ("web", "federated"),
    ] {
        assert!(kinds.contains(&kind), "{kind:?} is not in {kinds:?}");
    }
    for service in ["api", "cache", "web"] {
        let asked = format!("{service}.default.global. A");
        assert!(server.outcome(&asked).starts_with("10."), "{asked}");
        // Only a flag gives it a short name.
        let short = format!("{service}.global. A");
        assert_eq!(server.outcome(&short), "NXDOMAIN", "{short}");
    }
    for asked in [
        "web-federated.default.global. A",
        "web-east.default.global. A",
        "linkerd-multicluster.global. A",
        "probe-east.linkerd-multicluster.global. A",
    ] {
        assert_eq!(server.outcome(asked), "NXDOMAIN", "{asked}");
    }
}

#[test]
fn table_of_the_examples_has_exactly_the_expected_endpoints() {
    let server = examples();
    let report = server.api("/api/v1/table");
    let services: Vec<&Value> = report["services"].as_array().unwrap().iter().collect();
    let row = |service: &&Value| {
        let endpoints = service["endpoints"].as_array().unwrap().iter();
        let endpoints: Vec<String> = endpoints
            .map(|e| {
                let text = |field: &str| e[field].as_str().unwrap().to_owned();
                let addresses = e["addresses"].as_array().unwrap().iter();
                let addresses: Vec<&str> = addresses.map(|a| a.as_str().unwrap()).collect();
                format!(
                    "{}/{} {} {}",
                    text("cluster"),
                    text("hostname"),
                    addresses.join("+"),
                    text("state")
                )
            })
            .collect();
        let text = |field: &str| service[field].as_str().unwrap().to_owned();
        format!(
            "{}/{}: {}",
            text("namespace"),
            text("service"),
            endpoints.join(", ")
        )
    };
    let seen: Vec<String> = services.iter().map(row).collect();
    let expected = [
        "default/api: west/ 10.43.40.3 alive",
        "default/cache: west/ 10.43.40.2 alive",
        "default/nginx: east/nginx-set-0 10.43.12.10 alive, east/nginx-set-1 10.43.12.11 alive, \
         north/nginx-set-0 10.43.201.30 down, west/nginx-set-0 10.43.77.20 alive, \
         west/nginx-set-1 10.43.77.21 alive, west/nginx-set-2 10.43.77.22 alive",
        "default/web: / 10.43.40.4 alive, east/ 10.43.40.1 omitted",
        "variant-clobbered/nginx: east/nginx-set-0 10.43.93.1 alive",
        "variant-dual-stack/nginx: east/nginx-set-0 10.43.97.1+fd00:10:43::97:1 alive",
        "variant-endpoint-mirrors-first/nginx: east/nginx-set-0 10.43.90.1 alive",
        "variant-first-write/nginx: ",
        "variant-gateway-down-sticky/nginx: north/nginx-set-0 10.43.92.1 alive",
        "variant-hostname-mismatch/nginx: west/web 10.43.94.1 alive",
        "variant-ipv6-primary/nginx: west/nginx-set-0 fd00:10:43::98:1 alive",
        "variant-legacy-labels/nginx: west/nginx-set-0 10.43.96.1 alive",
        "variant-names/db-east: east/db-east-0 10.43.95.1 alive",
        "variant-names/db-us: ",
        "variant-scale-down-window/nginx: east/nginx-set-0 10.43.91.1 alive",
        "variant-scaled-to-zero/nginx: ",
    ];
    assert_eq!(seen, expected);
    // Eleven namespaces have an `nginx`, and no setting assigns the short name.
    let conflicts = report["conflicts"].as_array().unwrap().iter();
    let conflicts: Vec<(&Value, &Value)> = conflicts.map(|c| (&c["kind"], &c["name"])).collect();
    assert_eq!(conflicts, [(&json!("short-name"), &json!("nginx"))]);
}
