//! Whether somebody still maintains the mirrors of each cluster (rules L1 to L4).
//!
//! Linkerd keeps the mirrors of a Link that was deleted, and stops its probe. A mirror controller that stopped leaves mirrors and
//! their liveness as they were. Both look healthy on every watch. So this server compares the clusters of mirrors with the
//! Links and with the Leases of the mirror controllers.
//!
//! [`Links::update`] is a pure function of the Links in the store, the Leases, the time, and what was remembered before. No
//! clocks are compared: a Lease is frozen if it stays as it was.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use strum::{IntoStaticStr, VariantNames};

use super::rules::Rules;
use super::store::{ServiceKeys, Store};
use crate::model::{ClusterName, Item, Lease, Line, ObjectKey, Problem, ProblemKind, Timestamp};

/// How long a Lease must stay as it was until its controller counts as stopped. The next controller takes over a Lease that
/// was not released after 32 seconds.
const STALE: Duration = Duration::from_secs(45);

/// What a process remembers of Links and Leases.
#[derive(Clone, Debug, Default)]
pub struct Links {
    /// The states after the last update.
    pub states: Arc<LinkStates>,
    /// The clusters of mirrors that no Link names.
    absences: BTreeMap<ClusterName, Absence>,
    /// Whether the Links of all namespaces have been listed once. A cluster that this list lacks is unlinked at once; later, mirrors
    /// may arrive before their Link.
    was_complete: bool,
    /// The Leases, by the key of their Link, with the last time at which this process saw that each was renewed.
    leases: BTreeMap<ObjectKey, (Lease, Timestamp)>,
    /// The time of the last poll of Leases. While polls fail, their age is not known.
    polled: Timestamp,
    /// Why Leases cannot be read, or those of some namespaces cannot.
    leases_problem: Option<Line>,
    /// The next time at which a cluster is unlinked.
    pub wake: Option<Timestamp>,
}

/// That no Link names a cluster of a mirror.
#[derive(Clone, Copy, Debug)]
struct Absence {
    /// When this process first saw that.
    since: Timestamp,
    /// The end of `links.unlinkedAfter`, until which its endpoints count. `None`: they do not any more.
    end: Option<Timestamp>,
}

/// The states of the clusters of Linkerd's mirrors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkStates {
    /// The states by the name in the Link, before aliases.
    pub clusters: BTreeMap<ClusterName, ClusterLink>,
    /// The problem that states are unknown, if a person can do something about it.
    pub(super) unknown: Option<Problem>,
}

/// A cluster of Linkerd's mirrors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterLink {
    /// Its name after aliases.
    pub cluster: ClusterName,
    /// The state of the best of its Links.
    pub state: LinkState,
    /// The problem that nobody maintains its mirrors, if that is so.
    pub(super) problem: Option<Problem>,
}

/// The state of a cluster of Linkerd's mirrors (rule L2). The names are those in metrics, reports and the manual.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum LinkState {
    /// Not known.
    Unknown,
    /// A Link names the cluster, and its Lease is renewed. Before Linkerd 2.14, there are no Leases.
    Linked,
    /// The mirror controller has stopped.
    Frozen,
    /// No Link names the cluster. Its endpoints count until the end of `links.unlinkedAfter`.
    Missing,
    /// No Link has named the cluster for `links.unlinkedAfter`, or since this process listed the Links first.
    Unlinked,
}

/// The time since which nobody maintains the mirrors of a cluster, and what was seen, if that is so.
type Neglect = Option<(Timestamp, String)>;

/// How the Links were listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkList {
    /// The files of `--file` have none. A person can do nothing about it.
    NotGiven,
    /// The API server does not define Links.
    Undefined,
    /// They are listed.
    Listed {
        /// Whether those of every namespace are, and their watches are heard from. Otherwise, a Link that is missing unlinks
        /// no further cluster.
        is_complete: bool,
    },
}

/// Why the states of all clusters are unknown.
const UNDEFINED: &str = "the API server does not define Links";
const NOTHING: &str =
    "the namespaces of links.namespaces have neither a Link nor a Lease of a mirror controller";

/// Why the state of a cluster is unknown that no Link names.
const UNREADABLE: &str = "Links of a namespace in links.namespaces cannot be read";

/// A poll of Leases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeasePoll {
    /// The Leases, by the key of their Link. `None`: they could not be read for a while.
    pub leases: Option<BTreeMap<ObjectKey, Lease>>,
    /// Why they could not be read, or those of some namespaces may not be.
    pub problem: Option<Line>,
}

// === impl Links ===

impl Links {
    /// Returns whether no Link names the clusters of an item any more (rule L3). A member of this cluster has none, and excluded
    /// clusters do not count.
    pub(super) fn is_item_unlinked(&self, item: &Item, rules: &Rules) -> bool {
        let mut linked = item.linked.iter().filter(|link| !rules.excludes(link));
        let is_unlinked = |link| self.states.is_unlinked(link);
        !item.has_own && linked.clone().next().is_some() && linked.all(is_unlinked)
    }

    /// Records a poll of the Leases.
    pub fn note_leases(&mut self, poll: LeasePoll, now: Timestamp) {
        self.leases_problem = poll.problem;
        let Some(leases) = poll.leases else { return };
        let mut last = std::mem::take(&mut self.leases);
        let leases = leases.into_iter().map(|(link, lease)| {
            let unchanged = last.remove(&link);
            // A released Lease that changes is not renewed.
            let unchanged = unchanged.filter(|(last, _)| *last == lease || !lease.is_held);
            let renewed = unchanged.map_or(now, |(_, renewed)| renewed);
            (link, (lease, renewed))
        });
        self.leases = leases.collect();
        self.polled = now;
    }

    /// Determines the states. Returns `None` if they are as before, or else the services with endpoints that are down because of
    /// their cluster, or are not any more.
    pub fn update(
        &mut self,
        store: &Store,
        list: LinkList,
        rules: &Rules,
        now: Timestamp,
    ) -> Option<ServiceKeys> {
        let mut named: BTreeMap<&ClusterName, Vec<&ObjectKey>> = BTreeMap::new();
        for (link, cluster) in store.links() {
            named.entry(cluster).or_default().push(link);
        }
        let (is_complete, unknown) = match list {
            LinkList::Listed { .. } if named.is_empty() && self.leases.is_empty() => {
                (false, Some(NOTHING))
            }
            LinkList::Listed { is_complete } => (is_complete, None),
            LinkList::NotGiven | LinkList::Undefined => (false, Some(UNDEFINED)),
        };
        let mut absences = BTreeMap::new();
        let mut clusters = BTreeMap::new();
        let of_mirrors = store.linked_clusters().filter(|link| !rules.excludes(link));
        for link in of_mirrors.filter(|_| list != LinkList::NotGiven) {
            let (state, neglect) = match (unknown, named.get(link)) {
                (Some(_), _) => (LinkState::Unknown, None),
                (None, Some(links)) => self.state_of(links),
                (None, None) => match self.absence_of(link, is_complete, rules, now) {
                    Some(absence) => {
                        absences.insert(link.clone(), absence);
                        absence.state()
                    }
                    // A Link that cannot be read may name it.
                    None => (LinkState::Unknown, None),
                },
            };
            let cluster = ClusterLink::new(rules.name_of(link), state, neglect);
            clusters.insert(link.clone(), cluster);
        }
        let ends = absences.values().filter_map(|absence| absence.end);
        self.wake = ends.min().filter(|_| is_complete);
        self.was_complete |= is_complete;
        // Without a definition of Links, nothing is new.
        if let LinkList::Listed { .. } = list {
            self.absences = absences;
        }
        let unknown = self.unknown_problem(&clusters, unknown);
        let last = std::mem::replace(&mut self.states, Arc::new(LinkStates { clusters, unknown }));
        let all = last.clusters.keys().chain(self.states.clusters.keys());
        let turned = all.filter(|link| last.is_unlinked(link) != self.states.is_unlinked(link));
        let turned = turned.cloned().collect();
        (last != self.states).then(|| store.services_linked_to(&turned))
    }

    /// Returns the absence of a cluster that no Link names. None begins while a namespace cannot be read.
    fn absence_of(
        &self,
        link: &ClusterName,
        is_complete: bool,
        rules: &Rules,
        now: Timestamp,
    ) -> Option<Absence> {
        let known = self.absences.get(link).copied();
        if !is_complete {
            return known;
        }
        let delay = match self.was_complete {
            true => rules.unlinked_after,
            false => Duration::ZERO,
        };
        let absence = known.unwrap_or(Absence {
            since: now,
            end: Some(now.after(delay)),
        });
        Some(Absence {
            end: absence.end.filter(|end| *end > now),
            ..absence
        })
    }

    /// Returns the state of a cluster with Links: that of the best one. A Link that is not frozen is better.
    fn state_of(&self, links: &[&ObjectKey]) -> (LinkState, Neglect) {
        let frozen = links.iter().map(|link| {
            let (lease, renewed) = self.leases.get(link)?;
            let released = match lease.is_held {
                true => "",
                false => ", and its controller released it",
            };
            let detail = || format!("Lease {} is not renewed{released}", Lease::name_of(link));
            let is_frozen = renewed.after(STALE) <= self.polled;
            is_frozen.then(|| (*renewed, detail()))
        });
        let all = frozen.collect::<Option<Vec<_>>>().unwrap_or_default();
        match all.into_iter().min_by_key(|(since, _)| Reverse(*since)) {
            Some(frozen) => (LinkState::Frozen, Some(frozen)),
            None => (LinkState::Linked, None),
        }
    }

    /// Returns the problem that states are unknown, if a person can do something about it. `reason` is why all of them are.
    fn unknown_problem(
        &self,
        clusters: &BTreeMap<ClusterName, ClusterLink>,
        reason: Option<&str>,
    ) -> Option<Problem> {
        let mut states = clusters.values().map(|one| one.state);
        let is_unknown = states.any(|state| state == LinkState::Unknown);
        let reason = is_unknown.then(|| reason.unwrap_or(UNREADABLE).to_owned());
        let leases = self.leases_problem.as_ref();
        let refused = leases.map(|reason| format!("Leases cannot be read: {reason}"));
        let detail = reason.or(refused).filter(|_| !clusters.is_empty())?;
        Some(Problem::new(ProblemKind::LinksUnknown, detail))
    }
}

// === impl Absence ===

impl Absence {
    /// Returns the state of the cluster.
    fn state(self) -> (LinkState, Neglect) {
        let (state, detail) = match self.end {
            Some(end) => {
                let delay = end.since(self.since).as_secs();
                let detail = format!("its endpoints count for {delay} s");
                (LinkState::Missing, detail)
            }
            None => (LinkState::Unlinked, "its endpoints are down".to_owned()),
        };
        (state, Some((self.since, detail)))
    }
}

// === impl ClusterLink ===

impl ClusterLink {
    /// Makes a cluster with its state.
    pub(super) fn new(cluster: ClusterName, state: LinkState, neglect: Neglect) -> Self {
        let kind = match state {
            LinkState::Frozen => ProblemKind::Frozen,
            _ => ProblemKind::Unlinked,
        };
        let problem = |(since, detail)| {
            let problem = Problem::new(kind, detail).of_cluster(&cluster);
            problem.holds_since(Some(since))
        };
        Self {
            problem: neglect.map(problem),
            cluster,
            state,
        }
    }
}

// === impl LinkStates ===

impl LinkStates {
    /// Returns whether the endpoints of a cluster, as its Link names it, are down because no Link names it any more.
    fn is_unlinked(&self, link: &ClusterName) -> bool {
        let state = self.clusters.get(link).map(|one| one.state);
        state == Some(LinkState::Unlinked)
    }

    /// Returns the problems of links, sorted: one for each cluster that nobody maintains, and one if the states are unknown.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let of_clusters = self.clusters.values().flat_map(|one| &one.problem);
        let mut problems: Vec<Problem> = of_clusters.chain(&self.unknown).cloned().collect();
        // Several Links can have one name after aliases.
        problems.sort_by(|one, other| one.cmp(other).then(one.since().cmp(&other.since())));
        problems.dedup();
        problems
    }
}

#[cfg(test)]
mod tests;
