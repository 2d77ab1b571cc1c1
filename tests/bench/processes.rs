//! What child processes take: programs held to cores, their CPU time and peaks of memory as Linux tells them, a share of a core.

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

/// The core that servers are held to.
pub(crate) const SERVER: &str = "0";
/// The core that the load comes from.
pub(crate) const LOAD: &str = "1";
/// Both, where something else is measured than load.
pub(crate) const ANY: &str = "0,1";
/// What `/proc` counts time in: 100 in a second, whatever the kernel is built with.
const TICK: Duration = Duration::from_millis(10);
/// A program held to a core, or some. The kernel ends it when the benchmark ends, however that happens.
///
/// # Errors
///
/// If a program is not installed.
pub(crate) fn command(program: impl AsRef<OsStr>, cores: &str) -> Result<Command> {
    let program = program.as_ref();
    let program = match Path::new(program).is_absolute() {
        true => PathBuf::from(program),
        false => tool(&program.to_string_lossy())?,
    };
    let mut command = commands::command(tool("setpriv")?);
    command.args(["--pdeathsig", "TERM", "--"]);
    command.arg(tool("taskset")?).arg("-c").arg(cores);
    command.arg(program);
    Ok(command)
}

/// The same, ahead of all that is not in a hurry: a client that measures time must not wait for a core itself.
///
/// # Errors
///
/// If a program is not installed.
pub(crate) fn real_time_command(program: impl AsRef<OsStr>, cores: &str) -> Result<Command> {
    let mut command = command(tool("chrt")?, cores)?;
    command.args(["-f", "1"]).arg(program);
    Ok(command)
}

/// Starts a program that ends its own children, as NSD has them.
///
/// # Errors
///
/// If it cannot be started.
pub(crate) fn start(name: &str, command: Command) -> Result<Process> {
    Ok(Process::start(name, command)?.with_children())
}

/// Waits until a page says 200.
///
/// # Errors
///
/// If the process ends, or that takes a long time.
pub(crate) fn wait_until_ready(
    process: &mut Process,
    (server, page): (SocketAddr, &str),
) -> Result<()> {
    process.wait_for("readiness", |_| {
        let page = get(server, page).ok()?;
        (page.status == 200).then_some(())
    })
}

/// CPU time of a process and all below it, which live as long as it does.
///
/// # Errors
///
/// If the process has ended.
pub(crate) fn cpu_time(process: &Process) -> Result<Duration> {
    let ticks: u32 = family(process)?.iter().map(|(_, stat)| stat.ticks).sum();
    Ok(TICK * ticks)
}

/// A process and all below it.
fn family(process: &Process) -> Result<Vec<(u32, Stat)>> {
    let mut all = all_processes()?;
    let mut family = Vec::new();
    let mut open = vec![process.id()];
    while let Some(id) = open.pop() {
        let stat = all.remove(&id);
        let stat = stat.with_context(|| format!("it has ended; {}", process.last_words()))?;
        family.push((id, stat));
        let children = all.iter().filter(|(_, stat)| stat.parent == id);
        open.extend(children.map(|(child, _)| child));
    }
    Ok(family)
}

/// Makes `VmHWM` what `VmRSS` is now.
///
/// # Errors
///
/// If the process has ended.
pub(crate) fn forget_peak(process: &Process) -> Result<()> {
    let file = process.proc("clear_refs");
    fs::write(&file, "5").with_context(|| format!("writing {}", file.display()))
}

/// A control group that holds processes to a share of a core's time. It goes when it is dropped, after its processes.
#[derive(Debug)]
pub(crate) struct Quota {
    group: PathBuf,
}

// === impl Quota ===

impl Quota {
    /// Makes a group that runs for `share` milliseconds of every hundred: `cpu.max`, or what it was called before
    /// version 2 of control groups.
    ///
    /// # Errors
    ///
    /// If the system has no control groups for this, or this user may not make one.
    pub(crate) fn new(server: &str, share: u32) -> Result<Self> {
        let root = Path::new("/sys/fs/cgroup");
        let controllers = fs::read_to_string(root.join("cgroup.controllers"));
        let is_second = controllers.is_ok_and(|names| names.split_whitespace().any(|n| n == "cpu"));
        let name = format!("global-dns-bench-{}-{server}", std::process::id());
        let group = match is_second {
            true => root.join(name),
            false => root.join("cpu").join(name),
        };
        fs::create_dir(&group).with_context(|| format!("making {}", group.display()))?;
        let quota = Self { group };
        match is_second {
            true => quota.set("cpu.max", &format!("{share}000 100000"))?,
            false => {
                quota.set("cpu.cfs_period_us", "100000")?;
                quota.set("cpu.cfs_quota_us", &format!("{share}000"))?;
            }
        }
        Ok(quota)
    }

    /// Holds a process and all below it, with all their threads.
    ///
    /// # Errors
    ///
    /// If the process has ended.
    pub(crate) fn hold(&self, process: &Process) -> Result<()> {
        let family = family(process)?;
        family
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
        let _ = fs::remove_dir(&self.group); // refused while a process is in it, which then tells where it is
    }
}

// === /proc ===

/// What is read of `/proc/PID/stat`.
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
        // One that is gone by now is none of ours.
        let text = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        if let Some(stat) = Stat::read(&text) {
            all.insert(id, stat);
        }
    }
    Ok(all)
}

// === impl Stat ===

impl Stat {
    /// The program's name stands in parentheses, and may hold spaces and parentheses itself.
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
