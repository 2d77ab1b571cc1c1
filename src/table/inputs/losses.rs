//! The effect of a complete list, computed before it is applied.

use std::collections::BTreeMap;

use super::{Inputs, Objects, ServiceKeys};
use crate::mirror::{Object, ObjectKey, ServiceKey, Watch};

/// Numbers of objects of one watch that a service depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Objects before the list.
    pub known: usize,
    /// Those that the list removes.
    pub removed: usize,
}

impl Inputs {
    /// Counts the objects that a complete list would remove or change.
    pub fn count_removed_or_changed(
        &self,
        watch: Watch,
        namespace: Option<&str>,
        listed: &Objects,
    ) -> usize {
        self.removed_or_changed(watch, namespace, listed).count()
    }

    /// Returns whether a complete list would remove or change an object of each service that has objects in `watch`.
    /// Only the services that `is_counted` are considered.
    pub fn affects_all_services(
        &self,
        watch: Watch,
        namespace: Option<&str>,
        listed: &Objects,
        is_counted: impl Fn(&ServiceKey) -> bool,
    ) -> bool {
        let services = |(key, object)| self.affected_services(key, Some(object));
        let objects = self.removed_or_changed(watch, namespace, listed);
        let affected: ServiceKeys = objects.flat_map(services).cloned().collect();
        let mut services = self.known(watch, namespace).flat_map(services);
        services.all(|service| affected.contains(service) || !is_counted(service))
    }

    /// Returns how many objects of `watch` each service would lose by a complete list.
    pub fn losses(
        &self,
        watch: Watch,
        namespace: Option<&str>,
        listed: &Objects,
    ) -> BTreeMap<ServiceKey, Loss> {
        let mut losses: BTreeMap<ServiceKey, Loss> = BTreeMap::new();
        for (key, object) in self.known(watch, namespace) {
            for service in self.affected_services(key, Some(object)) {
                let loss = losses.entry(service.clone()).or_default();
                loss.known += 1;
                loss.removed += usize::from(!listed.contains_key(key));
            }
        }
        losses
    }

    /// Returns the known objects of `watch`, in one namespace or in all.
    fn known(
        &self,
        watch: Watch,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = (&ObjectKey, &Object)> {
        let objects = self.objects(watch).iter();
        objects.filter(move |(key, _)| namespace.is_none_or(|n| *key.namespace == *n))
    }

    /// Returns the known objects that a complete list would remove or change.
    fn removed_or_changed<'i>(
        &'i self,
        watch: Watch,
        namespace: Option<&'i str>,
        listed: &'i Objects,
    ) -> impl Iterator<Item = (&'i ObjectKey, &'i Object)> {
        let known = self.known(watch, namespace);
        known.filter(|(key, object)| listed.get(*key) != Some(*object))
    }
}
