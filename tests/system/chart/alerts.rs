//! Every alert with series that just suffice and series that just do not, evaluated by `promtool test rules`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::commands::{guarded, tool};
use support::output::print_line;
use support::process::run_checked;

use crate::chart::values::with;
use support::helm::template;

/// Minutes after the delay of an alert until its expression is true: the window of the longest rate.
const WINDOW: u64 = 6;

/// The alerts with series that fire them, after `+`, and similar series that do not, after `-`. The values are the limits of the
/// expressions, in the notation of promtool: one value for each minute. Each metric of this program begins with `global_dns_`.
const CASES: &str = r#"
# A pod that starts is no table.
GlobalDnsDown
+ table_ready{} 0x200
- table_ready{pod="a"} 0x200
- table_ready{pod="b"} 1x200

GlobalDnsServiceFailing
+ failing_services{exported_namespace="prod",exported_service="db",kind="gateway-down"} 1x200
- failing_services{exported_namespace="prod",exported_service="db",kind="gateway-down"} 1x2 0x200

GlobalDnsTableOld
+ table_age_seconds{} 901x200
- table_age_seconds{} 900x200

# Half of the replies are REFUSED. Otherwise, all are, but to no refused client: they are for other zones.
GlobalDnsClientsRefused
+ responses_total{rcode="REFUSED"} 0+51x200
+ responses_total{rcode="NOERROR"} 0+49x200
+ problems{kind="refused-client",level="error"} 1x200
- responses_total{rcode="REFUSED"} 0+51x200
- problems{kind="refused-client",level="error"} 0x200

GlobalDnsClientsRefused
+ responses_total{rcode="REFUSED"} 0+51x200
+ problems{kind="refused-client",level="error"} 1x200
- responses_total{rcode="REFUSED"} 0+50x200
- responses_total{rcode="NOERROR"} 0+50x200
- problems{kind="refused-client",level="error"} 1x200

GlobalDnsCrashes
+ worker_panics_total{proto="udp"} 0x3 1x200
- worker_panics_total{proto="udp"} 1x200

GlobalDnsCrashes
+ source_panics_total{} 0x3 1x200
- source_panics_total{} 1x200

GlobalDnsCrashes
+ process_start_time_seconds{pod="a"} 1 2 3 4x200
- process_start_time_seconds{pod="a"} 1 2 3x200
- process_start_time_seconds{pod="b"} 4x200

# The clock of promtool starts at 0. A day is 86,400 s; the delay and the time of the test are 21 minutes.
GlobalDnsCertificateInvalid
+ certificate_expiry_timestamp_seconds{} 86399x200
+ problems{kind="certificate-renewal",level="warning"} 1x200
- certificate_expiry_timestamp_seconds{} 87661x200
- problems{kind="certificate-renewal",level="warning"} 1x200

# Otherwise, it lasts for hours and is renewed in time.
GlobalDnsCertificateInvalid
+ problems{kind="certificate-invalid",level="error"} 1x200
- certificate_expiry_timestamp_seconds{} 40000x200
- problems{kind="certificate-renewal",level="warning"} 0x200

GlobalDnsNotReady
+ table_ready{pod="a"} 0x200
+ table_ready{pod="b"} 1x200
- table_ready{pod="a"} 1x200

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

GlobalDnsErrors
+ responses_total{rcode="SERVFAIL"} 0+6x200
+ responses_total{rcode="NOERROR"} 0+994x200
+ unsent_responses_total{} 0+5x200
- responses_total{rcode="SERVFAIL"} 0+5x200
- responses_total{rcode="NOERROR"} 0+995x200
- unsent_responses_total{} 0+5x200

GlobalDnsSlow
+ request_duration_seconds_bucket{le="0.1"} 0+989x200
+ request_duration_seconds_count{} 0+1000x200
- request_duration_seconds_bucket{le="0.1"} 0+991x200
- request_duration_seconds_count{} 0+1000x200

GlobalDnsConnectionsFull
+ tcp_connections_ended_total{reason="replaced"} 0+31x200
+ tcp_accept_failures_total{} 0+30x200
- tcp_connections_ended_total{reason="replaced"} 0+30x200
- tcp_connections_ended_total{reason="done"} 0+61x200
- tcp_accept_failures_total{} 0+30x200

# Notes, and problems of a pod that starts or stops.
GlobalDnsProblem
+ problems{kind="short-name",level="error"} 1x200
- problems{kind="left-out",level="note"} 1x200
- problems{kind="short-name",level="error"} 0x200
- problems{kind="no-table",level="error"} 1x200
- problems{kind="shutting-down",level="warning"} 1x200

GlobalDnsProblem
+ problems{kind="standby-answers",level="warning"} 1x200
- problems{kind="gateway-down",level="warning"} 1x10 0x200
"#;

/// A healthy rollout, in the same notation: one pod after the other starts with its first list, and an old one stops. A change is
/// published meanwhile. No alert fires at any minute.
const ROLLOUT: &str = r#"
# All alerts.
GlobalDns.*
- table_ready{pod="a"} 1x20 _x180
- table_ready{pod="b"} 1x10 _x190
- table_ready{pod="c"} _x8 0 1x191
- table_ready{pod="d"} _x18 0 1x181
- table_age_seconds{pod="a"} 40x20 _x180
- table_age_seconds{pod="c"} _x9 40x191
- process_start_time_seconds{pod="a"} 1x20 _x180
- process_start_time_seconds{pod="c"} _x8 500x192
- compared_table_hash{pod="a"} 1x12 2x8 _x180
- compared_table_hash{pod="c"} _x13 2x187
- problems{pod="a",kind="shutting-down",level="warning"} 0x19 1 _x180
- problems{pod="b",kind="shutting-down",level="warning"} 0x9 1 _x190
- problems{pod="c",kind="source-unavailable",level="warning"} _x8 1 0x191
- problems{pod="c",kind="no-table",level="error"} _x8 1 0x191
- responses_total{pod="a",rcode="NOERROR"} 0+1000x20 _x180
- responses_total{pod="c",rcode="NOERROR"} _x9 0+1000x191
- responses_total{pod="c",rcode="REFUSED"} _x9 0+1x191
"#;

/// An alert with series that fire it, and similar series that do not.
struct Case<'t> {
    alert: &'t str,
    fires: Vec<Value>,
    does_not_fire: Vec<Value>,
}

#[test]
fn alerts_fire_after_their_delay_and_only_above_their_limit() -> Result<()> {
    let rules = rules()?;
    let delays = delays(&rules)?;
    let cases: Vec<Case<'_>> = CASES.split("\n\n").map(Case::read).collect::<Result<_>>()?;
    let tested: BTreeSet<&str> = cases.iter().map(|case| case.alert).collect();
    let alerts: BTreeSet<&str> = delays.keys().copied().collect();
    ensure!(tested == alerts, "{:?}", &tested ^ &alerts);
    let tests = cases.iter().flat_map(|case| case.tests(delays[case.alert]));
    let rollout = Case::read(ROLLOUT)?;
    let minutes: Vec<(u64, usize)> = (0..60).map(|minute| (minute, 0)).collect();
    let rollout = rollout.test(&rollout.does_not_fire, &minutes);
    let tests: Vec<Value> = tests.chain([rollout]).collect();
    // JSON is valid YAML.
    let folder = tempfile::tempdir()?;
    let rules = json!({"groups": [{"name": "global-dns", "rules": rules}]});
    fs::write(folder.path().join("rules.yml"), rules.to_string())?;
    let tests = json!({"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": tests});
    fs::write(folder.path().join("tests.yml"), tests.to_string())?;
    for (command, file) in [("check", "rules.yml"), ("test", "tests.yml")] {
        let mut promtool = guarded(tool("promtool")?);
        run_checked(
            promtool
                .args([command, "rules"])
                .arg(folder.path().join(file)),
        )?;
    }
    print_line(&format!("{} alerts", alerts.len()));
    Ok(())
}

/// Returns the rules of all alerts.
pub fn rules() -> Result<Vec<Value>> {
    let rendered = template(&with(json!({
        "serviceMonitor": {"enabled": true},
        "alerts": {"enabled": true, "runbookURL": "https://docs.example.com/dns/"},
        "tls": {"secretName": "tls"},
    })))?;
    let rules = rendered.only("PrometheusRule")?["spec"]["groups"][0]["rules"].as_array();
    Ok(rules.context("there are no rules")?.clone())
}

/// Returns the delays of all alerts in minutes.
fn delays(rules: &[Value]) -> Result<BTreeMap<&str, u64>> {
    let delay = |rule: &Value| {
        let minutes = rule["for"].as_str().unwrap_or("0m");
        minutes.trim_end_matches('m').parse()
    };
    let names = rules.iter().filter_map(|rule| rule["alert"].as_str());
    let delays = names
        .zip(rules)
        .map(|(name, rule)| Ok((name, delay(rule)?)));
    delays.collect()
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
            let prefix = if series.starts_with("process_") {
                ""
            } else {
                "global_dns_"
            };
            let separator = if series.ends_with('{') { "" } else { "," };
            let labels = "job=\"global-dns\",namespace=\"dns\"}";
            let series = format!("{prefix}{series}{separator}{labels}");
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
            "count(ALERTS{{alertname=~\"{}\",alertstate=\"firing\"}})",
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
