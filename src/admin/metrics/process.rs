//! Metrics of the process, with the names that all client libraries of Prometheus share: `process_cpu_seconds_total`, …

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

use super::page::Page;
use crate::server::platform::process_usage;

/// The collector of the metrics of this process. The registry adds the prefix `process`.
#[derive(Debug)]
pub(super) struct ProcessMetrics;

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let usage = process_usage();
        if let Some(seconds) = usage.cpu_seconds {
            let help = "User and system CPU time, in seconds";
            let cpu = encoder.encode_descriptor("cpu_seconds", help, None, MetricType::Counter)?;
            ConstCounter::new(seconds).encode(cpu)?;
        }
        let mut page = Page(&mut encoder);
        let mut gauges = usage.gauges.into_iter();
        gauges.try_for_each(|(name, help, value)| page.gauge(name, help, value))
    }
}
