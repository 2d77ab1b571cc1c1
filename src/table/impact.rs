//! How bad the state of a service is for clients.

use schemars::JsonSchema;
use serde::Serialize;
use strum::{IntoStaticStr, VariantArray};

use super::endpoint::{Endpoint, EndpointLiveness};
use super::service::{NameFailure, Service};
use crate::model::{Problem, ProblemKind};

/// How bad something is for clients.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    IntoStaticStr,
    VariantArray,
    JsonSchema,
)]
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
    /// Returns how bad its state is for clients: whether those that query its name get no answer, or only endpoints that are down or
    /// not ready. No rule omits a selected endpoint that is alive. A service without endpoints does not fail: it may be scaled to
    /// zero on purpose.
    pub fn impact(&self) -> Impact {
        if self.failing_kind().is_some() {
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

    /// Returns the kind of the problem for which clients that query its name get no answer, or only endpoints that are down or
    /// not ready, if they do. No rule omits a selected endpoint that is alive. A service without endpoints does not count, and
    /// if nothing is ready in any cluster, that is the kind: it may be scaled to zero on purpose.
    pub fn failing_kind(&self) -> Option<ProblemKind> {
        match self.failure {
            Some(NameFailure::ExpectedClustersMissing) => {
                Some(ProblemKind::ExpectedClustersMissing)
            }
            Some(NameFailure::EndpointMirrorsMissing) => Some(ProblemKind::MissingHost),
            Some(NameFailure::StepWithoutEndpoint) if self.is_not_ready() => {
                Some(ProblemKind::ServiceNotReady)
            }
            Some(NameFailure::StepWithoutEndpoint) => Some(ProblemKind::StepWithoutEndpoint),
            None if self.endpoints.is_empty() => None,
            None => self.unreachable_kind(),
        }
    }

    /// Returns the kind of the problem that every selected endpoint is down or not ready, if it is so.
    fn unreachable_kind(&self) -> Option<ProblemKind> {
        let mut selected = self.endpoints.iter().filter(|one| one.is_selected);
        selected.try_fold(ProblemKind::ServiceNotReady, |kind, one| {
            let own = one.liveness.problem()?;
            let is_more = own != ProblemKind::ServiceNotReady;
            Some(if is_more { own } else { kind })
        })
    }

    /// Returns whether nothing is ready in any cluster that exports it, and nothing else is known to be wrong.
    fn is_not_ready(&self) -> bool {
        let mut endpoints = self.endpoints.iter();
        let is_exported =
            !self.endpoints.is_empty() || !self.mirrors.is_empty() || !self.not_ready.is_empty();
        is_exported && endpoints.all(|one| one.liveness == EndpointLiveness::NotReady)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::model::Problem;
    use crate::testing::{backends, endpoint, mirror, service_mirror, table};

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

    #[test]
    fn service_that_is_scaled_to_zero_fails_because_nothing_is_ready() {
        let order = json!({"metadata": {"namespace": "prod", "name": "db",
                "annotations": {"global-dns/failover": "east:west"}},
            "spec": {"clusterIP": "10.0.9.9"}});
        let at = |cluster| service_mirror("prod", "db", cluster, "10.0.0.1");
        let slice = |cluster, is_gateway_up| {
            backends("prod", &format!("db-{cluster}"), true, is_gateway_up)
        };
        let none = || mirror("prod", "db", "east");
        let cases: [(&str, Vec<Value>, Option<ProblemKind>); 7] = [
            ("ready", vec![at("east"), slice("east", true)], None),
            (
                "its only gateway is down",
                vec![at("east"), slice("east", false)],
                Some(ProblemKind::GatewayDown),
            ),
            (
                "no order, nothing behind its mirror",
                vec![at("east")],
                Some(ProblemKind::ServiceNotReady),
            ),
            (
                "an order, scaled to zero in all clusters",
                vec![order.clone(), none()],
                Some(ProblemKind::ServiceNotReady),
            ),
            (
                "an order, scaled to zero in its first step only",
                vec![order.clone(), none(), at("west"), slice("west", true)],
                Some(ProblemKind::StepWithoutEndpoint),
            ),
            (
                "an order, and the gateway of another step is down",
                vec![order.clone(), none(), at("west"), slice("west", false)],
                Some(ProblemKind::StepWithoutEndpoint),
            ),
            (
                "an order of clusters that do not export it",
                vec![order],
                Some(ProblemKind::StepWithoutEndpoint),
            ),
        ];
        for (what, objects, expected) in cases {
            assert_eq!(service(&objects).failing_kind(), expected, "{what}");
        }
    }
}
