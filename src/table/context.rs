//! What the build of one service reads and returns.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Service;
use super::rules::Rules;
use super::store::Store;
use super::timers::{ServiceTimers, Timers};
use crate::model::{
    ClusterName, FailoverOrder, Item, ItemKind, ObjectKey, OwnForm, Problem, ServiceKey,
    ServiceSettings, SliceContent,
};

/// What the build of one service reads.
#[derive(Clone, Copy)]
pub(super) struct BuildContext<'b> {
    pub(super) key: &'b ServiceKey,
    pub(super) store: &'b Store,
    pub(super) rules: &'b Rules,
    /// The items of the service with the keys of their objects: its own, and those of the services that it is an alias of.
    pub(super) items: &'b [(&'b ObjectKey, &'b Item)],
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
    pub(super) non_member: Option<Arc<Problem>>,
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

    /// Returns the Service of this cluster with the settings of the service. Of an alias, its own Service alone has them.
    pub(super) fn own(&self) -> Option<&'b Item> {
        let is_own = |item: &&Item| item.own().is_some() && item.service == *self.key;
        self.items.iter().map(|(_, item)| *item).find(is_own)
    }

    /// Returns what the annotations of that Service set.
    pub(super) fn settings(&self) -> Option<&'b ServiceSettings> {
        self.own()?.settings.as_deref()
    }

    /// Returns whether the service has pods (rule K5a): a headless mirror, or a headless Service of this cluster with a selector
    /// or an endpoint.
    pub(super) fn has_pods(&self) -> bool {
        let has_endpoint = |object: &ObjectKey| {
            let slices = self.store.slices_of(object);
            slices.iter().any(|(_, slice)| match &slice.content {
                SliceContent::Endpoints(listed) => !listed.entries.is_empty(),
                SliceContent::Hosts(_) | SliceContent::Ready(_) => false,
            })
        };
        self.items.iter().any(|(object, item)| match item.kind {
            ItemKind::HeadlessMirror => !self.is_excluded(item),
            ItemKind::Own(own) => match own.form {
                OwnForm::Headless { has_selector } => has_selector || has_endpoint(object),
                OwnForm::ClusterIp | OwnForm::Other => false,
            },
            _ => false,
        })
    }

    /// Returns whether Linkerd mirrors the service from another cluster, in any way. An endpoint mirror without its headless
    /// mirror is skipped (rule M2).
    pub(super) fn has_mirror(&self) -> bool {
        let is_mirror = |item: &Item| item.own().is_none() && item.kind != ItemKind::EndpointMirror;
        self.items.iter().any(|(_, item)| is_mirror(item))
    }

    /// Returns the annotations that are copied from other clusters: those of mirrors, without those of excluded clusters.
    pub(super) fn copied_settings(&self) -> impl Iterator<Item = &'b ServiceSettings> {
        let items = self.items.iter().map(|(_, item)| *item);
        let copies = items.filter(|item| item.own().is_none() && !self.is_excluded(item));
        copies.filter_map(|item| item.settings.as_deref())
    }

    /// Returns whether an item is of an excluded cluster.
    fn is_excluded(&self, item: &Item) -> bool {
        item.link().is_some_and(|link| self.rules.excludes(link))
    }
}
