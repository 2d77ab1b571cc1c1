//! Child processes: programs pinned to cores, their CPU time and peak memory from `/proc`, and CPU quotas.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use support::commands::{self, tool};
use support::http::get;
use support::process::Process;

/// Core of the servers.
pub(crate) const SERVER: &str = "0";
/// Core of the load generator.
pub(crate) const LOAD: &str = "1";
/// Both cores, for measurements without load.
pub(crate) const ANY: &str = "0,1";
/// Unit of CPU time in `/proc`: 100 per second with every kernel configuration.
const TICK: Duration = Duration::from_millis(10);

/// Returns a command for a program pinned to cores. The kernel terminates the program when the benchmark ends.
///
/// # Errors
///
/// If a program is not installed.
pub(crate) fn command(program: impl AsRef<OsStr>, cores: &str) -> Result<Command> {
    let program = program.as_ref();
    let program = if Path::new(program).is_absolute() {
        PathBuf::from(program)
    } else {
        tool(&program.to_string_lossy())?
    };
    let mut command = commands::command(tool("setpriv")?);
    command.args(["--pdeathsig", "TERM", "--"]);
    command.arg(tool("taskset")?).arg("-c").arg(cores);
    command.arg(program);
    Ok(command)
}

/// The same with real-time priority, because a client that measures time must not wait for a core.
///
/// # Errors
///
/// If a program is not installed.
pub(crate) fn real_time_command(program: impl AsRef<OsStr>, cores: &str) -> Result<Command> {
    let mut command = command(tool("chrt")?, cores)?;
    command.args(["-f", "1"]).arg(program);
    Ok(command)
}

/// Starts a program that terminates its own child processes, such as NSD.
///
/// # Errors
///
/// If the program cannot be started.
pub(crate) fn start(name: &str, command: Command) -> Result<Process> {
    Ok(Process::start(name, command)?.with_children())
}

/// Waits until a page returns status 200.
///
/// # Errors
///
/// If the process exits, or the wait times out.
pub(crate) fn wait_until_ready(
    process: &mut Process,
    (server, page): (SocketAddr, &str),
) -> Result<()> {
    process.wait_for("readiness", |_| {
        let page = get(server, page).ok()?;
        (page.status == 200).then_some(())
    })
}

/// Returns the CPU time of a process and its descendants, which must all be running.
///
/// # Errors
///
/// If the process has ended.
pub(crate) fn cpu_time(process: &Process) -> Result<Duration> {
    let ticks: u32 = process_tree(process)?
        .iter()
        .map(|(_, stat)| stat.ticks)
        .sum();
    Ok(TICK * ticks)
}

/// Returns a process and its descendants.
fn process_tree(process: &Process) -> Result<Vec<(u32, Stat)>> {
    let mut all = all_processes()?;
    let mut process_tree = Vec::new();
    let mut open = vec![process.id()];
    while let Some(id) = open.pop() {
        let stat = all
            .remove(&id)
            .with_context(|| format!("the process has exited; {}", process.log_tail()))?;
        process_tree.push((id, stat));
        let children = all.iter().filter(|(_, stat)| stat.parent == id);
        open.extend(children.map(|(child, _)| child));
    }
    Ok(process_tree)
}

/// A control group that limits processes to a share of a core. It is removed on drop, after its processes.
#[derive(Debug)]
pub(crate) struct Quota {
    group: PathBuf,
}

// === impl Quota ===

impl Quota {
    /// Creates a group with `share` milliseconds of CPU time in every hundred: with `cpu.max`, or with the equivalent
    /// files of control groups version 1.
    ///
    /// # Errors
    ///
    /// If the system has no such control groups, or the user may not create one.
    pub(crate) fn new(server: &str, share: u32) -> Result<Self> {
        let root = Path::new("/sys/fs/cgroup");
        let controllers = fs::read_to_string(root.join("cgroup.controllers"));
        let is_second = controllers.is_ok_and(|names| names.split_whitespace().any(|n| n == "cpu"));
        let name = format!("global-dns-bench-{}-{server}", std::process::id());
        let group = if is_second {
            root.join(name)
        } else {
            root.join("cpu").join(name)
        };
        fs::create_dir(&group).with_context(|| format!("creating {}", group.display()))?;
        let quota = Self { group };
        if is_second {
            quota.set("cpu.max", &format!("{share}000 100000"))?;
        } else {
            quota.set("cpu.cfs_period_us", "100000")?;
            quota.set("cpu.cfs_quota_us", &format!("{share}000"))?;
        }
        Ok(quota)
    }

    /// Adds a process and its descendants, with all their threads.
    ///
    /// # Errors
    ///
    /// If the process has ended.
    pub(crate) fn add(&self, process: &Process) -> Result<()> {
        let process_tree = process_tree(process)?;
        process_tree
            .iter()
            .try_for_each(|(id, _)| self.set("cgroup.procs", &id.to_string()))
    }

    fn set(&self, file: &str, value: &str) -> Result<()> {
        let file = self.group.join(file);
        fs::write(&file, value).with_context(|| format!("writing {value} to {}", file.display()))
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.group); // fails while the group has a process
    }
}

// === /proc ===

/// Fields of `/proc/PID/stat`.
struct Stat {
    parent: u32,
    /// In user and kernel mode, over all threads.
    ticks: u32,
}

fn all_processes() -> Result<BTreeMap<u32, Stat>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir("/proc")? {
        let Some(id) = entry?
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        // A process that has exited meanwhile is not a descendant.
        let text = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        if let Some(stat) = Stat::read(&text) {
            all.insert(id, stat);
        }
    }
    Ok(all)
}

// === impl Stat ===

impl Stat {
    /// Parses the line. The program's name is in parentheses and may contain spaces and parentheses.
    fn read(text: &str) -> Option<Self> {
        let (_, rest) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect(); // from the third one on
        let number = |field: usize| fields.get(field - 3)?.parse::<u32>().ok();
        Some(Self {
            parent: number(4)?,
            ticks: number(14)? + number(15)?,
        })
    }
}
