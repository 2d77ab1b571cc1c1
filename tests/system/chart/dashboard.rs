//! The dashboard: its queries, and the rules of Grafana for its JSON.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::repository::repository;

use crate::chart::values::with;
use support::helm::{Rendered, template};

/// A query of a panel.
#[derive(Debug)]
pub struct Target {
    /// Title of the panel.
    pub panel: String,
    pub expression: String,
}

/// Returns the dashboard in the rendered ConfigMap.
pub fn dashboard(rendered: &Rendered) -> Result<Value> {
    let text = rendered.only("ConfigMap")?["data"]["global-dns.json"].as_str();
    Ok(serde_json::from_str(
        text.context("the ConfigMap has no dashboard")?,
    )?)
}

/// Returns all queries of all panels.
pub fn targets(dashboard: &Value) -> Result<Vec<Target>> {
    let mut found = Vec::new();
    for panel in panels(dashboard)? {
        let title = text(panel, "title")?;
        let targets = panel["targets"].as_array();
        let targets = targets.with_context(|| format!("panel {title} has no queries"))?;
        ensure!(!targets.is_empty(), "panel {title} has no query");
        for target in targets {
            found.push(Target {
                panel: title.clone(),
                expression: text(target, "expr").with_context(|| title.clone())?,
            });
        }
    }
    Ok(found)
}

/// Returns the panels without the headings of rows.
fn panels(dashboard: &Value) -> Result<Vec<&Value>> {
    let panels = dashboard["panels"]
        .as_array()
        .context("the dashboard has no panels")?;
    Ok(panels
        .iter()
        .filter(|panel| panel["type"] != "row")
        .collect())
}

fn text(object: &Value, field: &str) -> Result<String> {
    let text = object[field].as_str().filter(|text| !text.is_empty());
    Ok(text
        .with_context(|| format!("no {field} in {object}"))?
        .to_owned())
}

#[test]
fn dashboard_is_valid_for_grafana() -> Result<()> {
    let values = with(json!({"dashboard": {"enabled": true}}));
    let dashboard = dashboard(&template(&values)?)?;
    let uid = text(&dashboard, "uid")?;
    ensure!(uid.len() <= 40, "Grafana refuses the uid {uid}");
    text(&dashboard, "title")?;
    let variables = dashboard["templating"]["list"]
        .as_array()
        .context("no variables")?;
    let is_source =
        |variable: &Value| variable["type"] == "datasource" && variable["name"] == "datasource";
    ensure!(
        variables.first().is_some_and(is_source),
        "the first variable is not the data source"
    );
    let source = json!({"type": "prometheus", "uid": "${datasource}"});
    for variable in &variables[1..] {
        ensure!(variable["datasource"] == source, "{variable}");
        ensure!(
            variable["includeAll"] == true && variable["multi"] == true,
            "{variable}"
        );
    }
    let all = dashboard["panels"].as_array().context("no panels")?;
    let ids: BTreeSet<_> = all
        .iter()
        .filter_map(|panel| panel["id"].as_u64())
        .collect();
    ensure!(
        ids.len() == all.len(),
        "two panels have the same id, or one has none"
    );
    check_positions(all)?;
    let mut titles = BTreeSet::new();
    for panel in panels(&dashboard)? {
        let title = text(panel, "title")?;
        check_panel(panel, &source).with_context(|| format!("panel {title}"))?;
        ensure!(
            titles.insert(title.clone()),
            "two panels have the title {title}"
        );
    }
    Ok(())
}

#[test]
fn thresholds_are_the_defaults_of_the_alerts() -> Result<()> {
    let read = |file: &str| fs::read_to_string(repository("charts/global-dns").join(file));
    let values: Value = serde_saphyr::from_str(&read("values.yaml")?)?;
    let rule = &values["alerts"];
    let days = rule["certificateDays"].as_f64().context("no days")?;
    let dashboard: Value = serde_json::from_str(&read("dashboards/global-dns.json")?)?;
    for (title, color, expected) in [
        ("Age of the table", "red", rule["tableAgeSeconds"].as_f64()),
        (
            "Age of the table by replica",
            "red",
            rule["tableAgeSeconds"].as_f64(),
        ),
        ("Certificate", "yellow", Some(days * 24.0 * 3600.0)),
    ] {
        let panel = panels(&dashboard)?
            .into_iter()
            .find(|panel| panel["title"] == title);
        let panel = panel.with_context(|| format!("no panel {title}"))?;
        let steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"].as_array();
        let step = steps
            .into_iter()
            .flatten()
            .find(|step| step["color"] == color);
        let value = step.context("no threshold")?["value"].as_f64();
        ensure!(
            expected.is_some() && value == expected,
            "{title}: {value:?}, not {expected:?}"
        );
    }
    Ok(())
}

/// Checks that the panels lie within the 24 columns and that no two overlap.
fn check_positions(panels: &[Value]) -> Result<()> {
    let mut taken = BTreeSet::new();
    for panel in panels {
        let side = |name: &str| {
            panel["gridPos"][name]
                .as_u64()
                .context("a panel without position")
        };
        let (x, y, w, h) = (side("x")?, side("y")?, side("w")?, side("h")?);
        ensure!(
            w > 0 && h > 0 && x + w <= 24,
            "panel {} is outside the grid",
            panel["title"]
        );
        for cell in (y..y + h).flat_map(|y| (x..x + w).map(move |x| (x, y))) {
            ensure!(
                taken.insert(cell),
                "panel {} overlaps another one",
                panel["title"]
            );
        }
    }
    Ok(())
}

/// Checks description, unit, thresholds, queries and value mappings of a panel.
fn check_panel(panel: &Value, source: &Value) -> Result<()> {
    let kind = text(panel, "type")?;
    ensure!(
        ["stat", "timeseries", "state-timeline"].contains(&kind.as_str()),
        "type {kind}"
    );
    let description = text(panel, "description")?;
    ensure!(
        description.ends_with('.'),
        "the description is no sentence: {description}"
    );
    ensure!(
        panel["datasource"] == *source,
        "data source {}",
        panel["datasource"]
    );
    let defaults = &panel["fieldConfig"]["defaults"];
    text(defaults, "unit")?;
    check_thresholds(&kind, defaults)?;
    let targets = panel["targets"].as_array().context("no queries")?;
    let mut names = BTreeSet::new();
    for target in targets {
        ensure!(target["datasource"] == *source, "{target}");
        ensure!(
            names.insert(text(target, "refId")?),
            "two queries have the same refId"
        );
        text(target, "legendFormat")?;
    }
    if kind == "state-timeline" {
        let mapped = defaults["mappings"][0]["options"]
            .as_object()
            .context("no mappings")?;
        let states: Vec<&str> = mapped.keys().map(String::as_str).collect();
        ensure!(states == ["0", "1", "2", "3"], "mapped values: {states:?}");
    }
    Ok(())
}

/// Checks that thresholds begin with a base and ascend. A single value is judged by its color, so it needs two.
fn check_thresholds(kind: &str, defaults: &Value) -> Result<()> {
    let thresholds = &defaults["thresholds"];
    ensure!(thresholds["mode"] == "absolute", "{thresholds}");
    let steps = thresholds["steps"].as_array().context("no thresholds")?;
    let (first, rest) = steps.split_first().context("no thresholds")?;
    ensure!(
        first["value"].is_null(),
        "the base has a value: {thresholds}"
    );
    ensure!(kind == "timeseries" || !rest.is_empty(), "no threshold");
    let values: Option<Vec<f64>> = rest.iter().map(|step| step["value"].as_f64()).collect();
    let values = values.context("a threshold without a value")?;
    ensure!(values.is_sorted_by(|a, b| a < b), "{thresholds}");
    for step in steps {
        text(step, "color")?;
    }
    // A line shows each threshold of a diagram.
    let style = &defaults["custom"]["thresholdsStyle"]["mode"];
    let is_drawn = kind != "timeseries" || rest.is_empty() || style == "line";
    ensure!(is_drawn, "the thresholds are not drawn");
    Ok(())
}
