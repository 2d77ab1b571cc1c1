//! Go's resolver, which every Go program without cgo has: `net.LookupHost` and `net.LookupSRV`.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;
use support::commands::tool;
use support::multicluster::plan::{CLUSTER_DNS, EAST};
use support::process::{Process, run_checked};
use support::repository::repository;

use crate::clients::scenario::pod::Pod;
use crate::clients::scenario::{Client, Profile, View};

/// The program `tests/system/clients/go`. Each lookup is a process.
pub struct Go;

const VIEWS: [View; 2] = [View::new("LookupHost"), View::new("LookupSRV")];
const PROGRAM: &str = "golookup";

// === impl Go ===

impl Client for Go {
    fn profile(&self) -> Profile {
        Profile::new("go", &["go", "version"], &VIEWS)
    }

    fn start(&mut self, pod: &Pod<'_>) -> Result<Vec<Process>> {
        let program = pod.directory().join(PROGRAM);
        if !program.exists() {
            let mut build = Command::new(tool("go")?);
            build
                .args(["build", "-trimpath", "-o"])
                .arg(&program)
                .arg(".");
            build.env("GOWORK", "off").env("CGO_ENABLED", "0");
            run_checked(build.current_dir(repository("tests/system/clients/go")))?;
        }
        Ok(Vec::new())
    }

    fn seen(&mut self, pod: &Pod<'_>, _: &[Process], view: &View) -> Result<BTreeSet<String>> {
        let name = pod.name();
        if view.name == "LookupHost" {
            return look_up(pod, &[format!("host::{name}")]);
        }
        let targets = look_up(pod, &[format!("srv:http/tcp:{name}")])?;
        let targets = targets.iter().filter_map(|target| target.split(' ').next());
        let targets: Vec<String> = targets.map(|target| format!("host::{target}")).collect();
        if targets.is_empty() {
            Ok(BTreeSet::new())
        } else {
            look_up(pod, &targets)
        }
    }
}

/// Returns the records of all questions; a failed question has none.
fn look_up(pod: &Pod<'_>, questions: &[String]) -> Result<BTreeSet<String>> {
    let program = pod.directory().join(PROGRAM);
    let mut command = pod.clusters.pod_command(EAST, &program)?;
    command.arg(format!("{CLUSTER_DNS}:53")).args(questions);
    let found: Value = serde_json::from_str(&run_checked(&mut command)?)?;
    let answers = found["answers"].as_array().context("no answers")?.iter();
    let records = answers.flat_map(|answer| answer["records"].as_array());
    let records = records.flatten().filter_map(Value::as_str);
    Ok(records.map(str::to_owned).collect())
}
