//! The items of one service, as a build reads them.

use super::rules::Rules;
use super::store::Store;
use crate::model::{ClusterName, Item, ItemKind, ObjectKey, OwnService, ServiceKey};

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

    /// Returns whether Linkerd mirrors the service from another cluster, in any way.
    pub(super) fn has_mirror(&self) -> bool {
        // An endpoint mirror without its headless mirror is skipped (rule M2).
        let is_mirror = |item: &Item| match item.kind {
            ItemKind::HeadlessMirror
            | ItemKind::GatewayMirror
            | ItemKind::FlatMirror
            | ItemKind::Federated => true,
            ItemKind::EndpointMirror | ItemKind::Own(_) => false,
        };
        self.iter().any(|(_, item)| is_mirror(item))
    }

    /// Returns the items whose annotations are copied from other clusters: mirrors, without those of excluded clusters.
    pub(super) fn copies(&self, rules: &Rules) -> impl Iterator<Item = (&'i ObjectKey, &'i Item)> {
        let is_excluded =
            |link: &ClusterName| rules.excluded_clusters.contains(&rules.name_of(link));
        let is_copy =
            move |item: &Item| item.own().is_none() && !item.link().is_some_and(is_excluded);
        self.iter().filter(move |(_, item)| is_copy(item))
    }
}
