//! `fleet`: each fault is one failing line with its hint, and nothing fails in a healthy fleet.

use std::fs;

use serde_json::Value;
use support::commands::global_dns;
use support::fleet::{Fault, Fleet, FleetCluster, altered, faults};
use support::process::{self, ProcessOutput};
use support::repository::repository;
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

/// Returns the findings that are not `ok`: state, sentence and hint.
fn findings(output: &ProcessOutput) -> Vec<[String; 3]> {
    let document: Value =
        serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:#?}"));
    let items = document["items"].as_array().unwrap().iter();
    let findings = items.filter(|one| one["name"].is_string());
    let bad = findings.filter(|one| one["state"] != "ok");
    bad.map(|one| {
        ["state", "sentence", "hint"].map(|field| one[field].as_str().unwrap().to_owned())
    })
    .collect()
}

/// Returns what is wrong with the output for a fault.
fn mistake(fault: &Fault) -> Option<String> {
    let mut fleet = Fleet::healthy();
    (fault.plant)(&mut fleet);
    let output = compare(&fleet);
    let findings = findings(&output);
    let is_expected = |[state, sentence, hint]: &[String; 3]| {
        state == "failing"
            && fault.line.iter().all(|part| sentence.contains(part))
            && hint.contains(fault.hint)
    };
    // Two clusters that are not linked at all have a line for each direction.
    let is_right = (1..=2).contains(&findings.len())
        && findings.iter().all(is_expected)
        && output.code == Some(1);
    (!is_right).then(|| format!("{}: exit code {:?}, {findings:#?}", fault.name, output.code))
}

#[test]
fn each_fault_is_one_failing_line_with_its_hint() {
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
fn nothing_fails_in_a_healthy_fleet() {
    let output = compare(&Fleet::healthy());
    assert_eq!(findings(&output), Vec::<[String; 3]>::new());
    assert_eq!(output.code, Some(0));
}

/// Linkerd skips an exported Service without ports, so that `export it` would be no advice.
#[test]
fn service_without_ports_is_named_as_not_mirrored() {
    let servers = ["hub", "east"].map(|name| {
        let file = repository(&format!("tests/fixtures/fleet/{name}.json"));
        let objects = fs::read_to_string(file).unwrap();
        (name, Server::with_text(&objects, &["--cluster-name", name]))
    });
    let named = servers
        .iter()
        .map(|(name, server)| format!("--server={name}={}", server.api));
    let mut command = global_dns(&["fleet", "-o", "json"]);
    let output = process::run(command.args(named));
    let expected = [
        "prod/np: hosts of east: none in hub; np-0 in east: Exported service cannot be mirrored: prod/np: it has no ports, so that \
         Linkerd skips it: add ports to the Service",
        "change the Service as the detail says, or do not export it: kubectl label service np -n prod mirror.linkerd.io/exported-",
    ];
    let [state, sentence, hint] = &findings(&output)[0];
    assert_eq!([sentence.as_str(), hint.as_str()], expected);
    assert_eq!(
        (state.as_str(), findings(&output).len(), output.code),
        ("failing", 1, Some(1))
    );
}

/// A server without other replicas is compared with itself under another name.
#[test]
fn server_that_is_named_twice_is_one() {
    let server = start(&Fleet::healthy().0[0]);
    let mut command = global_dns(&["fleet", "-o", "json"]);
    let named = ["a", "b"].map(|name| format!("--server={name}={}", server.api));
    let output = process::run(command.args(named));
    let found = findings(&output).into_iter();
    let sentences: Vec<String> = found.map(|[_, sentence, _]| sentence).collect();
    assert_eq!(sentences, ["a and b are the same cluster"]);
    assert_eq!(output.code, Some(1));
}
