//! The addresses that `check --connect` connects to.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use serde_json::Value;

use super::finding::{items, text};

/// An address to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The endpoint: `db-0 of cluster east`.
    pub endpoint: String,
    /// Its address and port.
    pub address: SocketAddr,
}

/// Returns the answered addresses with the TCP ports of their endpoints, the items of `endpoints`. A name of a port, such as
/// `_sql._tcp.db.prod.global.`, has only that port.
pub fn targets(name: &str, answered: &BTreeSet<IpAddr>, endpoints: &[Value]) -> Vec<Target> {
    let port_name = name
        .strip_prefix('_')
        .and_then(|rest| rest.split_once("._"));
    let is_wanted = |port: &&Value| {
        let is_tcp = text(port, "protocol").eq_ignore_ascii_case("tcp");
        is_tcp && port_name.is_none_or(|(wanted, _)| text(port, "name") == wanted)
    };
    let mut targets = Vec::new();
    for endpoint in endpoints {
        let addresses = items(endpoint, "addresses").filter_map(|one| one.as_str()?.parse().ok());
        for ip in addresses.filter(|ip| answered.contains(ip)) {
            let ports = items(endpoint, "ports").filter(is_wanted);
            let ports = ports.filter_map(|port| u16::try_from(port["port"].as_u64()?).ok());
            targets.extend(ports.map(|port| Target {
                endpoint: describe(endpoint),
                address: SocketAddr::new(ip, port),
            }));
        }
    }
    targets
}

fn describe(endpoint: &Value) -> String {
    match ["hostname", "cluster"].map(|field| text(endpoint, field)) {
        ["", ""] => "the federated service".to_owned(),
        ["", cluster] => format!("cluster {cluster}"),
        [host, cluster] => format!("{host} of cluster {cluster}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn targets_are_the_answered_addresses_with_tcp_ports() {
        let endpoints = [json!({
            "cluster": "east", "hostname": "db-0", "addresses": ["10.0.0.1", "10.0.0.2"],
            "ports": [
                {"name": "sql", "protocol": "TCP", "port": 26257},
                {"name": "http", "protocol": "TCP", "port": 8080},
                {"name": "dns", "protocol": "UDP", "port": 53},
            ],
        })];
        let answered = BTreeSet::from(["10.0.0.1".parse().unwrap()]);
        for (name, expected) in [
            ("db.prod.global.", vec!["10.0.0.1:26257", "10.0.0.1:8080"]),
            ("_http._tcp.db.prod.global.", vec!["10.0.0.1:8080"]),
        ] {
            let targets = targets(name, &answered, &endpoints);
            let found: Vec<String> = targets.iter().map(|one| one.address.to_string()).collect();
            assert_eq!(found, expected, "{name}");
            assert_eq!(targets[0].endpoint, "db-0 of cluster east");
        }
    }
}
