//! What metrics say about single services. Watched services have series of their own, so that an alert names the service: those
//! whose Service in this cluster has the annotation `global-dns/watch: "true"`. All others have series together.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{GatewayDown, ProblemKind, ServiceKey};
use crate::report::EndpointState;
use crate::table::{EndpointLiveness, NameFailure, Published, Service, Table};

/// Maximum number of watched services with series of their own. Everybody who can create a Service can watch it.
pub(super) const MAX_WATCHED: usize = 200;

/// Maximum number of clusters of a watched service with series of their own. Everybody who can create a Service can invent
/// clusters.
pub(super) const MAX_CLUSTERS_OF_SERVICE: usize = 20;

/// The name in metrics for all other services, or clusters, together.
pub(super) const OTHER: &str = "other";

/// The reason of a name that fails because nothing is ready in any of its clusters.
const NOT_READY: &str = "not-ready";

/// The facts about services, by the label `service`.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ServiceFacts {
    /// The number of watched services.
    pub(super) watched: usize,
    /// The numbers of clusters that left services within the last hour, by whether these are watched.
    pub(super) left: BTreeMap<(String, bool), usize>,
    /// The numbers of services whose names fail or are emptied by a rule, by reason.
    pub(super) failing: BTreeMap<(String, &'static str), u32>,
    /// The steps of failover orders that answer, counted from 1; 0: none. Of several services, the highest.
    pub(super) steps: BTreeMap<String, usize>,
    /// The numbers of endpoints of watched services, by cluster and state.
    pub(super) endpoints: BTreeMap<(String, String, EndpointState), u32>,
}

// === impl ServiceFacts ===

impl ServiceFacts {
    pub(super) fn of(table: &Table, now: &Published) -> Self {
        let mut watched: Vec<&ServiceKey> = table
            .services()
            .filter(|service| service.is_watched)
            .map(|service| &service.key)
            .collect();
        watched.sort_unstable();
        let own: BTreeSet<&ServiceKey> = watched.iter().copied().take(MAX_WATCHED).collect();
        let other = || OTHER.to_owned();
        let failing = reasons().map(|reason| ((other(), reason), 0));
        let mut facts = Self {
            watched: watched.len(),
            left: [false, true].map(|watch| ((other(), watch), 0)).into(),
            failing: failing.into(),
            steps: [(other(), 0)].into(),
            endpoints: BTreeMap::new(),
        };
        for service in table.services() {
            let is_own = own.contains(&service.key);
            facts.add(service, is_own);
            if is_own {
                facts.add_endpoints(service, now);
            }
        }
        facts
    }

    fn add(&mut self, service: &Service, is_own: bool) {
        let label = || {
            if is_own {
                service.key.to_string()
            } else {
                OTHER.to_owned()
            }
        };
        if is_own || !service.left.is_empty() {
            let left = self.left.entry((label(), service.is_watched));
            *left.or_default() += service.left.len();
        }
        if let Some(reason) = failure(service) {
            *self.failing.entry((label(), reason)).or_default() += 1;
        }
        if let Some(failover) = &service.failover {
            let is_answering = service.failure != Some(NameFailure::StepWithoutEndpoint);
            let step = if is_answering {
                failover.answering + 1
            } else {
                0
            };
            let highest = self.steps.entry(label()).or_default();
            *highest = step.max(*highest);
        }
    }

    fn add_endpoints(&mut self, service: &Service, now: &Published) {
        let label = service.key.to_string();
        let mut clusters: BTreeSet<&str> = BTreeSet::new();
        for (endpoint, state, _) in EndpointState::of_service(service, now) {
            let mut cluster = endpoint.labels()[1];
            if clusters.len() < MAX_CLUSTERS_OF_SERVICE {
                clusters.insert(cluster);
            } else if !clusters.contains(cluster) {
                cluster = OTHER;
            }
            let count = (label.clone(), cluster.to_owned(), state);
            *self.endpoints.entry(count).or_default() += 1;
        }
    }
}

/// Returns the reasons for which a name fails.
fn reasons() -> [&'static str; 4] {
    use ProblemKind::{EmptiedName, ExpectedClustersMissing, StepWithoutEndpoint};
    let [gate, step, rule] =
        [ExpectedClustersMissing, StepWithoutEndpoint, EmptiedName].map(ProblemKind::name);
    [gate, step, rule, NOT_READY]
}

/// Returns why the name of a service fails or is emptied by a rule, if it does.
fn failure(service: &Service) -> Option<&'static str> {
    let kind = match service.failure {
        Some(NameFailure::ExpectedClustersMissing) => {
            return Some(ProblemKind::ExpectedClustersMissing.name());
        }
        Some(NameFailure::StepWithoutEndpoint) => ProblemKind::StepWithoutEndpoint,
        None => ProblemKind::EmptiedName,
    };
    let has_problem = || service.problems().any(|problem| problem.kind == kind);
    let can_be_emptied = service.gateway_down == GatewayDown::Exclude;
    let is_failing = service.failure.is_some() || (can_be_emptied && has_problem());
    is_failing.then(|| {
        if is_not_ready(service) {
            NOT_READY
        } else {
            kind.name()
        }
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
        let now = Published {
            table: Some(table(objects)),
            ..Published::default()
        };
        let table = now.table.as_ref().unwrap();
        ServiceFacts::of(table, &now)
    }

    /// Returns the Service of this cluster with annotations, without an endpoint.
    fn own(name: &str, annotations: &Value) -> Value {
        json!({"metadata": {"namespace": "prod", "name": name, "annotations": annotations},
            "spec": {"clusterIP": "10.0.9.9"}})
    }

    #[test]
    fn services_and_their_clusters_have_a_limited_number_of_series() {
        let watch = json!({"global-dns/watch": "true"});
        let mut objects = Vec::new();
        for number in 0..MAX_WATCHED + 50 {
            let service = format!("s{number:03}");
            objects.push(own(&service, &watch));
            objects.push(service_mirror("prod", &service, "east", "10.0.0.1"));
        }
        for number in 0..MAX_CLUSTERS_OF_SERVICE + 5 {
            let cluster = format!("invented-{number}");
            objects.push(service_mirror("prod", "s000", &cluster, "10.0.0.2"));
        }
        objects.push(service_mirror("prod", "unwatched", "east", "10.0.0.3"));
        let facts = facts(&objects);
        assert_eq!(facts.watched, MAX_WATCHED + 50);
        let services: BTreeSet<_> = facts.endpoints.keys().map(|(name, ..)| name).collect();
        assert_eq!(services.len(), MAX_WATCHED);
        assert_eq!(services.last().unwrap().as_str(), "prod/s199");
        let of_first = |((name, cluster, _), n): (&(String, String, _), &u32)| {
            (name == "prod/s000").then(|| (cluster.clone(), *n))
        };
        let clusters: BTreeMap<_, _> = facts.endpoints.iter().filter_map(of_first).collect();
        assert_eq!(clusters.len(), MAX_CLUSTERS_OF_SERVICE + 1);
        assert_eq!(clusters[OTHER], 6);
        // Those without a place of their own are counted together.
        assert_eq!(facts.left.len(), MAX_WATCHED + 2);
    }

    #[test]
    fn service_that_is_scaled_to_zero_fails_because_nothing_is_ready() {
        let hold = json!({"global-dns/failover": "east:west", "global-dns/failover-mode": "hold"});
        let exclude = json!({"global-dns/gateway-down": "exclude"});
        let at = |cluster| service_mirror("prod", "web", cluster, "10.0.0.1");
        let down = |cluster: &str| backends("prod", &format!("web-{cluster}"), true, false);
        let ready = |cluster: &str| backends("prod", &format!("web-{cluster}"), true, true);
        let none = || mirror("prod", "web", "east");
        let cases: [(&str, Vec<Value>, Option<&str>); 9] = [
            ("no rule", vec![at("east")], None),
            (
                "exclude, scaled to zero",
                vec![own("web", &exclude), at("east")],
                Some("not-ready"),
            ),
            (
                "exclude, a gateway is down, too",
                vec![own("web", &exclude), at("east"), at("west"), down("west")],
                Some("emptied-name"),
            ),
            (
                "exclude, one is ready",
                vec![own("web", &exclude), at("east"), at("west"), ready("west")],
                None,
            ),
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
            let failing: Vec<_> = found
                .failing
                .iter()
                .filter(|(_, count)| **count > 0)
                .map(|((name, reason), _)| (name, *reason))
                .collect();
            let expected: Vec<_> = expected.map(|reason| (OTHER, reason)).into_iter().collect();
            let failing: Vec<_> = failing
                .iter()
                .map(|(name, r)| (name.as_str(), *r))
                .collect();
            assert_eq!(failing, expected, "{what}");
        }
    }

    #[test]
    fn watched_service_has_its_step_and_others_have_the_highest() {
        let order = |watch: &str| {
            json!({"global-dns/failover": "east:west", "global-dns/failover-mode": "auto",
                "global-dns/watch": watch})
        };
        let at = |service, cluster| service_mirror("prod", service, cluster, "10.0.0.1");
        let ready = |service: &str| backends("prod", service, true, true);
        let facts = facts(&[
            own("db", &order("true")),
            at("db", "west"),
            ready("db-west"),
            own("web", &order("false")),
            at("web", "east"),
            ready("web-east"),
            own("api", &order("false")),
            at("api", "west"),
            ready("api-west"),
            own("none", &order("true")),
            exported("prod", "plain", "10.0.0.7"),
        ]);
        let steps: Vec<_> = facts.steps.iter().map(|(name, n)| (&**name, *n)).collect();
        assert_eq!(steps, [("other", 2), ("prod/db", 2), ("prod/none", 0)]);
    }
}
