//! What the build of one service reads and returns.

use std::collections::BTreeSet;

use super::Service;
use super::rules::{NonMember, Rules};
use super::store::Store;
use super::timers::{ServiceTimers, Timers};
use crate::model::{
    ClusterName, FailoverOrder, Item, ItemKind, ObjectKey, OwnForm, OwnService, ServiceKey,
    SliceContent,
};

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

/// The items of one service: its own, and those of the services that it is an alias of.
#[derive(Debug, Default)]
pub(super) struct Items<'i>(Vec<(&'i ObjectKey, &'i Item)>);

// === impl Items ===

impl<'i> Items<'i> {
    /// Collects the items of a service.
    pub(super) fn of(service: &ServiceKey, store: &'i Store, rules: &Rules) -> Self {
        let sources = rules.aliases.sources_of(service);
        let services = std::iter::once(service).chain(sources);
        let items = services.flat_map(|service| store.items_of(service));
        Self(items.collect())
    }

    /// Returns whether there is no item.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the items with the keys of their objects.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'i ObjectKey, &'i Item)> + Clone {
        self.0.iter().copied()
    }

    /// Returns the Services of this cluster (rule M5).
    pub(super) fn own(&self) -> impl Iterator<Item = (&'i Item, OwnService)> {
        self.iter()
            .filter_map(|(_, item)| Some((item, item.own()?)))
    }

    /// Returns the Service of this cluster with the settings of a service. Of an alias, its own Service alone has them.
    pub(super) fn own_of(&self, service: &ServiceKey) -> Option<&'i Item> {
        let mut own = self.own().map(|(item, _)| item);
        own.find(|item| item.service == *service)
    }

    /// Returns whether the service has pods (rule K5a): a headless mirror, or a headless Service of this cluster with a selector
    /// or an endpoint.
    pub(super) fn have_pods(&self, store: &Store, rules: &Rules) -> bool {
        let has_endpoint = |object: &ObjectKey| {
            let slices = store.slices_of(object);
            slices.iter().any(|(_, slice)| match &slice.content {
                SliceContent::Endpoints(listed) => !listed.entries.is_empty(),
                SliceContent::Hosts(_) | SliceContent::Ready(_) => false,
            })
        };
        let has_own_pods =
            |(object, item): (&ObjectKey, &Item)| match item.own().map(|own| own.form) {
                Some(OwnForm::Headless { has_selector }) => has_selector || has_endpoint(object),
                Some(OwnForm::ClusterIp | OwnForm::Other) | None => false,
            };
        let mut copies = self.copies(rules);
        copies.any(|(_, item)| item.kind == ItemKind::HeadlessMirror)
            || self.iter().any(has_own_pods)
    }

    /// Returns whether Linkerd mirrors the service from another cluster, in any way.
    pub(super) fn has_mirror(&self) -> bool {
        // An endpoint mirror without its headless mirror is skipped (rule M2).
        let is_mirror = |item: &Item| item.own().is_none() && item.kind != ItemKind::EndpointMirror;
        self.iter().any(|(_, item)| is_mirror(item))
    }

    /// Returns the items whose annotations are copied from other clusters: mirrors, without those of excluded clusters.
    pub(super) fn copies(&self, rules: &Rules) -> impl Iterator<Item = (&'i ObjectKey, &'i Item)> {
        let is_excluded = |item: &Item| item.link().is_some_and(|link| rules.excludes(link));
        self.iter()
            .filter(move |(_, item)| item.own().is_none() && !is_excluded(item))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{local, rules, service_keys, store};

    #[test]
    fn headless_service_has_pods_if_it_has_a_selector_or_an_endpoint() {
        let with = |has_selector: bool, hosts: &[(&str, &str, bool)]| {
            let [mut service, slice] = local("prod", "db", hosts);
            service["spec"]["selector"] = if has_selector {
                json!({"app": "db"})
            } else {
                Value::Null
            };
            let (store, db) = (store(&[service, slice]), service_keys(&["db"]));
            Items::of(db.first().unwrap(), &store, &rules()).have_pods(&store, &rules())
        };
        let host = [("db-0", "10.0.0.1", false)];
        assert!(with(true, &host) && with(true, &[]));
        assert!(with(false, &host) && !with(false, &[]));
    }
}
