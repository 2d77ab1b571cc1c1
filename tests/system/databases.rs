//! Real databases: one database cluster over three Kubernetes clusters, with members that discover each other by one
//! name, or by the own names of their pods.
//!
//! Index:
//!
//! - `support::multicluster`: three clusters on one bridge, each with gateway, simulated kube-proxy, CoreDNS and
//!   global-dns
//! - `plan`: the Services of the databases
//! - `etcd`: forms by SRV discovery, or with a list of own names
//! - `nats`: one route to one name
//! - `rabbitmq`: a list of own names
//! - `moved`: a running etcd moves from the names of its cluster to those of the zone, and a client writes all the time
//!
//! The clusters have the same pod addresses, without routes between them. A member can reach a member of another
//! cluster only at its synthetic cluster IP.

mod etcd;
mod moved;
mod nats;
mod plan;
mod rabbitmq;

use anyhow::{Result, ensure};
use support::multicluster::Clusters;
use support::multicluster::plan::{ALL, EAST, Member, NORTH, Service, WEST};
use support::networks::in_new_network;
use support::steps::Steps;
use support::wait::eventually;

use etcd::{Etcd, Names};

/// A program with a member in each cluster.
trait Program {
    fn service(&self) -> &'static Service;

    /// Starts a member. The second one of a cluster joins those that run.
    fn start(&self, clusters: &mut Clusters, member: Member) -> Result<()>;

    /// Asserts that a member sees exactly these members.
    fn check(&self, clusters: &Clusters, viewer: Member, members: &[Member]) -> Result<()>;

    /// Returns the data of the program, if it keeps some.
    fn store(&self) -> Option<&dyn Store> {
        None
    }
}

/// One value in a database.
trait Store {
    /// Writes the value through a member.
    fn write(&self, clusters: &Clusters, member: Member, value: &str) -> Result<()>;

    /// Reads the value from a member.
    fn read(&self, clusters: &Clusters, member: Member) -> Result<String>;
}

// === impl Program ===

impl dyn Program + '_ {
    fn first(&self, cluster: usize) -> Member {
        self.service().member(cluster, 0)
    }

    fn form(&self, clusters: &mut Clusters) -> Result<()> {
        for cluster in ALL {
            self.start(clusters, self.first(cluster))?;
        }
        self.check_members(clusters)?;
        clusters.make_pods_ready()?;
        self.check_data(clusters, WEST, self.first(NORTH), "first")
    }

    /// Asserts that two members accept writes, and that the lost one does not.
    fn check_without_west(&self, clusters: &Clusters) -> Result<()> {
        self.check_data(clusters, NORTH, self.first(EAST), "second")?;
        let Some(store) = self.store() else {
            return Ok(());
        };
        eventually("the loss of the majority", || {
            let alone = store.write(clusters, self.first(WEST), "third");
            ensure!(alone.is_err(), "west accepts writes without a majority");
            Ok(())
        })
    }

    fn check_recovery(&self, clusters: &mut Clusters) -> Result<()> {
        self.check_members(clusters)?;
        self.check_value(clusters, self.first(WEST), "second")
    }

    fn add_fourth_member(&self, clusters: &mut Clusters) -> Result<()> {
        let member = self.service().member(EAST, 1);
        self.start(clusters, member)?;
        self.check_members(clusters)?;
        self.check_data(clusters, WEST, member, "fourth")
    }

    /// Waits until each member sees all.
    fn check_members(&self, clusters: &mut Clusters) -> Result<()> {
        let members = clusters.members.iter().copied();
        let members = members.filter(|member| member.service == self.service());
        let members: Vec<Member> = members.collect();
        for viewer in &members {
            eventually("all members", || {
                for process in &mut clusters.databases {
                    process.check()?;
                }
                self.check(clusters, *viewer, &members)
            })?;
        }
        Ok(())
    }

    /// Writes a value in a cluster, and waits until a member has it.
    fn check_data(&self, clusters: &Clusters, from: usize, to: Member, value: &str) -> Result<()> {
        if let Some(store) = self.store() {
            let write = || store.write(clusters, self.first(from), value);
            eventually("a write", write)?;
        }
        self.check_value(clusters, to, value)
    }

    fn check_value(&self, clusters: &Clusters, member: Member, value: &str) -> Result<()> {
        let Some(store) = self.store() else {
            return Ok(());
        };
        eventually("the value", || {
            let got = store.read(clusters, member)?;
            let name = member.own_name();
            ensure!(got.trim() == value, "{name} has {got:?}, expected {value}");
            Ok(())
        })
    }
}

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
        let mut step = |fact: &str, check: &dyn Fn(&mut Clusters) -> Result<()>| {
            steps.prerequisite(fact, || {
                let checked = check(clusters);
                clusters.with_logs(checked)
            });
        };
        let etcd: &dyn Program = &Etcd {
            service: &plan::ETCD,
            names: Names::Global,
        };
        let own_etcd: &dyn Program = &Etcd {
            service: &plan::DB,
            names: Names::Own,
        };
        let (nats, rabbitmq): (&dyn Program, &dyn Program) = (&nats::Nats, &rabbitmq::Rabbitmq);
        step("etcd_forms_by_one_name", &|clusters| etcd.form(clusters));
        step("nats_has_routes_between_all_members", &|clusters| {
            nats.form(clusters)
        });
        step(
            "etcd_and_rabbitmq_form_by_the_own_names_of_their_pods",
            &|clusters| {
                own_etcd.form(clusters)?;
                rabbitmq.form(clusters)
            },
        );
        let databases = [etcd, own_etcd, rabbitmq];
        step(
            "lost_cluster_is_omitted_from_the_answer_and_keeps_its_names",
            &|clusters| clusters.disconnect(WEST),
        );
        step("databases_continue_without_the_lost_cluster", &|clusters| {
            let mut databases = databases.iter();
            databases.try_for_each(|database| database.check_without_west(clusters))
        });
        step("recovered_cluster_is_added_to_the_answer", &|clusters| {
            clusters.reconnect()
        });
        step("all_are_complete_again", &|clusters| {
            nats.check_recovery(clusters)?;
            let mut databases = databases.iter();
            databases.try_for_each(|database| database.check_recovery(clusters))
        });
        step("fourth_member_joins_each_database", &|clusters| {
            clusters.add(&databases.map(|database| database.service().member(EAST, 1)))?;
            clusters.write_objects()?;
            for database in databases {
                for cluster in ALL {
                    clusters.check_answer(cluster, database.service(), &ALL)?;
                }
                database.add_fourth_member(clusters)?;
            }
            Ok(())
        });
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
            started.with_logs(started.check_answer(EAST, &plan::DB, &[EAST]))
        });
        let Some(clusters) = &mut clusters else {
            return steps.finish();
        };
        let mut moved = moved::Moved::default();
        let mut step = |fact: &str, check: &mut dyn FnMut(&mut Clusters) -> Result<()>| {
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
