//! Who links whom. A direction that does not work is the cause of every service that differs because of it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use strum::IntoStaticStr;

use super::causes::list_services;
use super::columns;
use super::observer::{Key, Observer};
use crate::check::finding::{Check, Finding, State, items, text};
use crate::model::ProblemKind;
use crate::view::Section;

/// The command that links two clusters.
const LINK_COMMAND: &str = "linkerd multicluster link-gen (before 2.18: link)";

/// How one cluster has another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Direction {
    /// Neither a Link nor an endpoint.
    None,
    /// `excludeClusters` names the other one.
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
}

/// The directions from each observer to each other cluster, with the services that differ because of a direction.
#[derive(Debug)]
pub(super) struct Directions<'m>(BTreeMap<(usize, String), (Direction, BTreeSet<Key<'m>>)>);

// === impl Direction ===

impl Direction {
    fn of(observer: &Observer<'_>, other: &str) -> Self {
        let excluded = <&str>::from(ProblemKind::LeftOut);
        let is_exclusion = |problem: &serde_json::Value| {
            let is_about = observer.name_of(text(problem, "cluster")) == other;
            text(problem, "kind") == excluded && is_about
        };
        if observer.problems.iter().any(is_exclusion) {
            return Self::Excluded;
        }
        let mut links = items(observer.status, "clusters").filter(|one| one["isOwn"] != true);
        let link = links.find(|one| observer.name_of(text(one, "name")) == other);
        let mut endpoints = observer.endpoints.iter();
        match link.and_then(|one| one["link"].as_str()) {
            Some("linked") => Self::Linked,
            Some("frozen") => Self::Frozen,
            Some("missing" | "unlinked") => Self::Unlinked,
            _ if endpoints.any(|one| observer.name_of(text(one, "cluster")) == other) => {
                Self::Endpoints
            }
            Some(_) => Self::Unknown,
            None => Self::None,
        }
    }

    /// Returns whether differences of services are consequences of the direction.
    fn is_cause(self) -> bool {
        !matches!(self, Self::Linked | Self::Endpoints | Self::Unknown)
    }

    /// Returns whether a cluster has another one.
    fn is_known(self) -> bool {
        !matches!(self, Self::None | Self::Excluded | Self::Unknown)
    }
}

// === impl Directions ===

impl<'m> Directions<'m> {
    pub(super) fn of(observers: &[Observer<'m>]) -> Self {
        let mut names: BTreeSet<&str> = observers.iter().map(|one| one.cluster.as_str()).collect();
        for observer in observers {
            let others = observer.other_clusters().into_iter();
            names.extend(others.map(|name| observer.name_of(name)));
        }
        let mut directions = BTreeMap::new();
        for (index, observer) in observers.iter().enumerate() {
            for name in names.iter().filter(|name| **name != observer.cluster) {
                let direction = (Direction::of(observer, name), BTreeSet::new());
                directions.insert((index, (*name).to_owned()), direction);
            }
        }
        Self(directions)
    }

    fn direction(&self, from: usize, to: &str) -> Direction {
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

    /// Returns the services that differ because of a direction.
    pub(super) fn differing(&self) -> BTreeSet<Key<'m>> {
        let directions = self.0.values();
        directions
            .flat_map(|(_, differing)| differing)
            .copied()
            .collect()
    }

    /// Makes the section with a row for each observer and a column for each cluster.
    pub(super) fn matrix(&self, observers: &[Observer<'m>]) -> Section {
        let mut section = Section::new("links", columns(&["FROM / TO"], observers));
        for (index, observer) in observers.iter().enumerate().filter(|_| observers.len() > 1) {
            let state = |other: &Observer<'_>| match other.cluster == observer.cluster {
                true => "-",
                false => self.direction(index, &other.cluster).into(),
            };
            let to: Vec<(&str, &str)> = observers
                .iter()
                .map(|one| (one.cluster.as_str(), state(one)))
                .collect();
            let cells = std::iter::once(&*observer.name).chain(to.iter().map(|(_, state)| *state));
            let to: BTreeMap<&str, &str> = to
                .iter()
                .copied()
                .filter(|(_, state)| *state != "-")
                .collect();
            let object = json!({"section": "links", "from": observer.name, "to": to});
            section.push(cells.map(str::to_owned), &object);
        }
        section
    }

    /// Returns the findings about directions that do not work.
    pub(super) fn findings(&self, observers: &[Observer<'m>]) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut working = 0;
        for ((from, to), (direction, services)) in &self.0 {
            let other = observers.iter().position(|one| one.cluster == *to);
            let back = other.map(|other| self.direction(other, &observers[*from].cluster));
            // One line for both directions.
            if back == Some(Direction::None) && *direction == Direction::None && other < Some(*from)
            {
                continue;
            }
            working += usize::from(direction.is_known() && other.is_some());
            let name = &observers[*from].name;
            let Some((sentence, hint)) = direction.fault(name, to, back, services.is_empty())
            else {
                continue;
            };
            let (state, sentence) = match (services.is_empty(), direction) {
                (true, Direction::Frozen) => (State::Attention, sentence),
                (true, _) => (State::Failing, sentence),
                (false, _) => {
                    let services = list_services(services);
                    (
                        State::Failing,
                        format!("{sentence}; therefore differs: {services}"),
                    )
                }
            };
            findings.push(Finding::new(state, Check::FleetLinks, sentence, hint));
        }
        if findings.is_empty() && working > 0 {
            let sentence = format!("no direction of a Link is missing: {working} are linked");
            findings.push(Finding::ok(Check::FleetLinks, sentence));
        }
        findings
    }
}

impl Direction {
    /// Returns what is wrong and what to do. `back` is the direction of the other cluster, if that is an observer.
    fn fault(
        self,
        from: &str,
        to: &str,
        back: Option<Self>,
        is_harmless: bool,
    ) -> Option<(String, String)> {
        let link = format!("link {to} in {from}: {LINK_COMMAND}");
        Some(match self {
            Self::Linked | Self::Endpoints | Self::Unknown => return None,
            Self::Frozen => {
                let kind = ProblemKind::Frozen;
                let sentence = kind.row().sentence;
                (
                    format!("{from} has a Link to {to}: {sentence}"),
                    kind.hint(),
                )
            }
            Self::Unlinked => (
                format!("{from} has mirrors of {to}, and no Link to it any more"),
                ProblemKind::Unlinked.hint(),
            ),
            Self::Excluded => (
                format!("{from} excludes {to}"),
                "remove it from excludeClusters, or set it in every cluster".to_owned(),
            ),
            Self::None if back.is_some_and(Self::is_known) => (
                format!(
                    "{to} has {from}, but {from} has neither a Link to {to} nor a mirror of it"
                ),
                link,
            ),
            Self::None if is_harmless => return None,
            Self::None if back == Some(Self::None) => (
                format!("{from} and {to} are not linked in either direction"),
                format!("link {to} in {from} and {from} in {to}: {LINK_COMMAND}"),
            ),
            Self::None => (
                format!("{from} has neither a Link to {to} nor a mirror of it, and others have"),
                link,
            ),
        })
    }
}
