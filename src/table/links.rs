//! Whether somebody still maintains the mirrors of each cluster (rules L1 to L4).
//!
//! Linkerd keeps the mirrors of a Link that was deleted, and stops its probe. A mirror controller that stopped leaves mirrors and
//! their liveness as they were. Both look healthy on every watch. So this server compares the clusters of mirrors with the
//! Links and with the Leases of the mirror controllers.
//!
//! [`Links::update`] is a pure function of the Links in the store, the Leases, the time, and what was remembered before. No
//! clocks are compared: a Lease is frozen if it stays as it was.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::rules::Rules;
use super::store::{ServiceKeys, Store};
use crate::model::{ClusterName, Item, Lease, Line, ObjectKey, Timestamp};

/// How long a Lease must stay as it was until its controller counts as stopped. The next controller takes over a Lease that
/// was not released after 32 seconds.
const STALE: Duration = Duration::from_secs(45);

/// What a process remembers of Links and Leases.
#[derive(Clone, Debug, Default)]
pub struct Links {
    /// The states after the last update.
    states: Arc<LinkStates>,
    /// The clusters that Links named when they were listed last.
    named: BTreeSet<ClusterName>,
    /// The clusters of mirrors that no Link names.
    absences: BTreeMap<ClusterName, Absence>,
    /// The Leases, by the key of their Link.
    leases: Leases,
    /// Why they cannot be read, or those of some namespaces cannot.
    leases_problem: Option<Line>,
}

/// The states of the clusters of Linkerd's mirrors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkStates {
    /// The states by the name in the Link, before aliases.
    pub clusters: BTreeMap<ClusterName, ClusterLink>,
    /// Why the Leases cannot be read, if they cannot.
    pub leases_problem: Option<Line>,
    /// The time since which states are unknown, if that is a problem.
    pub unknown_since: Option<Timestamp>,
}

/// A cluster of Linkerd's mirrors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterLink {
    /// Its name after aliases.
    pub cluster: ClusterName,
    /// The state of the best of its Links.
    pub state: LinkState,
}

/// The state of a cluster of Linkerd's mirrors (rule L2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// Not known.
    Unknown(UnknownReason),
    /// A Link names the cluster.
    Linked {
        /// Whether its mirror controller is known to work. Before Linkerd 2.14, there are no Leases.
        is_verified: bool,
    },
    /// The mirror controller has stopped.
    Frozen {
        /// The last time at which this process saw that the Lease was renewed.
        since: Timestamp,
        /// The Lease, as `namespace/name`.
        lease: Line,
        /// Whether the controller released it, as it does when it is stopped on purpose.
        is_released: bool,
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

/// The reason for which the state of a cluster is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownReason {
    /// The API server does not define Links.
    Undefined,
    /// The files of `--file` have no Links.
    NotGiven,
    /// The namespaces of `links.namespaces` have neither a Link nor a Lease of a mirror controller.
    Nothing,
    /// No Link that can be read names the cluster, but a namespace of `links.namespaces` cannot be read.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeasePoll {
    /// They could not be read for a while, with the reason.
    Failed(Line),
    /// They were read.
    Read {
        /// The Leases, by the key of their Link.
        leases: BTreeMap<ObjectKey, Lease>,
        /// Why those of some namespaces may not be read.
        refused: Option<Line>,
    },
}

/// A cluster that no Link names.
#[derive(Clone, Copy, Debug)]
struct Absence {
    since: Timestamp,
    /// When the cluster is unlinked: at once, unless this process saw its Link go.
    end: Timestamp,
    is_unlinked: bool,
}

/// A Lease, with the times at which this process saw it.
#[derive(Clone, Debug)]
struct LeaseTimer {
    lease: Lease,
    /// The last time at which it was renewed.
    renewed: Timestamp,
    /// The time of the last poll. While polls fail, the age of a Lease is not known.
    seen: Timestamp,
}

type Leases = BTreeMap<ObjectKey, LeaseTimer>;

// === impl Links ===

impl Links {
    /// Returns the states after the last update.
    pub fn states(&self) -> &Arc<LinkStates> {
        &self.states
    }

    /// Returns whether no Link names the clusters of an item any more (rule L3). A member of this cluster has none.
    pub(super) fn is_item_unlinked(&self, item: &Item) -> bool {
        let linked = item.linked();
        !item.has_own() && !linked.is_empty() && linked.iter().all(|link| self.is_unlinked(link))
    }

    /// Returns whether the endpoints of a cluster are down because no Link names it.
    pub(super) fn is_unlinked(&self, cluster: &ClusterName) -> bool {
        self.states.is_unlinked(cluster)
    }

    /// Records a poll of the Leases.
    pub fn note_leases(&mut self, poll: LeasePoll, now: Timestamp) {
        let read = match poll {
            LeasePoll::Failed(reason) => {
                self.leases_problem = Some(reason);
                return;
            }
            LeasePoll::Read { leases, refused } => {
                self.leases_problem = refused;
                leases
            }
        };
        let mut last = std::mem::take(&mut self.leases);
        let leases = read.into_iter().map(|(link, lease)| {
            let unchanged = last.remove(&link);
            // A released Lease that changes is not renewed.
            let unchanged = unchanged.filter(|last| last.lease == lease || !lease.is_held);
            let renewed = unchanged.map_or(now, |last| last.renewed);
            let timer = LeaseTimer {
                lease,
                renewed,
                seen: now,
            };
            (link, timer)
        });
        self.leases = leases.collect();
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
        let (unknown, is_complete) = match list {
            LinkList::None(reason) => (Some(reason), false),
            LinkList::Listed { .. } if named.is_empty() && self.leases.is_empty() => {
                (Some(UnknownReason::Nothing), false)
            }
            LinkList::Listed { is_complete } => (None, is_complete),
        };
        let mut absences = BTreeMap::new();
        let mut clusters = BTreeMap::new();
        for link in store.linked_clusters() {
            let cluster = rules.name_of(link);
            if rules.excluded_clusters.contains(&cluster) {
                continue;
            }
            let state = match (unknown, named.get(link)) {
                (Some(reason), _) => LinkState::Unknown(reason),
                (None, Some(links)) => self.best_of(links),
                (None, None) => {
                    let mut absence = self.absence_of(link, rules, now);
                    absence.is_unlinked |= is_complete && absence.end <= now;
                    absences.insert(link.clone(), absence);
                    absence.state(is_complete)
                }
            };
            clusters.insert(link.clone(), ClusterLink { cluster, state });
        }
        // Without a definition of Links, nothing is new.
        if let LinkList::Listed { .. } = list {
            self.absences = absences;
            self.named = named.into_keys().cloned().collect();
        }
        let mut next = LinkStates {
            clusters,
            leases_problem: self.leases_problem.clone(),
            unknown_since: None,
        };
        let is_unknown = next.unknown_reason().is_some();
        next.unknown_since = is_unknown.then(|| self.states.unknown_since.unwrap_or(now));
        if *self.states == next {
            return None;
        }
        let last = std::mem::replace(&mut self.states, Arc::new(next));
        let all = last.clusters.keys().chain(self.states.clusters.keys());
        let turned = all.filter(|cluster| last.is_unlinked(cluster) != self.is_unlinked(cluster));
        Some(store.services_linked_to(&turned.cloned().collect()))
    }

    /// Returns the next time at which a cluster is unlinked, if the Links are listed then.
    pub fn next_end(&self) -> Option<Timestamp> {
        let open = self.absences.values().filter(|one| !one.is_unlinked);
        open.map(|absence| absence.end).min()
    }

    /// Returns since when no Link names a cluster.
    fn absence_of(&self, cluster: &ClusterName, rules: &Rules, now: Timestamp) -> Absence {
        let known = self.absences.get(cluster).copied();
        known.unwrap_or_else(|| Absence {
            since: now,
            end: if self.named.contains(cluster) {
                now.after(rules.unlinked_after)
            } else {
                now
            },
            is_unlinked: false,
        })
    }

    /// Returns the state of a cluster with Links: that of the best one.
    fn best_of(&self, links: &[&ObjectKey]) -> LinkState {
        let states = links.iter().map(|link| self.state_of(link));
        let rank = |state: &LinkState| match state {
            LinkState::Linked { is_verified } => (u8::from(!is_verified), Reverse(Timestamp(0))),
            LinkState::Frozen { since, .. } => (2, Reverse(*since)),
            LinkState::Unknown(_) | LinkState::Missing { .. } | LinkState::Unlinked { .. } => {
                (3, Reverse(Timestamp(0)))
            }
        };
        let best = states.min_by_key(rank);
        best.unwrap_or(LinkState::Linked { is_verified: false })
    }

    /// Returns the state of a Link that exists.
    fn state_of(&self, link: &ObjectKey) -> LinkState {
        match self.leases.get(link) {
            Some(timer) if timer.renewed.after(STALE) <= timer.seen => LinkState::Frozen {
                since: timer.renewed,
                lease: Lease::name_of(link).into(),
                is_released: !timer.lease.is_held,
            },
            timer => LinkState::Linked {
                is_verified: timer.is_some(),
            },
        }
    }
}

// === impl LinkStates ===

impl LinkStates {
    /// Returns whether the endpoints of a cluster, as its Link names it, are down because no Link names it any more.
    pub fn is_unlinked(&self, link: &ClusterName) -> bool {
        let state = self.clusters.get(link).map(|one| &one.state);
        matches!(state, Some(LinkState::Unlinked { .. }))
    }
}

// === impl LinkState ===

impl LinkState {
    /// The names of the states in metrics, reports and the manual.
    pub const NAMES: [&str; 5] = ["linked", "frozen", "missing", "unlinked", "unknown"];

    /// Returns the state's name.
    pub fn name(&self) -> &'static str {
        let [linked, frozen, missing, unlinked, unknown] = Self::NAMES;
        match self {
            Self::Linked { .. } => linked,
            Self::Frozen { .. } => frozen,
            Self::Missing { .. } => missing,
            Self::Unlinked { .. } => unlinked,
            Self::Unknown(_) => unknown,
        }
    }
}

// === impl Absence ===

impl Absence {
    /// Returns the state of the cluster. If the Links are not complete, one of them may name it.
    fn state(self, is_complete: bool) -> LinkState {
        let Self { since, end, .. } = self;
        let was_seen_to_go = since < end;
        if self.is_unlinked {
            LinkState::Unlinked { since }
        } else if is_complete || was_seen_to_go {
            LinkState::Missing { since, end }
        } else {
            LinkState::Unknown(UnknownReason::Unreadable)
        }
    }
}

#[cfg(test)]
mod tests;
