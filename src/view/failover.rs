//! The failover order of a service, in documents.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::table::failover::{Failover, Step, StepHealth};

/// The report on the failover order of a service.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct FailoverReport {
    /// The order, such as `east:west` or, if it moves by itself, `auto:local:east+west:*`.
    pub order: String,
    /// The setting that it comes from: `annotation`, `services` or `default`.
    pub origin: String,
    /// The step that answers, counted from one.
    pub step: usize,
    /// The steps, in order: the clusters as in the order, and what a step lacks, such as `west down since 2026-11-24T03:12:00Z`. An
    /// `empty` one has no endpoint. The time of one that is alive is that since which its way back counts.
    pub steps: Vec<String>,
}

// === impl FailoverReport ===

impl FailoverReport {
    pub(super) fn new(failover: &Failover) -> Self {
        let step = |(index, step): (usize, &Step)| {
            let clusters = failover.order.step_text(index);
            match (step.health, step.since) {
                (StepHealth::Alive, None) => clusters,
                (health, None) => format!("{clusters} {health}"),
                (health, Some(since)) => format!("{clusters} {health} since {}", since.to_text()),
            }
        };
        Self {
            order: failover.order.to_string(),
            origin: failover.origin.to_string(),
            step: failover.answering + 1,
            steps: failover.steps.iter().enumerate().map(step).collect(),
        }
    }
}

impl fmt::Display for FailoverReport {
    /// Writes the order, the step that answers, and the others that are not alive or were not for a while.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (order, step, steps) = (&self.order, self.step, &self.steps);
        write!(f, "{order}: step {step} of {}", steps.len())?;
        let mut lacking = steps.iter().filter(|step| step.contains(' '));
        lacking.try_for_each(|step| write!(f, "; {step}"))
    }
}
