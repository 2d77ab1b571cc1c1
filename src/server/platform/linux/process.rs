//! Figures of the process from `/proc/self`. Those that cannot be read are left out.

use std::sync::LazyLock;

use nix::sys::resource::{Resource, getrlimit};
use procfs::process::Process;

use crate::server::platform::ProcessUsage;

/// Start of this process in Unix seconds. It is computed once, because the kernel's boot time moves with the clock, and
/// a changed start means a restart.
static START_TIME: LazyLock<Option<f64>> = LazyLock::new(|| {
    let after_boot = Process::myself().and_then(|process| process.stat()).ok()?;
    let boot = procfs::boot_time_secs().ok()?;
    Some(boot as f64 + seconds(after_boot.starttime))
});

/// Returns what this process uses.
pub(crate) fn process_usage() -> ProcessUsage {
    let process = Process::myself().ok();
    let stat = process.as_ref().and_then(|process| process.stat().ok());
    let stat = stat.as_ref();
    let open = process.as_ref().and_then(|process| process.fd_count().ok());
    let limit = getrlimit(Resource::RLIMIT_NOFILE).ok();
    let mut gauges = Vec::new();
    let mut gauge = |name, help, value: Option<f64>| {
        gauges.extend(value.map(|value| (name, help, value)));
    };
    let help = "Start time of the process, in Unix seconds";
    gauge("start_time_seconds", help, *START_TIME);
    let resident = stat.map(|stat| (stat.rss * procfs::page_size()) as f64);
    gauge(
        "resident_memory_bytes",
        "Resident memory, in bytes",
        resident,
    );
    let size = stat.map(|stat| stat.vsize as f64);
    gauge("virtual_memory_bytes", "Virtual memory, in bytes", size);
    let threads = stat.map(|stat| stat.num_threads as f64);
    gauge("threads", "Threads of the process", threads);
    let open = open.map(|open| open as f64);
    gauge("open_fds", "Open file descriptors", open);
    let limit = limit.map(|(soft, _)| soft as f64);
    gauge("max_fds", "Maximum number of open file descriptors", limit);
    let cpu_seconds = stat.map(|stat| seconds(stat.utime + stat.stime));
    ProcessUsage {
        cpu_seconds,
        gauges,
    }
}

/// Converts clock ticks of the kernel into seconds.
fn seconds(ticks: u64) -> f64 {
    ticks as f64 / procfs::ticks_per_second() as f64
}
