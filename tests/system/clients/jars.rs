//! Programs that are jars of Maven Central.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use support::commands::tool;
use support::multicluster::Clusters;
use support::repository::repository;

/// Returns the directory that a variable names. `tests/run clients` installs the jars and sets the variable.
pub fn folder(variable: &str) -> Result<PathBuf> {
    let path = env::var_os(variable);
    let path = path.with_context(|| format!("{variable} is not set; run tests/run clients"))?;
    Ok(path.into())
}

/// Builds a command that runs Java in a pod, with the jars of a directory and the short cache of `java/java.security`.
pub fn java(clusters: &Clusters, cluster: usize, variable: &str) -> Result<Command> {
    let mut command = clusters.pod_command(cluster, &tool("java")?)?;
    let security = repository("tests/system/clients/java/java.security");
    command
        .arg(format!("-Djava.security.properties={}", security.display()))
        .arg("-XX:+UseSerialGC")
        .arg("-cp")
        .arg(folder(variable)?.join("*"));
    Ok(command)
}

/// Returns the version of a jar in a directory: the part of its file name after `name` and `-`.
pub fn version(variable: &str, name: &str) -> Result<String> {
    let prefix = format!("{name}-");
    for entry in folder(variable)?.read_dir()? {
        let file = entry?.file_name();
        let file = file.to_string_lossy();
        let version = file
            .strip_prefix(&prefix)
            .and_then(|rest| rest.strip_suffix(".jar"));
        if let Some(version) = version {
            return Ok(version.to_owned());
        }
    }
    anyhow::bail!("no jar {name}")
}
