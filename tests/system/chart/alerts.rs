//! Every alert with series that just suffice and series that just do not, evaluated by `promtool test rules`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::commands::{guarded, tool};
use support::output::print_line;
use support::process::{run, run_checked};

use crate::chart::values::with;
use support::helm::{Rendered, template};
use tempfile::TempDir;

/// Minutes after the delay of an alert until its expression is true: the window of the longest rate.
const WINDOW: u64 = 6;

/// A series in promtool's notation, with one value for each minute. Labels `job` and `namespace` are added.
type Series = (&'static str, &'static str);

/// An alert with series that fire it, and similar series that do not.
struct Case {
    alert: &'static str,
    fires: &'static [Series],
    does_not_fire: &'static [Series],
}

const fn case(
    alert: &'static str,
    fires: &'static [Series],
    does_not_fire: &'static [Series],
) -> Case {
    Case {
        alert,
        fires,
        does_not_fire,
    }
}

/// A case for each alert. The values are the limits of the expressions.
const CASES: [Case; 23] = [
    case("GlobalDnsAbsent", &[], &[("table_ready", "1x200")]),
    case(
        "GlobalDnsNotReady",
        &[("table_ready", "0x200")],
        &[("table_ready", "1x200")],
    ),
    case(
        "GlobalDnsTableOld",
        &[("table_age_seconds", "301x200")],
        &[("table_age_seconds", "300x200")],
    ),
    case(
        "GlobalDnsPanics",
        &[("worker_panics_total{proto=\"udp\"}", "0x3 1x200")],
        &[("worker_panics_total{proto=\"udp\"}", "1x200")],
    ),
    case(
        "GlobalDnsSourcePanics",
        &[("source_panics_total", "0x3 1x200")],
        &[("source_panics_total", "1x200")],
    ),
    // Both change and never agree. Otherwise, the second is scraped a minute later, and agrees until the next moment.
    case(
        "GlobalDnsReplicasDiffer",
        &[
            ("compared_table_hash{pod=\"a\"}", "1+1x200"),
            ("compared_table_hash{pod=\"b\"}", "1001+1x200"),
        ],
        &[
            (
                "compared_table_hash{pod=\"a\"}",
                "1x4 2x4 3x4 4x4 5x4 6x4 7x4 8x4",
            ),
            (
                "compared_table_hash{pod=\"b\"}",
                "0 1x4 2x4 3x4 4x4 5x4 6x4 7x4 8x4",
            ),
        ],
    ),
    case(
        "GlobalDnsServfail",
        &[
            ("responses_total{rcode=\"SERVFAIL\"}", "0+11x200"),
            ("responses_total{rcode=\"NOERROR\"}", "0+989x200"),
        ],
        &[
            ("responses_total{rcode=\"SERVFAIL\"}", "0+10x200"),
            ("responses_total{rcode=\"NOERROR\"}", "0+990x200"),
        ],
    ),
    case(
        "GlobalDnsNameWaits",
        &[(
            "failing_services{reason=\"expected-clusters-missing\"}",
            "1x200",
        )],
        &[(
            "failing_services{reason=\"expected-clusters-missing\"}",
            "0x200",
        )],
    ),
    case(
        "GlobalDnsNameFails",
        &[(
            "failing_services{reason=\"step-without-endpoint\"}",
            "1x200",
        )],
        // Scaled to zero.
        &[("failing_services{reason=\"not-ready\"}", "1x200")],
    ),
    case(
        "GlobalDnsNameNotReady",
        &[("failing_services{reason=\"not-ready\"}", "1x200")],
        &[(
            "failing_services{reason=\"step-without-endpoint\"}",
            "1x200",
        )],
    ),
    // A step that answers for no time fires nothing.
    case(
        "GlobalDnsStandbyAnswers",
        &[("failover_step", "2x200")],
        &[("failover_step", "1x200")],
    ),
    case(
        "GlobalDnsSettingUnusable",
        &[("problems{kind=\"unreadable-setting\"}", "1x200")],
        &[("problems{kind=\"ignored-annotation\"}", "1x200")],
    ),
    // A service that is scaled to zero everywhere is not critical.
    case(
        "GlobalDnsLastResort",
        &[(
            "unavailable_endpoints{remote_cluster=\"west\",cause=\"gateway\",returned=\"last-resort\"}",
            "1x200",
        )],
        &[
            (
                "unavailable_endpoints{remote_cluster=\"west\",cause=\"not-ready\",returned=\"last-resort\"}",
                "1x200",
            ),
            (
                "unavailable_endpoints{remote_cluster=\"west\",cause=\"gateway\",returned=\"false\"}",
                "1x200",
            ),
            (
                "unavailable_endpoints{remote_cluster=\"west\",cause=\"gateway\",returned=\"include\"}",
                "1x200",
            ),
        ],
    ),
    case(
        "GlobalDnsGatewayDown",
        &[(
            "unavailable_endpoints{remote_cluster=\"west\",cause=\"gateway\",returned=\"false\"}",
            "1x200",
        )],
        &[
            (
                "unavailable_endpoints{remote_cluster=\"west\",cause=\"not-ready\",returned=\"false\"}",
                "1x200",
            ),
            (
                "unavailable_endpoints{remote_cluster=\"west\",cause=\"link\",returned=\"false\"}",
                "1x200",
            ),
            (
                "unavailable_endpoints{remote_cluster=\"west\",cause=\"gateway\",returned=\"last-resort\"}",
                "1x200",
            ),
        ],
    ),
    case(
        "GlobalDnsServiceNotReady",
        &[(
            "unavailable_endpoints{remote_cluster=\"west\",cause=\"not-ready\",returned=\"false\"}",
            "1x200",
        )],
        &[
            (
                "unavailable_endpoints{remote_cluster=\"west\",cause=\"gateway\",returned=\"false\"}",
                "1x200",
            ),
            (
                "unavailable_endpoints{remote_cluster=\"west\",cause=\"not-ready\",returned=\"include\"}",
                "1x200",
            ),
            (
                "endpoints{remote_cluster=\"hub\",state=\"not-ready\",returned=\"false\"}",
                "1x200",
            ),
        ],
    ),
    case(
        "GlobalDnsClusterFrozen",
        &[
            ("clusters{pod=\"a\",state=\"frozen\"}", "0x200"),
            ("clusters{pod=\"b\",state=\"frozen\"}", "1x200"),
        ],
        &[
            ("clusters{state=\"frozen\"}", "0x200"),
            ("clusters{state=\"linked\"}", "1x200"),
            ("clusters{state=\"unlinked\"}", "1x200"),
            ("clusters{state=\"unknown\"}", "1x200"),
        ],
    ),
    case(
        "GlobalDnsClusterUnlinked",
        &[("clusters{state=\"unlinked\"}", "1x200")],
        &[
            ("clusters{state=\"unlinked\"}", "0x200"),
            ("clusters{state=\"linked\"}", "1x200"),
            ("clusters{state=\"frozen\"}", "1x200"),
            ("clusters{state=\"unknown\"}", "1x200"),
        ],
    ),
    case(
        "GlobalDnsShortNameAmbiguous",
        &[("conflicts{kind=\"short-name\"}", "1x200")],
        &[("conflicts{kind=\"endpoint\"}", "1x200")],
    ),
    case(
        "GlobalDnsConflicts",
        &[("conflicts{kind=\"endpoint\"}", "1x200")],
        &[("conflicts{kind=\"short-name\"}", "1x200")],
    ),
    case(
        "GlobalDnsSkippedObjects",
        &[("skipped_objects{reason=\"bad-name\"}", "1x200")],
        &[("skipped_objects{reason=\"excluded-cluster\"}", "1x200")],
    ),
    case(
        "GlobalDnsUnsentResponses",
        &[("unsent_responses_total", "0+61x200")],
        &[("unsent_responses_total", "0+60x200")],
    ),
    case(
        "GlobalDnsConnectionsReplaced",
        &[(
            "tcp_connections_ended_total{reason=\"replaced\"}",
            "0+61x200",
        )],
        &[("tcp_connections_ended_total{reason=\"done\"}", "0+61x200")],
    ),
    // The clock of promtool starts at 0. The limit is 604,800 s.
    case(
        "GlobalDnsCertificateExpires",
        &[("certificate_expiry_timestamp_seconds", "604799x200")],
        &[("certificate_expiry_timestamp_seconds", "620000x200")],
    ),
];

/// A further case: one of two replicas is behind, and does not change.
const REPLICA_BEHIND: Case = case(
    "GlobalDnsReplicasDiffer",
    &[
        ("compared_table_hash{pod=\"a\"}", "1x200"),
        ("compared_table_hash{pod=\"b\"}", "5+1x200"),
    ],
    // One replica has nothing to compare with.
    &[("compared_table_hash{pod=\"a\"}", "5+1x200")],
);

#[test]
fn alerts_fire_after_their_delay_and_only_above_their_limit() -> Result<()> {
    let mut groups = rendered_groups(json!({"enabled": true}))?;
    let delays = delays(&mut groups)?;
    let tested: BTreeSet<&str> = CASES.iter().map(|case| case.alert).collect();
    let alerts: BTreeSet<&str> = delays.keys().map(String::as_str).collect();
    ensure!(
        tested == alerts,
        "alerts without a case, or cases without an alert: {:?}",
        &tested ^ &alerts
    );
    let one_sided: Vec<&str> = CASES
        .iter()
        .filter(|case| case.does_not_fire.is_empty())
        .map(|case| case.alert)
        .collect();
    ensure!(
        one_sided.is_empty(),
        "alerts that always fire: {one_sided:?}"
    );
    evaluate(&groups, &[REPLICA_BEHIND], &delays)?;
    let tests = evaluate(&groups, &CASES, &delays)?;
    print_line(&format!("{} alerts in {tests} tests", alerts.len()));
    Ok(())
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

/// Writes groups of rules to the file `rules.yml` of a folder, and checks them with `promtool`. JSON is valid YAML.
fn write_rules(folder: &TempDir, groups: &[Value]) -> Result<()> {
    let file = folder.path().join("rules.yml");
    fs::write(&file, json!({"groups": groups}).to_string())?;
    run_checked(
        guarded(tool("promtool")?)
            .args(["check", "rules"])
            .arg(file),
    )?;
    Ok(())
}

/// Renders the rules with these values of `alerts`.
fn rendered_groups(values: Value) -> Result<Vec<Value>> {
    groups(&template(&with(json!({
        "alerts": values,
        "encrypted": {"secretName": "tls", "tlsListen": ["0.0.0.0:5853"]},
    })))?)
}

/// Returns the delays of all alerts in minutes.
fn delays(groups: &mut [Value]) -> Result<BTreeMap<String, u64>> {
    rules_mut(groups).map(|rule| delay(rule)).collect()
}

/// Evaluates the rules with the series of the cases. Returns the number of tests.
fn evaluate(groups: &[Value], cases: &[Case], delays: &BTreeMap<String, u64>) -> Result<usize> {
    let folder = tempfile::tempdir()?;
    write_rules(&folder, groups)?;
    let tests: Vec<Value> = cases
        .iter()
        .flat_map(|case| case.tests(delays[case.alert]))
        .collect();
    let file = folder.path().join("tests.yml");
    let all = json!({"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": tests});
    fs::write(&file, all.to_string())?;
    let ended = run(guarded(tool("promtool")?)
        .args(["test", "rules"])
        .arg(&file));
    ensure!(ended.is_success(), "{}", ended.output());
    Ok(tests.len())
}

/// Returns the name of an alert and its delay in minutes.
fn delay(rule: &Value) -> Result<(String, u64)> {
    let alert = rule["alert"].as_str().context("a rule without a name")?;
    let text = rule["for"].as_str().context("an alert without delay")?;
    let minutes = match text.strip_suffix('h') {
        Some(hours) => hours.parse::<u64>()? * 60,
        None => text.trim_end_matches('m').parse()?,
    };
    Ok((alert.to_owned(), minutes))
}

// === impl Case ===

impl Case {
    fn tests(&self, delay: u64) -> [Value; 2] {
        let late = delay + WINDOW;
        let mut times = vec![(late, 1)];
        if delay > 0 {
            times.push((delay - 1, 0));
        }
        [
            self.test(self.fires, &times),
            self.test(self.does_not_fire, &[(late, 0)]),
        ]
    }

    /// Returns a test that expects a number of firing alerts after some minutes each.
    fn test(&self, series: &[Series], times: &[(u64, usize)]) -> Value {
        let series = series.iter().map(|(series, values)| {
            let (metric, labels) = series.split_once('{').unwrap_or((series, "}"));
            let separator = if labels == "}" { "" } else { "," };
            let series = format!(
                "global_dns_{metric}{{job=\"global-dns\",namespace=\"dns\"{separator}{labels}"
            );
            json!({"series": series, "values": values})
        });
        let firing = format!(
            "count(ALERTS{{alertname=\"{}\",alertstate=\"firing\"}})",
            self.alert
        );
        let expected = times.iter().map(|(minutes, count)| {
            let samples = vec![json!({"labels": "{}", "value": 1}); *count];
            json!({"expr": firing, "eval_time": format!("{minutes}m"), "exp_samples": samples})
        });
        json!({"name": self.alert, "interval": "1m", "input_series": series.collect::<Vec<_>>(),
            "promql_expr_test": expected.collect::<Vec<_>>()})
    }
}
