//! Metrics of the process, with the names that all client libraries of Prometheus share: `process_cpu_seconds_total`, …

use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::server::platform::process_usage;

/// Adds the metrics of this process. The registry adds the prefix `process`.
pub(super) fn add(registry: &mut Registry) {
    let usage = process_usage();
    if let Some(seconds) = usage.cpu_seconds {
        let help = "User and system CPU time, in seconds";
        registry.register("cpu_seconds", help, ConstCounter::new(seconds));
    }
    for (name, help, value) in usage.gauges {
        registry.register(name, help, ConstGauge::new(value));
    }
}
