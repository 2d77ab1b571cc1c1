//! The pod in `east` in which a program runs.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use support::commands::{command, tool};
use support::multicluster::Clusters;
use support::multicluster::plan::{EAST, NAMESPACE, Service};
use support::process::{run, run_checked};
use support::repository::repository;

/// The pod in `east` in which a program runs, and the Service that the program uses.
pub struct Pod<'c> {
    pub clusters: &'c Clusters,
    pub service: &'static Service,
}

/// Returns a file or folder that `tests/run clients` installs. The variable names it.
pub fn installed(variable: &str) -> Result<PathBuf> {
    let path = env::var_os(variable);
    let path = path.with_context(|| format!("{variable} is not set; run tests/run clients"))?;
    Ok(path.into())
}

/// Returns a program. `python` is the interpreter with the packages of `tests/tools/clients/requirements.txt`.
pub fn program(name: &str) -> Result<PathBuf> {
    match name {
        "python" => installed("GLOBAL_DNS_TEST_CLIENTS_PYTHON"),
        name => tool(name),
    }
}

/// Returns the first line with a number that a command prints.
pub fn version(words: &[&str]) -> Result<String> {
    let output = run(command(program(words[0])?).args(&words[1..])).output();
    let mut lines = output.lines();
    let line = lines.find(|line| line.contains(|letter: char| letter.is_ascii_digit()));
    Ok(line
        .with_context(|| format!("{words:?}: {output}"))?
        .to_owned())
}

// === impl Pod ===

impl Pod<'_> {
    /// Returns the directory of temporary files.
    pub fn directory(&self) -> &Path {
        self.clusters.directory()
    }

    /// Returns the name that the program uses.
    pub fn name(&self) -> String {
        format!("{}.{NAMESPACE}.global", self.service.name)
    }

    /// Builds a command in the pod.
    pub fn command(&self, name: &str) -> Result<Command> {
        self.clusters.pod_command(EAST, &program(name)?)
    }

    /// Requests a page of an API in JSON.
    pub fn page(&self, url: &str) -> Result<Value> {
        let mut curl = self.command("curl")?;
        curl.args(["--silent", "--show-error", "--max-time", "5", url]);
        Ok(serde_json::from_str(&run_checked(&mut curl)?)?)
    }

    /// Copies a file of `tests/system/clients` to the pod, with the name of the Service instead of `web.prod.global` and
    /// with replacements for paths of the machine. Fails if the file does not contain one of the texts.
    pub fn configuration(&self, file: &str, replacements: &[(&str, &str)]) -> Result<PathBuf> {
        let source = repository("tests/system/clients").join(file);
        let mut text = fs::read_to_string(&source).with_context(|| source.display().to_string())?;
        let name = self.name();
        for (old, new) in [&[("web.prod.global", name.as_str())], replacements].concat() {
            ensure!(text.contains(old), "{file} does not contain {old:?}");
            text = text.replace(old, new);
        }
        let target = self
            .directory()
            .join(source.file_name().context("not a file")?);
        fs::write(&target, text)?;
        Ok(target)
    }
}
