//! The note about the failover order of a service.

use super::{Context, Observer};
use crate::table::Service;
use crate::table::failover::{OrderOrigin, StepHealth};

/// Returns the order of a service, the step that answers, and the state of the others.
pub(super) fn order_note(service: &Service, context: &Context<'_>) -> Option<String> {
    let failover = service.failover.as_ref()?;
    let order = &failover.order;
    let mut note = format!(
        "failover order {order} ({}){}: answering step {} of {}, {}",
        describe_origin(failover.origin),
        if order.is_auto { "" } else { ", held" },
        failover.answering + 1,
        order.count(),
        failover.answering_text()
    );
    for (index, step) in failover.steps.iter().enumerate() {
        let name = order.step_text(index);
        let since = step.since.map(|time| format!(" since {}", time.to_text()));
        let since = since.unwrap_or_default();
        note += &match step.health {
            StepHealth::Down => format!("; {name} has been down{since}"),
            StepHealth::Empty if since.is_empty() => format!("; {name} has no endpoint"),
            StepHealth::Empty => format!("; {name} has had no endpoint{since}"),
            StepHealth::Alive if index < failover.answering => {
                format!("; {name} has been alive{since}, and answers again after failover.back")
            }
            StepHealth::Alive => continue,
        };
    }
    if let (Observer::Command(_), true) = (context.observer, order.is_auto) {
        note += "; a running server may still be in a delay of this order";
    }
    Some(note)
}

/// Returns the setting that an order comes from.
fn describe_origin(origin: OrderOrigin) -> &'static str {
    match origin {
        OrderOrigin::Annotation => "annotation global-dns/failover of the Service of this cluster",
        OrderOrigin::ServiceSetting => "services in the settings",
        OrderOrigin::DefaultSetting => "failover.default in the settings",
    }
}

#[cfg(test)]
mod tests;
