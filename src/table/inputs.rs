//! What was last seen: every object of every watch, reduced, and who depends on it.
//!
//! Inputs belong to one control task. They are kept *per watch*, because an object whose labels change leaves one
//! connection and appears on another, in either order; a delete touches only its own watch's copy. Each verb returns the
//! services whose answers may have changed, so that [`build`](super::build::build) touches those and no other.

mod losses;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use losses::Loss;

use super::shared::SharedMap;
use crate::mirror::{Kind, Object, ObjectKey, ObjectName, ServiceKey, Skip, Subject, Text, Watch};

/// Services that must be built anew.
pub type Dirty = BTreeSet<ServiceKey>;

/// Objects that were skipped when they were parsed. A copy shares what both have in common.
pub type Skipped = SharedMap<(Watch, ObjectKey), Arc<Skip>>;

/// The objects of one watch.
pub type Objects = BTreeMap<ObjectKey, Object>;

/// Services that a list may change without being worth [`Watched::pack`].
const SPARSE: usize = 1000;

/// Every object last seen, with the indexes that a build needs.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    watched: [Watched; Watch::ALL.len()],
    /// Objects that were skipped when they were parsed.
    skipped: Skipped,
    /// Mirrors that were of something else before: what, and of what they are now.
    changed: BTreeMap<ObjectKey, (String, String)>,
}

/// What one watch has seen.
#[derive(Clone, Debug, Default)]
struct Watched {
    objects: Objects,
    /// The Services that are part of a service, by their names; they are in its namespace (rule M1).
    services: BTreeMap<ServiceKey, Vec<Text>>,
    /// Slices whose own name does not say which Service they belong to: that Service, and the slice's name.
    strays: BTreeSet<(ObjectKey, ObjectName)>,
}

// === impl Inputs: three verbs ===

impl Inputs {
    /// Notes an object that `watch` added or modified.
    pub fn apply(&mut self, watch: Watch, key: ObjectKey, object: Object) -> Dirty {
        self.replace(watch, key, Some(object))
    }

    /// Notes that an object left `watch`.
    pub fn delete(&mut self, watch: Watch, key: ObjectKey) -> Dirty {
        self.replace(watch, key, None)
    }

    /// Replaces what `watch` has seen by a complete list, at once. With `namespace`, the list is of that namespace
    /// only.
    pub fn reset(&mut self, watch: Watch, namespace: Option<&str>, listed: Objects) -> Dirty {
        let is_listed = |key: &&ObjectKey| namespace.is_none_or(|n| *key.namespace == *n);
        let seen = self.objects(watch).keys().filter(is_listed);
        let gone: Vec<ObjectKey> = seen
            .filter(|key| !listed.contains_key(*key))
            .cloned()
            .collect();
        let mut dirty = Dirty::new();
        for key in gone {
            dirty.extend(self.delete(watch, key));
        }
        for (key, object) in listed {
            dirty.extend(self.apply(watch, key, object));
        }
        if dirty.len() > SPARSE {
            self.watched[watch as usize].pack();
        }
        dirty
    }

    /// Remembers, for as long as the object exists, that it was a mirror of something else before (rule M8): two links
    /// that write one mirror overwrite each other in place.
    fn note_identity(&mut self, key: &ObjectKey, old: Option<String>, new: Option<String>) {
        match (old, new) {
            (Some(old), Some(new)) if old != new => {
                self.changed.insert(key.clone(), (old, new));
            }
            (Some(_), None) => {
                self.changed.remove(key);
            }
            _ => {}
        }
    }

    fn replace(&mut self, watch: Watch, key: ObjectKey, new: Option<Object>) -> Dirty {
        let old = self.objects(watch).get(&key);
        if old == new.as_ref() {
            return Dirty::new();
        }
        let identities = [old, new.as_ref()].map(|object| object.and_then(Object::identity));
        let mut dirty: Dirty = self.services_that_need(&key, old).cloned().collect();
        if let Some(old) = self.watched[watch as usize].remove(&key)
            && let Object::Skipped(_) = old
        {
            self.skipped.remove(&(watch, key.clone()));
        }
        dirty.extend(self.services_that_need(&key, new.as_ref()).cloned());
        if let Some(new) = new {
            if let Object::Skipped(skip) = &new {
                self.skipped.insert((watch, key.clone()), skip.clone());
            }
            self.watched[watch as usize].insert(&key, new);
        }
        let [old, new] = identities;
        self.note_identity(&key, old, new);
        dirty
    }

    /// Returns the services whose answers depend on an object: of a slice, those that its Service is part of.
    fn services_that_need<'s>(
        &'s self,
        key: &ObjectKey,
        object: Option<&'s Object>,
    ) -> impl Iterator<Item = &'s ServiceKey> + use<'s> {
        let (own, owner) = match object.map(Object::subject) {
            Some(Subject::Service(service)) => (Some(service), None),
            Some(Subject::SliceOf(owner)) => (None, Some(key.beside(owner))),
            Some(Subject::Nothing) | None => (None, None),
        };
        let owners = owner.into_iter().flat_map(move |owner| {
            let owners = watches(Kind::Service).map(|watch| self.objects(watch).get(&owner));
            owners
                .flatten()
                .collect::<smallvec::SmallVec<[&Object; 1]>>()
        });
        own.into_iter().chain(owners.filter_map(service_of))
    }
}

/// Returns the service that an object is part of.
fn service_of(object: &Object) -> Option<&ServiceKey> {
    match object.subject() {
        Subject::Service(service) => Some(service),
        Subject::SliceOf(_) | Subject::Nothing => None,
    }
}

/// Returns the watches for objects of one kind.
fn watches(kind: Kind) -> impl Iterator<Item = Watch> {
    let all = Watch::ALL.into_iter();
    all.filter(move |watch| watch.kind() == kind)
}

// === impl Inputs: what a build reads ===

impl Inputs {
    /// Returns every service that some object is part of.
    pub fn services(&self) -> Dirty {
        let services = self
            .watched
            .iter()
            .flat_map(|watched| watched.services.keys());
        services.cloned().collect()
    }

    /// Returns the objects that are part of a service, watch by watch, but for slices.
    pub fn objects_of(&self, service: &ServiceKey) -> impl Iterator<Item = (&ObjectKey, &Object)> {
        let watched = self.watched.iter();
        watched.flat_map(|watched| watched.objects_of(service))
    }

    /// Returns the slices that belong to a Service.
    pub fn slices_of<'s>(
        &'s self,
        service: &ObjectKey,
    ) -> impl Iterator<Item = (&'s ObjectKey, &'s Object)> + use<'s> {
        let service = service.clone();
        watches(Kind::EndpointSlice)
            .flat_map(move |watch| self.watched[watch as usize].slices_of(service.clone()))
    }

    /// Returns the mirrors of a service that were of something else before, with what they were and are.
    pub fn changed(
        &self,
        service: &ServiceKey,
    ) -> impl Iterator<Item = (&ObjectKey, &(String, String))> {
        self.objects_of(service)
            .filter_map(|(key, _)| self.changed.get_key_value(key))
    }

    /// Returns every object of a watch.
    pub fn objects(&self, watch: Watch) -> &Objects {
        &self.watched[watch as usize].objects
    }

    /// Returns the objects that were skipped when they were parsed.
    pub fn skipped(&self) -> &Skipped {
        &self.skipped
    }
}

// === impl Watched ===

impl Watched {
    fn insert(&mut self, key: &ObjectKey, object: Object) {
        match object.subject() {
            Subject::Service(service) => {
                let names = self.services.entry(service.clone()).or_default();
                let name = key.name.text();
                if let Err(place) = names.binary_search(&name) {
                    names.reserve_exact(1);
                    names.insert(place, name);
                }
            }
            Subject::SliceOf(service) if service != key.name.stem() => {
                let service = key.beside(service);
                self.strays.insert((service, key.name.clone()));
            }
            Subject::SliceOf(_) | Subject::Nothing => {}
        }
        self.objects.insert(key.clone(), object);
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Object> {
        let object = self.objects.remove(key)?;
        match object.subject() {
            Subject::Service(service) => {
                if let Some(names) = self.services.get_mut(service) {
                    names.retain(|name| key.name != **name);
                    if names.is_empty() {
                        self.services.remove(service);
                    }
                }
            }
            Subject::SliceOf(service) => {
                let service = key.beside(service);
                self.strays.remove(&(service, key.name.clone()));
            }
            Subject::Nothing => {}
        }
        Some(object)
    }

    /// Packs what a long list left half empty: trees that grow at one end have room for as much again.
    fn pack(&mut self) {
        self.objects = std::mem::take(&mut self.objects).into_iter().collect();
        self.services = std::mem::take(&mut self.services).into_iter().collect();
        self.strays = std::mem::take(&mut self.strays).into_iter().collect();
    }

    /// Returns the objects that are part of a service.
    fn objects_of(&self, service: &ServiceKey) -> impl Iterator<Item = (&ObjectKey, &Object)> {
        let names = self.services.get(service).into_iter().flatten();
        let keys = names.map(|name| ObjectKey {
            namespace: service.namespace.text().clone(),
            name: ObjectName::from_text(name),
        });
        keys.filter_map(|key| self.objects.get_key_value(&key))
    }

    /// Returns the slices of a Service: those that are named after it, and strays.
    fn slices_of(&self, service: ObjectKey) -> impl Iterator<Item = (&ObjectKey, &Object)> {
        let name = service.name.text();
        let namespace = service.namespace.clone();
        let first = ObjectKey {
            namespace: namespace.clone(),
            name: ObjectName::first_of(name.clone()),
        };
        let stem = name.clone();
        let named = self
            .objects
            .range(first..)
            .take_while(move |(key, _)| key.namespace == namespace && *key.name.stem() == stem);
        let named = named.filter(move |(_, object)| object.subject() == Subject::SliceOf(&name));
        let first = (service.clone(), ObjectName::first_of(Text::new()));
        let strays = self.strays.range(first..);
        let strays = strays.take_while(move |(of, _)| *of == service);
        let strays = strays.filter_map(|(service, name)| {
            let namespace = service.namespace.clone();
            let name = name.clone();
            self.objects.get_key_value(&ObjectKey { namespace, name })
        });
        named.chain(strays)
    }
}
