//! The binary under test: started as users start it, and read from outside only.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;

use crate::harness::{command, eventually};
use crate::support::http::{Page, get};
use crate::support::metrics;
use crate::support::running::{Log, Running};
use crate::support::signal::signal;

/// How long readiness and the end may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Server {
    /// UDP and TCP.
    pub dns: SocketAddr,
    pub started: Instant,
    running: Running,
}

// === impl Server ===

impl Server {
    /// Starts `global-dns serve` against the API server of `kubeconfig`; returns when its listeners are open.
    pub fn start(kubeconfig: &Path, further: &[&str]) -> Self {
        let mut command = command(Path::new(env!("CARGO_BIN_EXE_global-dns")));
        command.arg("serve").arg("--kubeconfig").arg(kubeconfig);
        for listener in ["--listen", "--admin-listen", "--api-listen"] {
            if !further.contains(&listener) {
                command.args([listener, "127.0.0.1:0"]);
            }
        }
        command.args([
            "--zone",
            "global",
            "--cluster-name",
            "hub",
            "--log-format",
            "json",
        ]);
        for (flag, value) in [
            ("--watch-timeout", "3s"),
            ("--relist", "15m"),
            ("--grace", "1s"),
        ] {
            if !further.contains(&flag) {
                command.args([flag, value]);
            }
        }
        command.args(further).stdout(Stdio::null());
        let started = Instant::now();
        let running = Running::start(command);
        Self {
            dns: running.address("dns"),
            started,
            running,
        }
    }

    /// The same, and waits until it is ready.
    pub fn start_ready(kubeconfig: &Path, further: &[&str]) -> Self {
        let server = Self::start(kubeconfig, further);
        server.wait_until_ready();
        server
    }

    /// Waits for readiness; returns the time since the process was started.
    pub fn wait_until_ready(&self) -> Duration {
        let asked = Instant::now();
        self.running.wait_until_ready();
        let took = asked.elapsed();
        assert!(took < PATIENCE, "global-dns took {took:?} to be ready");
        self.started.elapsed()
    }

    /// Status and text of `/readyz`.
    pub fn readyz(&self) -> Result<(u16, String)> {
        let Page { status, body } = get(self.running.address("admin"), "/readyz")?;
        Ok((status, body))
    }

    /// The value of one line of `/metrics`, named with its labels.
    pub fn metric(&self, name: &str) -> Result<f64> {
        let page = get(self.running.address("admin"), "/metrics")?;
        let value = metrics::metric(&page.body, name);
        let value = value.with_context(|| format!("/metrics has no {name}"))?;
        Ok(value.trim().parse()?)
    }

    /// Where `/api/v1` is.
    pub fn api(&self) -> SocketAddr {
        self.running.address("api")
    }

    /// `/api/v1/table`.
    pub fn table(&self) -> Result<Value> {
        let Page { status, body } = get(self.running.address("api"), "/api/v1/table")?;
        ensure!(status == 200, "/api/v1/table says {status}: {body}");
        Ok(serde_json::from_str(&body)?)
    }

    pub fn log(&self) -> &Log {
        &self.running.log
    }

    /// Adds the end of the log to a failure.
    pub fn with_log<T>(&self, result: Result<T>) -> Result<T> {
        let end = || self.running.log.end();
        result.map_err(|error| anyhow!("{error:#}; the end of the log:\n{}", end()))
    }

    /// Fails if the process has ended.
    pub fn is_running(&mut self) -> Result<()> {
        let ended = self.running.child.try_wait()?;
        ensure!(ended.is_none(), "global-dns has ended with {ended:?}");
        Ok(())
    }

    /// Sends SIGTERM.
    pub fn ask_to_end(&self) -> Result<()> {
        Ok(signal(&self.running.child, "TERM")?)
    }

    /// Waits for the end of the process.
    pub fn wait_for_the_end(&mut self) -> Result<ExitStatus> {
        let child = &mut self.running.child;
        eventually("global-dns to end", PATIENCE, || {
            child.try_wait()?.context("it is still running")
        })
    }
}

// === impl Log ===

impl Log {
    /// The first event whose fields fit.
    pub fn find(&self, fits: impl Fn(&Value) -> bool) -> Option<Value> {
        self.events()
            .into_iter()
            .map(|event| event["fields"].clone())
            .find(fits)
    }

    /// How many events of a level there are: `WARN`, `ERROR`.
    pub fn count(&self, level: &str) -> usize {
        self.events()
            .iter()
            .filter(|event| event["level"] == level)
            .count()
    }
}
