//! Envoy: clusters of type `STRICT_DNS` and `LOGICAL_DNS`.

use std::time::Duration;

use anyhow::Result;
use support::process::Process;

use super::bed::{Bed, Order, send_through};
use super::{Expected, Program, Running, Way};
use crate::scenario::client::Client as _;

pub(super) struct Envoy;

struct Started {
    process: Process,
    path: &'static str,
}

const STRICT: Way = Way {
    name: "STRICT_DNS",
    setting: "none: the cluster of each answer gets all requests until the next answer",
    rtype: "A",
    order: Order::USUAL,
    result: Expected::Drawn,
};

const LOGICAL: Way = Way {
    name: "LOGICAL_DNS",
    setting: "the default: connections are kept",
    rtype: "A",
    order: Order::USUAL,
    result: Expected::One,
};

const LOGICAL_ANEW: Way = Way {
    name: "LOGICAL_DNS",
    setting: "`max_requests_per_connection: 1`",
    rtype: "A",
    order: Order::USUAL,
    result: Expected::Drawn,
};

/// Its listener in the configuration.
const PROXY: &str = "127.0.0.1:8000";

/// The time between two look-ups of the test. The configuration has that of the TTL.
const REFRESH: &str = "dns_refresh_rate: 0.01s";

/// More than the time between two look-ups, so that each request has a draw of its own.
const PAUSE: Duration = Duration::from_millis(25);

/// The setting of [`LOGICAL_ANEW`], as in the README.
const ONE_REQUEST: &str = "type: LOGICAL_DNS
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        \"@type\": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        common_http_protocol_options: {max_requests_per_connection: 1}
        explicit_http_config: {http_protocol_options: {}}
";

impl Program for Envoy {
    fn name(&self) -> &'static str {
        "envoy"
    }

    fn title(&self) -> &'static str {
        "Envoy"
    }

    fn version(&self) -> Result<String> {
        crate::envoy::Envoy.version()
    }

    fn ways(&self) -> Vec<Way> {
        vec![STRICT, LOGICAL_ANEW, LOGICAL]
    }

    fn start(&self, bed: &Bed, way: &Way) -> Result<Box<dyn Running>> {
        let mut replacements = vec![("respect_dns_ttl: true", REFRESH)];
        if way.setting == LOGICAL_ANEW.setting {
            replacements.push(("type: LOGICAL_DNS\n", ONE_REQUEST));
        }
        let file = bed.configuration("envoy/envoy.yaml", &replacements)?;
        let mut command = bed.command(&crate::envoy::program()?)?;
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
