//! musl before and after its TCP fallback: one program with two versions of the library.

use std::path::PathBuf;

use anyhow::Result;
use support::commands::{command, tool};
use support::multicluster::plan::EAST;
use support::process::{Process, run_checked};

use crate::clients::scenario::pod::{Pod, installed};
use crate::clients::scenario::{Client, Profile, View};

pub struct Musl;

/// The library of Debian 12, and that of Debian 13.
const VIEWS: [View; 2] = [View::new("1.2.3"), View::new("1.2.5")];
const LOADER: &str = "ld-musl-x86_64.so.1";

// === impl Musl ===

impl Client for Musl {
    fn profile(&self) -> Profile {
        Profile::new("musl", &["dpkg-query", "--show", "musl"], &VIEWS)
    }

    fn start(&mut self, pod: &Pod<'_>) -> Result<Vec<Process>> {
        let source = pod.configuration("musl/lookup.c", &[])?;
        let program = pod.directory().join("lookup");
        let mut compile = command(tool("musl-gcc")?);
        compile.args(["-std=c99", "-Wall", "-Werror", "-O1", "-o"]);
        run_checked(compile.arg(&program).arg(&source))?;
        // musl-gcc links with the first one. `tests/run clients` unpacks the second one.
        let folders = [PathBuf::from("/lib"), installed("GLOBAL_DNS_TEST_MUSL")?];
        let start = |(folder, view): (PathBuf, &View)| {
            let mut command = pod.clusters.pod_command(EAST, &folder.join(LOADER))?;
            command.arg(&program).arg(view.name);
            Process::start(format!("musl {}", view.name), command)
        };
        folders.into_iter().zip(&VIEWS).map(start).collect()
    }
}
