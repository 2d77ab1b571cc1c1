//! A real Prometheus that scrapes servers and evaluates rules, and `promtool`.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::commands::{guarded, tool};
use support::ports::free_port;
use support::process::{Process, run_checked};
use support::wait::{TIMEOUT, eventually};
use tempfile::TempDir;

use support::helm::{NAMESPACE, RELEASE};

/// Value of the external label `cluster`, by which a fleet identifies its clusters.
pub const FLEET_CLUSTER: &str = "fleet-1";
/// Range of the queries. It replaces `$__rate_interval` and `$__range`, and covers a whole test.
const RANGE: &str = "5m";

/// A running Prometheus. The drop kills it.
pub struct Prometheus {
    address: SocketAddr,
    process: Process,
    _folder: TempDir,
}

/// Writes groups of rules to the file `rules.yml` of a folder, and checks them with `promtool`. JSON is valid YAML.
pub fn write_rules(folder: &TempDir, groups: &[Value]) -> Result<()> {
    let file = folder.path().join("rules.yml");
    fs::write(&file, json!({"groups": groups}).to_string())?;
    run_checked(
        guarded(tool("promtool")?)
            .args(["check", "rules"])
            .arg(file),
    )?;
    Ok(())
}

// === impl Prometheus ===

impl Prometheus {
    /// Starts Prometheus. It scrapes the pods, each with its name and address, and evaluates the groups every second.
    pub fn start(pods: &[(&str, SocketAddr)], groups: &[Value]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        write_rules(&folder, groups)?;
        let targets = pods.iter().map(|(pod, address)| {
            json!({"targets": [address.to_string()], "labels": {"namespace": NAMESPACE, "pod": pod}})
        });
        let configuration = json!({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s",
                "external_labels": {"cluster": FLEET_CLUSTER}},
            "rule_files": ["rules.yml"],
            "scrape_configs": [{"job_name": RELEASE, "static_configs": targets.collect::<Vec<_>>()}],
        });
        let file = folder.path().join("prometheus.yml");
        fs::write(&file, configuration.to_string())?;
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let mut command = guarded(tool("prometheus")?);
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.path().join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"));
        let mut prometheus = Self {
            address,
            process: Process::start("prometheus", command)?,
            _folder: folder,
        };
        prometheus.wait_until_scraped(pods.len())?;
        Ok(prometheus)
    }

    /// Waits until every pod was scraped. Counters have a first value then, so that later events increase them.
    fn wait_until_scraped(&mut self, pods: usize) -> Result<()> {
        let address = self.address;
        let is_ready = |_: &_| get(address, "/-/ready").ok();
        self.process.wait_for("ready Prometheus", is_ready)?;
        eventually("scrapes of all pods", || {
            let scraped = self.query("count(global_dns_build_info and on (pod) up == 1)")?;
            let count = scraped[0]["value"][1].as_str();
            ensure!(count == Some(pods.to_string().as_str()), "{scraped}");
            Ok(())
        })
    }

    /// Returns the data of a page of the HTTP API.
    pub fn api(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Value> {
        let mut address = format!("/api/v1/{path}?");
        for (name, value) in parameters {
            address += &format!("{}={}&", encoded(name), encoded(value));
        }
        let body =
            get(self.address, &address).with_context(|| format!("{path} with {parameters:?}"))?;
        Ok(serde_json::from_str::<Value>(&body)?["data"].take())
    }

    /// Returns the current result of a query.
    pub fn query(&self, expression: &str) -> Result<Value> {
        Ok(self.api("query", &[("query", expression)])?["result"].take())
    }

    /// Runs the query of a panel, as Grafana does with its variables at "All". Returns the finite values of the last
    /// minutes, of all series.
    pub fn values(&self, expression: &str) -> Result<Vec<f64>> {
        let all = [
            ("$cluster", ".*"),
            ("$job", RELEASE),
            ("$namespace", NAMESPACE),
        ];
        let ranges = [("$__rate_interval", RANGE), ("$__range", RANGE)];
        let expression = all
            .iter()
            .chain(&ranges)
            .fold(expression.to_owned(), |text, (name, value)| {
                text.replace(name, value)
            });
        ensure!(
            !expression.contains('$'),
            "unknown variable in {expression}"
        );
        let now: f64 = self.api("query", &[("query", "time()")])?["result"][1]
            .as_str()
            .context("no time")?
            .parse()?;
        let (start, end) = ((now - 900.0).to_string(), now.to_string());
        let parameters = [
            ("query", expression.as_str()),
            ("start", &start),
            ("end", &end),
            ("step", "1"),
        ];
        let found = self.api("query_range", &parameters)?;
        let series = found["result"].as_array().context("no result")?.iter();
        let samples = series.flat_map(|series| series["values"].as_array().into_iter().flatten());
        let values = samples.filter_map(|sample| sample[1].as_str()?.parse::<f64>().ok());
        Ok(values.filter(|value| value.is_finite()).collect())
    }

    /// Returns series with the external labels, as a central Prometheus or a remote storage receives them.
    pub fn federated(&self, selector: &str) -> Result<String> {
        get(
            self.address,
            &format!("/federate?match[]={}", encoded(selector)),
        )
    }
}

/// Requests a page over HTTP/1.0, so that the response is not chunked.
fn get(address: SocketAddr, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").context("no HTTP response")?;
    let is_ok = head.split(' ').nth(1) == Some("200");
    ensure!(is_ok, "{path}: {text}");
    Ok(body.to_owned())
}

/// Encodes a value for a URL.
fn encoded(text: &str) -> String {
    text.bytes().map(|octet| format!("%{octet:02x}")).collect()
}
