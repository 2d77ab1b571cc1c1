//! What a complete list would take away, before it is applied.

use std::collections::BTreeMap;

use super::{Dirty, Inputs, Objects};
use crate::mirror::{Object, ObjectKey, ServiceKey, Watch};

/// Objects of one watch that a service depends on, and how many of them a list lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Objects that were seen.
    pub seen: usize,
    /// Those of them that are not listed.
    pub gone: usize,
}

impl Inputs {
    /// Counts the objects that a complete list would take away or change.
    pub fn count_lost(&self, watch: Watch, namespace: Option<&str>, listed: &Objects) -> usize {
        self.lost(watch, namespace, listed).count()
    }

    /// Tells whether a complete list would take away or change something of each service that `watch` has seen objects
    /// of, among those that `counts`.
    pub fn touches_all(
        &self,
        watch: Watch,
        namespace: Option<&str>,
        listed: &Objects,
        counts: impl Fn(&ServiceKey) -> bool,
    ) -> bool {
        let services = |(key, object)| self.services_that_need(key, Some(object));
        let lost = self.lost(watch, namespace, listed);
        let touched: Dirty = lost.flat_map(services).cloned().collect();
        let mut services = self.seen(watch, namespace).flat_map(services);
        services.all(|service| touched.contains(service) || !counts(service))
    }

    /// Returns what each service would lose of what `watch` has seen of it, if a complete list were true.
    pub fn losses(
        &self,
        watch: Watch,
        namespace: Option<&str>,
        listed: &Objects,
    ) -> BTreeMap<ServiceKey, Loss> {
        let mut losses: BTreeMap<ServiceKey, Loss> = BTreeMap::new();
        for (key, object) in self.seen(watch, namespace) {
            for service in self.services_that_need(key, Some(object)) {
                let loss = losses.entry(service.clone()).or_default();
                loss.seen += 1;
                loss.gone += usize::from(!listed.contains_key(key));
            }
        }
        losses
    }

    /// Returns what `watch` has seen, in one namespace or in all.
    fn seen(
        &self,
        watch: Watch,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = (&ObjectKey, &Object)> {
        let seen = self.objects(watch).iter();
        seen.filter(move |(key, _)| namespace.is_none_or(|n| *key.namespace == *n))
    }

    /// Returns what of it a complete list lacks or changes.
    fn lost<'i>(
        &'i self,
        watch: Watch,
        namespace: Option<&'i str>,
        listed: &'i Objects,
    ) -> impl Iterator<Item = (&'i ObjectKey, &'i Object)> {
        let seen = self.seen(watch, namespace);
        seen.filter(|(key, object)| listed.get(*key) != Some(*object))
    }
}
