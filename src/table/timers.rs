//! What a process remembers of a service: the steps of its failover order (rule K7), and for ten seconds the order of the Service of
//! this cluster after that Service is gone (rule K6); and since when clusters have no Link (rule L2). Everything else follows from
//! the objects of this moment, so replicas and restarts agree as soon as the delays have ended.

use std::collections::BTreeMap;

use super::failover::Debounce;
use super::links::Links;
use super::own_settings::KeptOrder;
use super::store::ServiceKeys;
use crate::model::{Problem, ServiceKey, Timestamp};

/// The timers of all services, and the time of a build. A build reads them; [`Self::apply`] records what it returns.
#[derive(Clone, Debug, Default)]
pub struct Timers {
    /// The time of the build.
    pub now: Timestamp,
    /// Whether a complete table exists, so that delays apply.
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
    /// The order of the Service of this cluster.
    pub(super) order: Option<KeptOrder>,
    /// The time at which the service can change although no object does.
    pub(super) wake: Option<Timestamp>,
}

// === impl Timers ===

impl Timers {
    /// Returns the timers of a service.
    pub(super) fn of(&self, service: &ServiceKey) -> Option<&ServiceTimers> {
        self.services.get(service)
    }

    /// Dates new problems, if the process sees since when facts hold. `old` are those of the table before.
    pub(super) fn date(&self, old: &[Problem], new: &mut [Problem]) {
        if self.is_following {
            Problem::date(self.is_started.then_some(old), new, self.now);
        }
    }

    /// Notes that a complete table exists. From now on, each table continues the one before.
    pub fn note_started(&mut self) {
        self.is_started = true;
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

    /// Returns the next time at which a service can change although no object does.
    pub fn next_wake(&self) -> Option<Timestamp> {
        let timers = self.services.values();
        timers.filter_map(|timers| timers.wake).min()
    }

    /// Returns the services that can change at the time of the build.
    pub fn due(&self) -> ServiceKeys {
        let is_due = |timers: &ServiceTimers| timers.wake.is_some_and(|wake| wake <= self.now);
        let due = self.services.iter().filter(|(_, timers)| is_due(timers));
        due.map(|(service, _)| service.clone()).collect()
    }
}

// === impl ServiceTimers ===

impl ServiceTimers {
    /// Records a time at which the service can change.
    pub(super) fn wake_at(&mut self, time: Option<Timestamp>) {
        self.wake = self.wake.into_iter().chain(time).min();
    }
}
