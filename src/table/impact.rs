//! How bad the state of a service is for clients.

use serde::Serialize;
use strum::IntoStaticStr;

use super::endpoint::{Endpoint, EndpointLiveness};
use super::service::Service;

/// How bad something is for clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Impact {
    /// Nothing is wrong.
    #[default]
    #[serde(rename = "ok")]
    #[strum(serialize = "ok")]
    Fine,
    /// Somebody should look at it.
    Attention,
    /// Clients get no answer, or one that they cannot use.
    Failing,
}

// === impl Impact ===

impl Impact {
    /// Returns its name in documents.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

// === impl Service ===

impl Service {
    /// Returns how bad its state is for clients.
    pub fn impact(&self) -> Impact {
        if self.is_failing() {
            return Impact::Failing;
        }
        // A name without endpoints does not exist. An endpoint without a Link has the problem of its cluster.
        let is_unlinked = |one: &Endpoint| one.liveness == EndpointLiveness::Unlinked;
        let is_missing = self.is_listed() && self.endpoints.is_empty();
        let is_serious = is_missing
            || self.endpoints.iter().any(is_unlinked)
            || self.problems.iter().any(|problem| problem.is_serious());
        if is_serious {
            Impact::Attention
        } else {
            Impact::Fine
        }
    }

    /// Returns whether clients that query its name get no answer, or only endpoints that are down or not ready. No rule omits a selected
    /// endpoint that is alive. A service without endpoints does not count: it may be scaled to zero on purpose.
    fn is_failing(&self) -> bool {
        let is_reachable = |one: &Endpoint| one.is_selected && one.is_alive();
        let is_unreachable = !self.endpoints.is_empty() && !self.endpoints.iter().any(is_reachable);
        self.failure.is_some() || is_unreachable
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::model::{Problem, ProblemKind};
    use crate::testing::{endpoint, mirror, table};

    fn service(objects: &[Value]) -> Service {
        table(objects).service("prod", "db").unwrap().clone()
    }

    fn db() -> Vec<Value> {
        vec![
            mirror("prod", "db", "east"),
            endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
        ]
    }

    #[test]
    fn missing_endpoints_unlinked_clusters_and_serious_problems_deserve_attention() {
        let fine = service(&db());
        let mut unlinked = fine.clone();
        let mut endpoint = fine.endpoints[0].clone();
        endpoint.liveness = EndpointLiveness::Unlinked;
        unlinked.endpoints = [fine.endpoints[0].clone(), endpoint].into();
        let with_problem = |kind| Service {
            problems: [Problem::new(kind, "is so")].into(),
            ..fine.clone()
        };
        let (note, error) = (ProblemKind::Kind, ProblemKind::UnusableObject);
        assert_eq!(fine.impact(), Impact::Fine);
        assert_eq!(with_problem(note).impact(), Impact::Fine);
        assert_eq!(with_problem(error).impact(), Impact::Attention);
        assert_eq!(unlinked.impact(), Impact::Attention);
        assert_eq!(service(&db()[..1]).impact(), Impact::Attention);
    }
}
