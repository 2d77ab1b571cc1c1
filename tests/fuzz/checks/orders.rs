//! Failover orders and expected clusters in generated worlds, and checks of the steps (rules K5, K7, K8).

use std::collections::BTreeSet;

use global_dns::model::{ClusterName, ServiceKey, expected_clusters};
use global_dns::table::{Endpoint, Rules, Service, ServiceKind, Table};

/// Chooses orders from an octet: none from a small one.
pub fn choose(rules: &mut Rules, octet: u8) {
    let (default, service, expected) = match octet / 32 {
        0 => (None, None, None),
        1 => (Some("east:west"), None, None),
        2 => (Some("local:*"), Some("west:east"), None),
        3 => (Some("*:east"), Some("hub:*"), None),
        4 => (None, Some("north:east+west"), None),
        5 => (Some("west:hub:east"), Some("west:hub:east"), None),
        6 => (None, None, Some("east+west")),
        _ => (Some("east:*"), Some("east:*"), Some("west")),
    };
    let key = || ServiceKey {
        namespace: "prod".parse().unwrap(),
        service: "db".parse().unwrap(),
    };
    rules.failover = default.map(|order| order.parse().unwrap());
    rules.service_failover = service
        .map(|order| (key(), order.parse().unwrap()))
        .into_iter()
        .collect();
    rules.expected_clusters = expected
        .map(|clusters| (key(), expected_clusters(clusters).unwrap()))
        .into_iter()
        .collect();
}

/// Asserts the promises about the step that answers, after a table with an earlier step.
pub fn check_steps(service: &Service, last: &Table) {
    let Some(failover) = &service.failover else {
        let mut endpoints = service.endpoints.iter();
        assert!(
            endpoints.all(|endpoint| !endpoint.is_standby),
            "{service:?}"
        );
        return;
    };
    assert_ne!(service.kind, ServiceKind::Federated);
    let order = failover.state.order.to_string();
    let step_of = |cluster: &ClusterName| step_of(&order, cluster.as_str());
    let candidates = service
        .endpoints
        .iter()
        .filter(|endpoint| endpoint.is_selected || endpoint.is_standby);
    let steps = |is_included: &dyn Fn(&Endpoint) -> bool| -> BTreeSet<usize> {
        let included = candidates.clone().filter(|endpoint| is_included(endpoint));
        included
            .filter_map(|endpoint| step_of(endpoint.cluster.as_ref().unwrap()))
            .collect()
    };
    let answering = steps(&|endpoint| endpoint.is_selected);
    let (all, alive) = (steps(&|_| true), steps(&|endpoint| endpoint.alive));
    // Steps never answer together, and the name is never empty while a step has an endpoint.
    assert!(answering.len() <= 1, "{service:?}");
    assert_eq!(answering.is_empty(), all.is_empty(), "{service:?}");
    let includes_down = service.name_addresses.includes_down;
    let answered = steps(&|endpoint| endpoint.is_selected && (endpoint.alive || includes_down));
    assert!(!answered.is_empty() || alive.is_empty(), "{service:?}");
    let Some(step) = answering.first() else {
        return;
    };
    assert_eq!(*step, failover.state.answering);
    let key = &service.key;
    let last = last.service(key.namespace.as_str(), key.service.as_str());
    let last = last.and_then(|last| last.failover.as_ref());
    if let Some(last) = last.filter(|last| last.state.order == failover.state.order) {
        let before = last.state.answering;
        // A later step answers only if no earlier one is alive.
        let is_later = *step > before;
        assert!(
            !is_later || alive.range(..*step).next().is_none(),
            "{service:?}"
        );
        // Another step answers only if it is alive, unless the earlier one has no endpoint.
        let is_other = *step != before && all.contains(&before);
        assert!(!is_other || alive.contains(step), "{service:?}");
    }
}

/// Finds the step of a cluster without the parser of the server.
fn step_of(order: &str, cluster: &str) -> Option<usize> {
    let names = |step: &str| -> bool {
        let mut names = step.split('+');
        names.any(|name| name == cluster || (name == "local" && cluster == "hub"))
    };
    let named = order.split(':').position(names);
    named.or_else(|| order.split(':').position(|step| step == "*"))
}
