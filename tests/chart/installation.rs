//! `helm install` and `helm upgrade` in a real API server, and the notes that they print.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::repository::repository;
use support::steps::Steps;

use crate::helm::{NAMESPACE, RELEASE, chart, helm, helm_without_values, template};
use crate::permissions::serve;
use crate::values::{least, with};

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.step("the_notes_have_the_address_that_kubernetes_chose", || {
        notes_have_the_chosen_address(cluster)
    });
    steps.step("the_notes_have_a_pinned_address_and_every_zone", || {
        notes_have_the_pinned_address(cluster)
    });
    steps.step(
        "the_zones_name_server_is_the_address_of_the_service",
        || name_server_is_the_service(cluster),
    );
    steps.step("upgrades_turn_listeners_on_and_off", || {
        upgrades_turn_listeners_on_and_off(cluster)
    });
    steps.step(
        "the_notes_of_a_daemonset_say_how_many_nodes_suit_it",
        || notes_of_a_daemonset(cluster),
    );
}

/// Installs the chart, or brings the installation to these values; returns the notes.
pub fn install(cluster: &Cluster, values: &Value) -> Result<String> {
    upgrade(cluster, values, &[])
}

/// The same, with flags for Helm.
fn upgrade(cluster: &Cluster, values: &Value, flags: &[&str]) -> Result<String> {
    let kubeconfig = cluster.kubeconfig.display().to_string();
    let chart = chart();
    let what = ["upgrade", "--install", RELEASE, &chart, "--output", "json"];
    let place = ["--namespace", NAMESPACE, "--kubeconfig", &kubeconfig];
    let ended = helm(&[&what[..], &place, flags].concat(), values)?;
    ensure!(
        ended.is_success(),
        "helm upgrade --install: {}",
        ended.stderr
    );
    let release: Value = serde_json::from_str(&ended.stdout)?;
    let notes = release["info"]["notes"].as_str();
    Ok(notes.context("no notes")?.to_owned())
}

/// Removes the installation.
fn uninstall(cluster: &Cluster) -> Result<()> {
    let kubeconfig = cluster.kubeconfig.display().to_string();
    let what = ["uninstall", RELEASE, "--wait"];
    let place = ["--namespace", NAMESPACE, "--kubeconfig", &kubeconfig];
    let ended = helm_without_values(&[&what[..], &place].concat())?;
    ensure!(ended.is_success(), "helm uninstall: {}", ended.stderr);
    Ok(())
}

fn notes_have_the_chosen_address(cluster: &Cluster) -> Result<()> {
    let notes = install(cluster, &least())?;
    let command = format!(
        "kubectl --namespace {NAMESPACE} get service {RELEASE} --output jsonpath='{{.spec.clusterIP}}'"
    );
    ensure!(
        notes.contains(&command),
        "no command for the address: {notes}"
    );
    ensure!(notes.contains(&stanza("ADDRESS")?), "no stanza: {notes}");
    let address = service_address(cluster)?;
    let notes = install(cluster, &least())?;
    ensure!(
        notes.contains(&stanza(&address)?),
        "{address} is not in: {notes}"
    );
    ensure!(
        !notes.contains("ADDRESS") && notes.contains(&format!("--set service.clusterIP={address}")),
        "{notes}"
    );
    uninstall(cluster)
}

/// Every replica answers the address of the Service, also if Kubernetes chose it.
fn name_server_is_the_service(cluster: &Cluster) -> Result<()> {
    for service in [json!({}), json!({"clusterIP": "10.96.0.53"})] {
        let values = with(json!({"service": service}));
        install(cluster, &values)?;
        let address = service_address(cluster)?;
        for replica in [1, 2] {
            let server = serve(cluster, &values)?;
            server.wait_until_ready();
            let explanation = server.try_api("/api/v1/explain?name=ns.dns.global")?;
            let records = &explanation["answers"][0]["records"];
            let expected = json!([format!("A\t{address}")]);
            ensure!(
                *records == expected,
                "replica {replica}: {records}, not {expected}"
            );
        }
        uninstall(cluster)?;
    }
    Ok(())
}

/// The cluster IP that the installed Service has.
pub fn service_address(cluster: &Cluster) -> Result<String> {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": NAMESPACE, "name": RELEASE}});
    let service = cluster.get(&service)?.context("no Service")?;
    let address = service.data["spec"]["clusterIP"].as_str();
    Ok(address.context("no address")?.to_owned())
}

fn notes_have_the_pinned_address(cluster: &Cluster) -> Result<()> {
    let values =
        json!({"service": {"clusterIP": "10.96.0.53"}, "zones": ["global", "svc.example.com"]});
    let notes = install(cluster, &with(values))?;
    let expected = stanza("10.96.0.53")?;
    ensure!(notes.contains(&expected), "no stanza of global: {notes}");
    let other = expected.replace("global:53", "svc.example.com:53");
    ensure!(
        notes.contains(&other),
        "no stanza of svc.example.com: {notes}"
    );
    ensure!(
        notes.contains("public top-level domain") && notes.contains("pin the short names"),
        "no warning: {notes}"
    );
    for short_names in [
        json!({"which": "pinned"}),
        json!({"defaultNamespace": "prod"}),
    ] {
        let values = json!({
            "service": {"clusterIP": "10.96.0.53"}, "zones": ["svc.example.com"], "shortNames": short_names,
        });
        let notes = install(cluster, &with(values))?;
        ensure!(
            !notes.contains("public top-level domain") && !notes.contains("pin the short names"),
            "a warning for nothing: {notes}"
        );
    }
    uninstall(cluster)
}

fn notes_of_a_daemonset(cluster: &Cluster) -> Result<()> {
    let said = |notes: &str| {
        notes.contains("up to about 100 nodes") && notes.contains("NodeLocal DNSCache")
    };
    let notes = install(cluster, &with(json!({"kind": "DaemonSet"})))?;
    ensure!(said(&notes), "nothing about nodes: {notes}");
    let notes = install(cluster, &least())?;
    ensure!(!said(&notes), "a warning for nothing: {notes}");
    uninstall(cluster)
}

/// Helm 3 merges lists of ports by number. Where one number has two protocols, the notes say that `--force` is needed.
fn upgrades_turn_listeners_on_and_off(cluster: &Cluster) -> Result<()> {
    let tls = json!({"tlsListen": ["0.0.0.0:5853"]});
    let https = json!({"tlsListen": ["0.0.0.0:5853"], "httpsListen": ["0.0.0.0:8443"]});
    let all = json!({"tlsListen": ["0.0.0.0:5853"], "httpsListen": ["0.0.0.0:8443"], "quicListen": ["0.0.0.0:8853"]});
    let quic = json!({"quicListen": ["0.0.0.0:8853"]});
    let (usual, other) = (json!([]), json!(["0.0.0.0:1053", "[::]:1053"]));
    for (encrypted, listen, needs_force) in [
        (&json!({}), &usual, false),
        (&tls, &usual, false),
        (&https, &usual, false),
        (&all, &usual, true),
        (&all, &usual, false),
        (&tls, &usual, true),
        (&quic, &usual, false),
        (&quic, &other, true),
        (&all, &usual, true),
        (&quic, &usual, true),
        (&json!({}), &usual, false),
    ] {
        let mut values = with(json!({"encrypted": encrypted, "listen": listen}));
        values["encrypted"]["secretName"] = json!("certificate");
        let flags: &[&str] = if needs_force { &["--force"] } else { &[] };
        let notes = upgrade(cluster, &values, flags)?;
        ensure!(
            notes.contains("--force") == needs_force,
            "{values}: {notes}"
        );
        has_the_ports(cluster, &values).with_context(|| format!("{values}"))?;
    }
    // Once Helm does better, the notes need not say it.
    let values = |encrypted: &Value| {
        let mut values = with(json!({"encrypted": encrypted}));
        values["encrypted"]["secretName"] = json!("certificate");
        values
    };
    upgrade(cluster, &values(&tls), &[])?;
    let done = upgrade(cluster, &values(&all), &[]);
    let done = done.and_then(|_| has_the_ports(cluster, &values(&all)));
    ensure!(done.is_err(), "--force is not needed");
    uninstall(cluster)
}

/// Service and workload have the ports that the chart gives them.
fn has_the_ports(cluster: &Cluster, values: &Value) -> Result<()> {
    let rendered = template(values)?;
    for wanted in [rendered.service()?, rendered.workload()?] {
        let found = cluster.get(wanted)?.context("it is not there")?;
        let (found, wanted) = (all_ports(&found.data), all_ports(wanted));
        ensure!(found == wanted, "{found:?}, not {wanted:?}");
    }
    Ok(())
}

/// Names, numbers and protocols of the ports of a Service, or of the container of a workload.
fn all_ports(object: &Value) -> BTreeSet<(String, u64, String)> {
    let spec = &object["spec"];
    let of_service = spec["ports"].as_array();
    let of_container = || spec["template"]["spec"]["containers"][0]["ports"].as_array();
    let ports = of_service.or_else(of_container).into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let port = |port: &Value| {
        let number = port["port"].as_u64().or(port["containerPort"].as_u64());
        (
            text(&port["name"]),
            number.unwrap_or_default(),
            text(&port["protocol"]),
        )
    };
    ports.map(port).collect()
}

/// The stanza that users copy, with another address.
fn stanza(address: &str) -> Result<String> {
    let text = std::fs::read_to_string(repository("coredns/Corefile"))?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let stanza: Vec<&str> = lines.collect();
    let stanza = stanza.join("\n");
    ensure!(
        stanza.contains("10.96.0.53"),
        "coredns/Corefile has another address: {text}"
    );
    Ok(stanza.trim().replace("10.96.0.53", address))
}
