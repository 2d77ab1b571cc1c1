//! A running server: the process of the binary under test, its addresses, log and HTTP pages.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::commands::{binary, global_dns, guarded};
use crate::http::{Page, get, metric};
use crate::kubeconfig;
use crate::objects::Manifest;
use crate::process::{Log, Process};
use crate::query::Packet;
use crate::reply::Reply;
use crate::settings::add_arguments;
use crate::wait::{TIMEOUT, eventually, wait_for, wait_for_ok};
use crate::wire::{Transport, ask, exchange, is_end, resolve};

/// A running `global-dns serve`. The drop kills it.
#[derive(Debug)]
pub struct Server {
    /// Address for DNS over UDP and TCP.
    pub dns: SocketAddr,
    /// Address for health, readiness and metrics.
    pub admin: SocketAddr,
    /// Address for `/api/v1` and the status page.
    pub api: SocketAddr,
    /// The log.
    pub log: Log,
    /// The file that it serves, if [`Server::with_objects`] wrote it.
    pub file: PathBuf,
    process: Process,
    listeners: BTreeMap<String, SocketAddr>,
    folder: TempDir,
}

/// State of a server to wait for at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitUntil {
    /// It has a table.
    Ready,
    /// Its listeners are open.
    Listening,
}

/// Arguments of `serve`: free loopback ports and a JSON log.
const SERVE: [&str; 5] = [
    "serve",
    "--listen=127.0.0.1:0",
    "--admin-listen=127.0.0.1:0",
    "--api-listen=127.0.0.1:0",
    "--log-format=json",
];

// === impl Server ===

impl Server {
    /// Serves the objects of a manifest. Waits for readiness.
    pub fn with_objects(manifest: impl Into<Manifest>, flags: &[&str]) -> Self {
        Self::with_text(&manifest.into().text(), flags)
    }

    /// Serves a manifest in text form. Waits for readiness.
    pub fn with_text(text: &str, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("objects.yaml");
        std::fs::write(&file, text).unwrap();
        let path = file.to_str().unwrap().to_owned();
        Self::start(
            folder,
            &[&["--file", &path], flags].concat(),
            WaitUntil::Ready,
        )
    }

    /// Starts a server that gets no table, because its API server does not answer over plain HTTP.
    pub fn without_table(api_server: SocketAddr, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kubeconfig");
        let url = format!("http://{api_server}");
        std::fs::write(&file, kubeconfig::text(&url, "", "")).unwrap();
        let path = file.to_str().unwrap().to_owned();
        let flags = [&["--kubeconfig", &path], flags].concat();
        Self::start(folder, &flags, WaitUntil::Listening)
    }

    /// Watches the API server of a kubeconfig as the cluster `hub`. Returns when the listeners are open. The kernel
    /// kills the server when the current thread ends.
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
        ] {
            if !further.contains(&flag) {
                command.args([flag, value]);
            }
        }
        add_arguments(&mut command, &["grace=1s"]);
        add_arguments(&mut command, further);
        command.stdout(Stdio::null());
        Self::start_command(tempfile::tempdir().unwrap(), command, WaitUntil::Listening)
    }

    /// Like [`Self::of_cluster`], but waits for readiness.
    pub fn ready_of_cluster(kubeconfig: &Path, further: &[&str]) -> Self {
        let server = Self::of_cluster(kubeconfig, further);
        server.wait_until_ready();
        server
    }

    /// Runs `demo` on free loopback ports. The folder holds its copy of the sample, which is removed even if the demo is
    /// killed.
    pub fn demo(folder: TempDir, stdout: Stdio) -> Self {
        let mut command = global_dns(&[&["demo"], &SERVE[1..]].concat());
        command.env("TMPDIR", folder.path()).stdout(stdout);
        Self::start_command(folder, command, WaitUntil::Ready)
    }

    /// Starts `serve` on free loopback ports.
    pub fn start(folder: TempDir, flags: &[&str], until: WaitUntil) -> Self {
        let command = global_dns(&[&SERVE, flags].concat());
        Self::start_command(folder, command, until)
    }

    /// Starts a command that logs like `serve --log-format json`. The folder is removed with the server.
    pub fn start_command(folder: TempDir, command: Command, until: WaitUntil) -> Self {
        let mut process = Process::start_with_stderr_log("global-dns", command).unwrap();
        let listeners = process.wait_for("listeners", |log| {
            let listeners = listeners(log);
            // The server opens encrypted listeners before these.
            let required = ["dns", "admin", "api"];
            let is_open = |name| listeners.contains_key(name);
            required.into_iter().all(is_open).then_some(listeners)
        });
        let listeners = listeners.unwrap_or_else(|error| panic!("{error:#}"));
        let server = Self {
            dns: listeners["dns"],
            admin: listeners["admin"],
            api: listeners["api"],
            log: process.log().clone(),
            file: folder.path().join("objects.yaml"),
            process,
            listeners,
            folder,
        };
        if until == WaitUntil::Ready {
            server.wait_until_ready();
        }
        server
    }

    /// Waits for readiness.
    pub fn wait_until_ready(&self) {
        wait_for_ok("readiness", || match get(self.admin, "/readyz") {
            Ok(page) if page.status == 200 => Ok(()),
            Ok(page) => Err(format!("{} {}", page.status, page.body)),
            Err(error) => Err(error.to_string()),
        });
    }

    /// Returns the address of a listener: `dns`, `admin`, `api`, and, if enabled, `tls` and `quic`.
    pub fn address(&self, listener: &str) -> SocketAddr {
        self.listeners[listener]
    }

    /// Returns the folder that is removed with the server.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    // === Served file ===

    /// Rewrites the file and waits until the server has reloaded it.
    pub fn rewrite(&self, text: &str) {
        let mark = self.log.mark();
        std::fs::write(&self.file, text).unwrap();
        self.log.wait(mark, "Reloaded files");
    }

    /// Rewrites the file with an invalid text. Returns the error that the server logs.
    pub fn write_invalid(&self, text: &str) -> String {
        let mark = self.log.mark();
        std::fs::write(&self.file, text).unwrap();
        let fields = self.log.wait(mark, "Source of objects is not available");
        fields["detail"].as_str().unwrap().to_owned()
    }

    // === Queries ===

    /// Sends a query and returns the reply.
    pub fn ask(&self, question: &str, over: Transport) -> Reply {
        ask(self.dns, question, over)
    }

    /// Queries like a resolver, with TCP after a truncated reply. Returns `NODATA`, a response code such as `NXDOMAIN`,
    /// or the RDATA.
    pub fn outcome(&self, question: &str) -> String {
        resolve(self.dns, question).outcome()
    }

    /// Waits until a query has an outcome.
    pub fn wait_for_outcome(&self, question: &str, outcome: &str) {
        wait_for(&format!("{question}: {outcome}"), || {
            (self.outcome(question) == outcome).then_some(())
        });
    }

    /// Sends a packet and returns the reply. `None` means that the server closed the connection.
    pub fn send(&self, packet: &Packet, over: Transport) -> Option<Vec<u8>> {
        match exchange(self.dns, &packet.0, over, TIMEOUT) {
            Ok(reply) => Some(reply),
            Err(error) if over == Transport::Tcp && is_end(&error) => None,
            Err(error) => panic!("no reply over {over:?}: {error}"),
        }
    }

    /// Fails unless the server answers a query over UDP and TCP.
    pub fn assert_answers(&self) {
        for over in Transport::BOTH {
            assert_eq!(self.ask("global. SOA", over).answers.len(), 1);
        }
    }

    /// Connects over TCP.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.dns).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream
    }

    /// Returns a UDP socket that is connected to the server.
    pub fn socket(&self) -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(self.dns).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        socket
    }

    // === Pages ===

    /// Returns a page of the admin listener.
    pub fn admin(&self, path: &str) -> Page {
        get(self.admin, path).unwrap()
    }

    /// Returns the page `/readyz`, or an error if the server does not respond.
    pub fn readyz(&self) -> Result<Page> {
        Ok(get(self.admin, "/readyz")?)
    }

    /// Returns a page of the API listener as JSON.
    pub fn api(&self, path: &str) -> Value {
        self.try_api(path)
            .unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Returns a page of the API listener as JSON, or an error.
    pub fn try_api(&self, path: &str) -> Result<Value> {
        let Page { status, body } = get(self.api, path)?;
        ensure!(status == 200, "{path} returned {status}: {body}");
        Ok(serde_json::from_str(&body)?)
    }

    /// Returns the objects of a view of the API, such as `table` or `problems?kind=kind`: the first thousand.
    pub fn items(&self, view: &str) -> Vec<Value> {
        self.try_items(view)
            .unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Returns the objects of a view of the API, or an error.
    pub fn try_items(&self, view: &str) -> Result<Vec<Value>> {
        let sign = if view.contains('?') { '&' } else { '?' };
        let is_list = !view.starts_with("status");
        let limit = if is_list {
            format!("{sign}limit=1000")
        } else {
            String::new()
        };
        let mut page = self.try_api(&format!("/api/v1/{view}{limit}"))?;
        ensure!(page["continue"].is_null(), "{view} has more than one page");
        Ok(serde_json::from_value(page["items"].take())?)
    }

    /// Returns the objects of a section of a view.
    pub fn section(&self, view: &str, section: &str) -> Vec<Value> {
        let items = self.items(view).into_iter();
        items.filter(|item| item["section"] == section).collect()
    }

    /// Returns the status of the server.
    pub fn status(&self) -> Value {
        self.items("status").remove(0)
    }

    /// Returns the zone `global.` as a zone file.
    pub fn zone_file(&self) -> String {
        let lines = self.items("zone").into_iter();
        let lines = lines.map(|record| {
            let text = |field: &str| record[field].as_str().unwrap().to_owned();
            format!(
                "{}\t{}\tIN\t{}\t{}\n",
                text("name"),
                record["ttl"],
                text("type"),
                text("data")
            )
        });
        lines.collect()
    }

    /// Returns the value of a metric, named with its labels.
    pub fn metric(&self, name: &str) -> f64 {
        self.try_metric(name)
            .unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Returns the value of a metric, or an error if it is missing.
    pub fn try_metric(&self, name: &str) -> Result<f64> {
        let page = get(self.admin, "/metrics")?.body;
        let value = metric(&page, name).with_context(|| format!("no {name} in:\n{page}"))?;
        Ok(value.parse()?)
    }

    /// Waits until the table is older than this, in seconds. Returns its age. Fails if the table was heard of later than
    /// `last_event` seconds after the end of its source.
    pub fn wait_for_old_table(&self, end: Instant, last_event: f64, seconds: f64) -> Result<f64> {
        eventually("the table to be old", || {
            let down = end.elapsed().as_secs_f64();
            let age = self.try_metric("global_dns_table_age_seconds")?;
            ensure!(
                age > down - last_event,
                "the table is {age:.1} s old {down:.1} s after the end of its source"
            );
            ensure!(age > seconds, "the table is {age:.1} s old");
            Ok(age)
        })
    }

    /// Returns the value of a metric as an integer.
    pub fn count(&self, name: &str) -> u64 {
        self.metric(name) as u64
    }

    /// Returns the number of queries over a transport.
    pub fn requests(&self, proto: &str) -> u64 {
        self.sum(&format!("global_dns_requests_total{{proto=\"{proto}\""))
    }

    /// Returns the sum of all counters with this prefix.
    pub fn sum(&self, start: &str) -> u64 {
        let page = self.admin("/metrics").body;
        let lines = page.lines().filter(|line| line.starts_with(start));
        let count = |line: &str| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
        lines.map(count).sum()
    }

    /// Returns the generation and the serial of the table.
    pub fn generation_and_serial(&self) -> (u64, u32) {
        let status = self.status();
        let serial = status["serial"].as_u64().unwrap();
        let generation = status["generation"].as_u64().unwrap();
        (generation, u32::try_from(serial).unwrap())
    }

    /// Returns the number of connections that ended for a reason.
    pub fn ended_connections(&self, reason: &str) -> f64 {
        self.metric(&format!(
            "global_dns_tcp_connections_ended_total{{reason=\"{reason}\"}}"
        ))
    }

    /// Waits until this number of connections has ended for a reason.
    pub fn wait_for_ended_connections(&self, reason: &str, count: usize) {
        wait_for_ok(&format!("{count} connections ended by {reason}"), || {
            let ended = self.ended_connections(reason);
            let is_reached = ended == count as f64;
            is_reached.then_some(()).ok_or(format!("{ended} ended"))
        });
    }

    // === Process ===

    /// Sends a signal: `TERM`, `INT`.
    pub fn signal(&self, name: &str) {
        self.process.signal(name).unwrap();
    }

    /// Waits for the end of the process.
    pub fn end(&mut self) -> Result<ExitStatus> {
        self.process.end()
    }

    /// Waits for the end of the process. Returns the exit code, or `None` if a signal ended it.
    pub fn exit_code(&mut self) -> Option<i32> {
        self.end().unwrap().code()
    }

    /// If the process has ended, fails with the last lines of its log.
    pub fn check(&mut self) -> Result<()> {
        self.process.check()
    }

    /// Returns whether the process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.process.has_ended()
    }

    /// Adds the last lines of the log to an error.
    pub fn with_log<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| anyhow!("{error:#}; {}", self.process.log_tail()))
    }
}

/// Reads the addresses of the listeners from a log.
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
