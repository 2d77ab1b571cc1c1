//! Envoy: clusters of type `STRICT_DNS` and `LOGICAL_DNS`.

use std::time::Duration;

use anyhow::Result;
use support::process::Process;

use super::bed::{Bed, Order, send_through};
use super::{Expected, Program, Running, Way};
use crate::clients::scenario::client::Client as _;

pub(super) struct Envoy;

struct Started {
    process: Process,
    path: &'static str,
}

const STRICT: Way = Way {
    name: "STRICT_DNS",
    setting: "none: the cluster of each answer gets all requests until the next answer",
    rtype: "A",
    askers: 2,
    order: Order::USUAL,
    result: Expected::Drawn,
};

const LOGICAL: Way = Way {
    name: "LOGICAL_DNS",
    setting: "the same",
    rtype: "A",
    askers: 2,
    order: Order::USUAL,
    result: Expected::Drawn,
};

/// Its listener in the configuration.
const PROXY: &str = "127.0.0.1:8000";

/// The time between two look-ups of the test. The configuration has that of the TTL.
const REFRESH: &str = "dns_refresh_rate: 0.01s";

/// More than the time between two look-ups, so that each request has a draw of its own.
const PAUSE: Duration = Duration::from_millis(25);

impl Program for Envoy {
    fn name(&self) -> &'static str {
        "envoy"
    }

    fn title(&self) -> &'static str {
        "Envoy"
    }

    fn version(&self) -> Result<String> {
        crate::clients::envoy::Envoy.version()
    }

    fn ways(&self) -> Vec<Way> {
        vec![STRICT, LOGICAL]
    }

    fn start(&self, bed: &Bed, way: &Way) -> Result<Box<dyn Running>> {
        let replacements = [("respect_dns_ttl: true", REFRESH)];
        let file = bed.configuration("envoy/envoy.yaml", &replacements)?;
        let mut command = bed.command(&crate::clients::envoy::program()?)?;
        command.arg("-c").arg(file);
        command.args(["--concurrency", "1", "--log-level", "warn"]);
        // Another Envoy may run at the same time.
        command.arg("--disable-hot-restart");
        let path = if way.name == STRICT.name {
            "/"
        } else {
            "/logical"
        };
        let process = Process::start("envoy", command)?;
        Ok(Box::new(Started { process, path }))
    }
}

impl Running for Started {
    fn send(&mut self, _: &Bed, requests: usize) -> Result<()> {
        self.process.check()?;
        send_through(PROXY.parse()?, self.path, requests, PAUSE)
    }
}
