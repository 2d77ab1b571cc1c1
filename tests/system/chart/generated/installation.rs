//! Renders many installations in one run of Helm.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value};
use support::repository::repository;

use support::helm::{NAMESPACE, RELEASE, Rendered, helm, rendered_objects};

/// What Helm does with values.
#[derive(Debug)]
pub enum Outcome {
    /// It renders them.
    Rendered(Rendered),
    /// It refuses them, with an error.
    Refused(String),
}

// === impl Outcome ===

impl Outcome {
    /// Returns the error, or what was rendered.
    pub fn text(&self) -> &str {
        match self {
            Self::Rendered(_) => "rendered",
            Self::Refused(error) => error,
        }
    }
}

/// Installations of one run. An error of a template ends the run, so the next run lacks only one of few.
const AT_ONCE: usize = 24;

/// Renders the chart with each of the values.
pub fn render_all(values: &[Value]) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    for some in values.chunks(AT_ONCE) {
        outcomes.extend(render_some(some)?);
    }
    Ok(outcomes)
}

fn render_some(values: &[Value]) -> Result<Vec<Outcome>> {
    let mut refused: BTreeMap<usize, String> = BTreeMap::new();
    loop {
        let left: Vec<usize> = (0..values.len())
            .filter(|index| !refused.contains_key(index))
            .collect();
        if left.is_empty() {
            break;
        }
        let folder = tempfile::tempdir()?;
        write_parent(folder.path(), &left)?;
        let given: Map<String, Value> = left
            .iter()
            .map(|index| (name(*index), values[*index].clone()))
            .collect();
        let place = folder.path().display().to_string();
        let ended = helm(
            &[
                "template",
                RELEASE,
                &place,
                "--namespace",
                NAMESPACE,
                "--kube-version",
                "1.33.0",
            ],
            &Value::Object(given),
        )?;
        if ended.is_success() {
            let mut texts = split(&ended.stdout);
            let mut outcomes = Vec::new();
            for index in 0..values.len() {
                outcomes.push(match refused.remove(&index) {
                    Some(error) => Outcome::Refused(error),
                    None => {
                        let text = texts.remove(&index).context("an installation is missing")?;
                        Outcome::Rendered(rendered_objects(&text)?)
                    }
                });
            }
            return Ok(outcomes);
        }
        let named = refusals(&ended.stderr);
        ensure!(!named.is_empty(), "helm template: {}", ended.stderr);
        refused.extend(named);
    }
    Ok(refused.into_values().map(Outcome::Refused).collect())
}

/// Name of an installation.
fn name(index: usize) -> String {
    format!("case{index}")
}

/// Writes a chart with one dependency for each installation.
fn write_parent(folder: &Path, indices: &[usize]) -> Result<()> {
    let mut text =
        "apiVersion: v2\nname: parent\nversion: 0.0.1\nkubeVersion: \">=1.27.0-0\"\ndependencies:\n".to_owned();
    for index in indices {
        let alias = name(*index);
        writeln!(
            text,
            "- {{name: global-dns, alias: {alias}, version: \"*\", repository: \"\"}}"
        )?;
    }
    fs::write(folder.join("Chart.yaml"), text)?;
    copy(
        &repository("charts/global-dns"),
        &folder.join("charts/global-dns"),
    )
}

/// Copies the files of the chart that Helm packs.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let file = entry.file_name();
        if entry.file_type()?.is_dir() {
            if !["docs", "examples"]
                .iter()
                .any(|ignored| file.as_os_str() == *ignored)
            {
                copy(&entry.path(), &to.join(file))?;
            }
        } else {
            fs::copy(entry.path(), to.join(file))?;
        }
    }
    Ok(())
}

/// Returns the documents of each installation.
fn split(text: &str) -> BTreeMap<usize, String> {
    let mut texts: BTreeMap<usize, String> = BTreeMap::new();
    let text = format!("\n{text}");
    for document in text.split("\n---\n# Source: ") {
        let Some(rest) = document.strip_prefix("parent/charts/case") else {
            continue;
        };
        let (index, rest) = rest.split_once('/').unwrap_or_default();
        let (_, object) = rest.split_once('\n').unwrap_or_default();
        if let Ok(index) = index.parse() {
            let all = texts.entry(index).or_default();
            all.push_str("---\n");
            all.push_str(object);
            all.push('\n');
        }
    }
    texts
}

/// Returns the installations that an error of Helm names, each with its part of the error.
fn refusals(error: &str) -> BTreeMap<usize, String> {
    let mut found: BTreeMap<usize, String> = BTreeMap::new();
    let mut current = None;
    for line in error.lines() {
        // Errors of the schema have a heading for each chart.
        let heading = line
            .strip_prefix("case")
            .and_then(|rest| rest.strip_suffix(':'));
        if let Some(index) = heading.and_then(|index| index.parse().ok()) {
            current = Some(index);
            continue;
        }
        // An error of a template names its file.
        let of_template = line
            .split_once("parent/charts/case")
            .and_then(|(_, rest)| rest.split('/').next()?.parse().ok());
        if let Some(index) = of_template {
            return BTreeMap::from([(index, line.to_owned())]);
        }
        if let Some(index) = current {
            let text = found.entry(index).or_default();
            text.push_str(line);
            text.push('\n');
        }
    }
    found
}
