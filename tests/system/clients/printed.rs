//! Programs that print what they resolve: one JSON object per line, with the addresses of each view.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::Value;
use support::process::Process;

use crate::clients::scenario::client::{Running, View};
use crate::clients::scenario::pod::Pod;

/// One process for all views, or one for each view.
pub struct Printed(pub Vec<Process>);

// === impl Printed ===

impl Running for Printed {
    fn seen(&mut self, _pod: &Pod<'_>, view: &View) -> Result<BTreeSet<String>> {
        let mut last = self.0.iter().filter_map(|process| {
            let line = process.log().lines().pop()?;
            let mut line: Value = serde_json::from_str(&line).ok()?;
            line.get_mut(view.name).map(Value::take)
        });
        let last = last.next_back().context("no line yet")?;
        // Anything but a list is an error of the program.
        let addresses = last.as_array().into_iter().flatten();
        let texts = addresses.filter_map(Value::as_str);
        Ok(texts.map(str::to_owned).collect())
    }

    fn process(&mut self) -> Option<&mut Process> {
        self.0.first_mut()
    }
}

/// Starts a program in the pod.
pub fn start(pod: &Pod<'_>, program: &str, arguments: &[&str]) -> Result<Process> {
    let mut command = pod.command(program)?;
    command.args(arguments);
    Process::start(program, command)
}
