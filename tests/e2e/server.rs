//! The binary under test: started as users start it, and read from outside only.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;

use crate::harness::{ask_to_end, command, eventually, last_lines};

/// How long start-up, readiness and the end may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Server {
    /// UDP and TCP.
    pub dns: SocketAddr,
    pub started: Instant,
    admin: SocketAddr,
    api: SocketAddr,
    child: Child,
    log: Log,
}

/// What the process has written to stderr so far.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<String>>>);

// === impl Server ===

impl Server {
    /// Starts `global-dns serve` against the API server of `kubeconfig`; returns when its listeners are open.
    pub fn start(kubeconfig: &Path, further: &[&str]) -> Result<Self> {
        let mut command = command(Path::new(env!("CARGO_BIN_EXE_global-dns")));
        command.arg("serve").arg("--kubeconfig").arg(kubeconfig);
        for listener in ["--listen", "--admin-listen", "--api-listen"] {
            command.args([listener, "127.0.0.1:0"]);
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
        command
            .args(further)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let started = Instant::now();
        let mut child = command.spawn().context("starting global-dns")?;
        let log = Log::default();
        if let Some(stderr) = child.stderr.take() {
            let log = log.clone();
            thread::spawn(move || {
                BufReader::new(stderr)
                    .lines()
                    .map_while(Result::ok)
                    .for_each(|line| log.push(line))
            });
        }
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut server = Self {
            dns: nowhere,
            started,
            admin: nowhere,
            api: nowhere,
            child,
            log,
        };
        server.dns = server.listener("dns")?;
        server.admin = server.listener("admin")?;
        server.api = server.listener("api")?;
        Ok(server)
    }

    /// The same, and waits until it is ready.
    pub fn start_ready(kubeconfig: &Path, further: &[&str]) -> Result<Self> {
        let server = Self::start(kubeconfig, further)?;
        server.wait_until_ready()?;
        Ok(server)
    }

    /// Waits for readiness; returns the time since the process was started.
    pub fn wait_until_ready(&self) -> Result<Duration> {
        let ready = eventually("global-dns to be ready", PATIENCE, || {
            let (status, text) = self.readyz()?;
            ensure!(status == 200, "/readyz says {status}: {text}");
            Ok(self.started.elapsed())
        });
        self.with_log(ready)
    }

    /// Status and text of `/readyz`.
    pub fn readyz(&self) -> Result<(u16, String)> {
        get(self.admin, "/readyz")
    }

    /// The value of one line of `/metrics`, named with its labels.
    pub fn metric(&self, name: &str) -> Result<f64> {
        let (_, text) = get(self.admin, "/metrics")?;
        let value = text.lines().find_map(|line| {
            line.strip_prefix(name)?
                .trim_start_matches("{}")
                .strip_prefix(' ')
        });
        Ok(value
            .with_context(|| format!("/metrics has no {name}"))?
            .trim()
            .parse()?)
    }

    /// `/api/v1/table`.
    pub fn table(&self) -> Result<Value> {
        let (status, text) = get(self.api, "/api/v1/table")?;
        ensure!(status == 200, "/api/v1/table says {status}: {text}");
        Ok(serde_json::from_str(&text)?)
    }

    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Adds the end of the log to a failure.
    pub fn with_log<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| {
            anyhow!(
                "{error:#}; the end of the log:\n    {}",
                last_lines(&self.log.lines(), 12)
            )
        })
    }

    /// Fails if the process has ended.
    pub fn is_running(&mut self) -> Result<()> {
        let ended = self.child.try_wait()?;
        ensure!(ended.is_none(), "global-dns has ended with {ended:?}");
        Ok(())
    }

    pub fn ask_to_end(&self) -> Result<()> {
        ask_to_end(&self.child)
    }

    /// Waits for the end of the process.
    pub fn wait_for_the_end(&mut self) -> Result<ExitStatus> {
        let child = &mut self.child;
        eventually("global-dns to end", PATIENCE, || {
            child.try_wait()?.context("it is still running")
        })
    }

    fn listener(&mut self, listener: &str) -> Result<SocketAddr> {
        let (log, child) = (&self.log, &mut self.child);
        let found = eventually(&format!("the {listener} listener"), PATIENCE, || {
            if let Some(line) =
                log.find(|line| line["message"] == "Listening" && line["listener"] == listener)
            {
                return Ok(Some(
                    line["address"]
                        .as_str()
                        .context("a listener without an address")?
                        .parse()?,
                ));
            }
            // A process that has ended is not to be waited for.
            ensure!(
                child.try_wait()?.is_some(),
                "there is no such line in the log"
            );
            Ok(None)
        });
        let found = found.and_then(|address| {
            address.with_context(|| format!("no {listener} listener: global-dns has ended"))
        });
        self.with_log(found)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// === impl Log ===

impl Log {
    pub fn lines(&self) -> Vec<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

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

    /// Every line that is an event.
    fn events(&self) -> Vec<Value> {
        self.lines()
            .iter()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    fn push(&self, line: String) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(line);
    }
}

/// Asks for `path` over HTTP; returns status and body.
fn get(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // Version 1.0: the body ends with the connection.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").context("no HTTP answer")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    Ok((status, body.to_owned()))
}
