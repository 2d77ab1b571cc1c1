//! Programs: found, run to their end, or running until the test is over.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

pub use super::command::global_dns;
pub use super::environment::clean;
use super::http::get;
use super::metrics::metric;
use super::objects::Manifest;
use super::running::Running;
use super::signal::signal;
use super::tools::find;
use super::wait::wait_for_ok;

/// Finds a program, or says how to get it.
pub fn tool(name: &str) -> PathBuf {
    find(name).unwrap_or_else(|| {
        panic!("{name} is not installed: run tests/run peers, which installs it")
    })
}

/// Runs a program to its end; returns what it printed, or fails with all of it.
pub fn run(command: &mut Command) -> String {
    let (succeeded, stdout, stderr) = outcome(command);
    assert!(succeeded, "{command:?}: {stdout}\n{stderr}");
    stdout
}

/// Runs a program to its end: whether it succeeded, and what it printed.
pub fn outcome(command: &mut Command) -> (bool, String, String) {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let succeeded = output.status.success();
    (succeeded, text(output.stdout), text(output.stderr))
}

// === Daemons ===

/// A program that runs until it is dropped, with everything that it says in a file.
pub struct Daemon {
    child: Child,
    name: String,
    log: PathBuf,
}

impl Daemon {
    /// Starts it; `folder` takes its log.
    pub fn start(name: &str, mut command: Command, folder: &Path) -> Self {
        let log = folder.join(format!("{name}.log"));
        let file = File::create(&log).unwrap();
        command.stdin(Stdio::null());
        command.stdout(file.try_clone().unwrap()).stderr(file);
        let child = command.spawn();
        Self {
            child: child.unwrap_or_else(|error| panic!("{command:?}: {error}")),
            name: name.to_owned(),
            log,
        }
    }

    /// Everything that it said so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap()).into_owned()
    }

    /// Waits for something; fails at once if the program ends.
    pub fn wait_for<T>(&mut self, what: &str, mut attempt: impl FnMut(&str) -> Option<T>) -> T {
        wait_for_ok(&format!("{}: {what}", self.name), || {
            let log = self.log();
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("{} ended, {status}: {log}", self.name);
            }
            let end = log.len().saturating_sub(2000);
            attempt(&log)
                .ok_or_else(|| String::from_utf8_lossy(&log.as_bytes()[end..]).into_owned())
        })
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Asked kindly first: NSD has children, which it ends.
        let asked = signal(&self.child, "TERM");
        let deadline = Instant::now() + Duration::from_secs(10);
        while asked.is_ok() && Instant::now() < deadline {
            if let Ok(Some(_)) = self.child.try_wait() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill(); // it may have ended by now
        let _ = self.child.wait();
    }
}

// === global-dns ===

/// `global-dns serve`, running.
pub struct Server {
    running: Running,
    pub dns: SocketAddr,
    pub api: SocketAddr,
    _folder: TempDir,
}

impl Server {
    /// Serves a manifest, and waits until it is ready.
    pub fn of(manifest: &Manifest, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("objects.yaml");
        std::fs::write(&file, manifest.text()).unwrap();
        let mut command = global_dns();
        command.args(["serve", "--log-format=json", "--cluster-name=hub"]);
        command.args(["--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"]);
        command
            .args(["--api-listen=127.0.0.1:0", "--grace=0s"])
            .args(flags);
        command.arg("--file").arg(&file);
        let running = Running::start(command);
        running.wait_until_ready();
        Self {
            dns: running.address("dns"),
            api: running.address("api"),
            running,
            _folder: folder,
        }
    }

    /// Where a listener is: `tls`, `https`, `quic`.
    pub fn address(&self, listener: &str) -> SocketAddr {
        self.running.address(listener)
    }

    /// The page of metrics.
    fn metrics(&self) -> String {
        get(self.running.address("admin"), "/metrics").unwrap().body
    }

    /// A metric's value.
    pub fn metric(&self, name_and_labels: &str) -> u64 {
        let page = self.metrics();
        let value = metric(&page, name_and_labels);
        let value = value.unwrap_or_else(|| panic!("no {name_and_labels} in:\n{page}"));
        value.parse::<f64>().unwrap() as u64
    }

    /// The sum of all counters that begin like this.
    pub fn sum(&self, start: &str) -> u64 {
        let page = self.metrics();
        let lines = page.lines().filter(|line| line.starts_with(start));
        let count = |line: &str| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
        lines.map(count).sum()
    }

    /// Queries that came by a transport.
    pub fn requests(&self, proto: &str) -> u64 {
        self.sum(&format!("global_dns_requests_total{{proto=\"{proto}\""))
    }
}
