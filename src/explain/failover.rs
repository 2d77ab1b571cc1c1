//! Notes about the failover order and the expected clusters of a service.

use super::{Context, Observer};
use crate::model::FailoverMode;
use crate::table::failover::{Failover, OrderOrigin, StepHealth};
use crate::table::{Draw, Service, Share};

/// Returns the notes about the failover and the expected clusters of a service.
pub(super) fn failover_notes(service: &Service, context: &Context<'_>) -> Vec<String> {
    let failover = service.failover.as_ref();
    let order = failover.map(|failover| order_note(failover, context));
    let draw = service.name_addresses.draw.as_deref();
    let shares = draw
        .into_iter()
        .flat_map(|draw| shares_notes(service, draw));
    let unused = service.unused_order.as_deref().and_then(|(order, origin)| {
        let is_of_all = *origin == OrderOrigin::DefaultFlag;
        is_of_all.then(|| {
            format!(
                "the failover order {order} ({}) does not apply: the service has one address for all its clusters",
                describe_origin(*origin)
            )
        })
    });
    order.into_iter().chain(shares).chain(unused).collect()
}

/// Returns the order, the step that answers, and the state of the others.
fn order_note(failover: &Failover, context: &Context<'_>) -> String {
    let order = &failover.order;
    let mut note = format!(
        "failover order {order} ({}), mode {}: answering step {} of {}, {}",
        describe_origin(failover.origin),
        failover.mode.name(),
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
            StepHealth::Drained => {
                format!("; all clusters of {name} that are alive have been drained{since}")
            }
            StepHealth::Empty if since.is_empty() => format!("; {name} has no endpoint"),
            StepHealth::Empty => format!("; {name} has had no endpoint{since}"),
            StepHealth::Alive if index < failover.answering => {
                format!("; {name} has been alive{since}, and answers again after --failback-delay")
            }
            StepHealth::Alive => continue,
        };
    }
    if let (Observer::Command(_), FailoverMode::Auto) = (context.observer, failover.mode) {
        note += "; a running server may still be in a delay of this order";
    }
    note
}

/// Returns the shares of clusters with weights: for each type, or once if both types have the same.
fn shares_notes(service: &Service, draw: &Draw) -> Vec<String> {
    let (v4, v6) = (
        shares_text(service, &draw.v4),
        shares_text(service, &draw.v6),
    );
    let note = |types: &str, shares: Option<String>| {
        let shares = shares?;
        Some(format!(
            "an answer of type {types} has one of these clusters, drawn at random: {shares}"
        ))
    };
    if v4 == v6 {
        return note("A or AAAA", v4).into_iter().collect();
    }
    note("A", v4).into_iter().chain(note("AAAA", v6)).collect()
}

/// Returns the shares of clusters in percent. Returns `None` if there are none.
fn shares_text<A>(service: &Service, shares: &[Share<A>]) -> Option<String> {
    let total: u32 = shares.iter().map(|share| share.weight).sum();
    let drawn = shares.iter().filter(|share| share.weight > 0);
    let texts = drawn.map(|share| {
        let [_, cluster] = service.endpoints[share.endpoint].labels();
        let percent = f64::from(share.weight) * 100.0 / f64::from(total);
        let percent = format!("{percent:.1}");
        format!("{cluster} {} %", percent.trim_end_matches(".0"))
    });
    let texts: Vec<String> = texts.collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

/// Returns the setting that an order comes from.
fn describe_origin(origin: OrderOrigin) -> &'static str {
    match origin {
        OrderOrigin::Annotation => "annotation global-dns/failover of the Service of this cluster",
        OrderOrigin::ServiceFlag => "--failover for this service",
        OrderOrigin::DefaultFlag => "--failover for all services without pods",
        OrderOrigin::Trial => "--what-if; nothing is changed",
    }
}

#[cfg(test)]
mod tests;
