//! Node.js: `dns.lookup`, which is `getaddrinfo` of the C library, and c-ares.

use anyhow::Result;
use support::process::Process;

use crate::clients::scenario::pod::Pod;
use crate::clients::scenario::{Client, Profile, View};

pub struct Node;

const VIEWS: [View; 3] = [
    View::new("lookup"),
    View::new("resolve4"),
    View::new("resolveSrv"),
];
const VERSIONS: &str = "`${process.version}, c-ares ${process.versions.ares}`";

// === impl Node ===

impl Client for Node {
    fn profile(&self) -> Profile {
        Profile::new("node", &["node", "--print", VERSIONS], &VIEWS)
    }

    fn start(&mut self, pod: &Pod<'_>) -> Result<Vec<Process>> {
        let mut command = pod.command("node")?;
        command.arg(pod.configuration("node/client.mjs", &[])?);
        Ok(vec![Process::start("node", command)?])
    }
}
