//! The state of a service, which follows from the answer at its name. The headline, every view, the metrics and the alerts use this
//! one verdict.

use serde::Serialize;
use strum::{IntoStaticStr, VariantArray};

use crate::model::{Problem, ProblemKind};
use crate::table::{Endpoint, EndpointLiveness, NameFailure, Published, Service};
use crate::zone::{Answer, AnswerResult, Name, RecordType, Zone, Zones, answer, read};

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

/// The state of a service, and the result of the answer at its own name from which it follows.
#[derive(Clone, Copy)]
pub(super) struct Verdict {
    pub state: State,
    pub result: AnswerResult,
}

impl Verdict {
    /// Judges a service of a table.
    pub(super) fn of(zones: &Zones, now: &Published, service: &Service) -> Self {
        let answer = own_answer(zones, now, service);
        Self {
            state: state(service, &answer),
            result: answer.result(),
        }
    }
}

/// Returns the state of a service with an answer at its own name.
fn state(service: &Service, answer: &Answer<'_>) -> State {
    let is_reachable =
        matches!(answer, Answer::Data(view, _) if view.endpoints().any(Endpoint::is_alive));
    let is_unlinked = |one: &Endpoint| one.liveness == EndpointLiveness::Unlinked;
    if service.should_answer() && !is_reachable {
        if is_intended(service) {
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

/// Returns whether a name without an endpoint that is alive may be so on purpose: it waits for clusters (rule K8), or nothing is ready
/// in any cluster, as if the service is scaled to zero. A host that is listed or cannot be used may be ready.
fn is_intended(service: &Service) -> bool {
    let mut endpoints = service.endpoints.iter();
    let mut problems = service.problems.iter();
    let is_host_unknown = !service.missing.is_empty()
        || service.endpoints.is_empty() && !service.hosts.is_empty()
        || problems.any(|one| one.kind == ProblemKind::UnusableObject);
    !service.missing_clusters().is_empty()
        || service.is_known
            && !is_host_unknown
            && endpoints.all(|one| one.liveness == EndpointLiveness::NotReady)
}

/// Returns the answer at the own name of a service, the best of its types. It is that of the first zone of all clusters.
fn own_answer<'t>(zones: &'t Zones, now: &'t Published, service: &Service) -> Answer<'t> {
    let [name, namespace] = service.key.labels();
    let suffix = zones.of_own_names().map(Zone::name_suffix);
    let own = suffix.and_then(|suffix| Name::from_text(&format!("{name}.{namespace}.{suffix}")));
    let (Some(own), Some(table)) = (own, &now.table) else {
        return Answer::Refused;
    };
    let reading = read(zones, table, &own);
    let of_type = |rtype| answer(reading.clone(), rtype);
    let answers = RecordType::OF_SERVICES.into_iter().map(of_type);
    answers
        .min_by_key(Answer::result)
        .unwrap_or(Answer::Refused)
}

/// Returns the kind of the problem of a service that matters most to clients: if it fails, why; else the worst one; or its cause. That of
/// a cluster without a Link is not one of the service.
pub(super) fn main_problem(service: &Service, state: State) -> Option<ProblemKind> {
    let worst = service
        .problems
        .iter()
        .map(|problem| problem.kind)
        .min_by_key(|kind| std::cmp::Reverse(kind.row().level));
    let of_endpoints = service
        .endpoints
        .iter()
        .filter(|one| one.is_selected())
        .filter_map(|one| one.liveness.problem())
        .min();
    let of_failure = service.failure.map(|failure| match failure {
        NameFailure::ExpectedClustersMissing => ProblemKind::ExpectedClustersMissing,
        NameFailure::StepWithoutEndpoint => ProblemKind::StepWithoutEndpoint,
        NameFailure::EndpointMirrorsMissing => ProblemKind::MissingHost,
    });
    let main = if state == State::Failing {
        // What does not fail by itself is hidden by a zone.
        let hidden = Some(ProblemKind::Shadowed);
        of_failure.or(of_endpoints).or(worst).or(hidden)
    } else {
        worst.or(of_endpoints)
    };
    service
        .problems
        .iter()
        .find(|problem| Some(problem.kind) == main)
        .and_then(|effect| effect.cause)
        .or(main)
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
        let state = Verdict::of(&zones, &now, service).state;
        (state, main_problem(service, state))
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
        let ready = [at("east"), slice("east", true)];
        assert_eq!(
            verdict(&ready, &["global", "prod.global"]).0,
            Failing,
            "a zone hides it"
        );
    }
}
