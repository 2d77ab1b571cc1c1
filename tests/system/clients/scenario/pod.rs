//! The pod in `east` in which a program runs.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use support::commands::tool;
use support::multicluster::Clusters;
use support::multicluster::plan::{EAST, NAMESPACE, Service};
use support::repository::repository;

/// The pod in `east` in which a program runs, and the pods of the other clusters.
pub struct Pod<'c> {
    pub clusters: &'c Clusters,
}

/// Returns the Python interpreter with the packages of `tests/tools/clients/requirements.txt`.
pub fn python() -> Result<PathBuf> {
    let variable = "GLOBAL_DNS_TEST_CLIENTS_PYTHON";
    let path = env::var_os(variable)
        .with_context(|| format!("{variable} is not set; run tests/run clients"))?;
    Ok(path.into())
}

// === impl Pod ===

impl Pod<'_> {
    /// Returns the directory of temporary files.
    pub fn directory(&self) -> &Path {
        self.clusters.directory()
    }

    /// Builds a command in the pod. The program is found as described at [`tool`].
    pub fn command(&self, program: &str) -> Result<Command> {
        self.clusters.pod_command(EAST, &tool(program)?)
    }

    /// Builds a command in a pod of another cluster.
    pub fn command_in(&self, cluster: usize, program: &str) -> Result<Command> {
        self.clusters.pod_command(cluster, &tool(program)?)
    }

    /// Copies a file of `tests/system/clients` to the pod, with the name of a Service instead of `web.prod.global` and with
    /// replacements for paths of the machine. Fails if the file does not contain one of the texts.
    pub fn configuration(
        &self,
        file: &str,
        service: &Service,
        replacements: &[(&str, &str)],
    ) -> Result<PathBuf> {
        let source = repository("tests/system/clients").join(file);
        let mut text = fs::read_to_string(&source).with_context(|| source.display().to_string())?;
        let name = format!("{}.{NAMESPACE}.global", service.name);
        let all = [&[("web.prod.global", name.as_str())], replacements].concat();
        for (old, new) in all {
            anyhow::ensure!(text.contains(old), "{file} does not contain {old:?}");
            text = text.replace(old, new);
        }
        let name = Path::new(file).file_name().context("not a file")?;
        let target = self.directory().join(name);
        fs::write(&target, text)?;
        Ok(target)
    }
}
