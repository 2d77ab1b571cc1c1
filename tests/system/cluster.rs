//! The chart under real kubelets: two nodes with containerd, kube-proxy and a scheduler. It is installed as the manual says, and
//! clients that know each right answer count what its accidents cost.
//!
//! Index:
//!
//! - `lab`, `node.sh`, `images.sh`: control plane, nodes, images
//! - `objects`: what Linkerd, a database and CoreDNS write
//! - `installation`: the commands of the manual, and the examples of values
//! - `permissions`: who may run the commands
//! - `clients`: queries on four ways, and the judge
//! - `accidents`: what happens, and the limits; `tests/run cluster --all` has all of them

mod accidents;
mod clients;
mod installation;
mod lab;
mod objects;
mod permissions;

use std::collections::BTreeSet;
use std::env;

use anyhow::{Result, ensure};
use support::definitions::define_monitoring;
use support::networks::in_new_network;
use support::output::print_line;
use support::steps::Steps;

use accidents::{ACCIDENTS, Accident};
use clients::Clients;
use lab::Lab;
use objects::Question;

#[test]
fn chart_survives_its_accidents_under_real_kubelets() {
    let is_all = env::var_os("GLOBAL_DNS_TEST_ACCIDENTS").is_some();
    in_new_network(|| {
        let mut steps = Steps::new("the chart under real kubelets");
        let (mut lab, mut questions, mut clients) = (None, Vec::new(), None);
        steps.prerequisite("two_nodes_and_the_clusters_dns_start", || {
            let lab = lab.insert(Lab::start()?);
            define_monitoring(&lab.cluster)?;
            for object in &objects::coredns().0 {
                lab.cluster.put(object)?;
            }
            questions = objects::write_services(lab)?;
            Ok(())
        });
        let Some(lab) = &mut lab else {
            return steps.finish();
        };
        steps.step("upgrades_add_and_remove_listeners", || {
            installation::check_upgrades(lab)
        });
        steps.prerequisite("every_example_of_values_runs", || {
            installation::check_examples(lab)
        });
        steps.prerequisite("chart_is_installed_by_the_manual", || {
            installation::install(lab)
        });
        if is_all {
            steps.step("replicas_are_apart_twelve_times", || {
                installation::install_twelve_times(lab)
            });
        }
        steps.prerequisite("zone_is_forwarded_by_the_manual", || {
            installation::forward(lab)
        });
        steps.step("commands_after_the_installation_work", || {
            installation::check(lab)
        });
        steps.step("documented_permissions_suffice_for_commands", || {
            permissions::check(lab)
        });
        steps.prerequisite("judge_finds_one_wrong_address", || {
            let clients = clients.insert(Clients::start(lab.network(), questions)?);
            judge_finds_one_wrong_address(clients)
        });
        let Some(clients) = &clients else {
            return steps.finish();
        };
        for accident in ACCIDENTS.iter().filter(|one| is_all || one.is_usual) {
            steps.step(accident.name, || watch(lab, clients, accident));
        }
        steps.finish();
    });
}

/// Lets an accident happen, and prints what the clients saw.
fn watch(lab: &mut Lab, clients: &Clients, accident: &Accident) -> Result<()> {
    let seen = clients.watch(|| (accident.act)(lab))?;
    for (way, seen) in &seen {
        print_line(&format!("    {way:?}: {seen}"));
    }
    clients::check(&seen, accident.limits)
}

/// While nothing happens, each answer is right. Only those to one question seem wrong, which has an address that no endpoint has.
fn judge_finds_one_wrong_address(clients: &Clients) -> Result<()> {
    let wrong = BTreeSet::from(["10.96.100.1".to_owned(), "10.96.100.99".to_owned()]);
    clients.add(Question::new("east.db.prod.global. A".to_owned(), wrong));
    let seen = clients.watch(|| Ok(()));
    clients.remove_last();
    for (way, seen) in seen? {
        print_line(&format!("    {way:?}: {seen}"));
        ensure!(seen.failed == 0, "{way:?}: queries failed");
        let is_meant = |one: &String| one.starts_with("east.db.prod.global. A: 1 of 2 missing");
        ensure!(
            !seen.wrong.is_empty() && seen.wrong.iter().all(is_meant),
            "{:?}",
            seen.wrong
        );
    }
    Ok(())
}
