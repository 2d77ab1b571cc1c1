//! The whole thing on real parts: a real API server with its controllers, a real CoreDNS, `dig`, and the binary.
//!
//! Scenarios on real parts, one shared API server, in this order:
//!
//! - `clusters_come_and_go`: linking, unlinking, and the recordings written again in their order
//! - `local_members`: a Node, Pods and a headless Service in this cluster
//! - `permissions`: tokens that may list and watch, and one that may not
//! - `check`: the doctor, with each permission missing, with Links and without, through CoreDNS
//! - `same_as_coredns`: CoreDNS's own names of this cluster's Services beside ours
//! - `owner_names`: the table of owner names, from objects that the API server has accepted
//! - `start_up`: from process start to ready
//! - `gateways_down`: every gateway dies; the last-resort rule
//! - `outage`: the API server is killed, or falls silent, and comes back while queries run
//! - `shutdown`: SIGTERM, and no query lost
//! - `outage`, once more: etcd is restored from a backup
//!
//! Scenarios in a network of their own, which wants root, with another API server:
//!
//! - `node`: cluster IPs as kube-proxy plays them, and CoreDNS as its pod finds it
//! - `recipes`: CoreDNS with the very text of `coredns/`
//! - `resolvers`: unbound and dnsmasq with the text of `coredns/`; unbound and BIND that follow the zone's NS record
//! - `failover`: two replicas behind one cluster IP
//!
//! Scenarios on API servers of their own:
//!
//! - `streamed_lists`: with the feature gate `WatchList` and without
//!
//! Scenarios on the stand-in:
//!
//! - `misbehaving_api_server`: refusals, silence, broken objects, lost history
//! - `empty_lists`: lists that would drop everything, confirmed and not
//! - `restart`: killed and started again while the API server is away
//! - `support::faults`: one fault after the other, while somebody asks; the suite `chaos` prints their table

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub,
    missing_docs,
    reason = "tests"
)]

mod check;
mod clusters_come_and_go;
mod empty_lists;
mod failover;
mod gateways_down;
mod local_members;
mod misbehaving_api_server;
mod node;
mod outage;
mod owner_names;
mod permissions;
mod recipes;
mod resolvers;
mod restart;
mod same_as_coredns;
mod shutdown;
mod start_up;
mod streamed_lists;

use std::sync::{Mutex, MutexGuard, PoisonError};

use support::cluster::Cluster;
use support::faults;
use support::networks::in_a_network_of_its_own;
use support::steps::Steps;

use crate::node::Node;

/// Two suites at once would spoil each other's figures.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[test]
#[ignore = "needs a real API server, root and dig"]
fn on_real_parts() {
    let _turn = turn();
    let mut steps = Steps::new("on real parts");
    let mut cluster = None;
    steps.needed("the_api_server_and_its_controllers_start", || {
        cluster = Some(Cluster::start_with(&[owner_names::FAMILIES.to_owned()])?);
        Ok(())
    });
    if let Some(mut cluster) = cluster {
        clusters_come_and_go::run(&mut steps, &cluster);
        local_members::run(&mut steps, &cluster);
        permissions::run(&mut steps, &cluster);
        check::run(&mut steps, &cluster);
        same_as_coredns::run(&mut steps, &cluster);
        owner_names::run(&mut steps, &cluster);
        start_up::run(&mut steps, &cluster);
        gateways_down::run(&mut steps, &cluster);
        outage::run(&mut steps, &mut cluster);
        shutdown::run(&mut steps, &cluster);
        outage::run_last(&mut steps, &mut cluster);
    }
    steps.finish();
}

#[test]
#[ignore = "needs a real API server, root and dig"]
fn in_a_network_of_their_own() {
    let _turn = turn();
    in_a_network_of_its_own(|| {
        let mut steps = Steps::new("in a network of their own");
        let mut parts = None;
        steps.needed("the_api_server_has_a_cluster_ip", || {
            let cluster = Cluster::start()?;
            let node = Node::new(&cluster)?;
            parts = Some((cluster, node));
            Ok(())
        });
        if let Some((cluster, node)) = &parts {
            recipes::run(&mut steps, cluster, node);
            failover::run(&mut steps, cluster, node);
        }
        steps.finish();
    });
}

#[test]
#[ignore = "needs a real API server"]
fn with_streamed_lists_and_without() {
    let _turn = turn();
    let mut steps = Steps::new("with streamed lists and without");
    streamed_lists::run(&mut steps);
    steps.finish();
}

#[test]
#[ignore = "needs a real API server, root and dig"]
fn on_a_misbehaving_api_server() {
    let _turn = turn();
    let mut steps = Steps::new("on a misbehaving API server");
    misbehaving_api_server::run(&mut steps);
    empty_lists::run(&mut steps);
    restart::run(&mut steps);
    faults::run(&mut steps);
    steps.finish();
}

fn turn() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}
