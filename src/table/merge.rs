//! Merges the endpoints of the candidates of a service, so that each cluster and hostname occurs once.

use std::collections::{BTreeSet, HashSet};

use super::candidate::{Candidate, Role};
use super::{Endpoint, EndpointLiveness};
use crate::model::{Port, Ports, Problem, ProblemKind};

/// Maximum number of distinct ports of a service. The time of an SRV answer grows with it.
const MAX_PORTS: usize = 128;

/// Merges the endpoints of candidates, and those that are not ready. Both lists are sorted by cluster and hostname.
pub(super) fn merge(
    candidates: Vec<Candidate<'_>>,
    problems: &mut Vec<Problem>,
) -> (Vec<Endpoint>, Vec<Endpoint>) {
    let (mut endpoints, mut not_ready) = (Vec::new(), Vec::new());
    for candidate in candidates
        .into_iter()
        .filter(|one| one.role != Role::Omitted)
    {
        let role = candidate.role;
        let with_role = |endpoint| Endpoint {
            is_selected: role == Role::Answers,
            is_standby: role == Role::Standby,
            ..endpoint
        };
        endpoints.extend(candidate.endpoints.into_iter().map(with_role));
        not_ready.extend(candidate.not_ready.into_iter().map(with_role));
    }
    // Endpoints of one name keep their order. Most are sorted already, which takes one comparison each.
    endpoints.sort_by(|one, other| one.name().cmp(&other.name()));
    endpoints.dedup_by(|endpoint, first| {
        let is_same = endpoint.name() == first.name();
        if is_same {
            unite(first, endpoint, problems);
        }
        is_same
    });
    // A pod may be ready in another slice.
    not_ready.retain(|pod| {
        let same = endpoints.binary_search_by(|one| one.name().cmp(&pod.name()));
        same.map_or(true, |index| endpoints[index].addresses != pod.addresses)
    });
    not_ready.sort_by(|one, other| one.name().cmp(&other.name()));
    (endpoints, not_ready)
}

/// Unites two endpoints of one name. Nobody maintains the addresses of an unlinked cluster (rule L3): another endpoint replaces
/// its own.
fn unite(first: &mut Endpoint, other: &mut Endpoint, problems: &mut Vec<Problem>) {
    let is_unlinked = |one: &Endpoint| one.liveness == EndpointLiveness::Unlinked;
    match (is_unlinked(first), is_unlinked(other)) {
        (true, false) => std::mem::swap(first, other),
        (false, true) => {}
        (true, true) | (false, false) => {
            let is_conflict = other.addresses != first.addresses;
            problems.extend(is_conflict.then(|| first.conflict(other)));
            first.merge(other);
        }
    }
}

/// Removes ports, if there are too many distinct ones: a reply must not cost more than its size. The first in order stay.
pub(super) fn limit_ports(endpoints: &mut [Endpoint], problems: &mut Vec<Problem>) {
    let lists: HashSet<&Ports> = endpoints.iter().map(|endpoint| &endpoint.ports).collect();
    let ports: BTreeSet<&Port> = lists.into_iter().flat_map(|ports| ports.iter()).collect();
    let Some(last) = ports
        .iter()
        .nth(MAX_PORTS - 1)
        .filter(|_| ports.len() > MAX_PORTS)
    else {
        return;
    };
    let (last, count) = ((*last).clone(), ports.len());
    for endpoint in endpoints {
        if endpoint.ports.last().is_some_and(|port| *port > last) {
            let few = endpoint.ports.iter().take_while(|port| **port <= last);
            endpoint.ports = Ports::interned(few.cloned());
        }
    }
    let detail = format!(
        "{count} ports; the first {MAX_PORTS} count, up to number {}",
        last.number
    );
    problems.push(Problem::new(ProblemKind::TooManyPorts, detail));
}

/// Marks addresses that an earlier endpoint also has. Endpoints that fewer rules omit come first.
pub(super) fn mark_duplicates(endpoints: &mut [Endpoint]) {
    let count = endpoints.len();
    let mut in_service = HashSet::with_capacity(count);
    let mut in_cluster = HashSet::with_capacity(count);
    let mut in_order: Vec<&mut Endpoint> = endpoints.iter_mut().collect();
    in_order.sort_by_key(|endpoint| endpoint.liveness);
    for endpoint in in_order {
        let cluster = &endpoint.cluster;
        for address in endpoint.addresses.iter_mut() {
            address.repeats_in_service = endpoint.is_selected && !in_service.insert(address.ip);
            address.repeats_in_cluster = !in_cluster.insert((cluster, address.ip));
        }
    }
}
