//! Java with the default cache of the JVM, and with a short one.

use std::time::Duration;

use anyhow::Result;
use support::commands::{command, tool};
use support::multicluster::plan::Service;
use support::process::run_checked;

use crate::clients::printed::{Printed, start};
use crate::clients::scenario::client::{Client, Profile, Running, View};
use crate::clients::scenario::pod::Pod;

pub struct Java;

/// The JVM without settings, and with the file.
const VIEWS: [&str; 2] = ["defaults", "java.security"];

// === impl Java ===

impl Client for Java {
    fn profile(&self) -> Profile {
        let [defaults, file] = VIEWS;
        let views = vec![
            View {
                is_upper: true,
                ..View::addresses(defaults, "`networkaddress.cache.ttl`: 30 s")
            },
            View::addresses(file, "`networkaddress.cache.ttl=1`"),
        ];
        Profile {
            // Longer than the default cache.
            fault: Duration::from_secs(45),
            ..Profile::new("java", "Java", views)
        }
    }

    fn version(&self) -> Result<String> {
        let text = run_checked(command(tool("java")?).arg("--version"))?;
        Ok(text.lines().next().unwrap_or_default().to_owned())
    }

    fn start(&self, pod: &Pod<'_>, service: &'static Service) -> Result<Box<dyn Running>> {
        let [defaults, file] = VIEWS;
        let program = pod.configuration("java/Client.java", service, &[])?;
        let program = program.display().to_string();
        let properties = support::repository::repository("tests/system/clients/java/java.security");
        let properties = format!("-Djava.security.properties={}", properties.display());
        Ok(Box::new(Printed(vec![
            start(pod, "java", &[&program, defaults, "upper"])?,
            start(pod, "java", &[&properties, &program, file])?,
        ])))
    }
}
