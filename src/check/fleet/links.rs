//! Who links whom. A direction that does not work is the cause of every service that differs because of it.

use std::collections::{BTreeMap, BTreeSet};

use strum::IntoStaticStr;

use super::causes::{Key, list_services};
use super::clusters::ComparedCluster;
use super::names::names_of;
use crate::check::{Check, Finding};
use crate::model::ProblemKind;
use crate::report::EndpointReport;

const CHECK: Check = Check::FleetLinks;
/// The command that links two clusters.
const LINK_COMMAND: &str = "linkerd multicluster link-gen (before 2.18: link)";

/// How one cluster has another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Direction {
    /// Neither a Link nor an endpoint.
    None,
    /// No Link, and `excludeClusters` names the other one.
    Excluded,
    /// A Link, and a mirror controller that works, as far as it is known.
    Linked,
    /// A Link without a mirror controller that works.
    Frozen,
    /// Endpoints, and no Link any more.
    Unlinked,
    /// Endpoints. Links are not known.
    Endpoints,
    /// The state is unknown, and there is no endpoint.
    Unknown,
    /// The table is not current, so that nothing is compared.
    #[strum(serialize = "unknown")]
    NotCurrent,
}

/// The directions from each cluster to each other one, with the services that differ because of a direction.
#[derive(Debug)]
pub(super) struct Directions<'m>(BTreeMap<(usize, String), (Direction, BTreeSet<Key<'m>>)>);

// === impl Direction ===

impl Direction {
    fn of(cluster: &ComparedCluster<'_>, other: &str) -> Self {
        if !cluster.is_current() {
            return Self::NotCurrent;
        }
        let is_excluded = |kind| kind == ProblemKind::LeftOut;
        let mut problems = cluster.problems().iter();
        if problems.any(|one| is_excluded(one.kind) && cluster.is_about(one, other)) {
            return Self::Excluded;
        }
        let mut linked = cluster.facts.status.clusters.iter();
        let link = linked.find(|one| !one.is_own && cluster.name_of(&one.name) == other);
        let mut endpoints = cluster.services.values().flat_map(|one| &one.endpoints);
        let is_of_other = |endpoint: &EndpointReport| cluster.name_of(&endpoint.cluster) == other;
        match link.and_then(|one| one.link.as_deref()) {
            Some("linked") => Self::Linked,
            Some("frozen") => Self::Frozen,
            Some("missing" | "unlinked") => Self::Unlinked,
            _ if endpoints.any(is_of_other) => Self::Endpoints,
            Some(_) => Self::Unknown,
            None => Self::None,
        }
    }

    /// Returns whether differences of services are consequences of the direction.
    fn is_cause(self) -> bool {
        match self {
            Self::None | Self::Excluded | Self::Frozen | Self::Unlinked | Self::NotCurrent => true,
            Self::Linked | Self::Endpoints | Self::Unknown => false,
        }
    }

    /// Returns whether a cluster has another one.
    fn is_known(self) -> bool {
        match self {
            Self::Linked | Self::Frozen | Self::Unlinked | Self::Endpoints => true,
            Self::None | Self::Excluded | Self::Unknown | Self::NotCurrent => false,
        }
    }

    /// Returns the word in the matrix.
    pub(super) fn name(self) -> &'static str {
        self.into()
    }
}

// === impl Directions ===

impl<'m> Directions<'m> {
    pub(super) fn of(clusters: &[ComparedCluster<'m>]) -> Self {
        let mut names: BTreeSet<&str> = clusters.iter().map(|one| one.name.as_str()).collect();
        for cluster in clusters {
            let others = names_of(cluster.facts).into_iter();
            names.extend(others.map(|name| cluster.name_of(name)));
        }
        let mut directions = BTreeMap::new();
        for (index, cluster) in clusters.iter().enumerate() {
            for name in names.iter().filter(|name| **name != cluster.name) {
                let direction = (Direction::of(cluster, name), BTreeSet::new());
                directions.insert((index, (*name).to_owned()), direction);
            }
        }
        Self(directions)
    }

    /// Returns the direction from a cluster to another one.
    pub(super) fn direction(&self, from: usize, to: &str) -> Direction {
        let known = self.0.get(&(from, to.to_owned()));
        known.map_or(Direction::None, |(direction, _)| *direction)
    }

    /// Returns whether a difference of a service is a consequence of a direction, and counts it.
    pub(super) fn is_cause(&mut self, from: usize, to: &str, service: Key<'m>) -> bool {
        match self.0.get_mut(&(from, to.to_owned())) {
            Some((direction, differing)) if direction.is_cause() => {
                differing.insert(service);
                true
            }
            _ => false,
        }
    }

    /// Returns whether a service differs because of a direction from a cluster.
    pub(super) fn has(&self, from: usize, service: &Key<'m>) -> bool {
        let mut directions = self.0.iter();
        directions.any(|((of, _), (_, differing))| *of == from && differing.contains(service))
    }

    /// Returns the services that differ because of a direction.
    pub(super) fn differing(&self) -> impl Iterator<Item = Key<'m>> {
        let directions = self.0.values();
        directions.flat_map(|(_, differing)| differing).copied()
    }

    /// Returns the findings about directions that do not work.
    pub(super) fn findings(&self, clusters: &[ComparedCluster<'m>]) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut working = 0;
        for ((from, to), (direction, services)) in &self.0 {
            let other = clusters.iter().position(|one| one.name == *to);
            let back = other.map(|other| self.direction(other, &clusters[*from].name));
            let is_linked_back = back.is_some_and(Direction::is_known);
            let is_linked_neither = back == Some(Direction::None);
            // One line for both directions.
            if is_linked_neither && other.is_some_and(|other| other < *from) {
                continue;
            }
            let name = &clusters[*from].name;
            let (sentence, hint) = match direction {
                Direction::Linked | Direction::Endpoints => {
                    working += usize::from(other.is_some());
                    continue;
                }
                Direction::Unknown | Direction::NotCurrent => continue,
                Direction::Frozen => (
                    format!(
                        "{name} has a Link to {to}: {}",
                        ProblemKind::Frozen.row().sentence
                    ),
                    ProblemKind::Frozen.hint(),
                ),
                Direction::Unlinked => (
                    format!("{name} has mirrors of {to}, and no Link to it any more"),
                    ProblemKind::Unlinked.hint(),
                ),
                Direction::Excluded => (
                    format!("{name} excludes {to}"),
                    "remove it from excludeClusters, or set the flag in every cluster".to_owned(),
                ),
                Direction::None if is_linked_back => (
                    format!(
                        "{to} has {name}, but {name} has neither a Link to {to} nor a mirror of it"
                    ),
                    format!("link {to} in {name}: {LINK_COMMAND}"),
                ),
                Direction::None if services.is_empty() => continue,
                Direction::None if is_linked_neither => (
                    format!("{name} and {to} are not linked in either direction"),
                    format!("link {to} in {name} and {name} in {to}: {LINK_COMMAND}"),
                ),
                Direction::None => (
                    format!(
                        "{name} has neither a Link to {to} nor a mirror of it, and others have"
                    ),
                    format!("link {to} in {name}: {LINK_COMMAND}"),
                ),
            };
            findings.push(if !services.is_empty() {
                let services = list_services(services);
                CHECK.red(format!("{sentence}; therefore differs: {services}"), hint)
            } else if *direction == Direction::Frozen {
                CHECK.yellow(sentence, hint)
            } else {
                CHECK.red(sentence, hint)
            });
        }
        if findings.is_empty() && clusters.len() > 1 {
            let all = clusters.len() * (clusters.len() - 1);
            let sentence =
                format!("no direction of a Link is missing: {working} of {all} are linked");
            findings.push(CHECK.green(sentence));
        }
        findings
    }
}
