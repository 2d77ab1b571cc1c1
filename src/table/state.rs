//! What earlier events decided for a service: the step of its failover order that answers (rule K7), and the clusters that
//! it has seen (rule K8). A build reads the state as one of its inputs. [`advance`] computes the next state after a build.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::failover::{Delays, FailoverState, StepHealth, Timestamp};
use super::gate::GateState;
use super::items::Items;
use super::rules::Rules;
use super::store::{ServiceKeys, Store};
use super::{Built, GatewayDown, Profile, Service, Table, build};
use crate::model::{ServiceKey, Settings};

/// The state of a service that has a failover order or expected clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceState {
    /// The state of its failover.
    pub failover: Option<FailoverState>,
    /// The state of its failover in zones with the profile `mcs`, if it differs.
    pub cluster_set_failover: Option<FailoverState>,
    /// The clusters that it has seen.
    pub gate: Option<GateState>,
    /// The annotations of the Service of this cluster. They apply for a moment after it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Settings>,
    /// The time since which that Service is gone, or since which nothing uses the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone_since: Option<Timestamp>,
}

/// How long the annotations of a Service that is gone apply, and an unused state is kept. A Service whose labels change
/// leaves one watch and appears on another, in either order. If its type changes, it is deleted and created again.
const KEPT: Duration = Duration::from_secs(10);

/// A change of the step that answers for a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The service.
    pub service: ServiceKey,
    /// The step that answered, as in the order.
    pub from: String,
    /// The step that answers now, as in the order.
    pub to: String,
    /// The reason.
    pub reason: TransitionReason,
}

/// The reason for which another step answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransitionReason {
    /// An earlier step is alive again.
    Recovered,
    /// The step has endpoints, but none that is alive.
    Dead,
    /// The step has no endpoint.
    Empty,
    /// The order has changed.
    NewOrder,
}

impl fmt::Display for TransitionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Recovered => "an earlier step has an endpoint that is alive",
            Self::Dead => "no endpoint of the last step is alive",
            Self::Empty => "the last step has no endpoint",
            Self::NewOrder => "the order has changed",
        })
    }
}

/// A table whose services have their next states.
#[derive(Debug)]
pub struct Advanced {
    /// The table.
    pub built: Built,
    /// The changes of steps.
    pub transitions: Vec<Transition>,
    /// The services whose gate has opened.
    pub opened: Vec<ServiceKey>,
    /// For each service, the time at which its state can change although nothing else happens.
    pub wakes: Vec<(ServiceKey, Option<Timestamp>)>,
    /// The services that need another build with their new state.
    rebuild: ServiceKeys,
}

/// Maximum number of builds after the first one. The second of them has the states that the first of them led to, so
/// another one changes nothing.
const MAX_REBUILDS: usize = 2;

/// Advances the states of the services that were built, and builds those with a new state again.
pub fn advance(
    built: Built,
    store: &mut Store,
    rules: &Rules,
    now: Timestamp,
    delays: Delays,
) -> Advanced {
    // A flag adds services that no object belongs to.
    let expected = rules.expected_clusters.keys();
    let mut services: ServiceKeys = built.services.iter().chain(expected).cloned().collect();
    let mut advanced = Advanced {
        built,
        transitions: Vec::new(),
        opened: Vec::new(),
        wakes: Vec::new(),
        rebuild: ServiceKeys::new(),
    };
    for _ in 0..MAX_REBUILDS {
        advanced.advance_states(store, &services, now, delays);
        services = std::mem::take(&mut advanced.rebuild);
        if services.is_empty() {
            break;
        }
        let next = build(&advanced.built.table, store, &services, rules);
        advanced.built.table = next.table;
        advanced.built.is_changed |= next.is_changed;
        advanced.built.services.extend(next.services);
    }
    advanced
}

// === impl Advanced ===

impl Advanced {
    /// Advances the states of services.
    fn advance_states(
        &mut self,
        store: &mut Store,
        services: &ServiceKeys,
        now: Timestamp,
        delays: Delays,
    ) {
        let table = self.built.table.clone();
        for key in services {
            let service = Versions::of(&table, key);
            let service = service.filter(Versions::have_state);
            let last = store.state(key).cloned();
            let state = match (service, last) {
                (None, None) => continue, // most services
                (Some(service), last) => {
                    let own = Items::of(key, store).own();
                    let settings = own.map(|own| own.settings.as_deref().cloned());
                    let settings = settings.map(Option::unwrap_or_default);
                    let last = last.unwrap_or_default();
                    self.advance(&service, &last, settings, now, delays)
                }
                (None, Some(last)) => {
                    let (state, wake) = last.unused(now);
                    self.wakes.push((key.clone(), wake));
                    state
                }
            };
            store.set_state(key, state);
        }
    }

    /// Advances the state of one service.
    fn advance(
        &mut self,
        versions: &Versions<'_>,
        last: &ServiceState,
        settings: Option<Settings>,
        now: Timestamp,
        delays: Delays,
    ) -> ServiceState {
        let service = versions.global;
        let global = last.failover_in(Profile::Global);
        let (failover, wake) = self.advance_failover(service, global, now, delays);
        let in_cluster_set = versions.cluster_set.map(|service| {
            let last = last.failover_in(Profile::ClusterSet);
            self.advance_failover(service, last, now, delays)
        });
        let (cluster_set_failover, other_wake) = in_cluster_set.unwrap_or_default();
        let (gate, gate_wake) = self.advance_gate(service, last, now);
        let (settings, gone_since) = match settings {
            Some(settings) => (Some(settings), None),
            None => last.kept_settings(now),
        };
        if settings.is_none() && last.settings.is_some() {
            self.rebuild.insert(service.key.clone());
        }
        let end = gone_since.map(|since| since.after(KEPT));
        let wakes = [wake, other_wake, gate_wake, end];
        self.wakes
            .push((service.key.clone(), wakes.into_iter().flatten().min()));
        ServiceState {
            failover,
            cluster_set_failover,
            gate,
            settings,
            gone_since,
        }
    }

    fn advance_failover(
        &mut self,
        service: &Service,
        last: Option<&FailoverState>,
        now: Timestamp,
        delays: Delays,
    ) -> (Option<FailoverState>, Option<Timestamp>) {
        let Some(failover) = &service.failover else {
            return (None, None);
        };
        let (shown, health) = (&failover.state, &failover.health);
        // Without addresses of dead gateways, the name would have no address until the delay ends.
        let delays = match service.gateway_down {
            GatewayDown::Exclude => Delays {
                failover: Duration::ZERO,
                ..delays
            },
            GatewayDown::LastResort | GatewayDown::Include => delays,
        };
        let (state, wake) = match last {
            Some(last) => last.next(&shown.order, health, now, delays),
            None => (FailoverState::new(shown.order.clone(), health, now), None),
        };
        if let Some(last) = last {
            let transition = Transition::between(&service.key, last, &state, health);
            // Zones of both profiles have most of them in common.
            let transition = transition.filter(|one| !self.transitions.contains(one));
            self.transitions.extend(transition);
        }
        if state != *shown {
            self.rebuild.insert(service.key.clone());
        }
        (Some(state), wake)
    }

    fn advance_gate(
        &mut self,
        service: &Service,
        last: &ServiceState,
        now: Timestamp,
    ) -> (Option<GateState>, Option<Timestamp>) {
        let Some(gate) = &service.gate else {
            return (None, None);
        };
        let last = last.gate.clone().unwrap_or_default();
        let (state, wake) = last.next(gate, now);
        if state.is_open() && !last.is_open() {
            self.opened.push(service.key.clone());
        }
        if state.changes(gate) {
            self.rebuild.insert(service.key.clone());
        }
        (Some(state), wake)
    }
}

// === impl Transition ===

impl Transition {
    /// Returns the change from one state of a service to the next, if another step answers. `health` is that of the steps of
    /// the next state.
    pub(super) fn between(
        service: &ServiceKey,
        last: &FailoverState,
        next: &FailoverState,
        health: &[StepHealth],
    ) -> Option<Self> {
        let (from, to) = (last.answering_text(), next.answering_text());
        let reason = match health.get(last.answering) {
            _ if last.order != next.order => TransitionReason::NewOrder,
            Some(StepHealth::Dead) => TransitionReason::Dead,
            Some(StepHealth::Empty) => TransitionReason::Empty,
            Some(StepHealth::Alive) | None => TransitionReason::Recovered,
        };
        (from != to).then(|| Self {
            service: service.clone(),
            from,
            to,
            reason,
        })
    }
}

// === impl ServiceState ===

/// A service as each profile answers it.
struct Versions<'t> {
    global: &'t Service,
    /// In zones with the profile `mcs`, if it differs there.
    cluster_set: Option<&'t Service>,
}

impl<'t> Versions<'t> {
    fn of(table: &'t Table, key: &ServiceKey) -> Option<Self> {
        let [name, namespace] = key.labels();
        let global = table.service(namespace, name)?;
        let cluster_set = table.of(Profile::ClusterSet).service(namespace, name);
        Some(Self {
            global,
            cluster_set: cluster_set.filter(|other| !std::ptr::eq(*other, global)),
        })
    }

    /// Returns whether earlier events decide a part of its answers.
    fn have_state(&self) -> bool {
        self.global.failover.is_some()
            || self.global.gate.is_some()
            || self
                .cluster_set
                .is_some_and(|other| other.failover.is_some())
    }
}

impl ServiceState {
    /// Returns the state that a table shows. It replaces a state that was lost in a panic.
    pub fn of(table: &Table, service: &Service) -> Self {
        let failover = |service: &Service| Some(service.failover.as_ref()?.state.clone());
        let versions = Versions::of(table, &service.key);
        let other = versions.and_then(|versions| versions.cluster_set);
        Self {
            failover: failover(service),
            cluster_set_failover: other.and_then(failover),
            gate: service.gate.as_ref().map(|gate| gate.state()),
            settings: None,
            gone_since: None,
        }
    }

    /// Returns the annotations of a Service that is gone, while they apply, and the time since which it is gone.
    fn kept_settings(&self, now: Timestamp) -> (Option<Settings>, Option<Timestamp>) {
        let since = self.gone_since(now);
        let settings = self.settings.clone();
        let settings = settings.filter(|_| now < since.after(KEPT));
        let since = settings.is_some().then_some(since);
        (settings, since)
    }

    /// Returns the state of a service without an order and expected clusters, and the time at which it is removed.
    fn unused(self, now: Timestamp) -> (Self, Option<Timestamp>) {
        let since = self.gone_since(now);
        let end = since.after(KEPT);
        if now >= end {
            return (Self::default(), None);
        }
        let state = Self {
            gone_since: Some(since),
            ..self
        };
        (state, Some(end))
    }

    fn gone_since(&self, now: Timestamp) -> Timestamp {
        // The clock may have been set back since an earlier process saved the state.
        self.gone_since.unwrap_or(now).min(now)
    }

    /// Returns the state of the failover in zones with a profile.
    pub(super) fn failover_in(&self, profile: Profile) -> Option<&FailoverState> {
        let global = self.failover.as_ref();
        match profile {
            Profile::Global => global,
            Profile::ClusterSet => self.cluster_set_failover.as_ref().or(global),
        }
    }

    /// Returns whether no event has decided anything.
    pub(super) fn is_empty(&self) -> bool {
        self.failover.is_none() && self.cluster_set_failover.is_none() && self.gate.is_none()
    }

    /// Removes parts that contradict themselves. A snapshot is a file that anybody may have edited.
    pub fn validated(mut self) -> Self {
        self.failover = self.failover.filter(FailoverState::is_valid);
        let other = self.cluster_set_failover;
        self.cluster_set_failover = other.filter(FailoverState::is_valid);
        self
    }
}

#[cfg(test)]
mod tests;
