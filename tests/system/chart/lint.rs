//! `helm lint`, invalid values that Helm refuses by name, and the table of the README.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::commands::command;
use support::output::print_line;
use support::process::run;
use support::repository::repository;

use crate::chart::values::{every_flag, matrix, minimum, with};
use support::helm::{chart, helm, helm_without_values, try_template};

#[test]
fn helm_lint_reports_no_problem() -> Result<()> {
    let chart = chart();
    for (name, values) in matrix() {
        let ended = helm(
            &["lint", "--strict", "--kube-version", "1.33.0", &chart],
            &values,
        )?;
        let text = &ended.stdout;
        ensure!(ended.is_success(), "helm lint with {name}: {text}");
    }
    Ok(())
}

#[test]
fn invalid_values_are_rejected_with_their_names() -> Result<()> {
    let cases = [
        (
            json!({"image": {"repository": "localhost/global-dns"}}),
            "clusterName is required",
        ),
        (
            json!({"clusterName": "hub"}),
            "image.repository is required",
        ),
        (json!({"clusterName": "Hub"}), "at '/clusterName': 'Hub'"),
        (
            json!({"clusterName": 7}),
            "at '/clusterName': got number, want string",
        ),
        (
            with(json!({"replica": 3})),
            "additional properties 'replica' not allowed",
        ),
        (
            with(json!({"replicas": "many"})),
            "at '/replicas': got string, want null or integer",
        ),
        (
            with(json!({"replicas": -1})),
            "at '/replicas': minimum: got -1, want 0",
        ),
        (
            with(json!({"kind": "StatefulSet"})),
            "at '/kind': value must be one of 'Deployment', 'DaemonSet'",
        ),
        (with(json!({"zones": []})), "at '/zones': minItems"),
        (
            with(json!({"zones": "global"})),
            "at '/zones': got string, want array",
        ),
        (with(json!({"zones": ["-x"]})), "at '/zones/0': '-x'"),
        (
            with(json!({"namespaces": ["Prod"]})),
            "at '/namespaces/0': 'Prod'",
        ),
        (
            with(json!({"clusterAliases": {"west": "West"}})),
            "at '/clusterAliases/west': 'West'",
        ),
        (with(json!({"ttl": 0})), "at '/ttl': minimum: got 0, want 1"),
        (
            with(json!({"udpMax": 5000})),
            "at '/udpMax': maximum: got 5,000, want 4,096",
        ),
        (with(json!({"udpWorkers": 0})), "at '/udpWorkers': minimum"),
        (
            with(json!({"shortNames": {"which": "some"}})),
            "at '/shortNames/which': value must be one of",
        ),
        (
            with(json!({"gatewayDown": "never"})),
            "at '/gatewayDown': value must be one of",
        ),
        (
            with(json!({"links": {"enabled": "yes"}})),
            "at '/links/enabled': got string, want boolean",
        ),
        (
            with(json!({"links": {"namespace": "Linkerd"}})),
            "at '/links/namespace': 'Linkerd'",
        ),
        (
            with(json!({"links": {"namespace": []}})),
            "at '/links/namespace': minItems",
        ),
        (
            with(json!({"links": {"namespace": null}})),
            "links.namespace is required with links.enabled",
        ),
        (
            with(json!({"links": {"unlinkedAfter": "5"}})),
            "at '/links/unlinkedAfter': '5'",
        ),
        (
            with(json!({"order": "random"})),
            "at '/order': value must be one of",
        ),
        (
            with(json!({"graceSeconds": "10s"})),
            "at '/graceSeconds': got string, want integer",
        ),
        (with(json!({"listen": ["5353"]})), "at '/listen/0': '5353'"),
        (
            with(json!({"log": {"level": "warning"}})),
            "at '/log/level': 'warning'",
        ),
        (
            with(json!({"log": {"level": "a b"}})),
            "at '/log/level': 'a b'",
        ),
        (
            with(json!({"encrypted": {"tlsListen": ["0.0.0.0:5853"]}})),
            "encrypted.secretName is required",
        ),
        (
            with(json!({"encrypted": {"quicListen": ["0.0.0.0:5853"]}})),
            "encrypted.secretName is required",
        ),
        (
            with(json!({"encrypted": {"secretName": "tls", "clientCASecretName": "ca"}})),
            "encrypted.clientCASecretName needs a listener: \
             set encrypted.tlsListen or encrypted.quicListen",
        ),
        (
            with(json!({"encrypted": {"clientCASecretName": ["ca"]}})),
            "at '/encrypted/clientCASecretName': got array, want string",
        ),
        (
            with(json!({"encrypted": {"quicListen": ["853"]}})),
            "at '/encrypted/quicListen/0': '853'",
        ),
        (
            with(json!({"apiHosts": ["dns.example.com:9154"]})),
            "at '/apiHosts/0': 'dns.example.com:9154'",
        ),
        (
            with(json!({"log": {"format": "xml"}})),
            "at '/log/format': value must be one of 'text', 'json'",
        ),
        (
            with(json!({"image": {"digest": "latest"}})),
            "at '/image/digest': 'latest'",
        ),
        (
            with(json!({"service": {"clusterIP": "None"}})),
            "at '/service/clusterIP': 'None'",
        ),
        (
            with(json!({"service": {"internalTrafficPolicy": "local"}})),
            "at '/service/internalTrafficPolicy'",
        ),
        (
            with(json!({"service": {"type": "ExternalName"}})),
            "at '/service/type': value must be one of 'ClusterIP', 'NodePort', 'LoadBalancer'",
        ),
        (
            with(json!({"service": {"loadBalancerIP": "dns.example.com"}})),
            "at '/service/loadBalancerIP': 'dns.example.com'",
        ),
        (
            with(json!({"service": {"externalIPs": ["*"]}})),
            "at '/service/externalIPs/0': '*'",
        ),
        (
            with(json!({"service": {"externalTrafficPolicy": "local"}})),
            "at '/service/externalTrafficPolicy'",
        ),
        (
            with(json!({"service": {"trafficDistribution": "Near"}})),
            "at '/service/trafficDistribution'",
        ),
        (
            with(json!({"service": {"loadBalancerSourceRanges": ["everybody"]}})),
            "at '/service/loadBalancerSourceRanges/0': 'everybody'",
        ),
        (
            with(json!({"commonLabels": {"team": 7}})),
            "at '/commonLabels/team': got number, want string",
        ),
        (
            with(json!({"updateStrategy": {"maxSurge": 1}})),
            "at '/updateStrategy': additional properties 'maxSurge' not allowed",
        ),
        (
            with(json!({"podSecurityContext": {"runAsRoot": true}})),
            "at '/podSecurityContext': additional properties 'runAsRoot' not allowed",
        ),
        (
            with(json!({"securityContext": {"readOnly": true}})),
            "at '/securityContext': additional properties 'readOnly' not allowed",
        ),
        (
            with(json!({"livenessProbe": {"httpGet": {"path": "/"}}})),
            "at '/livenessProbe': additional properties 'httpGet' not allowed",
        ),
        (
            with(json!({"readinessProbe": {"periodSeconds": 0}})),
            "at '/readinessProbe/periodSeconds': minimum: got 0, want 1",
        ),
        (
            with(json!({"extraEnv": [{"value": "without a name"}]})),
            "at '/extraEnv/0': missing property 'name'",
        ),
        (
            with(json!({"dnsPolicy": "Cluster"})),
            "at '/dnsPolicy': value must be one of",
        ),
        (
            with(json!({"hostNetwork": "yes"})),
            "at '/hostNetwork': got string, want boolean",
        ),
        (
            with(json!({"topologySpreadConstraints": [{"topologyKey": "rack"}]})),
            "at '/topologySpreadConstraints/0': missing properties 'maxSkew', 'whenUnsatisfiable'",
        ),
        (
            with(json!({"revisionHistoryLimit": -1})),
            "at '/revisionHistoryLimit': minimum: got -1, want 0",
        ),
        (
            with(json!({"graceSeconds": 30, "terminationGracePeriodSeconds": 39})),
            "terminationGracePeriodSeconds is 39; with graceSeconds 30 it must be at least 40",
        ),
        (
            with(json!({"networkPolicy": {"egress": true}})),
            "at '/networkPolicy/egress': got boolean",
        ),
        (
            with(json!({"podDisruptionBudget": {"maxUnavailable": "one"}})),
            "at '/podDisruptionBudget/maxUnavailable': 'one'",
        ),
        (
            with(json!({"alerts": {"ignoredConflicts": ["all"]}})),
            "at '/alerts/ignoredConflicts/0'",
        ),
        (
            with(json!({"alerts": {"runbookURL": "docs/alerts"}})),
            "at '/alerts/runbookURL': 'docs/alerts' does not match pattern",
        ),
        // Earlier names.
        (
            with(json!({"alerts": {"manualUrl": "https://docs.example.com"}})),
            "at '/alerts': additional properties 'manualUrl' not allowed",
        ),
        (
            with(json!({"prometheusRule": {"enabled": true}})),
            "prometheusRule is now alerts: rename it in your values",
        ),
        (
            with(json!({"scrapeAnnotations": "yes"})),
            "at '/scrapeAnnotations': got string, want boolean",
        ),
        (
            with(json!({"serviceMonitor": {"enabled": "yes"}})),
            "at '/serviceMonitor/enabled': got string, want boolean",
        ),
    ];
    for (values, expected) in &cases {
        let ended = try_template(values)?;
        let text = &ended.stderr;
        ensure!(!ended.is_success(), "helm accepts {values}");
        ensure!(
            text.contains(expected),
            "{values}: the error lacks '{expected}': {text}"
        );
    }
    // The same values without the error are accepted.
    ensure!(
        try_template(&minimum())?.is_success(),
        "helm rejects the minimum values"
    );
    ensure!(
        try_template(&every_flag().into())?.is_success(),
        "helm rejects the values of every flag"
    );
    print_line(&format!(
        "{} invalid values, each rejected with its name",
        cases.len()
    ));
    Ok(())
}

/// Helm stores the package in the cluster, in the Secret of each revision of a release.
#[test]
fn the_package_has_no_manual_and_no_examples() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let place = folder.path().display().to_string();
    let ended = helm_without_values(&["package", &chart(), "--destination", &place])?;
    ensure!(ended.is_success(), "{}", ended.stderr);
    let package = fs::read_dir(&folder)?.next().context("no package")??;
    let listed = run(command("tar").arg("-tzf").arg(package.path())).stdout;
    let mut folders: BTreeSet<&str> = BTreeSet::new();
    let mut files = BTreeSet::new();
    for path in listed.lines() {
        let path = path.strip_prefix("global-dns/").context("another folder")?;
        match path.split_once('/') {
            Some((folder, _)) => folders.insert(folder),
            None => files.insert(path),
        };
    }
    ensure!(folders == ["dashboards", "templates"].into(), "{listed}");
    let expected = [
        ".helmignore",
        "Chart.yaml",
        "README.md",
        "values.schema.json",
        "values.yaml",
    ];
    ensure!(files == expected.into(), "{listed}");
    Ok(())
}

#[test]
fn the_readme_lists_each_value_once_with_its_default() -> Result<()> {
    let document = fs::read_to_string(repository("charts/global-dns/README.md"))?;
    let (_, tables) = document
        .split_once("\n## Values\n")
        .context("the document has no section 'Values'")?;
    let tables = tables.split("\n## ").next().unwrap_or_default();
    let mut listed = BTreeMap::new();
    for row in tables.lines().filter_map(|line| line.strip_prefix("| `")) {
        let (name, rest) = row.split_once("` | `").context("a row has no default")?;
        let (default, _) = rest.split_once("` | ").context("a row has no meaning")?;
        let default: Value = serde_saphyr::from_str(&format!("default: {default}"))?;
        let former = listed.insert(name.to_owned(), default["default"].clone());
        ensure!(former.is_none(), "{name} is listed twice");
    }
    let values = fs::read_to_string(repository("charts/global-dns/values.yaml"))?;
    take_listed("", &serde_saphyr::from_str(&values)?, &mut listed)?;
    ensure!(listed.is_empty(), "the chart has no values {listed:?}");
    Ok(())
}

/// Removes a value from the list of defaults. If it is not listed, removes each of its fields.
fn take_listed(name: &str, value: &Value, listed: &mut BTreeMap<String, Value>) -> Result<()> {
    if let Some(default) = listed.remove(name) {
        ensure!(
            default == *value,
            "the default of {name} is {value}, not {default}"
        );
        return Ok(());
    }
    let fields = value.as_object().filter(|fields| !fields.is_empty());
    let fields = fields.with_context(|| format!("{name} is not listed"))?;
    for (field, value) in fields {
        let separator = if name.is_empty() { "" } else { "." };
        take_listed(&format!("{name}{separator}{field}"), value, listed)?;
    }
    Ok(())
}
