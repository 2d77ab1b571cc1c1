//! What was last seen: every object of every watch, reduced, and who depends on it.
//!
//! Inputs belong to one control task. They are kept *per watch*, because an object whose labels change leaves one
//! connection and appears on another, in either order; a delete touches only its own watch's copy. Each verb returns the
//! services whose answers may have changed, so that [`build`](super::build::build) touches those and no other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::mirror::{
    ClusterName, EndpointMirror, HeadlessMirror, LocalService, Object, ObjectKey, ServiceKey, Skip,
    Slice, Watch,
};

/// Services that must be built anew.
pub type Dirty = BTreeSet<ServiceKey>;

/// Objects that were skipped when they were parsed.
pub type Skipped = BTreeMap<(Watch, ObjectKey), Skip>;

/// Mirrors that were of something else before: what, and of what they are now.
pub type Changed = BTreeMap<ObjectKey, (String, String)>;

/// The objects of one watch.
pub type Objects = BTreeMap<ObjectKey, Object>;

/// Every object last seen, with the indexes that a build needs.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    objects: [Objects; Watch::ALL.len()],
    /// Mirrors by the service that they claim to be part of.
    claims: BTreeMap<ServiceKey, BTreeSet<ObjectKey>>,
    /// Endpoint mirrors by the headless mirror that their label names.
    children: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// Slices by the Service that they belong to.
    slices: BTreeMap<ObjectKey, BTreeSet<(Watch, ObjectKey)>>,
    /// Objects that were skipped when they were parsed. Shared with the table.
    skipped: Arc<Skipped>,
    /// Mirrors that were of something else before. Shared with the table.
    changed: Arc<Changed>,
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
        let seen = self.objects[watch as usize].keys().filter(is_listed);
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
        dirty
    }

    /// Remembers, for as long as the object exists, that it was a mirror of something else before (rule M8): two links
    /// that write one mirror overwrite each other in place.
    fn note_identity(&mut self, key: &ObjectKey, old: Option<String>, new: Option<String>) {
        match (old, new) {
            (Some(old), Some(new)) if old != new => {
                Arc::make_mut(&mut self.changed).insert(key.clone(), (old, new));
            }
            (_, None) if self.changed.contains_key(key) => {
                Arc::make_mut(&mut self.changed).remove(key);
            }
            _ => {}
        }
    }

    fn replace(&mut self, watch: Watch, key: ObjectKey, new: Option<Object>) -> Dirty {
        let old = self.objects[watch as usize].get(&key);
        if old == new.as_ref() {
            return Dirty::new();
        }
        let mut dirty = self.dependents(watch, &key, old);
        self.note_identity(
            &key,
            old.and_then(identity),
            new.as_ref().and_then(identity),
        );
        if let Some(old) = self.objects[watch as usize].remove(&key) {
            self.unindex(watch, &key, &old);
        }
        if let Some(new) = new {
            self.index(watch, &key, &new);
            self.objects[watch as usize].insert(key.clone(), new);
        }
        dirty.extend(self.dependents(watch, &key, self.objects[watch as usize].get(&key)));
        dirty
    }

    /// Returns the services whose answers depend on `object`.
    fn dependents(&self, watch: Watch, key: &ObjectKey, object: Option<&Object>) -> Dirty {
        let mut dirty = Dirty::new();
        match object {
            Some(Object::HeadlessMirror(mirror)) => dirty.extend([mirror.service.clone()]),
            Some(Object::EndpointMirror(mirror)) => dirty.extend([mirror.service.clone()]),
            Some(Object::LocalService(_)) => dirty.extend(service_key(key)),
            Some(Object::Slice(slice)) => {
                let owner = ObjectKey {
                    namespace: key.namespace.clone(),
                    name: slice.service.clone(),
                };
                dirty.extend(match watch {
                    Watch::MirrorSlices => self.endpoint_mirror(&owner).map(|m| m.service.clone()),
                    Watch::MirrorServices
                    | Watch::LocalServices
                    | Watch::LocalSlices
                    | Watch::ForeignSlices => service_key(&owner),
                });
            }
            Some(Object::Skipped(skip)) => {
                dirty.extend(skip.other_kind.iter().map(|(s, _)| s.clone()))
            }
            None => {}
        }
        if watch == Watch::MirrorServices {
            // A parent that comes, goes or changes its identity (rule M8) decides over its children (rule M2).
            let children = self.children.get(key).into_iter().flatten();
            dirty.extend(
                children
                    .filter_map(|c| self.endpoint_mirror(c))
                    .map(|m| m.service.clone()),
            );
        }
        dirty
    }

    fn index(&mut self, watch: Watch, key: &ObjectKey, object: &Object) {
        match object {
            Object::HeadlessMirror(mirror) => {
                self.claims
                    .entry(mirror.service.clone())
                    .or_default()
                    .insert(key.clone());
            }
            Object::EndpointMirror(mirror) => {
                self.claims
                    .entry(mirror.service.clone())
                    .or_default()
                    .insert(key.clone());
                self.children
                    .entry(parent(key, mirror))
                    .or_default()
                    .insert(key.clone());
            }
            Object::LocalService(_) => {}
            Object::Slice(slice) => {
                let owner = owner(key, slice);
                self.slices
                    .entry(owner)
                    .or_default()
                    .insert((watch, key.clone()));
            }
            Object::Skipped(skip) => {
                Arc::make_mut(&mut self.skipped).insert((watch, key.clone()), skip.clone());
                if let Some((service, _)) = &skip.other_kind {
                    self.claims
                        .entry(service.clone())
                        .or_default()
                        .insert(key.clone());
                }
            }
        }
    }

    fn unindex(&mut self, watch: Watch, key: &ObjectKey, object: &Object) {
        match object {
            Object::HeadlessMirror(mirror) => remove(&mut self.claims, &mirror.service, key),
            Object::EndpointMirror(mirror) => {
                remove(&mut self.claims, &mirror.service, key);
                remove(&mut self.children, &parent(key, mirror), key);
            }
            Object::LocalService(_) => {}
            Object::Slice(slice) => {
                remove(&mut self.slices, &owner(key, slice), &(watch, key.clone()));
            }
            Object::Skipped(skip) => {
                if let Some((service, _)) = &skip.other_kind {
                    remove(&mut self.claims, service, key);
                }
                Arc::make_mut(&mut self.skipped).remove(&(watch, key.clone()));
            }
        }
    }
}

// === impl Inputs: what a build reads ===

impl Inputs {
    /// Returns every service that some object claims to be part of.
    pub fn services(&self) -> Dirty {
        let local = self.objects[Watch::LocalServices as usize].iter();
        let local = local.filter(|(_, object)| matches!(object, Object::LocalService(_)));
        self.claims
            .keys()
            .cloned()
            .chain(local.filter_map(|(key, _)| service_key(key)))
            .collect()
    }

    /// Returns the headless mirrors of a service.
    pub fn headless_mirrors(
        &self,
        service: &ServiceKey,
    ) -> impl Iterator<Item = (&ObjectKey, &HeadlessMirror)> {
        let claims = self.claims.get(service).into_iter().flatten();
        claims.filter_map(
            |key| match self.objects[Watch::MirrorServices as usize].get(key)? {
                Object::HeadlessMirror(mirror) => Some((key, mirror)),
                Object::EndpointMirror(_)
                | Object::LocalService(_)
                | Object::Slice(_)
                | Object::Skipped(_) => None,
            },
        )
    }

    /// Returns the endpoint mirrors of a service.
    pub fn endpoint_mirrors(
        &self,
        service: &ServiceKey,
    ) -> impl Iterator<Item = (&ObjectKey, &EndpointMirror)> {
        let claims = self.claims.get(service).into_iter().flatten();
        claims.filter_map(|key| self.endpoint_mirror(key).map(|mirror| (key, mirror)))
    }

    /// Returns the headless mirror that an endpoint mirror's label names, if there is one.
    pub fn parent_of(&self, key: &ObjectKey, mirror: &EndpointMirror) -> Option<&HeadlessMirror> {
        match self.objects[Watch::MirrorServices as usize].get(&parent(key, mirror))? {
            Object::HeadlessMirror(parent) => Some(parent),
            Object::EndpointMirror(_)
            | Object::LocalService(_)
            | Object::Slice(_)
            | Object::Skipped(_) => None,
        }
    }

    /// Returns the headless Service of this cluster with a service's name.
    pub fn local_service(&self, service: &ServiceKey) -> Option<&LocalService> {
        match self.objects[Watch::LocalServices as usize].get(&object_key(service))? {
            Object::LocalService(local) => Some(local),
            Object::HeadlessMirror(_)
            | Object::EndpointMirror(_)
            | Object::Slice(_)
            | Object::Skipped(_) => None,
        }
    }

    /// Returns the slices of an endpoint mirror.
    pub fn mirror_slices(&self, mirror: &ObjectKey) -> impl Iterator<Item = &Slice> {
        self.slices_of(mirror)
            .filter(|(watch, _, _)| *watch == Watch::MirrorSlices)
            .map(|(_, _, slice)| slice)
    }

    /// Returns the slices of a headless Service of this cluster.
    pub fn local_slices<'s>(
        &'s self,
        service: &ServiceKey,
    ) -> impl Iterator<Item = (&'s ObjectKey, &'s Slice)> + use<'s> {
        let slices = self.slices_of(&object_key(service));
        slices
            .filter(|(watch, _, _)| *watch != Watch::MirrorSlices)
            .map(|(_, key, slice)| (key, slice))
    }

    /// Returns the objects that were skipped when they were parsed.
    pub fn skipped(&self) -> &Arc<Skipped> {
        &self.skipped
    }

    /// Returns the mirrors that were of something else before.
    pub fn changed(&self) -> &Arc<Changed> {
        &self.changed
    }

    /// Returns the links through which a service is mirrored, but not as a headless one.
    pub fn other_kinds(&self, service: &ServiceKey) -> impl Iterator<Item = &ClusterName> {
        let claims = self.claims.get(service).into_iter().flatten();
        claims.filter_map(
            |key| match self.objects[Watch::MirrorServices as usize].get(key)? {
                Object::Skipped(skip) => skip.other_kind.as_ref().map(|(_, cluster)| cluster),
                Object::HeadlessMirror(_)
                | Object::EndpointMirror(_)
                | Object::LocalService(_)
                | Object::Slice(_) => None,
            },
        )
    }

    fn endpoint_mirror(&self, key: &ObjectKey) -> Option<&EndpointMirror> {
        match self.objects[Watch::MirrorServices as usize].get(key)? {
            Object::EndpointMirror(mirror) => Some(mirror),
            Object::HeadlessMirror(_)
            | Object::LocalService(_)
            | Object::Slice(_)
            | Object::Skipped(_) => None,
        }
    }

    fn slices_of<'s>(
        &'s self,
        owner: &ObjectKey,
    ) -> impl Iterator<Item = (Watch, &'s ObjectKey, &'s Slice)> + use<'s> {
        let keys = self.slices.get(owner).into_iter().flatten();
        keys.filter_map(
            |(watch, key)| match self.objects[*watch as usize].get(key)? {
                Object::Slice(slice) => Some((*watch, key, slice)),
                Object::HeadlessMirror(_)
                | Object::EndpointMirror(_)
                | Object::LocalService(_)
                | Object::Skipped(_) => None,
            },
        )
    }
}

/// Says of what an object is a mirror.
fn identity(object: &Object) -> Option<String> {
    match object {
        Object::HeadlessMirror(mirror) => Some(format!(
            "{} in cluster '{}'",
            mirror.service, mirror.cluster
        )),
        Object::EndpointMirror(mirror) => {
            let (hostname, service, cluster) = (&mirror.hostname, &mirror.service, &mirror.cluster);
            Some(format!("'{hostname}' of {service} in cluster '{cluster}'"))
        }
        Object::LocalService(_) | Object::Slice(_) | Object::Skipped(_) => None,
    }
}

// === Keys ===

fn parent(key: &ObjectKey, mirror: &EndpointMirror) -> ObjectKey {
    ObjectKey {
        namespace: key.namespace.clone(),
        name: mirror.parent.clone(),
    }
}

fn owner(key: &ObjectKey, slice: &Slice) -> ObjectKey {
    ObjectKey {
        namespace: key.namespace.clone(),
        name: slice.service.clone(),
    }
}

fn object_key(service: &ServiceKey) -> ObjectKey {
    ObjectKey::new(service.namespace.as_str(), service.service.as_str())
}

/// Returns the service that a local Service is, or `None` if its name is no label of ours.
fn service_key(key: &ObjectKey) -> Option<ServiceKey> {
    Some(ServiceKey {
        namespace: key.namespace.parse().ok()?,
        service: key.name.parse().ok()?,
    })
}

fn remove<K: Ord, V: Ord>(index: &mut BTreeMap<K, BTreeSet<V>>, key: &K, value: &V) {
    if let Some(values) = index.get_mut(key) {
        values.remove(value);
        if values.is_empty() {
            index.remove(key);
        }
    }
}
