//! What metrics say about the names of services.

use std::collections::BTreeMap;

use crate::model::ProblemKind;
use crate::table::{EndpointLiveness, NameFailure, Service, Table};

/// The name in metrics for all other clusters together.
pub(super) const OTHER: &str = "other";

/// The reason of a name that fails because nothing is ready in any of its clusters.
const NOT_READY: &str = "not-ready";

/// The facts about the names of services.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ServiceFacts {
    /// The numbers of services whose names fail, by reason.
    pub(super) failing: BTreeMap<&'static str, u32>,
    /// The highest step of a failover order that answers, counted from 1; 0: none.
    pub(super) highest_step: usize,
}

// === impl ServiceFacts ===

impl ServiceFacts {
    pub(super) fn of(table: &Table) -> Self {
        let mut facts = Self {
            failing: reasons().map(|reason| (reason, 0)).into(),
            highest_step: 0,
        };
        table.services().for_each(|service| facts.add(service));
        facts
    }

    fn add(&mut self, service: &Service) {
        if let Some(reason) = failure(service) {
            *self.failing.entry(reason).or_default() += 1;
        }
        let is_answering = service.failure != Some(NameFailure::StepWithoutEndpoint);
        if let Some(failover) = service.failover.as_ref().filter(|_| is_answering) {
            self.highest_step = self.highest_step.max(failover.answering + 1);
        }
    }
}

/// Returns the reasons for which a name fails.
fn reasons() -> [&'static str; 4] {
    use ProblemKind::{ExpectedClustersMissing, MissingHost, StepWithoutEndpoint};
    let kinds = [ExpectedClustersMissing, StepWithoutEndpoint, MissingHost];
    let [gate, step, host] = kinds.map(ProblemKind::name);
    [gate, step, host, NOT_READY]
}

/// Returns why the name of a service fails, if it does.
fn failure(service: &Service) -> Option<&'static str> {
    Some(match service.failure? {
        NameFailure::ExpectedClustersMissing => ProblemKind::ExpectedClustersMissing.name(),
        NameFailure::StepWithoutEndpoint if is_not_ready(service) => NOT_READY,
        NameFailure::StepWithoutEndpoint => ProblemKind::StepWithoutEndpoint.name(),
        NameFailure::EndpointMirrorsMissing => ProblemKind::MissingHost.name(),
    })
}

/// Returns whether nothing is ready in any cluster that exports a service, and nothing else is known to be wrong. It may be
/// scaled to zero on purpose.
fn is_not_ready(service: &Service) -> bool {
    let mut endpoints = service.endpoints.iter();
    let is_exported = !service.endpoints.is_empty()
        || !service.mirrors.is_empty()
        || !service.not_ready.is_empty();
    is_exported && endpoints.all(|endpoint| endpoint.liveness == EndpointLiveness::NotReady)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{backends, exported, mirror, service_mirror, table};

    fn facts(objects: &[Value]) -> ServiceFacts {
        ServiceFacts::of(&table(objects))
    }

    /// Returns the Service of this cluster with annotations, without an endpoint.
    fn own(name: &str, annotations: &Value) -> Value {
        json!({"metadata": {"namespace": "prod", "name": name, "annotations": annotations},
            "spec": {"clusterIP": "10.0.9.9"}})
    }

    #[test]
    fn service_that_is_scaled_to_zero_fails_because_nothing_is_ready() {
        let hold = json!({"global-dns/failover": "east:west"});
        let at = |cluster| service_mirror("prod", "web", cluster, "10.0.0.1");
        let down = |cluster: &str| backends("prod", &format!("web-{cluster}"), true, false);
        let ready = |cluster: &str| backends("prod", &format!("web-{cluster}"), true, true);
        let none = || mirror("prod", "web", "east");
        let cases: [(&str, Vec<Value>, Option<&str>); 6] = [
            ("no rule", vec![at("east")], None),
            (
                "an order, scaled to zero in all clusters",
                vec![own("web", &hold), none()],
                Some("not-ready"),
            ),
            (
                "an order, scaled to zero in its first step only",
                vec![own("web", &hold), none(), at("west"), ready("west")],
                Some("step-without-endpoint"),
            ),
            (
                "an order, and the gateway of another step is down",
                vec![own("web", &hold), none(), at("west"), down("west")],
                Some("step-without-endpoint"),
            ),
            (
                "an order of clusters that do not export it",
                vec![own("web", &hold)],
                Some("step-without-endpoint"),
            ),
            (
                "an order whose step is ready",
                vec![own("web", &hold), at("east"), ready("east")],
                None,
            ),
        ];
        for (what, objects, expected) in cases {
            let found = facts(&objects);
            let failing = found.failing.into_iter().filter(|(_, count)| *count > 0);
            let failing: Vec<_> = failing.map(|(reason, _)| reason).collect();
            assert_eq!(failing, Vec::from_iter(expected), "{what}");
        }
    }

    #[test]
    fn highest_step_that_answers_is_known() {
        let order = json!({"global-dns/failover": "auto:east:west"});
        let at = |service, cluster| service_mirror("prod", service, cluster, "10.0.0.1");
        let ready = |service: &str| backends("prod", service, true, true);
        let web = [own("web", &order), at("web", "east"), ready("web-east")];
        let db = [own("db", &order), at("db", "west"), ready("db-west")];
        let none = [own("none", &order), exported("prod", "plain", "10.0.0.7")];
        assert_eq!(facts(&none).highest_step, 0);
        assert_eq!(facts(&web).highest_step, 1);
        assert_eq!(facts(&[web, db].concat()).highest_step, 2);
    }
}
