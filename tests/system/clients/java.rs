//! Java with the default cache of the JVM, and with a short one.

use std::time::Duration;

use anyhow::Result;
use support::process::Process;
use support::repository::repository;

use crate::clients::scenario::pod::Pod;
use crate::clients::scenario::{Client, Profile, View};

pub struct Java;

/// The JVM without settings, and with the file.
const VIEWS: [View; 2] = [View::new("defaults"), View::new("java.security")];

// === impl Java ===

impl Client for Java {
    fn profile(&self) -> Profile {
        Profile {
            // Longer than the default cache.
            fault: Duration::from_secs(45),
            ..Profile::new("java", &["java", "--version"], &VIEWS)
        }
    }

    fn start(&mut self, pod: &Pod<'_>) -> Result<Vec<Process>> {
        let program = pod.configuration("java/Client.java", &[])?;
        let start = |view: &View| {
            let mut command = pod.command("java")?;
            if view.name != "defaults" {
                command.arg(security());
            }
            command.arg(&program).arg(view.name);
            Process::start(view.name, command)
        };
        VIEWS.iter().map(start).collect()
    }
}

/// Returns the flag of a JVM with the short cache of `java/java.security`.
pub fn security() -> String {
    let file = repository("tests/system/clients/java/java.security");
    format!("-Djava.security.properties={}", file.display())
}
