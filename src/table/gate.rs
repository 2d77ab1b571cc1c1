//! The clusters that the name of a service waits for during the bootstrap (rule K8).
//!
//! A database that starts for the first time joins the members that its seed name returns. If the name returned only the
//! members of some clusters, each part could start a database of its own. So the name fails until every expected cluster has
//! an endpoint. After the bootstrap the rule ends, so that a forgotten setting cannot close a running database.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Endpoint;
use super::own_settings::OwnSettings;
use super::rules::Rules;
use crate::model::{ClusterName, ExpectedClusters, Line, ServiceKey, Timestamp};

/// The expected clusters of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// The expected clusters.
    pub expected: ExpectedClusters,
    /// The expected clusters without an endpoint in this cluster, alive or not.
    pub missing: Box<[Line]>,
    /// The time in which the name waits for them.
    pub window: Window,
}

/// The time in which the name of a service waits for its expected clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// It lasts until this time. `None`: until the setting is removed (`--bootstrap-window 0`).
    Open(Option<Timestamp>),
    /// It begins at this time.
    Future(Timestamp),
    /// It ended at this time.
    Over(Timestamp),
    /// The Service of this cluster has no creation time, as in a file.
    Undated,
    /// There is no Service of this cluster, so that the flag does nothing.
    WithoutService,
}

/// How far ahead of this clock that of the API server may be.
const CLOCK_SKEW: Duration = Duration::from_secs(60);

// === impl Gate ===

impl Gate {
    /// Returns the gate of a service, or `None` if no cluster is expected. The annotation comes before the flag. `shared` are
    /// the clusters behind addresses that belong to no single cluster.
    pub(super) fn new(
        key: &ServiceKey,
        own: Option<&OwnSettings>,
        endpoints: &[Endpoint],
        shared: &BTreeSet<ClusterName>,
        rules: &Rules,
        now: Timestamp,
    ) -> Option<Self> {
        let expected = expected_of(key, own, rules)?;
        let clusters = endpoints
            .iter()
            .filter_map(|endpoint| endpoint.cluster.clone());
        let present = clusters.chain(shared.iter().cloned()).collect();
        Some(Self {
            expected: expected.clone(),
            missing: expected.missing(&present, &rules.cluster_name),
            window: Window::of(own, rules.bootstrap_window, now),
        })
    }

    /// Returns the clusters that the name waits for. If there are any, it fails.
    pub fn missing_clusters(&self) -> &[Line] {
        match self.window {
            Window::Open(_) => &self.missing,
            Window::Future(_) | Window::Over(_) | Window::Undated | Window::WithoutService => &[],
        }
    }

    /// Returns the time at which it can change although no object does.
    pub(super) fn wake(&self) -> Option<Timestamp> {
        match self.window {
            Window::Open(end) => end,
            Window::Future(start) => Some(start),
            Window::Over(_) | Window::Undated | Window::WithoutService => None,
        }
    }
}

/// Returns the expected clusters of a service.
pub(super) fn expected_of<'r>(
    key: &ServiceKey,
    own: Option<&'r OwnSettings>,
    rules: &'r Rules,
) -> Option<&'r ExpectedClusters> {
    let annotation = own.and_then(|own| own.settings.expected.as_ref());
    annotation.or_else(|| rules.expected_clusters.get(key))
}

// === impl Window ===

impl Window {
    /// Returns the window of a service. It begins with the Service of this cluster, or at the time of its annotation
    /// `global-dns/expected-since`.
    fn of(own: Option<&OwnSettings>, length: Duration, now: Timestamp) -> Self {
        let Some(own) = own else {
            return Self::WithoutService;
        };
        if length.is_zero() {
            return Self::Open(None);
        }
        let Some(start) = own.settings.expected_since.or(own.created) else {
            return Self::Undated;
        };
        let first = start.before(CLOCK_SKEW);
        let end = start.after(length);
        if now < first {
            Self::Future(first)
        } else if now < end {
            Self::Open(Some(end))
        } else {
            Self::Over(end)
        }
    }
}

#[cfg(test)]
mod tests;
