//! The clusters that the name of a service waits for (rule K8).
//!
//! A database that starts for the first time joins the members that its seed name returns. If the name returned only the
//! members of some clusters, each part could start a database of its own. So the name fails until every expected cluster
//! has been seen.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Endpoint;
use super::failover::Timestamp;
use super::items::{Items, Mirror};
use super::rules::Rules;
use super::store::Store;
use crate::model::{ClusterName, ItemKind, ServiceKey};

/// A mirror of this age counts like an endpoint, in milliseconds. A restart during the outage of a cluster must not make
/// the name fail.
const OLD_MIRROR: u64 = 60 * 60 * 1000;

/// The expected clusters of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// The clusters that have not been seen yet, sorted. If there is none, the gate is open.
    pub awaited: Box<[ClusterName]>,
    /// All expected clusters, sorted.
    expected: Box<[ClusterName]>,
    /// The clusters that have an endpoint now, alive or not, or that a federated service or a ServiceImport names.
    present: BTreeSet<ClusterName>,
    /// The clusters that have a mirror now, with the time at which the oldest was created.
    mirrored: BTreeMap<ClusterName, Timestamp>,
}

/// The clusters that a service has seen so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateState {
    /// The clusters that have had an endpoint, or a mirror for long enough.
    seen: BTreeSet<ClusterName>,
    /// Whether all expected clusters were seen at some time. An open gate stays open.
    is_open: bool,
}

// === impl Gate ===

impl Gate {
    /// Returns the gate of a service, or `None` if no cluster is expected. The annotation comes before the flag.
    pub(super) fn new(
        key: &ServiceKey,
        items: &Items<'_>,
        endpoints: &[Endpoint],
        store: &Store,
        rules: &Rules,
    ) -> Option<Self> {
        let expected = expected_of(key, items, rules)?;
        let state = store.state(key).and_then(|state| state.gate.as_ref());
        let expected = expected.iter().cloned();
        let expected: Box<[_]> = expected
            .filter(|cluster| !rules.excluded_clusters.contains(cluster))
            .collect();
        let clusters = endpoints.iter();
        let clusters = clusters.filter_map(|endpoint| endpoint.cluster.clone());
        let mut gate = Self {
            awaited: Box::default(),
            present: clusters
                .chain(items.shared_clusters(ItemKind::Federated, rules))
                .chain(items.shared_clusters(ItemKind::ClusterSetImport, rules))
                .collect(),
            mirrored: mirrored(items, rules),
            expected,
        };
        gate.awaited = match state {
            Some(state) if state.is_open => Box::default(),
            state => gate.missing(state.map_or(&BTreeSet::new(), |state| &state.seen)),
        };
        Some(gate)
    }

    /// Returns whether the name of the service fails.
    pub fn is_closed(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Returns the expected clusters that are neither present nor in `seen`.
    fn missing(&self, seen: &BTreeSet<ClusterName>) -> Box<[ClusterName]> {
        let expected = self.expected.iter();
        let is_missing =
            |cluster: &&ClusterName| !seen.contains(*cluster) && !self.present.contains(*cluster);
        expected.filter(is_missing).cloned().collect()
    }

    /// Returns the state of a gate that an earlier process of this program has published.
    pub(super) fn state(&self) -> GateState {
        let is_seen = |cluster: &&ClusterName| !self.awaited.contains(*cluster);
        GateState {
            seen: self.expected.iter().filter(is_seen).cloned().collect(),
            is_open: !self.is_closed(),
        }
    }
}

// === impl GateState ===

impl GateState {
    /// Returns the next state, and the time at which it can change although nothing else happens.
    pub fn next(&self, gate: &Gate, now: Timestamp) -> (Self, Option<Timestamp>) {
        if self.is_open {
            return (self.clone(), None);
        }
        let mut seen = self.seen.clone();
        let expected = |cluster: &&ClusterName| gate.expected.contains(*cluster);
        let present = gate.present.iter();
        seen.extend(present.filter(expected).cloned());
        let old = |created: Timestamp| Timestamp(created.0.saturating_add(OLD_MIRROR));
        let mirrored = gate.mirrored.iter();
        let aged = mirrored.filter(|(_, created)| old(**created) <= now);
        seen.extend(
            aged.map(|(cluster, _)| cluster.clone())
                .filter(|cluster| expected(&cluster)),
        );
        let awaited = gate.missing(&seen);
        let ages = awaited
            .iter()
            .filter_map(|cluster| gate.mirrored.get(cluster));
        let wake = ages.map(|created| old(*created)).min();
        let is_open = awaited.is_empty();
        (Self { seen, is_open }, wake)
    }

    /// Returns whether all expected clusters have been seen.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns whether a build with this state gives another gate.
    pub(super) fn changes(&self, gate: &Gate) -> bool {
        let awaited = if self.is_open {
            Box::default()
        } else {
            gate.missing(&self.seen)
        };
        awaited != gate.awaited
    }
}

/// Returns the expected clusters of a service.
pub(super) fn expected_of<'r>(
    key: &ServiceKey,
    items: &Items<'r>,
    rules: &'r Rules,
) -> Option<&'r [ClusterName]> {
    let annotation = items
        .settings
        .and_then(|settings| settings.expected.as_deref());
    annotation.or_else(|| rules.expected_clusters.get(key).map(AsRef::as_ref))
}

/// Returns the clusters of the mirrors, with the time at which the oldest of each was created.
fn mirrored(items: &Items<'_>, rules: &Rules) -> BTreeMap<ClusterName, Timestamp> {
    let mut mirrored = BTreeMap::new();
    for Mirror { item, link, .. } in items.headless_mirrors().chain(items.service_mirrors()) {
        // A file may have objects without a time.
        let Some(created) = item.created else {
            continue;
        };
        let created = Timestamp(u64::from(created.get()) * 1000);
        let oldest = mirrored.entry(rules.name_of(link)).or_insert(created);
        *oldest = created.min(*oldest);
    }
    mirrored
}

#[cfg(test)]
mod tests;
