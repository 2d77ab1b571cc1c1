//! What a process remembers of a service: the steps of its failover order (rule K7), and for ten seconds the order of the Service of
//! this cluster after that Service is gone (rule K6); and since when clusters have no Link (rule L2). Everything else follows from
//! the objects of this moment, so replicas and restarts agree as soon as the delays have ended.

use std::collections::BTreeMap;

use super::failover::Debounce;
use super::links::Links;
use super::store::ServiceKeys;
use crate::model::{FailoverOrder, Problem, ServiceKey, Timestamp};

/// The timers of all services, and the time of a build. A build reads them; [`Self::apply`] records what it returns.
#[derive(Clone, Debug, Default)]
pub struct Timers {
    /// The time of the build: of a clock that later changes of the wall clock do not affect. All delays and kept times are of it.
    pub now: Timestamp,
    /// The time of the wall clock, for times that a person or the API server wrote (rule K8).
    pub wall: Timestamp,
    /// Whether a complete table exists, which each table continues. Then delays apply.
    pub is_started: bool,
    /// Whether the process follows its source, so that it sees since when facts hold. A command that reads objects once does
    /// not know that.
    pub is_following: bool,
    /// Links and Leases.
    pub links: Links,
    services: BTreeMap<ServiceKey, ServiceTimers>,
}

/// The timers of one service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceTimers {
    /// That of its failover.
    pub(super) failover: Option<Debounce>,
    pub(super) order: Option<KeptOrder>,
    /// The time at which the service can change although no object does.
    pub(super) wake: Option<Timestamp>,
}

/// The failover order of a Service of this cluster, also after the Service is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeptOrder {
    pub(super) order: FailoverOrder,
    /// The time at which the order of a Service that is gone ends.
    pub(super) end: Option<Timestamp>,
}

// === impl Timers ===

impl Timers {
    /// Returns the timers of a service.
    pub(super) fn of(&self, service: &ServiceKey) -> Option<&ServiceTimers> {
        self.services.get(service)
    }

    /// Dates new problems, if the process sees since when facts hold. `old` are those of the table before.
    pub fn date(&self, old: &[Problem], new: &mut [Problem]) {
        if self.is_following {
            Problem::date(self.is_started.then_some(old), new, self.now);
        }
    }

    /// Records the timers that a build returned.
    pub fn apply(&mut self, timers: Vec<(ServiceKey, ServiceTimers)>) {
        for (service, timers) in timers {
            if timers == ServiceTimers::default() {
                self.services.remove(&service);
            } else {
                self.services.insert(service, timers);
            }
        }
    }

    /// Returns the next time at which a service or a cluster can change although no object does.
    pub fn next_wake(&self) -> Option<Timestamp> {
        let timers = self.services.values().filter_map(|timers| timers.wake);
        timers.chain(self.links.wake).min()
    }

    /// Returns the services that can change at the time of the build.
    pub fn due(&self) -> ServiceKeys {
        let is_due = |timers: &ServiceTimers| timers.wake.is_some_and(|wake| wake <= self.now);
        let due = self.services.iter().filter(|(_, timers)| is_due(timers));
        due.map(|(service, _)| service.clone()).collect()
    }
}
