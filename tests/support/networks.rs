//! Network namespaces of a test's own. Nothing of them is seen from outside, no file of the machine is touched, and the
//! kernel takes them away with the last process in them, however that ends.

use std::fs;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use anyhow::{Context, Result, anyhow};
use nix::sched::{CloneFlags, setns, unshare};

use crate::commands::{command, tool};
use crate::process::finish;

/// A network namespace.
pub struct Network {
    /// A process that does nothing but be in it; none: the one of the thread.
    holder: Option<Child>,
}

/// What a program finds in place of the machine's files.
#[derive(Clone, Default)]
pub struct Files {
    /// Files or folders, and where they are seen.
    pub bound: Vec<(PathBuf, PathBuf)>,
}

/// Runs a test in a thread whose network namespace is new and has nothing but loopback. What the thread starts is in
/// there too, and ends with it.
pub fn in_a_network_of_its_own<T: Send>(test: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET)
                .unwrap_or_else(|error| panic!("a network namespace wants root: {error}"));
            let network = Network::of_this_thread();
            network.ip("link set lo up").unwrap();
            test()
        });
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

// === impl Network ===

impl Network {
    /// The one that [`in_a_network_of_its_own`] made.
    pub fn of_this_thread() -> Self {
        Self { holder: None }
    }

    /// One more, with loopback.
    pub fn new() -> Result<Self> {
        let mut holder = command(tool("setpriv")?);
        holder.args(["--pdeathsig", "KILL", "--", "unshare", "--net", "--"]);
        holder.args(["sleep", "infinity"]).stdin(Stdio::null());
        let mut network = Self {
            holder: Some(holder.spawn()?),
        };
        network.wait_until_it_is_new()?;
        network.ip("link set lo up")?;
        Ok(network)
    }

    /// Does something in a thread that is in it, a network with a process of its own. Sockets stay where they were opened.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let holder = self.holder.as_ref();
        let holder = holder.context("the thread is in this network already")?;
        let network = fs::File::open(format!("/proc/{}/ns/net", holder.id()))?;
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                setns(network, CloneFlags::CLONE_NEWNET)?;
                Ok(work())
            });
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// A command that runs in it, with other files than the machine's, and dies with the thread that starts it.
    pub fn command(&self, program: &Path, files: &Files) -> Result<Command> {
        let mut command = command(tool("setpriv")?);
        command.args(["--pdeathsig", "KILL", "--"]);
        if let Some(holder) = &self.holder {
            command.arg("nsenter");
            command.arg(format!("--net=/proc/{}/ns/net", holder.id()));
            command.arg("--");
        }
        if !files.bound.is_empty() {
            // Its own view of the mounts, in which nothing reaches the machine's.
            command.args(["unshare", "--mount", "--", "sh", "-c", BIND, "sh"]);
            command.arg(files.bound.len().to_string());
            for (file, place) in &files.bound {
                command.arg(file).arg(place);
            }
        }
        command.arg(program);
        Ok(command)
    }

    /// Runs a program in it to its end; returns what it printed.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let mut command = self.command(&tool(program)?, &Files::default())?;
        finish(command.args(arguments))
    }

    /// `ip` in it, with words separated by spaces.
    pub fn ip(&self, arguments: &str) -> Result<()> {
        let words: Vec<&str> = arguments.split_whitespace().collect();
        self.run("ip", &words).map(drop)
    }

    /// `nft` in it, with the text of a ruleset.
    pub fn nft(&self, ruleset: &str) -> Result<()> {
        self.run("nft", &[ruleset]).map(drop)
    }

    /// Lays a cable between this one and another: the names of its ends.
    pub fn connect(&self, end: &str, other: &Self, other_end: &str) -> Result<()> {
        let holder = other.holder.as_ref();
        let holder = holder.context("a cable goes to a network with a process of its own")?;
        self.ip(&format!(
            "link add {end} type veth peer name {other_end} netns {}",
            holder.id()
        ))
    }

    fn wait_until_it_is_new(&mut self) -> Result<()> {
        let own = fs::read_link("/proc/thread-self/ns/net")?;
        let holder = self.holder.as_mut().context("it has no process")?;
        let theirs = PathBuf::from(format!("/proc/{}/ns/net", holder.id()));
        loop {
            if let Some(status) = holder.try_wait()? {
                return Err(anyhow!("a network namespace wants root: {status}"));
            }
            if fs::read_link(&theirs)? != own {
                return Ok(());
            }
            thread::yield_now();
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if let Some(holder) = &mut self.holder {
            // Both fail only if it has ended already.
            let _ = holder.kill();
            let _ = holder.wait();
        }
    }
}

/// Binds files over places, then becomes the program: COUNT, FILE and PLACE as often, PROGRAM and its arguments.
const BIND: &str = r#"
    count=$1 && shift || exit
    while [ "$count" -gt 0 ]; do
        mount --bind "$1" "$2" && shift 2 && count=$((count - 1)) || exit
    done
    exec "$@"
"#;
