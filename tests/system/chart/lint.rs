//! `helm lint`, invalid values that Helm refuses by name, and the content of the package.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use support::commands::command;
use support::output::print_line;
use support::process::run;

use crate::chart::values::{matrix, minimum, with};
use support::helm::{chart, helm, helm_without_values, try_template};

/// Values as in a file of values, and a part of the error. Only the first lines do not have the minimum values.
const INVALID: &str = r#"
{image: {repository: localhost/global-dns}}        => clusterName is required
{clusterName: hub}                                 => image.repository is required

clusterName: Hub                                   => at '/clusterName': 'Hub'
clusterName: 7                                     => at '/clusterName': got number, want string
replica: 3                                         => additional properties 'replica' not allowed
replicas: many                                     => at '/replicas': got string, want null or integer
replicas: -1                                       => at '/replicas': minimum: got -1, want 0
kind: StatefulSet                                  => at '/kind': value must be one of 'Deployment', 'DaemonSet'
zones: []                                          => at '/zones': minItems
zones: global                                      => at '/zones': got string, want array
zones: [-x]                                        => at '/zones/0': '-x'
namespaces: [Prod]                                 => at '/namespaces/0': 'Prod'
clusterAliases: {west: West}                       => at '/clusterAliases/west': 'West'
ttl: 0                                             => at '/ttl': minimum: got 0, want 1
udpMax: 5000                                       => at '/udpMax': maximum: got 5,000, want 4,096
udpWorkers: 0                                      => at '/udpWorkers': minimum
shortNames: {which: some}                          => at '/shortNames/which': value must be one of
gatewayDown: never                                 => at '/gatewayDown': value must be one of
links: {enabled: "yes"}                            => at '/links/enabled': got string, want boolean
links: {namespace: Linkerd}                        => at '/links/namespace': 'Linkerd'
links: {namespace: []}                             => at '/links/namespace': minItems
links: {namespace: null}                           => links.namespace is required with links.enabled
links: {unlinkedAfter: "5"}                        => at '/links/unlinkedAfter': '5'
order: random                                      => at '/order': value must be one of
graceSeconds: 10s                                  => at '/graceSeconds': got string, want integer
listen: ["5353"]                                   => at '/listen/0': '5353'
log: {level: warning}                              => at '/log/level': 'warning'
log: {level: a b}                                  => at '/log/level': 'a b'
log: {format: xml}                                 => at '/log/format': value must be one of 'text', 'json'
encrypted: {tlsListen: ["0.0.0.0:5853"]}           => encrypted.secretName is required
encrypted: {quicListen: ["0.0.0.0:5853"]}          => encrypted.secretName is required
encrypted: {secretName: t, clientCASecretName: ca} => encrypted.clientCASecretName needs a listener
encrypted: {clientCASecretName: [ca]}              => at '/encrypted/clientCASecretName': got array, want string
encrypted: {quicListen: ["853"]}                   => at '/encrypted/quicListen/0': '853'
apiHosts: ["dns.example.com:9154"]                 => at '/apiHosts/0': 'dns.example.com:9154'
image: {digest: latest}                            => at '/image/digest': 'latest'
service: {clusterIP: None}                         => at '/service/clusterIP': 'None'
service: {internalTrafficPolicy: local}            => at '/service/internalTrafficPolicy'
service: {type: ExternalName}                      => at '/service/type': value must be one of
service: {loadBalancerIP: dns.example.com}         => at '/service/loadBalancerIP': 'dns.example.com'
service: {externalIPs: ["*"]}                      => at '/service/externalIPs/0': '*'
service: {externalTrafficPolicy: local}            => at '/service/externalTrafficPolicy'
service: {trafficDistribution: Near}               => at '/service/trafficDistribution'
service: {loadBalancerSourceRanges: [everybody]}   => at '/service/loadBalancerSourceRanges/0': 'everybody'
commonLabels: {team: 7}                            => at '/commonLabels/team': got number, want string
updateStrategy: {maxSurge: 1}                      => at '/updateStrategy': additional properties 'maxSurge'
podSecurityContext: {runAsRoot: true}              => at '/podSecurityContext': additional properties 'runAsRoot'
securityContext: {readOnly: true}                  => at '/securityContext': additional properties 'readOnly'
livenessProbe: {httpGet: {path: /}}                => at '/livenessProbe': additional properties 'httpGet'
readinessProbe: {periodSeconds: 0}                 => at '/readinessProbe/periodSeconds': minimum: got 0, want 1
extraEnv: [{value: without a name}]                => at '/extraEnv/0': missing property 'name'
dnsPolicy: Cluster                                 => at '/dnsPolicy': value must be one of
hostNetwork: "yes"                                 => at '/hostNetwork': got string, want boolean
topologySpreadConstraints: [{topologyKey: rack}]   => at '/topologySpreadConstraints/0': missing properties 'maxSkew'
revisionHistoryLimit: -1                           => at '/revisionHistoryLimit': minimum: got -1, want 0
terminationGracePeriodSeconds: 19                  => with graceSeconds 10 it must be at least 20
networkPolicy: {egress: true}                      => at '/networkPolicy/egress': got boolean
podDisruptionBudget: {maxUnavailable: one}         => at '/podDisruptionBudget/maxUnavailable': 'one'
alerts: {ignoredConflicts: [all]}                  => at '/alerts/ignoredConflicts/0'
alerts: {runbookURL: docs/alerts}                  => at '/alerts/runbookURL': 'docs/alerts' does not match pattern
prometheusRule: {enabled: true}                    => prometheusRule is now alerts: rename it in your values
scrapeAnnotations: "yes"                           => at '/scrapeAnnotations': got string, want boolean
serviceMonitor: {enabled: "yes"}                   => at '/serviceMonitor/enabled': got string, want boolean
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
        let values = match given.starts_with('{') {
            true => values,
            false => with(values),
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

/// Helm stores the package in the cluster, in the Secret of each revision of a release.
#[test]
fn the_package_has_no_manual_and_no_examples() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let place = folder.path().display().to_string();
    let ended = helm_without_values(&["package", &chart(), "--destination", &place])?;
    ensure!(ended.is_success(), "{}", ended.stderr);
    let package = fs::read_dir(&folder)?.next().context("no package")??;
    let listed = run(command("tar").arg("-tzf").arg(package.path())).stdout;
    let paths = listed.lines().filter_map(|path| path.split('/').nth(1));
    let expected = [
        ".helmignore",
        "Chart.yaml",
        "README.md",
        "dashboards",
        "templates",
        "values.schema.json",
        "values.yaml",
    ];
    ensure!(
        paths.collect::<BTreeSet<_>>() == expected.into(),
        "{listed}"
    );
    Ok(())
}
