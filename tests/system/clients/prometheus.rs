//! Prometheus: `dns_sd_configs` with A and with SRV records. All targets must have a successful scrape.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use support::multicluster::plan::{CLUSTER_DNS, Service};
use support::process::{Process, run_tool};
use support::query::query;
use support::wire::{Transport, try_ask};

use crate::clients::scenario::client::{Client, Profile, Running, View};
use crate::clients::scenario::pod::Pod;

pub struct Prometheus;

struct Started {
    process: Process,
    /// The targets of SRV records, by their names.
    targets: BTreeMap<String, Target>,
}

/// A target of an SRV record.
#[derive(Default)]
struct Target {
    /// The last addresses of its name.
    addresses: BTreeSet<String>,
    /// The last scrape before the addresses changed.
    last_scrape: Value,
}

/// Its address on the command line.
const ADDRESS: &str = "127.0.0.1:9090";
const PATIENCE: Duration = Duration::from_secs(5);

// === impl Prometheus ===

impl Client for Prometheus {
    fn profile(&self) -> Profile {
        let setting = "`refresh_interval`";
        let views = vec![
            View::addresses("A", setting),
            View::srv("SRV", "_http._tcp.", setting),
        ];
        Profile::new("prometheus", "Prometheus", views)
    }

    fn version(&self) -> Result<String> {
        let output = run_tool("prometheus", &["--version"]).output();
        let version = output.split_whitespace().nth(2);
        Ok(version.context("no version")?.to_owned())
    }

    fn start(&self, pod: &Pod<'_>, service: &'static Service) -> Result<Box<dyn Running>> {
        let file = pod.configuration("prometheus/prometheus.yml", service, &[])?;
        let data = tempfile::tempdir_in(pod.directory())?.keep();
        let mut command = pod.command("prometheus")?;
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", data.display()))
            .arg(format!("--web.listen-address={ADDRESS}"));
        let process = Process::start("prometheus", command)?;
        let targets = BTreeMap::new();
        Ok(Box::new(Started { process, targets }))
    }
}

// === impl Started ===

impl Running for Started {
    fn seen(&mut self, _: &Pod<'_>, view: &View) -> Result<BTreeSet<String>> {
        let page = targets()?;
        let active = page["data"]["activeTargets"]
            .as_array()
            .context("no targets")?;
        let job = if view.prefix.is_empty() { "a" } else { "srv" };
        let own = active
            .iter()
            .filter(|target| target["labels"]["job"] == job);
        let mut addresses = BTreeSet::new();
        for target in own {
            ensure!(target["health"] == "up", "not up: {target}");
            let address = target["discoveredLabels"]["__address__"].as_str();
            let (host, _) = address
                .and_then(|text| text.rsplit_once(':'))
                .context("no port")?;
            match view.prefix {
                "" => addresses.extend([host.to_owned()]),
                _ => addresses.extend(self.addresses_of(host, &target["lastScrape"])?),
            }
        }
        Ok(addresses)
    }

    fn process(&mut self) -> Option<&mut Process> {
        Some(&mut self.process)
    }
}

impl Started {
    /// Returns the addresses of a target that is up. Prometheus resolves its name for each new connection. While DNS
    /// fails, it keeps the connection that it has.
    fn addresses_of(&mut self, host: &str, last_scrape: &Value) -> Result<BTreeSet<String>> {
        let question = query(&format!("{}. A +rd", host.trim_end_matches('.')));
        let server = format!("{CLUSTER_DNS}:53").parse()?;
        let found = try_ask(server, &question, Transport::Udp, PATIENCE)?.data_set();
        let target = self.targets.entry(host.to_owned()).or_default();
        if !found.is_empty() && found != target.addresses {
            // A target without an earlier address has only scrapes of this one.
            if !target.addresses.is_empty() {
                target.last_scrape = last_scrape.clone();
            }
            target.addresses = found;
        }
        ensure!(
            target.last_scrape != *last_scrape,
            "no scrape of {host} since its address changed"
        );
        Ok(target.addresses.clone())
    }
}

fn targets() -> Result<Value> {
    request(ADDRESS, "/api/v1/targets?state=active")
}

/// Requests a page of an API in JSON.
pub fn request(address: &str, path: &str) -> Result<Value> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // HTTP/1.0, because it has no chunked encoding.
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (_, body) = text.split_once("\r\n\r\n").context("no HTTP response")?;
    serde_json::from_str(body).with_context(|| body.to_owned())
}
