//! `helm install` and `helm upgrade` in a real API server, and their notes.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::repository::repository;
use support::steps::Steps;

use crate::chart::permissions::serve;
use crate::chart::values::{minimum, with, with_settings};
use support::helm::{NAMESPACE, RELEASE, chart, helm, helm_without_values, template};

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.step("notes_have_the_address_that_kubernetes_assigned", || {
        check_notes(cluster)
    });
    steps.step(
        "name_server_of_the_zone_is_the_address_of_the_service",
        || check_name_server(cluster),
    );
    steps.step("upgrades_add_and_remove_listeners", || {
        check_upgrades_of_listeners(cluster)
    });
    steps.step("namespace_of_links_must_exist", || {
        check_namespace_of_links(cluster)
    });
}

/// Installs or upgrades the chart with these values, and returns the notes.
pub fn install(cluster: &Cluster, values: &Value) -> Result<String> {
    upgrade(cluster, values, &[])
}

/// Installs or upgrades the chart with additional flags for Helm.
pub fn upgrade(cluster: &Cluster, values: &Value, flags: &[&str]) -> Result<String> {
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

/// The first notes have a command for the address, the later ones the stanza for CoreDNS with it.
fn check_notes(cluster: &Cluster) -> Result<()> {
    let notes = install(cluster, &minimum())?;
    let command = format!("kubectl --namespace {NAMESPACE} get service {RELEASE} ");
    ensure!(notes.contains(&command), "{notes}");
    ensure!(notes.contains(&stanza("ADDRESS")?), "{notes}");
    let address = service_address(cluster)?;
    let notes = install(cluster, &minimum())?;
    ensure!(notes.contains(&stanza(&address)?), "{notes}");
    ensure!(notes.lines().count() < 20, "{notes}");
    ensure!(!notes.contains("ADDRESS"), "{notes}");
    uninstall(cluster)
}

/// Every replica answers with the address of the Service, also if Kubernetes assigned it.
fn check_name_server(cluster: &Cluster) -> Result<()> {
    for service in [json!({}), json!({"clusterIP": "10.96.0.53"})] {
        let values = with(json!({"service": service}));
        install(cluster, &values)?;
        let address = service_address(cluster)?;
        let server = serve(cluster, &values)?;
        server.wait_until_ready();
        let explained = server.try_items("explain?name=ns.dns.global")?;
        let answer = explained.iter().find(|one| one["section"] == "answers");
        let records = &answer.context("no answer")?["records"];
        let is_address = records[0]["data"] == address && records[1].is_null();
        ensure!(is_address, "{records}, expected {address}");
        uninstall(cluster)?;
    }
    Ok(())
}

/// Returns the cluster IP of the installed Service.
pub fn service_address(cluster: &Cluster) -> Result<String> {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": NAMESPACE, "name": RELEASE}});
    let service = cluster.get(&service)?.context("no Service")?;
    let address = service.data["spec"]["clusterIP"].as_str();
    Ok(address.context("no address")?.to_owned())
}

/// Helm cannot create a Role in a namespace that does not exist.
fn check_namespace_of_links(cluster: &Cluster) -> Result<()> {
    let links = |enabled: bool| {
        with_settings(&json!({"links": {"enabled": enabled, "namespaces": ["nowhere"]}}))
    };
    let refused = install(cluster, &links(true));
    let error = refused
        .err()
        .context("Helm creates a Role in no namespace")?;
    let error = format!("{error:#}");
    ensure!(error.contains("\"nowhere\" not found"), "{error}");
    uninstall(cluster)?;
    install(cluster, &links(false))?;
    uninstall(cluster)
}

/// Helm 3 merges lists of ports by number. If one number has two protocols, the notes require `--force`.
fn check_upgrades_of_listeners(cluster: &Cluster) -> Result<()> {
    let values = |secret: &str, quic: bool| {
        with(json!({"tls": {"secretName": secret}, "quic": {"enabled": quic}}))
    };
    for (secret, quic, needs_force) in [
        ("", false, false),
        ("certificate", false, false),
        ("certificate", true, true),
        ("certificate", false, true),
        ("certificate", true, true),
        ("", false, false),
    ] {
        let values = values(secret, quic);
        let flags: &[&str] = if needs_force { &["--force"] } else { &[] };
        let notes = upgrade(cluster, &values, flags)?;
        let is_told = notes.contains("--force");
        ensure!(is_told == needs_force, "{values}: {notes}");
        check_ports(cluster, &values).with_context(|| format!("{values}"))?;
    }
    // If a new Helm succeeds here, the notes no longer need to mention it.
    let (before, after) = (values("certificate", false), values("certificate", true));
    upgrade(cluster, &before, &[])?;
    let done = upgrade(cluster, &after, &[]).and_then(|_| check_ports(cluster, &after));
    ensure!(done.is_err(), "the upgrade succeeds without --force");
    uninstall(cluster)
}

/// Checks that Service and workload have the rendered ports.
fn check_ports(cluster: &Cluster, values: &Value) -> Result<()> {
    let rendered = template(values)?;
    for wanted in [rendered.service()?, rendered.workload()?] {
        let found = cluster.get(wanted)?.context("the object does not exist")?;
        let (found, wanted) = (all_ports(&found.data), all_ports(wanted));
        ensure!(found == wanted, "found {found:?}, expected {wanted:?}");
    }
    Ok(())
}

/// Returns names, numbers and protocols of the ports of a Service, or of a workload's container.
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

/// Returns the documented stanza with another address.
fn stanza(address: &str) -> Result<String> {
    let text = std::fs::read_to_string(repository("coredns/Corefile"))?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let stanza: Vec<&str> = lines.collect();
    let stanza = stanza.join("\n");
    ensure!(stanza.contains("10.96.0.53"), "coredns/Corefile: {text}");
    Ok(stanza.trim().replace("10.96.0.53", address))
}
