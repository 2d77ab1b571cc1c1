//! The objects of one service, as a build reads them.

use std::collections::BTreeSet;

use super::rules::Rules;
use super::store::Store;
use crate::model::{
    ClusterName, Clusters, Item, ItemKind, MirroredHost, ObjectKey, OwnService, ServiceKey,
};

/// The objects of one service, except slices.
#[derive(Debug, Default)]
pub(super) struct Items<'i> {
    items: Vec<(&'i ObjectKey, &'i Item)>,
}

/// A mirror of a Service or of an endpoint of one cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mirror<'i> {
    /// The key of the mirror.
    pub(super) object: &'i ObjectKey,
    /// The mirror.
    pub(super) item: &'i Item,
    /// The link that made it.
    pub(super) link: &'i ClusterName,
}

// === impl Items ===

impl<'i> Items<'i> {
    /// Collects the objects of a service.
    pub(super) fn of(service: &ServiceKey, store: &'i Store) -> Self {
        let objects = store.objects_of(service);
        let items = objects.filter_map(|(key, object)| Some((key, object.item()?)));
        Self {
            items: items.collect(),
        }
    }

    /// Returns whether there is no object.
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the items of one kind.
    pub(super) fn of_kind(
        &self,
        kind: ItemKind,
    ) -> impl Iterator<Item = (&'i ObjectKey, &'i Item)> {
        let items = self.items.iter().copied();
        items.filter(move |(_, item)| item.kind == kind)
    }

    /// Returns the headless mirrors (rule M2).
    pub(super) fn headless_mirrors(&self) -> impl Iterator<Item = Mirror<'i>> {
        self.mirrors()
            .filter(|mirror| mirror.item.kind == ItemKind::HeadlessMirror)
    }

    /// Returns the endpoint mirrors with the endpoints that they stand for (rule M1).
    pub(super) fn endpoint_mirrors(&self) -> impl Iterator<Item = (Mirror<'i>, &'i MirroredHost)> {
        self.mirrors()
            .filter_map(|mirror| Some((mirror, mirror.item.host.as_ref()?)))
    }

    /// Returns the mirrors with a cluster IP that stand for the Service of one cluster.
    pub(super) fn service_mirrors(&self) -> impl Iterator<Item = Mirror<'i>> {
        let is_it = |kind| matches!(kind, ItemKind::GatewayMirror | ItemKind::FlatMirror);
        self.mirrors().filter(move |mirror| is_it(mirror.item.kind))
    }

    /// Returns the mirrors of one cluster each.
    pub(super) fn mirrors(&self) -> impl Iterator<Item = Mirror<'i>> {
        self.items.iter().filter_map(|&(object, item)| {
            let link = item.link()?;
            Some(Mirror { object, item, link })
        })
    }

    /// Returns the Service of this cluster (rules M5, K6).
    pub(super) fn own(&self) -> Option<(&'i Item, OwnService)> {
        let mut items = self.items.iter();
        items.find_map(|&(_, item)| Some((item, item.own()?)))
    }

    /// Returns whether Linkerd mirrors the service from another cluster, in any way.
    pub(super) fn has_mirror(&self) -> bool {
        // An endpoint mirror without its headless mirror is skipped (rule M2).
        let is_mirror = |(_, item): &(&ObjectKey, &Item)| match item.kind {
            ItemKind::HeadlessMirror
            | ItemKind::GatewayMirror
            | ItemKind::FlatMirror
            | ItemKind::Federated => true,
            ItemKind::EndpointMirror | ItemKind::Own(_) => false,
        };
        self.items.iter().any(is_mirror)
    }

    /// Returns the objects whose annotations are copied from other clusters: mirrors.
    pub(super) fn copies(&self) -> impl Iterator<Item = (&'i ObjectKey, &'i Item)> {
        let items = self.items.iter().copied();
        items.filter(|(_, item)| item.own().is_none())
    }
}

/// Returns the clusters behind the addresses of an item that belong to no single cluster, without excluded ones. Returns `None`
/// if all of them are excluded.
pub(super) fn shared_by(item: &Item, rules: &Rules) -> Option<BTreeSet<ClusterName>> {
    let Clusters::Several(set) = &item.clusters else {
        return Some(BTreeSet::new());
    };
    let names = set.names.iter().map(|cluster| rules.name_of(cluster));
    let all: BTreeSet<_> = names
        .chain(set.has_own.then(|| rules.cluster_name.clone()))
        .collect();
    let rest = &all - &rules.excluded_clusters;
    (all.is_empty() || !rest.is_empty()).then_some(rest)
}
