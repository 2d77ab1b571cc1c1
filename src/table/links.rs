//! Whether somebody still maintains the mirrors of each cluster (rules L1 to L4).
//!
//! Linkerd keeps the mirrors of a Link that was deleted, and stops its probe. A mirror controller that stopped leaves mirrors and
//! their liveness as they were. Both look healthy on every watch. So this server compares the clusters of mirrors with the
//! Links and with the Leases of the mirror controllers.
//!
//! A state is a pure function of the Links and mirrors in the store, the Leases, the time, and what was remembered before. No
//! clocks are compared: a Lease is frozen if it stays as it was. [`Links::update`] determines the states that can have changed and no
//! others: everybody who can create a Service can invent clusters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rpds::{RedBlackTreeMapSync, RedBlackTreeSetSync};
use strum::{IntoStaticStr, VariantNames};

use super::rules::Rules;
use super::store::{NamedCluster, ServiceKeys, Store};
use crate::model::{
    ClusterName, Item, Kind, Lease, Line, Object, ObjectKey, Problem, ProblemKind, Text, Timestamp,
};

/// How long a Lease must stay as it was until its controller counts as stopped. The next controller takes over a Lease that
/// was not released after 32 seconds.
const STALE: Duration = Duration::from_secs(45);

/// What a process remembers of Links and Leases.
#[derive(Clone, Debug, Default)]
pub struct Links {
    /// The states after the last update.
    pub states: Arc<LinkStates>,
    /// Whether the Links of all namespaces have been listed once. A cluster that this list lacks is unlinked at once; later, mirrors
    /// may arrive before their Link.
    was_complete: bool,
    /// How the Links were listed at the last update.
    list: Option<LinkList>,
    /// The Leases, by the key of their Link, with the last time at which this process saw that each was renewed.
    leases: BTreeMap<ObjectKey, (Lease, Timestamp)>,
    /// The time of the last poll of Leases. While polls fail, their age is not known.
    polled: Timestamp,
    /// Whether Leases were polled since the last update.
    is_polled: bool,
    /// Why Leases cannot be read, or those of some namespaces cannot.
    leases_problem: Option<Line>,
    /// The ends of absences, with the clusters.
    ends: BTreeSet<(Timestamp, ClusterName)>,
    /// The clusters whose state must be determined, before aliases. `None`: all.
    pending: Option<BTreeSet<ClusterName>>,
    /// The clusters whose states differ from those of the last published table, before aliases.
    pub changed: BTreeSet<ClusterName>,
    /// The clusters that something began or ceased to know since the last build, after aliases.
    pub(super) turned: BTreeSet<ClusterName>,
    /// Whether the process follows its source and has no table yet. What holds then began at an unknown time.
    pub(super) is_first: bool,
}

/// That no Link names a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Absence {
    /// When this process first saw that.
    since: Timestamp,
    /// The end of `links.unlinkedAfter`, until which its endpoints count. `None`: they do not any more.
    end: Option<Timestamp>,
}

/// The states of clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkStates {
    /// The states of the clusters that a mirror, a Link or a Lease names, by the name in the Link, before aliases.
    pub clusters: RedBlackTreeMapSync<ClusterName, ClusterLink>,
    /// The clusters that something here knows: a mirror or a Link names each. Their names are those after aliases.
    pub(super) known: RedBlackTreeSetSync<ClusterName>,
    /// The problem that states are unknown, if a person can do something about it.
    pub(super) unknown: Option<Problem>,
    /// That nothing here knows the cluster of a zone, one for each such cluster.
    pub(super) unknown_of_zones: Vec<Problem>,
}

/// A cluster that a mirror, a Link or a Lease names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterLink {
    /// Its name after aliases.
    pub cluster: ClusterName,
    /// The state of the best of its Links.
    pub state: LinkState,
    /// The domain of its own names, if a Link says it.
    pub domain: Option<Text>,
    /// Whether something is mirrored from it.
    pub is_mirrored: bool,
    /// Whether this process saw a Link that names it.
    pub(super) had_link: bool,
    /// That no Link names it, as far as this process saw it.
    pub(super) absence: Option<Absence>,
    /// The problem that nobody maintains its mirrors, if that is so.
    pub problem: Option<Problem>,
}

/// The state of a cluster (rule L2). The names are those in metrics, reports and the manual.
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

/// How the Links were listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkList {
    /// The files of `--file` have none. A person can do nothing about it.
    NotGiven,
    /// The API server does not define Links.
    Undefined,
    /// They are listed, and there is neither a Link nor a Lease of a mirror controller.
    Nothing,
    /// They are listed.
    Listed {
        /// Whether those of every namespace are, and their watches are heard from. Otherwise, a Link that is missing unlinks
        /// no further cluster.
        is_complete: bool,
    },
}

/// A poll of Leases.
#[derive(Debug)]
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
        !item.has_own
            && linked.clone().next().is_some()
            && linked.all(|link| self.states.is_unlinked(link))
    }

    /// Records a poll of the Leases.
    pub fn note_leases(&mut self, poll: LeasePoll, now: Timestamp) {
        self.is_polled = true;
        self.leases_problem = poll.problem;
        let Some(leases) = poll.leases else { return };
        let mut last = std::mem::take(&mut self.leases);
        let leases = leases.into_iter().map(|(link, lease)| {
            let unchanged = last.remove(&link);
            // A released Lease that changes is not renewed.
            let renewed = unchanged
                .filter(|(last, _)| *last == lease || !lease.is_held)
                .map_or(now, |(_, renewed)| renewed);
            (link, (lease, renewed))
        });
        self.leases = leases.collect();
        self.polled = now;
    }

    /// Determines the states that can have changed. `list` is `None` while the first list of Links is awaited: nothing is known of
    /// them yet. Returns `None` if all is as before, or else the services with endpoints that are down because of their cluster, or
    /// are not any more.
    pub fn update(
        &mut self,
        store: &mut Store,
        list: Option<LinkList>,
        rules: &Rules,
        now: Timestamp,
    ) -> Option<ServiceKeys> {
        // A list that fails after a restart of the loop says nothing any more.
        self.list = self.list.filter(|_| list.is_some());
        let mut states = LinkStates::clone(&self.states); // it shares its content
        let changed = store.changed_clusters.replace(BTreeSet::new());
        let mut is_changed = self.note_known(changed.as_ref(), &mut states, store, rules);
        match (&mut self.pending, changed) {
            (Some(pending), Some(changed)) => pending.extend(changed),
            (pending, _) => *pending = None,
        }
        let mut services = ServiceKeys::new();
        let due = list.map_or_else(BTreeSet::new, |list| self.take_due(store, list, now));
        for link in &due {
            let new = self.state_of(link, store, rules, now);
            let old = states.clusters.get(link);
            if old == new.as_ref() {
                continue;
            }
            is_changed = true;
            self.changed.insert(link.clone());
            if let Some(end) = old.and_then(ClusterLink::end) {
                self.ends.remove(&(end, link.clone()));
            }
            if let Some(end) = new.as_ref().and_then(ClusterLink::end) {
                self.ends.insert((end, link.clone()));
            }
            let was_unlinked = states.is_unlinked(link);
            match new {
                Some(new) => states.clusters.insert_mut(link.clone(), new),
                None => _ = states.clusters.remove_mut(link),
            }
            if states.is_unlinked(link) != was_unlinked {
                let named = store.clusters.get(link).into_iter();
                services.extend(named.flat_map(|one| one.mirrored.keys().cloned()));
            }
        }
        self.was_complete |= self.is_complete();
        if !due.is_empty() {
            states.unknown = self.unknown_problem(&states);
            is_changed |= states.unknown != self.states.unknown;
        }
        if list.is_some() {
            states.unknown_of_zones = self.unknown_of_zones(&states, rules, now);
            is_changed |= states.unknown_of_zones != self.states.unknown_of_zones;
        }
        if !is_changed {
            return None;
        }
        self.states = Arc::new(states);
        Some(services)
    }

    /// Returns the next time at which a cluster is unlinked.
    pub fn wake(&self) -> Option<Timestamp> {
        let (end, _) = self.ends.first().filter(|_| self.is_complete())?;
        Some(*end)
    }

    /// Returns whether the Links of all namespaces are listed.
    fn is_complete(&self) -> bool {
        self.list == Some(LinkList::Listed { is_complete: true })
    }

    /// Notes which clusters something knows, by their names after aliases. Returns whether that changed.
    fn note_known(
        &mut self,
        changed: Option<&BTreeSet<ClusterName>>,
        states: &mut LinkStates,
        store: &Store,
        rules: &Rules,
    ) -> bool {
        let mut is_changed = false;
        let names: BTreeSet<ClusterName> = match changed {
            Some(links) => links.iter().map(|link| rules.name_of(link)).collect(),
            None => {
                let all = store.clusters.keys().map(|link| rules.name_of(link));
                let known = states.known.iter().cloned();
                let own = [rules.cluster_name.clone()];
                all.chain(known).chain(own).collect()
            }
        };
        for name in names {
            let is_known = store.knows(&name, rules);
            if is_known == states.known.contains(&name) {
                continue;
            }
            if is_known {
                states.known.insert_mut(name.clone());
            } else {
                states.known.remove_mut(&name);
            }
            self.turned.insert(name);
            is_changed = true;
        }
        is_changed
    }

    /// Returns the clusters whose state must be determined.
    fn take_due(&mut self, store: &Store, list: LinkList, now: Timestamp) -> BTreeSet<ClusterName> {
        let mut named = store.clusters.values();
        let is_nothing = self.leases.is_empty() && !named.any(NamedCluster::is_linked);
        let list = match list {
            LinkList::Listed { .. } if is_nothing => LinkList::Nothing,
            _ => list,
        };
        if self.list.replace(list) != Some(list) {
            self.pending = None;
        }
        let known = &self.states.clusters;
        let pending = self.pending.replace(BTreeSet::new());
        self.is_polled |= pending.is_none();
        let all = || store.clusters.keys().chain(known.keys()).cloned();
        let mut due = pending.unwrap_or_else(|| all().collect());
        if self.is_complete() {
            let over = self.ends.iter().take_while(|(end, _)| *end <= now);
            due.extend(over.map(|(_, link)| link.clone()));
        }
        if std::mem::take(&mut self.is_polled) {
            due.extend(self.leased(store));
            let linked = store.clusters.iter().filter(|(_, one)| one.is_linked());
            due.extend(linked.map(|(link, _)| link.clone()));
            // A Lease that is gone may have been all that named its cluster.
            let alone = known.iter().filter(|(_, one)| !one.is_mirrored);
            due.extend(alone.map(|(link, _)| link.clone()));
        }
        due
    }

    /// Returns the clusters that Leases without a Link name: a Link has the name of its cluster.
    fn leased(&self, store: &Store) -> impl Iterator<Item = ClusterName> {
        let links = store.objects(Kind::Link);
        let is_link = |link: &ObjectKey| matches!(links.get(link), Some(Object::Link(_)));
        self.leases
            .keys()
            .filter(move |link| !is_link(link))
            .filter_map(|link| ClusterName::interned(&link.name.text()).ok())
    }

    /// Returns the state of a cluster, if something names it (rule L2).
    fn state_of(
        &self,
        link: &ClusterName,
        store: &Store,
        rules: &Rules,
        now: Timestamp,
    ) -> Option<ClusterLink> {
        let none = NamedCluster::default();
        let named = store.clusters.get(link).unwrap_or(&none);
        let is_mirrored = named.is_mirrored();
        let is_linked = named.is_linked();
        let is_named = is_mirrored || is_linked || self.leased(store).any(|one| one == *link);
        let list = self.list.filter(|list| *list != LinkList::NotGiven)?;
        if !is_named || rules.excludes(link) {
            return None;
        }
        let last = self.states.clusters.get(link);
        let mut absence = last.and_then(|last| last.absence);
        let mut state = LinkState::Unknown;
        let mut problem = None;
        if let LinkList::Listed { is_complete } = list {
            if is_linked {
                absence = None;
                state = LinkState::Linked;
                problem = self.frozen(named);
                if problem.is_some() {
                    state = LinkState::Frozen;
                }
            } else if is_complete {
                // None begins while a namespace cannot be read.
                absence = Some(self.absence(absence, rules, now));
            }
            if let Some(absence) = absence {
                state = absence.state();
                // Without mirrors, nothing is wrong with a cluster that has no Link.
                problem = is_mirrored.then(|| absence.problem());
            }
        }
        let cluster = rules.name_of(link);
        let problem = problem.map(|one| Problem {
            is_older: self.is_first,
            ..one.of_cluster(&cluster)
        });
        Some(ClusterLink {
            cluster,
            state,
            domain: store.domain_of(named),
            is_mirrored,
            had_link: is_linked || last.is_some_and(|last| last.had_link),
            absence,
            problem,
        })
    }

    /// Returns the absence of a cluster that no Link names, and that may be known already.
    fn absence(&self, known: Option<Absence>, rules: &Rules, now: Timestamp) -> Absence {
        let delay = if self.was_complete {
            rules.unlinked_after
        } else {
            Duration::ZERO
        };
        let absence = known.unwrap_or(Absence {
            since: now,
            end: Some(now.after(delay)),
        });
        Absence {
            end: absence.end.filter(|end| *end > now),
            ..absence
        }
    }

    /// Returns the problem that the mirror controllers of all Links of a cluster have stopped: that of the one that stopped last.
    fn frozen(&self, cluster: &NamedCluster) -> Option<Problem> {
        let mut last: Option<(Timestamp, String)> = None;
        for link in &cluster.links {
            let (lease, renewed) = self.leases.get(link)?;
            if renewed.after(STALE) > self.polled {
                return None;
            }
            let released = if lease.is_held {
                ""
            } else {
                ", and its controller released it"
            };
            let detail = format!("Lease {} is not renewed{released}", Lease::name_of(link));
            if last.as_ref().is_none_or(|(since, _)| since < renewed) {
                last = Some((*renewed, detail));
            }
        }
        let (since, detail) = last?;
        Some(Problem::new(ProblemKind::Frozen, detail).holds_since(since))
    }

    /// Returns the problems of clusters with a zone of their own that no Link, mirror or Lease names.
    fn unknown_of_zones(&self, states: &LinkStates, rules: &Rules, now: Timestamp) -> Vec<Problem> {
        let mut problems = Vec::new();
        for cluster in &rules.zone_clusters {
            let mut named = states.clusters.values();
            if !states.known.contains(cluster) && named.all(|one| one.cluster != *cluster) {
                let detail = format!("no Link, mirror or Lease names cluster '{cluster}'");
                let problem = Problem::new(ProblemKind::ZoneClusterUnknown, detail)
                    .of_cluster(cluster)
                    .of_unknown(cluster.as_str());
                problems.push(problem);
            }
        }
        let last = &self.states.unknown_of_zones;
        Problem::date((!self.is_first).then_some(last), &mut problems, now);
        problems
    }

    /// Returns the problem that states are unknown, if a person can do something about it.
    fn unknown_problem(&self, states: &LinkStates) -> Option<Problem> {
        let has_unknown = || {
            let mut clusters = states.clusters.values();
            clusters.any(|one| one.state == LinkState::Unknown)
        };
        let detail = match self.list? {
            LinkList::Undefined => "the API server does not define Links".to_owned(),
            LinkList::Nothing => {
                "the namespaces of links.namespaces have neither a Link nor a Lease of a mirror controller".to_owned()
            }
            LinkList::Listed { is_complete: false } if has_unknown() => {
                "Links of a namespace in links.namespaces cannot be read".to_owned()
            }
            LinkList::NotGiven | LinkList::Listed { .. } => {
                format!("Leases cannot be read: {}", self.leases_problem.as_ref()?)
            }
        };
        if states.clusters.is_empty() {
            return None;
        }
        let mut problem = Problem::new(ProblemKind::LinksUnknown, detail);
        // A list of Links fails.
        let is_effect = self.list == Some(LinkList::Listed { is_complete: false });
        problem.cause = is_effect.then_some(ProblemKind::SourceUnavailable);
        Some(problem)
    }
}

// === impl Absence ===

impl Absence {
    fn state(self) -> LinkState {
        self.end.map_or(LinkState::Unlinked, |_| LinkState::Missing)
    }

    fn problem(self) -> Problem {
        let detail = match self.end {
            Some(end) => format!(
                "its endpoints count for {} s",
                end.since(self.since).as_secs()
            ),
            None => "its endpoints are down".to_owned(),
        };
        Problem::new(ProblemKind::Unlinked, detail).holds_since(self.since)
    }
}

// === impl ClusterLink ===

impl ClusterLink {
    /// Returns whether a Link names it.
    pub fn is_linked(&self) -> bool {
        matches!(self.state, LinkState::Linked | LinkState::Frozen)
    }

    /// Returns whether mirrors alone name it, as far as this process saw it.
    pub(super) fn is_invented(&self) -> bool {
        self.absence.is_some() && !self.had_link
    }

    /// Returns when its absence ends.
    fn end(&self) -> Option<Timestamp> {
        self.absence?.end
    }
}

// === impl LinkStates ===

impl LinkStates {
    /// Returns a link for each cluster, by its name after aliases: that of this name, if several have one.
    pub fn by_name(&self) -> BTreeMap<&ClusterName, &ClusterLink> {
        let mut links = BTreeMap::new();
        for (own_name, link) in &self.clusters {
            let known = links.entry(&link.cluster).or_insert(link);
            if *own_name == link.cluster {
                *known = link;
            }
        }
        links
    }

    /// Returns whether the endpoints of a cluster, as its Link names it, are down because no Link names it any more.
    fn is_unlinked(&self, link: &ClusterName) -> bool {
        let state = self.clusters.get(link).map(|one| one.state);
        state == Some(LinkState::Unlinked)
    }

    /// Returns the problems of links: one for each cluster that nobody maintains, and one if the states are unknown.
    pub(super) fn problems(&self) -> impl Iterator<Item = &Problem> {
        let of_links = self.clusters.values().flat_map(|one| &one.problem);
        // Several Links can have one name after aliases.
        let of_clusters: BTreeMap<_, _> = of_links
            .map(|problem| ((problem.kind, &problem.cluster), problem))
            .collect();
        let others = self.unknown.iter().chain(&self.unknown_of_zones);
        of_clusters.into_values().chain(others)
    }
}

#[cfg(test)]
mod tests;
