//! Every alert with series that just suffice and series that just do not, evaluated by `promtool test rules`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::commands::{guarded, tool};
use support::output::print_line;
use support::process::{run, run_checked};

use crate::chart::values::with;
use support::helm::template;
use tempfile::TempDir;

/// Minutes after the delay of an alert until its expression is true: the window of the longest rate.
const WINDOW: u64 = 6;

/// The alerts with series that fire them, after `+`, and similar series that do not, after `-`. The values are the limits of the
/// expressions, in the notation of promtool: one value for each minute. Each metric begins with `global_dns_`.
const CASES: &str = r#"
GlobalDnsAbsent
- table_ready{} 1x200

GlobalDnsNotReady
+ table_ready{} 0x200
- table_ready{} 1x200

GlobalDnsTableOld
+ table_age_seconds{} 301x200
- table_age_seconds{} 300x200

GlobalDnsPanics
+ worker_panics_total{proto="udp"} 0x3 1x200
- worker_panics_total{proto="udp"} 1x200

GlobalDnsSourcePanics
+ source_panics_total{} 0x3 1x200
- source_panics_total{} 1x200

# Both change and never agree. Otherwise, the second is scraped a minute later, and agrees until the next moment.
GlobalDnsReplicasDiffer
+ compared_table_hash{pod="a"} 1+1x200
+ compared_table_hash{pod="b"} 1001+1x200
- compared_table_hash{pod="a"} 1x4 2x4 3x4 4x4 5x4 6x4 7x4 8x4
- compared_table_hash{pod="b"} 0 1x4 2x4 3x4 4x4 5x4 6x4 7x4 8x4

# One of two replicas is behind, and does not change. Otherwise, one replica has nothing to compare with.
GlobalDnsReplicasDiffer
+ compared_table_hash{pod="a"} 1x200
+ compared_table_hash{pod="b"} 5+1x200
- compared_table_hash{pod="a"} 5+1x200

GlobalDnsServfail
+ responses_total{rcode="SERVFAIL"} 0+11x200
+ responses_total{rcode="NOERROR"} 0+989x200
- responses_total{rcode="SERVFAIL"} 0+10x200
- responses_total{rcode="NOERROR"} 0+990x200

GlobalDnsNameWaits
+ failing_services{reason="expected-clusters-missing"} 1x200
- failing_services{reason="expected-clusters-missing"} 0x200

# Otherwise, it is scaled to zero.
GlobalDnsNameFails
+ failing_services{reason="step-without-endpoint"} 1x200
- failing_services{reason="not-ready"} 1x200

GlobalDnsNameNotReady
+ failing_services{reason="not-ready"} 1x200
- failing_services{reason="step-without-endpoint"} 1x200

GlobalDnsStandbyAnswers
+ failover_step{} 2x200
- failover_step{} 1x200

GlobalDnsSettingUnusable
+ problems{kind="setting-without-effect"} 1x200
- problems{kind="ignored-setting"} 1x200

# A service that is scaled to zero everywhere is not critical.
GlobalDnsLastResort
+ unavailable_endpoints{remote_cluster="west",cause="gateway",returned="last-resort"} 1x200
- unavailable_endpoints{remote_cluster="west",cause="not-ready",returned="last-resort"} 1x200
- unavailable_endpoints{remote_cluster="west",cause="gateway",returned="false"} 1x200
- unavailable_endpoints{remote_cluster="west",cause="gateway",returned="include"} 1x200

GlobalDnsGatewayDown
+ unavailable_endpoints{remote_cluster="west",cause="gateway",returned="false"} 1x200
- unavailable_endpoints{remote_cluster="west",cause="not-ready",returned="false"} 1x200
- unavailable_endpoints{remote_cluster="west",cause="link",returned="false"} 1x200
- unavailable_endpoints{remote_cluster="west",cause="gateway",returned="last-resort"} 1x200

GlobalDnsServiceNotReady
+ unavailable_endpoints{remote_cluster="west",cause="not-ready",returned="false"} 1x200
- unavailable_endpoints{remote_cluster="west",cause="gateway",returned="false"} 1x200
- unavailable_endpoints{remote_cluster="west",cause="not-ready",returned="include"} 1x200
- endpoints{remote_cluster="hub",state="not-ready",returned="false"} 1x200

GlobalDnsClusterFrozen
+ clusters{pod="a",state="frozen"} 0x200
+ clusters{pod="b",state="frozen"} 1x200
- clusters{state="frozen"} 0x200
- clusters{state="linked"} 1x200
- clusters{state="unlinked"} 1x200
- clusters{state="unknown"} 1x200

GlobalDnsClusterUnlinked
+ clusters{state="unlinked"} 1x200
- clusters{state="unlinked"} 0x200
- clusters{state="linked"} 1x200
- clusters{state="frozen"} 1x200
- clusters{state="unknown"} 1x200

GlobalDnsShortNameAmbiguous
+ conflicts{kind="short-name"} 1x200
- conflicts{kind="endpoint"} 1x200

GlobalDnsConflicts
+ conflicts{kind="endpoint"} 1x200
- conflicts{kind="short-name"} 1x200

GlobalDnsSkippedObjects
+ skipped_objects{reason="unusable-object"} 1x200
- skipped_objects{reason="left-out"} 1x200

GlobalDnsUnsentResponses
+ unsent_responses_total{} 0+61x200
- unsent_responses_total{} 0+60x200

GlobalDnsConnectionsReplaced
+ tcp_connections_ended_total{reason="replaced"} 0+61x200
- tcp_connections_ended_total{reason="done"} 0+61x200

# The clock of promtool starts at 0. The limit is 604,800 s.
GlobalDnsCertificateExpires
+ certificate_expiry_timestamp_seconds{} 604799x200
- certificate_expiry_timestamp_seconds{} 620000x200
"#;

/// An alert with series that fire it, and similar series that do not.
struct Case<'t> {
    alert: &'t str,
    fires: Vec<Value>,
    does_not_fire: Vec<Value>,
}

#[test]
fn alerts_fire_after_their_delay_and_only_above_their_limit() -> Result<()> {
    let groups = groups()?;
    let delays = delays(&groups)?;
    let cases: Vec<Case<'_>> = CASES.split("\n\n").map(Case::read).collect::<Result<_>>()?;
    let tested: BTreeSet<&str> = cases.iter().map(|case| case.alert).collect();
    let alerts: BTreeSet<&str> = delays.keys().map(String::as_str).collect();
    ensure!(tested == alerts, "{:?}", &tested ^ &alerts);
    let one_sided = cases.iter().find(|case| case.does_not_fire.is_empty());
    ensure!(one_sided.is_none(), "an alert always fires");
    let tests: Vec<Value> = cases
        .iter()
        .flat_map(|case| case.tests(delays[case.alert]))
        .collect();
    let folder = tempfile::tempdir()?;
    write_rules(&folder, &groups)?;
    let file = folder.path().join("tests.yml");
    let all = json!({"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": tests});
    fs::write(&file, all.to_string())?;
    let ended = run(guarded(tool("promtool")?)
        .args(["test", "rules"])
        .arg(&file));
    ensure!(ended.is_success(), "{}", ended.output());
    print_line(&format!("{} alerts, {} tests", alerts.len(), tests.len()));
    Ok(())
}

/// Returns the groups of the rendered rules, with all of them.
fn groups() -> Result<Vec<Value>> {
    let rendered = template(&with(json!({
        "alerts": {"enabled": true, "runbookURL": "https://docs.example.com/dns/"},
        "tls": {"secretName": "tls"},
    })))?;
    let groups = rendered.only("PrometheusRule")?["spec"]["groups"].as_array();
    Ok(groups.context("the rule has no groups")?.clone())
}

/// Returns the rules of all alerts.
pub fn rules() -> Result<Vec<Value>> {
    let groups = groups()?;
    let rules = groups.iter().filter_map(|group| group["rules"].as_array());
    Ok(rules.flatten().cloned().collect())
}

/// Writes groups of rules to the file `rules.yml` of a folder, and checks them with `promtool`. JSON is valid YAML.
fn write_rules(folder: &TempDir, groups: &[Value]) -> Result<()> {
    let file = folder.path().join("rules.yml");
    fs::write(&file, json!({"groups": groups}).to_string())?;
    let mut promtool = guarded(tool("promtool")?);
    run_checked(promtool.args(["check", "rules"]).arg(file)).map(drop)
}

/// Returns the delays of all alerts in minutes.
fn delays(groups: &[Value]) -> Result<BTreeMap<String, u64>> {
    let rules = groups.iter().filter_map(|group| group["rules"].as_array());
    let delay = |rule: &Value| {
        let alert = rule["alert"].as_str().context("a rule without a name")?;
        let text = rule["for"].as_str().unwrap_or("0m");
        let minutes = match text.strip_suffix('h') {
            Some(hours) => hours.parse::<u64>()? * 60,
            None => text.trim_end_matches('m').parse()?,
        };
        Ok((alert.to_owned(), minutes))
    };
    rules.flatten().map(delay).collect()
}

// === impl Case ===

impl<'t> Case<'t> {
    fn read(text: &'t str) -> Result<Self> {
        let mut lines = text.trim().lines().filter(|line| !line.starts_with('#'));
        let mut case = Self {
            alert: lines.next().context("no alert")?,
            fires: Vec::new(),
            does_not_fire: Vec::new(),
        };
        for line in lines {
            let (sign, series) = line.split_once(' ').context("no series")?;
            let (series, values) = series.split_once("} ").context("no values")?;
            let separator = if series.ends_with('{') { "" } else { "," };
            let series =
                format!("global_dns_{series}{separator}job=\"global-dns\",namespace=\"dns\"}}");
            let series = json!({"series": series, "values": values});
            match sign {
                "+" => case.fires.push(series),
                _ => case.does_not_fire.push(series),
            }
        }
        Ok(case)
    }

    fn tests(&self, delay: u64) -> [Value; 2] {
        let late = delay + WINDOW;
        let mut times = vec![(late, 1)];
        if delay > 0 {
            times.push((delay - 1, 0));
        }
        [
            self.test(&self.fires, &times),
            self.test(&self.does_not_fire, &[(late, 0)]),
        ]
    }

    /// Returns a test that expects a number of firing alerts after some minutes each.
    fn test(&self, series: &[Value], times: &[(u64, usize)]) -> Value {
        let firing = format!(
            "count(ALERTS{{alertname=\"{}\",alertstate=\"firing\"}})",
            self.alert
        );
        let expected = times.iter().map(|(minutes, count)| {
            let samples = vec![json!({"labels": "{}", "value": 1}); *count];
            json!({"expr": firing, "eval_time": format!("{minutes}m"), "exp_samples": samples})
        });
        json!({"name": self.alert, "interval": "1m", "input_series": series,
            "promql_expr_test": expected.collect::<Vec<_>>()})
    }
}
