//! `helm lint`, and invalid values that Helm refuses by name.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use support::output::print_line;

use crate::chart::values::{matrix, minimum, with, with_settings};
use support::helm::{chart, helm, try_template};

/// Values as in a file of values, and a part of the error. Only the first lines do not have the minimum values. Each kind of rule
/// occurs once for `config`: a test of the manual compares the schema of all settings with theirs.
const INVALID: &str = r#"
{image: {repository: localhost/global-dns}}      => at '/config': missing property 'clusterName'
{config: {clusterName: hub}}                     => image.repository is required

config: {clusterName: ""}                        => at '/config/clusterName': '' does not match
config: {tll: 5}                                 => at '/config': additional properties 'tll' not allowed
config: {ttl: 0}                                 => at '/config/ttl': minimum: got 0, want 1
config: {ttl: 5s}                                => at '/config/ttl': got string
config: {listen: {dns: [":53"]}}                 => at '/config': additional properties 'listen' not allowed
config: {tls: {key: /key}}                       => at '/config': additional properties 'tls' not allowed
config: {zones: global}                          => at '/config/zones': got string
config: {zones: [{name: a.local, grammar: dns}]} => at '/config/zones/0'
config: {clusterAliases: {west: West}}           => at '/config/clusterAliases/west': 'West' does not match
config: {localMembers: off}                      => at '/config/localMembers'
config: {services: {prod/db: {ttl: 31}}}         => at '/config/services/prod~1db/ttl': maximum: got 31, want 30
config: {services: {prod/db: {order: east}}}     => at '/config/services/prod~1db': additional properties 'order'
config: {links: {unlinkedAfter: "5"}}            => at '/config/links/unlinkedAfter': '5' does not match
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
networkPolicy: {apiFrom: [{podSelector: {}}]}    => at '/api/hosts': minItems: got 0, want 1
rbac: {viewer: {subjects: [{kind: Role}]}}       => at '/rbac/viewer/subjects/0'
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
