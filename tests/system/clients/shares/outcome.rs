//! The results and their files.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::bed::{Counts, Order};
use super::{Expected, Way};
use crate::clients::scenario::outcome::folder;

/// The shares with a program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Shares {
    pub(super) program: String,
    pub(super) title: String,
    pub(super) version: String,
    pub(super) ways: Vec<WayShares>,
}

/// The shares in one way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct WayShares {
    pub(super) way: String,
    pub(super) setting: String,
    pub(super) order: Order,
    pub(super) rtype: String,
    /// The number of questions of this type while the requests were sent.
    pub(super) look_ups: u64,
    /// The requests to each cluster.
    pub(super) counts: Counts,
    pub(super) result: Expected,
    /// Seconds until an order that moves all load was used. `None`: connections are kept, so that it was not measured.
    pub(super) moved_after: Option<f64>,
}

/// The shares behind CoreDNS.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Spread {
    /// Look-ups per second of each client.
    pub(super) rate: u32,
    /// The number of answers that were drawn for all pods and names.
    pub(super) look_ups: u64,
    pub(super) rows: Vec<SpreadRow>,
}

/// The shares with one stanza and one order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SpreadRow {
    pub(super) stanza: String,
    pub(super) order: Order,
    /// The number of CoreDNS pods that the clients use in equal parts.
    pub(super) pods: usize,
    /// The share of `west` in percent in each minute, in ascending order.
    pub(super) minutes: Vec<f64>,
    /// The share of `west` in percent over all minutes.
    pub(super) total: f64,
}

impl WayShares {
    pub(super) fn new(way: &Way, counts: Counts, look_ups: u64, moved_after: Option<f64>) -> Self {
        Self {
            way: way.name.to_owned(),
            setting: way.setting.to_owned(),
            order: way.order,
            rtype: way.rtype.to_owned(),
            look_ups,
            counts,
            result: way.result,
            moved_after,
        }
    }
}

impl Shares {
    /// Writes the file of the program.
    pub(super) fn write(&self) -> Result<()> {
        write(&format!("programs/{}.json", self.program), self)
    }

    /// Reads the files of all programs that were run.
    pub(super) fn read_all() -> Result<Vec<Self>> {
        let folder = path("programs");
        let entries = fs::read_dir(&folder)
            .with_context(|| format!("{}: run the programs first", folder.display()))?;
        let shares = entries.map(|entry| read::<Self>(&entry?.path()));
        let mut shares = shares.collect::<Result<Vec<Self>>>()?;
        shares.sort_by_key(|shares| shares.title.to_lowercase());
        Ok(shares)
    }
}

impl Spread {
    pub(super) fn write(&self) -> Result<()> {
        write("coredns.json", self)
    }

    pub(super) fn read() -> Result<Self> {
        read(&path("coredns.json"))
    }
}

fn path(file: &str) -> PathBuf {
    folder().join("shares").join(file)
}

fn write(file: &str, value: &impl Serialize) -> Result<()> {
    let file = path(file);
    fs::create_dir_all(file.parent().context("no folder")?)?;
    fs::write(file, serde_json::to_string_pretty(value)? + "\n")?;
    Ok(())
}

fn read<T: DeserializeOwned>(path: &std::path::Path) -> Result<T> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}
