//! The failover order of a service, in documents.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::table::failover::{Failover, Step};

/// The report on the failover order of a service.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct FailoverReport {
    /// The order, such as `east:west` or, if it moves by itself, `auto:local:east+west:*`.
    pub order: String,
    /// The setting that it comes from: `annotation`, `services` or `default`.
    pub origin: String,
    /// The step that answers, counted from one.
    pub step: usize,
    /// The steps, in order.
    pub steps: Vec<StepReport>,
}

/// The report on a step of a failover order.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct StepReport {
    /// The clusters, as in the order.
    pub clusters: String,
    /// `alive`; `down`: no endpoint is alive; `empty`: there is none.
    pub state: String,
    /// The time since which the step has been down, or since which its way back counts (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
}

// === impl FailoverReport ===

impl FailoverReport {
    pub(super) fn new(failover: &Failover) -> Self {
        let step = |(index, step): (usize, &Step)| StepReport {
            clusters: failover.order.step_text(index),
            state: step.health.to_string(),
            since: step.since.map(|since| since.to_text()),
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
        for step in steps {
            let since = step.since.iter().map(|since| format!(" since {since}"));
            let since: String = since.collect();
            if step.state != "alive" || !since.is_empty() {
                write!(f, "; {} {}{since}", step.clusters, step.state)?;
            }
        }
        Ok(())
    }
}
