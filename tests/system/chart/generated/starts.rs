//! Starts the binary with rendered flags, in network namespaces with the addresses of the generated listeners.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;
use support::certificates::{Authority, issue_valid};
use support::commands::binary;
use support::http::get;
use support::networks::{Network, in_new_network};
use support::objects::{Manifest, mirror};
use support::process::{Process, run_global_dns};
use tempfile::TempDir;

use support::helm::Rendered;

/// Servers to start, each with different flags.
pub struct Starts {
    /// Arguments of `serve` with the values that lead to them.
    servers: BTreeMap<Vec<String>, Value>,
    folder: TempDir,
}

/// Threads that start servers: they mostly wait.
const THREADS: usize = 4;

/// Addresses that listeners have, except loopback and wildcard addresses.
const ADDRESSES: [&str; 6] = [
    "10.0.0.1/32",
    "10.1.2.3/32",
    "203.0.113.254/32",
    "2001:db8::7/128",
    "1:2:3:4:5:6:7:8/128",
    "1::8/128",
];

// === impl Starts ===

impl Starts {
    /// Writes the files that the flags refer to.
    pub fn prepare() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let place = folder.path();
        let identity = issue_valid();
        fs::write(place.join("tls.crt"), identity.certificate)?;
        fs::write(place.join("tls.key"), identity.key)?;
        fs::write(place.join("ca.crt"), Authority::new("clients").certificate)?;
        fs::write(place.join("cookies"), format!("{}\n", "0a".repeat(16)))?;
        fs::write(place.join("objects.yaml"), objects())?;
        Ok(Self {
            servers: BTreeMap::new(),
            folder,
        })
    }

    /// Adds a server.
    pub fn add(&mut self, values: &Value, rendered: &Rendered) -> Result<()> {
        let arguments = rendered.passed_arguments("10.96.0.53")?;
        self.servers
            .entry(arguments)
            .or_insert_with(|| values.clone());
        Ok(())
    }

    /// Starts each server, and waits until it is ready. Returns their number.
    pub fn run(self) -> Result<usize> {
        let servers: Vec<(&Vec<String>, &Value)> = self.servers.iter().collect();
        let next = AtomicUsize::new(0);
        let work = || -> Result<()> {
            in_new_network(|| {
                let network = Network::of_this_thread();
                for address in ADDRESSES {
                    network.ip(&format!("address add {address} dev lo"))?;
                }
                while let Some((arguments, values)) =
                    servers.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    start(&network, self.folder.path(), arguments)
                        .with_context(|| format!("{values}: {}", arguments.join(" ")))?;
                }
                Ok(())
            })
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
        })?;
        Ok(servers.len())
    }
}

/// Returns the objects that the servers read.
pub fn objects() -> String {
    let mirror = mirror("prod", "db", "east").endpoint("db-0", &["10.96.0.9"]);
    Manifest::from(mirror).text()
}

/// Checks the flags as they are, and starts a server with them whose files exist.
fn start(network: &Network, folder: &Path, arguments: &[String]) -> Result<()> {
    let mut flags: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // No host has this address. With valid flags, the exit code is 1; with others it is 2.
    flags.push("--listen=192.0.2.1:53");
    let ended = run_global_dns(&flags);
    ensure!(ended.code == Some(1), "{:?}: {}", ended.code, ended.stderr);

    let mut command = network.command(&binary(), &support::networks::Files::default())?;
    command.args(own_files(folder, arguments));
    command.arg(format!("--file={}", folder.join("objects.yaml").display()));
    let mut server = Process::start("the server", command)?;
    let admin = admin_address(arguments)?;
    server.wait_for("readiness", |_| {
        let page = get(admin, "/readyz").ok()?;
        (page.status == 200).then_some(())
    })
}

/// Replaces the files of a pod, and the API server by a file.
fn own_files(folder: &Path, arguments: &[String]) -> Vec<String> {
    let mut own = Vec::new();
    for argument in arguments {
        let (flag, value) = argument.split_once('=').unwrap_or((argument, ""));
        let file = |name: &str| -> PathBuf { folder.join(name) };
        let replaced = match flag {
            "--file" | "--kubeconfig" | "--context" | "--snapshot" => continue,
            "--tls-cert" => file("tls.crt"),
            "--tls-key" => file("tls.key"),
            "--tls-client-ca" => file("ca.crt"),
            "--cookie-secret-file" => file("cookies"),
            _ => PathBuf::from(value),
        };
        let is_same = replaced.as_os_str() == value;
        own.push(if is_same {
            argument.clone()
        } else {
            format!("{flag}={}", replaced.display())
        });
    }
    own
}

/// Returns an address at which the readiness is served.
fn admin_address(arguments: &[String]) -> Result<SocketAddr> {
    let given = arguments
        .iter()
        .find_map(|argument| argument.strip_prefix("--admin-listen="));
    let (host, port) = given
        .unwrap_or(":9153")
        .rsplit_once(':')
        .context("an address without a port")?;
    let ip: IpAddr = match host {
        "" | "localhost" | "0.0.0.0" => Ipv4Addr::LOCALHOST.into(),
        "[::]" => Ipv6Addr::LOCALHOST.into(),
        host => host.trim_matches(['[', ']']).parse()?,
    };
    Ok(SocketAddr::new(ip, port.parse()?))
}
