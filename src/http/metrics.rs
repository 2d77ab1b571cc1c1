//! All metrics.
//!
//! Counters are atomics that are incremented where the event happens. Gauges of the table are computed once for each
//! table (`facts.rs`), the others for each scrape. Clients cannot choose the values of labels, and tenants only up to a number:
//! the largest clusters and the first failing services have series of their own. The label of a cluster is `remote_cluster`,
//! because `cluster` usually identifies the scraped cluster in a fleet.

mod samples;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use strum::VariantArray as _;

use samples::{Durations, counters, gauges};

use crate::clock::unix_milliseconds;
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

impl Metrics {
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
        let types = TYPES.map(|one| one.to_string());
        let types = || types.iter().map(String::as_str).chain(["other"]);
        let requests = Transport::VARIANTS.iter().flat_map(|proto| {
            types().enumerate().map(move |(rtype, type_name)| {
                let labels = [
                    ("proto", <&str>::from(proto).into()),
                    ("type", type_name.to_owned().into()),
                ];
                let proto = *proto as usize;
                (labels, self.counters.sum(|c| &c.requests[proto][rtype]))
            })
        });
        registry.register("requests", "Queries received", counters(requests));
        let responses = Rcode::VARIANTS.iter().map(|rcode| {
            let count = self.counters.sum(|c| &c.responses[*rcode as usize]);
            ([("rcode", <&str>::from(rcode).into())], count)
        });
        let help = "Replies by response code";
        registry.register("responses", help, counters(responses));
        let help = "Messages that were dropped without a reply";
        let count = ConstCounter::new(self.counters.sum(|c| &c.dropped));
        registry.register("dropped_requests", help, count);
        let help = "UDP replies that could not be sent";
        let count = ConstCounter::new(self.counters.sum(|c| &c.unsent));
        registry.register("unsent_responses", help, count);
        let help = "Replies with the TC bit set";
        self.add_by_proto(registry, "truncated_responses", help, |c| &c.truncated);
        let help = "Panics of workers, which are restarted, and of connections, which are closed";
        self.add_by_proto(registry, "worker_panics", help, |c| &c.panics);
    }

    /// Adds a counter of the listeners by transport.
    fn add_by_proto(
        &self,
        registry: &mut Registry,
        name: &str,
        help: &str,
        counts: impl Fn(&Counters) -> &[AtomicU64],
    ) {
        let by_proto = Transport::VARIANTS.iter().map(|proto| {
            let count = self.counters.sum(|c| &counts(c)[*proto as usize]);
            ([("proto", <&str>::from(proto).into())], count)
        });
        registry.register(name, help, counters(by_proto));
    }

    /// Adds the times of replies, and those until changes were published.
    fn add_durations(&self, registry: &mut Registry) {
        let mut add = |name, help, durations: Durations| {
            registry.register_with_unit(name, help, Unit::Seconds, durations);
        };
        let delays = &self.server.feeds.answer_delays;
        let answers = Durations::new(|part| self.counters.sum(|c| part(&c.durations)));
        let help = "Time from receiving a batch of queries to completing all their replies";
        add("request_duration", help, answers);
        let delays = Durations::new(|part| part(delays).load(Relaxed));
        let help = "Time from the event of a watch to the published table that has the change";
        add("answer_delay", help, delays);
    }

    /// Adds the connections over TCP and TLS, and the certificate.
    fn add_connections(&self, registry: &mut Registry) {
        let open = self.counters.sum(|c| &c.connections) as f64;
        let help = "Open connections over TCP and TLS";
        registry.register("tcp_connections", help, ConstGauge::new(open));
        let ended = EndReason::VARIANTS.iter().map(|how| {
            let count = self.counters.sum(|c| &c.ended[*how as usize]);
            ([("reason", <&str>::from(how).into())], count)
        });
        let help = "Ended connections over TCP and TLS by reason";
        registry.register("tcp_connections_ended", help, counters(ended));
        let help = "TCP connections that could not be accepted";
        let count = ConstCounter::new(self.counters.sum(|c| &c.not_accepted));
        registry.register("tcp_accept_failures", help, count);
        if let Some(certificate) = &self.server.certificate {
            let expiry = ConstGauge::new(certificate.expiry() as f64);
            let help = "Expiry of the current certificate, in Unix seconds";
            registry.register("certificate_expiry_timestamp_seconds", help, expiry);
        }
    }

    /// Adds the state of the current table, and the version of the program that has published it.
    fn add_table(&self, registry: &mut Registry, now: &Published, facts: &TableFacts) {
        let version = [("version", crate::VERSION.into())];
        let version = gauges([(version, 1.0)]);
        registry.register("build_info", "Version of this program", version);
        let mut add = |name, help, value| registry.register(name, help, ConstGauge::new(value));
        let ready = f64::from(u8::from(now.table.is_some()));
        add("table_ready", "1 if the server has loaded its data", ready);
        let help = "Number of the table; increases when the table changes";
        add("table_generation", help, now.generation as f64);
        let help = "Hash of all answers; replicas with equal answers have equal hashes";
        add("table_hash", help, facts.hash as f64); // 53 bits: exact
        let moment = Timestamp(unix_milliseconds());
        let clock = self.server.feeds.clock;
        let at = |moment| self.server.reader.at(clock.of_wall(moment));
        if let Some(hash) = self.server.facts.compared_hash(moment, at) {
            let help = "Hash of all answers at the last multiple of five minutes of the clock; equal in replicas with equal answers";
            add("compared_table_hash", help, hash as f64);
        }
    }

    /// Adds the numbers of services, endpoints, clusters and problems.
    fn add_content(&self, registry: &mut Registry, facts: &TableFacts) {
        let services = facts
            .services
            .iter()
            .map(|(kind, n)| ([("kind", <&str>::from(kind).into())], f64::from(*n)));
        let help = "Services in the table by kind";
        registry.register("services", help, gauges(services));
        let endpoints = facts
            .endpoints
            .iter()
            .map(|((cluster, (state, is_returned)), n)| {
                let labels = [
                    ("remote_cluster", cluster.clone().into()),
                    ("state", state.name().into()),
                    ("returned", is_returned.to_string().into()),
                ];
                (labels, f64::from(*n))
            });
        let help = "Endpoints by cluster, state and whether the name of their service returns them";
        registry.register("endpoints", help, gauges(endpoints));
        let clusters = facts
            .clusters
            .iter()
            .map(|(state, n)| ([("state", (*state).into())], f64::from(*n)));
        let help = "Clusters of mirrors by the state of their Links";
        registry.register("clusters", help, gauges(clusters));
        let failing = facts.failing.iter().map(|(kind, key)| {
            let labels = [
                ("namespace", key.namespace.as_str().to_owned().into()),
                ("service", key.service.as_str().to_owned().into()),
                ("kind", kind.map_or("", ProblemKind::name).into()),
            ];
            (labels, 1.0)
        });
        let help = "1 for each service that clients cannot reach by its name, with the kind of the problem; at most 100 services";
        registry.register("failing_services", help, gauges(failing));
        let causes = self.server.causes();
        let problems = ROWS.iter().map(|row| {
            let level: &str = row.level.into();
            let labels = [("kind", row.kind.name().into()), ("level", level.into())];
            (labels, f64::from(causes.count(row.kind)))
        });
        let help = "Problems by kind and level";
        registry.register("problems", help, gauges(problems));
    }

    /// Adds the state of the source, and the changes of services.
    fn add_source(&self, registry: &mut Registry) {
        let feeds = &self.server.feeds;
        let help = "Seconds since the oldest watch was heard from";
        let age = ConstGauge::new(feeds.age().as_secs_f64());
        registry.register("table_age_seconds", help, age);
        let help = "Panics of the source or the update loop; each is followed by a relist";
        let panics = ConstCounter::new(feeds.panics.count());
        registry.register("source_panics", help, panics);
        let changes = ChangeKind::VARIANTS.iter().map(|kind| {
            let name: &str = kind.into();
            ([("kind", name.into())], feeds.events.total(*kind))
        });
        let help = "Changes of services by kind";
        registry.register("changes", help, counters(changes));
    }
}
