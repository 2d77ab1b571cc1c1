//! What the build of one service reads and returns.

use std::collections::BTreeSet;

use super::Service;
use super::rules::{NonMember, Rules};
use super::store::Store;
use super::timers::{ServiceTimers, Timers};
use crate::model::{ClusterName, FailoverOrder, ServiceKey};

/// What the build of one service reads.
#[derive(Clone, Copy)]
pub(super) struct BuildContext<'b> {
    pub(super) key: &'b ServiceKey,
    pub(super) store: &'b Store,
    pub(super) rules: &'b Rules,
    /// The clusters that something here knows.
    pub(super) known_clusters: &'b BTreeSet<ClusterName>,
    /// What the last builds remember.
    pub(super) timers: &'b Timers,
    /// The service in the last table.
    pub(super) old: Option<&'b Service>,
}

/// The build of one service.
#[derive(Default)]
pub(super) struct BuiltService {
    /// The service, if an object or a setting concerns it.
    pub(super) service: Option<Service>,
    /// What the next build remembers of it.
    pub(super) timers: ServiceTimers,
    /// Why the headless Service of this cluster is not a member of it.
    pub(super) non_member: Option<NonMember>,
}

// === impl BuildContext ===

impl<'b> BuildContext<'b> {
    /// Returns what the last build remembers of the service.
    pub(super) fn last(&self) -> Option<&'b ServiceTimers> {
        self.timers.of(self.key)
    }

    /// Returns whether the objects of a service arrive one after the other: it is new in a process that has a table, and does
    /// not have another order than before. The last table may have a service only for its settings.
    pub(super) fn is_arriving(&self, order: &FailoverOrder) -> bool {
        let is_new = |old: &Service| match &old.failover {
            Some(failover) => failover.order == *order,
            None => !old.is_known,
        };
        self.timers.is_started && self.old.is_none_or(is_new)
    }
}
