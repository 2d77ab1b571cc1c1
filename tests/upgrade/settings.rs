//! Flags and values of the earlier release are accepted, or refused with the name of the new one.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};
use support::commands::{command, global_dns};
use support::output::print_line;
use support::process::{ProcessOutput, run as run_program, run_checked};
use support::steps::Steps;

use crate::release;
use support::helm::{chart, helm, helm_without_values};

fn flags_of_the_earlier_binary() -> Result<()> {
    let binary = release::binary()?;
    let earlier = flags(command(&binary))?;
    let kept: BTreeSet<String> = fs::read_to_string(release::fixture("flags.txt"))?
        .lines()
        .map(str::to_owned)
        .collect();
    ensure!(
        earlier == kept,
        "the binary does not have the flags of flags.txt"
    );
    let current = flags(global_dns(&[]))?;
    let removed: Vec<&String> = earlier.difference(&current).collect();
    for flag in &removed {
        let ended = run_program(&mut global_dns(&["serve", &format!("--{flag}=x")]));
        let names_another = current
            .iter()
            .any(|new| ended.stderr.contains(&format!("--{new}")));
        ensure!(
            ended.code == Some(2) && ended.stderr.contains("is now") && names_another,
            "--{flag} was removed, and the error does not name the new flag: {}",
            ended.stderr
        );
        in_changelog(&format!("--{flag}"))?;
    }
    print_line(&format!(
        "{} flags of the earlier release, of which {} were removed; {} are new",
        earlier.len(),
        removed.len(),
        current.difference(&earlier).count()
    ));
    Ok(())
}

/// A rendered manifest of the earlier chart, whose image alone is replaced.
fn arguments_of_the_earlier_chart() -> Result<()> {
    let text = fs::read_to_string(release::fixture("arguments.txt"))?;
    let mut arguments: Vec<&str> = text.lines().collect();
    // The server cannot bind this address. With valid flags, the exit code is 1; with others it is 2.
    arguments.push("--listen=192.0.2.99:53");
    let mut earlier = command(release::binary()?);
    for (name, program) in [
        ("earlier", earlier.args(&arguments)),
        ("this", &mut global_dns(&arguments)),
    ] {
        let ended = run_program(program);
        ensure!(
            ended.code == Some(1),
            "the {name} release: {:?} {}",
            ended.code,
            ended.stderr
        );
    }
    Ok(())
}

fn values_of_the_earlier_chart() -> Result<()> {
    let earlier = read(&release::fixture("values.yaml"))?;
    let folder = tempfile::tempdir()?;
    let packed = read(&release::chart(folder.path())?.join("values.yaml"))?;
    ensure!(
        earlier == packed,
        "values.yaml is not that of the earlier chart"
    );
    let current = read(&Path::new(&chart()).join("values.yaml"))?;
    let mut removed = Vec::new();
    find_removed("", &earlier, &current, &mut removed);
    let given = read(&release::fixture("given.yaml"))?;
    for (path, value) in &removed {
        let mut values = given.clone();
        put(&mut values, path, value.clone());
        let ended = template(&values)?;
        let error = ended.stderr;
        ensure!(
            !ended.stdout.contains("kind:") && error.contains("is now"),
            "{path} was removed: {error}"
        );
        let root = path.split('.').next().unwrap_or_default();
        ensure!(
            error.contains(&format!("{root} is now ")),
            "{path} was removed: {error}"
        );
        let (_, new) = error
            .split_once(&format!("{root} is now "))
            .context("no new name")?;
        let new = new.split([':', ' ']).next().unwrap_or_default();
        let names: Vec<&str> = new.split('.').collect();
        let exists = names
            .iter()
            .try_fold(&current, |values, name| values.get(name));
        ensure!(exists.is_some(), "{path}: the chart has no value {new}");
        in_changelog(root)?;
    }
    // All other defaults of the earlier chart, and the values for every flag.
    let mut kept = earlier.clone();
    for (path, _) in &removed {
        let root = path.split('.').next().unwrap_or_default();
        kept.as_object_mut().context("no object")?.remove(root);
    }
    let named = json!({"clusterName": "hub", "image": {"repository": "localhost/global-dns"}});
    kept.as_object_mut()
        .context("no object")?
        .extend(named.as_object().cloned().unwrap_or_default());
    for values in [&kept, &given] {
        let ended = template(values)?;
        ensure!(ended.code == Some(0), "{}", ended.stderr);
    }
    let roots: BTreeSet<&str> = removed
        .iter()
        .filter_map(|(path, _)| path.split('.').next())
        .collect();
    print_line(&format!(
        "{} values of the earlier chart; removed: {roots:?}",
        count(&earlier)
    ));
    Ok(())
}

/// A check of the comparison: a value that neither chart has is found, and is refused without a new name.
fn unknown_values_are_found() -> Result<()> {
    let mut removed = Vec::new();
    let earlier = json!({"a": {"b": 1}, "c": 2, "labels": {}});
    find_removed(
        "",
        &earlier,
        &json!({"a": {}, "labels": {"x": 1}}),
        &mut removed,
    );
    let paths: Vec<&str> = removed.iter().map(|(path, _)| path.as_str()).collect();
    ensure!(paths == ["a.b", "c"], "{paths:?}");
    let ended =
        template(&json!({"clusterName": "hub", "image": {"repository": "a"}, "noSuchValue": 1}))?;
    ensure!(
        ended.code != Some(0) && !ended.stderr.contains("is now"),
        "{}",
        ended.stderr
    );
    Ok(())
}

pub fn run(steps: &mut Steps) {
    steps.step(
        "flags_exist_or_name_their_successor",
        flags_of_the_earlier_binary,
    );
    steps.step(
        "arguments_of_the_earlier_chart_are_accepted",
        arguments_of_the_earlier_chart,
    );
    steps.step(
        "removed_values_name_their_successor",
        values_of_the_earlier_chart,
    );
    steps.step("an_unknown_value_is_found", unknown_values_are_found);
    steps.step("both_charts_pass_helm_lint", || {
        let folder = tempfile::tempdir()?;
        for place in [
            chart(),
            release::chart(folder.path())?.display().to_string(),
        ] {
            let values = read(&release::fixture("given.yaml"))?;
            let ended = helm(&["lint", &place, "--kube-version", "1.33.0"], &values)?;
            ensure!(ended.code == Some(0), "{}", ended.output());
        }
        ensure!(helm_without_values(&["version"])?.code == Some(0));
        Ok(())
    });
}

fn template(values: &Value) -> Result<ProcessOutput> {
    helm(
        &[
            "template",
            "global-dns",
            &chart(),
            "--kube-version",
            "1.33.0",
        ],
        values,
    )
}

fn in_changelog(name: &str) -> Result<()> {
    let text = fs::read_to_string(support::repository::repository("CHANGELOG.md"))?;
    ensure!(text.contains(name), "CHANGELOG.md does not name {name}");
    Ok(())
}

fn read(file: &Path) -> Result<Value> {
    let text = fs::read_to_string(file)?;
    let options = serde_saphyr::options! { budget: None };
    Ok(serde_saphyr::from_str_with_options(&text, options)?)
}

/// Returns the flags of `serve` of a program.
fn flags(mut program: Command) -> Result<BTreeSet<String>> {
    let help = run_checked(program.args(["serve", "--help"]))?;
    let mut flags = BTreeSet::new();
    for line in help
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with('-'))
    {
        let words = line.split_whitespace().take(2);
        let long = words.filter_map(|word| word.strip_prefix("--"));
        flags.extend(
            long.filter_map(|word| word.split(['=', '[', ',']).next())
                .map(str::to_owned),
        );
    }
    flags.remove("help");
    ensure!(flags.len() > 40, "{flags:?}");
    Ok(flags)
}

/// Adds the paths that another chart does not have. A map without defaults has keys of its user.
fn find_removed(path: &str, earlier: &Value, current: &Value, removed: &mut Vec<(String, Value)>) {
    let empty = Map::new();
    for (name, value) in earlier.as_object().unwrap_or(&empty) {
        let below = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        match current.get(name) {
            None => removed.push((below, value.clone())),
            Some(other) => find_removed(&below, value, other, removed),
        }
    }
}

fn put(values: &mut Value, path: &str, value: Value) {
    let place = path
        .split('.')
        .fold(values, |values, name| &mut values[name]);
    *place = value;
}

fn count(values: &Value) -> usize {
    match values.as_object() {
        Some(fields) if !fields.is_empty() => fields.values().map(count).sum(),
        _ => 1,
    }
}
