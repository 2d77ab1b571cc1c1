//! The clusters that a service expects (rule K8).
//!
//! A database that starts for the first time joins the members that its seed name returns. If the name returned only the
//! members of some clusters, each part could start a database of its own. So the name fails for a time, until every expected
//! cluster has an endpoint. Afterwards it never fails because of that, so that a forgotten setting cannot close a running
//! database; a cluster that is missing is reported.

use std::time::Duration;

use super::candidate::Candidate;
use super::rules::Rules;
use crate::model::{ExpectedClusters, Item, Line, Timestamp};

/// The expected clusters of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// The expected clusters.
    pub expected: ExpectedClusters,
    /// The expected clusters without an endpoint in this cluster, alive or not.
    pub missing: Box<[Line]>,
    /// Until when, by the wall clock, missing clusters make the name fail. `None`: they do not any more, or none is missing.
    pub closes_until: Option<Timestamp>,
}

/// How long the name waits after the creation of the Service of this cluster, unless the annotation has a time.
const WINDOW: Duration = Duration::from_secs(3600);

/// How often a gate that is closed is looked at, because the wall clock may be corrected meanwhile.
const INTERVAL: Duration = Duration::from_secs(60);

// === impl Gate ===

impl Gate {
    /// Returns the gate of a service, or `None` if its Service of this cluster expects no cluster. A cluster
    /// has an endpoint also if another candidate answers for it, or if the endpoint belongs to no single cluster.
    pub(super) fn new(
        own: &Item,
        candidates: &[Candidate<'_>],
        rules: &Rules,
        wall: Timestamp,
    ) -> Option<Self> {
        let expected = own.settings.as_ref()?.expected.clone()?;
        // A creation in the future counts as now: its hour has not ended.
        let hour = || Some(Timestamp::from_seconds(own.created?.get().into()).after(WINDOW));
        let end = expected.until.or_else(hour);
        let present = candidates.iter().filter(|one| !one.endpoints.is_empty());
        let present = present.flat_map(|one| one.clusters.iter().cloned());
        let missing = expected.missing(&present.collect(), &rules.cluster_name);
        Some(Self {
            closes_until: end.filter(|end| wall < *end && !missing.is_empty()),
            missing,
            expected,
        })
    }

    /// Returns when it must be looked at again: at the end, or soon. `now` is the time of the clock of delays.
    pub(super) fn wake(&self, now: Timestamp, wall: Timestamp) -> Option<Timestamp> {
        let rest = self.closes_until?.since(wall);
        Some(now.after(rest.min(INTERVAL)))
    }
}

#[cfg(test)]
mod tests;
