//! Clusters that left a service (rule L5). Without it, the only trace of such a cluster is that nothing is shown.

use std::collections::BTreeSet;
use std::time::Duration;


use super::endpoint::{Endpoint, EndpointLiveness};
use crate::model::{ClusterName, Line, ObjectRef, Timestamp, list_some};

/// A cluster that left a service, and is not back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftCluster {
    /// Its name.
    pub cluster: ClusterName,
    /// When it left.
    pub since: Timestamp,
    /// Why it left.
    pub cause: LeaveCause,
    /// The hostnames of its last endpoints.
    pub endpoints: Line,
}

/// Why a cluster left a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaveCause {
    /// No Link names it any more (rule L3).
    Unlinked,
    /// It has no mirror of the service any more, or no member.
    Unexported,
    /// Its mirror or member has no endpoint.
    ScaledToZero,
    /// Its pods are not ready.
    NotReady,
}

/// What a service had in the last table.
#[derive(Clone, Copy)]
pub(super) struct Before<'s> {
    pub(super) endpoints: &'s [Endpoint],
    /// The clusters of federated services.
    pub(super) federated: &'s [ClusterName],
}

/// What a service has after a build.
pub(super) struct Present<'s> {
    pub(super) endpoints: &'s [Endpoint],
    pub(super) not_ready: &'s [Endpoint],
    /// The clusters of federated services.
    pub(super) federated: &'s BTreeSet<ClusterName>,
    /// The headless mirrors, with their clusters: of the service, and of each that it is an alias of.
    pub(super) mirrors: &'s [&'s [(ClusterName, ObjectRef)]],
    /// The cluster of the headless member of this cluster, if there is one.
    pub(super) member: Option<&'s ClusterName>,
}

/// How long a cluster that left is reported.
const REPORTED: Duration = Duration::from_secs(3600);

/// Maximum number of services that lost a cluster and are remembered. Everybody who can create a Service can add and remove
/// clusters.
pub(super) const MAX_SERVICES: usize = 10_000;

/// Maximum number of clusters that left one service and are remembered.
const MAX_CLUSTERS: usize = 64;

/// Maximum number of hostnames in one sentence.
const MAX_LISTED: usize = 5;

impl LeftCluster {
    /// Returns the clusters that left a service: those of `known` that are not back, and those that the version before had.
    pub(super) fn after(
        old: Option<Before<'_>>,
        known: &[Self],
        new: &Present<'_>,
        now: Timestamp,
    ) -> Vec<Self> {
        let present: BTreeSet<&ClusterName> =
            clusters(new.endpoints).chain(new.federated).collect();
        let is_left = |one: &&Self| now < one.end() && !present.contains(&one.cluster);
        let mut left: Vec<Self> = known.iter().filter(is_left).cloned().collect();
        let Some(old) = old else {
            return left;
        };
        let before: BTreeSet<&ClusterName> = clusters(old.endpoints).chain(old.federated).collect();
        let gone = before.difference(&present).map(|cluster| Self {
            cluster: (*cluster).clone(),
            since: now,
            cause: new.cause(cluster),
            endpoints: old.hostnames(cluster),
        });
        left.extend(gone);
        left.truncate(MAX_CLUSTERS);
        left.sort_by(|one, other| one.cluster.cmp(&other.cluster));
        left
    }

    /// Returns the time at which it is reported no longer.
    pub(super) fn end(&self) -> Timestamp {
        self.since.after(REPORTED)
    }

    /// Returns what happened, as part of a sentence.
    pub(super) fn describe(&self) -> String {
        let why = match self.cause {
            LeaveCause::Unlinked => "no Link names the cluster any more",
            LeaveCause::Unexported => "it does not export the service any more",
            LeaveCause::ScaledToZero => "it has no pod, or none of them is ready",
            LeaveCause::NotReady => "none of its pods is ready",
        };
        if self.endpoints.is_empty() {
            return why.to_owned();
        }
        format!("{why}; its last endpoints: {}", self.endpoints)
    }
}

/// Returns the clusters with endpoints, except unlinked ones.
fn clusters(endpoints: &[Endpoint]) -> impl Iterator<Item = &ClusterName> {
    let linked = endpoints
        .iter()
        .filter(|endpoint| endpoint.liveness != EndpointLiveness::Unlinked);
    linked.filter_map(|endpoint| endpoint.cluster.as_ref())
}

// === impl Before ===

impl Before<'_> {
    /// Lists the hostnames of a cluster. A cluster IP has none.
    fn hostnames(&self, cluster: &ClusterName) -> Line {
        let own = self
            .endpoints
            .iter()
            .filter(|one| one.cluster.as_ref() == Some(cluster));
        let hosts = own.filter_map(|one| one.hostname.as_ref());
        list_some(hosts, MAX_LISTED).into()
    }
}

// === impl Present ===

impl Present<'_> {
    fn cause(&self, cluster: &ClusterName) -> LeaveCause {
        let is_of = |one: &Endpoint| one.cluster.as_ref() == Some(cluster);
        let is_known = self.member == Some(cluster)
            || self
                .mirrors
                .iter()
                .copied()
                .flatten()
                .any(|(mirror, _)| mirror == cluster);
        if self.endpoints.iter().any(is_of) {
            LeaveCause::Unlinked
        } else if self.not_ready.iter().any(is_of) {
            LeaveCause::NotReady
        } else if is_known {
            LeaveCause::ScaledToZero
        } else {
            LeaveCause::Unexported
        }
    }
}

#[cfg(test)]
mod tests;
