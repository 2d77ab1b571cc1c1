//! Every metric in one place.
//!
//! Counters are plain atomics, incremented where the thing happens; gauges are computed when they are scraped. No label
//! takes a value that a client or a cluster could make up, cluster names aside, which are few.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::mirror::SkipReason;
use crate::report::State;
use crate::server::counters::{BUCKETS, Counters, Ended, PROTOS, RCODES, TYPES, Tallies};
use crate::source::Feeds;
use crate::table::publish::Reader;
use crate::table::{ConflictKind, Published, Table};

/// Everything that `/metrics` shows.
#[derive(Clone)]
pub struct Metrics {
    /// What the listeners count.
    pub tallies: Tallies,
    /// The current table.
    pub reader: Reader,
    /// Signs of life of the source.
    pub feeds: Feeds,
    /// Snapshots that could not be written.
    pub snapshot_failures: Arc<AtomicU64>,
    /// Log lines that could not be written.
    pub lost_log_lines: Arc<AtomicU64>,
    /// When the certificate in use expires, in Unix seconds, if there is an encrypted listener.
    pub certificate_expiry: Option<Arc<AtomicU64>>,
}

impl Metrics {
    /// Writes every metric in the OpenMetrics text format.
    ///
    /// # Errors
    ///
    /// If formatting fails, which a string does not.
    pub fn render(&self) -> Result<String, fmt::Error> {
        let mut registry = Registry::with_prefix("global_dns");
        registry.register_collector(Box::new(self.clone()));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry)?;
        Ok(text)
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page(&mut encoder);
        self.encode_queries(&mut page)?;
        self.encode_connections(&mut page)?;
        if let Some(expiry) = &self.certificate_expiry {
            let expiry = expiry.load(Relaxed) as f64;
            let help = "When the certificate in use expires, in Unix seconds";
            page.gauge("certificate_expiry_timestamp_seconds", help, expiry)?;
        }
        let lost = self.lost_log_lines.load(Relaxed);
        let help = "Log lines that nobody read in time, or that could not be written";
        page.counter("lost_log_lines", help, lost)?;
        self.encode_table(&mut page)
    }
}

impl Metrics {
    fn encode_queries(&self, page: &mut Page<'_, '_>) -> fmt::Result {
        self.encode_requests(page)?;
        self.encode_responses(page)?;
        let panics = self.by_proto(|counters| &counters.panics);
        let help = "Workers and connections that panicked, and were replaced or ended";
        page.counters("worker_panics", help, panics)?;
        let limited = ["slipped", "dropped"].into_iter().enumerate();
        let limited = limited.map(|(index, what)| {
            let count = self.tallies.sum(|c| &c.limited[index]);
            ([("action", what)], count)
        });
        let help =
            "Queries over UDP above --rate-limit: half slip through to a hint to come by TCP";
        page.counters("limited_requests", help, limited)?;
        let truncated = self.by_proto(|counters| &counters.truncated);
        page.counters("truncated_responses", "Replies with the TC bit", truncated)?;
        self.encode_durations(page)
    }

    /// Writes what was asked.
    fn encode_requests(&self, page: &mut Page<'_, '_>) -> fmt::Result {
        let types = || TYPES.iter().map(|(_, name)| *name).chain(["other"]);
        let requests = PROTOS.iter().enumerate().flat_map(|(proto, name)| {
            types().enumerate().map(move |(rtype, type_name)| {
                let labels = [("proto", *name), ("type", type_name)];
                (labels, self.tallies.sum(|c| &c.requests[proto][rtype]))
            })
        });
        page.counters("requests", "Queries received", requests)
    }

    /// Writes what was replied, and what was not.
    fn encode_responses(&self, page: &mut Page<'_, '_>) -> fmt::Result {
        let rcodes = RCODES.iter().map(|(_, name)| *name).chain(["other"]);
        let responses = rcodes.enumerate().map(|(rcode, name)| {
            let count = self.tallies.sum(|c| &c.responses[rcode]);
            ([("rcode", name)], count)
        });
        page.counters("responses", "Replies made", responses)?;
        let dropped = self.tallies.sum(|c| &c.dropped);
        let help = "Messages that are never answered";
        page.counter("dropped_requests", help, dropped)?;
        let unsent = self.tallies.sum(|c| &c.unsent);
        let help = "Replies that could not be sent over UDP";
        page.counter("unsent_responses", help, unsent)
    }

    /// Returns what is counted by transport, with its label.
    fn by_proto(
        &self,
        count: impl Fn(&Counters) -> &[AtomicU64; PROTOS.len()],
    ) -> impl Iterator<Item = ([(&'static str, &'static str); 1], u64)> {
        PROTOS.iter().enumerate().map(move |(proto, name)| {
            let count = self.tallies.sum(|counters| &count(counters)[proto]);
            ([("proto", *name)], count)
        })
    }

    fn encode_durations(&self, page: &mut Page<'_, '_>) -> fmt::Result {
        let bounds = BUCKETS
            .iter()
            .map(|bound| *bound as f64 / 1e6)
            .chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds
            .enumerate()
            .map(|(index, bound)| (bound, self.tallies.sum(|c| &c.durations[index])))
            .collect();
        let seconds = self.tallies.sum(|c| &c.duration_nanoseconds) as f64 / 1e9;
        let help = "Time from receiving queries that arrived together to having all their replies";
        let mut metric = page.0.encode_descriptor(
            "request_duration",
            help,
            Some(&Unit::Seconds),
            MetricType::Histogram,
        )?;
        let count = buckets.iter().map(|(_, count)| count).sum();
        metric.encode_histogram::<[(&str, &str); 0]>(seconds, count, &buckets, None)
    }

    fn encode_connections(&self, page: &mut Page<'_, '_>) -> fmt::Result {
        let open = self.tallies.sum(|c| &c.connections) as f64;
        page.gauge("tcp_connections", "TCP connections that are open", open)?;
        let ended = Ended::ALL.map(|how| {
            let count = self.tallies.sum(|c| &c.ended[how as usize]);
            ([("reason", how.name())], count)
        });
        let help = "TCP connections by how they ended";
        page.counters("tcp_connections_ended", help, ended)?;
        let failures = self.tallies.sum(|c| &c.not_accepted);
        let help = "TCP connections that could not be accepted";
        page.counter("tcp_accept_failures", help, failures)
    }

    fn encode_table(&self, page: &mut Page<'_, '_>) -> fmt::Result {
        let now = self.reader.load();
        let empty = Table::default();
        let table = now.table.as_ref().unwrap_or(&empty);
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        page.gauges("build_info", "Version of this program", [(version, 1.0)])?;
        page.published(&now, table)?;
        self.encode_source(page)?;
        page.services(table)?;
        page.left_out(table)
    }

    /// Writes how the source of the table is.
    fn encode_source(&self, page: &mut Page<'_, '_>) -> fmt::Result {
        let failures = self.snapshot_failures.load(Relaxed);
        let help = "Snapshots of the table that could not be written";
        page.counter("snapshot_write_failures", help, failures)?;
        let age = self.feeds.age().as_secs_f64();
        let help = "Age of the oldest watch's last sign of life";
        page.gauge("table_age_seconds", help, age)?;
        let held = self.feeds.held() as f64;
        let help = "Panics of what reads objects and builds the table, each followed by a new list of everything";
        page.counter("source_panics", help, self.feeds.panics())?;
        let help =
            "Watches whose last list is held by --shrink-guard; with --file all of them, or none";
        page.gauge("held_lists", help, held)
    }
}

/// The page that is being written.
struct Page<'p, 'e>(&'p mut DescriptorEncoder<'e>);

// === impl Page: the table ===

impl Page<'_, '_> {
    /// Writes which table is current, and whether it can be relied on.
    fn published(&mut self, now: &Published, table: &Table) -> fmt::Result {
        let ready = f64::from(u8::from(now.table.is_some()));
        self.gauge("table_ready", "1 after the first complete table", ready)?;
        let generation = now.generation as f64;
        let help = "Tables that differed from the one before";
        self.gauge("table_generation", help, generation)?;
        let serial = f64::from(now.serial);
        self.gauge("table_serial", "SOA serial", serial)?;
        let hash = table.answers_hash() as f64; // 53 bits: exact
        let help = "Hash of all answers, the same in every replica that gives the same answers";
        self.gauge("table_hash", help, hash)?;
        let stale = f64::from(u8::from(now.is_stale));
        let help = "1 while the table is one that a process before has saved";
        self.gauge("table_stale", help, stale)?;
        let expired = f64::from(u8::from(now.is_expired));
        let help = "1 while the table is older than --max-stale, and SERVFAIL is answered";
        self.gauge("table_expired", help, expired)
    }

    /// Writes how many services and endpoints there are.
    fn services(&mut self, table: &Table) -> fmt::Result {
        let services = table.services().filter(|service| service.is_known).count() as f64;
        self.gauge("services", "Services in the table", services)?;
        let mut endpoints: BTreeMap<(&str, &str), u32> = BTreeMap::new();
        for service in table.services() {
            for (endpoint, state) in State::of_service(service) {
                *endpoints
                    .entry((endpoint.cluster.as_str(), state.name()))
                    .or_default() += 1;
            }
        }
        let endpoints = endpoints.into_iter().map(|((cluster, state), count)| {
            ([("cluster", cluster), ("state", state)], f64::from(count))
        });
        self.gauges("endpoints", "Endpoints by what becomes of them", endpoints)
    }

    /// Writes how many objects were left out or contradict each other, zeros too.
    fn left_out(&mut self, table: &Table) -> fmt::Result {
        let mut skipped = BTreeMap::from(SkipReason::ALL.map(|reason| (reason, 0_u32)));
        for (_, skip) in table.skipped() {
            *skipped.entry(skip.reason).or_default() += 1;
        }
        let skipped = skipped
            .into_iter()
            .map(|(reason, n)| ([("reason", reason.name())], f64::from(n)));
        self.gauges("skipped_objects", "Objects that were left out", skipped)?;
        let mut conflicts = BTreeMap::from(ConflictKind::ALL.map(|kind| (kind, 0_u32)));
        for conflict in table.conflicts() {
            *conflicts.entry(conflict.kind).or_default() += 1;
        }
        let conflicts = conflicts
            .into_iter()
            .map(|(kind, n)| ([("kind", kind.name())], f64::from(n)));
        self.gauges("conflicts", "Contradictions between objects", conflicts)
    }
}

// === impl Page: one metric ===

impl Page<'_, '_> {
    /// Writes a counter without labels. `_total` is added to the name.
    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let metric = self
            .0
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(metric)
    }

    /// Writes a gauge without labels.
    fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        let metric = self
            .0
            .encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(value).encode(metric)
    }

    /// Writes a counter with one value for each set of labels. `_total` is added to the name.
    fn counters<L: EncodeLabelSet>(
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

    /// Writes a gauge with one value for each set of labels.
    fn gauges<L: EncodeLabelSet>(
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
