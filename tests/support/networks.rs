//! Network namespaces for tests. They are invisible from outside and change no file of the machine. The kernel removes
//! each one when its last process ends.

use std::fs;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context, Result};
use nix::sched::{CloneFlags, setns, unshare};

use crate::commands::{command, tool};
use crate::process::{Process, run_checked};

/// A network namespace.
pub struct Network {
    /// An idle process in the namespace. `None`: the namespace of the current thread.
    holder: Option<Process>,
}

/// Bind mounts that replace files of the machine.
#[derive(Clone, Default)]
pub struct Files {
    /// Pairs of a file or folder and its mount point.
    pub bound: Vec<(PathBuf, PathBuf)>,
}

/// Runs a test in a thread with a new network namespace that contains only loopback. Processes that the thread starts
/// run in the same namespace and end with the thread.
pub fn in_new_network<T: Send>(test: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET)
                .unwrap_or_else(|error| panic!("network namespaces require root: {error}"));
            let network = Network::of_this_thread();
            network.ip("link set lo up").unwrap();
            test()
        });
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

// === impl Network ===

impl Network {
    /// Returns the namespace that [`in_new_network`] created.
    pub fn of_this_thread() -> Self {
        Self { holder: None }
    }

    /// Creates another namespace with loopback.
    pub fn new() -> Result<Self> {
        let mut holder = command(tool("setpriv")?);
        holder.args(["--pdeathsig", "KILL", "--", "unshare", "--net", "--"]);
        holder.args(["sleep", "infinity"]);
        let mut holder = Process::start("the network namespace", holder)?;
        wait_for_namespace(&mut holder)?;
        let network = Self {
            holder: Some(holder),
        };
        network.ip("link set lo up")?;
        Ok(network)
    }

    /// Runs a function in a thread inside the namespace, which must have its own process. Sockets stay in the namespace
    /// in which they were opened.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let network = self.file()?;
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                setns(network, CloneFlags::CLONE_NEWNET)?;
                Ok(work())
            });
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    fn file(&self) -> Result<fs::File> {
        let holder = self.holder.as_ref();
        let holder = holder.context("the thread is already in this network")?;
        Ok(fs::File::open(format!("/proc/{}/ns/net", holder.id()))?)
    }

    /// Returns a command that runs in the namespace with bind mounts and ends with the thread that starts it.
    pub fn command(&self, program: &Path, files: &Files) -> Result<Command> {
        let mut command = command(tool("setpriv")?);
        command.args(["--pdeathsig", "KILL", "--"]);
        if let Some(holder) = &self.holder {
            command.arg("nsenter");
            command.arg(format!("--net=/proc/{}/ns/net", holder.id()));
            command.arg("--");
        }
        if !files.bound.is_empty() {
            // A private mount namespace: the machine does not see these mounts.
            command.args(["unshare", "--mount", "--", "sh", "-c", BIND, "sh"]);
            command.arg(files.bound.len().to_string());
            for (file, place) in &files.bound {
                command.arg(file).arg(place);
            }
        }
        command.arg(program);
        Ok(command)
    }

    /// Runs a program in the namespace to its end. Returns its output.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let mut command = self.command(&tool(program)?, &Files::default())?;
        run_checked(command.args(arguments))
    }

    /// Runs `ip` in the namespace. Spaces separate the arguments.
    pub fn ip(&self, arguments: &str) -> Result<()> {
        let words: Vec<&str> = arguments.split_whitespace().collect();
        self.run("ip", &words).map(drop)
    }

    /// Runs `nft` in the namespace with a ruleset.
    pub fn nft(&self, ruleset: &str) -> Result<()> {
        self.run("nft", &[ruleset]).map(drop)
    }

    /// Connects this namespace and another one by a veth pair with the given interface names.
    pub fn connect(&self, end: &str, other: &Self, other_end: &str) -> Result<()> {
        let holder = other.holder.as_ref();
        let holder = holder.context("the other network has no process of its own")?;
        self.ip(&format!(
            "link add {end} type veth peer name {other_end} netns {}",
            holder.id()
        ))
    }
}

/// Waits until a process has its own namespace.
fn wait_for_namespace(holder: &mut Process) -> Result<()> {
    let own = fs::read_link("/proc/thread-self/ns/net")?;
    let theirs = holder.proc("ns/net");
    let entered = holder.wait_for("network", |_| {
        let has_entered = fs::read_link(&theirs).is_ok_and(|namespace| namespace != own);
        has_entered.then_some(())
    });
    entered.context("network namespaces require root")
}

/// Script that mounts files and then executes a program. Arguments: COUNT, COUNT pairs of FILE and MOUNT POINT, PROGRAM
/// and its arguments.
const BIND: &str = r#"
    count=$1 && shift || exit
    while [ "$count" -gt 0 ]; do
        mount --bind "$1" "$2" && shift 2 && count=$((count - 1)) || exit
    done
    exec "$@"
"#;
