//! The table of the measurements.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use anyhow::Result;
use support::output::print_line;
use support::repository::repository;

use crate::clients::scenario::outcome::folder;

use super::load::Losses;
use super::settings::{Setting, Stanza};

const BEGIN: &str = "<!-- table: tests/system/clients/table writes it -->\n";
const END: &str = "<!-- end of the table -->\n";

/// The measurements of a stanza.
#[derive(Clone, Debug)]
pub struct Row {
    pub kind: Setting,
    pub setting: &'static str,
    /// The share of answers with the most frequent first address, in percent.
    pub first_address: u32,
    /// For each change, the time until the last old answer.
    pub changes: Vec<Duration>,
    /// Whether the first answer for an idle name was older than every TTL.
    pub is_idle_name_stale: bool,
    pub ended: Losses,
    pub silent: Losses,
    pub all_silent: Losses,
}

// === impl Row ===

impl Row {
    pub fn new(stanza: &Stanza) -> Self {
        Self {
            kind: stanza.kind,
            setting: stanza.text,
            first_address: 0,
            changes: Vec::new(),
            is_idle_name_stale: false,
            ended: Losses::default(),
            silent: Losses::default(),
            all_silent: Losses::default(),
        }
    }

    pub fn longest_change(&self) -> Duration {
        self.changes.iter().max().copied().unwrap_or_default()
    }

    fn text(&self) -> String {
        let idle = if self.is_idle_name_stale {
            "**old**"
        } else {
            "new"
        };
        format!(
            "| {} | {:.1} s | {idle} | {} % | {} | {} | {} |",
            self.setting,
            self.longest_change().as_secs_f64(),
            self.first_address,
            shares(&self.ended),
            shares(&self.silent),
            shares(&self.all_silent),
        )
    }
}

/// Returns the shares of failed and of slow queries.
fn shares(losses: &Losses) -> String {
    let percent = |part: usize| match (part * 100).checked_div(losses.queries) {
        Some(0) if part > 0 => "< 1".to_owned(),
        Some(share) => share.to_string(),
        None => "?".to_owned(),
    };
    match (losses.failed, losses.slow) {
        (0, 0) => "0".to_owned(),
        (failed, 0) => format!("{} % fail", percent(failed)),
        (0, slow) => format!("{} % slow", percent(slow)),
        (failed, slow) => format!("{} % fail, {} % slow", percent(failed), percent(slow)),
    }
}

/// Writes the table to `target/clients/stanzas.md`, and prints it.
pub fn write(rows: &[Row]) -> Result<()> {
    let mut text = String::from(
        "| setting | old address for | idle name | same first address | a replica ends | a replica is silent | all are silent |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        writeln!(text, "{}", row.text())?;
    }
    for line in text.lines() {
        print_line(line);
    }
    let file = folder().join("stanzas.md");
    fs::create_dir_all(folder())?;
    fs::write(file, text)?;
    Ok(())
}

/// `tests/system/clients/table` runs this, with `GLOBAL_DNS_WRITE_TABLE`. Without it, the table is only printed.
#[test]
fn table_of_the_last_run_is_written_to_the_recipes() {
    let table = fs::read_to_string(folder().join("stanzas.md")).unwrap();
    print_line(&table);
    if env::var_os("GLOBAL_DNS_WRITE_TABLE").is_some() {
        let file = repository("coredns/README.md");
        let text = fs::read_to_string(&file).unwrap();
        let (before, rest) = text.split_once(BEGIN).expect("the begin of the table");
        let (_, after) = rest.split_once(END).expect("the end of the table");
        fs::write(&file, format!("{before}{BEGIN}\n{table}\n{END}{after}")).unwrap();
    }
}
