//! What is gone: services, and clusters of services, that this process answered within the last hour and does not answer any more.
//!
//! A namespace that is deleted, or an API server that is restored empty, makes no problem of any service: there is none left.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::document::{Column, Section};
use super::server::Server;
use crate::clock::unix_milliseconds;
use crate::model::{
    ClusterName, MAX_LISTED, Namespace, Problem, ProblemKind, ServiceKey, Timestamp, list_some,
};
use crate::table::change::ChangeKind;
use crate::table::{Service, Table};

/// How long it is said.
const WINDOW: Duration = Duration::from_secs(60 * 60);
/// The time within which several must go for a warning, and their least number.
const MINUTE: Duration = Duration::from_secs(60);
const MANY: usize = 5;
/// The part of all services, over at least two namespaces, that must go for a warning: one of this number.
const TENTH: usize = 10;

/// What is gone of one namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Gone {
    /// The namespace.
    pub(super) namespace: String,
    /// When the first of it went (RFC 3339).
    #[schemars(with = "String")]
    pub(super) since: Timestamp,
    /// The services, such as `db`, and clusters of services that still answer, such as `east of db`: the first ones, and the number of
    /// the others.
    pub(super) what: String,
    /// Their number.
    pub(super) count: usize,
}

/// A service, or a cluster of one, that is gone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Departure {
    service: ServiceKey,
    /// The cluster, if others still answer.
    cluster: Option<ClusterName>,
}

/// The departures with their last times.
type Departures = BTreeMap<Departure, Timestamp>;

impl Server {
    /// Returns what is gone of each namespace.
    pub(super) fn gone(&self, table: &Table) -> Vec<Gone> {
        let mut by_namespace: BTreeMap<Namespace, Vec<(Departure, Timestamp)>> = BTreeMap::new();
        for (departure, time) in self.departures(table) {
            let namespace = departure.service.namespace.clone();
            by_namespace
                .entry(namespace)
                .or_default()
                .push((departure, time));
        }
        let mut gone = Vec::new();
        for (namespace, departures) in by_namespace {
            gone.push(Gone {
                namespace: namespace.to_string(),
                since: departures
                    .iter()
                    .map(|(_, time)| *time)
                    .min()
                    .unwrap_or_default(),
                count: departures.len(),
                what: list_some(departures.iter().map(|(one, _)| one.to_text()), MAX_LISTED),
            });
        }
        gone
    }

    /// Returns the problem that many services went at once, if they did: all of a namespace, or a tenth of all.
    pub(super) fn gone_problem(&self, table: &Table) -> Option<Problem> {
        let departures = self.departures(table);
        let services = departures.iter().filter(|(one, _)| one.cluster.is_none());
        let mut times: Vec<(Timestamp, &ServiceKey)> =
            services.map(|(one, time)| (*time, &one.service)).collect();
        times.sort();
        for (index, (start, _)) in times.iter().enumerate() {
            let within = times[index..]
                .iter()
                .take_while(|(time, _)| time.since(*start) <= MINUTE);
            let mut went: BTreeMap<&Namespace, usize> = BTreeMap::new();
            for (_, service) in within {
                *went.entry(&service.namespace).or_default() += 1;
            }
            let count: usize = went.values().sum();
            let rest = table.services().filter(|one| is_answered(one)).count();
            let is_tenth = went.len() > 1 && count >= MANY && count * TENTH >= count + rest;
            went.retain(|namespace, count| {
                let mut rest = table.services_in(namespace.as_str());
                is_tenth || *count >= MANY && !rest.any(is_answered)
            });
            if !went.is_empty() {
                let parts = went
                    .iter()
                    .map(|(namespace, count)| format!("{count} of {namespace}"));
                let problem = Problem::new(ProblemKind::ServicesGone, list_some(parts, MAX_LISTED));
                return Some(problem.holds_since(self.feeds.clock.of_wall(*start)));
            }
        }
        None
    }

    /// Returns what went within the last hour and did not come back.
    fn departures(&self, table: &Table) -> Departures {
        let begin = Timestamp(unix_milliseconds()).before(WINDOW);
        let mut departures = Departures::new();
        let (events, _) = self.feeds.events.all();
        for event in events {
            if event.change.kind != ChangeKind::Left || event.moment < begin {
                continue;
            }
            for key in &event.change.services {
                let now = table.find(key).filter(|one| is_answered(one));
                let cluster = event.change.cluster.as_ref().filter(|_| now.is_some());
                let is_back = now.is_some_and(|service| {
                    cluster.is_none_or(|one| !service.endpoints_at(&[one.as_str()]).is_empty())
                });
                if !is_back {
                    let departure = Departure {
                        service: key.clone(),
                        cluster: cluster.cloned(),
                    };
                    departures.insert(departure, event.moment);
                }
            }
        }
        departures
    }
}

/// Returns the section of what is gone.
pub(super) fn section(gone: Vec<Gone>) -> Section {
    let columns = [
        Column::time("SINCE"),
        Column::text("NAMESPACE"),
        Column::text("GONE"),
    ];
    let mut section = Section::new("gone within the last hour", columns);
    for one in gone {
        section.push_text([one.since.to_text(), one.namespace, one.what]);
    }
    section
}

/// Returns whether a service has endpoints.
fn is_answered(service: &Service) -> bool {
    !service.endpoints.is_empty()
}

impl Departure {
    fn to_text(&self) -> String {
        match &self.cluster {
            Some(cluster) => format!("{cluster} of {}", self.service.service),
            None => self.service.service.to_string(),
        }
    }
}
