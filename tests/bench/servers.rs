//! The compared servers, each on a separate port, all pinned to one core.

use std::env;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use support::http::get;
use support::output::print_line;
use support::ports::free_port;
use support::process::{Process, run_checked};
use support::wait::TIMEOUT;
use support::wire::{Transport, try_ask};

use crate::Binary;
use crate::check::query;
use crate::data::{Kind, Services, kinds, write_manifest};
use crate::processes::{SERVER, command, start, wait_until_ready};

/// Name of global-dns in the tables.
pub(crate) const OURS: &str = "global-dns";
/// Name of CoreDNS with its `kubernetes` plugin in the tables.
pub(crate) const COREDNS: &str = "CoreDNS";
/// Name of the bare loop in the tables.
pub(crate) const FLOOR: &str = "floor";

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    /// Name in the tables.
    pub(crate) name: &'static str,
    /// Address for UDP and TCP.
    pub(crate) address: SocketAddr,
    /// Its process.
    pub(crate) process: Process,
    /// Address of metrics and readiness, if it is global-dns.
    pub(crate) admin: Option<SocketAddr>,
}

/// Served data and questions.
#[derive(Debug)]
pub(crate) struct Served {
    /// File of objects, for global-dns.
    pub(crate) manifest: PathBuf,
    /// The same data as a zone file, for the other servers.
    pub(crate) zone: PathBuf,
    /// Kinds of question.
    pub(crate) kinds: Vec<Kind>,
    /// All questions in one file.
    pub(crate) all_questions: PathBuf,
}

/// Configuration and command of another server.
pub(crate) struct Recipe {
    /// Name in the tables.
    pub(crate) name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    configuration: fn(SocketAddr, u32) -> String,
}

/// CPU resources of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// Cores.
    pub(crate) cores: &'static str,
    /// Worker threads.
    pub(crate) workers: u32,
}

/// One core and one worker thread.
pub(crate) const ONE_CORE: Share = Share {
    cores: SERVER,
    workers: 1,
};

/// Source of the objects of global-dns.
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
    /// Writes objects, a zone file and questions to `folder`.
    ///
    /// # Errors
    ///
    /// If a file cannot be written, or global-dns does not print the zone.
    pub(crate) fn prepare(services: &[Services], folder: &Path) -> Result<Self> {
        let manifest = folder.join("objects.json");
        let endpoints = write_manifest(&manifest, services)?;
        let zone = folder.join("global.zone");
        let mut table = command(Binary::ours()?.path, SERVER)?;
        table.args(["table", "--cluster-name=hub", "--output=zone", "--file"]);
        let text = run_checked(table.arg(&manifest))?;
        let records = text
            .lines()
            .filter(|line| line.contains(" IN ") || line.contains("\tIN\t"));
        print_line(&format!(
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

    /// Starts binaries of global-dns first, then the others, with the same records.
    ///
    /// # Errors
    ///
    /// If a server does not start.
    pub(crate) fn start(
        &self,
        binaries: &[Binary],
        others: &[Recipe],
        share: Share,
        folder: &Path,
    ) -> Result<Vec<Server>> {
        let source = Source::File(&self.manifest);
        let ours = binaries.iter().map(|binary| {
            let (server, _) = Server::start_binary(binary, source, share, &["--log-level=warn"])?;
            Ok(server)
        });
        let others = others
            .iter()
            .map(|recipe| Server::start_other(recipe, share, &self.zone, folder));
        ours.chain(others).collect()
    }
}

// === impl Server ===

impl Server {
    /// Starts global-dns and waits until it is ready. Returns the time from start to ready.
    ///
    /// # Errors
    ///
    /// If it does not become ready.
    pub(crate) fn start_global_dns(
        source: Source<'_>,
        share: Share,
        flags: &[&str],
    ) -> Result<(Self, Duration)> {
        Self::start_binary(&Binary::ours()?, source, share, flags)
    }

    /// The same with a binary of global-dns.
    ///
    /// # Errors
    ///
    /// If it does not become ready.
    pub(crate) fn start_binary(
        binary: &Binary,
        source: Source<'_>,
        share: Share,
        flags: &[&str],
    ) -> Result<(Self, Duration)> {
        let address = free_address();
        Self::start_at(binary, address, address, source, share, flags)
    }

    /// The same with a listener on every IPv4 address. Queries go to loopback.
    ///
    /// # Errors
    ///
    /// If it does not become ready.
    pub(crate) fn start_global_dns_on_every_address(
        source: Source<'_>,
        share: Share,
        flags: &[&str],
    ) -> Result<(Self, Duration)> {
        let address = free_address();
        let listen = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
        Self::start_at(&Binary::ours()?, listen, address, source, share, flags)
    }

    fn start_at(
        binary: &Binary,
        listen: SocketAddr,
        address: SocketAddr,
        source: Source<'_>,
        share: Share,
        flags: &[&str],
    ) -> Result<(Self, Duration)> {
        let admin = free_address();
        let mut command = command(&binary.path, share.cores)?;
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
        let mut process = start(binary.name, command)?;
        wait_until_ready(&mut process, (admin, "/readyz"))?;
        let took = started.elapsed();
        let server = Self {
            name: binary.name,
            address,
            process,
            admin: Some(admin),
        };
        Ok((server, took))
    }

    /// Reads a metric without labels from global-dns.
    ///
    /// # Errors
    ///
    /// If the server is not global-dns, or has no such metric.
    pub(crate) fn metric(&self, name: &str) -> Result<f64> {
        let admin = self.admin.context("only global-dns has metrics")?;
        let page = get(admin, "/metrics")?.body;
        let line = page.lines().find_map(|line| line.strip_prefix(name));
        let value = line.and_then(|rest| rest.trim().parse().ok());
        value.with_context(|| format!("no {name} in:\n{page}"))
    }

    /// Starts another server with a zone file and waits until it answers.
    ///
    /// # Errors
    ///
    /// If the server is not installed, or does not answer.
    pub(crate) fn start_other(
        recipe: &Recipe,
        share: Share,
        zone: &Path,
        folder: &Path,
    ) -> Result<Self> {
        let address = free_address();
        let here = folder.join(recipe.program);
        fs::create_dir(&here)?;
        let text =
            (recipe.configuration)(address, share.workers).replace("HERE", &here.to_string_lossy());
        let file = here.join("configuration");
        fs::write(&file, text.replace("ZONE", &zone.to_string_lossy()))?;
        let mut command = command(recipe.program, share.cores)?;
        command.args(recipe.arguments).arg(&file).current_dir(&here);
        Self::start_with_zone(recipe.name, address, command)
    }

    /// Starts the bare loop with the replies of `from`.
    ///
    /// # Errors
    ///
    /// If it does not answer.
    pub(crate) fn start_floor(from: SocketAddr, questions: &Path) -> Result<Self> {
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

    /// Starts a program that serves the zone, and waits until it answers.
    ///
    /// # Errors
    ///
    /// If it does not answer.
    pub(crate) fn start_with_zone(
        name: &'static str,
        address: SocketAddr,
        command: Command,
    ) -> Result<Self> {
        let mut process = start(name, command)?;
        process.wait_for("the zone", |_| {
            let apex = query("global. SOA");
            let reply = try_ask(address, &apex, Transport::Tcp, TIMEOUT).ok()?;
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

/// Returns an unused address on loopback.
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
    // NSD's response rate limit is off, because it would limit the load.
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
    // The user that it changes to when started as root. Debian lacks the default user.
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
    // BIND's default limit of 100 records per RRset is sufficient here.
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
