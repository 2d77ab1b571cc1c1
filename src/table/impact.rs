//! How bad the state of a service is for clients.

use serde::{Deserialize, Serialize};

use super::endpoint::{Endpoint, EndpointLiveness};
use super::service::Service;
use crate::model::Problem;

/// How bad something is for clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Impact {
    /// Nothing is wrong.
    #[default]
    Fine,
    /// Somebody should look at it.
    Attention,
    /// Clients get no answer, or one that they cannot use.
    Failing,
}

// === impl Service ===

impl Service {
    /// Returns how bad its state is for clients: whether those that query its name get no answer, or only endpoints that are down or
    /// not ready. No rule omits a selected endpoint that is alive. A service without endpoints does not fail: it may be scaled to
    /// zero on purpose.
    pub fn impact(&self) -> Impact {
        let is_reachable = |one: &Endpoint| one.is_selected && one.is_alive();
        let is_unreachable = !self.endpoints.is_empty() && !self.endpoints.iter().any(is_reachable);
        if self.failure.is_some() || is_unreachable {
            return Impact::Failing;
        }
        // A name without endpoints does not exist. An endpoint without a Link has the problem of its cluster.
        let is_unlinked = |one: &Endpoint| one.liveness == EndpointLiveness::Unlinked;
        let is_serious = self.is_listed() && self.endpoints.is_empty()
            || self.endpoints.iter().any(is_unlinked)
            || self.problems.iter().any(Problem::is_serious);
        if is_serious {
            Impact::Attention
        } else {
            Impact::Fine
        }
    }
}
