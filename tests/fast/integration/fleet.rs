//! `fleet`: each fault is one red line with its hint, and nothing is red in a healthy fleet.

use serde_json::Value;
use support::commands::global_dns;
use support::fleet::{Fault, Fleet, FleetCluster, altered, faults};
use support::process::{self, ProcessOutput};
use support::server::Server;

/// Runs `fleet` on servers of the clusters.
fn compare(fleet: &Fleet) -> ProcessOutput {
    let servers: Vec<Server> = fleet.0.iter().map(start).collect();
    let named = fleet.0.iter().zip(&servers).map(|(cluster, server)| {
        let api = match cluster.alteration {
            Some(alteration) => altered(server.api, alteration),
            None => server.api,
        };
        format!("--server={}={api}", cluster.name)
    });
    let named: Vec<String> = named.collect();
    let mut command = global_dns(&["fleet", "-o", "json"]);
    process::run(command.args(named))
}

fn start(cluster: &FleetCluster) -> Server {
    let own_name = format!("--cluster-name={}", cluster.own_name);
    let flags = [&[own_name.as_str()], cluster.flags.as_slice()].concat();
    Server::with_objects(cluster.objects(), &flags)
}

/// Returns the findings that are not green: health, sentence and hint. The API of a server does not know the gateways.
fn findings(output: &ProcessOutput) -> Vec<[String; 3]> {
    let document: Value =
        serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:#?}"));
    let checks = document["checks"].as_array().unwrap();
    let (gateways, checks): (Vec<_>, Vec<_>) = checks
        .iter()
        .partition(|one| one["check"] == "gateway-cache");
    assert!(
        gateways.iter().all(|one| one["health"] == "grey"),
        "{gateways:#?}"
    );
    let bad = checks.iter().filter(|one| one["health"] != "green");
    bad.map(|one| {
        ["health", "sentence", "hint"].map(|field| one[field].as_str().unwrap().to_owned())
    })
    .collect()
}

/// Returns what is wrong with the output for a fault.
fn mistake(fault: &Fault) -> Option<String> {
    let mut fleet = Fleet::healthy();
    (fault.plant)(&mut fleet);
    let output = compare(&fleet);
    let findings = findings(&output);
    let is_expected = |[health, sentence, hint]: &[String; 3]| {
        health == "red"
            && fault.line.iter().all(|part| sentence.contains(part))
            && hint.contains(fault.hint)
    };
    let is_right =
        matches!(findings.as_slice(), [one] if is_expected(one)) && output.code == Some(1);
    (!is_right).then(|| format!("{}: exit code {:?}, {findings:#?}", fault.name, output.code))
}

#[test]
fn each_fault_is_one_red_line_with_its_hint() {
    let faults = faults();
    assert!(faults.len() >= 20, "{}", faults.len());
    // Each run waits before it reads servers that differ again.
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = faults
            .chunks(5)
            .map(|some| scope.spawn(|| some.iter().filter_map(mistake).collect::<Vec<_>>()))
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn nothing_is_red_in_a_healthy_fleet() {
    let output = compare(&Fleet::healthy());
    assert_eq!(findings(&output), Vec::<[String; 3]>::new());
    assert_eq!(output.code, Some(0));
}
