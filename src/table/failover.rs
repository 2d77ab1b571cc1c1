//! The failover between the clusters of a service (rules K5 to K7).
//!
//! The name of the service, and no name below it, returns the endpoints of one step of a [`FailoverOrder`]. Of an order that
//! is held, that is the first step, until a person changes the order. An order that begins with `auto:` moves by itself.
//! `step` keeps it from flapping: a pure function of the health of the steps, the last [`Debounce`] and the time. That is all
//! that a process remembers of an order, so that replicas differ for no longer than a delay.

use std::collections::BTreeSet;
use std::time::Duration;

use super::ServiceKind;
use super::candidate::{Candidate, Role};
use super::endpoint::Endpoint;
use super::own_settings::{KeptOrder, OwnSettings};
use super::rules::Rules;
use crate::model::{
    ClusterName, FailoverOrder, Problem, ProblemKind, ServiceKey, Timestamp, most_similar,
};

/// What a step has, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepHealth {
    /// An endpoint that is alive.
    Alive,
    /// Endpoints, but none that is alive.
    Down,
    /// No endpoint.
    Empty,
}

/// `failover.delay` and `failover.back`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// How long a step must be without an endpoint that is alive until it stops counting as alive.
    pub failover: Duration,
    /// How long it must be alive until it counts as alive again.
    pub failback: Duration,
}

/// The failover of a service in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failover {
    /// The order.
    pub order: FailoverOrder,
    /// The setting that the order comes from.
    pub origin: OrderOrigin,
    /// Whether the service has pods, so that its clients hold a member of a database (rule K5a).
    pub has_pods: bool,
    /// The step that answers, counted from zero.
    pub answering: usize,
    /// The steps, at least one.
    pub steps: Box<[Step]>,
    /// The first step with an endpoint in a flat network.
    flat: Option<usize>,
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

/// The setting that an order comes from (rule K6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderOrigin {
    /// Annotation `global-dns/failover` on the Service of this cluster.
    Annotation,
    /// `services.NAMESPACE/SERVICE.failover`.
    ServiceSetting,
    /// `failover.default`.
    DefaultSetting,
}

/// An order with the setting that it comes from.
pub type Order = (FailoverOrder, OrderOrigin);

/// What is remembered of the steps of an order that moves by itself (rule K7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Debounce {
    /// The order that it belongs to. A changed order begins with a new one.
    order: FailoverOrder,
    steps: Box<[StepMemory]>,
    /// The time since which the service has no object.
    gone_since: Option<Timestamp>,
}

/// What is remembered of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StepMemory {
    /// Whether it counts as alive.
    counts: bool,
    is_alive: bool,
    /// When it last ceased to be alive.
    down_at: Timestamp,
    /// From when its way back counts.
    up_at: Option<Timestamp>,
}

/// What [`order`] needs to know of a service.
#[derive(Clone, Copy)]
pub(super) struct OrderContext<'c> {
    pub(super) key: &'c ServiceKey,
    pub(super) has_pods: bool,
    /// Whether the service has an object.
    pub(super) has_items: bool,
    pub(super) last: Option<&'c Debounce>,
    /// Whether the service is new in a process that has a table. Its objects arrive one after the other, and a mirror before
    /// its slice.
    pub(super) is_arriving: bool,
    pub(super) rules: &'c Rules,
    pub(super) now: Timestamp,
}

// === impl Delays ===

impl Delays {
    fn of(rules: &Rules) -> Self {
        Self {
            failover: rules.failover_delay,
            failback: rules.failback_delay,
        }
    }
}

// === impl StepHealth ===

impl StepHealth {
    /// Returns what a step with this endpoint alone has.
    fn of(endpoint: &Endpoint) -> Self {
        if endpoint.is_alive() {
            Self::Alive
        } else {
            Self::Down
        }
    }

    /// Returns the name of the state in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Down => "down",
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
            Self::ServiceSetting => "services",
            Self::DefaultSetting => "default",
        }
    }
}

// === Settings ===

/// Returns the order of a service: the first setting that exists (rule K6). `kept` is that of the annotation.
/// `applies_by_default` says whether the default order is for the service: it is known and has no pods.
pub(super) fn order_of(
    key: &ServiceKey,
    own: Option<&OwnSettings>,
    kept: Option<&KeptOrder>,
    rules: &Rules,
    applies_by_default: bool,
) -> Option<Order> {
    if let Some(kept) = kept {
        return Some((kept.order.clone(), OrderOrigin::Annotation));
    }
    // An empty annotation is no order, whatever the settings say.
    if own.is_some_and(|own| own.settings.failover.is_some()) {
        return None;
    }
    if let Some(order) = rules.order_of(key) {
        return Some((order?.clone(), OrderOrigin::ServiceSetting));
    }
    let order = rules.failover.clone().filter(|_| applies_by_default)?;
    Some((order, OrderOrigin::DefaultSetting))
}

/// Reports clusters of an order that nothing here knows, and this cluster if it occurs twice (rules K5, K5a).
pub(super) fn order_problems(
    order: &FailoverOrder,
    known: &BTreeSet<ClusterName>,
    rules: &Rules,
) -> Vec<Problem> {
    let unknown = order.named().filter(|cluster| !known.contains(*cluster));
    let unknown = unknown.map(|cluster| {
        let names = known.iter().map(ToString::to_string);
        let nearest = most_similar(cluster.as_str(), names);
        let nearest = nearest.map(|name| format!("; the nearest name is '{name}'"));
        let nearest = nearest.unwrap_or_default();
        let detail = format!("{order}: cluster '{cluster}' has no mirror and no Link{nearest}");
        Problem::new(ProblemKind::UnknownCluster, detail).of_cluster(cluster)
    });
    let own = &rules.cluster_name;
    let is_twice = order.has_local() && order.named().any(|cluster| cluster == own);
    let twice = is_twice.then(|| {
        let detail =
            format!("{order}: 'local' and '{own}' are one cluster; its first place counts");
        Problem::new(ProblemKind::SettingWithoutEffect, detail)
    });
    unknown.chain(twice).collect()
}

// === The third step of a build ===

/// Decides which step of an order answers, and makes the candidates of the other steps standby. Returns what is remembered of
/// an order that moves by itself, and when it can change although nothing happens.
pub(super) fn order(
    (order, origin): Order,
    context: OrderContext<'_>,
    candidates: &mut [Candidate<'_>],
    problems: &mut Vec<Problem>,
) -> (Failover, Option<Debounce>, Option<Timestamp>) {
    let own = &context.rules.cluster_name;
    let step_of = |one: &Candidate<'_>| order.step_of(one.clusters.first()?, own);
    let mut health = vec![StepHealth::Empty; order.count()];
    let mut flat = None::<usize>;
    for one in candidates.iter().filter(|one| one.is_answering()) {
        let Some(step) = step_of(one) else { continue };
        let best = one.endpoints.iter().map(StepHealth::of).min();
        health[step] = best.map_or(health[step], |best| health[step].min(best));
        if one
            .endpoints
            .iter()
            .any(|endpoint| endpoint.kind == ServiceKind::Flat)
        {
            flat = Some(flat.map_or(step, |flat| flat.min(step)));
        }
    }
    let (answering, debounce, wake) = debounced(&order, &health, context);
    for one in candidates
        .iter_mut()
        .filter(|one| one.role == Role::Answers)
    {
        if step_of(one) != Some(answering) {
            one.role = Role::Standby;
        }
    }
    let since = |index: usize| debounce.as_ref()?.steps[index].since();
    let steps = health.iter().enumerate().map(|(index, health)| Step {
        health: *health,
        since: since(index),
    });
    let failover = Failover {
        steps: steps.collect(),
        order,
        origin,
        has_pods: context.has_pods,
        answering,
        flat,
    };
    problems.extend(failover.held_step_down(context.key));
    (failover, debounce, wake)
}

/// Returns the step that answers. An order that is held remembers nothing. What is known of a service without objects is
/// dropped after `failover.back`.
fn debounced(
    order: &FailoverOrder,
    health: &[StepHealth],
    context: OrderContext<'_>,
) -> (usize, Option<Debounce>, Option<Timestamp>) {
    let OrderContext { now, has_items, .. } = context;
    let delays = Delays::of(context.rules);
    let last = context.last.filter(|last| last.order == *order);
    let gone_since = last.and_then(|last| last.gone_since).unwrap_or(now);
    let gone_since = (!has_items).then_some(gone_since);
    let end = gone_since.map(|since| since.after(delays.failback));
    if !order.is_auto() || last.is_none() && !has_items || end.is_some_and(|end| end <= now) {
        return (0, None, None);
    }
    let new = || Debounce::new(order, health, context.is_arriving, now);
    let last = last.cloned().unwrap_or_else(new);
    let (answering, next, wake) = step(health, &last, now, delays);
    let next = Debounce { gone_since, ..next };
    (answering, Some(next), wake.into_iter().chain(end).min())
}

/// Returns the step of an order that answers, what is remembered of the steps, and the time at which it can change although
/// nothing else happens (rule K7): the first that counts as alive and has an endpoint, else the first with an endpoint that is
/// alive, else the first with an endpoint.
fn step(
    health: &[StepHealth],
    last: &Debounce,
    now: Timestamp,
    delays: Delays,
) -> (usize, Debounce, Option<Timestamp>) {
    let steps = last.steps.iter().zip(health);
    let steps = steps.map(|(step, health)| step.next(*health == StepHealth::Alive, now, delays));
    let next = Debounce {
        steps: steps.collect(),
        ..last.clone()
    };
    let has = |step: &usize| health[*step] != StepHealth::Empty;
    let counts = |step: &usize| next.steps[*step].counts && has(step);
    let is_alive = |step: &usize| health[*step] == StepHealth::Alive;
    let all = 0..health.len();
    let first = all
        .clone()
        .find(counts)
        .or_else(|| all.clone().find(is_alive));
    let answering = first.or_else(|| all.clone().find(has)).unwrap_or(0);
    let wake = next.steps.iter().filter_map(|step| step.wake(delays)).min();
    (answering, next, wake)
}

// === impl Failover ===

impl Failover {
    /// Returns the text of the step that answers, as in the order.
    pub fn answering_text(&self) -> String {
        self.order.step_text(self.answering)
    }

    /// Returns what the step that answers has.
    pub fn answering_health(&self) -> StepHealth {
        self.steps
            .get(self.answering)
            .map_or(StepHealth::Empty, |step| step.health)
    }

    /// Returns the first step with an endpoint in a flat network, if it hides later steps: the order moves by itself, and such
    /// an endpoint is always alive.
    pub fn flat_step(&self) -> Option<usize> {
        let is_last = |step: usize| step + 1 == self.order.count();
        self.flat
            .filter(|step| self.order.is_auto() && !is_last(*step))
    }

    /// Reports the first step of an order that is held, if it is down: no other takes over. Says the command that lets the first
    /// step that is alive answer.
    fn held_step_down(&self, key: &ServiceKey) -> Option<Problem> {
        let (order, ServiceKey { namespace, service }) = (&self.order, key);
        if order.is_auto() || order.count() < 2 || self.answering_health() != StepHealth::Down {
            return None;
        }
        let first = self.answering_text();
        let mut detail = format!("{order}: {first} is down, and no other step takes over");
        let alive = self
            .steps
            .iter()
            .position(|step| step.health == StepHealth::Alive);
        if let Some(alive) = alive {
            let others = (0..order.count()).filter(|step| *step != alive);
            let steps: Vec<String> = [alive]
                .into_iter()
                .chain(others)
                .map(|step| order.step_text(step))
                .collect();
            let steps = steps.join(":");
            detail += &format!(
                "; to let {} answer: kubectl annotate service {service} -n {namespace} global-dns/failover={steps} --overwrite",
                order.step_text(alive)
            );
        }
        Some(Problem::new(ProblemKind::HeldStepDown, detail))
    }
}

// === impl Debounce ===

impl Debounce {
    /// Begins with the steps as they are. If the objects of the service are arriving, steps that are down count as alive.
    fn new(
        order: &FailoverOrder,
        health: &[StepHealth],
        is_arriving: bool,
        now: Timestamp,
    ) -> Self {
        let step = |health: &StepHealth| {
            let is_alive = *health == StepHealth::Alive;
            StepMemory::new(is_alive, is_alive || is_arriving, now)
        };
        Self {
            order: order.clone(),
            steps: health.iter().map(step).collect(),
            gone_since: None,
        }
    }
}

// === impl StepMemory ===

impl StepMemory {
    fn new(is_alive: bool, counts: bool, now: Timestamp) -> Self {
        Self {
            counts,
            is_alive,
            down_at: now,
            up_at: Some(now),
        }
    }

    fn next(mut self, is_alive: bool, now: Timestamp, delays: Delays) -> Self {
        if self.is_alive && !is_alive {
            self.down_at = now;
        }
        let is_long = self.down_at.after(delays.failover) <= now;
        if self.counts && !is_alive && is_long {
            self.counts = false;
            self.up_at = None;
        }
        if !self.counts && is_alive {
            // Interruptions that are shorter than the delay do not begin the way back again.
            if !self.is_alive && (self.up_at.is_none() || is_long) {
                self.up_at = Some(now);
            }
            let is_back = |up: Timestamp| up.after(delays.failback) <= now;
            self.counts = self.up_at.is_some_and(is_back);
        }
        self.is_alive = is_alive;
        self
    }

    /// Returns the time at which it can change although its health does not.
    fn wake(&self, delays: Delays) -> Option<Timestamp> {
        match (self.counts, self.is_alive) {
            (true, false) => Some(self.down_at.after(delays.failover)),
            (false, true) => self.up_at.map(|up| up.after(delays.failback)),
            (true, true) | (false, false) => None,
        }
    }

    /// Returns the time since which it has been down, or since which its way back counts.
    fn since(&self) -> Option<Timestamp> {
        match (self.counts, self.is_alive) {
            (_, false) => Some(self.down_at),
            (false, true) => self.up_at,
            (true, true) => None,
        }
    }
}

#[cfg(test)]
mod tests;
