//! MongoDB's driver for Python: `mongodb+srv`.

use std::time::Duration;

use anyhow::Result;
use support::commands::command;
use support::multicluster::plan::{EAST, Service};
use support::process::{Process, run_checked};

use crate::clients::printed::Printed;
use crate::clients::scenario::client::{Client, Profile, Running, View};
use crate::clients::scenario::pod::{Pod, python};

pub struct Pymongo;

const PORTS: &[(&str, u16)] = &[("mongodb", 27017)];

static SERVICE: Service = Service {
    name: "mongodb",
    port_numbers: PORTS,
    first: 60,
};

static MANY: Service = Service {
    name: "many",
    port_numbers: PORTS,
    first: 180,
};

// === impl Pymongo ===

impl Client for Pymongo {
    fn profile(&self) -> Profile {
        let view = View {
            keeps: Some("the list of names; a new connection fails"),
            ..View::srv("SRV", "_mongodb._tcp.", "none: it asks every 60 s")
        };
        Profile {
            service: &SERVICE,
            many: Some(&MANY),
            patience: Duration::from_secs(150),
            // Longer than the pause between two questions.
            fault: Duration::from_secs(70),
            ..Profile::new("pymongo", "pymongo", vec![view])
        }
    }

    fn version(&self) -> Result<String> {
        let print = "import pymongo; print(pymongo.version)";
        let version = run_checked(command(python()?).args(["-c", print]))?;
        Ok(version.trim().to_owned())
    }

    fn start(&self, pod: &Pod<'_>, service: &'static Service) -> Result<Box<dyn Running>> {
        let file = pod.configuration("pymongo/client.py", service, &[])?;
        let mut command = pod.clusters.pod_command(EAST, &python()?)?;
        command.arg("-I").arg(file);
        Ok(Box::new(Printed(vec![Process::start("pymongo", command)?])))
    }
}
