//! What is gone: services, and clusters of services, that this process answered within the last hour and does not answer any more.
//!
//! A namespace that is deleted, or an API server that is restored empty, makes no problem of any service: there is none left.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;

use super::{Column, Filter, Section, Server, Shown, selects};
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
#[derive(Serialize)]
pub(super) struct Gone {
    /// The namespace.
    pub namespace: String,
    /// When the first of it went (RFC 3339).
    pub since: Timestamp,
    /// The services, such as `db`, and clusters of services that still answer, such as `east of db`: the first ones, and the number of
    /// the others.
    pub what: String,
    /// Their number.
    pub count: usize,
}

/// A service, or a cluster of one, that is gone.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Departure {
    service: ServiceKey,
    /// The cluster, if others still answer.
    cluster: Option<ClusterName>,
}

/// The departures with their last times.
type Departures = BTreeMap<Departure, Timestamp>;

impl Shown<'_> {
    /// Returns what is gone of each namespace, as far as a filter selects it.
    pub(super) fn gone(&self, filter: &Filter) -> Vec<Gone> {
        let Some(table) = self.table() else {
            return Vec::new();
        };
        let departures = Vec::from_iter(self.server.departures(table, filter));
        // They are sorted by namespace.
        let by_namespace = departures
            .chunk_by(|(one, _), (next, _)| one.service.namespace == next.service.namespace);
        let gone = by_namespace.map(|some| Gone {
            namespace: some[0].0.service.namespace.to_string(),
            since: some.iter().map(|(_, time)| *time).min().unwrap_or_default(),
            count: some.len(),
            what: list_some(some.iter().map(|(one, _)| one.to_text()), MAX_LISTED),
        });
        gone.collect()
    }
}

impl Server {
    /// Returns the problem that many services went at once, if they did: all of a namespace, or a tenth of all.
    pub(super) fn gone_problem(&self, table: &Table) -> Option<Problem> {
        let departures = self.departures(table, &Filter::default());
        let services = departures.iter().filter(|(one, _)| one.cluster.is_none());
        let mut times: Vec<(Timestamp, &Namespace)> = services
            .map(|(one, time)| (*time, &one.service.namespace))
            .collect();
        times.sort();
        let (since, namespaces) = went_at_once(&times, table)?;
        let parts = namespaces.iter().map(|namespace| {
            let of_namespace = times.iter().filter(|(_, own)| own == namespace);
            format!("{} of {namespace}", of_namespace.count())
        });
        let problem = Problem::new(ProblemKind::ServicesGone, list_some(parts, MAX_LISTED));
        Some(problem.holds_since(self.feeds.clock.of_wall(since)))
    }

    /// Returns what went within the last hour and did not come back.
    fn departures(&self, table: &Table, filter: &Filter) -> Departures {
        let begin = Timestamp(unix_milliseconds()).before(WINDOW);
        let mut departures = Departures::new();
        let (events, _) = self.feeds.events.all();
        for event in events {
            let is_left = event.change.kind == ChangeKind::Left && event.moment >= begin;
            if !is_left || !selects(filter, &event) {
                continue;
            }
            let keys = event.change.services.iter();
            for key in keys.filter(|key| filter.has_service(key.labels())) {
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

/// Returns the start of the first minute in which many services went at once, and their namespaces. The times are sorted.
fn went_at_once<'n>(
    times: &[(Timestamp, &'n Namespace)],
    table: &Table,
) -> Option<(Timestamp, BTreeSet<&'n Namespace>)> {
    if times.len() < MANY {
        return None;
    }
    let left = table.services().filter(|one| is_answered(one)).count();
    let mut emptied: BTreeSet<&Namespace> = times.iter().map(|(_, namespace)| *namespace).collect();
    emptied.retain(|namespace| !table.services_in(namespace.as_str()).any(is_answered));
    // The services of each namespace that went within the minute before a time, which begins at this place.
    let (mut within, mut first): (BTreeMap<&Namespace, usize>, usize) = (BTreeMap::new(), 0);
    for (last, (end, namespace)) in times.iter().enumerate() {
        *within.entry(namespace).or_default() += 1;
        while end.since(times[first].0) > MINUTE {
            let left_behind = times[first].1;
            *within.entry(left_behind).or_default() -= 1;
            within.retain(|_, count| *count > 0);
            first += 1;
        }
        let count = last - first + 1;
        let is_tenth = within.len() > 1 && count >= MANY && count * TENTH >= count + left;
        if is_tenth {
            return Some((times[first].0, within.into_keys().collect()));
        }
        if within[namespace] >= MANY && emptied.contains(namespace) {
            return Some((times[first].0, [*namespace].into()));
        }
    }
    None
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{endpoint, mirror, table};

    #[test]
    fn five_within_a_minute_are_many_if_they_were_all_of_a_namespace_or_a_tenth() {
        let [prod, shop]: [Namespace; 2] = ["prod", "shop"].map(|name| name.parse().unwrap());
        let rest = |namespace: &str, count: usize| {
            let names = (0..count).map(|number| format!("db{number}"));
            let services = names.flat_map(|name| {
                let host = format!("{name}-0");
                let pod = endpoint(namespace, &name, "east", &host, &["10.96.0.1"]);
                [mirror(namespace, &name, "east"), pod]
            });
            table(&services.collect::<Vec<_>>())
        };
        let at = |second: u64, namespace| (Timestamp::from_seconds(1000 + second), namespace);
        let all_of_prod = |last| [0, 1, 2, 3, last].map(|second| at(second, &prod));
        let of_both = [(0, &prod), (1, &shop), (2, &prod), (3, &shop), (60, &prod)];
        let of_both = of_both.map(|(second, namespace)| at(second, namespace));
        let [only_prod, both] = [BTreeSet::from([&prod]), BTreeSet::from([&prod, &shop])];
        for (what, times, rest, expected) in [
            (
                "all of prod",
                &all_of_prod(60)[..],
                rest("other", 100),
                Some(&only_prod),
            ),
            ("four", &all_of_prod(60)[..4], rest("other", 1), None),
            ("a second later", &all_of_prod(61), rest("other", 1), None),
            ("one is left", &all_of_prod(60), rest("prod", 1), None),
            ("a tenth", &of_both, rest("prod", 45), Some(&both)),
            ("less than a tenth", &of_both, rest("prod", 46), None),
        ] {
            let found = went_at_once(times, &rest).map(|(_, namespaces)| namespaces);
            assert_eq!(found.as_ref(), expected, "{what}");
        }
        // What a tenant can make of the events: all within a second.
        let times = vec![at(0, &prod); 100_000];
        assert!(went_at_once(&times, &rest("other", 2000)).is_some());
    }
}
