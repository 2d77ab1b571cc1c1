//! Notes about the failover order and the expected clusters of a service.

use super::{Context, Observer};
use crate::table::Service;
use crate::table::failover::{Failover, OrderOrigin, StepHealth, Timestamp};

/// Returns the notes about the failover and the expected clusters of a service.
pub(super) fn failover_notes(service: &Service, context: &Context<'_>) -> Vec<String> {
    let failover = service.failover.as_ref();
    let order = failover.map(|failover| order_note(failover, context));
    let unused = service.unused_order.as_deref().and_then(|(order, origin)| {
        let is_of_all = *origin == OrderOrigin::DefaultFlag;
        is_of_all.then(|| {
            format!(
                "the failover order {order} ({}) does not apply: the service has one address for all its clusters",
                describe_origin(*origin)
            )
        })
    });
    order.into_iter().chain(unused).collect()
}

/// Returns the order, the step that answers, and the state of the others.
fn order_note(failover: &Failover, context: &Context<'_>) -> String {
    let state = &failover.state;
    let mut note = format!(
        "failover order {} ({}): answering step {} of {}, {}",
        state.order,
        describe_origin(failover.origin),
        state.answering + 1,
        state.order.count(),
        state.answering_text()
    );
    for (index, (health, step)) in failover.health.iter().zip(&state.steps).enumerate() {
        let name = state.order.step_text(index);
        let since = describe_time(step.since);
        note += &match health {
            StepHealth::Dead => format!("; {name} has been down{since}"),
            StepHealth::Empty => format!("; {name} has had no endpoint{since}"),
            StepHealth::Alive if index < state.answering => {
                format!("; {name} has been up{since}, and answers again after --failback-delay")
            }
            StepHealth::Alive => continue,
        };
    }
    if let Observer::Command(_) = context.observer {
        note += "; only a running server knows which step answered before";
    }
    note
}

/// Returns the setting that an order comes from.
fn describe_origin(origin: OrderOrigin) -> &'static str {
    match origin {
        OrderOrigin::Annotation => "annotation global-dns/failover of the Service of this cluster",
        OrderOrigin::ServiceFlag => "--failover for this service",
        OrderOrigin::DefaultFlag => "--failover for all services that are not headless",
    }
}

/// Returns ` since TIME`, or nothing if the time is unknown.
fn describe_time(time: Timestamp) -> String {
    let time = (time != Timestamp::UNKNOWN).then(|| time.to_text());
    time.map(|time| format!(" since {time}"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
