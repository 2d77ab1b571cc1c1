//! All metrics.
//!
//! Counters are atomics that are incremented where the event happens. Gauges of the table are computed once for each
//! table (`facts.rs`), the others for each scrape. Clients and clusters cannot choose the values of labels. The exception is
//! the cluster name: only the largest clusters have series of their own. Its label is `remote_cluster`, because `cluster` usually identifies the scraped cluster in a fleet, and labels of a series take
//! precedence over external labels of Prometheus.

mod page;
mod process;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;
use strum::VariantArray as _;

use page::Page;

use crate::clock::unix_milliseconds;
use crate::model::Timestamp;
use crate::model::problem::ROWS;
use crate::server::counters::{BUCKETS, CounterSet, Counters, EndReason, PROTOS, RCODES, TYPES};
use crate::source::{PROGRAMMING_BUCKETS, UPDATE_BUCKETS, UpdateTimes};
use crate::table::Published;
use crate::table::change::ChangeKind;
use crate::view::{Causes, Server, TableFacts};

/// The sources of the metrics.
#[derive(Clone)]
pub struct Metrics {
    /// The server.
    pub server: Server,
    /// The counters of the listeners.
    pub counters: CounterSet,
}

impl Metrics {
    /// Writes every metric in the OpenMetrics text format.
    ///
    /// # Errors
    ///
    /// If formatting fails. Writing to a string does not fail.
    pub fn render(&self) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        registry
            .sub_registry_with_prefix("global_dns")
            .register_collector(Box::new(self.clone()));
        registry
            .sub_registry_with_prefix("process")
            .register_collector(Box::new(process::ProcessMetrics));
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
        if let Some(certificate) = &self.server.certificate {
            let expiry = certificate.expiry() as f64;
            let help = "Expiry of the current certificate, in Unix seconds";
            page.gauge("certificate_expiry_timestamp_seconds", help, expiry)?;
        }
        let lost = self.server.lost_log_lines.count();
        let help = "Log lines that were lost because standard error was blocked or failed";
        page.counter("lost_log_lines", help, lost)?;
        self.encode_table(&mut page)
    }
}

impl Metrics {
    fn encode_queries(&self, page: &mut Page<'_, '_>) -> fmt::Result {
        self.encode_requests(page)?;
        self.encode_responses(page)?;
        let panics = self.by_proto(|counters| &counters.panics);
        let help = "Panics of workers, which are restarted, and of connections, which are closed";
        page.counters("worker_panics", help, panics)?;
        let truncated = self.by_proto(|counters| &counters.truncated);
        let help = "Replies with the TC bit set";
        page.counters("truncated_responses", help, truncated)?;
        self.encode_durations(page)
    }

    /// Writes the counters of queries.
    fn encode_requests(&self, page: &mut Page<'_, '_>) -> fmt::Result {
        let types = || TYPES.iter().map(|(_, name)| *name).chain(["other"]);
        let requests = PROTOS.iter().enumerate().flat_map(|(proto, name)| {
            types().enumerate().map(move |(rtype, type_name)| {
                let labels = [("proto", *name), ("type", type_name)];
                (labels, self.counters.sum(|c| &c.requests[proto][rtype]))
            })
        });
        page.counters("requests", "Queries received", requests)
    }

    /// Writes the counters of replies and of messages without a reply.
    fn encode_responses(&self, page: &mut Page<'_, '_>) -> fmt::Result {
        let rcodes = RCODES.iter().map(|(_, name)| *name).chain(["other"]);
        let responses = rcodes.enumerate().map(|(rcode, name)| {
            let count = self.counters.sum(|c| &c.responses[rcode]);
            ([("rcode", name)], count)
        });
        page.counters("responses", "Replies by response code", responses)?;
        let dropped = self.counters.sum(|c| &c.dropped);
        let help = "Messages that were dropped without a reply";
        page.counter("dropped_requests", help, dropped)?;
        let unsent = self.counters.sum(|c| &c.unsent);
        let help = "UDP replies that could not be sent";
        page.counter("unsent_responses", help, unsent)
    }

    /// Returns the values of a counter by transport, with the label.
    fn by_proto(
        &self,
        count: impl Fn(&Counters) -> &[AtomicU64; PROTOS.len()],
    ) -> impl Iterator<Item = ([(&'static str, &'static str); 1], u64)> {
        PROTOS.iter().enumerate().map(move |(proto, name)| {
            let count = self.counters.sum(|counters| &count(counters)[proto]);
            ([("proto", *name)], count)
        })
    }

    fn encode_durations(&self, page: &mut Page<'_, '_>) -> fmt::Result {
        let help = "Time from receiving a batch of queries to completing all their replies";
        let bucket = |index| self.counters.sum(|c| c.durations.bucket(index));
        let sum = self.counters.sum(|c| c.durations.nanoseconds());
        page.histogram("request_duration", help, &BUCKETS, bucket, sum)
    }

    /// Writes the times until changes were published.
    fn encode_updates(&self, page: &mut Page<'_, '_>) -> fmt::Result {
        let UpdateTimes {
            update,
            programming,
        } = &*self.server.feeds.update_times;
        let help = "Time from the event of a watch to the published table that has the change";
        let bucket = |index| update.bucket(index).load(Relaxed);
        let sum = update.nanoseconds().load(Relaxed);
        page.histogram("answer_delay", help, &UPDATE_BUCKETS, bucket, sum)?;
        let help = "Time from the change of a Service or pod of this cluster to the published table that has it";
        let bucket = |index| programming.bucket(index).load(Relaxed);
        let sum = programming.nanoseconds().load(Relaxed);
        page.histogram(
            "programming_duration",
            help,
            &PROGRAMMING_BUCKETS,
            bucket,
            sum,
        )
    }

    fn encode_connections(&self, page: &mut Page<'_, '_>) -> fmt::Result {
        let open = self.counters.sum(|c| &c.connections) as f64;
        page.gauge("tcp_connections", "Open connections over TCP and TLS", open)?;
        let ended = EndReason::VARIANTS.iter().map(|how| {
            let count = self.counters.sum(|c| &c.ended[*how as usize]);
            ([("reason", <&str>::from(how))], count)
        });
        let help = "Ended connections over TCP and TLS by reason";
        page.counters("tcp_connections_ended", help, ended)?;
        let failures = self.counters.sum(|c| &c.not_accepted);
        let help = "TCP connections that could not be accepted";
        page.counter("tcp_accept_failures", help, failures)
    }

    fn encode_table(&self, page: &mut Page<'_, '_>) -> fmt::Result {
        let now = self.server.reader.load();
        let facts = self.server.facts.of(&now);
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        page.gauges("build_info", "Version of this program", [(version, 1.0)])?;
        page.published(&now, &facts)?;
        let moment = Timestamp(unix_milliseconds());
        let clock = self.server.feeds.clock;
        let at = |moment| self.server.reader.at(clock.of_wall(moment));
        if let Some(hash) = self.server.facts.compared_hash(moment, at) {
            let help = "Hash of all answers at the last multiple of five minutes of the clock; equal in replicas with equal answers";
            page.gauge("compared_table_hash", help, hash as f64)?; // 53 bits: exact
        }
        let history = self.server.reader.history_count() as f64;
        page.gauge("history_tables", "Earlier tables of the history", history)?;
        self.encode_source(page)?;
        self.encode_updates(page)?;
        page.content(&facts, &self.server.causes())
    }

    /// Writes the state of the source.
    fn encode_source(&self, page: &mut Page<'_, '_>) -> fmt::Result {
        let age = self.server.feeds.age().as_secs_f64();
        let help = "Seconds since the oldest watch was heard from";
        page.gauge("table_age_seconds", help, age)?;
        let help = "Panics of the source or the update loop; each is followed by a relist";
        page.counter("source_panics", help, self.server.feeds.panics.count())?;
        let help = "Changes of services, by kind";
        let events = &self.server.feeds.events;
        let kinds = ChangeKind::VARIANTS.iter().copied();
        let kinds = kinds.filter(|kind| *kind != ChangeKind::Demo);
        let totals = kinds.map(|kind| ([("kind", <&str>::from(kind))], events.total(kind)));
        page.counters("changes", help, totals)
    }
}

// === impl Page ===

impl Page<'_, '_> {
    /// Writes the state of the current table.
    fn published(&mut self, now: &Published, facts: &TableFacts) -> fmt::Result {
        let ready = f64::from(u8::from(now.table.is_some()));
        self.gauge("table_ready", "1 if the server has loaded its data", ready)?;
        let generation = now.generation as f64;
        let help = "Number of the table; increases when the table changes";
        self.gauge("table_generation", help, generation)?;
        let serial = f64::from(now.serial);
        self.gauge("table_serial", "SOA serial of the table", serial)?;
        let hash = facts.hash as f64; // 53 bits: exact
        let help = "Hash of all answers; replicas with equal answers have equal hashes";
        self.gauge("table_hash", help, hash)
    }

    /// Writes the numbers of services, endpoints and problems.
    fn content(&mut self, facts: &TableFacts, causes: &Causes) -> fmt::Result {
        let count = |count: &u32| f64::from(*count);
        let services = facts
            .services
            .iter()
            .map(|(kind, n)| ([("kind", kind.name())], count(n)));
        self.gauges("services", "Services in the table by kind", services)?;
        let endpoints = facts
            .endpoints
            .iter()
            .map(|((cluster, (state, is_returned)), n)| {
                let returned = if *is_returned { "true" } else { "false" };
                let labels = [
                    ("remote_cluster", cluster.as_str()),
                    ("state", state.name()),
                    ("returned", returned),
                ];
                (labels, count(n))
            });
        let help = "Endpoints by cluster, state and whether the name of their service returns them";
        self.gauges("endpoints", help, endpoints)?;
        let clusters = facts
            .clusters
            .iter()
            .map(|(state, n)| ([("state", *state)], count(n)));
        let help = "Clusters of mirrors by the state of their Links";
        self.gauges("clusters", help, clusters)?;
        let failing = facts.failing.iter().map(|key| {
            let labels = [
                ("namespace", key.namespace.as_str()),
                ("service", key.service.as_str()),
            ];
            (labels, 1.0)
        });
        let help = "1 for each service that clients cannot reach by its name; at most 100 services";
        self.gauges("failing_services", help, failing)?;
        let problems = ROWS.iter().map(|row| {
            let labels = [("kind", row.kind.name()), ("level", row.level.into())];
            (labels, f64::from(causes.count(row.kind)))
        });
        self.gauges("problems", "Problems by kind and level", problems)
    }
}
