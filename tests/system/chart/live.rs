//! A real Prometheus scrapes real servers during an incident: no panel is empty, and alerts fire.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use support::output::print_line;
use support::wait::eventually;

use crate::chart::dashboard::{Target, dashboard, targets};
use crate::chart::incident::Incident;
use crate::chart::prometheus::{FLEET_CLUSTER, Prometheus};
use crate::chart::values::with;
use support::helm::{Rendered, template};

/// Alerts that the incident cannot cause, with the reason. `alerts` tests their expressions with written series.
const CANNOT_FIRE: [(&str, &str); 5] = [
    (
        "GlobalDnsClusterFrozen",
        "the API server of the incident has no Leases",
    ),
    (
        "GlobalDnsClusterUnlinked",
        "the API server of the incident has no Links",
    ),
    ("GlobalDnsPanics", "no query is known that causes a panic"),
    (
        "GlobalDnsSourcePanics",
        "no object is known that causes a panic",
    ),
    (
        "GlobalDnsUnsentResponses",
        "the kernel sends every reply on loopback",
    ),
];
/// Alerts that fire or not, with the reason.
const MAY_FIRE: [(&str, &str); 1] = [(
    "GlobalDnsReplicasDiffer",
    "replicas are compared at multiples of five minutes of the clock, and the incident is shorter",
)];
/// Panels that are not empty but show only zeros, with the reason.
const ZERO: [(&str, &str); 2] = [
    ("Panics", "no query or object is known that causes a panic"),
    ("Panics by replica", "as 'Panics'"),
];
/// Name of an installation without pods.
const NOBODY: &str = "nobody";
/// The metrics of the process with their types.
const PROCESS: [(&str, &str); 7] = [
    ("process_cpu_seconds_total", "counter"),
    ("process_max_fds", "gauge"),
    ("process_open_fds", "gauge"),
    ("process_resident_memory_bytes", "gauge"),
    ("process_start_time_seconds", "gauge"),
    ("process_threads", "gauge"),
    ("process_virtual_memory_bytes", "gauge"),
];

#[test]
fn prometheus_fills_every_panel_and_fires_the_alerts() -> Result<()> {
    let rendered = render("global-dns")?;
    let [mut groups, mut absent] = [groups(&rendered)?, groups(&render(NOBODY)?)?];
    // Alerts fire at once. `alerts` tests their delays.
    for rule in rules_mut(&mut groups).chain(rules_mut(&mut absent)) {
        rule["for"] = json!("0s");
    }
    let mut incident = Incident::start()?;
    let prometheus = Prometheus::start(&incident.pods(), &[groups.clone(), absent].concat())?;
    incident.happen()?;

    let queries = targets(&dashboard(&rendered)?)?;
    check_panels(&prometheus, &queries)?;
    check_timeline(&prometheus, &queries)?;
    check_alerts(&prometheus, &mut groups)?;
    check_variables(&prometheus)?;
    check_process_metrics(&prometheus)?;
    check_external_label(&prometheus)
}

/// Renders rules and dashboard of an installation with all alerts.
fn render(name: &str) -> Result<Rendered> {
    template(&with(json!({
        "fullnameOverride": name,
        // The incident does not last for minutes.
        "alerts": {"enabled": true, "tableAgeSeconds": 5},
        "dashboard": {"enabled": true},
        "encrypted": {"secretName": "tls", "tlsListen": ["0.0.0.0:5853"]},
    })))
}

/// Returns the groups of the rendered rules.
pub fn groups(rendered: &Rendered) -> Result<Vec<Value>> {
    let groups = rendered.only("PrometheusRule")?["spec"]["groups"].as_array();
    Ok(groups.context("the rule has no groups")?.clone())
}

/// Returns all rules of groups.
pub fn rules_mut(groups: &mut [Value]) -> impl Iterator<Item = &mut Value> {
    let groups = groups.iter_mut();
    groups
        .filter_map(|group| group["rules"].as_array_mut())
        .flatten()
}

/// Waits until each query has a result and each panel shows an event.
fn check_panels(prometheus: &Prometheus, targets: &[Target]) -> Result<()> {
    let zero: BTreeSet<&str> = ZERO.iter().map(|(panel, _)| *panel).collect();
    let mut shown = BTreeSet::new();
    eventually("all panels", || {
        for Target { panel, expression } in targets {
            let values = prometheus.values(expression)?;
            ensure!(!values.is_empty(), "panel {panel} is empty: {expression}");
            if values.iter().any(|value| *value > 0.0) {
                shown.insert(panel.as_str());
            }
        }
        let expected = targets.iter().map(|target| target.panel.as_str());
        let missing: Vec<&str> = expected
            .filter(|panel| !shown.contains(panel) && !zero.contains(panel))
            .collect();
        ensure!(missing.is_empty(), "panels with zeros only: {missing:?}");
        Ok(())
    })?;
    let wrong: Vec<_> = zero.intersection(&shown).collect();
    ensure!(wrong.is_empty(), "panels that are not zero: {wrong:?}");
    print_line(&format!(
        "{} queries of {} panels have results",
        targets.len(),
        shown.len() + zero.len()
    ));
    for (panel, reason) in ZERO {
        print_line(&format!("only zeros in '{panel}': {reason}"));
    }
    Ok(())
}

/// Checks the states of the timeline. A cluster shows its worst state.
fn check_timeline(prometheus: &Prometheus, targets: &[Target]) -> Result<()> {
    let timeline = targets.iter().find(|target| target.panel == "Clusters");
    let Target { expression, .. } = timeline.context("no panel Clusters")?;
    for (cluster, state) in [("east", 2.0), ("hub", 1.0), ("west", 3.0)] {
        let of = format!(
            "({expression}) and on (remote_cluster) global_dns_endpoints{{remote_cluster=\"{cluster}\",pod=\"linked\"}}"
        );
        let values = prometheus.values(&of)?;
        ensure!(values.last() == Some(&state), "{cluster}: {values:?}");
        let before = if cluster == "east" { 0.0 } else { state };
        ensure!(values.first() == Some(&before), "{cluster}: {values:?}");
    }
    Ok(())
}

/// Waits until every alert fires that can, and checks that no other one does and that each text is complete.
fn check_alerts(prometheus: &Prometheus, groups: &mut [Value]) -> Result<()> {
    let names = rules_mut(groups).filter_map(|rule| rule["alert"].as_str());
    let cannot: BTreeSet<&str> = CANNOT_FIRE.iter().map(|(alert, _)| *alert).collect();
    let may: BTreeSet<&str> = MAY_FIRE.iter().map(|(alert, _)| *alert).collect();
    // The installation without pods has this alert, and no other one.
    let absent = "GlobalDnsAbsent";
    let expected: BTreeSet<String> = names
        .filter(|name| !cannot.contains(name) && !may.contains(name))
        .map(str::to_owned)
        .collect();
    let alerts = eventually("all alerts", || {
        let alerts = prometheus.api("alerts", &[])?["alerts"].take();
        let alerts = alerts.as_array().context("no alerts")?.clone();
        let firing: BTreeSet<String> = alerts
            .iter()
            .filter(|alert| alert["state"] == "firing")
            .filter_map(|alert| Some(alert["labels"]["alertname"].as_str()?.to_owned()))
            .collect();
        let missing: Vec<&String> = expected.difference(&firing).collect();
        ensure!(missing.is_empty(), "not firing: {missing:?}");
        let wrong = firing.difference(&expected);
        let wrong: Vec<&String> = wrong.filter(|name| !may.contains(name.as_str())).collect();
        ensure!(wrong.is_empty(), "firing without a reason: {wrong:?}");
        Ok(alerts)
    })?;
    for alert in &alerts {
        for text in ["summary", "description"] {
            let text = alert["annotations"][text]
                .as_str()
                .context("no annotation")?;
            let is_incomplete = ["{{", "<no value>", "error", " of  ", "endpoints of ."]
                .iter()
                .any(|bad| text.contains(bad));
            ensure!(!is_incomplete, "{}: {text}", alert["labels"]);
        }
    }
    let of_absent = alerts
        .iter()
        .filter(|alert| alert["labels"]["alertname"] == absent);
    let jobs: Vec<&Value> = of_absent.map(|alert| &alert["labels"]["job"]).collect();
    ensure!(jobs == [NOBODY], "{absent}: {jobs:?}");
    let rules = prometheus.api("rules", &[])?;
    let rules = rules["groups"].as_array().into_iter().flatten();
    for rule in rules.flat_map(|group| group["rules"].as_array().into_iter().flatten()) {
        ensure!(rule["health"] == "ok", "{rule}");
    }
    print_line(&format!("{} alerts fire", expected.len()));
    for (alert, reason) in CANNOT_FIRE {
        print_line(&format!("{alert} does not fire: {reason}"));
    }
    for (alert, reason) in MAY_FIRE {
        print_line(&format!("{alert} may fire: {reason}"));
    }
    Ok(())
}

/// Checks that the variables of the dashboard have values.
fn check_variables(prometheus: &Prometheus) -> Result<()> {
    for (label, value) in [("namespace", "dns"), ("job", "global-dns")] {
        let path = format!("label/{label}/values");
        let found = prometheus.api(&path, &[("match[]", "global_dns_build_info")])?;
        ensure!(found == json!([value]), "{label}: {found}");
    }
    Ok(())
}

/// Checks type and help of the metrics of the process, as Prometheus has read them.
fn check_process_metrics(prometheus: &Prometheus) -> Result<()> {
    let metadata = prometheus.api("metadata", &[])?;
    for (metric, kind) in PROCESS {
        // OpenMetrics describes a counter without the suffix.
        let found = &metadata[metric.trim_end_matches("_total")][0];
        ensure!(found["type"] == kind, "{metric}: {found}");
        let help = found["help"].as_str().unwrap_or_default();
        ensure!(!help.is_empty(), "{metric} has no help");
        let values = prometheus.values(metric)?;
        let is_positive = values.iter().all(|value| *value > 0.0);
        ensure!(
            !values.is_empty() && (is_positive || kind == "counter"),
            "{metric}: {values:?}"
        );
    }
    Ok(())
}

/// Checks that a fleet keeps its own label `cluster`. Labels of a series take precedence over external labels.
fn check_external_label(prometheus: &Prometheus) -> Result<()> {
    let page = prometheus.federated("{__name__=~\"global_dns_.*|process_.*\"}")?;
    let mut remote = BTreeSet::new();
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let label = format!("cluster=\"{FLEET_CLUSTER}\"");
        let labels: Vec<&str> = line
            .split(['{', '}'])
            .nth(1)
            .context("no labels")?
            .split(',')
            .collect();
        ensure!(labels.contains(&label.as_str()), "{line}");
        remote.extend(
            labels
                .iter()
                .filter_map(|label| label.strip_prefix("remote_cluster=")),
        );
    }
    if remote != BTreeSet::from(["\"east\"", "\"hub\"", "\"west\""]) {
        bail!("clusters: {remote:?}");
    }
    Ok(())
}
