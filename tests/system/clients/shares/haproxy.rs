//! HAProxy: `server-template` with A records and with SRV records.

use std::time::Duration;

use anyhow::Result;
use support::commands::tool;
use support::process::Process;

use super::bed::{Bed, Order, send_through};
use super::{Expected, Program, Running, Way};
use crate::clients::scenario::client::Client as _;

pub(super) struct Haproxy;

struct Started {
    process: Process,
    path: &'static str,
    pause: Duration,
}

const A: Way = Way {
    name: "A",
    setting: "`hold obsolete 0s`: the cluster of each answer gets all requests until the next answer",
    rtype: "A",
    askers: 1,
    order: Order::USUAL,
    result: Expected::Drawn,
};

const A_HELD: Way = Way {
    name: "A",
    setting: "`hold obsolete 30s`: a cluster stays after its answer",
    rtype: "A",
    askers: 1,
    order: Order::USUAL,
    result: Expected::Equal,
};

const SRV: Way = Way {
    name: "SRV",
    setting: "weights up to 256 are equal",
    rtype: "SRV",
    askers: 1,
    order: Order::USUAL,
    result: Expected::Equal,
};

const SRV_LARGE: Way = Way {
    name: "SRV",
    setting: "weights 250, 500, 750 and 1000 count as 1 to 4",
    rtype: "SRV",
    askers: 1,
    order: Order::LARGE,
    result: Expected::Weighted,
};

/// Its frontend in the configuration.
const PROXY: &str = "127.0.0.1:8000";

/// More than the time between two look-ups of the test, so that each request has a draw of its own.
const PAUSE: Duration = Duration::from_millis(25);

impl Program for Haproxy {
    fn name(&self) -> &'static str {
        "haproxy"
    }

    fn title(&self) -> &'static str {
        "HAProxy"
    }

    fn version(&self) -> Result<String> {
        crate::clients::haproxy::Haproxy.version()
    }

    fn ways(&self) -> Vec<Way> {
        vec![A, A_HELD, SRV, SRV_LARGE]
    }

    fn start(&self, bed: &Bed, way: &Way) -> Result<Box<dyn Running>> {
        let socket = bed.folder().join("haproxy.sock").display().to_string();
        let mut replacements = vec![
            ("/run/haproxy/admin.sock", &*socket),
            ("timeout resolve 1s", "timeout resolve 10ms"),
            ("hold valid 5s", "hold valid 10ms"),
        ];
        if way.rtype == "A" {
            // The other backend would look up the targets of its SRV records.
            replacements.push(("_http._tcp.web.prod.global", "_http._tcp.none.prod.global"));
        }
        if way.setting == A_HELD.setting {
            replacements.push(("hold obsolete 0s", "hold obsolete 30s"));
        }
        let file = bed.configuration("haproxy/haproxy.cfg", &replacements)?;
        let mut command = bed.command(&tool("haproxy")?)?;
        command.arg("-db").arg("-f").arg(file);
        let path = if way.rtype == "SRV" { "/srv" } else { "/" };
        let pause = match way.result {
            Expected::Drawn => PAUSE,
            Expected::Weighted | Expected::Equal | Expected::One => Duration::ZERO,
        };
        let process = Process::start("haproxy", command)?;
        Ok(Box::new(Started {
            process,
            path,
            pause,
        }))
    }
}

impl Running for Started {
    fn send(&mut self, _: &Bed, requests: usize) -> Result<()> {
        self.process.check()?;
        send_through(PROXY.parse()?, self.path, requests, self.pause)
    }
}
