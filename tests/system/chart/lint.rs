//! `helm lint`, and invalid values that Helm refuses by name.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use support::output::print_line;
use support::repository::repository;

use crate::chart::values::{matrix, minimum, with, with_settings};
use support::helm::{chart, helm, try_template};

/// Values as in a file of values, and a part of the error. Only the first lines do not have the minimum values.
const INVALID: &str = r#"
{image: {repository: localhost/global-dns}}      => at '/config': missing property 'clusterName'
{config: {clusterName: hub}}                     => image.repository is required

config: {clusterName: ""}                        => at '/config/clusterName': '' does not match
config: {clusterName: Hub}                       => at '/config/clusterName': 'Hub' does not match
config: {clusterName: 7}                         => at '/config/clusterName': got number
config: {tll: 5}                                 => at '/config': additional properties 'tll' not allowed
config: {ttl: 0}                                 => at '/config/ttl': minimum: got 0, want 1
config: {ttl: 5s}                                => at '/config/ttl': got string
config: {listen: {dns: [":53"]}}                 => at '/config': additional properties 'listen' not allowed
config: {tls: {key: /key}}                       => at '/config': additional properties 'tls' not allowed
config: {zones: global}                          => at '/config/zones': got string
config: {zones: [{name: a.local, grammar: dns}]} => at '/config/zones/0'
config: {namespaces: [Prod]}                     => at '/config/namespaces/0': 'Prod' does not match
config: {clusterAliases: {west: West}}           => at '/config/clusterAliases/west': 'West' does not match
config: {localMembers: off}                      => at '/config/localMembers'
config: {gatewayDown: never}                     => at '/config/gatewayDown'
config: {shortNames: {which: some}}              => at '/config/shortNames/which'
config: {services: {prod/db: {ttl: 31}}}         => at '/config/services/prod~1db/ttl': maximum: got 31, want 30
config: {services: {prod/db: {order: east}}}     => at '/config/services/prod~1db': additional properties 'order'
config: {failover: {delay: 2}}                   => at '/config/failover/delay': got number
config: {links: {enabled: "yes"}}                => at '/config/links/enabled': got string
config: {links: {unlinkedAfter: "5"}}            => at '/config/links/unlinkedAfter': '5' does not match
config: {answers: {udpMax: 5000}}                => at '/config/answers/udpMax': maximum: got 5,000, want 4,096
config: {answers: {order: random}}               => at '/config/answers/order'
config: {limits: {connections: 1}}               => at '/config/limits/connections': minimum: got 1, want 2
config: {history: 1 day}                         => at '/config/history': '1 day' does not match
config: {log: {format: xml}}                     => at '/config/log/format'
clusterName: hub                                 => at '': additional properties 'clusterName' not allowed
replicas: many                                   => at '/replicas': got string, want null or integer
kind: StatefulSet                                => at '/kind': value must be one of 'Deployment', 'DaemonSet'
quic: {enabled: true}                            => at '/tls/secretName': minLength: got 0, want 1
tls: {clientCASecretName: clients}               => at '/tls/secretName': minLength: got 0, want 1
image: {digest: latest}                          => at '/image/digest': 'latest'
service: {clusterIP: None}                       => at '/service/clusterIP': 'None'
service: {type: ExternalName}                    => at '/service/type': value must be one of
service: {internalTrafficPolicy: local}          => at '/service/internalTrafficPolicy'
commonLabels: {team: 7}                          => at '/commonLabels/team': got number, want string
updateStrategy: {maxSurge: 1}                    => at '/updateStrategy': additional properties 'maxSurge'
podDisruptionBudget: {maxUnavailable: one}       => at '/podDisruptionBudget/maxUnavailable': 'one'
networkPolicy: {egress: true}                    => at '/networkPolicy/egress': got boolean
alerts: {enabled: true}                          => at '/serviceMonitor/enabled': value must be true
config: {zones: []}                              => at '/config/zones': minItems: got 0, want 1
config: {zones: [a b]}                           => at '/config/zones/0'
alerts: {runbookURL: docs/alerts}                => at '/alerts/runbookURL': 'docs/alerts' does not match pattern
"#;

#[test]
fn helm_lint_reports_no_problem() -> Result<()> {
    let chart = chart();
    for (name, values) in matrix() {
        let arguments = ["lint", "--strict", "--kube-version", "1.33.0", &chart];
        let ended = helm(&arguments, &values)?;
        ensure!(ended.is_success(), "{name}: {}", ended.stdout);
    }
    Ok(())
}

#[test]
fn invalid_values_are_rejected_with_their_names() -> Result<()> {
    let lines: Vec<&str> = INVALID.lines().filter(|line| !line.is_empty()).collect();
    for line in &lines {
        let (given, expected) = line.split_once(" => ").context("no error")?;
        let values: Value = serde_saphyr::from_str(given)?;
        let values = match values.get("config") {
            _ if given.starts_with('{') => values,
            Some(settings) => with_settings(settings),
            None => with(values),
        };
        let ended = try_template(&values)?;
        ensure!(!ended.is_success(), "helm accepts {given}");
        let error = ended.stderr;
        ensure!(error.contains(expected), "{line}: {error}");
    }
    let accepted = try_template(&minimum())?;
    ensure!(accepted.is_success(), "{}", accepted.stderr);
    print_line(&format!("{} invalid values", lines.len()));
    Ok(())
}

/// Helm reads `on`, `off`, `yes` and `no` as booleans, unless they are quoted.
#[test]
fn no_value_of_an_enum_is_a_boolean_of_yaml() -> Result<()> {
    fn values(schema: &Value, found: &mut BTreeSet<String>) {
        let several = schema["enum"].as_array().into_iter().flatten();
        let all = several.chain([&schema["const"]]).filter_map(Value::as_str);
        found.extend(all.map(str::to_lowercase));
        let fields = schema
            .as_object()
            .into_iter()
            .flat_map(|object| object.values());
        let items = schema.as_array().into_iter().flatten();
        fields.chain(items).for_each(|inner| values(inner, found));
    }
    let schema = fs::read_to_string(repository("charts/global-dns/values.schema.json"))?;
    let mut found = BTreeSet::new();
    values(&serde_json::from_str(&schema)?, &mut found);
    ensure!(found.contains("last-resort"), "{found:?}");
    for boolean in ["y", "n", "yes", "no", "on", "off", "true", "false"] {
        ensure!(!found.contains(boolean), "{boolean}");
    }
    Ok(())
}
