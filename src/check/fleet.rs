//! Comparison of several clusters: `global-dns fleet`.
//!
//! [`compare`] is a pure function of the documents of the clusters' servers. `app` gathers them. Addresses differ from cluster
//! to cluster and are never compared. One cause is one line: services that differ only because a Link is missing are counted
//! in the line of that Link.

mod clusters;
mod document;
mod links;
mod names;
mod report;
mod servers;
mod services;
mod settings;

use std::collections::{BTreeMap, BTreeSet};

pub use document::{ServerStatus, ServerTable};
pub use report::{ClusterRow, Fleet};

use super::finding::{Check, Diagnosis, Fact, Finding, list_some};
use crate::model::ProblemKind;
use crate::report::{ProblemReport, ServiceReport};

/// One cluster of a fleet.
#[derive(Clone, Debug)]
pub struct Member {
    /// The context, or the name that a flag gives to a server or to files.
    pub context: String,
    /// What its server says, or why it cannot be read.
    pub facts: Fact<MemberFacts>,
}

/// What the server of a cluster says.
#[derive(Clone, Debug)]
pub struct MemberFacts {
    /// The state of the replica that the table is from.
    pub status: ServerStatus,
    /// The table.
    pub table: ServerTable,
    /// All replicas, also the one that the table is from.
    pub replicas: Vec<ReplicaFacts>,
}

/// What one replica says.
#[derive(Clone, Debug)]
pub struct ReplicaFacts {
    /// Its pod, or how it names itself.
    pub name: String,
    /// The unique ID of its pod.
    pub id: Option<String>,
    /// Its state.
    pub status: Fact<ServerStatus>,
    /// The difference of its clock from that of this machine in seconds, if it is known.
    pub clock_ahead: Option<i64>,
}

/// The namespace and the name of a service.
type Key<'m> = (&'m str, &'m str);

/// One cause of a difference. Several services may differ because of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cause {
    /// What follows the services in the sentence.
    predicate: String,
    hint: String,
    problem: Option<ProblemKind>,
}

/// The services that differ, by their causes.
#[derive(Debug)]
struct Causes<'m> {
    check: Check,
    services: BTreeMap<Cause, BTreeSet<Key<'m>>>,
}

/// Compares the clusters of a fleet.
pub fn compare(members: &[Member]) -> Fleet {
    let (read, mut findings) = clusters::distinct(members);
    findings.extend(servers::check(&read));
    let (clusters, of_names) = names::canonical(&read);
    findings.extend(of_names);
    let mut links = links::Links::of(&clusters);
    let of_services = services::compare(&clusters, &mut links);
    let of_settings = settings::compare(&clusters, &of_services);
    findings.extend(links.findings(&clusters));
    findings.extend(of_services.findings);
    findings.extend(of_settings);
    findings.sort_by_key(|finding| finding.check as usize);
    Fleet::new(members, &clusters, &links, Diagnosis(findings))
}

/// Joins names for a sentence: `a`, `a and b`, `a, b and c`.
fn join<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    let names: Vec<S> = names.into_iter().collect();
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        names => names.concat(),
    }
}

/// Returns the verb form for a number of subjects.
fn verb<'v>(count: usize, one: &'v str, several: &'v str) -> &'v str {
    if count == 1 { one } else { several }
}

/// Describes clusters that differ: `5 in hub and west; 20 in east`.
fn describe<T: std::fmt::Display, S: AsRef<str>>(groups: &BTreeMap<T, Vec<S>>) -> String {
    let groups = groups
        .iter()
        .map(|(value, clusters)| format!("{value} in {}", join(clusters)));
    groups.collect::<Vec<_>>().join("; ")
}

// === impl Causes ===

impl<'m> Causes<'m> {
    fn new(check: Check) -> Self {
        Self {
            check,
            services: BTreeMap::new(),
        }
    }

    /// Adds a service that differs.
    fn add(&mut self, service: Key<'m>, predicate: String, hint: impl Into<String>) {
        self.add_problem(service, predicate, hint, None);
    }

    /// Adds a service that differs because of a problem.
    fn add_problem(
        &mut self,
        service: Key<'m>,
        predicate: String,
        hint: impl Into<String>,
        kind: Option<ProblemKind>,
    ) {
        let cause = Cause {
            predicate,
            hint: hint.into(),
            problem: kind,
        };
        self.services.entry(cause).or_default().insert(service);
    }

    /// Returns a red finding for each cause.
    fn findings(self) -> impl Iterator<Item = Finding> {
        let check = self.check;
        self.services.into_iter().map(move |(cause, services)| {
            let sentence = format!("{}: {}", list_services(&services), cause.predicate);
            Finding {
                problem: cause.problem,
                ..check.red(sentence, cause.hint)
            }
        })
    }
}

/// Lists services, with their number if there are several.
fn list_services(services: &BTreeSet<Key<'_>>) -> String {
    let names = services
        .iter()
        .map(|(namespace, name)| format!("{namespace}/{name}"));
    let listed = list_some(names);
    match services.len() {
        1 => listed,
        count => format!("{count} services ({listed})"),
    }
}

/// Returns the key of a service.
fn key_of(service: &ServiceReport) -> Key<'_> {
    (&service.namespace, &service.service)
}

/// Returns whether a problem concerns a service.
fn concerns(problem: &ProblemReport, (namespace, service): Key<'_>) -> bool {
    let name = problem
        .service
        .as_deref()
        .and_then(|name| name.split_once('/'));
    name == Some((namespace, service))
}

#[cfg(test)]
mod tests;
