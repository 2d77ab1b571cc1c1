//! Unbound as a resolver in front of global-dns, with the recipe of `coredns/resolvers.md`.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result};
use support::multicluster::plan::{NAMESPACE, Service};
use support::process::{Process, run_tool};
use support::query::query;
use support::wire::{Transport, try_ask};

use crate::clients::scenario::client::{Client, Profile, Running, Server, View};
use crate::clients::scenario::pod::Pod;

pub struct Unbound;

struct Started {
    process: Process,
    service: &'static Service,
}

/// Its address in the configuration.
const ADDRESS: &str = "127.0.0.1:5300";
/// Maximum time of an answer. Unbound retries for longer if its server fails.
const PATIENCE: Duration = Duration::from_secs(10);

// === impl Unbound ===

impl Client for Unbound {
    fn profile(&self) -> Profile {
        let setting = "the TTL; `cache-max-ttl` lowers it";
        let views = vec![
            View::addresses("A", setting),
            View::srv("SRV", "_http._tcp.", setting),
        ];
        Profile {
            server: Server::GlobalDns,
            ..Profile::new("unbound", "Unbound", views)
        }
    }

    fn version(&self) -> Result<String> {
        let output = run_tool("unbound", &["-V"]).stdout;
        let version = output.split_whitespace().nth(1);
        Ok(version.context("no version")?.to_owned())
    }

    fn start(&self, pod: &Pod<'_>, service: &'static Service) -> Result<Box<dyn Running>> {
        let file = pod.directory().join("unbound.conf");
        std::fs::copy(
            support::repository::repository("tests/system/clients/unbound/unbound.conf"),
            &file,
        )?;
        let mut command = pod.command("unbound")?;
        command.arg("-d").arg("-c").arg(file);
        let process = Process::start("unbound", command)?;
        Ok(Box::new(Started { process, service }))
    }
}

// === impl Started ===

impl Started {
    /// Returns the data of an answer over TCP, so that it is always complete.
    fn ask(&self, name: &str, rtype: &str) -> Result<BTreeSet<String>> {
        let question = query(&format!("{name} {rtype} +rd"));
        let reply = try_ask(ADDRESS.parse()?, &question, Transport::Tcp, PATIENCE)?;
        // SERVFAIL has no records, too.
        Ok(reply.data_set())
    }
}

impl Running for Started {
    fn seen(&mut self, _: &Pod<'_>, view: &View) -> Result<BTreeSet<String>> {
        let name = format!("{}{}.{NAMESPACE}.global.", view.prefix, self.service.name);
        if view.prefix.is_empty() {
            return self.ask(&name, "A");
        }
        let mut addresses = BTreeSet::new();
        for record in self.ask(&name, "SRV")? {
            let target = record.rsplit(' ').next().unwrap_or_default();
            addresses.extend(self.ask(target, "A")?);
        }
        Ok(addresses)
    }

    fn process(&mut self) -> Option<&mut Process> {
        Some(&mut self.process)
    }
}
