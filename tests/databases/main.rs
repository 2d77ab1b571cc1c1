//! Real databases, one cluster each over three Kubernetes clusters, found by one name.
//!
//! Index:
//!
//! - `plan`: who has which address
//! - `clusters`: three clusters on one bridge, each with gateway, kube-proxy, CoreDNS and global-dns
//! - `mirrors`: what each of them sees of the others, as objects of an API server or of a file
//! - `etcd`: forms by SRV discovery, survives the loss of a cluster, takes a fourth member in
//! - `nats`: one route to one name
//!
//! The clusters have the same pod addresses, and none of them is routed anywhere: a member reaches another one by its
//! synthetic cluster IP or not at all.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub,
    missing_docs,
    reason = "tests"
)]

mod clusters;
mod etcd;
mod mirrors;
mod nats;
mod plan;

use support::networks::in_a_network_of_its_own;
use support::steps::Steps;

use crate::clusters::Clusters;
use crate::plan::WEST;

#[test]
#[ignore = "needs a real API server, root, etcd and NATS"]
fn databases_form_one_cluster_over_three() {
    in_a_network_of_its_own(|| {
        let mut steps = Steps::new("databases over three clusters");
        let mut clusters = None;
        steps.needed(
            "three_clusters_see_each_other_by_synthetic_addresses",
            || {
                let started = clusters.insert(Clusters::start()?);
                started.with_logs(started.names_are_the_same_and_addresses_are_not())
            },
        );
        let Some(clusters) = &mut clusters else {
            return steps.finish();
        };
        let (mut etcd, mut nats) = (etcd::Etcd::default(), nats::Nats::default());
        let mut step = |fact: &str, check: &mut dyn FnMut(&mut Clusters) -> anyhow::Result<()>| {
            steps.needed(fact, || {
                let checked = check(clusters);
                clusters.with_logs(checked)
            });
        };
        step("etcd_elects_a_leader_and_takes_writes", &mut |clusters| {
            etcd.form(clusters)
        });
        step("nats_routes_go_to_every_member", &mut |clusters| {
            nats.form(clusters)
        });
        step(
            "a_lost_cluster_leaves_the_answer_and_keeps_its_names",
            &mut |clusters| clusters.lose(WEST),
        );
        step("etcd_goes_on_without_the_lost_cluster", &mut |clusters| {
            etcd.go_on_without_west(clusters)
        });
        step("a_cluster_that_is_back_joins_the_answer", &mut |clusters| {
            clusters.find()
        });
        step("etcd_and_nats_are_whole_again", &mut |clusters| {
            etcd.is_whole_again(clusters)?;
            nats.is_whole(clusters)
        });
        step(
            "a_fourth_member_joins_etcd_and_no_flag_changes",
            &mut |clusters| etcd.take_a_fourth_member_in(clusters),
        );
        steps.finish();
    });
}
