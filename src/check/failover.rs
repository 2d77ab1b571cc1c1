//! Checks of failover orders and expected clusters.

use std::collections::BTreeSet;

use super::objects::Link;
use super::{Check, Facts, Finding, count, list_some};
use crate::model::ClusterName;
use crate::table::failover::OrderOrigin;
use crate::table::{Rules, Service, Table, list_clusters};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let (table, links) = (&facts.table, &facts.links);
    vec![
        Check::FailoverOrders.check("failover orders", table, |table| {
            failover_orders(table, links.as_deref().unwrap_or_default(), &facts.rules)
        }),
        Check::ExpectedClusters.check("expected clusters", table, expected_clusters),
    ]
}

/// Checks failover orders: steps that can never answer, and services that do not answer from their first step.
fn failover_orders(table: &Table, links: &[Link], rules: &Rules) -> Finding {
    let known = known_clusters(table, links, rules);
    let services = table.sorted_services();
    let problems: BTreeSet<String> = services
        .iter()
        .flat_map(|service| problems(service, &known, rules))
        .collect();
    let orders = services.iter().filter(|service| service.failover.is_some());
    match (problems.is_empty(), orders.count()) {
        (true, 0) => Check::FailoverOrders.green("no service has a failover order"),
        (true, orders) => Check::FailoverOrders.green(format!(
            "{} from the first step of the failover order",
            match orders {
                1 => "1 service answers".to_owned(),
                orders => format!("{orders} services answer"),
            }
        )),
        (false, _) => Check::FailoverOrders.yellow(
            list_some(problems),
            "global-dns explain NAME shows the order and the state of each step; change annotation global-dns/failover of the \
             Service of this cluster, or --failover",
        ),
    }
}

/// Returns the clusters that can have endpoints: those of Links and mirrors, and this cluster.
fn known_clusters(table: &Table, links: &[Link], rules: &Rules) -> BTreeSet<ClusterName> {
    let linked = links.iter().filter_map(|link| link.cluster.parse().ok());
    let linked = linked.map(|link| rules.name_of(&link));
    let services = table.services();
    let mirrored = services.flat_map(|service| {
        let mirrors = service.mirrors.iter().map(|(cluster, _)| cluster);
        service.clusters().chain(mirrors)
    });
    let own = [rules.cluster_name.clone()];
    let known = linked.chain(mirrored.cloned()).chain(own);
    known
        .filter(|cluster| !rules.excluded_clusters.contains(cluster))
        .collect()
}

/// Describes the problems of the order of one service.
fn problems(service: &Service, known: &BTreeSet<ClusterName>, rules: &Rules) -> Vec<String> {
    let key = &service.key;
    if let Some((order, origin)) = service.unused_order.as_deref() {
        return match origin {
            OrderOrigin::Annotation | OrderOrigin::ServiceFlag => vec![format!(
                "{key}: {order} does not apply to one address for all clusters"
            )],
            OrderOrigin::DefaultFlag => Vec::new(),
        };
    }
    let Some(failover) = &service.failover else {
        return Vec::new();
    };
    let order = &failover.state.order;
    let unknown = order.named().filter(|cluster| !known.contains(*cluster));
    let mut problems: Vec<String> = unknown
        .map(|cluster| format!("{key}: {order} names the unknown cluster '{cluster}'"))
        .collect();
    let own = &rules.cluster_name;
    let is_twice = order.has_local() && order.named().any(|cluster| cluster == own);
    problems.extend(is_twice.then(|| {
        format!(
            "{key}: {order} names this cluster twice, as 'local' and as '{own}'; the first counts"
        )
    }));
    problems.extend(failover.flat_step().map(|step| {
        let step = order.step_text(step);
        format!(
            "{key}: {order} has steps after '{step}', which is in a flat network and always alive"
        )
    }));
    let answering = failover.state.answering;
    problems.extend((answering > 0).then(|| {
        format!(
            "{key} answers from step {} of {order}, {}",
            answering + 1,
            failover.state.answering_text()
        )
    }));
    problems
}

/// Checks names that wait for expected clusters.
fn expected_clusters(table: &Table) -> Finding {
    let services = table.sorted_services().into_iter();
    let closed = services.filter(|service| !service.awaited().is_empty());
    let describe = |service: &Service| {
        let awaited = list_clusters(service.awaited().iter());
        format!("{} waits for {awaited}", service.key)
    };
    let closed: Vec<String> = closed.map(describe).collect();
    if closed.is_empty() {
        Check::ExpectedClusters.green("no service waits for expected clusters")
    } else {
        Check::ExpectedClusters.yellow(
            format!(
                "{} not answered: {}",
                match closed.len() {
                    1 => "1 name is".to_owned(),
                    names => format!("{} are", count(names, "name")),
                },
                list_some(closed)
            ),
            "link these clusters and export the service there; if one of them is retired, remove it from annotation \
             global-dns/expected-clusters of the Service of this cluster, or from --expected-clusters",
        )
    }
}

#[cfg(test)]
mod tests;
