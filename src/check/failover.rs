//! Checks of failover orders and expected clusters.

use super::facts::Facts;
use super::finding::{Check, Finding};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let none = "no service waits for expected clusters";
    let expected = Check::ExpectedClusters.problems(&facts.table, none);
    [failover_orders(facts), expected].concat()
}

/// Prints the problems of failover orders.
fn failover_orders(facts: &Facts) -> Vec<Finding> {
    let table = match &facts.table {
        Ok(table) => table,
        Err(reason) => return vec![Check::FailoverOrders.not_checked(reason)],
    };
    let orders = table
        .services()
        .filter(|service| service.failover.is_some());
    let none = match orders.count() {
        0 => "no service has a failover order".to_owned(),
        1 => "1 service answers from the first step of the failover order".to_owned(),
        orders => format!("{orders} services answer from the first step of the failover order"),
    };
    Check::FailoverOrders.problems(&facts.table, &none)
}

#[cfg(test)]
mod tests;
