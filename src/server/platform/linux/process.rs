//! Figures of the process from `/proc/self`.

use std::fs;
use std::sync::LazyLock;

use nix::sys::resource::{Resource, getrlimit};
use rustix::param::{clock_ticks_per_second, page_size};

use crate::server::platform::Figure;

/// Returns what this process uses, or nothing if it cannot be read.
pub(crate) fn process_usage() -> Vec<Figure> {
    figures().unwrap_or_default()
}

fn figures() -> Option<Vec<Figure>> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program, in parentheses, may have any characters.
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    // The numbers are those of proc_pid_stat(5). The state of the process is number 3.
    let field = |number: usize| fields.get(number - 3)?.parse().ok();
    let user = field(14)?;
    let system = field(15)?;
    let threads = field(20)?;
    let start = field(22)?;
    let size = field(23)?;
    let resident = field(24)? * page_size() as u64;
    let open = fs::read_dir("/proc/self/fd").ok()?.count() as u64;
    let (limit, _) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    let help = "User and system CPU time, in seconds";
    let cpu = ("cpu_seconds", help, seconds(user + system));
    let help = "Start time of the process, in Unix seconds";
    let start = ("start_time_seconds", help, start_time(start)?);
    let gauges = [
        (
            "resident_memory_bytes",
            "Resident memory, in bytes",
            resident,
        ),
        ("virtual_memory_bytes", "Virtual memory, in bytes", size),
        ("threads", "Threads of the process", threads),
        ("open_fds", "Open file descriptors", open),
        ("max_fds", "Maximum number of open file descriptors", limit),
    ]
    .map(|(name, help, value)| (name, help, value as f64));
    Some([cpu, start].into_iter().chain(gauges).collect())
}

/// Returns the start of this process in Unix seconds. It is computed once, because the kernel's boot time moves with the clock, and
/// a changed start means a restart.
fn start_time(ticks_after_boot: u64) -> Option<f64> {
    static BOOT: LazyLock<Option<f64>> = LazyLock::new(|| {
        fs::read_to_string("/proc/stat")
            .ok()?
            .lines()
            .find_map(|line| line.strip_prefix("btime "))?
            .parse()
            .ok()
    });
    BOOT.map(|boot| boot + seconds(ticks_after_boot))
}

/// Converts clock ticks of the kernel into seconds.
fn seconds(ticks: u64) -> f64 {
    ticks as f64 / clock_ticks_per_second() as f64
}
