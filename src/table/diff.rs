//! The one comparer of two versions of a service. The log, the events, the open streams and the history follow from it.
//!
//! A change says what was seen in the objects of this cluster, not what may have happened in another one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::change::{Change, ChangeKind, MAX_ENDPOINTS};
use super::content::{NoOwner, Table};
use super::endpoint::{Endpoint, EndpointLiveness, MissingHost, Role, ServiceKind};
use super::failover::{Gate, StepHealth};
use super::links::LinkState;
use super::service::Service;
use super::store::ServiceKeys;
use crate::model::{ClusterName, Hostname, MAX_LISTED, ProblemKind, ServiceKey, list_some};

/// Two versions of something: the one before, and the one now.
type Versions<T> = [T; 2];

/// Compares two versions of a service. There is a change for each cluster and kind, and for each setting. If the answers differ,
/// there is a change.
pub fn diff(old: Option<&Service>, new: Option<&Service>) -> Vec<Change> {
    let Some(key) = new.or(old).map(|service| &service.key) else {
        return Vec::new();
    };
    let none = Service::default();
    let versions = [old, new].map(|one| one.unwrap_or(&none));
    let mut changes = setting_changes(versions, old.is_some() && new.is_some());
    // These say why other endpoints are selected.
    let explains = |one: &Change| matches!(one.kind, ChangeKind::Order | ChangeKind::Step);
    let is_moved = changes.iter().any(explains);
    let endpoints = versions.iter().flat_map(|one| &one.endpoints);
    let federated = versions.iter().flat_map(|one| &one.federated).map(Some);
    let clusters = endpoints.map(|one| one.cluster.as_ref()).chain(federated);
    for cluster in clusters.collect::<BTreeSet<_>>() {
        changes.extend(cluster_changes(versions, cluster, is_moved));
    }
    // What a source of an alias also has changes zones of one cluster alone.
    let alone = versions.map(|one| one.alone.as_deref());
    if changes.is_empty() && alone.iter().any(Option::is_some) {
        return diff(alone[0], alone[1]);
    }
    changes
        .into_iter()
        .map(|change| change.of_service(key))
        .collect()
}

/// Compares the short names of two tables that differ in these services. A service that begins or ends to have names has other changes
/// that tell it.
pub fn diff_short_names(last: &Table, next: &Table, changed: &ServiceKeys) -> Vec<Change> {
    let tables = [last, next];
    let owners = changed
        .iter()
        .flat_map(ServiceKey::short_names)
        .flat_map(|name| tables.map(|table| table.short_service(name.as_str())));
    let owners: BTreeSet<_> = owners.flatten().map(|owner| &owner.key).collect();
    let change = |key: &ServiceKey| {
        let has_names = |table: &Table| table.find(key).is_some_and(|one| one.has_names_at(&[]));
        let texts = tables.map(|table| short_name_text(table, key));
        if texts[0] == texts[1] || !tables.into_iter().all(has_names) {
            return None;
        }
        let short = next.short_name(key.service.as_str());
        let cause = match &short?.owner {
            Ok(owner) if *owner == key.namespace => None,
            Ok(owner) => Some(format!("{owner}/{} owns it", key.service)),
            Err(NoOwner::Ambiguous) => Some("several namespaces have it".to_owned()),
            Err(_) => Some("no setting assigns it".to_owned()),
        };
        Some(Change::between(ChangeKind::ShortName, texts, cause).of_service(key))
    };
    owners.into_iter().filter_map(change).collect()
}

/// Describes the short name of a service, if it owns it.
fn short_name_text(table: &Table, key: &ServiceKey) -> Option<String> {
    let name = key.service.as_str();
    let (_, hidden) = table
        .short_answers(name)
        .filter(|(owner, _)| *owner == key)?;
    let hidden = list_some(hidden, MAX_LISTED);
    let without = if hidden.is_empty() { "" } else { " without " };
    Some(format!("{name}{without}{hidden}"))
}

/// Compares the problems of the links of clusters. In the first table, all of them are changes.
pub fn diff_links(last: Option<&Table>, next: &Table) -> Vec<Change> {
    let old = |link| last.and_then(|last| last.links.clusters.get(link));
    let mut changes = Vec::new();
    if last.is_some_and(|last| Arc::ptr_eq(&last.links, &next.links)) {
        return changes;
    }
    for (link, new) in &next.links.clusters {
        let old = old(link).and_then(|old| old.problem.as_ref());
        let (kind, cause) = match &new.problem {
            Some(new) if old == Some(new) => continue,
            Some(new) if new.kind == ProblemKind::Frozen => (ChangeKind::Frozen, Some(&new.detail)),
            Some(new) => (ChangeKind::Unlinked, Some(&new.detail)),
            None if old.is_some() && new.state == LinkState::Linked => (ChangeKind::Linked, None),
            None => continue,
        };
        let change = Change {
            cluster: Some(new.cluster.clone()),
            count: 0,
            ..Change::between(kind, [None, None], cause.map(ToString::to_string))
        };
        changes.push(change.described());
    }
    changes
}

// === Settings ===

/// Describes a setting or a state of a service, if it has it.
type Describe = fn(&Service) -> Option<String>;

/// What a person sets for a service, or sees of it.
const SETTINGS: [(ChangeKind, Describe); 6] = [
    (ChangeKind::Order, |one| {
        Some(one.failover.as_ref()?.order.to_string())
    }),
    (ChangeKind::Gate, |one| Some(gate_text(one.gate.as_ref()?))),
    (ChangeKind::Failing, |one| Some(one.failure?.to_string())),
    (ChangeKind::Ttl, |one| Some(one.ttl.to_string())),
    (ChangeKind::GatewayDown, |one| {
        Some(<&str>::from(one.gateway_down).to_owned())
    }),
    (ChangeKind::Step, |one| {
        Some(one.failover.as_ref()?.answering_text())
    }),
];

/// Returns the changes of a service's settings, of the step that answers, and of its failure. `is_old` says whether both versions
/// exist: a service that is new or gone had no other setting.
fn setting_changes(versions: Versions<&Service>, is_old: bool) -> Vec<Change> {
    use ChangeKind::{Failing, GatewayDown, Step, Ttl};
    let mut changes = Vec::new();
    for (kind, describe) in SETTINGS {
        let texts = versions.map(describe);
        let is_new = match kind {
            Ttl | GatewayDown => !is_old,
            // An order that begins or ends says which step answers.
            Step => texts.iter().any(Option::is_none),
            _ => false,
        };
        if texts[0] != texts[1] && !is_new {
            let cause = (kind == Step).then(|| step_cause(versions)).flatten();
            changes.push(Change::between(kind, texts, cause));
        }
    }
    let [old, new] = versions;
    let missing = [missing_alone(old, new), missing_alone(new, old)];
    if missing[0] != missing[1] {
        let cause = missing[1]
            .clone()
            .unwrap_or_else(|| "their cluster does not list them any more".to_owned());
        changes.push(Change::between(Failing, missing, Some(cause)));
    }
    changes
}

/// Returns the hosts without endpoint mirror, whose names fail, if they differ from those of the other version. If a host has an
/// endpoint in the other version, the change of that endpoint names it.
fn missing_alone(service: &Service, other: &Service) -> Option<String> {
    let is_told =
        |host: &[&str; 2]| !other.endpoints_at(host).is_empty() || other.missing_at(host).is_some();
    let alone = service
        .missing
        .iter()
        .map(MissingHost::labels)
        .filter(|host| !is_told(host));
    let hosts = list_some(alone.map(|host| host.join(".")), MAX_LISTED);
    (!hosts.is_empty()).then(|| format!("no endpoint mirror of {hosts}"))
}

fn gate_text(gate: &Gate) -> String {
    let until = gate.expected.until;
    let until = until.map_or(String::new(), |until| format!(" until {}", until.to_text()));
    gate.expected.clusters() + &until
}

/// Returns what was seen when another step began to answer.
fn step_cause(versions: Versions<&Service>) -> Option<String> {
    let [last, next] = versions.map(|one| one.failover.as_ref());
    let (last, next) = (last?, next?);
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

/// The endpoints of a change, in both versions.
type Changed<'s> = Versions<Vec<&'s Endpoint>>;

/// Returns the changes of a cluster of a service, or of the endpoints that belong to no single one. `is_moved` says whether another
/// order or step explains why other endpoints are selected.
fn cluster_changes(
    versions: Versions<&Service>,
    cluster: Option<&ClusterName>,
    is_moved: bool,
) -> Vec<Change> {
    use ChangeKind::{Address, Down, Grew, Joined, Kind, Left, Shrank};
    let endpoints = versions.map(|one| one.endpoints_at(&[cluster.map_or("", |one| one.as_str())]));
    let is_named = |one: &Service| cluster.is_some_and(|cluster| one.federated.contains(cluster));
    let is_member = [0, 1].map(|at| is_named(versions[at]) || !endpoints[at].is_empty());
    let change = |(kind, [old, new]): (ChangeKind, Changed<'_>)| {
        let lists = [addresses(&old), addresses(&new)];
        let (texts, cause) = match kind {
            Joined | Left | Grew | Shrank => (lists, loss(&old, cluster, versions[1])),
            Kind => (endpoints.map(|list| Some(kinds(list))), None),
            Address if lists[0] == lists[1] => ([ports(&old), ports(&new)], None),
            Address => (lists, None),
            Down => {
                let cause = match new[0].liveness {
                    EndpointLiveness::NotReady => "it has no ready endpoint",
                    _ => "no address of its gateway is ready",
                };
                ([None, None], Some(cause.to_owned()))
            }
            _ => ([None, None], None),
        };
        let listed = if new.is_empty() { old } else { new };
        let hosts = listed
            .iter()
            .filter_map(|one| one.hostname.as_ref())
            .map(|host| host.as_str().into());
        Change {
            cluster: cluster.cloned(),
            endpoints: hosts.take(MAX_ENDPOINTS).collect(),
            count: listed.len().max(1),
            ..Change::between(kind, texts, cause)
        }
    };
    changed_endpoints(endpoints, is_member, is_moved)
        .into_iter()
        .map(change)
        .collect()
}

/// Returns what happened to the endpoints of a cluster, by kind.
fn changed_endpoints(
    endpoints: Versions<&[Endpoint]>,
    is_member: Versions<bool>,
    is_moved: bool,
) -> BTreeMap<ChangeKind, Changed<'_>> {
    use ChangeKind::{Address, Grew, Joined, Kind, Left, Shrank};
    let pairs = pairs(endpoints);
    let is_turned = |pair: &Versions<Option<&Endpoint>>| match pair {
        [Some(old), Some(new)] => old.is_selected() != new.is_selected(),
        _ => false,
    };
    let has_other_kind = endpoints.iter().all(|list| !list.is_empty())
        && kinds(endpoints[0]) != kinds(endpoints[1])
        || !is_moved && pairs.iter().any(is_turned);
    let (gain, loss) = match is_member {
        [false, _] => (Some(Joined), None),
        [_, false] => (None, Some(Left)),
        _ if has_other_kind => (Some(Kind), None),
        _ => (Some(Grew), Some(Shrank)),
    };
    // A cluster of a federated service joins and leaves without an endpoint of its own.
    let mut changed: BTreeMap<_, Changed<'_>> = gain
        .xor(loss)
        .into_iter()
        .map(|kind| (kind, Changed::default()))
        .collect();
    for [old, new] in pairs {
        let kinds = match [old, new] {
            [Some(old), Some(new)] => {
                let is_moved = !old.has_same_data(new);
                [is_moved.then_some(Address), turn([old, new])]
            }
            [Some(_), None] => [loss, None],
            [None, _] => [gain, None],
        };
        for kind in kinds.into_iter().flatten() {
            let lists = changed.entry(kind).or_default();
            lists[0].extend(old);
            lists[1].extend(new);
        }
    }
    changed
}

/// Returns the change of an endpoint's liveness, if answers may differ.
fn turn(versions: Versions<&Endpoint>) -> Option<ChangeKind> {
    use EndpointLiveness::{Alive, Unlinked};
    match versions.map(|one| one.liveness) {
        [Unlinked, Unlinked] | [Alive, Alive] => None,
        [_, Unlinked] => Some(ChangeKind::Unlinked),
        [Unlinked, _] => Some(ChangeKind::Linked),
        [Alive, _] => Some(ChangeKind::Down),
        [_, Alive] => Some(ChangeKind::Up),
        _ => None,
    }
}

/// Returns the addresses of endpoints. `None` if there are none.
fn addresses(endpoints: &[&Endpoint]) -> Option<String> {
    let ips = endpoints.iter().flat_map(|one| one.addresses.iter());
    let text = list_some(ips.map(|address| address.ip), MAX_LISTED);
    (!text.is_empty()).then_some(text)
}

/// Returns the ports of endpoints.
fn ports(endpoints: &[&Endpoint]) -> Option<String> {
    let of_endpoint = |one: &&Endpoint| list_some(one.ports.iter(), MAX_LISTED);
    let texts: BTreeSet<String> = endpoints.iter().map(of_endpoint).collect();
    let text = list_some(texts, MAX_LISTED);
    Some(if text.is_empty() {
        "no port".to_owned()
    } else {
        format!("port {text}")
    })
}

/// Returns the kinds of endpoints, and which of them the name of the service does not have.
fn kinds(endpoints: &[Endpoint]) -> String {
    let kind = |one: &Endpoint| (one.kind, one.role == Role::ClusterOnly);
    let kinds: BTreeSet<_> = endpoints.iter().map(kind).collect();
    let text = |(kind, is_left_out): (ServiceKind, bool)| {
        let note = if is_left_out {
            " (only as its own name)"
        } else {
            ""
        };
        format!("{kind}{note}")
    };
    kinds.into_iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Returns what was seen of endpoints that are gone. `new` is the version of the service that lacks them.
fn loss(gone: &[&Endpoint], cluster: Option<&ClusterName>, new: &Service) -> Option<String> {
    let (first, cluster) = (gone.first()?, cluster?);
    // They are sorted by hostname, and there may be thousands.
    let is_gone = |host: &&Hostname| {
        gone.binary_search_by(|one| one.hostname.as_ref().cmp(&Some(*host)))
            .is_ok()
    };
    let listed = new
        .missing
        .iter()
        .filter(|one| one.cluster == *cluster)
        .map(|one| &one.hostname)
        .filter(is_gone);
    let listed = list_some(listed, MAX_LISTED);
    let not_ready = new.not_ready.iter().filter_map(|pod| pod.hostname.as_ref());
    let not_ready = list_some(not_ready.filter(is_gone), MAX_LISTED);
    let has_mirror = new.mirrors.iter().any(|(one, _)| one == cluster);
    let text = match (first.is_local(), &first.hostname) {
        (true, _) if !not_ready.is_empty() => format!("{not_ready} is not ready"),
        (true, Some(_)) => "no ready pod here has its name".to_owned(),
        (true, None) => "the Service of this cluster is no member any more".to_owned(),
        (false, _) if !listed.is_empty() => {
            format!("its endpoint mirrors are missing, the slice still lists {listed}")
        }
        (false, Some(_)) if has_mirror => "its endpoint mirror is gone here".to_owned(),
        (false, _) => "its mirror is gone here".to_owned(),
    };
    Some(text)
}

/// Pairs the endpoints of both versions that have the same cluster and hostname. Both lists are sorted by them.
fn pairs([mut old, mut new]: Versions<&[Endpoint]>) -> Vec<Versions<Option<&Endpoint>>> {
    let mut pairs = Vec::with_capacity(old.len().max(new.len()));
    while let Some(name) = [old, new]
        .iter()
        .filter_map(|list| Some(list.first()?.name()))
        .min()
    {
        pairs.push([&mut old, &mut new].map(|list| match list.split_first() {
            Some((first, rest)) if first.name() == name => {
                *list = rest;
                Some(first)
            }
            _ => None,
        }));
    }
    pairs
}

#[cfg(test)]
mod tests;
