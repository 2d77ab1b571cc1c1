//! MongoDB's driver: SRV records at `_mongodb._tcp.HOST` with all targets in HOST's domain, and no TXT record, which it
//! would parse as options.

use serde_json::{Value, json};
use support::commands::command;
use support::process::run_checked;
use support::repository::repository;
use support::server::Server;

use super::{ADDRESSES, python, server};

fn resolve_hosts(server: &Server, hosts: &[&str]) -> Vec<Value> {
    let (ip, port) = (server.dns.ip().to_string(), server.dns.port().to_string());
    let mut command = command(python("dns, pymongo"));
    command
        .arg("-I")
        .arg(repository("tests/system/peers/clients/mongodb.py"));
    let found = run_checked(command.args([ip, port]).args(hosts)).unwrap();
    serde_json::from_str(&found).unwrap()
}

#[test]
fn pymongo_accepts_canonical_and_short_names() {
    let server = server();
    let hosts = ["db.prod.global", "db.global", "east.db.prod.global"];
    let found = resolve_hosts(&server, &hosts);
    for (host, found) in hosts.iter().zip(&found) {
        let members: &[(&str, u16)] = if host.starts_with("east") {
            &[("db-0.", 27017), ("db-1.", 27017)]
        } else {
            &[
                ("db-0.east.", 27017),
                ("db-1.east.", 27017),
                ("db-0.hub.", 27017),
                ("db-0.west.", 27018),
            ]
        };
        let mut nodes: Vec<String> = members
            .iter()
            .map(|(member, port)| format!("{member}{host}:{port}"))
            .collect();
        nodes.sort();
        assert_eq!(found["error"], Value::Null, "{host}");
        assert_eq!(found["nodes"], json!(nodes), "{host}");
        assert_eq!(found["txt"], "NODATA", "{host}");
        // Options of the connection string, and the ones that SRV implies; none from a TXT record.
        let options = json!({"replicaset": "rs0", "tls": true});
        assert_eq!(lower_case(&found["options"]), options, "{host}");
        let count = if host.starts_with("east") {
            3
        } else {
            ADDRESSES
        };
        assert_eq!(
            found["addresses"].as_array().unwrap().len(),
            count,
            "{host}"
        );
    }
    println!("peers: pymongo: {} hosts accepted", hosts.len());
}

/// Converts option names to lower case, because their spelling depends on the driver's release.
fn lower_case(options: &Value) -> Value {
    let options = options.as_object().unwrap().iter();
    let renamed = options.map(|(name, value)| {
        let name = name.to_lowercase();
        (
            if name == "ssl" {
                "tls".to_owned()
            } else {
                name
            },
            value.clone(),
        )
    });
    Value::Object(renamed.collect())
}

#[test]
fn pymongo_rejects_services_without_the_port_and_unknown_services() {
    let server = server();
    let hosts = [
        ("app.prod.global", "NODATA"),
        ("nope.prod.global", "NXDOMAIN"),
    ];
    for (found, (host, txt)) in resolve_hosts(&server, &hosts.map(|(host, _)| host))
        .iter()
        .zip(hosts)
    {
        let error = found["error"].as_str().unwrap_or_default();
        assert!(error.starts_with("ConfigurationError"), "{host}: {found}");
        assert!(error.contains("does not exist"), "{host}: {error}");
        assert_eq!(found["txt"], txt, "{host}");
    }
    println!("peers: pymongo: {} hosts rejected", hosts.len());
}
