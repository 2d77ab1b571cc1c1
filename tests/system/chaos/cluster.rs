//! Very large clusters: the time from an event of the API server to the changed answer.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use support::objects::{Mirror, mirror};
use support::observer::{Observation, Observer, addresses_of};
use support::output::print_line;
use support::server::Server;
use support::standin::{Behavior, StandIn};

/// Number of measured changes; odd, so that the median is one of them.
const CHANGES: u8 = 51;

#[test]
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
    let mut objects = Vec::new();
    for service in 0..services {
        let mirror = mirror("prod", &format!("db{service}"), "east");
        objects.push(mirror.service());
        for host in 0..endpoints {
            let number = service * endpoints + host;
            let address = format!("10.{}.{}.1", number / 250, number % 250);
            objects.push(mirror.endpoint_mirror(&host_of(&mirror, host), &[&address]));
        }
    }
    let standin = StandIn::start(Behavior::Normal, &objects)?;
    standin.keep_watches();
    let server = Server::ready_of_cluster(&standin.kubeconfig, &[]);
    // The changed endpoint is in the middle of the others.
    let (service, host) = (services / 2, endpoints / 2);
    let mirror = mirror("prod", &format!("db{service}"), "east");
    let host = host_of(&mirror, host);
    let asked = format!("{host}.east.{}.prod.global", mirror.service_name());
    let observer = Observer::start(server.dns, &asked, Duration::ZERO)?;
    let mut took = Vec::new();
    for change in 0..CHANGES {
        let address = format!("10.255.0.{change}");
        let wanted = Observation::addresses(&[&[&address]]);
        let object = mirror.endpoint_mirror(&host, &[&address]);
        let notified = Instant::now();
        standin.put(&object);
        let seen = observer.wait_for(&wanted)?;
        took.push(seen.saturating_duration_since(notified));
    }
    took.sort();
    let empty = matches!(addresses_of(server.dns, &asked)?, Observation::Other(_));
    ensure!(!empty, "{asked} has no answer");
    let milliseconds = |at: usize| took[at].as_secs_f64() * 1000.0;
    print_line(&format!(
        "{what}: from event to answer {:.2} ms (median of {CHANGES}), {:.2} ms maximum",
        milliseconds(took.len() / 2),
        milliseconds(took.len() - 1),
    ));
    Ok(())
}

fn host_of(mirror: &Mirror, number: usize) -> String {
    format!("{}-{number}", mirror.service_name())
}
