//! Checks of failover orders and expected clusters.

use std::collections::BTreeSet;

use super::facts::Facts;
use super::finding::{Check, Finding, list_some};
use super::objects::Link;
use crate::model::ClusterName;
use crate::table::{Rules, Service, Table};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let none = "no service waits for expected clusters";
    let expected = Check::ExpectedClusters.problems(&facts.table, none);
    [failover_orders(facts), expected].concat()
}

/// Checks failover orders: the problems of services, and steps that only Links show to be mistakes.
fn failover_orders(facts: &Facts) -> Vec<Finding> {
    let (rules, links) = (&facts.rules, facts.objects.links.as_deref());
    let table = match &facts.table {
        Ok(table) => table,
        Err(reason) => return vec![Check::FailoverOrders.not_checked(reason)],
    };
    let services = table.sorted_services();
    let orders = services.iter().filter(|service| service.failover.is_some());
    let none = match orders.count() {
        0 => "no service has a failover order".to_owned(),
        1 => "1 service answers from the first step of the failover order".to_owned(),
        orders => format!("{orders} services answer from the first step of the failover order"),
    };
    let mut findings = Check::FailoverOrders.problems(&facts.table, &none);
    let known = known_clusters(table, links.unwrap_or_default(), rules);
    let services = services.iter();
    let mistakes: BTreeSet<String> = services
        .flat_map(|service| mistakes(service, &known, rules))
        .collect();
    if !mistakes.is_empty() {
        findings.retain(|finding| finding.hint.is_some()); // without the green line
        findings.push(Check::FailoverOrders.yellow(
            list_some(mistakes),
            "change annotation global-dns/failover of the Service of this cluster, or --failover",
        ));
    }
    findings
}

/// Returns the clusters that can have endpoints: those of Links and mirrors, and this cluster.
fn known_clusters(table: &Table, links: &[Link], rules: &Rules) -> BTreeSet<ClusterName> {
    let linked = links
        .iter()
        .filter_map(|link| link.cluster().parse().ok())
        .map(|link| rules.name_of(&link));
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

/// Describes clusters in the order of a service that are unknown or occur twice.
fn mistakes(service: &Service, known: &BTreeSet<ClusterName>, rules: &Rules) -> Vec<String> {
    let Some(failover) = &service.failover else {
        return Vec::new();
    };
    let (key, order, own) = (&service.key, &failover.order, &rules.cluster_name);
    let unknown = order
        .named()
        .filter(|cluster| !known.contains(*cluster))
        .map(|cluster| format!("{key}: {order} names the unknown cluster '{cluster}'"));
    let is_twice = order.has_local() && order.named().any(|cluster| cluster == own);
    let twice = is_twice.then(|| {
        format!(
            "{key}: {order} names this cluster twice, as 'local' and as '{own}'; the first counts"
        )
    });
    unknown.chain(twice).collect()
}

#[cfg(test)]
mod tests;
