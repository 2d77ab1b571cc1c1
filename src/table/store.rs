//! The last known state of every object, with an index by service.
//!
//! The store belongs to one control task. Each method that changes the store returns the affected services, so that
//! [`build`](super::build::build) rebuilds only these. An object that did not change affects none.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::slice;
use std::sync::Arc;

use smallvec::SmallVec;

use super::endpoint::Source;
use super::rules::Rules;
use super::shared::{SharedMap, set};
use crate::model::{
    ClusterName, Item, Kind, Object, ObjectKey, ObjectName, ObjectRef, Problem, ServiceKey, Slice,
    Text,
};

/// A set of services: those that must be built, or those that were built.
pub type ServiceKeys = BTreeSet<ServiceKey>;

/// Objects that the parser skipped. A clone shares its content with the original.
pub type Skipped = SharedMap<ObjectRef, Arc<Problem>>;

/// Objects of one kind.
pub type Objects = BTreeMap<ObjectKey, Object>;

/// The slices of a Service. Most Services have one.
pub type ServiceSlices<'s> = SmallVec<[(&'s ObjectKey, &'s Slice); 1]>;

/// Names of Services. Those of a service with cluster IPs are mostly in place.
type ServiceNames = SmallVec<[Text; 2]>;

/// A list that affects more services than this is followed by [`Store::compact`].
const COMPACT_ABOVE: usize = 1000;

/// Number of entries of a map after which a [`Cursor`] searches it from its root.
const NEAR: usize = 8;

/// A place in a map of objects. A build asks for the objects of a service in the order of their keys, and they are mostly side by
/// side, so that it seldom searches the whole map.
#[derive(Debug)]
pub struct Cursor<'s> {
    objects: &'s Objects,
    rest: btree_map::Range<'s, ObjectKey, Object>,
}

/// The last known state of every object, with the indexes that a build needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Store {
    /// The objects of each kind.
    objects: [Objects; Kind::ALL.len()],
    /// The names of the Services that belong to each service, sorted, also of those that cannot be used. They are in its namespace
    /// (rule M1).
    services: BTreeMap<ServiceKey, ServiceNames>,
    /// Slices with a name that does not start with the name of their Service: the Service and the name of the slice.
    unprefixed_slices: BTreeSet<(ObjectKey, ObjectName)>,
    /// Objects that the parser skipped.
    skipped: Skipped,
    /// The clusters that mirrors and Links name, before aliases.
    pub(super) clusters: BTreeMap<ClusterName, NamedCluster>,
    /// The clusters that a mirror or a Link began or ceased to name since somebody took them. `None`: any, because the store is new.
    pub(super) changed_clusters: Option<BTreeSet<ClusterName>>,
    /// Whether an object was added, changed or removed since that was asked for.
    is_changed: bool,
}

/// What names a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NamedCluster {
    /// The services of its mirrors, with their numbers. A federated service is a mirror of each of its members.
    pub mirrored: BTreeMap<ServiceKey, usize>,
    /// The keys of its Links.
    pub links: BTreeSet<ObjectKey>,
}

// === impl Store: changes ===

impl Store {
    /// Records the new state of an object. `None`: it was deleted, or does not matter any more.
    pub fn apply(&mut self, kind: Kind, key: ObjectKey, object: Option<Object>) -> ServiceKeys {
        let mut services = ServiceKeys::new();
        self.replace(kind, key, object, &mut services);
        services
    }

    /// Replaces all objects of a kind with a complete list. If `namespace` is given, the list is complete for that
    /// namespace only. Returns the services that depend on a changed object.
    pub fn reset(&mut self, kind: Kind, namespace: Option<&str>, listed: Objects) -> ServiceKeys {
        let removed: Vec<ObjectKey> = self
            .keys(kind, namespace)
            .filter(|key| !listed.contains_key(*key))
            .cloned()
            .collect();
        let mut services = ServiceKeys::new();
        for key in removed {
            self.replace(kind, key, None, &mut services);
        }
        for (key, object) in listed {
            self.replace(kind, key, Some(object), &mut services);
        }
        if services.len() > COMPACT_ABOVE {
            self.compact(kind);
        }
        services
    }

    /// Returns the number of objects of a kind, of one namespace or of all.
    pub fn count(&self, kind: Kind, namespace: Option<&str>) -> usize {
        self.keys(kind, namespace).count()
    }

    /// Returns whether an object was added, changed or removed since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    fn keys(&self, kind: Kind, namespace: Option<&str>) -> impl Iterator<Item = &ObjectKey> {
        let is_covered = move |key: &&ObjectKey| namespace.is_none_or(|n| *key.namespace == *n);
        self.objects(kind).keys().filter(is_covered)
    }

    /// Replaces one object. If it changed, adds the services that depend on its old and its new version.
    fn replace(
        &mut self,
        kind: Kind,
        key: ObjectKey,
        mut new: Option<Object>,
        services: &mut ServiceKeys,
    ) {
        if let Some(Object::Skipped(problem)) = &mut new {
            let key = key.clone();
            Arc::make_mut(problem).objects = [ObjectRef { kind, key }].into();
        }
        if self.objects(kind).get(&key) == new.as_ref() {
            return;
        }
        self.is_changed = true;
        // Before the old version goes: a cluster that both versions name does not change.
        if let Some(new) = &new {
            self.note_clusters(&key, new, true);
        }
        if let Some(old) = self.objects[kind as usize].remove(&key) {
            self.note_clusters(&key, &old, false);
            self.add_affected(kind, &key, &old, services);
            self.index(kind, &key, &old, false);
        }
        if let Some(new) = new {
            self.add_affected(kind, &key, &new, services);
            self.index(kind, &key, &new, true);
            self.objects[kind as usize].insert(key, new);
        }
    }

    /// Notes that an object names its clusters, or does not any more.
    fn note_clusters(&mut self, key: &ObjectKey, object: &Object, is_added: bool) {
        let clusters = match object {
            Object::Item(item) => &item.linked[..],
            Object::Link(link) => slice::from_ref(&link.cluster),
            _ => return,
        };
        for name in clusters {
            let cluster = self.clusters.entry(name.clone()).or_default();
            let was_mirrored = cluster.is_mirrored();
            let was_linked = cluster.is_linked();
            if let Object::Item(item) = object {
                let service = key.service(&item.service);
                let count = cluster.mirrored.entry(service.clone()).or_default();
                *count = if is_added { *count + 1 } else { *count - 1 };
                if *count == 0 {
                    cluster.mirrored.remove(&service);
                }
            } else {
                put(&mut cluster.links, key.clone(), is_added);
            }
            let is_mirrored = cluster.is_mirrored();
            let is_linked = cluster.is_linked();
            let is_turned = is_mirrored != was_mirrored || is_linked != was_linked;
            if is_turned && let Some(changed) = &mut self.changed_clusters {
                changed.insert(name.clone());
            }
            if !is_mirrored && !is_linked {
                self.clusters.remove(name);
            }
        }
    }

    /// Adds the services that depend on an object. For a slice, this is the service of its Service. On a Service that is no item, the
    /// one of its name depends: a setting ends with the Service that carries it, unless that Service stays (rule K6). A mirror that is
    /// skipped explains what its service lacks.
    fn add_affected(
        &self,
        kind: Kind,
        key: &ObjectKey,
        object: &Object,
        services: &mut ServiceKeys,
    ) {
        if let (Kind::Service, Object::Plain | Object::Skipped(_)) = (kind, object) {
            services.extend(key.own_service());
            if let Object::Skipped(problem) = object {
                services.extend(problem.service.clone());
            }
            return;
        }
        let owner = || self.item_at(&key.sibling(object.owner()?));
        let service = object.service().or_else(|| Some(&owner()?.service));
        services.extend(service.map(|service| key.service(service)));
    }

    /// Adds an object to the indexes, or removes it from them.
    fn index(&mut self, kind: Kind, key: &ObjectKey, object: &Object, is_added: bool) {
        let service = match object {
            Object::Skipped(problem) => problem.service.clone(),
            item => item.service().map(|service| key.service(service)),
        };
        if let Some(service) = service {
            self.index_service(service, key.name.text(), is_added);
        }
        if let Some(owner) = object.owner().filter(|owner| *owner != key.name.stem()) {
            let entry = (key.sibling(owner), key.name.clone());
            put(&mut self.unprefixed_slices, entry, is_added);
        }
        if let Object::Skipped(problem) = object {
            let key = key.clone();
            let problem = is_added.then(|| problem.clone());
            set(&mut self.skipped, &ObjectRef { kind, key }, problem);
        }
    }

    /// Adds the name of a Service to those of its service, or removes it.
    fn index_service(&mut self, service: ServiceKey, name: Text, is_added: bool) {
        let names = self.services.entry(service.clone()).or_default();
        match names.binary_search(&name) {
            Err(place) if is_added => names.insert(place, name),
            Ok(place) if !is_added => _ = names.remove(place),
            _ => {}
        }
        if names.is_empty() {
            self.services.remove(&service);
        }
    }

    /// Rebuilds the trees after a long list. A tree that grows at one end is half empty.
    fn compact(&mut self, kind: Kind) {
        let objects = &mut self.objects[kind as usize];
        *objects = std::mem::take(objects).into_iter().collect();
        self.services = std::mem::take(&mut self.services).into_iter().collect();
        self.services
            .values_mut()
            .for_each(ServiceNames::shrink_to_fit);
        for cluster in self.clusters.values_mut() {
            cluster.mirrored = std::mem::take(&mut cluster.mirrored).into_iter().collect();
        }
        self.unprefixed_slices = std::mem::take(&mut self.unprefixed_slices)
            .into_iter()
            .collect();
    }
}

// === impl Store: queries of a build ===

impl Store {
    /// Returns whether a key is that of a Service that is no item: it is neither headless nor exported and has no settings, or it
    /// cannot be used.
    pub fn has_other_service(&self, service: &ObjectKey) -> bool {
        let object = self.objects(Kind::Service).get(service);
        matches!(object, Some(Object::Plain | Object::Skipped(_)))
    }

    /// Returns the item with the key of a Service.
    pub fn item_at(&self, service: &ObjectKey) -> Option<&Item> {
        self.objects(Kind::Service).get(service)?.item()
    }

    /// Returns the items of a service, with the keys of their objects.
    pub fn items_of(&self, service: &ServiceKey) -> impl Iterator<Item = Source<'_>> {
        let objects = self.objects_of(service);
        objects.filter_map(|(object, found)| {
            Some(Source {
                object,
                item: found.item()?,
            })
        })
    }

    /// Returns the Services that belong to a service, also those that cannot be used.
    pub(super) fn objects_of(
        &self,
        service: &ServiceKey,
    ) -> impl Iterator<Item = (&ObjectKey, &Object)> {
        let names = self.services.get(service).into_iter().flatten();
        let own = ObjectKey::of_service(service);
        let mut cursor = self.cursor(Kind::Service);
        names.filter_map(move |name| {
            let key = own.sibling(name);
            cursor.seek(&key).next().filter(|(found, _)| **found == key)
        })
    }

    /// Returns a cursor over the objects of a kind. Its first search begins at the root of the map.
    pub fn cursor(&self, kind: Kind) -> Cursor<'_> {
        Cursor {
            objects: self.objects(kind),
            rest: btree_map::Range::default(),
        }
    }

    /// Returns the slices that belong to a Service.
    pub fn slices_of(&self, service: &ObjectKey) -> ServiceSlices<'_> {
        self.slices_near(&mut self.cursor(Kind::EndpointSlice), service)
    }

    /// Returns the slices that belong to a Service: those with a name that starts with its name, and all others. `slices` is a cursor
    /// at those of another Service.
    pub fn slices_near<'s>(
        &'s self,
        slices: &mut Cursor<'s>,
        service: &ObjectKey,
    ) -> ServiceSlices<'s> {
        let name = service.name.text();
        let first = ObjectKey {
            namespace: service.namespace.clone(),
            name: ObjectName::first_of(name.clone()),
        };
        let is_named =
            |key: &ObjectKey| *key.name.stem() == name && key.namespace == first.namespace;
        let named = slices
            .seek(&first)
            .take_while(|(key, _)| is_named(key))
            .filter(|(_, object)| object.owner() == Some(&name));
        let first = (service.clone(), ObjectName::first_of(Text::new()));
        let others = self
            .unprefixed_slices
            .range(first..)
            .take_while(|(owner, _)| owner == service)
            .filter_map(|(_, name)| {
                let namespace = service.namespace.clone();
                let name = name.clone();
                slices.objects.get_key_value(&ObjectKey { namespace, name })
            });
        named
            .chain(others)
            .filter_map(|(key, object)| Some((key, object.slice()?)))
            .collect()
    }

    /// Returns the domain of the own names of a cluster, if a Link to it says one.
    pub(super) fn domain_of(&self, cluster: &NamedCluster) -> Option<Text> {
        let links = self.objects(Kind::Link);
        cluster.links.iter().find_map(|key| match links.get(key)? {
            Object::Link(link) if !link.domain.is_empty() => Some(link.domain.clone()),
            _ => None,
        })
    }

    /// Returns whether something here knows a cluster, by its name after aliases: it is this one, or a mirror or a Link names it.
    /// Nothing knows an excluded cluster.
    pub(super) fn knows(&self, cluster: &ClusterName, rules: &Rules) -> bool {
        let mut links = rules.links_of(cluster);
        !rules.excluded_clusters.contains(cluster)
            && (*cluster == rules.cluster_name
                || links.any(|link| self.clusters.contains_key(link)))
    }

    /// Returns all objects of a kind.
    pub fn objects(&self, kind: Kind) -> &Objects {
        &self.objects[kind as usize]
    }

    /// Returns the objects that the parser skipped.
    pub fn skipped(&self) -> &Skipped {
        &self.skipped
    }
}

// === impl NamedCluster ===

impl NamedCluster {
    /// Returns whether a mirror names it.
    pub(super) fn is_mirrored(&self) -> bool {
        !self.mirrored.is_empty()
    }

    /// Returns whether a Link names it.
    pub(super) fn is_linked(&self) -> bool {
        !self.links.is_empty()
    }
}

// === impl Cursor ===

impl<'s> Cursor<'s> {
    /// Moves to the first object with a key that is not less. Returns the objects from there on.
    fn seek(&mut self, key: &ObjectKey) -> btree_map::Range<'s, ObjectKey, Object> {
        let mut orders = self
            .rest
            .clone()
            .take(NEAR)
            .map(|(one, _)| one.cmp(key))
            .enumerate();
        match orders.find(|(_, order)| order.is_ge()) {
            // An object before the cursor may be the first one.
            None | Some((0, Ordering::Greater)) => self.rest = self.objects.range(key..),
            Some((steps, _)) => self.rest.by_ref().take(steps).for_each(drop),
        }
        self.rest.clone()
    }
}

/// Adds an entry to a set, or removes it.
fn put<T: Ord>(entries: &mut BTreeSet<T>, entry: T, is_added: bool) {
    if is_added {
        entries.insert(entry);
    } else {
        entries.remove(&entry);
    }
}
