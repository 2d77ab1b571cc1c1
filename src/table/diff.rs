//! The one comparer of two versions of a service. The log, the events, the open streams and the history follow from it.
//!
//! A change says what was seen in the objects of this cluster, not what may have happened in another one.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::change::{Change, ChangeKind};
use super::content::Table;
use super::endpoint::{Endpoint, EndpointLiveness};
use super::failover::{Failover, StepHealth};
use super::gate::Gate;
use super::kind::ServiceKind;
use super::links::{ClusterLink, LinkState, LinkStates};
use super::missing::MissingHost;
use super::service::Service;
use super::store::ServiceKeys;
use crate::model::{ClusterName, GatewayDown, Hostname, Port, ServiceKey, list_some};

/// Maximum number of addresses and hostnames in one text.
const MAX_LISTED: usize = 5;

/// Two versions of something: the one before, and the one now.
type Versions<T> = [T; 2];

/// Compares two versions of a service. There is a change for each cluster and kind, and for each setting. If the answers differ,
/// there is a change.
pub fn diff(old: Option<&Service>, new: Option<&Service>) -> Vec<Change> {
    let versions = [old, new];
    let mut changes = Vec::new();
    add_settings(versions, &mut changes);
    // These say why other endpoints are selected.
    let explains = |one: &Change| matches!(one.kind, ChangeKind::Order | ChangeKind::Step);
    let is_moved = changes.iter().any(explains);
    let services = || versions.into_iter().flatten();
    let of_endpoints =
        services().flat_map(|one| one.endpoints.iter().map(|one| one.cluster.as_ref()));
    let federated = services().flat_map(|one| one.federated.iter().map(Some));
    for cluster in of_endpoints.chain(federated).collect::<BTreeSet<_>>() {
        add_cluster(versions, cluster, is_moved, &mut changes);
    }
    changes
}

/// Returns those of the built services that differ between two tables, which share the others.
pub fn changed_services<'b>(
    last: Option<&'b Table>,
    next: &'b Table,
    built: &'b ServiceKeys,
) -> impl Iterator<Item = &'b ServiceKey> {
    let find = |table: Option<&Table>, key: &ServiceKey| -> Option<*const Service> {
        table?.find(key).map(std::ptr::from_ref)
    };
    let keys = built.iter();
    keys.filter(move |key| find(last, key) != find(Some(next), key))
}

/// Compares the states of links. Of the first table, only those that need attention are changes.
pub fn diff_links(old: &LinkStates, new: &LinkStates) -> Vec<Change> {
    let links = new.clusters.iter();
    let changes = links.filter_map(|(link, new)| link_change(old.clusters.get(link), new));
    changes.collect()
}

fn link_change(old: Option<&ClusterLink>, new: &ClusterLink) -> Option<Change> {
    let was_good = old.is_none_or(|old| old.problem().is_none());
    let problem = new.problem();
    let is_same = old.is_some_and(|old| old.state.name() == new.state.name());
    if is_same || was_good && problem.is_none() {
        return None;
    }
    let kind = match &new.state {
        LinkState::Frozen { .. } => ChangeKind::Frozen,
        LinkState::Missing { .. } | LinkState::Unlinked { .. } => ChangeKind::Unlinked,
        LinkState::Linked | LinkState::Unknown(_) => ChangeKind::Linked,
    };
    let cause = match (problem, &new.state) {
        (Some(problem), _) => Some(problem.detail.to_string()),
        (None, LinkState::Unknown(_)) => Some("its state is not known".to_owned()),
        (None, _) => None,
    };
    Some(Change::of_link(kind, &new.cluster, cause))
}

/// Returns whether the answers of two versions of a service are the same. If not, [`diff`] has a change.
pub(super) fn has_same_answers(old: Option<&Service>, new: Option<&Service>) -> bool {
    let endpoints = |one: Option<&Service>| one.map_or(0, |one| one.endpoints.len());
    let failure = |one: Option<&Service>| one.and_then(|one| one.failure);
    let (Some(before), Some(after)) = (old, new) else {
        return endpoints(old) + endpoints(new) == 0 && failure(old) == failure(new);
    };
    let has_settings = (before.ttl, before.gateway_down) == (after.ttl, after.gateway_down);
    has_settings
        && before.failure == after.failure
        && labels(&before.missing).eq(labels(&after.missing))
        && before.endpoints.len() == after.endpoints.len()
        && pairs(&before.endpoints, &after.endpoints).all(|pair| match pair {
            (Some(before), Some(after)) => {
                before.has_addresses_of(after)
                    && before.is_selected == after.is_selected
                    && State::of(before) == State::of(after)
            }
            _ => false,
        })
}

// === Settings ===

/// Adds the changes of a service's settings, of the step that answers, and of its failure.
fn add_settings(versions: Versions<Option<&Service>>, changes: &mut Vec<Change>) {
    let [old, new] = versions;
    let Some(key) = new.or(old).map(|service| &service.key) else {
        return;
    };
    let mut add = |kind, texts: Versions<Option<String>>, cause: Option<String>| {
        if texts[0] != texts[1] {
            changes.push(Change::of_service(kind, key, texts, cause));
        }
    };
    add(ChangeKind::Order, versions.map(order), None);
    let gate = |one: Option<&Service>| Some(gate_text(one?.gate.as_ref()?));
    add(ChangeKind::Gate, versions.map(gate), None);
    let failure = |one: Option<&Service>| Some(one?.failure?.reason().to_owned());
    add(ChangeKind::Failing, versions.map(failure), None);
    let missing = [(old, new), (new, old)].map(|(one, other)| missing_alone(one?, other));
    add(ChangeKind::Failing, missing, None);
    let (Some(old), Some(new)) = (old, new) else {
        return; // a service that is new or gone had no other setting
    };
    let versions = [old, new];
    let ttl = |one: &Service| Some(one.ttl.to_string());
    add(ChangeKind::Ttl, versions.map(ttl), None);
    let rule = |one: &Service| {
        let name = match one.gateway_down {
            GatewayDown::LastResort => "last-resort",
            GatewayDown::Include => "include",
        };
        Some(name.to_owned())
    };
    add(ChangeKind::GatewayDown, versions.map(rule), None);
    if let (Some(last), Some(next)) = (&old.failover, &new.failover) {
        let steps = [last, next].map(|one| Some(one.answering_text()));
        add(ChangeKind::Step, steps, step_cause(last, next));
    }
}

fn labels(missing: &[MissingHost]) -> impl Iterator<Item = (&str, &str)> {
    missing.iter().map(MissingHost::labels)
}

/// Returns the hosts without endpoint mirror, whose names fail, if they differ from those of the other version. If a host has an
/// endpoint in the other version, the change of that endpoint names it.
fn missing_alone(service: &Service, other: Option<&Service>) -> Option<String> {
    let listed = other.map_or(&[][..], |other| &other.missing);
    let is_told = |host: &&MissingHost| {
        let (cluster, hostname) = host.labels();
        let mut listed = labels(listed);
        let has_endpoint = |other: &Service| !other.endpoints_at(&[hostname, cluster]).is_empty();
        other.is_some_and(has_endpoint) || listed.any(|one| one == (cluster, hostname))
    };
    let alone = service.missing.iter().filter(|host| !is_told(host));
    let hosts = alone.map(|host| format!("{}.{}", host.hostname, host.cluster));
    let hosts = list_some(hosts, MAX_LISTED);
    (!hosts.is_empty()).then(|| format!("no endpoint mirror of {hosts}"))
}

fn gate_text(gate: &Gate) -> String {
    let until = gate.expected.until;
    let until = until.map_or(String::new(), |until| format!(" until {}", until.to_text()));
    gate.expected.clusters() + &until
}

/// Returns the failover order that applies to a service.
fn order(service: Option<&Service>) -> Option<String> {
    let failover = service?.failover.as_ref()?;
    Some(failover.order.to_string())
}

/// Returns what was seen when another step began to answer.
fn step_cause(last: &Failover, next: &Failover) -> Option<String> {
    if last.order != next.order {
        return Some("the order has changed".to_owned());
    }
    let step = last.answering_text();
    let health = next.steps.get(last.answering)?.health;
    Some(match health {
        StepHealth::Down => format!("no endpoint of {step} is alive"),
        StepHealth::Empty => format!("{step} has no endpoint"),
        StepHealth::Alive => "an earlier step has an endpoint that is alive".to_owned(),
    })
}

// === Clusters ===

/// What the liveness of an endpoint means for answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Alive,
    Down,
    Unlinked,
}

/// A cluster of a service, or the endpoints that belong to no single one, in two versions.
struct ClusterVersions<'s> {
    /// Whether it has an endpoint, or a federated service names it.
    is_member: Versions<bool>,
    /// The kinds of its endpoints.
    kinds: Versions<String>,
    gone: Vec<&'s Endpoint>,
    added: Vec<&'s Endpoint>,
    kept: Vec<Versions<&'s Endpoint>>,
}

/// Adds the changes of a cluster. `is_moved` says whether another order or step explains why other endpoints are selected.
fn add_cluster(
    versions: Versions<Option<&Service>>,
    cluster: Option<&ClusterName>,
    is_moved: bool,
    changes: &mut Vec<Change>,
) {
    let [old, new] = versions;
    let Some(key) = new.or(old).map(|service| &service.key) else {
        return;
    };
    let all = ClusterVersions::of(versions, cluster);
    let mut add = |kind, endpoints: &[&Endpoint], texts, cause| {
        let change = Change::of_service(kind, key, texts, cause);
        changes.push(change.of_endpoints(cluster, endpoints));
    };
    let [gone, added] = [&all.gone, &all.added].map(|list| addresses(list));
    let cause = || loss(&all.gone, cluster, new);
    match all.is_member {
        [false, _] => add(ChangeKind::Joined, &all.added, [None, added], None),
        [true, false] => add(ChangeKind::Left, &all.gone, [gone, None], cause()),
        [true, true] if all.has_other_kind(is_moved) => {
            let kinds = all.kinds.clone().map(Some);
            add(ChangeKind::Kind, &all.added, kinds, None);
        }
        [true, true] => {
            if !all.gone.is_empty() {
                add(ChangeKind::Shrank, &all.gone, [gone, None], cause());
            }
            if !all.added.is_empty() {
                add(ChangeKind::Grew, &all.added, [None, added], None);
            }
        }
    }
    let moved = all
        .kept
        .iter()
        .filter(|[old, new]| !old.has_addresses_of(new));
    let versions =
        [0, 1].map(|version| moved.clone().map(|pair| pair[version]).collect::<Vec<_>>());
    if !versions[1].is_empty() {
        let texts = versions.each_ref().map(|list| addresses(list));
        let has_moved = texts[0] != texts[1];
        let texts = if has_moved {
            texts
        } else {
            versions.each_ref().map(|list| ports(list))
        };
        add(ChangeKind::Address, &versions[1], texts, None);
    }
    for kind in [
        ChangeKind::Unlinked,
        ChangeKind::Linked,
        ChangeKind::Down,
        ChangeKind::Up,
    ] {
        let turned: Vec<&Endpoint> = all.turned(kind).collect();
        if let Some(first) = turned.first() {
            let cause = (kind == ChangeKind::Down).then(|| first.liveness.cause().to_owned());
            add(kind, &turned, [None, None], cause);
        }
    }
}

// === impl ClusterVersions ===

impl<'s> ClusterVersions<'s> {
    fn of(versions: Versions<Option<&'s Service>>, cluster: Option<&ClusterName>) -> Self {
        let name = cluster.map_or("", ClusterName::as_str);
        let endpoints = versions.map(|one| one.map_or(&[][..], |one| one.endpoints_at(&[name])));
        let is_named = versions.map(|one| {
            one.zip(cluster)
                .is_some_and(|(one, cluster)| one.federated.contains(cluster))
        });
        let mut all = Self {
            is_member: [0, 1].map(|version| is_named[version] || !endpoints[version].is_empty()),
            kinds: endpoints.map(kinds),
            gone: Vec::new(),
            added: Vec::new(),
            kept: Vec::new(),
        };
        let [old, new] = endpoints;
        for pair in pairs(old, new) {
            match pair {
                (Some(before), Some(after)) => all.kept.push([before, after]),
                (gone, added) => {
                    all.gone.extend(gone);
                    all.added.extend(added);
                }
            }
        }
        all
    }

    /// Returns whether endpoints of another kind answer, or others of one kind.
    fn has_other_kind(&self, is_moved: bool) -> bool {
        let [before, after] = &self.kinds;
        let is_turned = |[old, new]: &Versions<&Endpoint>| old.is_selected != new.is_selected;
        let has_both = !before.is_empty() && !after.is_empty();
        has_both && before != after || !is_moved && self.kept.iter().any(is_turned)
    }

    /// Returns the endpoints that a kind of change of the liveness concerns.
    fn turned(&self, kind: ChangeKind) -> impl Iterator<Item = &'s Endpoint> {
        let turned = self.kept.iter().filter(move |pair| {
            let states = pair.map(State::of);
            states[0] != states[1]
                && kind
                    == match states {
                        [_, State::Unlinked] => ChangeKind::Unlinked,
                        [State::Unlinked, _] => ChangeKind::Linked,
                        [_, State::Down] => ChangeKind::Down,
                        [_, State::Alive] => ChangeKind::Up,
                    }
        });
        turned.map(|[_, after]| *after)
    }
}

// === impl State ===

impl State {
    fn of(endpoint: &Endpoint) -> Self {
        match endpoint.liveness {
            EndpointLiveness::Alive => Self::Alive,
            EndpointLiveness::GatewayDown | EndpointLiveness::NotReady => Self::Down,
            EndpointLiveness::Unlinked => Self::Unlinked,
        }
    }
}

// === impl EndpointLiveness ===

impl EndpointLiveness {
    /// Returns what was seen of an endpoint that is down.
    fn cause(self) -> &'static str {
        match self {
            Self::Alive => "it is alive",
            Self::GatewayDown => "no address of its gateway is ready",
            Self::NotReady => "it has no ready endpoint",
            Self::Unlinked => "no Link names its cluster",
        }
    }
}

// === impl Endpoint ===

impl Endpoint {
    /// Returns whether another version of it has the same addresses and ports.
    fn has_addresses_of(&self, other: &Self) -> bool {
        let ips = self.addresses.iter().map(|address| address.ip);
        let others = other.addresses.iter().map(|address| address.ip);
        self.ports == other.ports && ips.eq(others)
    }

    /// Returns its ports as text.
    fn ports_text(&self) -> String {
        let port = |port: &Port| {
            let name = port.name.as_ref().map_or("", |name| name.as_str());
            let text = format!("{name} {}/{}", port.number, port.protocol.label());
            text.trim_start().to_owned()
        };
        list_some(self.ports.iter().map(port), MAX_LISTED)
    }
}

/// Returns the addresses of endpoints. `None` if there are none.
fn addresses(endpoints: &[&Endpoint]) -> Option<String> {
    let ips = endpoints.iter().flat_map(|one| &one.addresses);
    let text = list_some(ips.map(|address| address.ip), MAX_LISTED);
    (!text.is_empty()).then_some(text)
}

/// Returns the ports of endpoints.
fn ports(endpoints: &[&Endpoint]) -> Option<String> {
    let texts: BTreeSet<String> = endpoints.iter().map(|one| one.ports_text()).collect();
    Some(format!("port {}", list_some(texts, MAX_LISTED)))
}

/// Returns the kinds of endpoints, and which of them the name of the service does not have.
fn kinds(endpoints: &[Endpoint]) -> String {
    let kinds = endpoints
        .iter()
        .map(|one| (one.kind, !one.is_selected && !one.is_standby));
    let kinds = kinds.collect::<BTreeSet<_>>().into_iter();
    let text = |(kind, is_left_out): (ServiceKind, bool)| match is_left_out {
        false => kind.name().to_owned(),
        true => format!("{} (only as its own name)", kind.name()),
    };
    kinds.map(text).collect::<Vec<_>>().join(", ")
}

/// Returns what was seen of endpoints that are gone. `new` is the version of the service that lacks them.
fn loss(
    gone: &[&Endpoint],
    cluster: Option<&ClusterName>,
    new: Option<&Service>,
) -> Option<String> {
    let (first, cluster) = (gone.first()?, cluster?);
    let is_gone = |host: &Hostname| gone.iter().any(|one| one.hostname.as_ref() == Some(host));
    let missing = new.map_or(&[][..], |new| &new.missing);
    let listed = missing.iter().filter(|one| one.cluster == *cluster);
    let listed = listed.map(|one| &one.hostname).filter(|host| is_gone(host));
    let listed = list_some(listed, MAX_LISTED);
    let not_ready = new.map_or(&[][..], |new| &new.not_ready).iter();
    let not_ready = not_ready.filter_map(|pod| pod.hostname.as_ref());
    let not_ready = list_some(not_ready.filter(|pod| is_gone(pod)), MAX_LISTED);
    let has_mirror = new.is_some_and(|new| new.mirrors.iter().any(|(one, _)| one == cluster));
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

/// An endpoint of the old version of a service, and that of the new version with the same cluster and hostname.
type Pair<'s> = (Option<&'s Endpoint>, Option<&'s Endpoint>);

/// Pairs the endpoints of two versions of a service, which are sorted.
fn pairs<'s>(mut old: &'s [Endpoint], mut new: &'s [Endpoint]) -> impl Iterator<Item = Pair<'s>> {
    std::iter::from_fn(move || {
        let order = match (old.first(), new.first()) {
            (Some(old), Some(new)) => old.name().cmp(&new.name()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return None,
        };
        Some(match order {
            Ordering::Less => (old.split_off_first(), None),
            Ordering::Equal => (old.split_off_first(), new.split_off_first()),
            Ordering::Greater => (None, new.split_off_first()),
        })
    })
}

#[cfg(test)]
mod tests;
