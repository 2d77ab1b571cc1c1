//! The examples of Linkerd's objects in one file: the steady state, other kinds of mirrors, and all variants, including
//! old label sets.

use serde_json::Value;
use support::repository::repository;
use support::server::Server;

/// Serves the objects of the source cluster. The objects before section 1 are in another cluster.
fn examples() -> Server {
    let text = std::fs::read_to_string(repository("tests/fixtures/linkerd-examples.yaml")).unwrap();
    let start = text.find("# 1. Link and credentials").unwrap();
    Server::with_text(&text[start..], &[])
}

/// Returns a service with its endpoints.
fn row(service: &Value, endpoints: &[Value]) -> String {
    let of_service = |one: &&Value| {
        ["namespace", "service"]
            .iter()
            .all(|key| one[key] == service[key])
    };
    let endpoints = endpoints.iter().filter(of_service).map(|one| {
        let text = |field: &str| one[field].as_str().unwrap();
        let addresses = one["addresses"].as_array().unwrap().iter();
        let addresses: Vec<&str> = addresses.map(|a| a.as_str().unwrap()).collect();
        let addresses = addresses.join("+");
        format!(
            "{}/{} {addresses} {}",
            text("cluster"),
            text("hostname"),
            text("state")
        )
    });
    let endpoints = endpoints.collect::<Vec<_>>().join(", ");
    let text = |field: &str| service[field].as_str().unwrap();
    format!("{}/{}: {endpoints}", text("namespace"), text("service"))
}

#[test]
fn table_of_the_examples_has_exactly_the_expected_endpoints() {
    let server = examples();
    let endpoints = server.items("endpoints");
    let services = server.items("table");
    let mut seen: Vec<String> = services
        .iter()
        .map(|service| row(service, &endpoints))
        .collect();
    seen.sort();
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
    let conflicts = server.section("problems?kind=short-name", "problems");
    let conflicts: Vec<&Value> = conflicts.iter().map(|one| &one["subject"]).collect();
    assert_eq!(conflicts, ["nginx"]);
}
