//! A running server: its process, its addresses, its log.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde_json::Value;

use super::http::get;
use super::wait::{wait_for, wait_for_ok};

/// `global-dns serve --log-format json`, running; killed when dropped.
pub struct Running {
    pub child: Child,
    pub log: Log,
    listeners: BTreeMap<String, SocketAddr>,
}

/// What a process has written to stderr, as it comes in.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<String>>>);

// === impl Running ===

impl Running {
    /// Starts a command that logs like `serve --log-format json`, and waits until its listeners are open.
    pub fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let log = Log::default();
        log.follow(child.stderr.take().unwrap());
        let mut running = Self {
            child,
            log,
            listeners: BTreeMap::new(),
        };
        wait_for("the listeners", || {
            running.listeners = running.log.listeners();
            assert!(!running.has_ended(), "global-dns ended at once");
            // Encrypted ones, where there are, are opened before these.
            let always = ["dns", "admin", "api"];
            let is_open = |name| running.listeners.contains_key(name);
            always.into_iter().all(is_open).then_some(())
        });
        running
    }

    /// Waits until `/readyz` says so.
    pub fn wait_until_ready(&self) {
        let admin = self.address("admin");
        wait_for_ok("readiness", || match get(admin, "/readyz") {
            Ok(page) if page.status == 200 => Ok(()),
            Ok(page) => Err(format!("{} {}", page.status, page.body)),
            Err(error) => Err(error.to_string()),
        });
    }

    /// Where a listener is: `dns`, `admin`, `api`; `tls` and `https` if there are.
    pub fn address(&self, listener: &str) -> SocketAddr {
        self.listeners[listener]
    }

    /// Whether it has ended by now.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the end of the log of global-dns:\n{}", self.log.end());
        }
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// === impl Log ===

impl Log {
    /// Keeps every line.
    fn follow(&self, from: impl Read + Send + 'static) {
        let log = self.clone();
        thread::spawn(move || {
            let lines = BufReader::new(from).lines();
            for line in lines.map_while(Result::ok) {
                let mut lines = log.0.lock().unwrap_or_else(PoisonError::into_inner);
                lines.push(line);
            }
        });
    }

    /// Every line so far.
    pub fn lines(&self) -> Vec<String> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.clone()
    }

    /// Every line so far, read; one that is no JSON is a text.
    pub fn events(&self) -> Vec<Value> {
        let lines = self.lines().into_iter();
        let event = |line: String| serde_json::from_str(&line).unwrap_or(Value::String(line));
        lines.map(event).collect()
    }

    /// The last lines, for a failure.
    pub fn end(&self) -> String {
        let lines = self.lines();
        let last = &lines[lines.len().saturating_sub(12)..];
        format!("    {}", last.join("\n    "))
    }

    /// Finds the addresses that it names.
    fn listeners(&self) -> BTreeMap<String, SocketAddr> {
        let events = self.events().into_iter();
        let listener = |event: Value| {
            let fields = &event["fields"];
            (fields["message"] == "Listening").then(|| {
                let field = |name: &str| fields[name].as_str().unwrap().to_owned();
                (field("listener"), field("address").parse().unwrap())
            })
        };
        events.filter_map(listener).collect()
    }
}
