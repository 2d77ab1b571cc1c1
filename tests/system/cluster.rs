//! The chart under real kubelets: two nodes with containerd, kube-proxy and a scheduler. It is installed as the manual says, and
//! clients that know each right answer count what its accidents cost.
//!
//! Index:
//!
//! - `lab`, `node.sh`, `images.sh`: control plane, nodes, images
//! - `objects`, `objects.yaml`: what Linkerd, a database and CoreDNS write
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

use std::env;

use anyhow::{Context, Result, ensure};
use support::definitions::define_monitoring;
use support::networks::in_new_network;
use support::steps::Steps;

use accidents::ACCIDENTS;
use clients::{Clients, Question};
use lab::Lab;

/// Checks a fact of an installation.
type Check = fn(&Lab) -> Result<()>;

#[test]
fn chart_survives_its_accidents_under_real_kubelets() {
    in_new_network(|| {
        let mut steps = Steps::new("the chart under real kubelets");
        let mut started = None;
        steps.prerequisite("two_nodes_and_the_clusters_dns_start", || {
            let lab = Lab::start()?;
            define_monitoring(&lab.cluster)?;
            let questions = objects::write(&lab)?;
            started = Some((lab, questions));
            Ok(())
        });
        if let Some((mut lab, questions)) = started {
            run(&mut steps, &mut lab, &questions);
        }
        steps.finish();
    });
}

fn run(steps: &mut Steps, lab: &mut Lab, questions: &[Question]) {
    let has_rare = env::var_os("GLOBAL_DNS_TEST_ACCIDENTS").is_some();
    let install: Check = if has_rare {
        installation::install_twelve_times
    } else {
        installation::install
    };
    let facts: [(&str, Check); 7] = [
        (
            "upgrades_add_and_remove_listeners",
            installation::check_upgrades,
        ),
        (
            "pods_know_their_names_in_the_domain_of_the_cluster",
            installation::check_own_names,
        ),
        ("every_example_of_values_runs", installation::check_examples),
        ("chart_is_installed_by_the_manual", install),
        ("zone_is_forwarded_by_the_manual", installation::forward),
        ("commands_after_the_installation_work", installation::check),
        (
            "documented_permissions_suffice_for_commands",
            permissions::check,
        ),
    ];
    for (fact, check) in facts {
        steps.prerequisite(fact, || check(lab));
    }
    steps.prerequisite("judge_finds_one_wrong_address", || {
        judge_finds_one_wrong_address(lab, questions)
    });
    let mut clients = None;
    steps.prerequisite("clients_start", || {
        clients = Some(Clients::start(lab.network(), questions)?);
        Ok(())
    });
    let Some(clients) = clients else { return };
    for accident in ACCIDENTS.iter().filter(|one| has_rare || !one.is_rare) {
        steps.step(accident.name, || {
            clients.watch(accident.limits, || (accident.act)(lab))
        });
    }
}

/// While nothing happens, each answer is right. Only those to one question seem wrong, which has an address that no endpoint has.
fn judge_finds_one_wrong_address(lab: &Lab, questions: &[Question]) -> Result<()> {
    let addresses = ["10.96.100.1", "10.96.100.2", "10.96.100.99"].map(str::to_owned);
    let wrong = Question::new("east.db.prod.global. A", &addresses.into());
    let clients = Clients::start(lab.network(), &[questions, &[wrong]].concat())?;
    let judged = clients.watch([0; 4], || Ok(()));
    let faults = format!("{:#}", judged.err().context("the judge has found nothing")?);
    for fault in faults.lines() {
        let is_meant = fault.contains("wrong {\"east.db.prod.global. A: NOERROR")
            && fault.matches("instead of").count() == 1;
        ensure!(is_meant && fault.contains("failed 0"), "{fault}");
    }
    ensure!(faults.lines().count() == 4, "{faults}");
    Ok(())
}
