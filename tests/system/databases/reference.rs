//! The scripts of `charts/global-dns/examples/three-clusters`, with three real API servers and their controllers.
//!
//! The scripts run as they are. `01-clusters`, `02-linkerd`, `03-links` and `clean-up` need a container engine and the command
//! `linkerd`, so this suite creates what they leave behind: clusters with CoreDNS, Links, gateways and mirror controllers.
//!
//! - `site`: a cluster: an API server and its pods
//! - `pod`: a pod as processes, like a kubelet
//! - `linkerd`: the objects that Linkerd installs, and the mirrors that its controllers write
//! - `scripts`: the environment of the scripts, with a `kubectl` whose subcommand `exec` needs no kubelet
//! - `files`: the files of the folder without any cluster
//!
//! Not simulated: the proxies of Linkerd. Members of other clusters are reached through NAT instead, as in the other suites.

mod files;
mod linkerd;
mod pod;
mod scripts;
mod site;

use anyhow::{Result, ensure};
use support::networks::in_new_network;
use support::output::print_line;
use support::steps::Steps;

use scripts::Scripts;

/// Folder of the scripts.
const FOLDER: &str = "charts/global-dns/examples/three-clusters";

#[test]
fn scripts_of_the_reference_architecture_run_in_their_order() {
    in_new_network(|| {
        let mut steps = Steps::new("reference architecture");
        let mut started = None;
        steps.prerequisite(
            "three_clusters_have_coredns_links_gateways_and_controllers",
            || started.insert(Scripts::start()?).wait_for_fixtures(),
        );
        let Some(scripts) = &mut started else {
            return steps.finish();
        };
        let mut step = |fact: &str, check: &dyn Fn(&mut Scripts) -> Result<()>| {
            steps.prerequisite(fact, || {
                let checked = check(scripts);
                scripts.with_logs(checked)
            });
        };
        step("api_servers_accept_every_object", &|scripts| {
            scripts.check_objects()
        });
        step("zone_is_forwarded_in_each_cluster", &|scripts| {
            passes(scripts, "04-global-dns", 3)
        });
        step("script_fails_if_its_state_is_not_reached", &|scripts| {
            let output = scripts.run("06-grow", &[("LIMIT", "2")])?;
            ensure!(
                output.code == Some(1) && output.text.contains("FAILED after 2 s"),
                "{output:?}"
            );
            Ok(())
        });
        step(
            "etcd_in_one_cluster_has_one_name_in_all_clusters",
            &|scripts| passes(scripts, "05-etcd-one", 9),
        );
        step("etcd_grows_to_all_clusters", &|scripts| {
            passes(scripts, "06-grow", 11)
        });
        step("scripts_can_run_again", &|scripts| {
            passes(scripts, "04-global-dns", 3)?;
            passes(scripts, "06-grow", 11)
        });
        step(
            "cluster_behind_a_stopped_gateway_is_left_out_until_it_returns",
            &|scripts| passes(scripts, "07-gateway-down", 10),
        );
        step("removed_cluster_has_no_names", &|scripts| {
            passes(scripts, "08-remove", 8)?;
            scripts.check_removed()
        });
        step("zone_is_forwarded_with_the_configmap_of_k3s", &|scripts| {
            scripts.check_k3s()
        });
        steps.finish();
    });
}

/// Runs a script. Asserts that it succeeds and prints this number of facts.
fn passes(scripts: &mut Scripts, name: &str, facts: usize) -> Result<()> {
    let output = scripts.run(name, &[])?;
    ensure!(output.code == Some(0), "{name}: {output:?}");
    let found = output.text.lines().filter(|line| line.starts_with("ok: "));
    let found = found.count();
    ensure!(
        found == facts,
        "{name} prints {found} facts instead of {facts}: {output:?}"
    );
    print_line(&format!("{name}: {facts} facts"));
    Ok(())
}
