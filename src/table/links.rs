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

use strum::{Display, IntoStaticStr, VariantNames};

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
    /// What was seen when the Links were listed last: the clusters that they named, as [`LinkState::Linked`], and those of
    /// mirrors that no Link named, as [`LinkState::Missing`] or [`LinkState::Unlinked`].
    seen: BTreeMap<ClusterName, LinkState>,
    /// The Leases, by the key of their Link, with the last time at which this process saw that each was renewed.
    leases: BTreeMap<ObjectKey, (Lease, Timestamp)>,
    /// The time of the last poll of Leases. While polls fail, their age is not known.
    polled: Timestamp,
    /// Why Leases cannot be read, or those of some namespaces cannot.
    leases_problem: Option<Line>,
    /// The next time at which a cluster is unlinked.
    pub wake: Option<Timestamp>,
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
}

/// The state of a cluster of Linkerd's mirrors (rule L2). The names are those in metrics, reports and the manual.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum LinkState {
    /// Not known.
    Unknown(UnknownReason),
    /// A Link names the cluster, and its Lease is renewed. Before Linkerd 2.14, there are no Leases.
    Linked,
    /// The mirror controller has stopped.
    Frozen {
        /// The last time at which this process saw that the Lease was renewed.
        since: Timestamp,
        /// What was seen of the Lease. A controller that is stopped on purpose releases it.
        detail: Line,
    },
    /// No Link names the cluster. Its endpoints count until `end`.
    Missing {
        /// When this process first saw that.
        since: Timestamp,
        /// The end of `links.unlinkedAfter`.
        end: Timestamp,
    },
    /// No Link has named the cluster for `links.unlinkedAfter`, or since this process listed the Links first.
    Unlinked {
        /// When this process first saw that no Link names it.
        since: Timestamp,
    },
}

/// The reason for which the state of a cluster is unknown, as a part of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
pub enum UnknownReason {
    /// The API server does not define Links.
    #[strum(to_string = "the API server does not define Links")]
    Undefined,
    /// The files of `--file` have no Links. A person can do nothing about it.
    NotGiven,
    /// The namespaces of `links.namespaces` have neither a Link nor a Lease of a mirror controller.
    #[strum(
        to_string = "the namespaces of links.namespaces have neither a Link nor a Lease of a mirror controller"
    )]
    Nothing,
    /// No Link that can be read names the cluster, but a namespace of `links.namespaces` cannot be read.
    #[strum(to_string = "Links of a namespace in links.namespaces cannot be read")]
    Unreadable,
}

/// How the Links were listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkList {
    /// There are none, for a reason.
    None(UnknownReason),
    /// They are listed.
    Listed {
        /// Whether those of every namespace are, and their watches are heard from. Otherwise, a Link that is missing unlinks
        /// no further cluster.
        is_complete: bool,
    },
}

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
    /// Returns whether no Link names the clusters of an item any more (rule L3). A member of this cluster has none.
    pub(super) fn is_item_unlinked(&self, item: &Item) -> bool {
        let linked = &item.linked;
        let is_unlinked = |link| self.states.is_unlinked(link);
        !item.has_own && !linked.is_empty() && linked.iter().all(is_unlinked)
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
        let is_nothing = named.is_empty() && self.leases.is_empty();
        let linked = named
            .keys()
            .map(|link| ((*link).clone(), LinkState::Linked));
        let mut seen: BTreeMap<_, _> = linked.collect();
        let mut clusters = BTreeMap::new();
        for link in store.linked_clusters() {
            let cluster = rules.name_of(link);
            if rules.excludes(link) {
                continue;
            }
            let state = match (list, named.get(link)) {
                (LinkList::None(reason), _) => LinkState::Unknown(reason),
                _ if is_nothing => LinkState::Unknown(UnknownReason::Nothing),
                (_, Some(links)) => self.state_of(links),
                (LinkList::Listed { is_complete }, None) => {
                    let state = self.absence_of(link, is_complete, rules, now);
                    seen.insert(link.clone(), state.clone());
                    match state {
                        // A Link that is not listed may name it.
                        LinkState::Missing { since, end } if !is_complete && since == end => {
                            LinkState::Unknown(UnknownReason::Unreadable)
                        }
                        state => state,
                    }
                }
            };
            clusters.insert(link.clone(), ClusterLink { cluster, state });
        }
        let ends = seen.values().filter_map(|state| match state {
            LinkState::Missing { end, .. } => Some(*end),
            _ => None,
        });
        let is_complete = list == LinkList::Listed { is_complete: true };
        self.wake = ends.min().filter(|_| is_complete);
        // Without a definition of Links, nothing is new.
        if let LinkList::Listed { .. } = list {
            self.seen = seen;
        }
        let unknown = unknown_problem(&clusters, self.leases_problem.as_ref());
        let next = LinkStates { clusters, unknown };
        if *self.states == next {
            return None;
        }
        let last = std::mem::replace(&mut self.states, Arc::new(next));
        let all = last.clusters.keys().chain(self.states.clusters.keys());
        let turned = all.filter(|link| last.is_unlinked(link) != self.states.is_unlinked(link));
        Some(store.services_linked_to(&turned.cloned().collect()))
    }

    /// Returns the state of a cluster that no Link names. It is unlinked at once, unless this process saw its Link go.
    fn absence_of(
        &self,
        cluster: &ClusterName,
        is_complete: bool,
        rules: &Rules,
        now: Timestamp,
    ) -> LinkState {
        let missing_until = |end| LinkState::Missing { since: now, end };
        let state = match self.seen.get(cluster) {
            Some(LinkState::Linked) => missing_until(now.after(rules.unlinked_after)),
            Some(state) => state.clone(),
            None => missing_until(now),
        };
        match state {
            LinkState::Missing { since, end } if is_complete && end <= now => {
                LinkState::Unlinked { since }
            }
            state => state,
        }
    }

    /// Returns the state of a cluster with Links: that of the best one.
    fn state_of(&self, links: &[&ObjectKey]) -> LinkState {
        let frozen = links.iter().map(|link| {
            let (lease, renewed) = self.leases.get(link)?;
            let released = if lease.is_held {
                ""
            } else {
                ", and its controller released it"
            };
            let detail = || format!("Lease {} is not renewed{released}", Lease::name_of(link));
            let is_frozen = renewed.after(STALE) <= self.polled;
            is_frozen.then(|| (*renewed, detail()))
        });
        // A Link that is not frozen is better.
        let all = frozen.collect::<Option<Vec<_>>>().unwrap_or_default();
        let best = all.into_iter().min_by_key(|(since, _)| Reverse(*since));
        best.map_or(LinkState::Linked, |(since, detail)| LinkState::Frozen {
            since,
            detail: detail.into(),
        })
    }
}

/// Returns the problem that states are unknown, if a person can do something about it.
fn unknown_problem(
    clusters: &BTreeMap<ClusterName, ClusterLink>,
    leases_problem: Option<&Line>,
) -> Option<Problem> {
    let mut reasons = clusters.values().filter_map(|one| match one.state {
        LinkState::Unknown(UnknownReason::NotGiven) => None,
        LinkState::Unknown(reason) => Some(reason.to_string()),
        _ => None,
    });
    let leases = leases_problem.filter(|_| !clusters.is_empty());
    let refused = leases.map(|reason| format!("Leases cannot be read: {reason}"));
    let detail = reasons.next().or(refused)?;
    Some(Problem::new(ProblemKind::LinksUnknown, detail))
}

// === impl LinkStates ===

impl LinkStates {
    /// Returns whether the endpoints of a cluster, as its Link names it, are down because no Link names it any more.
    fn is_unlinked(&self, link: &ClusterName) -> bool {
        let state = self.clusters.get(link).map(|one| &one.state);
        matches!(state, Some(LinkState::Unlinked { .. }))
    }
}

#[cfg(test)]
mod tests;
