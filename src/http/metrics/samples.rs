//! The samples of a metric at the time of a scrape.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::{MetricType, TypedMetric};

use crate::histogram::{BOUNDS, Histogram};

/// The name and the value of a label.
pub(super) type Label = (&'static str, Cow<'static, str>);

/// One value for each set of labels, in this order.
#[derive(Debug)]
pub(super) struct Samples<const N: usize, M>(Vec<([Label; N], M)>);

/// Numbers of durations by bucket.
#[derive(Debug)]
pub(super) struct Durations {
    /// The sum of all durations in seconds.
    sum: f64,
    /// The upper bounds in seconds, each with the number of durations that the bound before does not hold.
    buckets: Vec<(f64, u64)>,
}

/// Makes counters.
pub(super) fn counters<const N: usize>(
    values: impl IntoIterator<Item = ([Label; N], u64)>,
) -> Samples<N, ConstCounter<u64>> {
    let values = values
        .into_iter()
        .map(|(labels, value)| (labels, ConstCounter::new(value)));
    Samples(values.collect())
}

/// Makes gauges.
pub(super) fn gauges<const N: usize>(
    values: impl IntoIterator<Item = ([Label; N], f64)>,
) -> Samples<N, ConstGauge<f64>> {
    let values = values
        .into_iter()
        .map(|(labels, value)| (labels, ConstGauge::new(value)));
    Samples(values.collect())
}

// === impl Samples ===

impl<const N: usize, M: EncodeMetric + TypedMetric> EncodeMetric for Samples<N, M> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|(labels, value)| value.encode(encoder.encode_family(labels)?))
    }

    fn metric_type(&self) -> MetricType {
        M::TYPE
    }
}

// === impl Durations ===

impl Durations {
    /// Reads a histogram, or the sum of several ones. `read` returns the value of one of its counters.
    pub(super) fn new(read: impl Fn(&dyn Fn(&Histogram) -> &AtomicU64) -> u64) -> Self {
        let bounds = BOUNDS
            .iter()
            .map(|bound| *bound as f64 / 1e6)
            .chain([f64::INFINITY])
            .enumerate();
        let buckets = bounds.map(|(index, bound)| (bound, read(&|one| &one.buckets[index])));
        Self {
            buckets: buckets.collect(),
            sum: read(&|one| &one.nanoseconds) as f64 / 1e9,
        }
    }
}

impl EncodeMetric for Durations {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let total = self.buckets.iter().map(|(_, count)| count).sum();
        encoder.encode_histogram::<NoLabelSet>(self.sum, total, &self.buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}
