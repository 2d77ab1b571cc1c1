//! What was run, in `target/versions`.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use support::repository::repository;

use crate::helm_versions;
use crate::kubernetes::{Kubernetes, VERSIONS};
use crate::linkerd;

/// The results with one version of Kubernetes. A version that is missing was not run, or failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    pub minor: String,
    pub kubernetes: String,
    pub coredns: String,
    pub helm: Vec<String>,
    pub linkerd: Vec<String>,
}

// === impl Outcome ===

impl Outcome {
    pub fn new(kubernetes: &Kubernetes) -> Self {
        Self {
            minor: kubernetes.minor.to_owned(),
            ..Self::default()
        }
    }

    /// Writes the results. Fails if something is missing, so that a run that tested less is not taken for a complete one.
    pub fn write(&self) -> Result<()> {
        let folder = repository("target/versions");
        fs::create_dir_all(&folder)?;
        fs::write(Self::file(&self.minor), serde_json::to_string_pretty(self)?)?;
        ensure!(
            !self.kubernetes.is_empty()
                && !self.coredns.is_empty()
                && self.helm.len() == helm_versions::VERSIONS.len()
                && self.linkerd.len() == linkerd::VERSIONS.len(),
            "incomplete: {self:?}"
        );
        Ok(())
    }

    /// Reads the results of the last run with each version.
    pub fn read_all() -> Result<Vec<Self>> {
        VERSIONS
            .iter()
            .map(|version| {
                let file = Self::file(version.minor);
                let text = fs::read_to_string(&file)
                    .with_context(|| format!("{}: run tests/run versions first", file.display()))?;
                Ok(serde_json::from_str(&text)?)
            })
            .collect()
    }

    fn file(minor: &str) -> PathBuf {
        repository("target/versions").join(format!("{minor}.json"))
    }
}
