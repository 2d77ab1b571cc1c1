//! The last known state of every object of every watch, with the indexes of the services that depend on it.
//!
//! The store belongs to one control task. Objects are kept separately for each watch. If the labels of a slice change, it leaves
//! one watch and appears on another, in either order. A deletion therefore affects only the copy of its watch.
//! Each method that changes the store returns the affected services, so that [`build`](super::build::build) rebuilds only
//! these.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;

use smallvec::SmallVec;

use super::shared::SharedMap;
use crate::model::{
    ClusterName, Item, Kind, Object, ObjectKey, ObjectName, ObjectRef, Problem, ServiceKey, Slice,
    Text, Watch,
};

/// A set of services: those that must be built, or those that were built.
pub type ServiceKeys = BTreeSet<ServiceKey>;

/// Objects that the parser skipped. A clone shares its content with the original.
pub type Skipped = SharedMap<(Watch, ObjectKey), Arc<Problem>>;

/// The objects of one watch.
pub type Objects = BTreeMap<ObjectKey, Object>;

/// The slices of a Service. Most Services have one.
pub type ServiceSlices<'s> = SmallVec<[(&'s ObjectKey, &'s Slice); 1]>;

/// A list that affects more services than this is followed by [`WatchState::compact`].
const COMPACT_ABOVE: usize = 1000;

/// The last known state of every object, with the indexes that a build needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Store {
    watched: [WatchState; Watch::ALL.len()],
    /// Objects that the parser skipped.
    skipped: Skipped,
    /// The clusters of links that mirrors come from, with the number of these mirrors.
    linked_clusters: BTreeMap<ClusterName, usize>,
}

/// The objects of one watch, with their indexes.
#[derive(Clone, Debug, Default, PartialEq)]
struct WatchState {
    objects: Objects,
    /// The names of the Services that belong to a service. They are in its namespace (rule M1).
    services: BTreeMap<ServiceKey, Vec<Text>>,
    /// Slices with a name that does not start with the name of their Service: the Service and the name of the slice.
    unprefixed_slices: BTreeSet<(ObjectKey, ObjectName)>,
}

// === impl Store: changes ===

impl Store {
    /// Records an object that `watch` added or modified.
    pub fn apply(&mut self, watch: Watch, key: ObjectKey, object: Object) -> ServiceKeys {
        let mut services = ServiceKeys::new();
        self.replace(watch, key, Some(object), &mut services);
        services
    }

    /// Records that an object left `watch`.
    pub fn delete(&mut self, watch: Watch, key: ObjectKey) -> ServiceKeys {
        let mut services = ServiceKeys::new();
        self.replace(watch, key, None, &mut services);
        services
    }

    /// Replaces all objects of `watch` with a complete list. If `namespace` is given, the list is complete for that
    /// namespace only. Returns the services that depend on a changed object.
    pub fn reset(&mut self, watch: Watch, namespace: Option<&str>, listed: Objects) -> ServiceKeys {
        let known = self.keys(watch, namespace);
        let removed: Vec<ObjectKey> = known
            .filter(|key| !listed.contains_key(*key))
            .cloned()
            .collect();
        let mut services = ServiceKeys::new();
        for key in removed {
            self.replace(watch, key, None, &mut services);
        }
        for (key, object) in listed {
            self.replace(watch, key, Some(object), &mut services);
        }
        if services.len() > COMPACT_ABOVE {
            self.watched[watch as usize].compact();
        }
        services
    }

    /// Returns the number of objects of `watch`, of one namespace or of all.
    pub fn count(&self, watch: Watch, namespace: Option<&str>) -> usize {
        self.keys(watch, namespace).count()
    }

    fn keys(&self, watch: Watch, namespace: Option<&str>) -> impl Iterator<Item = &ObjectKey> {
        let is_covered = move |key: &&ObjectKey| namespace.is_none_or(|n| *key.namespace == *n);
        self.objects(watch).keys().filter(is_covered)
    }

    /// Replaces one object. If it changed, adds the services that depend on it.
    fn replace(
        &mut self,
        watch: Watch,
        key: ObjectKey,
        new: Option<Object>,
        services: &mut ServiceKeys,
    ) {
        let new = new.map(|mut new| {
            if let Object::Skipped(problem) = &mut new {
                let (kind, key) = (watch.kind(), key.clone());
                Arc::make_mut(problem).object = Some(ObjectRef { kind, key });
            }
            new
        });
        let old = self.objects(watch).get(&key);
        if old == new.as_ref() {
            return;
        }
        services.extend(old.and_then(|old| self.affected_service(&key, old)));
        let old = self.watched[watch as usize].remove(&key);
        for cluster in linked(old.as_ref()) {
            if let Entry::Occupied(mut count) = self.linked_clusters.entry(cluster.clone()) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
        if let Some(Object::Skipped(_)) = old {
            self.skipped.remove(&(watch, key.clone()));
        }
        if let Some(new) = new {
            services.extend(self.affected_service(&key, &new));
            if let Object::Skipped(skip) = &new {
                self.skipped.insert((watch, key.clone()), skip.clone());
            }
            for cluster in linked(Some(&new)) {
                *self.linked_clusters.entry(cluster.clone()).or_default() += 1;
            }
            self.watched[watch as usize].insert(&key, new);
        }
    }

    /// Returns the service that depends on an object. For a slice, this is the service of its Service.
    fn affected_service(&self, key: &ObjectKey, object: &Object) -> Option<ServiceKey> {
        if let Object::Plain(_) = object {
            return key.own_service();
        }
        let owner = || self.item_at(&key.sibling(object.owner()?));
        let service = object.service().or_else(|| Some(&owner()?.service));
        service.cloned()
    }
}

// === impl Store: queries of a build ===

impl Store {
    /// Returns the time of creation of a Service of this cluster that is neither headless nor exported and has no settings.
    pub fn plain_service(&self, service: &ObjectKey) -> Option<Option<NonZeroU32>> {
        match self.objects(Watch::Services).get(service)? {
            Object::Plain(created) => Some(*created),
            Object::Item(_) | Object::Slice(_) | Object::Link(_) | Object::Skipped(_) => None,
        }
    }

    /// Returns the item with the key of a Service.
    pub fn item_at(&self, service: &ObjectKey) -> Option<&Item> {
        self.objects(Watch::Services).get(service)?.item()
    }

    /// Returns the items of a service.
    pub fn objects_of(&self, service: &ServiceKey) -> impl Iterator<Item = (&ObjectKey, &Object)> {
        let watched = self.watched.iter();
        watched.flat_map(|watched| watched.objects_of(service))
    }

    /// Returns the slices that belong to a Service.
    pub fn slices_of(&self, service: &ObjectKey) -> ServiceSlices<'_> {
        let first_slice = ObjectKey {
            namespace: service.namespace.clone(),
            name: ObjectName::first_of(service.name.text()),
        };
        let mut slices = ServiceSlices::new();
        for watch in Watch::ALL {
            if watch.kind() == Kind::EndpointSlice {
                self.watched[watch as usize].add_slices_of(service, &first_slice, &mut slices);
            }
        }
        slices
    }

    /// Returns the Links, with the clusters that they name.
    pub fn links(&self) -> impl Iterator<Item = (&ObjectKey, &ClusterName)> {
        let links = self.objects(Watch::Links).iter();
        links.filter_map(|(key, object)| match object {
            Object::Link(cluster) => Some((key, cluster)),
            _ => None,
        })
    }

    /// Returns the clusters of links that mirrors come from, before aliases.
    pub fn linked_clusters(&self) -> impl Iterator<Item = &ClusterName> {
        self.linked_clusters.keys()
    }

    /// Returns the services with mirrors from some clusters. Reads every Service, because a cluster loses its Link rarely.
    pub fn services_linked_to(&self, clusters: &BTreeSet<ClusterName>) -> ServiceKeys {
        let is_linked = |item: &&Item| item.linked().iter().any(|one| clusters.contains(one));
        let items = self
            .objects(Watch::Services)
            .values()
            .filter_map(Object::item)
            .filter(is_linked);
        items.map(|item| item.service.clone()).collect()
    }

    /// Returns all objects of a watch.
    pub fn objects(&self, watch: Watch) -> &Objects {
        &self.watched[watch as usize].objects
    }

    /// Returns the objects that the parser skipped.
    pub fn skipped(&self) -> &Skipped {
        &self.skipped
    }
}

/// Returns the clusters of the links that made an object.
fn linked(object: Option<&Object>) -> &[ClusterName] {
    let item = object.and_then(Object::item);
    item.map_or(&[], Item::linked)
}

// === impl WatchState ===

impl WatchState {
    fn insert(&mut self, key: &ObjectKey, object: Object) {
        if let Some(service) = object.service() {
            let names = self.services.entry(service.clone()).or_default();
            let name = key.name.text();
            if let Err(index) = names.binary_search(&name) {
                names.reserve_exact(1);
                names.insert(index, name);
            }
        }
        if let Some(owner) = object.owner().filter(|owner| *owner != key.name.stem()) {
            let owner = key.sibling(owner);
            self.unprefixed_slices.insert((owner, key.name.clone()));
        }
        self.objects.insert(key.clone(), object);
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Object> {
        let object = self.objects.remove(key)?;
        if let Some(service) = object.service()
            && let Some(names) = self.services.get_mut(service)
        {
            names.retain(|name| key.name != **name);
            if names.is_empty() {
                self.services.remove(service);
            }
        }
        if let Some(owner) = object.owner() {
            let owner = key.sibling(owner);
            self.unprefixed_slices.remove(&(owner, key.name.clone()));
        }
        Some(object)
    }

    /// Rebuilds the trees after a long list. A tree that grows at one end is half empty.
    fn compact(&mut self) {
        self.objects = std::mem::take(&mut self.objects).into_iter().collect();
        self.services = std::mem::take(&mut self.services).into_iter().collect();
        self.unprefixed_slices = std::mem::take(&mut self.unprefixed_slices)
            .into_iter()
            .collect();
    }

    /// Returns the items of a service.
    fn objects_of(&self, service: &ServiceKey) -> impl Iterator<Item = (&ObjectKey, &Object)> {
        let names = self.services.get(service).into_iter().flatten();
        let keys = names.map(|name| ObjectKey {
            namespace: service.namespace.text().clone(),
            name: ObjectName::from_text(name),
        });
        keys.filter_map(|key| self.objects.get_key_value(&key))
    }

    /// Adds the slices of a Service: those with a name that starts with its name, and all others. `first_slice` is the first
    /// possible key of the former.
    fn add_slices_of<'s>(
        &'s self,
        service: &ObjectKey,
        first_slice: &ObjectKey,
        slices: &mut ServiceSlices<'s>,
    ) {
        let name = first_slice.name.stem();
        let is_named =
            |key: &ObjectKey| key.name.stem() == name && key.namespace == first_slice.namespace;
        let named = self
            .objects
            .range(first_slice..)
            .take_while(|(key, _)| is_named(key))
            .filter(|(_, object)| object.owner() == Some(name));
        slices.extend(named.filter_map(|(key, object)| Some((key, object.slice()?))));
        if self.unprefixed_slices.is_empty() {
            return;
        }
        let first = (service.clone(), ObjectName::first_of(Text::new()));
        let others = self
            .unprefixed_slices
            .range(first..)
            .take_while(|(owner, _)| owner == service);
        slices.extend(others.filter_map(|(_, name)| {
            let (namespace, name) = (service.namespace.clone(), name.clone());
            let slice = ObjectKey { namespace, name };
            let (key, object) = self.objects.get_key_value(&slice)?;
            Some((key, object.slice()?))
        }));
    }
}
