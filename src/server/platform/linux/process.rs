//! Figures of the process from `/proc/self`.

use std::sync::LazyLock;

use nix::sys::resource::{Resource, getrlimit};
use procfs::process::{Process, Stat};

use crate::server::platform::Figure;

/// Returns what this process uses, or nothing if it cannot be read.
pub(crate) fn process_usage() -> Vec<Figure> {
    figures().unwrap_or_default()
}

fn figures() -> Option<Vec<Figure>> {
    let process = Process::myself().ok()?;
    let stat = process.stat().ok()?;
    let open = process.fd_count().ok()?;
    let (limit, _) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    let resident = stat.rss * procfs::page_size();
    let help = "User and system CPU time, in seconds";
    let cpu = ("cpu_seconds", help, seconds(stat.utime + stat.stime));
    let help = "Start time of the process, in Unix seconds";
    let start = ("start_time_seconds", help, start_time(&stat)?);
    let gauges = [
        (
            "resident_memory_bytes",
            "Resident memory, in bytes",
            resident,
        ),
        (
            "virtual_memory_bytes",
            "Virtual memory, in bytes",
            stat.vsize,
        ),
        ("threads", "Threads of the process", stat.num_threads as u64),
        ("open_fds", "Open file descriptors", open as u64),
        ("max_fds", "Maximum number of open file descriptors", limit),
    ];
    let gauges = gauges.map(|(name, help, value)| (name, help, value as f64));
    Some([cpu, start].into_iter().chain(gauges).collect())
}

/// Returns the start of this process in Unix seconds. It is computed once, because the kernel's boot time moves with the clock, and
/// a changed start means a restart.
fn start_time(stat: &Stat) -> Option<f64> {
    static BOOT: LazyLock<Option<u64>> = LazyLock::new(|| procfs::boot_time_secs().ok());
    BOOT.map(|boot| boot as f64 + seconds(stat.starttime))
}

/// Converts clock ticks of the kernel into seconds.
fn seconds(ticks: u64) -> f64 {
    ticks as f64 / procfs::ticks_per_second() as f64
}
