//! The binary under test as users start it: a running server, its addresses, its log, its pages.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::commands::{binary, global_dns, guarded};
use crate::http::{Page, get, metric};
use crate::objects::Manifest;
use crate::process::{Log, Process};
use crate::query::Packet;
use crate::reply::Reply;
use crate::wait::{PATIENCE, wait_for, wait_for_ok};
use crate::wire::{Over, ask, exchange, is_end, resolve};

/// `global-dns serve`, running; killed when dropped.
#[derive(Debug)]
pub struct Server {
    /// UDP and TCP.
    pub dns: SocketAddr,
    /// Readiness and metrics.
    pub admin: SocketAddr,
    /// `/api/v1` and the status page.
    pub api: SocketAddr,
    /// What it says.
    pub log: Log,
    /// When it was started.
    pub started: Instant,
    /// The file that it serves, if [`Server::of`] made it.
    pub file: PathBuf,
    process: Process,
    listeners: BTreeMap<String, SocketAddr>,
    folder: TempDir,
}

/// Whether a server is expected to have a table when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Await {
    /// It has one.
    Ready,
    /// Its listeners are open.
    Listening,
}

/// `serve` on free ports of the loopback address, with a log that can be read.
const SERVE: [&str; 5] = [
    "serve",
    "--listen=127.0.0.1:0",
    "--admin-listen=127.0.0.1:0",
    "--api-listen=127.0.0.1:0",
    "--log-format=json",
];

/// How long readiness and the end of a server of [`Server::of_cluster`] may take on a busy machine.
const SOON: Duration = Duration::from_secs(20);

// === impl Server ===

impl Server {
    /// Serves what a manifest holds, and waits until it is ready.
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

    /// Follows an API server that cannot be spoken to over plain HTTP, so that there is no table.
    pub fn without_table(api_server: SocketAddr, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kubeconfig");
        let kubeconfig = format!(
            "{{apiVersion: v1, kind: Config, current-context: c, users: [{{name: u, user: {{}}}}], \
             contexts: [{{name: c, context: {{cluster: k, user: u}}}}], \
             clusters: [{{name: k, cluster: {{server: 'http://{api_server}'}}}}]}}"
        );
        std::fs::write(&file, kubeconfig).unwrap();
        let path = file.to_str().unwrap().to_owned();
        let flags = [&["--kubeconfig", &path], flags].concat();
        Self::start(folder, &flags, Await::Listening)
    }

    /// Follows the API server of a kubeconfig as the cluster `hub`; returns when its listeners are open. The kernel ends it
    /// with the thread that starts it.
    pub fn of_cluster(kubeconfig: &Path, further: &[&str]) -> Self {
        let mut command = guarded(binary());
        command.arg("serve").arg("--kubeconfig").arg(kubeconfig);
        for (flag, value) in [
            ("--listen", "127.0.0.1:0"),
            ("--admin-listen", "127.0.0.1:0"),
            ("--api-listen", "127.0.0.1:0"),
            ("--zone", "global"),
            ("--cluster-name", "hub"),
            ("--log-format", "json"),
            ("--watch-timeout", "3s"),
            ("--relist", "15m"),
            ("--grace", "1s"),
        ] {
            if !further.contains(&flag) {
                command.args([flag, value]);
            }
        }
        command.args(further).stdout(Stdio::null());
        Self::start_command(tempfile::tempdir().unwrap(), command, Await::Listening)
    }

    /// The same, and waits until it is ready.
    pub fn ready_of_cluster(kubeconfig: &Path, further: &[&str]) -> Self {
        let server = Self::of_cluster(kubeconfig, further);
        server.wait_until_ready();
        server
    }

    /// Starts `serve` on free ports of the loopback address.
    pub fn start(folder: TempDir, flags: &[&str], until: Await) -> Self {
        let command = global_dns(&[&SERVE, flags].concat());
        Self::start_command(folder, command, until)
    }

    /// Starts a command that logs like `serve --log-format json`. The folder goes when the server does.
    pub fn start_command(folder: TempDir, command: Command, until: Await) -> Self {
        let started = Instant::now();
        let mut process = Process::start_printing("global-dns", command).unwrap();
        let listeners = process.wait_for("listeners", |log| {
            let listeners = listeners(log);
            // Encrypted ones, where there are, are opened before these.
            let always = ["dns", "admin", "api"];
            let is_open = |name| listeners.contains_key(name);
            always.into_iter().all(is_open).then_some(listeners)
        });
        let listeners = listeners.unwrap_or_else(|error| panic!("{error:#}"));
        let server = Self {
            dns: listeners["dns"],
            admin: listeners["admin"],
            api: listeners["api"],
            log: process.log().clone(),
            started,
            file: folder.path().join("objects.yaml"),
            process,
            listeners,
            folder,
        };
        if until == Await::Ready {
            server.await_ready();
        }
        server
    }

    fn await_ready(&self) {
        wait_for_ok("readiness", || match get(self.admin, "/readyz") {
            Ok(page) if page.status == 200 => Ok(()),
            Ok(page) => Err(format!("{} {}", page.status, page.body)),
            Err(error) => Err(error.to_string()),
        });
    }

    /// Waits for readiness, which must come soon; returns the time since the process was started.
    pub fn wait_until_ready(&self) -> Duration {
        let asked = Instant::now();
        self.await_ready();
        let took = asked.elapsed();
        assert!(took < SOON, "global-dns took {took:?} to be ready");
        self.started.elapsed()
    }

    /// Where a listener is: `dns`, `admin`, `api`; `tls`, `https` and `quic` if there are.
    pub fn address(&self, listener: &str) -> SocketAddr {
        self.listeners[listener]
    }

    /// The folder that goes when the server does.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    // === Its file ===

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
        let message = "Kept the last table: a file cannot be used";
        let fields = self.log.wait(mark, message);
        fields["error"].as_str().unwrap().to_owned()
    }

    // === Questions ===

    /// Asks a question.
    pub fn ask(&self, question: &str, over: Over) -> Reply {
        ask(self.dns, question, over)
    }

    /// What a question gets over UDP, or over TCP if it is too big: `NODATA`, `NXDOMAIN`, or the data.
    pub fn outcome(&self, question: &str) -> String {
        resolve(self.dns, question).outcome()
    }

    /// Waits until a question gets an outcome.
    pub fn wait_for_outcome(&self, question: &str, outcome: &str) {
        wait_for(&format!("{question}: {outcome}"), || {
            (self.outcome(question) == outcome).then_some(())
        });
    }

    /// Sends octets, and returns the reply; `None` if the connection is closed instead.
    pub fn send(&self, packet: &Packet, over: Over) -> Option<Vec<u8>> {
        match exchange(self.dns, &packet.0, over, PATIENCE) {
            Ok(reply) => Some(reply),
            Err(error) if over == Over::Tcp && is_end(&error) => None,
            Err(error) => panic!("a reply over {over:?}: {error}"),
        }
    }

    /// Fails unless an ordinary question is answered over UDP and TCP.
    pub fn assert_well(&self) {
        for over in Over::BOTH {
            assert_eq!(self.ask("global. SOA", over).answers.len(), 1);
        }
    }

    /// Connects over TCP.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.dns).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// A socket that speaks to the server.
    pub fn socket(&self) -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(self.dns).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }

    // === Pages ===

    /// A page of the admin listener.
    pub fn admin(&self, path: &str) -> Page {
        get(self.admin, path).unwrap()
    }

    /// Whether it is ready, and what it lacks, from a server that may not answer.
    pub fn readyz(&self) -> Result<Page> {
        Ok(get(self.admin, "/readyz")?)
    }

    /// A page of the API listener, as JSON.
    pub fn api(&self, path: &str) -> Value {
        self.try_api(path)
            .unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// The same from a server that may not answer.
    pub fn try_api(&self, path: &str) -> Result<Value> {
        let Page { status, body } = get(self.api, path)?;
        ensure!(status == 200, "{path} says {status}: {body}");
        Ok(serde_json::from_str(&body)?)
    }

    /// A metric's value, named with its labels.
    pub fn metric(&self, name: &str) -> f64 {
        self.try_metric(name)
            .unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// The same where it may be missing.
    pub fn try_metric(&self, name: &str) -> Result<f64> {
        let page = get(self.admin, "/metrics")?.body;
        let value = metric(&page, name);
        let value = value.with_context(|| format!("no {name} in:\n{page}"))?;
        Ok(value.parse()?)
    }

    /// The same of a counter or of what is counted.
    pub fn count(&self, name: &str) -> u64 {
        self.metric(name) as u64
    }

    /// Queries that came by a transport.
    pub fn requests(&self, proto: &str) -> u64 {
        self.sum(&format!("global_dns_requests_total{{proto=\"{proto}\""))
    }

    /// The sum of all counters that begin like this.
    pub fn sum(&self, start: &str) -> u64 {
        let page = self.admin("/metrics").body;
        let lines = page.lines().filter(|line| line.starts_with(start));
        let count = |line: &str| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
        lines.map(count).sum()
    }

    /// Generation and serial of the table.
    pub fn generation_and_serial(&self) -> (u64, u32) {
        let report = self.api("/api/v1/table");
        let serial = report["serial"].as_u64().unwrap();
        let generation = report["generation"].as_u64().unwrap();
        (generation, u32::try_from(serial).unwrap())
    }

    /// How many connections have ended for a reason.
    pub fn ended(&self, reason: &str) -> f64 {
        self.metric(&format!(
            "global_dns_tcp_connections_ended_total{{reason=\"{reason}\"}}"
        ))
    }

    /// Waits until so many connections have ended for a reason.
    pub fn wait_for_ended(&self, reason: &str, count: usize) {
        wait_for_ok(&format!("{count} ended by {reason}"), || {
            let ended = self.ended(reason);
            let is_so = ended == count as f64;
            is_so.then_some(()).ok_or(format!("{ended} are"))
        });
    }

    // === Its process ===

    /// Sends a signal: `TERM`, `INT`.
    pub fn signal(&self, name: &str) {
        self.process.signal(name).unwrap();
    }

    /// Waits for its end.
    pub fn end(&mut self) -> Result<ExitStatus> {
        self.process.end()
    }

    /// Waits for its end; returns the exit code, or none if a signal ended it.
    pub fn exit_code(&mut self) -> Option<i32> {
        self.end().unwrap().code()
    }

    /// Fails with the end of the log if it has ended.
    pub fn check(&mut self) -> Result<()> {
        self.process.check()
    }

    /// Whether it has ended by now.
    pub fn has_ended(&mut self) -> bool {
        self.process.has_ended()
    }

    /// Adds the end of the log to a failure.
    pub fn with_log<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| anyhow!("{error:#}; {}", self.process.last_words()))
    }
}

/// Finds the addresses that a log names.
fn listeners(log: &Log) -> BTreeMap<String, SocketAddr> {
    let events = log.events().into_iter();
    let listener = |event: Value| {
        let fields = &event["fields"];
        (fields["message"] == "Listening").then(|| {
            let field = |name: &str| fields[name].as_str().unwrap().to_owned();
            (field("listener"), field("address").parse().unwrap())
        })
    };
    events.filter_map(listener).collect()
}
