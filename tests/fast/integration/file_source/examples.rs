//! The examples of Linkerd's objects in one file: the steady state, other kinds of mirrors, and all variants, including
//! old label sets.

use serde_json::{Value, json};
use support::repository::repository;
use support::server::Server;

/// Serves the objects of the source cluster. The objects before section 1 are in another cluster.
fn examples() -> Server {
    let text = std::fs::read_to_string(repository("tests/fixtures/linkerd-examples.yaml")).unwrap();
    let start = text.find("# 1. Link and credentials").unwrap();
    Server::with_text(&text[start..], &[])
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
