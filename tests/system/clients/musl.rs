//! musl before and after its TCP fallback: one program with two versions of the library.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use support::commands::{command, tool};
use support::multicluster::plan::{EAST, Service};
use support::process::{Process, run_checked};
use support::wait::eventually;

use crate::clients::printed::Printed;
use crate::clients::scenario::MANY;
use crate::clients::scenario::client::{Client, Profile, Running, View};
use crate::clients::scenario::pod::Pod;

pub struct Musl;

/// The library of Debian 12, and that of Debian 13.
const VIEWS: [&str; 2] = ["1.2.3", "1.2.5"];

/// The number of addresses that each one returns at most: what fits into 512 octets, and the size of its list.
const LIMITS: [usize; 2] = [29, 48];

const LOADER: &str = "ld-musl-x86_64.so.1";

// === impl Musl ===

impl Client for Musl {
    fn profile(&self) -> Profile {
        let setting = "no cache: each call is a query";
        let views = VIEWS.map(|version| View::addresses(version, setting));
        Profile::new("musl", "musl", views.into())
    }

    fn version(&self) -> Result<String> {
        let version = |loader: PathBuf| -> Result<String> {
            // Without a program, it prints its version and fails.
            let output = command(&loader)
                .output()
                .with_context(|| loader.display().to_string())?;
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            let version = text.lines().find_map(|line| line.strip_prefix("Version "));
            Ok(version.context(text.clone())?.to_owned())
        };
        let versions = [version(old_loader())?, version(new_loader()?)?];
        ensure!(versions == VIEWS, "{versions:?}");
        Ok(versions.join(", "))
    }

    fn start(&self, pod: &Pod<'_>, service: &'static Service) -> Result<Box<dyn Running>> {
        let source = pod.configuration("musl/lookup.c", service, &[])?;
        let program = pod.directory().join("lookup");
        let mut compile = command(tool("musl-gcc")?);
        compile.args(["-std=c99", "-Wall", "-Werror", "-O1", "-o"]);
        run_checked(compile.arg(&program).arg(&source))?;
        let start = |loader: PathBuf, version: &'static str| -> Result<Process> {
            let mut command: Command = pod.clusters.pod_command(EAST, &loader)?;
            command.arg(&program).arg(version);
            Process::start(format!("musl {version}"), command)
        };
        Ok(Box::new(Printed(vec![
            start(old_loader(), VIEWS[0])?,
            start(new_loader()?, VIEWS[1])?,
        ])))
    }

    /// Proves how many of 60 addresses each version takes.
    fn prove_further(&self, pod: &Pod<'_>) -> Result<()> {
        let mut running = self.start(pod, &MANY)?;
        for (view, limit) in self.profile().views.iter().zip(LIMITS) {
            eventually("the addresses", || {
                let seen = running.seen(pod, view)?.len();
                ensure!(seen == limit, "{} has {seen}, expected {limit}", view.name);
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// The library that musl-gcc links with.
fn old_loader() -> PathBuf {
    PathBuf::from("/lib").join(LOADER)
}

/// The library of the next release of Debian, which `tests/run clients` unpacks.
fn new_loader() -> Result<PathBuf> {
    let folder = env::var_os("GLOBAL_DNS_TEST_MUSL")
        .context("GLOBAL_DNS_TEST_MUSL is not set; use tests/run clients")?;
    Ok(PathBuf::from(folder).join(LOADER))
}
