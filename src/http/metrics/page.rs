//! Writes single metrics.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// The metrics page.
pub(super) struct Page<'p, 'e>(pub(super) &'p mut DescriptorEncoder<'e>);

// === impl Page ===

impl Page<'_, '_> {
    /// Writes a counter without labels. `_total` is added to the name.
    pub(super) fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let metric = self
            .0
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(metric)
    }

    /// Writes a gauge without labels.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        let metric = self
            .0
            .encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(value).encode(metric)
    }

    /// Writes a counter with one value for each set of labels. `_total` is added to the name.
    pub(super) fn counters<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let mut family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        values.into_iter().try_for_each(|(labels, value)| {
            ConstCounter::new(value).encode(family.encode_family(&labels)?)
        })
    }

    /// Writes a histogram of durations. `_seconds` is added to the name. `bounds` are in microseconds; `count` returns the
    /// number in a bucket, and above the last one.
    pub(super) fn histogram(
        &mut self,
        name: &str,
        help: &str,
        bounds: &[u64],
        count: impl Fn(usize) -> u64,
        nanoseconds: u64,
    ) -> fmt::Result {
        let bounds = bounds
            .iter()
            .map(|bound| *bound as f64 / 1e6)
            .chain([f64::INFINITY])
            .enumerate();
        let buckets: Vec<(f64, u64)> = bounds.map(|(index, bound)| (bound, count(index))).collect();
        let total = buckets.iter().map(|(_, count)| count).sum();
        let unit = Some(&Unit::Seconds);
        let mut metric = self
            .0
            .encode_descriptor(name, help, unit, MetricType::Histogram)?;
        let sum = nanoseconds as f64 / 1e9;
        metric.encode_histogram::<[(&str, &str); 0]>(sum, total, &buckets, None)
    }

    /// Writes a gauge with one value for each set of labels.
    pub(super) fn gauges<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (L, f64)>,
    ) -> fmt::Result {
        let mut family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Gauge)?;
        values.into_iter().try_for_each(|(labels, value)| {
            ConstGauge::new(value).encode(family.encode_family(&labels)?)
        })
    }
}
