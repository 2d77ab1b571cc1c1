//! What a process remembers of a service: the timers of its failover (rule K7), and for ten seconds the settings of the
//! Service of this cluster after that Service is gone (rule K6). Everything else follows from the objects of this moment, so
//! replicas and restarts agree as soon as the delays have ended.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use super::failover::{FailoverTimers, Start};
use super::items::Items;
use super::kind::Profile;
use super::rules::Rules;
use super::store::{ServiceKeys, Store};
use crate::model::{ObjectKey, OwnForm, ServiceKey, Settings, SliceContent, Timestamp};

/// The timers of all services, and the time of a build. A build reads them; [`Self::apply`] records what it returns.
#[derive(Clone, Debug, Default)]
pub struct Timers {
    /// The time of the build.
    pub now: Timestamp,
    /// Whether a complete table exists, so that delays apply.
    pub is_started: bool,
    services: BTreeMap<ServiceKey, ServiceTimers>,
}

/// The timers of one service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceTimers {
    /// Those of its failover in zones with the names of this server.
    pub(super) global: Option<FailoverTimers>,
    /// Those of its failover in zones with the profile `mcs`.
    pub(super) cluster_set: Option<FailoverTimers>,
    /// The settings of the Service of this cluster.
    pub(super) own: Option<OwnSettings>,
    /// The time at which the service can change although no object does.
    pub(super) wake: Option<Timestamp>,
}

/// What the Service of this cluster decides for a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnSettings {
    /// Its annotations.
    pub(super) settings: Settings,
    /// Whether it is headless, with a selector or with an endpoint.
    pub(super) has_pods: bool,
    /// `metadata.creationTimestamp`.
    pub(super) created: Option<Timestamp>,
    /// The time since which it is gone.
    gone_since: Option<Timestamp>,
}

/// How long the settings of a Service that is gone apply. A Service whose type changes is deleted and created again.
const KEPT: Duration = Duration::from_secs(10);

// === impl Timers ===

impl Timers {
    /// Returns the timers of a service.
    pub(super) fn of(&self, service: &ServiceKey) -> Option<&ServiceTimers> {
        self.services.get(service)
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
    /// Returns the timers of the failover in zones with a profile.
    pub(super) fn failover(&self, profile: Profile) -> Option<&FailoverTimers> {
        match profile {
            Profile::Global => self.global.as_ref(),
            Profile::ClusterSet => self.cluster_set.as_ref(),
        }
    }

    /// Records a time at which the service can change.
    pub(super) fn wake_at(&mut self, time: Option<Timestamp>) {
        self.wake = self.wake.into_iter().chain(time).min();
    }
}

impl Timers {
    /// Returns how the failover of a service begins that had none.
    pub(super) fn start(&self, is_new_service: bool) -> Start {
        if self.is_started && is_new_service {
            Start::NewService
        } else {
            Start::AtOnce
        }
    }
}

// === impl OwnSettings ===

impl OwnSettings {
    /// Returns the settings of a Service without pods.
    #[cfg(test)]
    pub(super) fn new(settings: Settings, created: Option<Timestamp>) -> Self {
        Self {
            settings,
            has_pods: false,
            created,
            gone_since: None,
        }
    }

    /// Returns what the Service of this cluster decides, or what it decided until a moment ago.
    pub(super) fn of(
        key: &ServiceKey,
        items: &Items<'_>,
        store: &Store,
        timers: &Timers,
    ) -> Option<Self> {
        let object = ObjectKey::of_service(key);
        let time = |created: Option<NonZeroU32>| {
            let seconds = u64::from(created?.get());
            Some(Timestamp::from_seconds(seconds))
        };
        if let Some((item, own)) = items.own() {
            let slices = || store.slices_of(&object);
            let has_endpoint = || {
                slices().any(|(_, slice)| match &slice.content {
                    SliceContent::Endpoints(listed) => !listed.endpoints.is_empty(),
                    _ => false,
                })
            };
            return Some(Self {
                settings: item.settings.as_deref().cloned().unwrap_or_default(),
                has_pods: match own.form {
                    OwnForm::Headless { has_selector } => has_selector || has_endpoint(),
                    OwnForm::ClusterIp | OwnForm::Other => false,
                },
                created: time(item.created),
                gone_since: None,
            });
        }
        if let Some(created) = store.plain_service(&object) {
            return Some(Self {
                settings: Settings::default(),
                has_pods: false,
                created: time(created),
                gone_since: None,
            });
        }
        let last = timers.of(key)?.own.as_ref()?;
        let gone_since = last.gone_since.unwrap_or(timers.now);
        (timers.now < gone_since.after(KEPT)).then(|| Self {
            gone_since: Some(gone_since),
            ..last.clone()
        })
    }

    /// Returns the settings to remember, if it has any, or if a flag has one for the service.
    pub(super) fn to_keep(&self, key: &ServiceKey, rules: &Rules) -> Option<Self> {
        let has_flag = rules.failover.is_some() && self.has_pods
            || rules.service_failover.contains_key(key)
            || rules.expected_clusters.contains_key(key);
        (has_flag || self.settings != Settings::default()).then(|| self.clone())
    }

    /// Returns the time at which the settings of a Service that is gone end.
    pub(super) fn end(&self) -> Option<Timestamp> {
        self.gone_since.map(|since| since.after(KEPT))
    }
}
