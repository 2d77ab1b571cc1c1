//! Services larger than they should be: from an event of the API server to the changed answer.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Map, Value, json};

use crate::ask::{Observer, Seen, addresses_of};
use crate::harness::say;
use crate::server::Server;
use crate::standin::{Manner, StandIn};
use crate::support::mirror_objects::HeadlessMirror;

/// Changes that are measured; half of them are slower than the median.
const CHANGES: u8 = 51;
const FOLLOWS: Duration = Duration::from_secs(10);

#[test]
#[ignore = "needs minutes: tests/chaos/run"]
fn one_change_in_a_large_cluster() {
    for (what, services, endpoints) in [
        ("a service of 5,000 endpoints", 1, 5_000),
        ("20,000 services of one namespace", 20_000, 1),
    ] {
        if let Err(error) = change_one(what, services, endpoints) {
            panic!("{what}: {error:#}");
        }
    }
}

fn change_one(what: &str, services: usize, endpoints: usize) -> Result<()> {
    let ports = json!([{"name": "sql", "protocol": "TCP", "port": 26257}]);
    let mut objects = Vec::new();
    for service in 0..services {
        let (name, mirror) = (format!("db{service}"), format!("db{service}-east"));
        let mirror = mirror_of(&mirror, &name, &ports);
        objects.push(mirror.service(Map::new()));
        for host in 0..endpoints {
            let number = service * endpoints + host;
            let address = format!("10.{}.{}.1", number / 250, number % 250);
            objects.push(endpoint_of(&mirror, &name, host, address));
        }
    }
    let standin = StandIn::start(Manner::Good, &objects)?;
    let server = Server::start_ready(&standin.kubeconfig, &["--watch-timeout", "60s"]);
    // The one that changes is in the middle of everything.
    let (service, host) = (services / 2, endpoints / 2);
    let (name, mirror) = (format!("db{service}"), format!("db{service}-east"));
    let mirror = mirror_of(&mirror, &name, &ports);
    let asked = format!("{name}-{host}.east.{name}.prod.global");
    let observer = Observer::start(server.dns, &asked, Duration::ZERO)?;
    let mut took = Vec::new();
    for change in 0..CHANGES {
        let address = format!("10.255.0.{change}");
        let wanted = Seen::addresses(&[&[&address]]);
        let object: Value = endpoint_of(&mirror, &name, host, address);
        let told = Instant::now();
        standin.put(&object);
        let seen = observer.wait_for(&wanted, FOLLOWS)?;
        took.push(seen.saturating_duration_since(told));
    }
    took.sort();
    let empty = matches!(addresses_of(server.dns, &asked)?, Seen::Nothing(_));
    ensure!(!empty, "{asked} is gone");
    let milliseconds = |at: usize| took[at].as_secs_f64() * 1000.0;
    say(&format!(
        "{what}: from event to answer {:.2} ms (median of {CHANGES}), {:.2} ms at most",
        milliseconds(took.len() / 2),
        milliseconds(took.len() - 1),
    ));
    Ok(())
}

fn mirror_of<'m>(mirror: &'m str, service: &'m str, ports: &'m Value) -> HeadlessMirror<'m> {
    HeadlessMirror {
        name: mirror,
        namespace: "prod",
        cluster: "east",
        service,
        ports,
    }
}

fn endpoint_of(mirror: &HeadlessMirror<'_>, service: &str, host: usize, address: String) -> Value {
    let host = format!("{service}-{host}");
    mirror.endpoint(&format!("{host}-east"), &host, &[address])
}
