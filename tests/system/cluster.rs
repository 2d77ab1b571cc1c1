//! The chart under real kubelets: two nodes with containerd, kube-proxy and a scheduler. It is installed as the manual says, and
//! clients that know each right answer count what its accidents cost.
//!
//! Index:
//!
//! - `lab`, `node.sh`, `images.sh`: control plane, nodes, images, and the shell for commands
//! - `objects`, `objects.yaml`: what Linkerd, a database and CoreDNS write, and the right answers
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
use support::networks::in_new_network;
use support::steps::Steps;

use accidents::{ACCIDENTS, NOTHING};
use clients::{Questions, watch};
use installation::{EXAMPLES, check_commands, check_own_names, check_upgrades, forward, install};
use lab::Lab;

#[test]
fn chart_survives_its_accidents_under_real_kubelets() {
    in_new_network(|| {
        let mut steps = Steps::new("the chart under real kubelets");
        let mut lab = None;
        steps.prerequisite("two_nodes_start", || {
            lab = Some(Lab::start()?);
            Ok(())
        });
        if let Some(lab) = &mut lab {
            run(&mut steps, lab);
        }
        steps.finish();
    });
}

fn run(steps: &mut Steps, lab: &mut Lab) {
    let has_rare = env::var_os("GLOBAL_DNS_TEST_ACCIDENTS").is_some();
    let times = if has_rare { 12 } else { 1 };
    let mut questions = Questions::new();
    steps.prerequisite("mirrors_and_the_clusters_dns_exist", || {
        questions = objects::write(lab)?;
        Ok(())
    });
    steps.prerequisite("upgrades_change_listeners", || check_upgrades(lab));
    steps.prerequisite("pods_know_their_own_names", || check_own_names(lab));
    steps.prerequisite("examples_of_values_run", || lab.shell(EXAMPLES).map(drop));
    steps.prerequisite("chart_is_installed_by_the_manual", || install(lab, times));
    steps.prerequisite("zone_is_forwarded_by_the_manual", || forward(lab));
    steps.prerequisite("commands_of_the_manual_work", || check_commands(lab));
    steps.prerequisite("documented_permissions_suffice", || permissions::check(lab));
    let mut is_installed = false;
    steps.prerequisite("judge_finds_one_wrong_address", || {
        is_installed = true;
        judge_finds_one_wrong_address(lab, questions.clone())
    });
    for accident in ACCIDENTS.iter().filter(|one| has_rare || !one.is_rare) {
        if is_installed {
            steps.step(accident.name, || watch(lab, &questions, accident));
        }
    }
}

/// While nothing happens, each answer is right. Only those to one question seem wrong, which has an address that no endpoint has.
fn judge_finds_one_wrong_address(lab: &mut Lab, mut questions: Questions) -> Result<()> {
    let (question, wrong) = ("east.db.prod.global. A", "10.96.100.1 10.96.100.99");
    questions.insert(question.to_owned(), wrong.to_owned());
    let judged = watch(lab, &questions, &NOTHING);
    let faults = format!("{:#}", judged.err().context("the judge has found nothing")?);
    let meant = format!("wrong: {{\"{question}: 10.96.100.1 10.96.100.2 instead of {wrong}\": ");
    let is_of_each_way = |text: &&str| faults.matches(text).count() == 4;
    let texts = [meant.as_str(), "instead of", "failed: 0,"];
    ensure!(texts.iter().all(is_of_each_way), "{faults}");
    Ok(())
}
