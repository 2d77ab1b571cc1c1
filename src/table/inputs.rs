//! What was last seen: every object of every watch, reduced, and who depends on it.
//!
//! Inputs belong to one control task. They are kept *per watch*, because an object whose labels change leaves one
//! connection and appears on another, in either order; a delete touches only its own watch's copy. Each verb returns the
//! services whose answers may have changed, so that [`build`](super::build::build) touches those and no other.

mod relations;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

mod losses;

pub use losses::Loss;

use super::shared::SharedMap;
use crate::mirror::{
    ClusterName, EndpointMirror, HeadlessMirror, ListedHost, LocalService, Object, ObjectKey,
    ServiceKey, Skip, Slice, Text, Watch,
};
use relations::{
    beside, claim, endpoint_mirror, headless_mirror, identity, object_key, owner, service_key,
};

/// Services that must be built anew.
pub type Dirty = BTreeSet<ServiceKey>;

/// Objects that were skipped when they were parsed. A copy shares what both have in common.
pub type Skipped = SharedMap<(Watch, ObjectKey), Arc<Skip>>;

/// The objects of one watch.
pub type Objects = BTreeMap<ObjectKey, Object>;

/// Services that a list may change without being worth [`Inputs::pack`].
const SPARSE: usize = 1000;

/// Every object last seen, with the indexes that a build needs.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    objects: [Objects; Watch::ALL.len()],
    /// The mirrors that claim to be part of a service, by their names; they are in its namespace (rule M1).
    claims: BTreeMap<ServiceKey, Vec<Text>>,
    /// The Service that a slice belongs to, and the name of the slice, which is in the same namespace.
    slices: [BTreeSet<(ObjectKey, Text)>; Watch::ALL.len()],
    /// Objects that were skipped when they were parsed.
    skipped: Skipped,
    /// Mirrors that were of something else before: what, and of what they are now.
    changed: BTreeMap<ObjectKey, (String, String)>,
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
        if dirty.len() > SPARSE {
            self.pack(watch);
        }
        dirty
    }

    /// Packs what a long list left half empty: trees that grow at one end have room for as much again.
    fn pack(&mut self, watch: Watch) {
        let objects = &mut self.objects[watch as usize];
        *objects = std::mem::take(objects).into_iter().collect();
        self.claims = std::mem::take(&mut self.claims).into_iter().collect();
        let slices = &mut self.slices[watch as usize];
        *slices = std::mem::take(slices).into_iter().collect();
    }

    /// Remembers, for as long as the object exists, that it was a mirror of something else before (rule M8): two links
    /// that write one mirror overwrite each other in place.
    fn note_identity(&mut self, key: &ObjectKey, old: Option<String>, new: Option<String>) {
        match (old, new) {
            (Some(old), Some(new)) if old != new => {
                self.changed.insert(key.clone(), (old, new));
            }
            (_, None) => {
                self.changed.remove(key);
            }
            _ => {}
        }
    }

    fn replace(&mut self, watch: Watch, key: ObjectKey, new: Option<Object>) -> Dirty {
        let old = self.objects[watch as usize].get(&key);
        if old == new.as_ref() {
            return Dirty::new();
        }
        let mut dirty: Dirty = self.dependent(&key, old).into_iter().collect();
        if watch == Watch::MirrorServices {
            self.note_identity(
                &key,
                old.and_then(identity),
                new.as_ref().and_then(identity),
            );
        }
        if let Some(old) = self.objects[watch as usize].remove(&key) {
            self.unindex(watch, &key, &old);
        }
        if let Some(new) = new {
            self.index(watch, &key, &new);
            dirty.extend(self.dependent(&key, Some(&new)));
            self.objects[watch as usize].insert(key, new);
        }
        dirty
    }

    /// Returns the service whose answers depend on `object`.
    fn dependent(&self, key: &ObjectKey, object: Option<&Object>) -> Option<ServiceKey> {
        match object? {
            Object::HeadlessMirror(mirror) => Some(mirror.service.clone()),
            Object::EndpointMirror(mirror) => Some(mirror.service.clone()),
            Object::LocalService(_) => service_key(key),
            Object::GatewaySlice(slice) => {
                let mirror = self.endpoint_mirror(&beside(key, &slice.mirror))?;
                Some(mirror.service.clone())
            }
            Object::ListedHosts(listed) => {
                let mirror = self.headless_mirror(&beside(key, &listed.mirror))?;
                Some(mirror.service.clone())
            }
            Object::Slice(slice) => service_key(&beside(key, &slice.service)),
            Object::Skipped(_) => claim(object?).cloned(),
        }
    }

    fn index(&mut self, watch: Watch, key: &ObjectKey, object: &Object) {
        if let Some(service) = claim(object) {
            let names = self.claims.entry(service.clone()).or_default();
            if let Err(place) = names.binary_search(&key.name) {
                names.reserve_exact(1);
                names.insert(place, key.name.clone());
            }
        }
        if let Some(owner) = owner(key, object) {
            self.slices[watch as usize].insert((owner, key.name.clone()));
        }
        if let Object::Skipped(skip) = object {
            self.skipped.insert((watch, key.clone()), skip.clone());
        }
    }

    fn unindex(&mut self, watch: Watch, key: &ObjectKey, object: &Object) {
        if let Some(service) = claim(object)
            && let Some(names) = self.claims.get_mut(service)
        {
            names.retain(|name| *name != key.name);
            if names.is_empty() {
                self.claims.remove(service);
            }
        }
        if let Some(owner) = owner(key, object) {
            self.slices[watch as usize].remove(&(owner, key.name.clone()));
        }
        if let Object::Skipped(_) = object {
            self.skipped.remove(&(watch, key.clone()));
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
        self.claimants(service)
            .filter_map(|(key, object)| Some((key, headless_mirror(object)?)))
    }

    /// Returns the endpoint mirrors of a service.
    pub fn endpoint_mirrors(
        &self,
        service: &ServiceKey,
    ) -> impl Iterator<Item = (&ObjectKey, &EndpointMirror)> {
        self.claimants(service)
            .filter_map(|(key, object)| Some((key, endpoint_mirror(object)?)))
    }

    /// Returns the links through which a service is mirrored, but not as a headless one.
    pub fn other_kinds(&self, service: &ServiceKey) -> impl Iterator<Item = &ClusterName> {
        self.claimants(service)
            .filter_map(|(_, object)| match object {
                Object::Skipped(skip) => skip.other_kind().map(|(_, cluster)| cluster),
                Object::HeadlessMirror(_)
                | Object::EndpointMirror(_)
                | Object::LocalService(_)
                | Object::GatewaySlice(_)
                | Object::ListedHosts(_)
                | Object::Slice(_) => None,
            })
    }

    /// Returns the mirrors of a service that were of something else before, with what they were and are.
    pub fn changed(
        &self,
        service: &ServiceKey,
    ) -> impl Iterator<Item = (&ObjectKey, &(String, String))> {
        self.claimants(service)
            .filter_map(|(key, _)| self.changed.get_key_value(key))
    }

    /// Returns the headless Service of this cluster with a service's name.
    pub fn local_service(&self, service: &ServiceKey) -> Option<&LocalService> {
        match self.objects[Watch::LocalServices as usize].get(&object_key(service))? {
            Object::LocalService(local) => Some(local),
            Object::HeadlessMirror(_)
            | Object::EndpointMirror(_)
            | Object::GatewaySlice(_)
            | Object::ListedHosts(_)
            | Object::Slice(_)
            | Object::Skipped(_) => None,
        }
    }

    /// Returns what each slice of an endpoint mirror says: whether a gateway address is ready, or that there is none.
    pub fn gateways(&self, mirror: &ObjectKey) -> impl Iterator<Item = Option<bool>> {
        self.slices_of(mirror)
            .filter_map(|(_, object)| match object {
                Object::GatewaySlice(slice) => Some(slice.ready),
                Object::HeadlessMirror(_)
                | Object::EndpointMirror(_)
                | Object::LocalService(_)
                | Object::ListedHosts(_)
                | Object::Slice(_)
                | Object::Skipped(_) => None,
            })
    }

    /// Returns the hosts that the slices of a headless mirror list.
    pub fn listed_hosts(&self, mirror: &ObjectKey) -> impl Iterator<Item = &ListedHost> {
        let slices = self.slices_of(mirror);
        slices.flat_map(|(_, object)| match object {
            Object::ListedHosts(listed) => &listed.hosts[..],
            Object::HeadlessMirror(_)
            | Object::EndpointMirror(_)
            | Object::LocalService(_)
            | Object::GatewaySlice(_)
            | Object::Slice(_)
            | Object::Skipped(_) => &[],
        })
    }

    /// Returns the slices of a headless Service of this cluster.
    pub fn local_slices<'s>(
        &'s self,
        service: &ServiceKey,
    ) -> impl Iterator<Item = (&'s ObjectKey, &'s Slice)> + use<'s> {
        self.slices_of(&object_key(service))
            .filter_map(|(key, object)| match object {
                Object::Slice(slice) => Some((key, slice.as_ref())),
                Object::HeadlessMirror(_)
                | Object::EndpointMirror(_)
                | Object::LocalService(_)
                | Object::GatewaySlice(_)
                | Object::ListedHosts(_)
                | Object::Skipped(_) => None,
            })
    }

    /// Returns every object of a watch.
    pub fn objects(&self, watch: Watch) -> &Objects {
        &self.objects[watch as usize]
    }

    /// Returns the objects that were skipped when they were parsed.
    pub fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    fn headless_mirror(&self, key: &ObjectKey) -> Option<&HeadlessMirror> {
        headless_mirror(self.objects[Watch::MirrorServices as usize].get(key)?)
    }

    fn endpoint_mirror(&self, key: &ObjectKey) -> Option<&EndpointMirror> {
        endpoint_mirror(self.objects[Watch::MirrorServices as usize].get(key)?)
    }

    /// Returns the mirrors that claim to be part of a service.
    fn claimants(&self, service: &ServiceKey) -> impl Iterator<Item = (&ObjectKey, &Object)> {
        let claims = self.claims.get_key_value(service);
        claims.into_iter().flat_map(|(service, names)| {
            names.iter().filter_map(|name| {
                let namespace = service.namespace.text().clone();
                let name = name.clone();
                let key = ObjectKey { namespace, name };
                self.objects[Watch::MirrorServices as usize].get_key_value(&key)
            })
        })
    }

    /// Returns the slices that belong to a Service.
    fn slices_of<'s>(
        &'s self,
        owner: &ObjectKey,
    ) -> impl Iterator<Item = (&'s ObjectKey, &'s Object)> + use<'s> {
        let first = (owner.clone(), Text::new());
        Watch::ALL.into_iter().flat_map(move |watch| {
            let owner = first.0.clone();
            let slices = self.slices[watch as usize].range(first.clone()..);
            let own = slices.take_while(move |(of, _)| *of == owner);
            own.filter_map(move |(owner, name)| {
                self.objects[watch as usize].get_key_value(&beside(owner, name))
            })
        })
    }
}
