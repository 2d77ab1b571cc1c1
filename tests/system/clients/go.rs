//! Go's resolver, which every Go program without cgo has: `net.LookupHost` and `net.LookupSRV`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;
use support::commands::tool;
use support::multicluster::plan::{CLUSTER_DNS, EAST, NAMESPACE, Service};
use support::process::{Process, run_checked};
use support::repository::repository;

use crate::clients::scenario::client::{Client, Profile, Running, View};
use crate::clients::scenario::pod::Pod;

pub struct Go;

/// The program `tests/tools/golookup`. Each lookup is a process.
struct Lookup {
    program: PathBuf,
    service: &'static Service,
}

// === impl Go ===

impl Client for Go {
    fn profile(&self) -> Profile {
        let setting = "none: it has no cache";
        let views = vec![
            View::addresses("LookupHost", setting),
            View::srv("LookupSRV", "_http._tcp.", setting),
        ];
        Profile::new("go", "Go", views)
    }

    fn version(&self) -> Result<String> {
        let mut version = Command::new(tool("go")?);
        let output = run_checked(version.args(["env", "GOVERSION"]))?;
        Ok(output.trim().trim_start_matches("go").to_owned())
    }

    fn start(&self, pod: &Pod<'_>, service: &'static Service) -> Result<Box<dyn Running>> {
        let program = pod.directory().join("golookup");
        if !program.exists() {
            let mut build = Command::new(tool("go")?);
            build
                .args(["build", "-trimpath", "-o"])
                .arg(&program)
                .arg(".");
            build.env("GOWORK", "off").env("CGO_ENABLED", "0");
            run_checked(build.current_dir(repository("tests/tools/golookup")))?;
        }
        Ok(Box::new(Lookup { program, service }))
    }
}

// === impl Lookup ===

impl Lookup {
    /// Runs the program. Returns the records of all questions; a failed question has none.
    fn look_up(&self, pod: &Pod<'_>, questions: &[String]) -> Result<BTreeSet<String>> {
        let mut command = pod.clusters.pod_command(EAST, &self.program)?;
        command.arg(format!("{CLUSTER_DNS}:53")).args(questions);
        let found: Value = serde_json::from_str(&run_checked(&mut command)?)?;
        let answers = found["answers"].as_array().context("no answers")?;
        let records = answers
            .iter()
            .flat_map(|answer| answer["records"].as_array());
        let records = records.flatten().filter_map(Value::as_str);
        Ok(records.map(str::to_owned).collect())
    }
}

impl Running for Lookup {
    fn seen(&mut self, pod: &Pod<'_>, view: &View) -> Result<BTreeSet<String>> {
        let name = format!("{}.{NAMESPACE}.global", self.service.name);
        if view.prefix.is_empty() {
            return self.look_up(pod, &[format!("host::{name}")]);
        }
        let targets = self.look_up(pod, &[format!("srv:http/tcp:{name}")])?;
        let targets = targets.iter().filter_map(|target| target.split(' ').next());
        let targets: Vec<String> = targets.map(|target| format!("host::{target}")).collect();
        if targets.is_empty() {
            Ok(BTreeSet::new())
        } else {
            self.look_up(pod, &targets)
        }
    }

    fn process(&mut self) -> Option<&mut Process> {
        None
    }
}
