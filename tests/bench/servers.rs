//! The compared servers, each on a separate port, all pinned to one core.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use support::commands::{self, tool};
use support::http::get;
use support::ports::free_port;
use support::process::Process;
use support::query::query;
use support::settings::add_arguments;
use support::wait::TIMEOUT;
use support::wire::{Transport, try_ask};

use crate::Binary;

/// Core of the servers.
const SERVER: &str = "0";
/// Core of the load generator.
pub(crate) const LOAD: &str = "1";
/// Unit of CPU time in `/proc`: 100 per second with every kernel configuration.
const TICK: Duration = Duration::from_millis(10);
const MIB: f64 = 1024.0;

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    /// Name in the table.
    pub(crate) name: &'static str,
    /// Address for UDP and TCP.
    pub(crate) address: SocketAddr,
    /// Its process.
    pub(crate) process: Process,
    /// Time from start to ready.
    pub(crate) start: Duration,
}

// === impl Server ===

impl Server {
    /// Starts global-dns and waits until it is ready.
    ///
    /// # Errors
    ///
    /// If it does not become ready.
    pub(crate) fn start(binary: &Binary, source: [&str; 2], flags: &[&str]) -> Result<Self> {
        let (address, admin) = (free_address(), free_address());
        let mut serve = command(&binary.path, SERVER)?;
        serve.args(["serve", "--cluster-name=hub", "--log-level=warn"]);
        let own = ["grace=0s", "answers.udpMax=4096", "limits.udpWorkers=1"];
        add_arguments(&mut serve, &[&own, flags].concat());
        serve.arg(format!("--listen={address}"));
        serve.arg(format!("--admin-listen={admin}"));
        serve.arg(format!("--api-listen={}", free_address()));
        serve.args(source);
        let began = Instant::now();
        let mut process = Process::start(binary.name, serve)?;
        process.wait_for("readiness", |_| {
            let page = get(admin, "/readyz").ok()?;
            (page.status == 200).then_some(())
        })?;
        Ok(Self {
            name: binary.name,
            address,
            process,
            start: began.elapsed(),
        })
    }

    /// Starts Knot with a zone file, and waits until it answers.
    ///
    /// # Errors
    ///
    /// If it is not installed, or does not answer.
    pub(crate) fn start_knot(zone: &Path, folder: &Path) -> Result<Self> {
        let address = free_address();
        let file = folder.join("knot.conf");
        let text = KNOT
            .replace("FOLDER", &folder.to_string_lossy())
            .replace("ZONE", &zone.to_string_lossy())
            .replace("ADDRESS", &address.to_string().replace(':', "@"));
        fs::write(&file, text)?;
        let mut knot = command(&tool("knotd")?, SERVER)?;
        let began = Instant::now();
        let mut process = Process::start("Knot", {
            knot.arg("-c").arg(file);
            knot
        })?;
        process.wait_for("the zone", |_| {
            let apex = query("global. SOA");
            let reply = try_ask(address, &apex, Transport::Tcp, TIMEOUT).ok()?;
            (reply.answers.len() == 1).then_some(())
        })?;
        Ok(Self {
            name: "Knot",
            address,
            process,
            start: began.elapsed(),
        })
    }

    /// Returns the CPU time of all threads.
    ///
    /// # Errors
    ///
    /// If the process has ended.
    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        let text = fs::read_to_string(self.process.proc("stat"))?;
        // The name of the program, in parentheses, may contain spaces. State is the third field.
        let (_, rest) = text.rsplit_once(") ").context("no name")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        let ticks = [14, 15].map(|field| fields[field - 3].parse::<u32>());
        let [user, kernel] = ticks;
        Ok(TICK * (user? + kernel?))
    }

    /// Returns a line of `/proc/PID/status` in MiB: `VmRSS`, `VmHWM`.
    ///
    /// # Errors
    ///
    /// If the process has ended.
    pub(crate) fn memory(&self, line: &str) -> Result<f64> {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let kib = self.process.memory(line)? as f64;
        Ok(kib / MIB)
    }
}

/// Returns a command for a program pinned to a core. The kernel terminates the program when the benchmark ends.
///
/// # Errors
///
/// If a program is not installed.
pub(crate) fn command(program: &Path, core: &str) -> Result<Command> {
    let mut command = commands::command(tool("setpriv")?);
    command.args(["--pdeathsig", "TERM", "--"]);
    command
        .arg(tool("taskset")?)
        .args(["-c", core])
        .arg(program);
    Ok(command)
}

/// Returns an unused address on loopback.
pub(crate) fn free_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

const KNOT: &str = r#"server:
    rundir: "FOLDER"
    listen: ADDRESS
    udp-max-payload: 4096
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
database:
    storage: "FOLDER/db"
log:
  - target: stderr
    any: warning
zone:
  - domain: global.
    file: "ZONE"
    zonefile-sync: -1
    zonefile-load: whole
    journal-content: none
"#;
