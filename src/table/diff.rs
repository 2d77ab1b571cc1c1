//! The one comparer of two versions of a service. The log, the events, the open streams and the history follow from it.
//!
//! A change says what was seen in the objects of this cluster, not what may have happened in another one.

use std::collections::{BTreeMap, BTreeSet};

use super::change::{Change, ChangeKind, MAX_ENDPOINTS};
use super::content::{NoOwner, Table};
use super::endpoint::{Endpoint, EndpointLiveness, MissingHost, Role};
use super::failover::{Gate, StepHealth};
use super::links::LinkState;
use super::service::Service;
use super::store::ServiceKeys;
use crate::model::{
    ClusterName, Hostname, MAX_LISTED, ProblemKind, ServiceKey, join_texts, list_some,
};

/// Compares two versions of a service. There is a change for each cluster and kind, and for each setting. If the answers differ,
/// there is a change.
pub fn diff(old: Option<&Service>, new: Option<&Service>) -> Vec<Change> {
    let Some(key) = new.or(old).map(|service| &service.key) else {
        return Vec::new();
    };
    let none = Service::default();
    let exists_in_both = old.is_some() && new.is_some();
    let old = old.unwrap_or(&none);
    let new = new.unwrap_or(&none);
    let mut changes = setting_changes(old, new, exists_in_both);
    // These say why other endpoints are selected.
    let is_moved = changes
        .iter()
        .any(|one| matches!(one.kind, ChangeKind::Order | ChangeKind::Step));
    let mut clusters = BTreeSet::new();
    for service in [old, new] {
        clusters.extend(service.endpoints.iter().map(|one| one.cluster.as_ref()));
        clusters.extend(service.federated.iter().map(Some));
    }
    for cluster in clusters {
        changes.extend(cluster_changes(old, new, cluster, is_moved));
    }
    // What a source of an alias also has changes zones of one cluster alone.
    if changes.is_empty() && (old.alone.is_some() || new.alone.is_some()) {
        return diff(old.alone.as_deref(), new.alone.as_deref());
    }
    changes
        .into_iter()
        .map(|change| change.of_service(key))
        .collect()
}

/// Compares the short names of two tables that differ in these services. A service that begins or ends to have names has other changes
/// that tell it.
pub fn diff_short_names(last: &Table, next: &Table, changed: &ServiceKeys) -> Vec<Change> {
    let mut owners = BTreeSet::new();
    for name in changed.iter().flat_map(ServiceKey::short_names) {
        for table in [last, next] {
            owners.extend(table.short_service(name.as_str()).map(|owner| &owner.key));
        }
    }
    let mut changes = Vec::new();
    for key in owners {
        let before = short_name_text(last, key);
        let after = short_name_text(next, key);
        let has_names = |table: &Table| table.find(key).is_some_and(|one| one.has_names_at(&[]));
        if before == after || !has_names(last) || !has_names(next) {
            continue;
        }
        let owner = next.short_name(key.service.as_str());
        let cause = match owner.map(|short| &short.owner) {
            None => continue,
            Some(Ok(owner)) if *owner == key.namespace => None,
            Some(Ok(owner)) => Some(format!("{owner}/{} owns it", key.service)),
            Some(Err(NoOwner::Ambiguous)) => Some("several namespaces have it".to_owned()),
            Some(Err(_)) => Some("no setting assigns it".to_owned()),
        };
        let change = Change::between(ChangeKind::ShortName, before, after, cause);
        changes.push(change.of_service(key));
    }
    changes
}

/// Describes the short name of a service, if it owns it.
fn short_name_text(table: &Table, key: &ServiceKey) -> Option<String> {
    let name = key.service.as_str();
    let (owner, hidden) = table.short_answers(name)?;
    let hidden = list_some(hidden, MAX_LISTED);
    let without = if hidden.is_empty() { "" } else { " without " };
    (owner == key).then(|| format!("{name}{without}{hidden}"))
}

/// Maximum number of changes of clusters that mirrors alone name. Everybody who can create a Service can invent clusters.
const MAX_INVENTED: usize = 20;

/// Compares the problems of the links of clusters, whose states changed. The names are those before aliases. In the first table, all
/// problems are changes. Later, only changes of services tell of a cluster that never had a Link.
pub fn diff_links(
    last: Option<&Table>,
    next: &Table,
    changed: &BTreeSet<ClusterName>,
) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut invented = 0;
    for link in changed {
        let Some(new) = next.links.clusters.get(link) else {
            continue;
        };
        let old = last.and_then(|last| last.links.clusters.get(link)?.problem.as_ref());
        let kind = match &new.problem {
            Some(problem) if old == Some(problem) => continue,
            Some(problem) if problem.kind == ProblemKind::Frozen => ChangeKind::Frozen,
            Some(_) => ChangeKind::Unlinked,
            None if old.is_some() && new.state == LinkState::Linked => ChangeKind::Linked,
            None => continue,
        };
        if new.is_invented() {
            invented += 1;
            if last.is_some() || invented > MAX_INVENTED {
                continue;
            }
        }
        let cause = new.problem.as_ref().map(|one| one.detail.to_string());
        let change = Change {
            cluster: Some(new.cluster.clone()),
            count: 0,
            ..Change::between(kind, None, None, cause)
        };
        changes.push(change.described());
    }
    if last.is_none() && invented > MAX_INVENTED {
        let more = invented - MAX_INVENTED;
        let text = format!("{more} more clusters have no Link: mirrors alone name them.");
        changes.push(Change::new(ChangeKind::Unlinked, text));
    }
    changes
}

// === Settings ===

/// Describes a setting or a state of a service, if it has it.
fn describe(kind: ChangeKind, service: &Service) -> Option<String> {
    match kind {
        ChangeKind::Order => Some(service.failover.as_ref()?.order.to_string()),
        ChangeKind::Gate => Some(gate_text(service.gate.as_ref()?)),
        ChangeKind::Failing => Some(service.failure?.to_string()),
        ChangeKind::Ttl => Some(service.ttl.to_string()),
        ChangeKind::GatewayDown => Some(<&str>::from(service.gateway_down).to_owned()),
        ChangeKind::Step => Some(service.failover.as_ref()?.answering_text()),
        _ => None,
    }
}

/// Returns the changes of a service's settings, of the step that answers, and of its failure. A service that is new or gone had no
/// other setting.
fn setting_changes(old: &Service, new: &Service, exists_in_both: bool) -> Vec<Change> {
    use ChangeKind::{Failing, Gate, GatewayDown, Order, Step, Ttl};
    let is_usable = |one: &Endpoint| one.is_selected() && one.is_alive();
    let mut changes = Vec::new();
    for kind in [Order, Gate, Failing, Ttl, GatewayDown, Step] {
        let before = describe(kind, old);
        let after = describe(kind, new);
        let is_new = match kind {
            Ttl | GatewayDown => !exists_in_both,
            // An order that begins or ends says which step answers.
            Step => before.is_none() || after.is_none(),
            _ => false,
        };
        if before != after && !is_new {
            let cause = match kind {
                Step => step_cause(old, new),
                Failing if after.is_none() && !new.endpoints.iter().any(is_usable) => {
                    Some("no endpoint is alive".to_owned())
                }
                _ => None,
            };
            changes.push(Change::between(kind, before, after, cause));
        }
    }
    let before = missing_alone(old, new);
    let after = missing_alone(new, old);
    if before != after {
        let cause = after
            .clone()
            .unwrap_or_else(|| "their cluster does not list them any more".to_owned());
        changes.push(Change::between(Failing, before, after, Some(cause)));
    }
    changes
}

/// Returns the hosts without endpoint mirror, whose names fail, if they differ from those of the other version. If a host has an
/// endpoint in the other version, the change of that endpoint names it.
fn missing_alone(service: &Service, other: &Service) -> Option<String> {
    let alone = service
        .missing
        .iter()
        .map(MissingHost::labels)
        .filter(|host| other.endpoints_at(host).is_empty() && other.missing_at(host).is_none());
    let hosts = list_some(alone.map(|host| host.join(".")), MAX_LISTED);
    (!hosts.is_empty()).then(|| format!("no endpoint mirror of {hosts}"))
}

fn gate_text(gate: &Gate) -> String {
    let clusters = gate.expected.clusters();
    match gate.expected.until {
        Some(until) => format!("{clusters} until {}", until.to_text()),
        None => clusters,
    }
}

/// Returns what was seen when another step began to answer.
fn step_cause(old: &Service, new: &Service) -> Option<String> {
    let last = old.failover.as_ref()?;
    let next = new.failover.as_ref()?;
    if last.order != next.order {
        return Some("the order has changed".to_owned());
    }
    let step = last.answering_text();
    Some(match next.steps.get(last.answering)?.health {
        StepHealth::Down => format!("no endpoint of {step} is alive"),
        StepHealth::Empty => format!("{step} has no endpoint"),
        StepHealth::Alive => "an earlier step has an endpoint that is alive".to_owned(),
    })
}

// === Clusters ===

/// An endpoint in both versions.
struct Pair<'s> {
    old: Option<&'s Endpoint>,
    new: Option<&'s Endpoint>,
}

/// The endpoints of a change, in both versions.
#[derive(Default)]
struct ChangedEndpoints<'s> {
    old: Vec<&'s Endpoint>,
    new: Vec<&'s Endpoint>,
}

/// Returns the changes of a cluster of a service, or of the endpoints that belong to no single one. `is_moved` says whether another
/// order or step explains why other endpoints are selected.
fn cluster_changes(
    old: &Service,
    new: &Service,
    cluster: Option<&ClusterName>,
    is_moved: bool,
) -> Vec<Change> {
    use ChangeKind::{Address, Down, Grew, Joined, Kind, Left, Shrank};
    let scope = [cluster.map_or("", ClusterName::as_str)];
    let before = old.endpoints_at(&scope);
    let after = new.endpoints_at(&scope);
    let is_named = |one: &Service| cluster.is_some_and(|cluster| one.federated.contains(cluster));
    let pairs = pairs(before, after);
    let whole = if before.is_empty() && !is_named(old) {
        Some(Joined)
    } else if after.is_empty() && !is_named(new) {
        Some(Left)
    } else if !before.is_empty() && !after.is_empty() && kinds(before) != kinds(after)
        || !is_moved && pairs.iter().any(is_turned)
    {
        Some(Kind)
    } else {
        None
    };
    let mut changes = Vec::new();
    for (kind, ChangedEndpoints { old: was, new: is }) in changed_endpoints(pairs, whole) {
        let (old_text, new_text) = match kind {
            Kind => (Some(kinds(before)), Some(kinds(after))),
            Address if addresses(&was) == addresses(&is) => (Some(ports(&was)), Some(ports(&is))),
            Joined | Left | Grew | Shrank | Address => (addresses(&was), addresses(&is)),
            _ => (None, None),
        };
        let cause = match kind {
            Left | Shrank => gone(&was, cluster, new),
            Down if is[0].liveness == EndpointLiveness::NotReady => {
                Some("it has no ready endpoint".to_owned())
            }
            Down => Some("no address of its gateway is ready".to_owned()),
            _ => None,
        };
        let listed = if is.is_empty() { was } else { is };
        let hosts = listed.iter().filter_map(|one| one.hostname.as_ref());
        changes.push(Change {
            cluster: cluster.cloned(),
            endpoints: hosts
                .take(MAX_ENDPOINTS)
                .map(|host| host.as_str().into())
                .collect(),
            count: listed.len().max(1),
            ..Change::between(kind, old_text, new_text, cause)
        });
    }
    changes
}

/// Returns what happened to endpoints, by kind. `whole` is what happened to the cluster as a whole, if something did.
fn changed_endpoints(
    pairs: Vec<Pair<'_>>,
    whole: Option<ChangeKind>,
) -> BTreeMap<ChangeKind, ChangedEndpoints<'_>> {
    let mut changed: BTreeMap<_, ChangedEndpoints<'_>> = BTreeMap::new();
    // A cluster of a federated service joins and leaves without an endpoint of its own.
    if let Some(whole) = whole {
        changed.entry(whole).or_default();
    }
    for Pair { old, new } in pairs {
        let kinds = match (old, new) {
            (Some(old), Some(new)) => {
                let is_moved = !old.has_same_data(new);
                [is_moved.then_some(ChangeKind::Address), turn(old, new)]
            }
            (Some(_), None) if whole == Some(ChangeKind::Kind) => continue,
            (Some(_), None) => [whole.or(Some(ChangeKind::Shrank)), None],
            (None, _) => [whole.or(Some(ChangeKind::Grew)), None],
        };
        for kind in kinds.into_iter().flatten() {
            let endpoints = changed.entry(kind).or_default();
            endpoints.old.extend(old);
            endpoints.new.extend(new);
        }
    }
    changed
}

/// Returns the change of an endpoint's liveness, if answers may differ.
fn turn(old: &Endpoint, new: &Endpoint) -> Option<ChangeKind> {
    use EndpointLiveness::{Alive, Unlinked};
    match (old.liveness, new.liveness) {
        (Unlinked, Unlinked) | (Alive, Alive) => None,
        (_, Unlinked) => Some(ChangeKind::Unlinked),
        (Unlinked, _) => Some(ChangeKind::Linked),
        (Alive, _) => Some(ChangeKind::Down),
        (_, Alive) => Some(ChangeKind::Up),
        _ => None,
    }
}

/// Returns the addresses of endpoints. `None` if there are none.
fn addresses(endpoints: &[&Endpoint]) -> Option<String> {
    let addresses = endpoints.iter().flat_map(|one| one.addresses.iter());
    let text = list_some(addresses.map(|address| address.ip), MAX_LISTED);
    (!text.is_empty()).then_some(text)
}

/// Returns the ports of endpoints.
fn ports(endpoints: &[&Endpoint]) -> String {
    let texts: BTreeSet<String> = endpoints
        .iter()
        .map(|one| list_some(one.ports.iter(), MAX_LISTED))
        .collect();
    let text = list_some(texts, MAX_LISTED);
    if text.is_empty() {
        "no port".to_owned()
    } else {
        format!("port {text}")
    }
}

/// Returns the kinds of endpoints, and which of them the name of the service does not have.
fn kinds(endpoints: &[Endpoint]) -> String {
    let mut kinds = BTreeSet::new();
    for endpoint in endpoints {
        kinds.insert((endpoint.kind, endpoint.role == Role::ClusterOnly));
    }
    let texts = kinds.into_iter().map(|(kind, is_left_out)| {
        let note = if is_left_out {
            " (only as its own name)"
        } else {
            ""
        };
        format!("{kind}{note}")
    });
    join_texts(texts, ", ")
}

/// Returns what was seen of endpoints that are gone. `new` is the version of the service that lacks them.
fn gone(endpoints: &[&Endpoint], cluster: Option<&ClusterName>, new: &Service) -> Option<String> {
    let first = endpoints.first()?;
    let cluster = cluster?;
    // They are sorted by hostname, and there may be thousands.
    let is_gone = |host: &&Hostname| {
        endpoints
            .binary_search_by(|one| one.hostname.as_ref().cmp(&Some(*host)))
            .is_ok()
    };
    if first.is_local() {
        let pods = new.not_ready.iter().filter_map(|pod| pod.hostname.as_ref());
        let not_ready = list_some(pods.filter(is_gone), MAX_LISTED);
        return Some(match first.hostname {
            _ if !not_ready.is_empty() => format!("{not_ready} is not ready"),
            Some(_) => "no ready pod here has its name".to_owned(),
            None => "the Service of this cluster is no member any more".to_owned(),
        });
    }
    let listed = new
        .missing
        .iter()
        .filter(|one| one.cluster == *cluster)
        .map(|one| &one.hostname)
        .filter(is_gone);
    let listed = list_some(listed, MAX_LISTED);
    let has_mirror = new.mirrors.iter().any(|(one, _)| one == cluster);
    Some(if !listed.is_empty() {
        format!("its endpoint mirrors are missing, the slice still lists {listed}")
    } else if first.hostname.is_some() && has_mirror {
        "its endpoint mirror is gone here".to_owned()
    } else {
        "its mirror is gone here".to_owned()
    })
}

/// Pairs the endpoints of both versions that have the same cluster and hostname. Both lists are sorted by them.
fn pairs<'s>(old: &'s [Endpoint], new: &'s [Endpoint]) -> Vec<Pair<'s>> {
    let mut old = old.iter().peekable();
    let mut new = new.iter().peekable();
    let mut pairs = Vec::new();
    loop {
        let firsts = [old.peek(), new.peek()].into_iter().flatten();
        let Some(name) = firsts.map(|one| one.name()).min() else {
            return pairs;
        };
        let is_next = |one: &&Endpoint| one.name() == name;
        pairs.push(Pair {
            old: old.next_if(is_next),
            new: new.next_if(is_next),
        });
    }
}

/// Returns whether both versions have an endpoint, and the name of the service has it in one of them.
fn is_turned(Pair { old, new }: &Pair<'_>) -> bool {
    let both = old.zip(*new);
    both.is_some_and(|(old, new)| old.is_selected() != new.is_selected())
}

#[cfg(test)]
mod tests;
