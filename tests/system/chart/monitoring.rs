//! Rules and dashboard use only metrics, labels and values that a running server exports, and the manual has each alert.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, ensure};
use global_dns::model::problem::ROWS;
use serde_json::{Value, json};
use support::certificates::{Identity, issue_valid};
use support::helm::template;
use support::output::print_line;
use support::repository::repository;
use support::server::{Server, WaitUntil};

use crate::chart::alerts::rules;
use crate::chart::values::with;

/// Labels that the ServiceMonitor adds to each scrape, and that of the Prometheus that scrapes. It adds `exported_` to a label of
/// the series with such a name.
const SCRAPE_LABELS: [&str; 4] = ["cluster", "job", "namespace", "pod"];
const EXPORTED: &str = "exported_";

/// The labels of each metric, with their values.
struct Exported(BTreeMap<String, BTreeMap<String, BTreeSet<String>>>);

/// A series, or a metric in an expression.
struct Selector<'t> {
    metric: &'t str,
    /// Label, operator, value.
    matchers: Vec<(&'t str, &'t str, &'t str)>,
}

#[test]
fn rules_and_dashboard_use_only_exported_metrics() -> Result<()> {
    let exported = Exported::read_from_server()?;
    for wrong in [
        "global_dns_servces",
        "global_dns_services{kind=\"headles\"}",
        "sum by (kinds) (global_dns_services)",
    ] {
        ensure!(exported.check(wrong).is_err(), "{wrong}");
    }
    for rule in rules()? {
        let expression = rule["expr"].as_str().context("no expression")?;
        let checked = exported.check(expression);
        checked.with_context(|| rule["alert"].to_string())?;
    }
    let rendered = template(&with(json!({"dashboard": {"enabled": true}})))?;
    let text = rendered.only("ConfigMap")?["data"]["global-dns.json"].as_str();
    let dashboard: Value = serde_json::from_str(text.context("no dashboard")?)?;
    let panels = dashboard["panels"].as_array().context("no panels")?;
    ensure!(panels.len() == 14, "{} panels", panels.len());
    for panel in panels {
        let targets = panel["targets"].as_array().context("no targets")?;
        for target in targets {
            let expression = target["expr"].as_str().context("no expression")?;
            for variable in ["cluster", "job", "namespace"] {
                let is_chosen = expression.contains(&format!("{variable}=~\"${variable}\""));
                ensure!(is_chosen, "{expression} does not use ${variable}");
            }
            let checked = exported.check(expression);
            checked.with_context(|| panel["title"].to_string())?;
        }
    }
    Ok(())
}

/// The table has the severity of each alert. Each alert refers to its section, which the layer `release` looks for in the pages, or
/// to that of the kind of problem.
#[test]
fn manual_has_each_alert() -> Result<()> {
    let manual = fs::read_to_string(repository("charts/global-dns/docs/src/alerts.md"))?;
    let rows = manual.lines().filter(|line| line.starts_with("| [`"));
    let mut expected_rows = Vec::new();
    for rule in rules()? {
        let name = rule["alert"].as_str().context("no name")?.to_owned();
        let anchor = name.to_lowercase();
        let severity = rule["labels"]["severity"].as_str();
        let severity = severity.context("no severity")?;
        expected_rows.push(format!("| [`{name}`](#{anchor}) | {severity} |"));
        let page = match name.as_str() {
            "GlobalDnsServiceFailing" | "GlobalDnsProblem" => {
                "problems.html#{{ $labels.kind }}".to_owned()
            }
            _ => format!("alerts.html#{anchor}"),
        };
        let page = format!("https://docs.example.com/dns/{page}");
        let url = &rule["annotations"]["runbook_url"];
        ensure!(*url == page, "{name}: {url}");
    }
    ensure!(expected_rows.len() == 12, "{expected_rows:?}");
    for (row, expected) in rows.zip(&expected_rows) {
        ensure!(row.starts_with(expected), "{row}: {expected}");
    }
    print_line(&format!("{} alerts", expected_rows.len()));
    Ok(())
}

// === impl Exported ===

impl Exported {
    /// Reads the metrics of a running server with a table, members of all kinds and a certificate.
    fn read_from_server() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        issue_valid().write(folder.path());
        let [certificate, key] = Identity::settings(folder.path());
        let file = format!("--file={}", repository("src/demo.yaml").display());
        let flags = [
            "--cluster-name=hub",
            "listen.tls=['127.0.0.1:0']",
            &file,
            &certificate,
            &key,
        ];
        let server = Server::start(folder, &flags, WaitUntil::Ready);
        let page = server.admin("/metrics").body;
        let mut exported = Self(BTreeMap::new());
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            for Selector { metric, matchers } in selectors(line)? {
                let labels = exported.0.entry(metric.to_owned()).or_default();
                for (label, _, value) in matchers {
                    let values = labels.entry(label.to_owned()).or_default();
                    values.insert(value.to_owned());
                }
            }
        }
        // The service that fails in the sample has one kind.
        let failing = exported.0.get_mut("global_dns_failing_services");
        let kinds = failing.and_then(|labels| labels.get_mut("kind"));
        let all = ROWS.iter().map(|row| row.kind.name().to_owned());
        kinds.context("no service fails")?.extend(all);
        // A process has it after the next multiple of five minutes.
        let hash = "global_dns_compared_table_hash".to_owned();
        exported.0.insert(hash, BTreeMap::new());
        Ok(exported)
    }

    /// Checks that all metrics, labels and values in an expression exist.
    fn check(&self, expression: &str) -> Result<()> {
        let mut labels = BTreeSet::from(SCRAPE_LABELS);
        for Selector { metric, matchers } in selectors(expression)? {
            let known = self.0.get(metric);
            let known = known.with_context(|| format!("the server exports no {metric}"))?;
            labels.extend(known.keys().map(String::as_str));
            for (label, operator, value) in matchers {
                let is_pattern = operator.ends_with('~');
                if SCRAPE_LABELS.contains(&label) {
                    continue;
                }
                let values = known.get(label);
                let values = values.with_context(|| format!("{metric} has no label {label}"))?;
                for value in value.split(|c| is_pattern && c == '|') {
                    ensure!(
                        values.contains(value),
                        "{metric}: {label} is never '{value}'"
                    );
                }
            }
        }
        for group in expression.split("by (").skip(1) {
            for label in group.split(')').next().unwrap_or_default().split(", ") {
                let is_replaced = expression.contains(&format!("\"{label}\""));
                let label = label.strip_prefix(EXPORTED).unwrap_or(label);
                ensure!(is_replaced || labels.contains(label), "no label {label}");
            }
        }
        Ok(())
    }
}

/// Returns the metrics of global-dns in an expression, or in a line of a metrics page.
fn selectors(text: &str) -> Result<Vec<Selector<'_>>> {
    let starts = ["global_dns_", "process_"].into_iter();
    let starts = starts.flat_map(|prefix| text.match_indices(prefix));
    let selector = |(start, _): (usize, &str)| {
        let rest = &text[start..];
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_'));
        let (metric, rest) = rest.split_at(end.unwrap_or(rest.len()));
        let inner = rest
            .strip_prefix('{')
            .and_then(|rest| rest.split('}').next());
        // label="value",…, with any operator.
        let parts: Vec<&str> = inner.unwrap_or_default().split('"').collect();
        let matchers = parts.chunks_exact(2).map(|pair| {
            let head = pair[0].trim_start_matches(',').trim();
            let end = head.find(['=', '!']).context("no operator")?;
            Ok((&head[..end], &head[end..], pair[1]))
        });
        let matchers = matchers.collect::<Result<_>>()?;
        Ok(Selector { metric, matchers })
    };
    starts.map(selector).collect()
}
