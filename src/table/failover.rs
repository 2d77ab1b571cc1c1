//! The failover between the clusters of a service (rules K5 to K7). The next timers are a pure function of the timers, the
//! health of the steps, and the time.
//!
//! The name of the service, and no name below it, returns the endpoints of one step of a [`FailoverOrder`]. In mode `hold`
//! that is the first step, until a person changes the order. In mode `auto` it is the first step that has an endpoint that is
//! alive. Delays keep it from flapping. They are all that a process remembers, so replicas differ for no longer than a delay.

use std::time::Duration;

use super::ServiceKind;
use super::change::ChangeCause;
use super::endpoint::{Draft, Endpoint};
use super::items::Items;
use super::own_settings::OwnSettings;
use super::rules::Rules;
use crate::model::{ClusterName, Clusters, FailoverMode, FailoverOrder, ServiceKey, Timestamp};

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

/// `--failover-delay` and `--failback-delay`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// How long the step that answers must be down until another one answers. Shorter interruptions do not count.
    pub failover: Duration,
    /// How long an earlier step that was left must be alive until it answers again.
    pub failback: Duration,
}

/// The failover of a service in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failover {
    /// The order, and the setting that it comes from.
    pub order: FailoverOrder,
    /// The setting that the order comes from.
    pub origin: OrderOrigin,
    /// Who decides that another step answers.
    pub mode: FailoverMode,
    /// Whether no setting says the mode.
    pub is_mode_inferred: bool,
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
    /// The time since which it has been alive, or since which it has not. Unknown in mode `hold`.
    pub since: Option<Timestamp>,
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

/// The timers of an order in mode `auto`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailoverTimers {
    /// The order that they belong to. A changed order has new timers.
    order: FailoverOrder,
    /// The step that answers, counted from zero.
    answering: usize,
    steps: Vec<StepTimer>,
}

/// The timers of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StepTimer {
    health: StepHealth,
    /// The time since which it has been alive, or since which it has not.
    since: Timestamp,
    /// The time since which it has been down, if it is. Time without endpoints does not count.
    down_since: Timestamp,
    standing: Standing,
}

/// Whether a step may answer instead of a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// At once.
    Preferred,
    /// At once, if it has an endpoint again within `--failover-delay` of this time. Another step answers meanwhile.
    Skipped(Timestamp),
    /// When it has been alive for `--failback-delay`, from this time on. `None`: it is not alive.
    Left(Option<Timestamp>),
}

/// How the timers of an order begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// The order takes effect at once: at the first table, and if it is new or has changed.
    AtOnce,
    /// The service is new. Its objects arrive one after the other, and a mirror before its slice.
    NewService,
}

/// The next state of a failover.
pub(super) struct NextFailover {
    pub(super) failover: Failover,
    /// The timers; none in mode `hold`.
    pub(super) timers: Option<FailoverTimers>,
    /// The time at which the timers can change although nothing else happens.
    pub(super) wake: Option<Timestamp>,
}

/// A change of the step that answers for a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The step that answered, as in the order.
    pub from: String,
    /// The step that answers now, as in the order.
    pub to: String,
    /// The reason.
    pub cause: ChangeCause,
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
            Self::ServiceFlag => "service-flag",
            Self::DefaultFlag => "default-flag",
        }
    }
}

// === Settings ===

/// Returns the order of a service: the first setting that exists (rule K6). `--failover ORDER` applies to known services
/// without pods only, because it would split a database.
pub(super) fn order_of(
    key: &ServiceKey,
    own: Option<&OwnSettings>,
    rules: &Rules,
    applies_by_default: impl FnOnce(&FailoverOrder) -> bool,
) -> Option<Order> {
    let annotation = own.and_then(|own| own.settings.failover.clone());
    if let Some(order) = annotation {
        return Some((order, OrderOrigin::Annotation));
    }
    if let Some(order) = rules.service_failover.get(key) {
        return Some((order.clone(), OrderOrigin::ServiceFlag));
    }
    let default = rules.failover.as_ref();
    let order = default.filter(|order| applies_by_default(order))?;
    Some((order.clone(), OrderOrigin::DefaultFlag))
}

/// Returns the mode that a setting says (rules K5a and K6). `auto` for all services is not for services with pods, because it
/// would move the clients of a database to a standby that nobody has promoted.
fn mode_of(
    key: &ServiceKey,
    has_pods: bool,
    own: Option<&OwnSettings>,
    rules: &Rules,
) -> Option<FailoverMode> {
    let annotation = own.and_then(|own| own.settings.failover_mode);
    let service = annotation.or_else(|| rules.service_failover_mode.get(key).copied());
    let is_for_it = |mode: &FailoverMode| *mode == FailoverMode::Hold || !has_pods;
    service.or_else(|| rules.failover_mode.filter(is_for_it))
}

/// Returns whether a service has pods (rule K5a): this cluster has a headless Service of its name, or a cluster that the order
/// names has a headless mirror or import of it, with or without endpoints. Its clients then hold a member of a database.
pub(super) fn has_pods(
    order: &FailoverOrder,
    items: &Items<'_>,
    own: Option<&OwnSettings>,
    rules: &Rules,
) -> bool {
    let names = |link: &ClusterName| order.names(&rules.name_of(link), &rules.cluster_name);
    let is_named_import = || {
        let import = items.import().map(|(_, import)| import);
        let Some(import) = import.filter(|import| import.kind.is_headless_import()) else {
            return false;
        };
        let is_listed = match &import.clusters {
            Clusters::Several(set) => set.names.iter().any(names),
            Clusters::Own | Clusters::Linked(_) => false,
        };
        let mut slices = items.import_slices.iter();
        is_listed || slices.any(|(_, slice)| slice.cluster.as_ref().is_some_and(names))
    };
    own.is_some_and(|own| own.has_pods)
        || items.headless_mirrors().any(|mirror| names(mirror.link))
        || is_named_import()
}

// === impl Failover ===

impl Failover {
    /// Decides which step of a service answers, and deselects the endpoints of the others.
    pub(super) fn apply(
        key: &ServiceKey,
        (order, origin): Order,
        context: FailoverContext<'_>,
        drafts: &mut [Draft],
    ) -> NextFailover {
        let FailoverContext {
            own,
            has_pods,
            last,
            start,
            rules,
            now,
        } = context;
        let step = |draft: &Draft| order.step_of(selected_cluster(draft)?, &rules.cluster_name);
        let mut health = vec![StepHealth::Empty; order.count()];
        for draft in drafts.iter().filter(|draft| draft.ready) {
            if let Some(step) = step(draft) {
                health[step] = health[step].min(StepHealth::of(&draft.endpoint));
            }
        }
        let is_flat = |draft: &&Draft| draft.endpoint.kind == ServiceKind::Flat;
        let flat = drafts.iter().filter(is_flat).filter_map(step).min();
        let mode = mode_of(key, has_pods, own, rules);
        let inferred = if has_pods {
            FailoverMode::Hold
        } else {
            FailoverMode::Auto
        };
        let (timers, wake) = match mode.unwrap_or(inferred) {
            FailoverMode::Hold => (None, None),
            FailoverMode::Auto => {
                let last = last.filter(|last| last.order == order);
                let delays = Delays {
                    failover: rules.failover_delay,
                    failback: rules.failback_delay,
                };
                let (next, wake) = match last {
                    Some(last) => last.next(&health, now, delays),
                    None if start == Start::AtOnce => {
                        FailoverTimers::at_once(order.clone(), &health, now)
                            .next(&health, now, delays)
                    }
                    None => FailoverTimers::of_new_service(order.clone(), now)
                        .next(&health, now, delays),
                };
                (Some(next), wake)
            }
        };
        let answering = timers.as_ref().map_or(0, |timers| timers.answering);
        for draft in drafts.iter_mut() {
            let is_answering = step(draft) == Some(answering);
            if draft.endpoint.is_selected && !is_answering {
                draft.endpoint.is_selected = false;
                draft.endpoint.is_standby = true;
            }
        }
        let since = |index: usize| Some(timers.as_ref()?.steps[index].since);
        let steps = health.iter().enumerate().map(|(index, health)| Step {
            health: *health,
            since: since(index),
        });
        let failover = Self {
            mode: mode.unwrap_or(inferred),
            is_mode_inferred: mode.is_none(),
            answering,
            steps: steps.collect(),
            order,
            origin,
            flat,
        };
        NextFailover {
            failover,
            timers,
            wake,
        }
    }

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

    /// Returns the first step with an endpoint in a flat network, if it hides later steps: in mode `auto`. Such an endpoint is
    /// always alive.
    pub fn flat_step(&self) -> Option<usize> {
        let is_last = |step: usize| step + 1 == self.order.count();
        let is_auto = self.mode == FailoverMode::Auto;
        self.flat.filter(|step| is_auto && !is_last(*step))
    }

    /// Returns the change from one table to the next, if another step answers.
    pub(super) fn transition(last: &Self, next: &Self) -> Option<Transition> {
        let (from, to) = (last.answering_text(), next.answering_text());
        let health = next.steps.get(last.answering).map(|step| step.health);
        let cause = match health {
            _ if last.order != next.order => ChangeCause::OrderChanged,
            _ if last.mode != next.mode => ChangeCause::ModeChanged,
            Some(StepHealth::Down) => ChangeCause::StepDown,
            Some(StepHealth::Empty) => ChangeCause::StepEmpty,
            Some(StepHealth::Alive) | None => ChangeCause::StepAlive,
        };
        (from != to).then_some(Transition { from, to, cause })
    }
}

/// What [`Failover::apply`] needs to know of a service.
#[derive(Clone, Copy)]
pub(super) struct FailoverContext<'c> {
    pub(super) own: Option<&'c OwnSettings>,
    pub(super) has_pods: bool,
    /// The last timers.
    pub(super) last: Option<&'c FailoverTimers>,
    /// How the timers begin, if there are none.
    pub(super) start: Start,
    pub(super) rules: &'c Rules,
    pub(super) now: Timestamp,
}

// === impl FailoverTimers ===

impl FailoverTimers {
    /// Begins the timers of an order that takes effect at once: a step that is down has been left. [`Self::next()`] chooses the
    /// step that answers.
    fn at_once(order: FailoverOrder, health: &[StepHealth], now: Timestamp) -> Self {
        let step = |health: &StepHealth| StepTimer {
            health: *health,
            since: now,
            down_since: now,
            standing: match health {
                StepHealth::Alive => Standing::Preferred,
                StepHealth::Down => Standing::Left(None),
                StepHealth::Empty => Standing::Skipped(now),
            },
        };
        Self {
            order,
            answering: 0,
            steps: health.iter().map(step).collect(),
        }
    }

    /// Begins the timers of a service without endpoints.
    fn of_new_service(order: FailoverOrder, now: Timestamp) -> Self {
        let step = StepTimer {
            health: StepHealth::Empty,
            since: now,
            down_since: now,
            standing: Standing::Preferred,
        };
        Self {
            steps: vec![step; order.count()],
            order,
            answering: 0,
        }
    }

    /// Returns the next timers, and the time at which they can change although nothing else happens.
    fn next(
        &self,
        health: &[StepHealth],
        now: Timestamp,
        delays: Delays,
    ) -> (Self, Option<Timestamp>) {
        let steps = self.steps.iter().zip(health);
        let mut next = Self {
            order: self.order.clone(),
            steps: steps
                .map(|(step, health)| step.next(*health, now, delays))
                .collect(),
            answering: self.answering,
        };
        let can_answer = |step: &StepTimer| step.health != StepHealth::Empty;
        next.answering = next.choose(can_answer, now, delays);
        for (index, step) in next.steps.iter_mut().enumerate() {
            if index >= next.answering {
                step.standing = Standing::Preferred;
            } else if step.health != StepHealth::Alive && step.standing == Standing::Preferred {
                // Another step answers from now on. The one that answered until now was down for the whole delay.
                step.standing = if index == self.answering && can_answer(step) {
                    Standing::Left(None)
                } else {
                    Standing::Skipped(now)
                };
            }
        }
        let wake = next.wake(now, delays);
        (next, wake)
    }

    /// Chooses the step that answers.
    fn choose(
        &self,
        can_answer: impl Fn(&StepTimer) -> bool,
        now: Timestamp,
        delays: Delays,
    ) -> usize {
        let is_alive = |step: &StepTimer| step.health == StepHealth::Alive;
        let current = &self.steps[self.answering];
        let mut earlier = self.steps[..self.answering].iter();
        if is_alive(current) {
            let is_back = |step: &StepTimer| is_alive(step) && step.standing == Standing::Preferred;
            return earlier.position(is_back).unwrap_or(self.answering);
        }
        if let Some(step) = earlier.position(is_alive) {
            return step; // without a wait: what answers is not alive
        }
        if can_answer(current)
            && current.standing == Standing::Preferred
            && now < current.down_since.after(delays.failover)
        {
            return self.answering;
        }
        let first_alive = self.steps.iter().position(is_alive);
        let first_usable = || self.steps.iter().position(can_answer);
        first_alive.or_else(first_usable).unwrap_or(0)
    }

    /// Returns the next time at which a delay ends.
    fn wake(&self, now: Timestamp, delays: Delays) -> Option<Timestamp> {
        let current = &self.steps[self.answering];
        let is_down = current.health == StepHealth::Down;
        let leave = is_down.then(|| current.down_since.after(delays.failover));
        let earlier = self.steps[..self.answering].iter();
        let ends = earlier.filter_map(|step| step.delay_end(delays));
        ends.chain(leave).filter(|end| *end > now).min()
    }
}

/// Returns the cluster of an endpoint that is selected.
fn selected_cluster(draft: &Draft) -> Option<&ClusterName> {
    let cluster = draft.endpoint.cluster.as_ref();
    cluster.filter(|_| draft.endpoint.is_selected)
}

// === impl StepTimer ===

impl StepTimer {
    /// Returns the next timers: first the end of a delay that has passed, then the new health, then the end of a delay of
    /// length zero.
    fn next(mut self, health: StepHealth, now: Timestamp, delays: Delays) -> Self {
        self.end_delay(now, delays);
        let is_alive = health == StepHealth::Alive;
        if is_alive != (self.health == StepHealth::Alive) {
            self.since = now;
            // A step that is skipped or was left is not alive, so that it is alive now.
            self.standing = match self.standing {
                Standing::Skipped(_) => Standing::Preferred,
                Standing::Left(None) => Standing::Left(Some(now)),
                standing => standing,
            };
        }
        if health == StepHealth::Down && self.health != StepHealth::Down {
            self.down_since = now;
        }
        self.health = health;
        self.end_delay(now, delays);
        self
    }

    /// Ends a delay that has passed.
    fn end_delay(&mut self, now: Timestamp, delays: Delays) {
        if self.delay_end(delays).is_some_and(|end| end <= now) {
            self.standing = match self.standing {
                Standing::Left(Some(_)) if self.health == StepHealth::Alive => Standing::Preferred,
                Standing::Preferred | Standing::Skipped(_) | Standing::Left(_) => {
                    Standing::Left(None)
                }
            };
        }
    }

    /// Returns the time at which the standing changes if the health does not.
    fn delay_end(&self, delays: Delays) -> Option<Timestamp> {
        match self.standing {
            Standing::Preferred | Standing::Left(None) => None,
            Standing::Skipped(since) => Some(since.after(delays.failover)),
            Standing::Left(Some(since)) if self.health == StepHealth::Alive => {
                Some(since.after(delays.failback))
            }
            // An interruption. It counts if it is not short.
            Standing::Left(Some(_)) => Some(self.since.after(delays.failover)),
        }
    }
}

#[cfg(test)]
mod tests;
