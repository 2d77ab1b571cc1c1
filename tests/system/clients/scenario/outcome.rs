//! The results of a program, and the file with them.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use support::repository::repository;

use super::client::{Event, View};
use super::recorder::{Fault, Habits};
use crate::clients::database::Alone;

/// The results of a program.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    pub program: String,
    pub title: String,
    pub version: String,
    /// What the program does before any cluster is linked.
    pub without_clusters: Option<Start>,
    /// What the members of a database do before any cluster is linked.
    #[serde(default)]
    pub alone: Option<Alone>,
    /// How often the scenario had to start it again.
    pub restarts: usize,
    pub views: Vec<ViewOutcome>,
}

/// The results of one way in which the program uses the name.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ViewOutcome {
    pub view: String,
    pub setting: String,
    pub events: BTreeMap<Event, Reaction>,
    /// What the program does if it starts during a fault of DNS.
    #[serde(default)]
    pub starts: BTreeMap<Fault, Start>,
    /// What it does with its addresses during a fault of DNS.
    pub faults: BTreeMap<Fault, Keeping>,
    /// What it keeps, if that is not all it had.
    #[serde(default)]
    pub keeps: Option<String>,
    /// The number of addresses of the name with many, with and without TCP.
    pub many: Option<usize>,
    pub many_without_tcp: Option<usize>,
    pub habits: Option<Habits>,
}

/// How a program reacts to an event.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reaction {
    /// Seconds after the change until it uses the new addresses.
    Seen(f64),
    /// It uses one address, which is still valid.
    Unaffected,
    /// It depends on the moment whether it sees the change; the reason.
    Sometimes(String),
    /// It does not see the change; the reason.
    Blind(String),
}

/// What a program does with its addresses during a fault.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keeping {
    /// It keeps them during the whole fault.
    Keeps,
    /// It keeps them, and did not ask during the fault.
    DoesNotAsk,
    /// It has none after these seconds.
    Drops(f64),
    /// It ends.
    Ends,
}

/// What a program does at a start without records.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// It runs without addresses.
    Runs,
    /// It runs, and uses all addresses these seconds after the fault.
    Recovers(f64),
    /// It ends; the last line of its log.
    Ends(String),
}

// === impl Outcome, impl ViewOutcome ===

impl ViewOutcome {
    pub fn new(view: &View) -> Self {
        Self {
            view: view.name.to_owned(),
            setting: view.setting.to_owned(),
            keeps: view.keeps.map(str::to_owned),
            ..Self::default()
        }
    }
}

impl Outcome {
    /// Writes the file of the program.
    pub fn write(&self) -> Result<PathBuf> {
        let folder = folder();
        fs::create_dir_all(&folder)?;
        let file = folder.join(format!("{}.json", self.program));
        fs::write(&file, serde_json::to_string_pretty(self)? + "\n")?;
        Ok(file)
    }

    /// Reads the files of all programs that were run.
    pub fn read_all() -> Result<Vec<Self>> {
        let mut outcomes = Vec::new();
        let folder = folder();
        let entries = fs::read_dir(&folder)
            .with_context(|| format!("{}: run the programs first", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "json")
            {
                let text = fs::read_to_string(&path)?;
                let outcome = serde_json::from_str(&text);
                outcomes.push(outcome.with_context(|| path.display().to_string())?);
            }
        }
        outcomes.sort_by_key(|outcome: &Self| outcome.title.to_lowercase());
        Ok(outcomes)
    }
}

/// Returns the folder of the files: `target/clients`.
pub fn folder() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| repository("target"));
    target.join("clients")
}
