//! All metrics.
//!
//! Counters are atomics that are incremented where the event happens. Gauges of the table are computed once for each
//! table (`facts.rs`), the others for each scrape. Clients cannot choose the values of labels, and tenants only up to a number:
//! the largest clusters and the first failing services have series of their own. The label of a cluster is `remote_cluster`,
//! because `cluster` usually identifies the scraped cluster in a fleet.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::{Metric, Registry, Unit};
use strum::VariantArray;

use super::HttpState;
use crate::clock::unix_milliseconds;
use crate::histogram::{BOUNDS, Histogram};
use crate::model::problem::ROWS;
use crate::model::{ProblemKind, Timestamp};
use crate::server::counters::{Counters, EndReason, TYPES};
use crate::server::platform::process_usage;
use crate::table::Published;
use crate::table::change::ChangeKind;
use crate::view::TableFacts;
use crate::wire::{Rcode, Transport};

/// The name and the value of a label.
type Label = (&'static str, String);

/// One value for each set of labels, in this order.
#[derive(Debug)]
struct Samples<M>(Vec<(Vec<Label>, M)>);

/// Numbers of durations by bucket.
#[derive(Debug)]
struct Durations {
    /// The sum of all durations in seconds.
    sum: f64,
    /// The upper bounds in seconds, each with the number of durations that the bound before does not hold.
    buckets: Vec<(f64, u64)>,
}

impl HttpState {
    /// Writes every metric in the OpenMetrics text format.
    ///
    /// # Errors
    ///
    /// If formatting fails. Writing to a string does not fail.
    pub(super) fn render(&self) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        let own = registry.sub_registry_with_prefix("global_dns");
        self.add_queries(own);
        self.add_durations(own);
        self.add_connections(own);
        let now = Arc::clone(&self.server.reader.load());
        let facts = self.server.facts.of(&self.server.zones, &now);
        self.add_table(own, &now, &facts);
        self.add_content(own, &facts);
        self.add_source(own);
        // All client libraries of Prometheus have these names.
        let process = registry.sub_registry_with_prefix("process");
        for (name, help, value) in process_usage() {
            match name {
                "cpu_seconds" => process.register(name, help, ConstCounter::new(value)),
                _ => process.register(name, help, ConstGauge::new(value)),
            }
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry)?;
        Ok(text)
    }

    /// Adds the counters of queries and replies.
    fn add_queries(&self, registry: &mut Registry) {
        let mut requests = Vec::new();
        let types = TYPES.map(|one| one.to_string());
        for proto in Transport::VARIANTS {
            let types = types.iter().map(String::as_str).chain(["other"]);
            for (index, rtype) in types.enumerate() {
                let count = self
                    .server
                    .counters
                    .sum(|c| &c.requests[*proto as usize][index]);
                requests.push(([proto.into(), rtype], ConstCounter::new(count)));
            }
        }
        add_family(
            registry,
            "requests",
            "Queries received",
            ["proto", "type"],
            requests,
        );
        add_family(
            registry,
            "responses",
            "Replies by response code",
            ["rcode"],
            self.counts(|c, rcode: Rcode| &c.responses[rcode as usize]),
        );
        registry.register(
            "dropped_requests",
            "Messages that were dropped without a reply",
            ConstCounter::new(self.server.counters.sum(|c| &c.dropped)),
        );
        registry.register(
            "unsent_responses",
            "UDP replies that could not be sent",
            ConstCounter::new(self.server.counters.sum(|c| &c.unsent)),
        );
        add_family(
            registry,
            "truncated_responses",
            "Replies with the TC bit set",
            ["proto"],
            self.counts(|c, proto: Transport| &c.truncated[proto as usize]),
        );
        add_family(
            registry,
            "worker_panics",
            "Panics of workers, which are restarted, and of connections, which are closed",
            ["proto"],
            self.counts(|c, proto: Transport| &c.panics[proto as usize]),
        );
    }

    /// Returns the counts of the listeners for each value of a label.
    fn counts<L: VariantArray + Copy + Into<&'static str>>(
        &self,
        count: impl Fn(&Counters, L) -> &AtomicU64,
    ) -> Vec<([&'static str; 1], ConstCounter<u64>)> {
        let mut counts = Vec::new();
        for label in L::VARIANTS {
            let sum = self.server.counters.sum(|c| count(c, *label));
            counts.push(([(*label).into()], ConstCounter::new(sum)));
        }
        counts
    }

    /// Adds the times of replies, and those until changes were published.
    fn add_durations(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "request_duration",
            "Time from receiving a batch of queries to completing all their replies",
            Unit::Seconds,
            Durations::new(|part| self.server.counters.sum(|c| part(&c.durations))),
        );
        let delays = &self.server.feeds.answer_delays;
        registry.register_with_unit(
            "answer_delay",
            "Time from the event of a watch to the published table that has the change",
            Unit::Seconds,
            Durations::new(|part| part(delays).load(Relaxed)),
        );
    }

    /// Adds the connections over TCP and TLS, and the certificate.
    fn add_connections(&self, registry: &mut Registry) {
        registry.register(
            "tcp_connections",
            "Open connections over TCP and TLS",
            ConstGauge::new(self.server.counters.sum(|c| &c.connections) as f64),
        );
        add_family(
            registry,
            "tcp_connections_ended",
            "Ended connections over TCP and TLS by reason",
            ["reason"],
            self.counts(|c, how: EndReason| &c.ended[how as usize]),
        );
        registry.register(
            "tcp_accept_failures",
            "TCP connections that could not be accepted",
            ConstCounter::new(self.server.counters.sum(|c| &c.not_accepted)),
        );
        if let Some(certificate) = &self.server.certificate {
            registry.register(
                "certificate_expiry_timestamp_seconds",
                "Expiry of the current certificate, in Unix seconds",
                ConstGauge::new(certificate.expiry() as f64),
            );
        }
    }

    /// Adds the state of the current table, and the version of the program that has published it.
    fn add_table(&self, registry: &mut Registry, now: &Published, facts: &TableFacts) {
        add_family(
            registry,
            "build_info",
            "Version of this program",
            ["version"],
            [([crate::VERSION], number(1))],
        );
        registry.register(
            "table_ready",
            "1 if the server has loaded its data",
            number(u32::from(now.table.is_some())),
        );
        registry.register(
            "table_generation",
            "Number of the table; increases when the table changes",
            ConstGauge::new(now.generation as f64),
        );
        registry.register(
            "table_hash",
            "Hash of all answers; replicas with equal answers have equal hashes",
            ConstGauge::new(facts.hash as f64), // 53 bits: exact
        );
        let moment = Timestamp(unix_milliseconds());
        let clock = self.server.feeds.clock;
        let at = |moment| self.server.reader.at(clock.of_wall(moment));
        if let Some(hash) = self.server.facts.compared_hash(moment, at) {
            registry.register(
                "compared_table_hash",
                "Hash of all answers at the last multiple of five minutes of the clock; equal in replicas with equal answers", ConstGauge::new(hash as f64),
            );
        }
    }

    /// Adds the numbers of services, endpoints, clusters and problems.
    fn add_content(&self, registry: &mut Registry, facts: &TableFacts) {
        let services = facts.services.iter();
        add_family(
            registry,
            "services",
            "Services in the table by kind",
            ["kind"],
            services.map(|(kind, count)| ([<&str>::from(kind)], number(*count))),
        );
        let endpoints = facts.endpoints.iter();
        add_family(
            registry,
            "endpoints",
            "Endpoints by cluster, state and whether the name of their service returns them",
            ["remote_cluster", "state", "returned"],
            endpoints.map(|(one, count)| {
                let is_returned = if one.is_returned { "true" } else { "false" };
                (
                    [&*one.cluster, one.state.name(), is_returned],
                    number(*count),
                )
            }),
        );
        let clusters = facts.clusters.iter();
        add_family(
            registry,
            "clusters",
            "Clusters of mirrors by the state of their Links",
            ["state"],
            clusters.map(|(state, count)| ([state], number(*count))),
        );
        add_family(
            registry,
            "failing_services",
            "1 for each service that clients cannot reach by its name, with the kind of the problem; at most 100 services",
            ["namespace", "service", "kind"],
            facts.failing.iter().map(|(kind, key)| {
                let [service, namespace] = key.labels();
                (
                    [namespace, service, kind.map_or("", ProblemKind::name)],
                    number(1),
                )
            }),
        );
        let causes = self.server.causes();
        let problems = ROWS.iter();
        add_family(
            registry,
            "problems",
            "Problems by kind and level",
            ["kind", "level"],
            problems.map(|row| {
                (
                    [row.kind.name(), row.level.into()],
                    number(causes.count(row.kind)),
                )
            }),
        );
    }

    /// Adds the state of the source, and the changes of services.
    fn add_source(&self, registry: &mut Registry) {
        let feeds = &self.server.feeds;
        registry.register(
            "table_age_seconds",
            "Seconds since the oldest watch was heard from",
            ConstGauge::new(feeds.age().as_secs_f64()),
        );
        registry.register(
            "source_panics",
            "Panics of the source or the update loop; each is followed by a relist",
            ConstCounter::new(feeds.panics.count()),
        );
        add_family(
            registry,
            "changes",
            "Changes of services by kind",
            ["kind"],
            ChangeKind::VARIANTS.iter().map(|kind| {
                (
                    [<&str>::from(kind)],
                    ConstCounter::new(feeds.events.total(*kind)),
                )
            }),
        );
    }
}

/// Adds a metric with a value for each set of labels.
fn add_family<const N: usize, L: ToString, M>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    labels: [&'static str; N],
    samples: impl IntoIterator<Item = ([L; N], M)>,
) where
    Samples<M>: Metric,
{
    let named = |values: [L; N]| {
        let values = values.map(|value| value.to_string());
        labels.into_iter().zip(values).collect()
    };
    let samples = samples.into_iter();
    let samples = samples.map(|(values, value)| (named(values), value));
    registry.register(name, help, Samples(samples.collect()));
}

/// Returns the number of things of a kind.
fn number(count: u32) -> ConstGauge<f64> {
    ConstGauge::new(f64::from(count))
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
    fn new(read: impl Fn(&dyn Fn(&Histogram) -> &AtomicU64) -> u64) -> Self {
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
