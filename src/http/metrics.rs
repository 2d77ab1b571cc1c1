//! All metrics.
//!
//! Counters are atomics that are incremented where the event happens. Gauges of the table are computed once for each
//! table (`facts.rs`), the others for each scrape. Clients cannot choose the values of labels, and tenants only up to a number:
//! the largest clusters and the first failing services have series of their own. The label of a cluster is `remote_cluster`,
//! because `cluster` usually identifies the scraped cluster in a fleet.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::{Metric, Registry, Unit};
use strum::VariantArray;

use crate::clock::unix_milliseconds;
use crate::histogram::{BOUNDS, Histogram};
use crate::model::problem::ROWS;
use crate::model::{ProblemKind, Timestamp};
use crate::server::counters::{CounterSet, Counters, EndReason, TYPES};
use crate::server::platform::process_usage;
use crate::table::Published;
use crate::table::change::ChangeKind;
use crate::view::{Server, TableFacts};
use crate::wire::{Rcode, Transport};

/// The sources of the metrics.
#[derive(Clone)]
pub struct Metrics {
    /// The server.
    pub server: Server,
    /// The counters of the listeners.
    pub counters: CounterSet,
}

/// The metrics of one scrape, with a prefix.
struct Scrape<'r>(&'r mut Registry);

/// The name and the value of a label.
type Label = (&'static str, Cow<'static, str>);

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

// === impl Metrics ===

impl Metrics {
    /// Writes every metric in the OpenMetrics text format.
    ///
    /// # Errors
    ///
    /// If formatting fails. Writing to a string does not fail.
    pub(super) fn render(&self) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        let mut own = Scrape::new(&mut registry, "global_dns");
        self.add_queries(&mut own);
        self.add_durations(&mut own);
        self.add_connections(&mut own);
        let now = Arc::clone(&self.server.reader.load());
        let facts = self.server.facts.of(&self.server.zones, &now);
        self.add_table(&mut own, &now, &facts);
        self.add_content(&mut own, &facts);
        self.add_source(&mut own);
        // All client libraries of Prometheus have these names.
        let mut process = Scrape::new(&mut registry, "process");
        for (name, help, value) in process_usage() {
            match name {
                "cpu_seconds" => process.counter(name, help, value),
                _ => process.gauge(name, help, value),
            }
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry)?;
        Ok(text)
    }

    /// Adds the counters of queries and replies.
    fn add_queries(&self, scrape: &mut Scrape<'_>) {
        let mut requests = Vec::new();
        let types = TYPES.map(|one| one.to_string());
        for proto in Transport::VARIANTS {
            let types = types.iter().map(String::as_str).chain(["other"]);
            for (index, rtype) in types.enumerate() {
                let labels = [<&str>::from(proto).to_owned(), rtype.to_owned()];
                let count = self.counters.sum(|c| &c.requests[*proto as usize][index]);
                requests.push((labels, count));
            }
        }
        scrape.counters("requests", "Queries received", ["proto", "type"], requests);
        scrape.counters(
            "responses",
            "Replies by response code",
            ["rcode"],
            self.counts(|c, rcode: Rcode| &c.responses[rcode as usize]),
        );
        scrape.counter(
            "dropped_requests",
            "Messages that were dropped without a reply",
            self.counters.sum(|c| &c.dropped),
        );
        scrape.counter(
            "unsent_responses",
            "UDP replies that could not be sent",
            self.counters.sum(|c| &c.unsent),
        );
        scrape.counters(
            "truncated_responses",
            "Replies with the TC bit set",
            ["proto"],
            self.counts(|c, proto: Transport| &c.truncated[proto as usize]),
        );
        scrape.counters(
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
    ) -> Vec<([&'static str; 1], u64)> {
        let mut counts = Vec::new();
        for label in L::VARIANTS {
            counts.push(([(*label).into()], self.counters.sum(|c| count(c, *label))));
        }
        counts
    }

    /// Adds the times of replies, and those until changes were published.
    fn add_durations(&self, scrape: &mut Scrape<'_>) {
        scrape.durations(
            "request_duration",
            "Time from receiving a batch of queries to completing all their replies",
            Durations::new(|part| self.counters.sum(|c| part(&c.durations))),
        );
        let delays = &self.server.feeds.answer_delays;
        scrape.durations(
            "answer_delay",
            "Time from the event of a watch to the published table that has the change",
            Durations::new(|part| part(delays).load(Relaxed)),
        );
    }

    /// Adds the connections over TCP and TLS, and the certificate.
    fn add_connections(&self, scrape: &mut Scrape<'_>) {
        scrape.gauge(
            "tcp_connections",
            "Open connections over TCP and TLS",
            self.counters.sum(|c| &c.connections) as f64,
        );
        scrape.counters(
            "tcp_connections_ended",
            "Ended connections over TCP and TLS by reason",
            ["reason"],
            self.counts(|c, how: EndReason| &c.ended[how as usize]),
        );
        scrape.counter(
            "tcp_accept_failures",
            "TCP connections that could not be accepted",
            self.counters.sum(|c| &c.not_accepted),
        );
        if let Some(certificate) = &self.server.certificate {
            scrape.gauge(
                "certificate_expiry_timestamp_seconds",
                "Expiry of the current certificate, in Unix seconds",
                certificate.expiry() as f64,
            );
        }
    }

    /// Adds the state of the current table, and the version of the program that has published it.
    fn add_table(&self, scrape: &mut Scrape<'_>, now: &Published, facts: &TableFacts) {
        scrape.gauges(
            "build_info",
            "Version of this program",
            ["version"],
            [([crate::VERSION], 1)],
        );
        scrape.gauge(
            "table_ready",
            "1 if the server has loaded its data",
            u8::from(now.table.is_some()).into(),
        );
        scrape.gauge(
            "table_generation",
            "Number of the table; increases when the table changes",
            now.generation as f64,
        );
        scrape.gauge(
            "table_hash",
            "Hash of all answers; replicas with equal answers have equal hashes",
            facts.hash as f64, // 53 bits: exact
        );
        let moment = Timestamp(unix_milliseconds());
        let clock = self.server.feeds.clock;
        let at = |moment| self.server.reader.at(clock.of_wall(moment));
        if let Some(hash) = self.server.facts.compared_hash(moment, at) {
            scrape.gauge(
                "compared_table_hash",
                "Hash of all answers at the last multiple of five minutes of the clock; equal in replicas with equal answers",
                hash as f64,
            );
        }
    }

    /// Adds the numbers of services, endpoints, clusters and problems.
    fn add_content(&self, scrape: &mut Scrape<'_>, facts: &TableFacts) {
        let services = facts.services.iter();
        scrape.gauges(
            "services",
            "Services in the table by kind",
            ["kind"],
            services.map(|(kind, count)| ([<&str>::from(kind)], *count)),
        );
        let endpoints = facts.endpoints.iter();
        scrape.gauges(
            "endpoints",
            "Endpoints by cluster, state and whether the name of their service returns them",
            ["remote_cluster", "state", "returned"],
            endpoints.map(|((cluster, (state, is_returned)), count)| {
                let state = state.name().to_owned();
                ([cluster.clone(), state, is_returned.to_string()], *count)
            }),
        );
        let clusters = facts.clusters.iter();
        scrape.gauges(
            "clusters",
            "Clusters of mirrors by the state of their Links",
            ["state"],
            clusters.map(|(state, count)| ([*state], *count)),
        );
        scrape.gauges(
            "failing_services",
            "1 for each service that clients cannot reach by its name, with the kind of the problem; at most 100 services",
            ["namespace", "service", "kind"],
            facts.failing.iter().map(|(kind, key)| {
                let kind = kind.map_or("", ProblemKind::name).to_owned();
                ([key.namespace.to_string(), key.service.to_string(), kind], 1)
            }),
        );
        let causes = self.server.causes();
        let problems = ROWS.iter();
        scrape.gauges(
            "problems",
            "Problems by kind and level",
            ["kind", "level"],
            problems.map(|row| ([row.kind.name(), row.level.into()], causes.count(row.kind))),
        );
    }

    /// Adds the state of the source, and the changes of services.
    fn add_source(&self, scrape: &mut Scrape<'_>) {
        let feeds = &self.server.feeds;
        scrape.gauge(
            "table_age_seconds",
            "Seconds since the oldest watch was heard from",
            feeds.age().as_secs_f64(),
        );
        scrape.counter(
            "source_panics",
            "Panics of the source or the update loop; each is followed by a relist",
            feeds.panics.count(),
        );
        scrape.counters(
            "changes",
            "Changes of services by kind",
            ["kind"],
            ChangeKind::VARIANTS
                .iter()
                .map(|kind| ([<&str>::from(kind)], feeds.events.total(*kind))),
        );
    }
}

// === impl Scrape ===

impl<'r> Scrape<'r> {
    fn new(registry: &'r mut Registry, prefix: &str) -> Self {
        Self(registry.sub_registry_with_prefix(prefix))
    }

    /// Adds a counter.
    fn counter<C>(&mut self, name: &str, help: &str, value: C)
    where
        ConstCounter<C>: Metric,
    {
        self.0.register(name, help, ConstCounter::new(value));
    }

    /// Adds a gauge.
    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.0.register(name, help, ConstGauge::new(value));
    }

    /// Adds a histogram of seconds.
    fn durations(&mut self, name: &str, help: &str, durations: Durations) {
        self.0
            .register_with_unit(name, help, Unit::Seconds, durations);
    }

    /// Adds a counter with a value for each set of labels.
    fn counters<const N: usize, L: Into<Cow<'static, str>>>(
        &mut self,
        name: &str,
        help: &str,
        labels: [&'static str; N],
        counts: impl IntoIterator<Item = ([L; N], u64)>,
    ) {
        let samples = counts
            .into_iter()
            .map(|(values, count)| (named(labels, values), ConstCounter::new(count)));
        self.0.register(name, help, Samples(samples.collect()));
    }

    /// Adds a gauge with a number for each set of labels.
    fn gauges<const N: usize, L: Into<Cow<'static, str>>>(
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
