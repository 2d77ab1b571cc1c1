//! Metrics of the process, with the names that all client libraries of Prometheus share: `process_cpu_seconds_total`, …
//!
//! They are read from `/proc/self` for each scrape. If a file cannot be read, its metrics are left out.

use std::sync::LazyLock;

use procfs::process::{LimitValue, Process};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// Start of this process in Unix seconds. It is computed once, because the kernel's boot time moves with the clock, and
/// a changed start means a restart.
static START_TIME: LazyLock<Option<f64>> = LazyLock::new(|| {
    let after_boot = Process::myself().and_then(|process| process.stat()).ok()?;
    let boot = procfs::boot_time_secs().ok()?;
    Some(boot as f64 + seconds(after_boot.starttime))
});

/// Adds the metrics of this process. The registry adds the prefix `process`.
pub(super) fn add(registry: &mut Registry) {
    let mut gauge = |name, help, value| registry.register(name, help, ConstGauge::new(value));
    if let Some(start) = *START_TIME {
        let help = "Start time of the process, in Unix seconds";
        gauge("start_time_seconds", help, start);
    }
    let Ok(process) = Process::myself() else {
        return;
    };
    if let Ok(open) = process.fd_count() {
        gauge("open_fds", "Open file descriptors", open as f64);
    }
    if let Ok(limits) = process.limits() {
        let limit = match limits.max_open_files.soft_limit {
            LimitValue::Value(limit) => limit,
            LimitValue::Unlimited => u64::MAX,
        };
        let help = "Maximum number of open file descriptors";
        gauge("max_fds", help, limit as f64);
    }
    if let Ok(stat) = process.stat() {
        let resident = stat.rss * procfs::page_size();
        let help = "Resident memory, in bytes";
        gauge("resident_memory_bytes", help, resident as f64);
        let help = "Virtual memory, in bytes";
        gauge("virtual_memory_bytes", help, stat.vsize as f64);
        gauge("threads", "Threads of the process", stat.num_threads as f64);
        let cpu = ConstCounter::new(seconds(stat.utime + stat.stime));
        let help = "User and system CPU time, in seconds";
        registry.register("cpu_seconds", help, cpu);
    }
}

/// Converts clock ticks of the kernel into seconds.
fn seconds(ticks: u64) -> f64 {
    ticks as f64 / procfs::ticks_per_second() as f64
}
