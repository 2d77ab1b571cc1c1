//! Rules and dashboard use only metrics, labels and values that a running server exports.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, ensure};
use global_dns::model::problem::{Family, Level, ROWS};
use global_dns::report::EndpointState;
use serde_json::{Value, json};
use strum::VariantArray as _;
use support::certificates::{Identity, issue_valid};
use support::output::print_line;
use support::repository::repository;
use support::server::{Server, WaitUntil};

use crate::chart::alerts::rules;
use crate::chart::values::with;
use support::helm::template;

/// Labels that the ServiceMonitor adds to each scrape, and that of the Prometheus that scrapes.
const SCRAPE_LABELS: [&str; 4] = ["cluster", "job", "namespace", "pod"];

/// Series of a metrics page: names, and the values of their labels.
struct Exported(BTreeMap<String, BTreeMap<String, BTreeSet<String>>>);

/// A metric in an expression, with its label matchers.
struct Selector {
    metric: String,
    /// Label, operator, value.
    matchers: Vec<(String, String, String)>,
}

#[test]
fn rules_and_dashboard_use_only_exported_metrics() -> Result<()> {
    let exported = Exported::read_from_server()?;
    ensure!(exported.check("global_dns_servces").is_err());
    let rules = rules()?;
    for rule in &rules {
        let expression = rule["expr"].as_str().context("no expression")?;
        let checked = exported.check(expression);
        checked.with_context(|| rule["alert"].to_string())?;
    }
    let rendered = template(&with(json!({"dashboard": {"enabled": true}})))?;
    let text = rendered.only("ConfigMap")?["data"]["global-dns.json"].as_str();
    let dashboard: Value = serde_json::from_str(text.context("no dashboard")?)?;
    let mut expressions = 0;
    let panels = dashboard["panels"].as_array().context("no panels")?;
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let title = panel["title"].as_str().context("no title")?;
        let targets = panel["targets"].as_array();
        for target in targets.with_context(|| title.to_owned())? {
            let expression = target["expr"].as_str().context("no expression")?;
            for variable in ["cluster", "job", "namespace"] {
                let is_chosen = expression.contains(&format!("{variable}=~\"${variable}\""));
                ensure!(is_chosen, "panel {title} does not use ${variable}");
            }
            exported
                .check(expression)
                .with_context(|| title.to_owned())?;
            expressions += 1;
        }
    }
    ensure!(expressions > 10, "{expressions} expressions");
    print_line(&format!(
        "{} alerts and {expressions} queries of the dashboard",
        rules.len()
    ));
    Ok(())
}

/// Objects that are skipped on purpose, and other notes, need no alert.
#[test]
fn alerts_ignore_the_problems_that_are_notes() -> Result<()> {
    for (alert, family, others) in [
        ("GlobalDnsSkippedObjects", Family::Skipped, None),
        // Short names have an alert of their own.
        ("GlobalDnsConflicts", Family::Conflict, Some("short-name")),
    ] {
        let rules = rules()?;
        let rule = rules.iter().find(|rule| rule["alert"] == alert);
        let expression = rule.context("no alert")?["expr"].as_str();
        let kinds =
            expression.and_then(|expression| expression.split("!~\"").nth(1)?.split('"').next());
        let ignored: BTreeSet<&str> = kinds.context("no kinds")?.split('|').collect();
        let notes = ROWS.iter().filter(|row| row.level == Level::Note);
        let notes = notes.filter(|row| row.family == family);
        let expected: BTreeSet<&str> = notes.map(|row| row.kind.name()).chain(others).collect();
        ensure!(ignored == expected, "{alert}: {ignored:?}");
    }
    Ok(())
}

/// Each alert refers to its section of the manual, and each section has an alert.
#[test]
fn alerts_refer_to_their_sections_of_the_manual() -> Result<()> {
    let manual = fs::read_to_string(repository("charts/global-dns/docs/src/operate.md"))?;
    let (_, rest) = manual.split_once("\n## Alerts\n").context("no chapter")?;
    let chapter = rest.split("\n## ").next().unwrap_or_default();
    let sections = chapter.lines().filter_map(|line| line.strip_prefix("### "));
    let expected = sections.map(|section| {
        let anchor = section.to_lowercase();
        (
            json!(section),
            json!(format!(
                "https://docs.example.com/dns/operate.html#{anchor}"
            )),
        )
    });
    let found = rules()?.into_iter().map(|rule| {
        (
            rule["alert"].clone(),
            rule["annotations"]["runbook_url"].clone(),
        )
    });
    ensure!(found.eq(expected), "alerts and sections differ");
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
        let mut exported = Self::read(&server.admin("/metrics").body)?;
        // The sample cannot have all states at the same time.
        let states = EndpointState::VARIANTS.iter().map(|state| state.name());
        exported.add("endpoints", "state", states);
        let causes = ["gateway", "not-ready", "link"];
        exported.add("unavailable_endpoints", "cause", causes);
        let returned = ["false", "include", "last-resort"];
        exported.add("unavailable_endpoints", "returned", returned);
        // A process has it after the next multiple of five minutes.
        let hash = "global_dns_compared_table_hash".to_owned();
        exported.0.insert(hash, BTreeMap::new());
        Ok(exported)
    }

    fn read(page: &str) -> Result<Self> {
        let mut exported = Self(BTreeMap::new());
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            let (series, _) = line.rsplit_once(' ').with_context(|| line.to_owned())?;
            let (metric, labels) = series.split_once('{').unwrap_or((series, "}"));
            let known = exported.0.entry(metric.to_owned()).or_default();
            for (label, _, value) in matchers(labels.trim_end_matches('}'))? {
                known.entry(label).or_default().insert(value);
            }
        }
        ensure!(exported.0.len() > 10, "too few metrics: {page}");
        Ok(exported)
    }

    fn add(&mut self, metric: &str, label: &str, values: impl IntoIterator<Item = &'static str>) {
        let labels = self.0.get_mut(&format!("global_dns_{metric}")).unwrap();
        let known = labels.get_mut(label).unwrap();
        known.extend(values.into_iter().map(str::to_owned));
    }

    /// Checks that all metrics, labels and values in an expression exist.
    fn check(&self, expression: &str) -> Result<()> {
        let selectors = selectors(expression)?;
        ensure!(
            !selectors.is_empty(),
            "no metric of global-dns: {expression}"
        );
        for Selector { metric, matchers } in &selectors {
            let known = self.0.get(metric);
            let known = known.with_context(|| format!("the server exports no {metric}"))?;
            for (label, operator, value) in matchers {
                if SCRAPE_LABELS.contains(&label.as_str()) {
                    continue;
                }
                let values = known.get(label);
                let values = values.with_context(|| format!("{metric} has no label {label}"))?;
                let several = operator.contains('~');
                let asked = value.split(|c| several && c == '|');
                for value in asked.filter(|value| !value.is_empty()) {
                    let is_known = values.contains(value);
                    ensure!(is_known, "{metric}: {label} is never '{value}'");
                }
            }
        }
        Ok(())
    }
}

/// Returns the metrics of global-dns in an expression.
fn selectors(expression: &str) -> Result<Vec<Selector>> {
    let starts = ["global_dns_", "process_"]
        .into_iter()
        .flat_map(|prefix| expression.match_indices(prefix));
    let selector = |(start, _): (usize, &str)| {
        let rest = &expression[start..];
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_'));
        let (metric, rest) = rest.split_at(end.unwrap_or(rest.len()));
        let inner = rest
            .strip_prefix('{')
            .and_then(|rest| rest.split('}').next());
        Ok(Selector {
            metric: metric.to_owned(),
            matchers: matchers(inner.unwrap_or_default())?,
        })
    };
    starts.map(selector).collect()
}

/// Parses `label="value",…` with any operator.
fn matchers(text: &str) -> Result<Vec<(String, String, String)>> {
    let mut found = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (head, tail) = rest.split_once('"').context("no value")?;
        let (value, tail) = tail.split_once('"').context("no closing quote")?;
        let (label, operator) = head.split_at(head.find(['=', '!']).context("no operator")?);
        let label = label.trim().to_owned();
        found.push((label, operator.to_owned(), value.to_owned()));
        rest = tail.trim_start_matches(',');
    }
    Ok(found)
}
