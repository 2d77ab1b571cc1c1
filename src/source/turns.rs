//! The order in which services are built: namespaces take turns.
//!
//! It is a start-time fair queue. Each namespace with something to build has the time that its builds took, and the one with the least
//! time is next. One that had nothing to build begins with the least time of those that wait, so that nobody saves up time or owes it.
//! So a change waits for one build of another namespace, whatever that has to build.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::model::{ServiceKey, Text};
use crate::table::store::ServiceKeys;

/// Who causes a build: the namespace of the object that changed. `None`: no tenant does, but Links, settings or the time.
pub(super) type Tenant = Option<Text>;

/// The services that must be built. Nothing is kept of a tenant who waits for none.
#[derive(Debug, Default)]
pub(super) struct Turns {
    queues: BTreeMap<Tenant, Queue>,
    /// The times of the queues: that with the least has its turn.
    times: BTreeSet<(Duration, Tenant)>,
    /// The places of each service in queues.
    places: BTreeMap<ServiceKey, BTreeMap<Tenant, u64>>,
    /// The place of the next one.
    next: u64,
}

/// What a tenant waits for.
#[derive(Debug)]
struct Queue {
    /// Where it began, and the time of its builds since then.
    time: Duration,
    services: BTreeMap<u64, ServiceKey>,
}

/// A service whose turn it is.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) service: ServiceKey,
    /// Who must be charged for the build.
    pub(super) tenant: Tenant,
}

// === impl Turns ===

impl Turns {
    /// Adds services for which a tenant waits.
    pub(super) fn add(&mut self, tenant: &Tenant, services: ServiceKeys) {
        if services.is_empty() {
            return;
        }
        let least = self.times.first().map(|(time, _)| *time);
        let queue = self.queues.entry(tenant.clone()).or_insert_with(|| {
            let time = least.unwrap_or_default();
            self.times.insert((time, tenant.clone()));
            Queue {
                time,
                services: BTreeMap::new(),
            }
        });
        for service in services {
            let places = self.places.entry(service.clone()).or_default();
            if places.contains_key(tenant) {
                continue;
            }
            places.insert(tenant.clone(), self.next);
            queue.services.insert(self.next, service);
            self.next += 1;
        }
    }

    /// Takes the next service, out of all queues. [`Self::charge`] must follow.
    pub(super) fn take(&mut self) -> Option<Turn> {
        let (_, tenant) = self.times.first()?.clone();
        let service = self.queues[&tenant].services.values().next()?.clone();
        for (other, place) in self.places.remove(&service).unwrap_or_default() {
            if let Some(queue) = self.queues.get_mut(&other) {
                queue.services.remove(&place);
                if queue.services.is_empty() && other != tenant {
                    self.remove(other);
                }
            }
        }
        Some(Turn { service, tenant })
    }

    /// Charges a tenant for a build.
    pub(super) fn charge(&mut self, tenant: Tenant, time: Duration) {
        if let Some(mut queue) = self.remove(tenant.clone())
            && !queue.services.is_empty()
        {
            queue.time += time;
            self.times.insert((queue.time, tenant.clone()));
            self.queues.insert(tenant, queue);
        }
    }

    fn remove(&mut self, tenant: Tenant) -> Option<Queue> {
        let queue = self.queues.remove(&tenant)?;
        self.times.remove(&(queue.time, tenant));
        Some(queue)
    }

    /// Returns whether nothing must be built.
    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    fn keys(namespace: &str, names: impl IntoIterator<Item = usize>) -> ServiceKeys {
        let key = |name: usize| ServiceKey {
            namespace: namespace.parse().unwrap(),
            service: format!("db{name}").parse().unwrap(),
        };
        names.into_iter().map(key).collect()
    }

    fn tenant(name: &str) -> Tenant {
        Some(
            keys(name, [0])
                .pop_first()
                .unwrap()
                .namespace
                .text()
                .clone(),
        )
    }

    /// Builds the next service, which takes some time. Returns its namespace.
    fn build(turns: &mut Turns, time: Duration) -> String {
        let turn = turns.take().unwrap();
        turns.charge(turn.tenant, time);
        turn.service.namespace.to_string()
    }

    #[test]
    fn change_waits_for_one_build_of_another_namespace() {
        let mut turns = Turns::default();
        turns.add(&tenant("attacker"), keys("attacker", 0..1000));
        for _ in 0..10 {
            build(&mut turns, 50 * MILLISECOND);
        }
        turns.add(&tenant("victim"), keys("victim", 0..2));
        let built: Vec<String> = (0..3).map(|_| build(&mut turns, MILLISECOND)).collect();
        assert!(built[..2].contains(&"victim".to_owned()), "{built:?}");
    }

    /// An hour of builds of the victim, while the attacker waits for nothing, or for everything.
    #[test]
    fn nobody_saves_up_time_or_owes_it() {
        let mut turns = Turns::default();
        for number in 0..3600 {
            turns.add(&tenant("victim"), keys("victim", [number]));
            build(&mut turns, 900 * MILLISECOND);
        }
        assert!(turns.is_empty());
        turns.add(&tenant("attacker"), keys("attacker", 0..5000));
        for number in 0..3600 {
            turns.add(&tenant("victim"), keys("victim", [number]));
            let first_two = [
                build(&mut turns, MILLISECOND),
                build(&mut turns, MILLISECOND),
            ];
            assert!(first_two.contains(&"victim".to_owned()), "{number}");
            // What the attacker adds goes to the end of its own queue.
            turns.add(&tenant("attacker"), keys("attacker", [5000 + number]));
        }
    }

    /// An alias waits in the queues of several namespaces, and is built once. Who comes first is charged.
    #[test]
    fn service_that_several_tenants_wait_for_is_built_once() {
        let mut turns = Turns::default();
        let mut sources = keys("attacker", 0..100);
        sources.extend(keys("prod", [0]));
        turns.add(&tenant("attacker"), sources);
        turns.add(&tenant("prod"), keys("prod", [0]));
        turns.add(&None, keys("prod", [0]));
        let built: Vec<String> = (0..3).map(|_| build(&mut turns, MILLISECOND)).collect();
        assert!(built.contains(&"prod".to_owned()), "{built:?}");
        let mut others = 0;
        while !turns.is_empty() {
            assert_eq!(build(&mut turns, MILLISECOND), "attacker");
            others += 1;
        }
        assert_eq!(others, 98);
    }

    #[test]
    fn services_of_a_tenant_are_built_in_the_order_in_which_they_came() {
        let mut turns = Turns::default();
        turns.add(&None, keys("prod", [2]));
        turns.add(&None, keys("prod", [1, 2]));
        assert_eq!(turns.take().unwrap().service.service.as_str(), "db2");
        // It changes again and again.
        turns.add(&None, keys("prod", [0]));
        assert_eq!(turns.take().unwrap().service.service.as_str(), "db1");
    }
}
