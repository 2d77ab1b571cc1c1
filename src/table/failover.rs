//! The failover between the clusters of a service (rules K5 to K7).
//!
//! The name of the service, and no name below it, returns the endpoints of one step of a [`FailoverOrder`]. Of an order that
//! is held, that is the first step, until a person changes the order. An order that begins with `auto:` moves by itself.
//! `Debounce::next` keeps it from flapping: a pure function of the health of the steps, what was remembered of them, and the
//! time. That is all that a process remembers of an order, so that replicas differ for no longer than a delay.

use strum::Display;

use super::rules::Rules;
use crate::model::{FailoverOrder, Problem, ProblemKind, ServiceKey, Timestamp};

/// What a step has, the best first. Reports print it as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Display)]
#[strum(serialize_all = "kebab-case")]
pub enum StepHealth {
    /// An endpoint that is alive.
    Alive,
    /// Endpoints, but none that is alive.
    Down,
    /// No endpoint.
    Empty,
}

/// The failover of a service in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failover {
    /// The order.
    pub order: FailoverOrder,
    /// The setting that the order comes from.
    pub origin: OrderOrigin,
    /// The step that answers, counted from zero.
    pub answering: usize,
    /// The steps, at least one.
    pub steps: Box<[Step]>,
}

/// A step of an order in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it has.
    pub health: StepHealth,
    /// The time since which it has been down, or since which its way back counts. `None`: it counts as alive, or the order is
    /// held.
    pub since: Option<Timestamp>,
}

/// The setting that an order comes from (rule K6). Reports print it as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
pub enum OrderOrigin {
    /// Annotation `global-dns/failover` on the Service of this cluster.
    #[strum(serialize = "annotation")]
    Annotation,
    /// `services.NAMESPACE/SERVICE.failover`.
    #[strum(serialize = "services")]
    ServiceSetting,
    /// `failover.default`.
    #[strum(serialize = "default")]
    DefaultSetting,
}

/// What is remembered of the steps of an order that moves by itself (rule K7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Debounce {
    /// The order that it belongs to. A changed order begins with a new one.
    pub(super) order: FailoverOrder,
    pub(super) steps: Box<[StepMemory]>,
    /// When it is dropped, because the service has no object.
    pub(super) end: Option<Timestamp>,
    /// When the step that answers can change although nothing happens.
    pub(super) wake: Option<Timestamp>,
}

/// What is remembered of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StepMemory {
    /// Whether it counts as alive.
    counts: bool,
    is_alive: bool,
    /// When it last ceased to be alive.
    down_at: Timestamp,
    /// From when its way back counts.
    up_at: Option<Timestamp>,
}

// === impl Failover ===

impl Failover {
    /// Returns the text of the step that answers, as in the order.
    pub fn answering_text(&self) -> String {
        self.order.step_text(self.answering)
    }

    /// Returns what the step that answers has.
    pub fn answering_health(&self) -> StepHealth {
        self.steps[self.answering].health
    }

    /// Reports the first step of an order that is held, if it is down: no other takes over. Says the command that lets the first
    /// step that is alive answer.
    pub(super) fn held_step_down(&self, key: &ServiceKey) -> Option<Problem> {
        let (order, ServiceKey { namespace, service }) = (&self.order, key);
        if order.is_auto || order.count() < 2 || self.answering_health() != StepHealth::Down {
            return None;
        }
        let first = self.answering_text();
        let mut detail = format!("{order}: {first} is down, and no other step takes over");
        let mut steps = self.steps.iter();
        if let Some(alive) = steps.position(|step| step.health == StepHealth::Alive) {
            let mut steps = order.step_texts();
            steps[..=alive].rotate_right(1);
            detail += &format!(
                "; to let {} answer: kubectl annotate service {service} -n {namespace} global-dns/failover={} --overwrite",
                steps[0],
                steps.join(":")
            );
        }
        Some(Problem::new(ProblemKind::HeldStepDown, detail))
    }
}

// === impl Debounce ===

impl Debounce {
    /// Begins with the steps as they are. If the objects of the service are arriving, steps that are down count as alive.
    pub(super) fn new(
        order: &FailoverOrder,
        health: &[StepHealth],
        is_arriving: bool,
        now: Timestamp,
    ) -> Self {
        let step = |health: &StepHealth| {
            let is_alive = *health == StepHealth::Alive;
            StepMemory {
                counts: is_alive || is_arriving,
                is_alive,
                down_at: now,
                up_at: Some(now),
            }
        };
        Self {
            order: order.clone(),
            steps: health.iter().map(step).collect(),
            end: None,
            wake: None,
        }
    }

    /// Returns the step that answers and what is remembered from now on (rule K7). The first step that counts as alive and has
    /// an endpoint answers, else the first with an endpoint that is alive, else the first with an endpoint.
    pub(super) fn next(
        mut self,
        health: &[StepHealth],
        now: Timestamp,
        rules: &Rules,
    ) -> (usize, Self) {
        for (step, health) in self.steps.iter_mut().zip(health) {
            step.note(*health == StepHealth::Alive, now, rules);
        }
        let first = |is: &dyn Fn(usize) -> bool| (0..health.len()).find(|step| is(*step));
        let has = |step: usize| health[step] != StepHealth::Empty;
        let answering = first(&|step| self.steps[step].counts && has(step))
            .or_else(|| first(&|step| health[step] == StepHealth::Alive))
            .or_else(|| first(&has));
        let wakes = self.steps.iter().filter_map(|step| step.wake(rules));
        self.wake = wakes.chain(self.end).min();
        (answering.unwrap_or(0), self)
    }
}

// === impl StepMemory ===

impl StepMemory {
    /// Notes whether it has an endpoint that is alive.
    fn note(&mut self, is_alive: bool, now: Timestamp, rules: &Rules) {
        if self.is_alive && !is_alive {
            self.down_at = now;
        }
        let is_long = self.down_at.after(rules.failover_delay) <= now;
        if self.counts && !is_alive && is_long {
            self.counts = false;
            self.up_at = None;
        }
        if !self.counts && is_alive {
            // Interruptions that are shorter than the delay do not begin the way back again.
            if !self.is_alive && (self.up_at.is_none() || is_long) {
                self.up_at = Some(now);
            }
            let is_back = |up: Timestamp| up.after(rules.failback_delay) <= now;
            self.counts = self.up_at.is_some_and(is_back);
        }
        self.is_alive = is_alive;
    }

    /// Returns the time at which it can change although its health does not.
    fn wake(&self, rules: &Rules) -> Option<Timestamp> {
        match (self.counts, self.is_alive) {
            (true, false) => Some(self.down_at.after(rules.failover_delay)),
            (false, true) => self.up_at.map(|up| up.after(rules.failback_delay)),
            (true, true) | (false, false) => None,
        }
    }

    /// Returns the time since which it has been down, or since which its way back counts.
    pub(super) fn since(&self) -> Option<Timestamp> {
        match (self.counts, self.is_alive) {
            (_, false) => Some(self.down_at),
            (false, true) => self.up_at,
            (true, true) => None,
        }
    }
}

#[cfg(test)]
mod tests;
