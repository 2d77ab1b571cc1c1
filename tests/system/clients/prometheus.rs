//! Prometheus: `dns_sd_configs` with A and with SRV records. All targets must have a successful scrape.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use support::multicluster::plan::CLUSTER_DNS;
use support::process::Process;
use support::query::query;
use support::wire::{Transport, try_ask};

use crate::clients::scenario::pod::Pod;
use crate::clients::scenario::{Client, Profile, View};

#[derive(Default)]
pub struct Prometheus {
    /// For each name of an SRV record, its last addresses and the last scrape before they changed.
    targets: BTreeMap<String, (BTreeSet<String>, Value)>,
}

/// Its address on the command line.
const ADDRESS: &str = "127.0.0.1:9090";
const VIEWS: [View; 2] = [View::new("A"), View::new("SRV")];
const PATIENCE: Duration = Duration::from_secs(5);

// === impl Prometheus ===

impl Client for Prometheus {
    fn profile(&self) -> Profile {
        Profile::new("prometheus", &["prometheus", "--version"], &VIEWS)
    }

    fn start(&mut self, pod: &Pod<'_>) -> Result<Vec<Process>> {
        self.targets.clear();
        let file = pod.configuration("prometheus/prometheus.yml", &[])?;
        let data = tempfile::tempdir_in(pod.directory())?.keep();
        let mut command = pod.command("prometheus")?;
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", data.display()))
            .arg(format!("--web.listen-address={ADDRESS}"));
        Ok(vec![Process::start("prometheus", command)?])
    }

    fn seen(&mut self, pod: &Pod<'_>, _: &[Process], view: &View) -> Result<BTreeSet<String>> {
        let page = pod.page(&format!("http://{ADDRESS}/api/v1/targets?state=active"))?;
        let active = page["data"]["activeTargets"].as_array();
        let job = view.name.to_lowercase();
        let own = active.context("no targets")?.iter();
        let own = own.filter(|target| target["labels"]["job"] == job.as_str());
        let mut addresses = BTreeSet::new();
        for target in own {
            ensure!(target["health"] == "up", "not up: {target}");
            let address = target["discoveredLabels"]["__address__"].as_str();
            let host = address.and_then(|text| text.rsplit_once(':'));
            let (host, _) = host.context("no port")?;
            if view.name == "SRV" {
                addresses.extend(self.addresses_of(host, &target["lastScrape"])?);
            } else {
                addresses.insert(host.to_owned());
            }
        }
        Ok(addresses)
    }
}

impl Prometheus {
    /// Returns the addresses of a target that is up. Prometheus resolves its name for each new connection. While DNS
    /// fails, it keeps the connection that it has.
    fn addresses_of(&mut self, host: &str, scrape: &Value) -> Result<BTreeSet<String>> {
        let question = query(&format!("{}. A +rd", host.trim_end_matches('.')));
        let server = format!("{CLUSTER_DNS}:53").parse()?;
        let found = try_ask(server, &question, Transport::Udp, PATIENCE)?.data_set();
        let (addresses, last_scrape) = self.targets.entry(host.to_owned()).or_default();
        if !found.is_empty() && found != *addresses {
            // A target without an earlier address has only scrapes of this one.
            if !addresses.is_empty() {
                *last_scrape = scrape.clone();
            }
            *addresses = found;
        }
        ensure!(
            last_scrape != scrape,
            "no scrape of {host} since its address changed"
        );
        Ok(addresses.clone())
    }
}
