//! The addresses that `check --connect` connects to, and what the attempts tell.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde_json::Value;

use super::finding::{Check, Finding, State, items, text};

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

/// Makes the finding about an attempt: the time that it took, or why it failed. `None`: nothing shows that more than a proxy was
/// reached.
pub fn connection(target: &Target, result: Result<Option<Duration>, String>) -> Finding {
    const CHECK: Check = Check::Connections;
    let Target { endpoint, address } = target;
    match result {
        Ok(Some(time)) => Finding::ok(
            CHECK,
            format!(
                "connected to {address} ({endpoint}) in {:.1} ms, and it replied",
                time.as_secs_f64() * 1000.0
            ),
        ),
        Ok(None) => Finding::new(
            State::Unknown,
            CHECK,
            format!("{address} ({endpoint}) accepted, without a reply"),
            "a proxy accepts before it reaches the endpoint: test with a client of its protocol",
        ),
        Err(why) => Finding::failing(
            CHECK,
            format!("cannot connect to {address} ({endpoint}): {why}"),
            "only meshed clients reach endpoints of other clusters: run check in a Pod with Linkerd's proxy, and check the \
             gateway (linkerd multicluster gateways) and the pods in that cluster",
        ),
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
