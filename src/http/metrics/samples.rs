//! The samples of a metric at the time of a scrape.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::{Metric, Registry, Unit};

use crate::histogram::{BOUNDS, Histogram};

/// The metrics of one scrape, with a prefix.
pub(super) struct Scrape<'r>(&'r mut Registry);

/// The name and the value of a label.
type Label = (&'static str, Cow<'static, str>);

/// One value for each set of labels, in this order.
#[derive(Debug)]
struct Samples<M>(Vec<(Vec<Label>, M)>);

/// Numbers of durations by bucket.
#[derive(Debug)]
pub(super) struct Durations {
    /// The sum of all durations in seconds.
    sum: f64,
    /// The upper bounds in seconds, each with the number of durations that the bound before does not hold.
    buckets: Vec<(f64, u64)>,
}

// === impl Scrape ===

impl<'r> Scrape<'r> {
    pub(super) fn new(registry: &'r mut Registry, prefix: &str) -> Self {
        Self(registry.sub_registry_with_prefix(prefix))
    }

    /// Adds a counter.
    pub(super) fn counter<C>(&mut self, name: &str, help: &str, value: C)
    where
        ConstCounter<C>: Metric,
    {
        self.0.register(name, help, ConstCounter::new(value));
    }

    /// Adds a gauge.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.0.register(name, help, ConstGauge::new(value));
    }

    /// Adds a histogram of seconds.
    pub(super) fn durations(&mut self, name: &str, help: &str, durations: Durations) {
        self.0
            .register_with_unit(name, help, Unit::Seconds, durations);
    }

    /// Adds a counter with a value for each set of labels.
    pub(super) fn counters<const N: usize, L: Into<Cow<'static, str>>>(
        &mut self,
        name: &str,
        help: &str,
        labels: [&'static str; N],
        counts: impl IntoIterator<Item = ([L; N], u64)>,
    ) {
        let counts = counts.into_iter();
        let samples =
            counts.map(|(values, count)| (named(labels, values), ConstCounter::new(count)));
        self.0.register(name, help, Samples(samples.collect()));
    }

    /// Adds a gauge with a number for each set of labels.
    pub(super) fn gauges<const N: usize, L: Into<Cow<'static, str>>>(
        &mut self,
        name: &str,
        help: &str,
        labels: [&'static str; N],
        numbers: impl IntoIterator<Item = ([L; N], u32)>,
    ) {
        let numbers = numbers.into_iter();
        let samples = numbers
            .map(|(values, number)| (named(labels, values), ConstGauge::new(f64::from(number))));
        self.0.register(name, help, Samples(samples.collect()));
    }
}

/// Gives the values of labels their names.
fn named<const N: usize, L: Into<Cow<'static, str>>>(
    names: [&'static str; N],
    values: [L; N],
) -> Vec<Label> {
    names.into_iter().zip(values.map(Into::into)).collect()
}

// === impl Samples ===

impl<M: EncodeMetric + TypedMetric> EncodeMetric for Samples<M> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for (labels, value) in &self.0 {
            value.encode(encoder.encode_family(labels)?)?;
        }
        Ok(())
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
