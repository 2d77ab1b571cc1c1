//! Node.js: `dns.lookup`, which is `getaddrinfo` of the C library, and c-ares.

use anyhow::Result;
use support::commands::{command, tool};
use support::multicluster::plan::Service;
use support::process::run_checked;

use crate::clients::printed::{Printed, start};
use crate::clients::scenario::client::{Client, Profile, Running, View};
use crate::clients::scenario::pod::Pod;

pub struct Node;

// === impl Node ===

impl Client for Node {
    fn profile(&self) -> Profile {
        let setting = "no cache: each call is a query";
        let views = vec![
            View::addresses("lookup", setting),
            View::addresses("resolve4", setting),
            View::srv("resolveSrv", "_http._tcp.", setting),
        ];
        Profile::new("node", "Node.js", views)
    }

    fn version(&self) -> Result<String> {
        let versions = "`${process.version}, c-ares ${process.versions.ares}`";
        let text = run_checked(command(tool("node")?).args(["--print", versions]))?;
        Ok(text.trim().to_owned())
    }

    fn start(&self, pod: &Pod<'_>, service: &'static Service) -> Result<Box<dyn Running>> {
        let file = pod.configuration("node/client.mjs", service, &[])?;
        let process = start(pod, "node", &[&file.display().to_string()])?;
        Ok(Box::new(Printed(vec![process])))
    }
}
