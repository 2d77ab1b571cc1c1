//! Real databases: one database cluster over three Kubernetes clusters, with members that discover each other by one
//! name.
//!
//! Index:
//!
//! - `support::multicluster`: three clusters on one bridge, each with gateway, simulated kube-proxy, CoreDNS and
//!   global-dns
//! - `plan`: the Services of the databases
//! - `etcd`: forms by SRV discovery, survives the loss of a cluster, adds a fourth member
//! - `nats`: one route to one name
//! - `moved`: a running etcd moves from the names of its cluster to those of the zone, and a client writes all the time
//!
//! The clusters have the same pod addresses, without routes between them. A member can reach a member of another
//! cluster only at its synthetic cluster IP.

mod etcd;
mod moved;
mod nats;
mod plan;

use support::multicluster::Clusters;
use support::multicluster::plan::{ALL, EAST, WEST};
use support::networks::in_new_network;
use support::steps::Steps;

#[test]
fn databases_form_one_cluster_over_three_kubernetes_clusters() {
    in_new_network(|| {
        let mut steps = Steps::new("databases over three clusters");
        let mut clusters = None;
        steps.prerequisite(
            "three_clusters_resolve_each_other_to_synthetic_addresses",
            || {
                let started = clusters.insert(Clusters::start(&plan::members(), &ALL)?);
                started.with_logs(started.check_names_and_addresses())
            },
        );
        let Some(clusters) = &mut clusters else {
            return steps.finish();
        };
        let (mut etcd, mut nats) = (etcd::Etcd::default(), nats::Nats::default());
        let mut step = |fact: &str, check: &mut dyn FnMut(&mut Clusters) -> anyhow::Result<()>| {
            steps.prerequisite(fact, || {
                let checked = check(clusters);
                clusters.with_logs(checked)
            });
        };
        step("etcd_elects_a_leader_and_accepts_writes", &mut |clusters| {
            etcd.form(clusters)
        });
        step("nats_has_routes_between_all_members", &mut |clusters| {
            nats.form(clusters)
        });
        step(
            "lost_cluster_is_omitted_from_the_answer_and_keeps_its_names",
            &mut |clusters| clusters.disconnect(WEST),
        );
        step("etcd_continues_without_the_lost_cluster", &mut |clusters| {
            etcd.check_without_west(clusters)
        });
        step(
            "recovered_cluster_is_added_to_the_answer",
            &mut |clusters| clusters.reconnect(),
        );
        step("etcd_and_nats_are_complete_again", &mut |clusters| {
            etcd.check_recovery(clusters)?;
            nats.check_routes(clusters)
        });
        step(
            "fourth_member_joins_etcd_without_a_flag_change",
            &mut |clusters| etcd.add_fourth_member(clusters),
        );
        steps.finish();
    });
}

#[test]
fn running_database_moves_to_names_of_the_zone() {
    in_new_network(|| {
        let mut steps = Steps::new("running database");
        let mut clusters = None;
        steps.prerequisite("cluster_without_links_answers_its_own_members", || {
            let started = clusters.insert(Clusters::start(&moved::members(), &[EAST])?);
            started.with_logs(started.check_answer(EAST, &moved::DB, &[EAST]))
        });
        let Some(clusters) = &mut clusters else {
            return steps.finish();
        };
        let mut moved = moved::Moved::default();
        let mut step = |fact: &str, check: &mut dyn FnMut(&mut Clusters) -> anyhow::Result<()>| {
            steps.prerequisite(fact, || {
                let checked = check(clusters);
                clusters.with_logs(checked)
            });
        };
        step("etcd_runs_with_the_names_of_its_cluster", &mut |clusters| {
            moved.form(clusters)
        });
        step("certificates_get_the_new_names", &mut |_| {
            moved.add_names_to_certificates()
        });
        step("members_move_one_after_the_other", &mut |clusters| {
            moved.move_members(clusters)
        });
        step("client_uses_the_new_name", &mut |_| moved.move_client());
        step(
            "member_in_the_next_cluster_joins_by_the_name",
            &mut |clusters| moved.start_in_the_next_cluster(clusters),
        );
        step("no_acknowledged_write_is_lost", &mut |clusters| {
            moved.check_writes(clusters)
        });
        steps.finish();
    });
}
