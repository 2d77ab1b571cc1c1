//! Child processes: started on a core of their own, ended with this one, their CPU time and memory as Linux tells them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::support::environment::clean;
use crate::support::http::get;
use crate::support::signal::signal;
use crate::support::tools::find;

/// The core that servers are held to.
pub(crate) const SERVER: &str = "0";
/// The core that the load comes from.
pub(crate) const LOAD: &str = "1";
/// Both, where something else is measured than load.
pub(crate) const ANY: &str = "0,1";
/// What `/proc` counts time in: 100 in a second, whatever the kernel is built with.
const TICK: Duration = Duration::from_millis(10);
/// How long anything may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program that runs until it is dropped, with everything that it says in a file.
#[derive(Debug)]
pub(crate) struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

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
    let mut command = Command::new(tool("setpriv")?);
    command.args(["--pdeathsig", "TERM", "--"]);
    command.arg(tool("taskset")?).arg("-c").arg(cores);
    command.arg(program);
    Ok(clean(command))
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

fn tool(name: &str) -> Result<PathBuf> {
    find(name).with_context(|| format!("{name} is not installed: tests/bench/run installs it"))
}

/// Runs a program to its end, and returns what it printed.
///
/// # Errors
///
/// If it fails, with all that it said.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("starting {command:?}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let stdout = String::from_utf8(output.stdout)?;
    ensure!(output.status.success(), "{command:?}: {stdout}\n{stderr}");
    Ok(stdout)
}

// === impl Process ===

impl Process {
    /// Starts it; `folder` takes its log.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub(crate) fn start(name: &'static str, mut command: Command, folder: &Path) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let file = File::create(&log)?;
        command.stdin(Stdio::null());
        command.stdout(file.try_clone()?).stderr(file);
        let child = command.spawn();
        let child = child.with_context(|| format!("starting {name}: {command:?}"))?;
        Ok(Self { name, child, log })
    }

    /// Waits for something.
    ///
    /// # Errors
    ///
    /// If the process ends, or nothing comes for a long time.
    pub(crate) fn wait_for<T>(
        &mut self,
        what: &str,
        mut attempt: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(value) = attempt() {
                return Ok(value);
            }
            let name = self.name;
            if let Some(status) = self.child.try_wait()? {
                bail!("{name} ended, {status}: {}", self.log());
            }
            if Instant::now() > deadline {
                bail!("{name}: waited {PATIENCE:?} for {what}: {}", self.log());
            }
            thread::sleep(Duration::from_millis(2)); // short: the time to ready is measured
        }
    }

    /// Waits until a page says 200.
    ///
    /// # Errors
    ///
    /// If the process ends, or that takes a long time.
    pub(crate) fn wait_until_ready(&mut self, (server, page): (SocketAddr, &str)) -> Result<()> {
        self.wait_for("readiness", || {
            let page = get(server, page).ok()?;
            (page.status == 200).then_some(())
        })
    }

    /// Everything that it said so far.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// CPU time of the process and all below it, which live as long as it does.
    ///
    /// # Errors
    ///
    /// If the process has ended.
    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        let ticks: u32 = self.family()?.iter().map(|(_, stat)| stat.ticks).sum();
        Ok(TICK * ticks)
    }

    /// The process and all below it.
    fn family(&self) -> Result<Vec<(u32, Stat)>> {
        let mut all = all_processes()?;
        let mut family = Vec::new();
        let mut open = vec![self.child.id()];
        while let Some(id) = open.pop() {
            let stat = all.remove(&id);
            let stat = stat.with_context(|| format!("{} has ended: {}", self.name, self.log()))?;
            family.push((id, stat));
            let children = all.iter().filter(|(_, stat)| stat.parent == id);
            open.extend(children.map(|(child, _)| child));
        }
        Ok(family)
    }

    /// A line of `/proc/PID/status` in KiB: `VmRSS`, `VmHWM`.
    ///
    /// # Errors
    ///
    /// If the process has ended.
    pub(crate) fn memory(&self, line: &str) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let value = status.lines().find_map(|text| {
            let rest = text.strip_prefix(line)?.strip_prefix(':')?;
            rest.trim().strip_suffix(" kB")?.parse().ok()
        });
        value.with_context(|| format!("{} has no {line}: {}", self.name, self.log()))
    }

    /// Makes `VmHWM` what `VmRSS` is now.
    ///
    /// # Errors
    ///
    /// If the process has ended.
    pub(crate) fn forget_peak(&self) -> Result<()> {
        let file = format!("/proc/{}/clear_refs", self.child.id());
        fs::write(&file, "5").with_context(|| format!("writing {file}"))
    }
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
        let family = process.family()?;
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

impl Drop for Process {
    fn drop(&mut self) {
        // Asked kindly first: NSD has children, which it ends.
        let asked = signal(&self.child, "TERM");
        let deadline = Instant::now() + Duration::from_secs(10);
        while asked.is_ok() && Instant::now() < deadline {
            if let Ok(Some(_)) = self.child.try_wait() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill(); // it may have ended by now
        let _ = self.child.wait();
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
