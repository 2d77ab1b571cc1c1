//! The failover between the clusters of a service (rules K5 to K7). The next step is a pure function of the state, the
//! health of the steps, and the time.
//!
//! The name of the service, and no name below it, returns the endpoints of one step of a
//! [`FailoverOrder`]: the first step that has an endpoint that is alive. Delays keep it
//! from flapping.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ServiceKind;
use super::endpoint::Draft;
use super::items::Items;
use super::rules::Rules;
use crate::model::{FailoverOrder, ServiceKey};

/// What a step has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepHealth {
    /// An endpoint that is alive.
    Alive,
    /// Endpoints, but none that is alive.
    Dead,
    /// No endpoint.
    Empty,
}

/// `--failover-delay` and `--failback-delay`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// How long the step that answers must be dead until another one answers.
    pub failover: Duration,
    /// How long an earlier step must be alive until it answers again.
    pub failback: Duration,
}

/// A time: milliseconds since the Unix epoch. It is saved in snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Timestamp(pub u64);

/// The failover of a service in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failover {
    /// The setting that the order comes from.
    pub origin: OrderOrigin,
    /// The health of each step.
    pub health: Box<[StepHealth]>,
    /// The order, and the step that answers.
    pub state: FailoverState,
    /// The first step with an endpoint in a flat network.
    flat: Option<usize>,
}

/// The setting that an order comes from (rule K6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderOrigin {
    /// Annotation `global-dns/failover` on the Service of this cluster.
    Annotation,
    /// `--failover NAMESPACE/SERVICE=ORDER`.
    ServiceFlag,
    /// `--failover ORDER`.
    DefaultFlag,
}

/// An order with the setting that it comes from.
pub type Order = (FailoverOrder, OrderOrigin);

/// The state of the failover of one service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailoverState {
    /// The order that the state belongs to. If the order changes, a new state begins.
    pub order: FailoverOrder,
    /// The step that answers, counted from zero.
    pub answering: usize,
    /// Whether each step is alive, and since when.
    pub steps: Vec<StepState>,
}

/// The state of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepState {
    /// What it has.
    pub health: StepHealth,
    /// The time of the last change. A dead step that loses its endpoints keeps it.
    pub since: Timestamp,
}

// === impl StepHealth ===

impl StepHealth {
    /// Returns the name of the state in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Dead => "dead",
            Self::Empty => "empty",
        }
    }
}

// === impl OrderOrigin ===

impl OrderOrigin {
    /// Returns the name of the setting in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Annotation => "annotation",
            Self::ServiceFlag => "service-flag",
            Self::DefaultFlag => "default-flag",
        }
    }
}

// === impl Failover ===

impl Failover {
    /// Returns the first step with an endpoint in a flat network, if other steps come after it. Such an endpoint is always
    /// alive.
    pub fn flat_step(&self) -> Option<usize> {
        let is_last = |step: &usize| step + 1 == self.state.order.count();
        self.flat.filter(|step| !is_last(step))
    }

    /// Decides which step of a service answers, and deselects the endpoints of the others.
    pub(super) fn apply(
        (order, origin): Order,
        drafts: &mut [Draft],
        state: Option<&FailoverState>,
        rules: &Rules,
    ) -> Self {
        let step = |draft: &Draft| {
            let cluster = draft
                .endpoint
                .cluster
                .as_ref()
                .filter(|_| draft.endpoint.is_selected)?;
            order.step_of(cluster, &rules.cluster_name)
        };
        let mut health = vec![StepHealth::Empty; order.count()];
        let is_flat = |draft: &&Draft| draft.endpoint.kind == ServiceKind::Flat;
        let flat = drafts.iter().filter(is_flat).filter_map(step).min();
        for draft in drafts.iter().filter(|draft| draft.ready) {
            if let Some(step) = step(draft) {
                health[step] = match (health[step], draft.endpoint.alive) {
                    (StepHealth::Alive, _) | (_, true) => StepHealth::Alive,
                    (StepHealth::Dead | StepHealth::Empty, false) => StepHealth::Dead,
                };
            }
        }
        let state = match state.filter(|state| state.order == order) {
            Some(state) => state.clone(),
            None => FailoverState::new(order.clone(), &health, Timestamp::UNKNOWN),
        };
        for draft in drafts {
            let is_answering = step(draft) == Some(state.answering);
            if draft.endpoint.is_selected && !is_answering {
                draft.endpoint.is_selected = false;
                draft.endpoint.is_standby = true;
            }
        }
        Self {
            origin,
            health: health.into(),
            state,
            flat,
        }
    }
}

/// Returns the order of a service: the first setting that exists (rule K6).
pub(super) fn order_of(
    key: &ServiceKey,
    is_pods: bool,
    items: &Items<'_>,
    rules: &Rules,
) -> Option<Order> {
    let annotation = items
        .settings
        .and_then(|settings| settings.failover.clone());
    let annotation = annotation.map(|order| (order, OrderOrigin::Annotation));
    let service = || {
        let order = rules.service_failover.get(key)?;
        Some((order.clone(), OrderOrigin::ServiceFlag))
    };
    let default = || {
        // It would split a database.
        let order = rules.failover.clone().filter(|_| !is_pods)?;
        Some((order, OrderOrigin::DefaultFlag))
    };
    annotation.or_else(service).or_else(default)
}

// === impl FailoverState ===

impl FailoverState {
    /// Returns the state of a process that has just started: the first step that is alive answers, or the first one with
    /// endpoints.
    pub fn new(order: FailoverOrder, health: &[StepHealth], now: Timestamp) -> Self {
        let steps = health.iter().map(|health| StepState {
            health: *health,
            since: now,
        });
        Self {
            order,
            answering: first_usable(health).unwrap_or(0),
            steps: steps.collect(),
        }
    }

    /// Returns the text of the step that answers, as in the order.
    pub fn answering_text(&self) -> String {
        self.order.step_text(self.answering)
    }

    /// Returns whether the state has the steps of its order.
    pub(super) fn is_valid(&self) -> bool {
        self.steps.len() == self.order.count() && self.answering < self.steps.len()
    }

    /// Returns the next state, and the time at which it can change although nothing else happens. A changed order takes
    /// effect at once.
    pub fn next(
        &self,
        order: &FailoverOrder,
        health: &[StepHealth],
        now: Timestamp,
        delays: Delays,
    ) -> (Self, Option<Timestamp>) {
        if self.order != *order {
            return (Self::new(order.clone(), health, now), None);
        }
        let mut next = self.clone();
        for (step, health) in next.steps.iter_mut().zip(health) {
            // The clock may have been set back since an earlier process saved the state.
            step.since = step.since.min(now);
            if step.health != *health
                && (step.health, *health) != (StepHealth::Dead, StepHealth::Empty)
            {
                step.since = now;
            }
            step.health = *health;
        }
        next.answering = next.choose(health, now, delays);
        // Delays that have ended have taken effect, so this time is later than `now`.
        let wake = next.next_change(health, delays);
        (next, wake)
    }

    /// Chooses the step that answers.
    fn choose(&self, health: &[StepHealth], now: Timestamp, delays: Delays) -> usize {
        let current = self.answering;
        let earlier = self.steps[..current].iter().zip(health);
        let failback = |(step, health): (&StepState, &StepHealth)| {
            *health == StepHealth::Alive && now >= step.since.after(delays.failback)
        };
        if let Some(step) = earlier.map(failback).position(|is_back| is_back) {
            return step;
        }
        let is_left = match health[current] {
            StepHealth::Alive => false,
            StepHealth::Dead => now >= self.steps[current].since.after(delays.failover),
            // The name would have no endpoint.
            StepHealth::Empty => true,
        };
        if is_left {
            first_alive(health).unwrap_or_else(|| self.without_alive(health))
        } else {
            current
        }
    }

    /// Chooses a step if none is alive: the one that answered last, if it has endpoints.
    fn without_alive(&self, health: &[StepHealth]) -> usize {
        match health[self.answering] {
            StepHealth::Alive | StepHealth::Dead => self.answering,
            StepHealth::Empty => first_usable(health).unwrap_or(self.answering),
        }
    }

    /// Returns the next time at which a delay ends.
    fn next_change(&self, health: &[StepHealth], delays: Delays) -> Option<Timestamp> {
        let current = self.answering;
        let earlier = self.steps[..current].iter();
        let failbacks = earlier.filter(|step| step.health == StepHealth::Alive);
        let failbacks = failbacks.map(|step| step.since.after(delays.failback));
        let is_dying = health[current] == StepHealth::Dead && first_alive(health).is_some();
        let failover = is_dying.then(|| self.steps[current].since.after(delays.failover));
        failbacks.chain(failover).min()
    }
}

/// Returns the first step that is alive.
fn first_alive(health: &[StepHealth]) -> Option<usize> {
    health
        .iter()
        .position(|health| *health == StepHealth::Alive)
}

/// Returns the first step that is alive, or else the first one with endpoints.
fn first_usable(health: &[StepHealth]) -> Option<usize> {
    let with_endpoints = || health.iter().position(|health| *health == StepHealth::Dead);
    first_alive(health).or_else(with_endpoints)
}

// === impl Timestamp ===

impl Timestamp {
    /// Returns the time as text in UTC, to the second (RFC 3339).
    pub fn to_text(self) -> String {
        let seconds = i64::try_from(self.0 / 1000).unwrap_or(i64::MAX);
        let time = jiff::Timestamp::from_second(seconds);
        time.map(|time| time.to_string()).unwrap_or_default()
    }

    /// The time of a state that no event has decided yet.
    pub const UNKNOWN: Self = Self(0);

    /// Returns the time after a delay.
    pub fn after(self, delay: Duration) -> Self {
        let milliseconds = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(milliseconds))
    }
}

#[cfg(test)]
mod tests;
