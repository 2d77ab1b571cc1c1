//! The objects of one service, as a build reads them.

use std::collections::BTreeSet;

use super::rules::Rules;
use super::store::Store;
use crate::model::{
    ClusterName, Clusters, ImportEndpoints, Item, ItemKind, MirroredHost, Object, ObjectKey,
    ServiceKey, Settings,
};

/// The objects of one service, except slices of Services.
#[derive(Debug, Default)]
pub(super) struct Items<'i> {
    items: Vec<(&'i ObjectKey, &'i Item)>,
    /// Slices of the ServiceImport.
    pub(super) import_slices: Vec<(&'i ObjectKey, &'i ImportEndpoints)>,
    /// The annotations of the Service of this cluster (rules K6, K8), also for a moment after it is gone, while other
    /// objects remain.
    pub(super) settings: Option<&'i Settings>,
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
        let mut items = Self::default();
        for (key, object) in store.objects_of(service) {
            match object {
                Object::Item(item) => items.items.push((key, item)),
                Object::Slice(slice) => {
                    let import = slice.import().map(|import| (key, import));
                    items.import_slices.extend(import);
                }
                Object::Skipped(_) => {}
            }
        }
        items.settings = match items.own() {
            Some(own) => own.settings.as_deref(),
            None if items.items.is_empty() => None,
            None => store
                .state(service)
                .and_then(|state| state.settings.as_ref()),
        };
        items
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
    fn mirrors(&self) -> impl Iterator<Item = Mirror<'i>> {
        self.items.iter().filter_map(|&(object, item)| {
            let link = item.link()?;
            Some(Mirror { object, item, link })
        })
    }

    /// Returns the Service of this cluster (rule M5).
    pub(super) fn own(&self) -> Option<&'i Item> {
        let mut items = self.items.iter().map(|(_, item)| *item);
        items.find(|item| item.export().is_some())
    }

    /// Returns the ServiceImport.
    pub(super) fn import(&self) -> Option<(&'i ObjectKey, &'i Item)> {
        let is_import = |item: &Item| {
            matches!(
                item.kind,
                ItemKind::HeadlessImport | ItemKind::ClusterSetImport
            )
        };
        let mut items = self.items.iter().copied();
        items.find(|(_, item)| is_import(item))
    }

    /// Returns the objects whose annotations are copied from other clusters: mirrors and ServiceImports.
    pub(super) fn copies(&self) -> impl Iterator<Item = (&'i ObjectKey, &'i Item)> {
        let items = self.items.iter().copied();
        items.filter(|(_, item)| item.export().is_none())
    }

    /// Returns the clusters behind the addresses of a kind that belong to no single cluster: of a federated service, or of
    /// a ServiceImport with addresses.
    pub(super) fn shared_clusters(&self, kind: ItemKind, rules: &Rules) -> BTreeSet<ClusterName> {
        let mut clusters = BTreeSet::new();
        for (_, item) in self.of_kind(kind) {
            if let Clusters::Several(set) = &item.clusters
                && !item.addresses.is_empty()
            {
                clusters.extend(set.names.iter().map(|cluster| rules.name_of(cluster)));
                clusters.extend(set.has_own.then(|| rules.cluster_name.clone()));
            }
        }
        clusters
    }
}
