//! Rules and dashboard use only metrics, labels and values that a running server exports.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, bail, ensure};
use global_dns::model::problem::{Family, Level, ROWS};
use global_dns::report::EndpointState;
use serde_json::{Value, json};
use strum::VariantArray as _;
use support::certificates::{Identity, issue_valid};
use support::output::print_line;
use support::repository::repository;
use support::server::{Server, WaitUntil};

use crate::chart::alerts::{groups, rules_mut};
use crate::chart::dashboard::{Target, dashboard, targets};
use crate::chart::values::with;
use support::helm::template;

/// Labels that the ServiceMonitor adds to each scrape.
const SCRAPE_LABELS: [&str; 3] = ["job", "namespace", "pod"];
/// Words of PromQL that the expressions use.
const KEYWORDS: [&str; 15] = [
    "absent",
    "and",
    "bool",
    "by",
    "changes",
    "count",
    "histogram_quantile",
    "increase",
    "max",
    "min",
    "or",
    "rate",
    "sum",
    "time",
    "unless",
];

/// Series of a metrics page: names, and the values of their labels.
struct Exported(BTreeMap<String, BTreeMap<String, BTreeSet<String>>>);

/// A metric in an expression, with its label matchers.
#[derive(Debug)]
struct Selector {
    metric: String,
    /// Label, operator, value.
    matchers: Vec<(String, String, String)>,
}

#[test]
fn rules_and_dashboard_use_only_exported_metrics() -> Result<()> {
    let exported = Exported::read_from_server()?;
    let values = with(json!({
        "alerts": {"enabled": true}, "dashboard": {"enabled": true},
        "encrypted": {"secretName": "tls", "tlsListen": ["0.0.0.0:5853"]},
    }));
    let rendered = template(&values)?;
    let mut used = BTreeSet::new();

    let groups = rendered.only("PrometheusRule")?["spec"]["groups"].as_array();
    let rules = groups
        .context("the rule has no groups")?
        .iter()
        .flat_map(|group| group["rules"].as_array().into_iter().flatten());
    let mut names = BTreeSet::new();
    for rule in rules {
        let name = rule["alert"].as_str().context("a rule without a name")?;
        ensure!(names.insert(name), "two alerts have the name {name}");
        let text = |value: &Value| {
            value
                .as_str()
                .map(str::to_owned)
                .with_context(|| format!("{name}: {rule}"))
        };
        let expression = text(&rule["expr"])?;
        let selectors = exported
            .check(&expression)
            .with_context(|| name.to_owned())?;
        used.extend(selectors.into_iter().map(|selector| selector.metric));
        ensure!(
            ["critical", "warning"].contains(&text(&rule["labels"]["severity"])?.as_str()),
            "{name}"
        );
        text(&rule["for"])?;
        text(&rule["annotations"]["summary"])?;
        let description = text(&rule["annotations"]["description"])?;
        // The result must keep the labels that the description uses.
        for label in description.split("$labels.").skip(1) {
            let label: String = label
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            let is_kept = if let Some((_, by)) = expression.split_once(" by (") {
                let kept = by.split(')').next().unwrap_or_default();
                kept.split(", ").any(|one| one == label)
            } else {
                SCRAPE_LABELS.contains(&label.as_str())
            };
            ensure!(is_kept, "{name}: the result has no label {label}");
        }
    }
    // Only these alerts show problems that do not affect answers.
    for metric in ["compared_table_hash", "worker_panics_total"] {
        let metric = format!("global_dns_{metric}");
        ensure!(used.contains(&metric), "no alert uses {metric}");
    }
    let panels = check_dashboard(&exported, &dashboard(&rendered)?, &mut used)?;
    let unseen: Vec<&str> = exported
        .metrics()
        .filter(|metric| !used.contains(*metric))
        .collect();
    print_line(&format!(
        "{} alerts and {panels} panels use {} of the server's series; not used: {}",
        names.len(),
        used.len(),
        unseen.join(" ")
    ));
    Ok(())
}

/// Returns the expressions of the rules by the names of their alerts.
fn expressions(values: Value) -> Result<BTreeMap<String, String>> {
    let rendered = template(&with(values))?;
    let groups = rendered.only("PrometheusRule")?["spec"]["groups"].as_array();
    let rules = groups.context("the rule has no groups")?.iter();
    let rules = rules.flat_map(|group| group["rules"].as_array().into_iter().flatten());
    let text = |value: &Value| Some(value.as_str()?.to_owned());
    let expressions = rules.map(|rule| Some((text(&rule["alert"])?, text(&rule["expr"])?)));
    expressions
        .collect::<Option<_>>()
        .context("a rule without a name or expression")
}

/// Objects that are skipped on purpose, and other notes, need no alert.
#[test]
fn alerts_ignore_the_problems_that_are_notes() -> Result<()> {
    let expressions = expressions(json!({"alerts": {"enabled": true}}))?;
    let notes = |family: Family| {
        let notes = ROWS.iter().filter(|row| row.level == Level::Note);
        let notes = notes.filter(|row| row.family == family);
        notes.map(|row| row.name).collect::<BTreeSet<_>>()
    };
    let ignored = |alert: &str| {
        let (_, kinds) = expressions[alert].split_once("!~\"").context("no kinds")?;
        let kinds = kinds.split('"').next().context("no kinds")?;
        anyhow::Ok(kinds.split('|').collect::<BTreeSet<_>>())
    };
    let skipped = ignored("GlobalDnsSkippedObjects")?;
    ensure!(skipped == notes(Family::Skipped), "{skipped:?}");
    let mut conflicts = ignored("GlobalDnsConflicts")?;
    // It has an alert of its own.
    ensure!(conflicts.remove("short-name"), "{conflicts:?}");
    ensure!(conflicts == notes(Family::Conflict), "{conflicts:?}");
    for (alert, expression) in expressions {
        for note in ROWS.iter().filter(|row| row.level == Level::Note) {
            let fires_for = expression.contains(&format!("=\"{}\"", note.name));
            ensure!(!fires_for, "{alert} is about a note: {expression}");
        }
    }
    Ok(())
}

#[test]
fn ambiguous_short_names_have_a_separate_alert_unless_ignored() -> Result<()> {
    const OWN: &str = "GlobalDnsShortNameAmbiguous";
    let others = |expressions: &BTreeMap<String, String>| {
        let expression = &expressions["GlobalDnsConflicts"];
        let kinds = expression
            .split_once("kind!~\"")
            .context("the expression has no kinds")?
            .1;
        let kinds = kinds
            .split('"')
            .next()
            .context("the expression has no kinds")?;
        anyhow::Ok(kinds.to_owned())
    };
    let alerts = expressions(json!({"alerts": {"enabled": true}}))?;
    ensure!(alerts[OWN].contains("kind=\"short-name\""), "{alerts:?}");
    ensure!(others(&alerts)? == "short-name|kind", "{alerts:?}");
    for (ignored, kinds, has_own) in [
        (json!(["endpoint"]), "short-name|kind|endpoint", true),
        (json!(["kind", "short-name"]), "short-name|kind", false),
    ] {
        let values = json!({"alerts": {"enabled": true, "ignoredConflicts": ignored}});
        let alerts = expressions(values)?;
        ensure!(alerts.contains_key(OWN) == has_own, "{ignored}");
        ensure!(others(&alerts)? == kinds, "{ignored}: {alerts:?}");
    }
    Ok(())
}

/// Each alert refers to its section of the manual, and each section has an alert.
#[test]
fn alerts_refer_to_their_sections_of_the_manual() -> Result<()> {
    let urls = |prefix: &str| {
        let values = with(json!({
            "alerts": {"enabled": true, "runbookURL": prefix},
            "encrypted": {"secretName": "tls", "tlsListen": ["0.0.0.0:5853"]},
        }));
        let mut groups = groups(&template(&values)?)?;
        let rules = rules_mut(&mut groups);
        let urls = rules.map(|rule| {
            let alert = rule["alert"].as_str().unwrap_or_default().to_owned();
            (alert, rule["annotations"].get("runbook_url").cloned())
        });
        anyhow::Ok(urls.collect::<Vec<_>>())
    };
    let none = urls("")?;
    ensure!(none.iter().all(|(_, url)| url.is_none()), "{none:?}");
    let manual = fs::read_to_string(repository("charts/global-dns/docs/src/alerts.md"))?;
    let sections = manual.lines().filter_map(|line| line.strip_prefix("## "));
    let sections: Vec<&str> = sections.collect();
    for prefix in [
        "https://docs.example.com/dns",
        "https://docs.example.com/dns/",
    ] {
        let hosted = urls(prefix)?;
        let alerts: Vec<&str> = hosted.iter().map(|(alert, _)| alert.as_str()).collect();
        ensure!(
            alerts == sections,
            "alerts {alerts:?}, sections {sections:?}"
        );
        for (alert, url) in &hosted {
            let anchor = alert.to_lowercase();
            let expected = json!(format!("https://docs.example.com/dns/alerts.html#{anchor}"));
            ensure!(url.as_ref() == Some(&expected), "{url:?}");
        }
    }
    Ok(())
}

/// Checks the dashboard and returns its number of panels.
fn check_dashboard(
    exported: &Exported,
    dashboard: &Value,
    used: &mut BTreeSet<String>,
) -> Result<usize> {
    let variables: Vec<&str> = dashboard["templating"]["list"]
        .as_array()
        .context("the dashboard has no variables")?
        .iter()
        .filter_map(|variable| variable["name"].as_str())
        .collect();
    let mut panels = BTreeSet::new();
    for target in targets(dashboard)? {
        let Target { panel, expression } = &target;
        panels.insert(panel.clone());
        for variable in ["cluster", "job", "namespace"] {
            let is_chosen = expression.contains(&format!("{variable}=~\"${variable}\""));
            ensure!(
                is_chosen && variables.contains(&variable),
                "panel {panel} does not use ${variable}"
            );
        }
        // External labels exist only outside of the Prometheus that scrapes.
        let expression = expression
            .replace("cluster=~\"$cluster\",", "")
            .replace("by (cluster, ", "by (");
        let checked = exported.check(&expression);
        let selectors = checked.with_context(|| panel.clone())?;
        used.extend(selectors.into_iter().map(|selector| selector.metric));
    }
    for variable in dashboard["templating"]["list"]
        .as_array()
        .into_iter()
        .flatten()
    {
        if let Some(query) = variable["query"]["query"].as_str() {
            let metric = query
                .trim_start_matches("label_values(")
                .split(['{', ','])
                .next()
                .unwrap_or_default();
            ensure!(
                exported.0.contains_key(metric),
                "{query}: the server exports no {metric}"
            );
        }
    }
    Ok(panels.len())
}

#[test]
fn expressions_with_unknown_names_are_rejected() -> Result<()> {
    let exported = Exported::read_from_server()?;
    for good in [
        "max(global_dns_services) != 0",
        "sum by (pod, type) (rate(global_dns_requests_total{proto=\"udp\",job=\"x\"}[5m])) > 0.5",
        "global_dns_conflicts{kind!~\"kind|endpoint\"} > 0",
        "global_dns_conflicts{kind!~\"\"} > 0",
    ] {
        exported.check(good).with_context(|| good.to_owned())?;
    }
    for (bad, expected) in [
        (
            "max(global_dns_servces) > 0",
            "exports no global_dns_servces",
        ),
        (
            "global_dns_responses_total{code=\"SERVFAIL\"}",
            "no label code",
        ),
        (
            "global_dns_responses_total{rcode=\"SERVFAULT\"}",
            "never 'SERVFAULT'",
        ),
        (
            "global_dns_conflicts{kind!~\"kin|endpoint\"}",
            "never 'kin'",
        ),
        ("sum by (cluster) (global_dns_services)", "no label cluster"),
        (
            "process_max_fds{kind=\"soft\"}",
            "process_max_fds has no label kind",
        ),
        ("sum(global_dns_services", "parentheses"),
        ("up == 0", "no metric of global-dns"),
        ("max(global_dns_services) > on() up", "unknown word 'on'"),
    ] {
        match exported.check(bad) {
            Ok(_) => bail!("the check accepts {bad}"),
            Err(error) => ensure!(error.to_string().contains(expected), "{bad}: {error}"),
        }
    }
    Ok(())
}

// === impl Exported ===

impl Exported {
    /// Reads the metrics of a running server with a table, members of all kinds and a certificate.
    fn read_from_server() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        issue_valid().write(folder.path());
        let [certificate, key] = Identity::flags(folder.path());
        let file = format!("--file={}", repository("src/demo.yaml").display());
        let flags = [
            "--cluster-name=hub",
            "--tls-listen=127.0.0.1:0",
            &file,
            &certificate,
            &key,
        ];
        let server = Server::start(folder, &flags, WaitUntil::Ready);
        let mut exported = Self::read(&server.admin("/metrics").body)?;
        let states: Vec<&str> = EndpointState::VARIANTS
            .iter()
            .map(|state| state.name())
            .collect();
        // The sample cannot have all states at the same time.
        for (metric, label, values) in [
            ("endpoints", "state", &states[..]),
            (
                "unavailable_endpoints",
                "cause",
                &["gateway", "not-ready", "link"],
            ),
            (
                "unavailable_endpoints",
                "returned",
                &["false", "include", "last-resort"],
            ),
        ] {
            let known = exported.0.get_mut(&format!("global_dns_{metric}"));
            let known = known.and_then(|labels| labels.get_mut(label));
            let known =
                known.with_context(|| format!("the server exports no {metric} with {label}"))?;
            known.extend(values.iter().map(|value| (*value).to_owned()));
        }
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
        ensure!(
            exported.0.len() > 10,
            "the page has too few metrics: {page}"
        );
        Ok(exported)
    }

    /// Returns the names of the series, without `_count` and `_sum` of histograms.
    fn metrics(&self) -> impl Iterator<Item = &str> {
        let is_part = |name: &str| name.ends_with("_count") || name.ends_with("_sum");
        self.0
            .keys()
            .map(String::as_str)
            .filter(move |name| !is_part(name))
    }

    /// Checks that all names in an expression exist, and returns its selectors.
    fn check(&self, expression: &str) -> Result<Vec<Selector>> {
        let opened = expression.matches('(').count();
        ensure!(
            opened == expression.matches(')').count(),
            "parentheses do not match: {expression}"
        );
        let selectors = selectors(expression)?;
        ensure!(
            !selectors.is_empty(),
            "'{expression}' uses no metric of global-dns"
        );
        let mut labels: BTreeSet<&str> = BTreeSet::from(SCRAPE_LABELS);
        for Selector { metric, matchers } in &selectors {
            let known = self
                .0
                .get(metric)
                .with_context(|| format!("the server exports no {metric}"))?;
            labels.extend(known.keys().map(String::as_str));
            for (label, operator, value) in matchers {
                if SCRAPE_LABELS.contains(&label.as_str()) {
                    continue;
                }
                let values = known
                    .get(label)
                    .with_context(|| format!("{metric} has no label {label}"))?;
                let asked = if operator.contains('~') {
                    value.split('|').collect()
                } else {
                    vec![value.as_str()]
                };
                for value in asked.into_iter().filter(|value| !value.is_empty()) {
                    ensure!(
                        values.contains(value),
                        "{metric}: the value of {label} is never '{value}'"
                    );
                }
            }
        }
        // The rest consists of PromQL words and labels of `by` clauses.
        let mut rest = expression.to_owned();
        while let Some((before, after)) = rest.split_once('{') {
            let (_, after) = after.split_once('}').context("a missing closing brace")?;
            rest = format!("{before} {after}");
        }
        while let Some((before, after)) = rest.split_once('[') {
            let (_, after) = after.split_once(']').context("a missing closing bracket")?;
            rest = format!("{before} {after}");
        }
        let mut grouped = BTreeSet::new();
        for list in rest.split(" by (").skip(1) {
            grouped.extend(list.split(')').next().unwrap_or_default().split(", "));
        }
        for label in &grouped {
            ensure!(
                labels.contains(label),
                "{expression}: no label {label} exists"
            );
        }
        for word in rest.split(|c: char| !(c.is_alphanumeric() || c == '_')) {
            let is_number = word.chars().all(|c| c.is_ascii_digit());
            let is_known =
                self.0.contains_key(word) || KEYWORDS.contains(&word) || grouped.contains(word);
            ensure!(is_number || is_known, "{expression}: unknown word '{word}'");
        }
        Ok(selectors)
    }
}

/// Returns the metrics of global-dns in an expression.
fn selectors(expression: &str) -> Result<Vec<Selector>> {
    let mut found = Vec::new();
    let starts = ["global_dns_", "process_"]
        .into_iter()
        .flat_map(|prefix| expression.match_indices(prefix))
        .map(|(start, _)| start);
    for start in starts {
        let rest = &expression[start..];
        let end = rest
            .find(|c: char| !(c.is_alphanumeric() || c == '_'))
            .unwrap_or(rest.len());
        let (metric, rest) = rest.split_at(end);
        let inner = rest
            .strip_prefix('{')
            .map(|rest| rest.split('}').next().unwrap_or_default());
        found.push(Selector {
            metric: metric.to_owned(),
            matchers: matchers(inner.unwrap_or_default())?,
        });
    }
    Ok(found)
}

/// Parses `label="value",…` with any operator.
fn matchers(text: &str) -> Result<Vec<(String, String, String)>> {
    let mut found = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (head, tail) = rest
            .split_once('"')
            .with_context(|| format!("no value in {text}"))?;
        let (value, tail) = tail
            .split_once('"')
            .with_context(|| format!("a value without closing quote in {text}"))?;
        let operator = head
            .find(['=', '!'])
            .with_context(|| format!("no operator in {text}"))?;
        let (label, operator) = head.split_at(operator);
        found.push((
            label.trim().to_owned(),
            operator.to_owned(),
            value.to_owned(),
        ));
        rest = tail.trim_start_matches(',');
    }
    Ok(found)
}
