//! The servers that are compared, each on a port of its own, all held to one core.

use std::env;
use std::fs;
use std::iter;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use support::http::get;
use support::ports::free_port;
use support::process::{Process, finish};
use support::say::say;
use support::wait::PATIENCE;
use support::wire::{Over, try_ask};

use crate::binary;
use crate::check::query;
use crate::data::{Kind, Services, kinds, write_manifest};
use crate::processes::{SERVER, command, start, wait_until_ready};

/// Ours, as the tables call it.
pub(crate) const OURS: &str = "global-dns";
/// CoreDNS with its `kubernetes` plugin, as the tables call it.
pub(crate) const COREDNS: &str = "CoreDNS";
/// The least that a server can do, as the tables call it.
pub(crate) const FLOOR: &str = "floor";

/// A server that answers.
#[derive(Debug)]
pub(crate) struct Server {
    /// What the tables call it.
    pub(crate) name: &'static str,
    /// UDP and TCP.
    pub(crate) address: SocketAddr,
    /// What runs.
    pub(crate) process: Process,
    /// Metrics and readiness, where it is ours.
    pub(crate) admin: Option<SocketAddr>,
}

/// What the servers serve and are asked.
#[derive(Debug)]
pub(crate) struct Served {
    /// Objects, for ours.
    pub(crate) manifest: PathBuf,
    /// The same as a zone file, for the others.
    pub(crate) zone: PathBuf,
    /// The questions.
    pub(crate) kinds: Vec<Kind>,
    /// All questions in one file.
    pub(crate) all_questions: PathBuf,
}

/// How another server is configured and started.
pub(crate) struct Recipe {
    /// What the tables call it.
    pub(crate) name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    configuration: fn(SocketAddr, u32) -> String,
}

/// What a server may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// Cores.
    pub(crate) cores: &'static str,
    /// Threads that answer.
    pub(crate) workers: u32,
}

/// One core, and one thread that answers.
pub(crate) const ONE_CORE: Share = Share {
    cores: SERVER,
    workers: 1,
};

/// Where ours reads objects.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source<'p> {
    /// A manifest.
    File(&'p Path),
    /// An API server.
    Kubeconfig(&'p Path),
}

/// Knot.
pub(crate) const KNOT: Recipe = Recipe {
    name: "Knot",
    program: "knotd",
    arguments: &["-c"],
    configuration: knot,
};
/// NSD.
pub(crate) const NSD: Recipe = Recipe {
    name: "NSD",
    program: "nsd",
    arguments: &["-d", "-c"],
    configuration: nsd,
};
/// hickory-dns, with a zone in memory.
pub(crate) const HICKORY: Recipe = Recipe {
    name: "hickory-dns",
    program: "hickory-dns",
    arguments: &["--quiet", "-c"],
    configuration: hickory,
};
/// BIND.
pub(crate) const BIND: Recipe = Recipe {
    name: "BIND",
    program: "named",
    arguments: &["-g", "-n", "1", "-c"],
    configuration: bind,
};

// === impl Served ===

impl Served {
    /// Writes objects, zone file and questions to `folder`.
    ///
    /// # Errors
    ///
    /// If one cannot be written, or global-dns does not print the zone.
    pub(crate) fn prepare(services: &[Services], folder: &Path) -> Result<Self> {
        let manifest = folder.join("objects.json");
        let endpoints = write_manifest(&manifest, services)?;
        let zone = folder.join("global.zone");
        let mut table = command(binary()?, SERVER)?;
        table.args(["table", "--cluster-name=hub", "--output=zone", "--file"]);
        let text = finish(table.arg(&manifest))?;
        let records = text
            .lines()
            .filter(|line| line.contains(" IN ") || line.contains("\tIN\t"));
        say(&format!(
            "{endpoints} endpoint mirrors, {} records",
            records.count()
        ));
        fs::write(&zone, &text)?;
        let kinds = kinds(folder)?;
        let all_questions = folder.join("all.questions");
        let mut questions: Vec<_> = kinds
            .iter()
            .flat_map(|kind| kind.questions.clone())
            .collect();
        questions.sort_unstable();
        questions.dedup();
        crate::data::write_questions(&all_questions, &questions)?;
        Ok(Self {
            manifest,
            zone,
            kinds,
            all_questions,
        })
    }

    /// Starts ours first, then the others, with the same records.
    ///
    /// # Errors
    ///
    /// If one does not start.
    pub(crate) fn start(
        &self,
        others: &[Recipe],
        share: Share,
        folder: &Path,
    ) -> Result<Vec<Server>> {
        let source = Source::File(&self.manifest);
        let (ours, _) = Server::ours(source, share, &["--log-level=warn"])?;
        let others = others
            .iter()
            .map(|recipe| Server::other(recipe, share, &self.zone, folder));
        iter::once(Ok(ours)).chain(others).collect()
    }
}

// === impl Server ===

impl Server {
    /// Starts ours and waits until it is ready. Returns how long that took.
    ///
    /// # Errors
    ///
    /// If it does not become ready.
    pub(crate) fn ours(
        source: Source<'_>,
        share: Share,
        flags: &[&str],
    ) -> Result<(Self, Duration)> {
        let address = free_address();
        Self::ours_at(address, address, source, share, flags)
    }

    /// The same on every address of IPv4; loopback is the one that is asked.
    ///
    /// # Errors
    ///
    /// If it does not become ready.
    pub(crate) fn ours_on_every_address(
        source: Source<'_>,
        share: Share,
        flags: &[&str],
    ) -> Result<(Self, Duration)> {
        let address = free_address();
        let listen = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
        Self::ours_at(listen, address, source, share, flags)
    }

    fn ours_at(
        listen: SocketAddr,
        address: SocketAddr,
        source: Source<'_>,
        share: Share,
        flags: &[&str],
    ) -> Result<(Self, Duration)> {
        let admin = free_address();
        let mut command = command(binary()?, share.cores)?;
        command.args(["serve", "--cluster-name=hub", "--grace=0s"]);
        command.arg("--udp-max=4096").args(flags);
        command.arg(format!("--udp-workers={}", share.workers));
        command.arg(format!("--listen={listen}"));
        command.arg(format!("--admin-listen={admin}"));
        command.arg(format!("--api-listen={}", free_address()));
        match source {
            Source::File(manifest) => command.arg("--file").arg(manifest),
            Source::Kubeconfig(kubeconfig) => command.arg("--kubeconfig").arg(kubeconfig),
        };
        let started = std::time::Instant::now();
        let mut process = start(OURS, command)?;
        wait_until_ready(&mut process, (admin, "/readyz"))?;
        let took = started.elapsed();
        let server = Self {
            name: OURS,
            address,
            process,
            admin: Some(admin),
        };
        Ok((server, took))
    }

    /// Reads a metric without labels, of ours.
    ///
    /// # Errors
    ///
    /// If the server is another one, or has no such metric.
    pub(crate) fn metric(&self, name: &str) -> Result<f64> {
        let admin = self.admin.context("only ours has metrics")?;
        let page = get(admin, "/metrics")?.body;
        let line = page.lines().find_map(|line| line.strip_prefix(name));
        let value = line.and_then(|rest| rest.trim().parse().ok());
        value.with_context(|| format!("no {name} in:\n{page}"))
    }

    /// Starts another one with a zone file, and waits until it answers.
    ///
    /// # Errors
    ///
    /// If it is not installed, or does not answer.
    pub(crate) fn other(recipe: &Recipe, share: Share, zone: &Path, folder: &Path) -> Result<Self> {
        let address = free_address();
        let here = folder.join(recipe.program);
        fs::create_dir(&here)?;
        let text = (recipe.configuration)(address, share.workers);
        let text = text.replace("HERE", &here.to_string_lossy());
        let file = here.join("configuration");
        fs::write(&file, text.replace("ZONE", &zone.to_string_lossy()))?;
        let mut command = command(recipe.program, share.cores)?;
        command.args(recipe.arguments).arg(&file).current_dir(&here);
        Self::of_zone(recipe.name, address, command)
    }

    /// Starts the bare loop with the answers of `from`.
    ///
    /// # Errors
    ///
    /// If it does not answer.
    pub(crate) fn floor(from: SocketAddr, questions: &Path) -> Result<Self> {
        let address = free_address();
        let mut command = command(env::current_exe()?, SERVER)?;
        command.arg("part-floor");
        command.arg(format!("--listen={address}"));
        command.arg(format!("--from={from}"));
        command.arg("--questions").arg(questions);
        let mut process = start(FLOOR, command)?;
        process.wait_for("its answers", |log| {
            log.text().contains("ready").then_some(())
        })?;
        Ok(Self {
            name: FLOOR,
            address,
            process,
            admin: None,
        })
    }

    /// Starts a program that answers for the zone, and waits until it does.
    ///
    /// # Errors
    ///
    /// If it does not answer.
    pub(crate) fn of_zone(
        name: &'static str,
        address: SocketAddr,
        command: Command,
    ) -> Result<Self> {
        let mut process = start(name, command)?;
        process.wait_for("the zone", |_| {
            let apex = query("global. SOA");
            let reply = try_ask(address, &apex, Over::Tcp, PATIENCE).ok()?;
            (reply.answers.len() == 1).then_some(())
        })?;
        Ok(Self {
            name,
            address,
            process,
            admin: None,
        })
    }
}

/// An address of its own for each listener.
pub(crate) fn free_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

// === Configurations ===

fn knot(address: SocketAddr, workers: u32) -> String {
    let (ip, port) = (address.ip(), address.port());
    format!(
        r#"server:
    rundir: "HERE"
    listen: {ip}@{port}
    udp-max-payload: 4096
    udp-workers: {workers}
    tcp-workers: 1
    background-workers: 1
database:
    storage: "HERE/db"
log:
  - target: stderr
    any: warning
zone:
  - domain: global.
    file: "ZONE"
    zonefile-sync: -1
    zonefile-load: whole
    journal-content: none
"#
    )
}

fn nsd(address: SocketAddr, workers: u32) -> String {
    let (ip, port) = (address.ip(), address.port());
    // Its limit of replies per second is for the open Internet.
    format!(
        r#"server:
    ip-address: {ip}@{port}
    server-count: {workers}
    username: ""
    chroot: ""
    zonesdir: "HERE"
    pidfile: ""
    database: ""
    zonelistfile: "HERE/nsd.zones"
    xfrdfile: "HERE/nsd.xfrd"
    xfrdir: "HERE"
    ipv4-edns-size: 4096
    rrl-ratelimit: 0
    rrl-whitelist-ratelimit: 0
remote-control:
    control-enable: no
zone:
    name: "global"
    zonefile: "ZONE"
"#
    )
}

fn hickory(address: SocketAddr, _: u32) -> String {
    let (ip, port) = (address.ip(), address.port());
    // Started by root, it becomes this user; what it takes otherwise is not there on Debian.
    format!(
        r#"user = "root"
group = "root"
listen_addrs_ipv4 = ["{ip}"]
listen_port = {port}
directory = "/"
[[zones]]
zone = "global"
zone_type = "Primary"
file = "ZONE"
"#
    )
}

fn bind(address: SocketAddr, _: u32) -> String {
    let (ip, port) = (address.ip(), address.port());
    // By default it refuses RRsets of more than 100 records, of which there are none here.
    format!(
        r#"options {{
    directory "HERE";
    listen-on port {port} {{ {ip}; }};
    listen-on-v6 {{ none; }};
    pid-file none;
    session-keyfile none;
    recursion no;
    allow-query {{ any; }};
    dnssec-validation no;
    notify no;
    edns-udp-size 4096;
    max-udp-size 4096;
    empty-zones-enable no;
}};
controls {{ }};
zone "global" {{ type primary; file "ZONE"; }};
"#
    )
}
