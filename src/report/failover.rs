//! The report on the failover order of a service.

use serde::{Deserialize, Serialize};

use crate::table::failover::{Failover, StepHealth, StepState, Timestamp};

/// The report on the failover order of a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailoverReport {
    /// The order, such as `local:east+west:*`.
    pub order: String,
    /// The setting that it comes from: `annotation`, `service-flag` or `default-flag`.
    pub origin: String,
    /// The step that answers, counted from one.
    pub step: usize,
    /// The steps, in order.
    pub steps: Vec<StepReport>,
}

/// The report on a step of a failover order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepReport {
    /// The clusters, as in the order.
    pub clusters: String,
    /// `alive`; `dead`: no endpoint is alive; `empty`: there is no endpoint.
    pub state: String,
    /// The time since which the step has been alive or not, if it is known (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
}

// === impl FailoverReport ===

impl FailoverReport {
    pub(super) fn new(failover: &Failover) -> Self {
        let state = &failover.state;
        let steps = failover.health.iter().zip(&state.steps).enumerate();
        let step = |(index, (health, step)): (usize, (&StepHealth, &StepState))| StepReport {
            clusters: state.order.step_text(index),
            state: health.name().to_owned(),
            since: (step.since != Timestamp::UNKNOWN).then(|| step.since.to_text()),
        };
        Self {
            order: state.order.to_string(),
            origin: failover.origin.name().to_owned(),
            step: state.answering + 1,
            steps: steps.map(step).collect(),
        }
    }
}
