//! Replays recordings with failover orders, at the times of their events.

use global_dns::table::Rules;
use global_dns::table::failover::Delays;

use crate::replay::{Replay, hub_rules};

/// Replays a recording with an order for all services that are not headless, with the default delays or without delays.
/// Returns the changes of steps.
fn failovers(number: &str, order: &str, has_delays: bool) -> Vec<String> {
    let rules = Rules {
        failover: Some(order.parse().unwrap()),
        ..hub_rules()
    };
    let mut replay = Replay::with_rules(number, rules);
    if !has_delays {
        replay.delays = Delays::default();
    }
    replay.finish();
    let has_order = |replay: &Replay| {
        let now = replay.reader.load();
        let mut services = now.table.as_ref().unwrap().services();
        services.any(|service| service.failover.is_some())
    };
    assert!(has_order(&replay), "no service of {number} has an order");
    let changes = replay.failovers.iter();
    changes
        .map(|one| {
            format!(
                "{} {} -> {} {:?}",
                one.service, one.from, one.to, one.reason
            )
        })
        .collect()
}

/// Linkerd deletes and creates a mirror again within 70 milliseconds, and a mirror exists some milliseconds before its
/// slice.
#[test]
fn gaps_between_events_cause_no_failover() {
    for (number, order) in [
        ("25", "west:east"),
        ("25", "west:*"),
        ("28", "north:east"),
        ("28", "north:*"),
    ] {
        assert_eq!(failovers(number, order, true), [""; 0], "{number} {order}");
        // Only the delays prevent it.
        assert!(
            !failovers(number, order, false).is_empty(),
            "{number} {order}"
        );
    }
}
