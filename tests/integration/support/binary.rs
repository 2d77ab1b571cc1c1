//! The binary as a child process: run to its end, or running until the test is over.

use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::ask::{Reply, question};
use super::command;
pub use super::http::{Page, get};
use super::metrics::metric;
use super::objects::Manifest;
use super::running::{Log, Running};
use super::signal::signal;
use super::wire::Over;
use super::{PATIENCE, wait_for};

/// What a program that has ended left behind.
#[derive(Debug)]
pub struct Ended {
    /// Exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub took: Duration,
}

/// `global-dns serve`, running; killed when dropped.
pub struct Server {
    running: Running,
    pub dns: SocketAddr,
    pub admin: SocketAddr,
    pub api: SocketAddr,
    pub log: Log,
    /// The file that it serves, if [`Server::of`] made it.
    pub file: PathBuf,
    _folder: TempDir,
}

/// Whether a server is expected to have a table when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Await {
    Ready,
    Listening,
}

/// The binary, without a trace of the environment's settings.
pub fn global_dns(arguments: &[&str]) -> Command {
    let mut command = command::global_dns();
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs the binary to its end.
pub fn run(arguments: &[&str]) -> Ended {
    run_command(global_dns(arguments))
}

/// Runs another program to its end. Fails with a sentence if it is not installed.
pub fn tool(program: &str, arguments: &[&str]) -> Ended {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    command.env("PATH", path_of_tools());
    run_command(command)
}

/// The search path, with the folders of daemons, which not every user has.
pub fn path_of_tools() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{path}:/usr/local/sbin:/usr/sbin:/sbin")
}

/// Starts a program, or fails with a sentence.
pub fn spawn(mut command: Command) -> Child {
    command.spawn().unwrap_or_else(|error| {
        let program = command.get_program().to_string_lossy().into_owned();
        panic!("{program}: {error}; run tests/run integration, which installs it")
    })
}

/// Runs a program to its end.
pub fn run_command(mut command: Command) -> Ended {
    let started = Instant::now();
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let what = format!("{command:?}");
    let mut child = spawn(command);
    let stdout = read_all(child.stdout.take().unwrap());
    let stderr = read_all(child.stderr.take().unwrap());
    let status = end_of(&mut child, &what);
    Ended {
        code: status.code(),
        stdout: stdout.join().unwrap(),
        stderr: stderr.join().unwrap(),
        took: started.elapsed(),
    }
}

fn read_all(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    })
}

/// Waits for the end of a child, twice as patiently as for anything else: some commands have 30 seconds themselves.
fn end_of(child: &mut Child, what: &str) -> std::process::ExitStatus {
    let deadline = Instant::now() + 2 * PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("{what} did not end");
        }
        thread::sleep(Duration::from_millis(2));
    }
}

// === impl Log ===

impl Log {
    /// The number of lines so far: where to go on.
    pub fn mark(&self) -> usize {
        self.lines().len()
    }

    /// Waits for a line after `mark` with this message; returns its fields.
    pub fn wait(&self, mark: usize, message: &str) -> Value {
        wait_for(&format!("log line '{message}'"), || {
            let events = self.events().into_iter().skip(mark);
            let mut fields = events.map(|event| event["fields"].clone());
            fields.find(|fields| fields["message"] == message)
        })
    }
}

// === impl Server ===

impl Server {
    /// Serves what a manifest holds.
    pub fn of(manifest: impl Into<Manifest>, flags: &[&str]) -> Self {
        Self::with_text(&manifest.into().text(), flags)
    }

    /// Serves what a text holds.
    pub fn with_text(text: &str, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("objects.yaml");
        std::fs::write(&file, text).unwrap();
        let path = file.to_str().unwrap().to_owned();
        Self::start(folder, &[&["--file", &path], flags].concat(), Await::Ready)
    }

    /// Starts `serve` on free ports of the loopback address.
    pub fn start(folder: TempDir, flags: &[&str], until: Await) -> Self {
        let listen = [
            "serve",
            "--listen=127.0.0.1:0",
            "--admin-listen=127.0.0.1:0",
            "--api-listen=127.0.0.1:0",
            "--log-format=json",
        ];
        Self::start_command(folder, global_dns(&[&listen[..], flags].concat()), until)
    }

    /// Starts a command that logs like `serve --log-format json`.
    pub fn start_command(folder: TempDir, command: Command, until: Await) -> Self {
        let running = Running::start(command);
        if until == Await::Ready {
            running.wait_until_ready();
        }
        Self {
            dns: running.address("dns"),
            admin: running.address("admin"),
            api: running.address("api"),
            log: running.log.clone(),
            running,
            file: folder.path().join("objects.yaml"),
            _folder: folder,
        }
    }

    /// Where a listener is: `tls`, `https`.
    pub fn address(&self, listener: &str) -> SocketAddr {
        self.running.address(listener)
    }

    /// The number of its process.
    pub fn process(&self) -> u32 {
        self.running.child.id()
    }

    /// The folder that goes when the server does.
    pub fn folder(&self) -> &Path {
        self._folder.path()
    }

    /// Writes the file anew, and waits until the server has taken it.
    pub fn rewrite(&self, text: &str) {
        let mark = self.log.mark();
        std::fs::write(&self.file, text).unwrap();
        self.log.wait(mark, "Reloaded files");
    }

    /// Writes the file anew with something that cannot be used, and waits for the complaint.
    pub fn spoil(&self, text: &str) -> String {
        let mark = self.log.mark();
        std::fs::write(&self.file, text).unwrap();
        let fields = self
            .log
            .wait(mark, "Kept the last table: a file cannot be used");
        fields["error"].as_str().unwrap().to_owned()
    }

    /// What a question gets over UDP, or over TCP if it is too big: `NODATA`, `NXDOMAIN`, or the data.
    pub fn outcome(&self, asked: &str) -> String {
        question(asked).resolve(self.dns).outcome()
    }

    /// Waits until a question gets an outcome.
    pub fn wait_for_outcome(&self, asked: &str, outcome: &str) {
        wait_for(&format!("{asked}: {outcome}"), || {
            (self.outcome(asked) == outcome).then_some(())
        });
    }

    pub fn ask(&self, asked: &str, over: Over) -> Reply {
        question(asked).ask(self.dns, over)
    }

    /// A page of the admin listener.
    pub fn admin(&self, path: &str) -> Page {
        get(self.admin, path).unwrap()
    }

    /// A page of the API listener, as JSON.
    pub fn api(&self, path: &str) -> Value {
        let page = get(self.api, path).unwrap();
        assert_eq!(page.status, 200, "{path}: {}", page.body);
        serde_json::from_str(&page.body).unwrap()
    }

    /// A metric's value.
    pub fn metric(&self, name_and_labels: &str) -> f64 {
        let page = self.admin("/metrics").body;
        let value = metric(&page, name_and_labels);
        let value = value.unwrap_or_else(|| panic!("no {name_and_labels} in:\n{page}"));
        value.parse().unwrap()
    }

    /// Generation, and the serial of the SOA record, which must be that of the report.
    pub fn generation_and_serial(&self) -> (u64, u32) {
        let report = self.api("/api/v1/table");
        (
            report["generation"].as_u64().unwrap(),
            u32::try_from(report["serial"].as_u64().unwrap()).unwrap(),
        )
    }

    /// Sends a signal: `TERM`, `INT`.
    pub fn signal(&self, name: &str) {
        signal(&self.running.child, name).unwrap();
    }

    /// Waits for its end; returns the exit code.
    pub fn end(&mut self) -> Option<i32> {
        end_of(&mut self.running.child, "global-dns serve").code()
    }

    /// Whether it has ended by now.
    pub fn has_ended(&mut self) -> bool {
        self.running.has_ended()
    }
}
