//! What people decide of the name of a service: the failover between its clusters (rules K5 to K7), and the clusters that it expects
//! (rule K8).
//!
//! The name of the service, and no name below it, returns the endpoints of one step of a [`FailoverOrder`]. Of an order that
//! is held, that is the first step, until a person changes the order. An order that begins with `auto:` moves by itself.
//! `StepMemory` keeps it from flapping: a pure function of the health of the steps, what was remembered of them, and the
//! time. That is all that a process remembers of an order, so that replicas differ for no longer than a delay.
//!
//! A database that starts for the first time joins the members that its seed name returns. If the name returned only the
//! members of some clusters, each part could start a database of its own. So the name fails for a time, until every expected
//! cluster has an endpoint. Afterwards it never fails because of that, so that a forgotten setting cannot close a running
//! database; a cluster that is missing is reported.

use std::collections::BTreeSet;
use std::time::Duration;

use strum::Display;

use super::rules::Rules;
use crate::model::{
    ClusterName, ExpectedClusters, FailoverOrder, Item, Line, MAX_LISTED, Problem, ProblemKind,
    ServiceKey, Timestamp, key, list_some,
};

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
    pub order: FailoverOrder,
    pub steps: Box<[StepMemory]>,
    /// The step that answered last, unless none had an endpoint.
    pub answering: Option<Answering>,
    /// When it is dropped, because the service has no object.
    pub end: Option<Timestamp>,
}

/// The step that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answering {
    /// Counted from zero.
    pub step: usize,
    /// Since when it answers.
    pub since: Timestamp,
}

/// What is remembered of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StepMemory {
    /// Whether it counts as alive.
    pub counts: bool,
    is_alive: bool,
    /// When it last ceased to be alive.
    down_at: Timestamp,
    /// From when its way back counts.
    up_at: Option<Timestamp>,
}

/// The expected clusters of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// The expected clusters.
    pub expected: ExpectedClusters,
    /// The expected clusters without an endpoint in this cluster, alive or not.
    pub missing: Box<[Line]>,
    /// Until when, by the wall clock, missing clusters make the name fail. `None`: they do not any more, or none is missing.
    pub closes_until: Option<Timestamp>,
}

/// How long the name waits after the creation of the Service of this cluster, unless the annotation has a time.
const WINDOW: Duration = Duration::from_secs(3600);

/// How long after a step began to answer an earlier one that is alive takes over at once. Events of one moment arrive in batches, and
/// their order must not decide.
const SAME_MOMENT: Duration = Duration::from_millis(500);

/// How often a gate that is closed is looked at, because the wall clock may be corrected meanwhile.
const INTERVAL: Duration = Duration::from_secs(60);

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
}

// === impl OrderOrigin ===

impl OrderOrigin {
    /// Returns the setting of a service, as sentences name it.
    pub(super) fn setting(self, service: &ServiceKey) -> String {
        match self {
            Self::Annotation => format!("annotation {}", key::FAILOVER),
            Self::ServiceSetting => format!("services.{service}.failover"),
            Self::DefaultSetting => "failover.default".to_owned(),
        }
    }
}

// === impl Answering ===

impl Answering {
    /// Chooses the step that answers (rule K7): the first that counts as alive and has an endpoint, else the first with an endpoint
    /// that is alive, else the first with an endpoint. Nobody leaves a step that is alive for a later one: the `last` one stays while
    /// it is, until an earlier step counts as alive, or is alive in the same moment. Returns `None` if no step has an endpoint.
    pub(super) fn choose(
        last: Option<Self>,
        steps: &[StepMemory],
        health: &[StepHealth],
        now: Timestamp,
    ) -> Option<Self> {
        let has_endpoint = |step: &usize| health[*step] != StepHealth::Empty;
        let is_alive = |step: &usize| health[*step] == StepHealth::Alive;
        let counting = (0..steps.len()).find(|step| steps[*step].counts && has_endpoint(step));
        let alive = (0..steps.len()).find(is_alive);
        let step = match last.filter(|last| is_alive(&last.step)) {
            Some(last) => {
                let is_same_moment = now <= last.since.after(SAME_MOMENT);
                let takes_over = [counting, alive.filter(|_| is_same_moment)];
                takes_over.into_iter().flatten().fold(last.step, usize::min)
            }
            None => counting
                .or(alive)
                .or_else(|| (0..steps.len()).find(has_endpoint))?,
        };
        Some(
            last.filter(|last| last.step == step)
                .unwrap_or(Self { step, since: now }),
        )
    }
}

// === impl Debounce ===

impl Debounce {
    /// Returns the time at which the step that answers can change although nothing happens.
    pub(super) fn wake(&self, rules: &Rules) -> Option<Timestamp> {
        self.steps
            .iter()
            .filter_map(|step| step.wake(rules))
            .chain(self.end)
            .min()
    }
}

// === impl StepMemory ===

impl StepMemory {
    /// Begins with a step as it is. If the objects of the service are arriving, one that is down counts as alive.
    pub(super) fn new(health: StepHealth, is_arriving: bool, now: Timestamp) -> Self {
        let is_alive = health == StepHealth::Alive;
        Self {
            counts: is_alive || is_arriving,
            is_alive,
            down_at: now,
            up_at: Some(now),
        }
    }

    /// Notes whether it has an endpoint that is alive.
    pub(super) fn note(&mut self, is_alive: bool, now: Timestamp, rules: &Rules) {
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
            self.counts = self
                .up_at
                .is_some_and(|up| up.after(rules.failback_delay) <= now);
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

// === impl Gate ===

impl Gate {
    /// Returns the gate of a service, or `None` if its Service of this cluster expects no cluster. `present` are the clusters that
    /// have an endpoint.
    pub(super) fn new(
        own: &Item,
        present: &BTreeSet<ClusterName>,
        rules: &Rules,
        wall: Timestamp,
    ) -> Option<Self> {
        let expected = own.settings.as_ref()?.expected.clone()?;
        // A creation in the future counts as now: its hour has not ended.
        let end = expected
            .until
            .or_else(|| Some(Timestamp::from_seconds(own.created?.get().into()).after(WINDOW)));
        let missing = expected.missing(present, &rules.cluster_name);
        Some(Self {
            closes_until: end.filter(|end| wall < *end && !missing.is_empty()),
            missing,
            expected,
        })
    }

    /// Returns when it must be looked at again: at the end, or soon. `now` is the time of the clock of delays.
    pub(super) fn wake(&self, now: Timestamp, wall: Timestamp) -> Option<Timestamp> {
        let rest = self.closes_until?.since(wall);
        Some(now.after(rest.min(INTERVAL)))
    }

    /// Returns the problem of expected clusters that are missing, if there are any.
    pub(super) fn problem(&self) -> Option<Problem> {
        let first = self.missing.first()?;
        let names = list_some(&self.missing, MAX_LISTED);
        let problem = match self.closes_until {
            Some(end) => {
                let detail = format!("not answered; waits for {names} until {}", end.to_text());
                Problem::new(ProblemKind::ExpectedClustersMissing, detail)
            }
            None => Problem::new(ProblemKind::ClusterMissing, names),
        };
        Some(problem.of_unknown(first))
    }
}

#[cfg(test)]
mod tests;
