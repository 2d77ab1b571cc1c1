//! Programs: found, run to their end, or running until the test is over.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::objects::Manifest;
use super::{PATIENCE, wait_for};

/// Finds a program: in the directory `GLOBAL_DNS_TEST_TOOLS`, then on the path, then where daemons live.
pub fn tool(name: &str) -> PathBuf {
    let tools = std::env::var_os("GLOBAL_DNS_TEST_TOOLS").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let daemons = ["/usr/local/go/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"];
    let folders = tools
        .into_iter()
        .chain(std::env::split_paths(&path))
        .chain(daemons.map(PathBuf::from));
    folders
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
        .unwrap_or_else(|| {
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

/// The binary under test, without a trace of the environment's settings.
pub fn global_dns() -> Command {
    clean(Command::new(env!("CARGO_BIN_EXE_global-dns")))
}

/// Takes the environment's settings of the binary under test away.
pub fn clean(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GLOBAL_DNS_") || name == "KUBECONFIG" {
            command.env_remove(name);
        }
    }
    command
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
        wait_for(&format!("{}: {what}", self.name), || {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("{} ended, {status}: {}", self.name, self.log());
            }
            attempt(&self.log())
        })
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Asked kindly first: NSD has children, which it ends.
        let kill = format!("kill {}", self.child.id());
        let asked = Command::new("sh").args(["-c", &kill]).status();
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
    _daemon: Daemon,
    pub dns: SocketAddr,
    admin: SocketAddr,
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
        let mut daemon = Daemon::start("global-dns", command, folder.path());
        let listeners = daemon.wait_for("listening", |log| {
            let listeners = listeners(log);
            (listeners.len() == 3).then_some(listeners)
        });
        let [dns, admin, api] = ["dns", "admin", "api"].map(|name| listeners[name]);
        daemon.wait_for("readiness", |_| {
            (get(admin, "/readyz").0 == 200).then_some(())
        });
        Self {
            _daemon: daemon,
            dns,
            admin,
            api,
            _folder: folder,
        }
    }

    /// A metric's value.
    pub fn metric(&self, name_and_labels: &str) -> u64 {
        let (_, page) = get(self.admin, "/metrics");
        let value = page
            .lines()
            .find_map(|line| line.strip_prefix(name_and_labels)?.strip_prefix(' '));
        let value = value.unwrap_or_else(|| panic!("no {name_and_labels} in:\n{page}"));
        value.parse().unwrap()
    }
}

/// Finds the addresses that the log names.
fn listeners(log: &str) -> BTreeMap<String, SocketAddr> {
    let lines = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let listening = lines.filter(|line| line["fields"]["message"] == "Listening");
    let listener = |line: Value| {
        let field = |name: &str| line["fields"][name].as_str().unwrap().to_owned();
        (field("listener"), field("address").parse().unwrap())
    };
    listening.map(listener).collect()
}

/// Asks an HTTP server for a page: its status and its text.
fn get(server: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}
