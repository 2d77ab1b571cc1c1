//! End-to-end tests: the binary with a real API server and its controllers, a real CoreDNS, and `dig`.
//!
//! Scenarios on one shared API server, in this order:
//!
//! - `linked_clusters`: linking, unlinking, and a replay of the recordings in their order
//! - `permissions`: users that may list and watch, and one that may not
//! - `check`: the command `check` without each permission, with and without Links, and through CoreDNS
//! - `coredns_comparison`: names of local Services, as answered by CoreDNS and by global-dns
//! - `owner_names`: the table of owner names, with objects that the API server accepted
//! - `gateways_down`: all gateways are down; the last-resort rule
//! - `links`: a Link is deleted, a mirror controller stops, and a tenant has Links of his own
//! - `outage`: the API server is killed or stops responding, and recovers, under queries
//! - `shutdown`: SIGTERM, without a lost query
//! - `outage`, second part: etcd is restored from a backup
//!
//! Scenarios in a separate network namespace, which needs root, with another API server:
//!
//! - `recipes`: CoreDNS with the configuration from the page `forwarding.md` of the manual
//! - `resolvers`: unbound and dnsmasq with the configuration from the same page; unbound and BIND that follow the zone's
//!   NS record
//!
//! Scenarios with one API server each:
//!
//! - `kinds`: the recordings of services of all kinds
//!
//! Scenarios on the simulated API server of `support::standin`:
//!
//! - `empty_lists`: lists that lack most objects
//! - `support::faults`: one fault at a time, under queries; the suite `chaos` prints a table of the same faults

mod check;
mod coredns_comparison;
mod empty_lists;
mod gateways_down;
mod kinds;
mod linked_clusters;
mod links;
mod outage;
mod owner_names;
mod permissions;
mod recipes;
mod resolvers;
mod shutdown;

use std::sync::{Mutex, MutexGuard, PoisonError};

use support::cluster::Cluster;
use support::faults;
use support::networks::in_new_network;
use support::steps::Steps;

use support::node::Node;

/// Suites with a real API server run one at a time, because concurrent ones would distort the measured times.
static SUITE_LOCK: Mutex<()> = Mutex::new(());

#[test]
fn real_api_server() {
    let _lock = lock_suite();
    let mut steps = Steps::new("real API server");
    let mut cluster = None;
    steps.prerequisite("api_server_and_its_controllers_start", || {
        cluster = Some(Cluster::start_with(&[owner_names::FAMILIES.to_owned()])?);
        Ok(())
    });
    if let Some(mut cluster) = cluster {
        linked_clusters::run(&mut steps, &cluster);
        permissions::run(&mut steps, &cluster);
        check::run(&mut steps, &cluster);
        coredns_comparison::run(&mut steps, &cluster);
        owner_names::run(&mut steps, &cluster);
        gateways_down::run(&mut steps, &cluster);
        links::run(&mut steps, &cluster);
        outage::run(&mut steps, &mut cluster);
        shutdown::run(&mut steps, &cluster);
        outage::run_last(&mut steps, &mut cluster);
    }
    steps.finish();
}

#[test]
fn separate_network_namespace() {
    let _lock = lock_suite();
    in_new_network(|| {
        let mut steps = Steps::new("separate network namespace");
        let mut parts = None;
        steps.prerequisite("api_server_has_a_cluster_ip", || {
            let cluster = Cluster::start()?;
            let node = Node::new(&cluster)?;
            parts = Some((cluster, node));
            Ok(())
        });
        if let Some((cluster, node)) = &parts {
            recipes::run(&mut steps, cluster, node);
        }
        steps.finish();
    });
}

#[test]
fn services_of_all_kinds() {
    let _lock = lock_suite();
    let mut steps = Steps::new("services of all kinds");
    let mut cluster = None;
    steps.prerequisite("api_server_for_all_kinds_starts", || {
        cluster = Some(Cluster::start()?);
        Ok(())
    });
    if let Some(cluster) = &cluster {
        kinds::run(&mut steps, cluster);
    }
    steps.finish();
}

#[test]
fn simulated_api_server() {
    // It runs beside the others, because it waits most of the time.
    let mut steps = Steps::new("misbehaving API server");
    empty_lists::run(&mut steps);
    faults::run(&mut steps);
    steps.finish();
}

fn lock_suite() -> MutexGuard<'static, ()> {
    SUITE_LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}
