//! The state of a service, which follows from the answer at its name. The headline, every view, the metrics and the alerts use this
//! one verdict.

use std::cmp::Reverse;

use serde::Serialize;
use strum::{IntoStaticStr, VariantArray};

use crate::model::{ClusterName, Problem, ProblemKind};
use crate::table::{Endpoint, EndpointLiveness, NameFailure, Published, Service};
use crate::zone::{Answer, AnswerResult, Failure, Name, RecordType, Zone, Zones, answer, read};

/// How bad something is for clients.
#[derive(Serialize, IntoStaticStr, VariantArray)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Nothing is wrong.
    #[default]
    Ok,
    /// Somebody should look at it.
    Attention,
    /// Clients should get an answer, and get none, or one that they cannot use.
    Failing,
}

/// The verdict on a service: its state, which follows from the answer at its own name.
#[derive(Clone, Copy)]
pub(super) struct Verdict {
    pub state: State,
    /// The result of a query for its own name: the best of A, AAAA and SRV.
    pub result: AnswerResult,
    /// The kind of the problem that matters most to clients.
    pub problem: Option<ProblemKind>,
}

/// The own name of a service.
pub(super) struct OwnName<'t> {
    pub name: Name,
    /// The label before the name of the service for the same in zones of all clusters: the cluster of its zone.
    scope: Option<&'t str>,
}

// === impl Verdict ===

impl Verdict {
    /// Judges a service of a table. Returns `None` if it has no own name.
    pub(super) fn of(zones: &Zones, now: &Published, service: &Service) -> Option<Self> {
        let own = OwnName::of(zones, service)?;
        let answer = best_answer(zones, now, &own.name)?;
        let state = own.state(service, &answer);
        let worst = service.problems.iter().map(|problem| problem.kind);
        let worst = worst.min_by_key(|kind| Reverse(kind.row().level));
        let main = if state == State::Failing {
            own.reason(service, &answer).or(worst)
        } else {
            worst.or(worst_liveness(
                service.endpoints.iter().filter(|one| one.is_selected()),
            ))
        };
        // Or its cause. That of a cluster without a Link is not one of the service.
        let problem = service.problems.iter().find(|one| Some(one.kind) == main);
        Some(Self {
            state,
            result: answer.result(),
            problem: problem.and_then(|effect| effect.cause).or(main),
        })
    }
}

// === impl OwnName ===

impl<'t> OwnName<'t> {
    /// Returns the own name of a service. It has none if all zones are of clusters from which it is not mirrored.
    pub(super) fn of(zones: &'t Zones, service: &Service) -> Option<Self> {
        let zone = own_zone(zones, service)?;
        let [name, namespace] = service.key.labels();
        Some(Self {
            name: Name::from_text(&format!("{name}.{namespace}.{}", zone.name_suffix()))?,
            scope: zone.grammar.cluster().map(ClusterName::as_str),
        })
    }

    /// Returns the state of the service with an answer at this name.
    fn state(&self, service: &Service, answer: &Answer<'_>) -> State {
        let is_reachable = matches!(answer, Answer::Data(view, _)
            if view.service.key == service.key && view.endpoints().any(Endpoint::is_alive));
        let is_unlinked = |one: &Endpoint| one.liveness == EndpointLiveness::Unlinked;
        if service.should_answer() && !is_reachable {
            if self.is_intended(service) {
                State::Attention
            } else {
                State::Failing
            }
        } else if service.endpoints.iter().any(is_unlinked)
            || service.problems.iter().any(Problem::is_serious)
        {
            State::Attention
        } else {
            State::Ok
        }
    }

    /// Returns whether a name without an endpoint that is alive may be so on purpose: it waits for clusters (rule K8), or nothing is
    /// ready in any of its clusters, as if the service is scaled to zero. A host that is listed or cannot be used may be ready.
    fn is_intended(&self, service: &Service) -> bool {
        let endpoints = service.endpoints_at(self.scope.as_slice());
        let mut problems = service.problems.iter();
        let is_host_unknown = service.missing_at(self.scope.as_slice()).is_some()
            || endpoints.is_empty() && !service.hosts.is_empty()
            || problems.any(|one| one.kind == ProblemKind::UnusableObject);
        !service.missing_clusters().is_empty()
            || service.is_known
                && !is_host_unknown
                && endpoints
                    .iter()
                    .all(|one| one.liveness == EndpointLiveness::NotReady)
    }

    /// Returns why the service fails with an answer at this name.
    fn reason(&self, service: &Service, answer: &Answer<'_>) -> Option<ProblemKind> {
        match answer {
            Answer::Failed(Failure::Rule(NameFailure::ExpectedClustersMissing)) => {
                Some(ProblemKind::ExpectedClustersMissing)
            }
            Answer::Failed(Failure::Rule(NameFailure::StepWithoutEndpoint)) => {
                Some(ProblemKind::StepWithoutEndpoint)
            }
            Answer::Failed(_) => Some(ProblemKind::MissingHost),
            Answer::Data(view, _) if view.service.key == service.key => {
                worst_liveness(view.endpoints())
            }
            // It has endpoints, and a zone takes their name.
            _ if !service.endpoints_at(self.scope.as_slice()).is_empty() => {
                Some(ProblemKind::Shadowed)
            }
            _ => None,
        }
    }
}

/// Returns the answer for a name: the best of A, AAAA and SRV. Returns `None` if there is no table.
pub(super) fn best_answer<'t>(
    zones: &'t Zones,
    now: &'t Published,
    name: &Name,
) -> Option<Answer<'t>> {
    let reading = read(zones, now.table.as_ref()?, name);
    RecordType::OF_SERVICES
        .map(|rtype| answer(reading.clone(), rtype))
        .into_iter()
        .min_by_key(Answer::result)
}

/// Returns the zone of the own name of a service: the first zone that is not of one cluster, or else the first one of a cluster from
/// which it is mirrored.
fn own_zone<'t>(zones: &'t Zones, service: &Service) -> Option<&'t Zone> {
    let first = zones.of_own_names()?;
    if first.grammar.cluster().is_none() {
        return Some(first);
    }
    let alone = service.without_alias();
    let is_mirrored = |cluster: &ClusterName| {
        let of_mirrors = alone.mirrors.iter().map(|(cluster, _)| cluster);
        of_mirrors.chain(alone.clusters()).any(|one| one == cluster)
    };
    zones
        .iter()
        .find(|zone| zone.grammar.cluster().is_some_and(is_mirrored))
}

/// Returns whether views list a service: it should answer, and a zone has its own name.
pub(super) fn is_shown(zones: &Zones, service: &Service) -> bool {
    service.should_answer() && own_zone(zones, service).is_some()
}

/// Returns the problem of the endpoint whose liveness is the worst.
fn worst_liveness<'t>(endpoints: impl Iterator<Item = &'t Endpoint>) -> Option<ProblemKind> {
    endpoints.filter_map(|one| one.liveness.problem()).min()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{
        backends, endpoint, mirror, published, service_mirror, table, zones as zones_of,
    };

    /// Returns the state of `db.prod` in these zones, and the problem that explains it.
    fn verdict(objects: &[Value], zones: &[&str]) -> (State, Option<ProblemKind>) {
        let (zones, now) = (zones_of(zones), published(table(objects)));
        let service = now.table.as_ref().unwrap().service("prod", "db").unwrap();
        let verdict = Verdict::of(&zones, &now, service).unwrap();
        (verdict.state, verdict.problem)
    }

    #[test]
    fn service_fails_if_it_should_answer_with_an_endpoint_that_is_alive_and_does_not() {
        use ProblemKind as K;
        use State::{Attention, Failing, Ok};
        let order = json!({"metadata": {"namespace": "prod", "name": "db",
                "annotations": {"global-dns/failover": "east:west"}},
            "spec": {"clusterIP": "10.0.9.9"}});
        let at = |cluster| service_mirror("prod", "db", cluster, "10.0.0.1");
        let slice = |cluster, is_gateway_up| {
            backends("prod", &format!("db-{cluster}"), true, is_gateway_up)
        };
        let none = || mirror("prod", "db", "east");
        let pod = endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]);
        for (what, objects, expected) in [
            ("pods", vec![none(), pod], (Ok, None)),
            ("ready", vec![at("east"), slice("east", true)], (Ok, None)),
            (
                "scaled to zero",
                vec![none()],
                (Attention, Some(K::MissingHost)),
            ),
            (
                "its only gateway is down",
                vec![at("east"), slice("east", false)],
                (Failing, Some(K::GatewayDown)),
            ),
            (
                "no order, nothing behind its mirror",
                vec![at("east")],
                (Attention, Some(K::ServiceNotReady)),
            ),
            (
                "one of two gateways is down",
                vec![
                    at("east"),
                    slice("east", false),
                    at("west"),
                    slice("west", true),
                ],
                (Attention, Some(K::GatewayDown)),
            ),
            (
                "an order, scaled to zero in all clusters",
                vec![order.clone(), none()],
                (Attention, Some(K::SettingWithoutEffect)),
            ),
            (
                "an order, scaled to zero in its first step only",
                vec![order.clone(), none(), at("west"), slice("west", true)],
                (Failing, Some(K::StepWithoutEndpoint)),
            ),
            (
                "an order, and the gateway of another step is down",
                vec![order.clone(), none(), at("west"), slice("west", false)],
                (Failing, Some(K::StepWithoutEndpoint)),
            ),
            (
                "an order, and nothing is ready in its first step only",
                vec![order.clone(), at("east"), at("west"), slice("west", true)],
                (Failing, Some(K::ServiceNotReady)),
            ),
            (
                "an order of clusters that do not export it",
                vec![order],
                (Failing, Some(K::SettingWithoutEffect)),
            ),
        ] {
            assert_eq!(verdict(&objects, &["global"]), expected, "{what}");
        }
        let down = [at("east"), slice("east", false)];
        assert_eq!(
            verdict(&down, &["global", "prod.global"]),
            (Failing, Some(K::Shadowed)),
            "a zone hides it, and its gateway is down"
        );
    }
}
