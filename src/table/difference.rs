//! The differences between two tables, for the log and for the events. It is a pure function, and the only place where
//! changes of answers are found.
//!
//! The cost depends on the services that changed. Only if one of them gained or lost a cluster are others searched for
//! that cluster.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::change::{Change, ChangeCause, ChangeKind, aggregate};
use super::failover::{Failover, OrderOrigin, Transition};
use super::links::{ClusterLink, LinkState, LinkStates};
use super::services::Services;
use super::store::ServiceKeys;
use super::{Endpoint, EndpointLiveness, Service, ServiceKind, Table};
use crate::model::{
    ClusterName, Family, Line, ObjectKey, ObjectRef, Problem, ProblemKind, ServiceKey, list_some,
};

/// Maximum number of changes of one table. More are merged: neither the log nor the events repeat a large list.
const MAX_CHANGES: usize = 20;

/// The differences between a table and the one before it.
#[derive(Debug, Default)]
pub struct Difference<'t> {
    /// Problems of names and of services that are new. Those of the readers, and those that a change tells, are not included.
    pub problems: Vec<Cow<'t, Problem>>,
    /// The changes of services and endpoints, merged if there are many, without those of gateways. Those of the
    /// first table are the links that need attention.
    pub changes: Vec<Change>,
    /// The changes of endpoints with a gateway that went down, or is ready again. They are not merged: those of one gateway
    /// also arrive with the next tables.
    pub gateways: Vec<Change>,
}

/// Maximum number of hostnames in one sentence.
const MAX_LISTED: usize = 5;

/// The clusters that left a service, with the causes (rule L5).
type LeftClusters<'s> = BTreeMap<&'s ClusterName, ChangeCause>;

/// The clusters that changed services gained, with these services.
type GainedClusters<'t> = BTreeMap<&'t ClusterName, Vec<&'t ServiceKey>>;

impl<'t> Difference<'t> {
    /// Compares two tables that differ in the [services that were built](super::Built::services). Without a `last` table,
    /// everything in `next` is new, so only links that need attention are changes. `own` is the name of this cluster, which
    /// does not join.
    pub fn between(
        last: Option<&'t Table>,
        next: &'t Table,
        services: &'t ServiceKeys,
        own: &ClusterName,
    ) -> Self {
        let mut difference = Self::default();
        difference.note_names(last, next);
        difference.note_links(last, next);
        let Some(last) = last else {
            for key in services {
                difference.note_problems(None, find(next.all(), key), 0);
            }
            return difference;
        };
        let mut gained = GainedClusters::new();
        for key in services {
            let [old, new] = [last, next].map(|table| find(table.all(), key));
            let known_changes = difference.changes.len();
            // Both tables share a service that did not change.
            let is_changed = old.map(std::ptr::from_ref) != new.map(std::ptr::from_ref);
            if is_changed {
                note_gained(&mut gained, key, old, new);
                let left = old.map(|old| left_clusters(old, new, own));
                let left = left.unwrap_or_default();
                old.iter().for_each(|old| difference.note_left(old, &left));
                difference.note_changes(key, old, new, &left);
                let failover = old
                    .zip(new)
                    .and_then(|(old, new)| failover_change(old, new));
                difference.changes.extend(failover);
                difference.note_problems(old, new, known_changes);
            }
        }
        difference.changes.splice(..0, joined(gained, last, own));
        let all = std::mem::take(&mut difference.changes);
        let (gateways, others) = all.into_iter().partition(Change::is_of_gateway);
        difference.gateways = gateways;
        difference.changes = aggregate(others, MAX_CHANGES);
        difference
    }

    /// Notes the problems of names that are new.
    fn note_names(&mut self, last: Option<&Table>, next: &'t Table) {
        if last.is_some_and(|last| last.has_same_name_problems(next)) {
            return;
        }
        let known: BTreeSet<&Problem> = last.into_iter().flat_map(Table::name_problems).collect();
        let new = next
            .name_problems()
            .filter(|problem| !known.contains(problem));
        self.problems.extend(new.map(Cow::Borrowed));
    }

    /// Notes the links whose state changed, and the problems of links that are new.
    fn note_links(&mut self, last: Option<&Table>, next: &'t Table) {
        if last.is_some_and(|last| last.links() == next.links()) {
            return;
        }
        let no_state = LinkStates::default();
        let old = last.map_or(&no_state, Table::links);
        let changes = next
            .links()
            .clusters
            .iter()
            .filter_map(|(link, new)| link_change(old.clusters.get(link), new));
        self.changes.extend(changes);
        let known = old.problems();
        let known: BTreeSet<_> = known.iter().map(Problem::fact).collect();
        // The changes above tell those of clusters.
        let new = next
            .links()
            .problems()
            .into_iter()
            .filter(|one| one.cluster.is_none() && !known.contains(&one.fact()));
        self.problems.extend(new.map(Cow::Owned));
    }

    /// Notes the clusters that left a service.
    fn note_left(&mut self, old: &Service, left: &LeftClusters<'_>) {
        let key = &old.key;
        self.changes.extend(left.iter().map(|(cluster, cause)| {
            let why = match cause {
                ChangeCause::Unlinked => "no Link names the cluster any more",
                ChangeCause::ScaledToZero => "it has no pod, or none of them is ready",
                ChangeCause::PodNotReady => "none of its pods is ready",
                _ => "it does not export the service any more",
            };
            let hosts = old.in_cluster(cluster.as_str()).iter();
            let hosts = list_some(hosts.filter_map(|one| one.hostname.as_ref()), MAX_LISTED);
            let last = if hosts.is_empty() {
                String::new()
            } else {
                format!("; its last endpoints: {hosts}")
            };
            let mirrors = old.mirrors.iter().filter(|(other, _)| other == *cluster);
            Change {
                cluster: Some((*cluster).clone()),
                before: (!hosts.is_empty()).then(|| hosts.into()),
                cause: Some(*cause),
                object: only(mirrors.map(|(_, mirror)| mirror.clone())),
                ..Change::of_service(
                    ChangeKind::ClusterLeft,
                    key,
                    format!("Cluster {cluster} left {key}: {why}{last}."),
                )
            }
        }));
    }

    /// Notes the problems that are in the new service, but not in the old one. The changes of the service begin at
    /// `first_change`.
    fn note_problems(
        &mut self,
        old: Option<&Service>,
        new: Option<&'t Service>,
        first_change: usize,
    ) {
        let Some(new) = new else {
            return;
        };
        let known = old.map_or(&[][..], |old| &old.problems[..]);
        let changes = &self.changes[first_change..];
        // One whose detail alone changed, such as the number of its hosts, is not new.
        let is_state = |problem: &Problem| {
            use ProblemKind::{IgnoredAnnotation, SettingWithoutEffect};
            problem.kind.row().family == Family::State
                && !matches!(problem.kind, IgnoredAnnotation | SettingWithoutEffect)
        };
        let is_known = |problem: &Problem| {
            let same_fact = |one: &Problem| is_state(one) && one.fact() == problem.fact();
            known.binary_search(problem).is_ok() || known.iter().any(same_fact)
        };
        let is_new = |problem: &&Problem| {
            !is_known(problem) && !changes.iter().any(|change| tells(change, problem))
        };
        let problems = new.problems.iter().filter(is_new);
        self.problems.extend(problems.map(Cow::Borrowed));
    }

    fn note_changes(
        &mut self,
        key: &ServiceKey,
        old: Option<&Service>,
        new: Option<&Service>,
        left: &LeftClusters<'_>,
    ) {
        let is_listed = |service: &&Service| service.is_listed();
        match (old.filter(is_listed), new.filter(is_listed)) {
            (None, None) => {}
            (None, Some(new)) => {
                let endpoints = endpoints(new);
                let text = format!("Service {key} was added with {endpoints}.");
                self.changes.push(Change {
                    after: Some(endpoints.into()),
                    object: only_mirror(new),
                    ..Change::of_service(ChangeKind::ServiceAdded, key, text)
                });
            }
            (Some(old), None) => {
                let text = format!("Service {key} was removed.");
                self.changes.push(Change {
                    before: Some(endpoints(old).into()),
                    object: only_mirror(old),
                    ..Change::of_service(ChangeKind::ServiceRemoved, key, text)
                });
            }
            (Some(old), Some(new)) => {
                self.note_endpoints(old, new, left);
            }
        }
    }

    fn note_endpoints(&mut self, old: &Service, new: &Service, left: &LeftClusters<'_>) {
        let mut others = Vec::new();
        for pair in pairs(&old.endpoints, &new.endpoints) {
            match pair {
                (Some(gone), None) => self.changes.push(endpoint_removed(new, gone, left)),
                (None, Some(added)) => others.push(endpoint_added(new, added)),
                (Some(before), Some(after)) => {
                    others.extend(endpoint_changes(new, before, after).into_iter().flatten());
                }
                (None, None) => {}
            }
        }
        self.changes.append(&mut others);
    }
}

/// Returns the change of the step that answers, if both versions of a service have a failover order.
fn failover_change(old: &Service, new: &Service) -> Option<Change> {
    let (last, next) = (old.failover.as_ref()?, new.failover.as_ref()?);
    let Transition { from, to, cause } = Failover::transition(last, next)?;
    let service = &new.key;
    let reason = match cause {
        ChangeCause::OrderChanged => "the order has changed",
        ChangeCause::StepDown => "no endpoint of the last step is alive",
        ChangeCause::StepEmpty => "the last step has no endpoint",
        _ => "an earlier step has an endpoint that is alive",
    };
    // The annotation is on the Service of this cluster.
    let is_own = cause == ChangeCause::OrderChanged && next.origin == OrderOrigin::Annotation;
    let own = is_own.then(|| ObjectRef::service(&ObjectKey::of_service(service)));
    let text = format!(
        "Step {to} of the failover order answers for {service} instead of {from}: {reason}."
    );
    Some(Change {
        before: Some(from.into()),
        after: Some(to.into()),
        cause: Some(cause),
        object: only(own),
        ..Change::of_service(ChangeKind::Failover, service, text)
    })
}

/// Returns the change of a link, if its state got worse, or better again.
fn link_change(old: Option<&ClusterLink>, new: &ClusterLink) -> Option<Change> {
    let (before, after) = (old.map(|old| old.state.name()), new.state.name());
    let was_good = old.is_none_or(|old| old.problem().is_none());
    let problem = new.problem();
    if before == Some(after) || was_good && problem.is_none() {
        return None;
    }
    let cluster = &new.cluster;
    let text = match (problem, &new.state) {
        (Some(problem), _) => format!("{problem}."),
        (None, LinkState::Unknown(_)) => {
            format!("It is unknown whether cluster {cluster} has a Link.")
        }
        (None, _) => format!("Cluster {cluster} is linked again."),
    };
    let (cause, object) = match &new.state {
        LinkState::Unknown(_) => (None, None),
        LinkState::Linked { .. } => (Some(ChangeCause::Linked), None),
        LinkState::Frozen { lease, .. } => {
            (Some(ChangeCause::Frozen), Some(format!("Lease/{lease}")))
        }
        LinkState::Missing { .. } | LinkState::Unlinked { .. } => {
            (Some(ChangeCause::Unlinked), None)
        }
    };
    Some(Change {
        cluster: Some(cluster.clone()),
        before: before.map(Line::from),
        after: Some(after.into()),
        cause,
        object: object.map(Line::from),
        ..Change::new(ChangeKind::LinkChanged, text)
    })
}

/// Returns the object of a service, if it has one and no other.
fn only_mirror(service: &Service) -> Option<Line> {
    let mirrors = service.mirrors.iter().map(|(_, mirror)| mirror.clone());
    let addresses = service
        .endpoints
        .iter()
        .filter(|one| one.hostname.is_none());
    only(mirrors.chain(addresses.flat_map(|one| one.objects.iter().cloned())))
}

/// Returns the object, if there is one and no other.
fn only(objects: impl IntoIterator<Item = ObjectRef>) -> Option<Line> {
    let mut objects = objects.into_iter();
    let first = objects.next()?;
    let has_other = objects.any(|other| other != first);
    (!has_other).then(|| first.to_string().into())
}

/// Returns whether a change of a service tells a problem of its state.
fn tells(change: &Change, problem: &Problem) -> bool {
    match problem.kind {
        ProblemKind::GatewayDown | ProblemKind::ServiceNotReady => {
            change.kind == ChangeKind::GatewayDown && change.cluster == problem.cluster
        }
        ProblemKind::PodNotReady => change.kind == ChangeKind::EndpointRemoved,
        ProblemKind::StandbyAnswers => change.kind == ChangeKind::Failover,
        _ => false,
    }
}

fn find<'t>(services: &'t Services, key: &ServiceKey) -> Option<&'t Service> {
    services.service(key.namespace.as_str(), key.service.as_str())
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

// === Clusters ===

/// Returns the clusters with endpoints, except unlinked ones, and those of federated services.
fn linked_clusters(service: &Service) -> BTreeSet<&ClusterName> {
    let linked = service
        .endpoints
        .iter()
        .filter(|endpoint| endpoint.liveness != EndpointLiveness::Unlinked);
    let clusters = linked.filter_map(|endpoint| endpoint.cluster.as_ref());
    clusters.chain(&*service.federated).collect()
}

/// Returns the clusters that left a service. `own` is the name of this cluster.
fn left_clusters<'s>(
    old: &'s Service,
    new: Option<&Service>,
    own: &ClusterName,
) -> LeftClusters<'s> {
    let present = new.map(linked_clusters).unwrap_or_default();
    let left = linked_clusters(old).into_iter();
    let left = left.filter(|cluster| !present.contains(cluster));
    left.map(|cluster| (cluster, leave_cause(cluster, new, own)))
        .collect()
}

/// Returns why a cluster left a service.
fn leave_cause(cluster: &ClusterName, new: Option<&Service>, own: &ClusterName) -> ChangeCause {
    let Some(new) = new else {
        return ChangeCause::Unexported;
    };
    let is_of = |one: &Endpoint| one.cluster.as_ref() == Some(cluster);
    let mut mirrors = new.mirrors.iter();
    let has_member = cluster == own && new.has_member;
    if new.endpoints.iter().any(is_of) {
        ChangeCause::Unlinked
    } else if new.not_ready.iter().any(is_of) {
        ChangeCause::PodNotReady
    } else if has_member || mirrors.any(|(mirror, _)| mirror == cluster) {
        ChangeCause::ScaledToZero
    } else {
        ChangeCause::Unexported
    }
}

fn has_cluster(table: &Table, cluster: &ClusterName) -> bool {
    let mut services = table.services();
    services.any(|service| service.all_clusters().any(|other| other == cluster))
}

/// Notes the clusters that a service gained.
fn note_gained<'t>(
    gained: &mut GainedClusters<'t>,
    key: &'t ServiceKey,
    old: Option<&'t Service>,
    new: Option<&'t Service>,
) {
    let known: BTreeSet<_> = old.into_iter().flat_map(Service::all_clusters).collect();
    let all: BTreeSet<_> = new.into_iter().flat_map(Service::all_clusters).collect();
    for cluster in all.difference(&known) {
        gained.entry(cluster).or_default().push(key);
    }
}

/// Returns the clusters that the last table lacked.
fn joined(gained: GainedClusters<'_>, last: &Table, own: &ClusterName) -> Vec<Change> {
    let is_new = |cluster: &ClusterName| cluster != own && !has_cluster(last, cluster);
    let gained = gained.into_iter().filter(|(cluster, _)| is_new(cluster));
    let change = |(cluster, services): (&ClusterName, Vec<&ServiceKey>)| Change {
        cluster: Some(cluster.clone()),
        ..Change::new(
            ChangeKind::ClusterJoined,
            format!("Cluster {cluster} joined its first {}.", list(&services)),
        )
    };
    gained.map(change).collect()
}

/// Returns the first of some services, and the number of the others.
fn list(services: &[&ServiceKey]) -> String {
    match services {
        [] => "service".to_owned(),
        [one] => format!("service: {one}"),
        several => format!("services: {}", list_some(several, 1)),
    }
}

// === Sentences ===

/// Returns the number of endpoints of a service and their clusters.
fn endpoints(service: &Service) -> String {
    let clusters: Vec<&str> = service.clusters().map(ClusterName::as_str).collect();
    let place = if clusters.is_empty() {
        String::new()
    } else {
        format!(" in {}", clusters.join(", "))
    };
    match service.endpoints.len() {
        0 => "no endpoints".to_owned(),
        1 => format!("1 endpoint{place}"),
        count => format!("{count} endpoints{place}"),
    }
}

fn endpoint_added(service: &Service, endpoint: &Endpoint) -> Change {
    let addresses = addresses(endpoint);
    let text = format!("{} joined {}: {addresses}.", subject(endpoint), service.key);
    Change {
        after: Some(addresses),
        ..of_endpoint(ChangeKind::EndpointAdded, service, endpoint, text)
    }
}

fn endpoint_removed(service: &Service, endpoint: &Endpoint, clusters: &LeftClusters<'_>) -> Change {
    let is_it =
        |other: &Endpoint| other.cluster == endpoint.cluster && other.hostname == endpoint.hostname;
    let is_not_ready = service.not_ready.iter().any(is_it);
    let reason = if is_not_ready {
        " because it is not ready"
    } else {
        ""
    };
    let text = format!("{} left {}{reason}.", subject(endpoint), service.key);
    let cause = if is_not_ready {
        Some(ChangeCause::PodNotReady)
    } else {
        let cluster = endpoint.cluster.as_ref();
        cluster.and_then(|cluster| clusters.get(cluster).copied())
    };
    Change {
        before: Some(addresses(endpoint)),
        cause,
        ..of_endpoint(ChangeKind::EndpointRemoved, service, endpoint, text)
    }
}

/// Returns the changes of an endpoint: of its addresses, and of its gateway.
fn endpoint_changes(service: &Service, old: &Endpoint, new: &Endpoint) -> [Option<Change>; 2] {
    let is_moved = !ips(old).eq(ips(new));
    let moved = is_moved.then(|| {
        let (before, after) = (addresses(old), addresses(new));
        let text = format!(
            "{} in {} changed its address from {before} to {after}.",
            subject(new),
            service.key
        );
        Change {
            before: Some(before),
            after: Some(after),
            ..of_endpoint(ChangeKind::EndpointChanged, service, new, text)
        }
    });
    // The change of its link tells of an unlinked cluster.
    let is_linked = ![old, new]
        .map(|one| one.liveness)
        .contains(&EndpointLiveness::Unlinked);
    let turned = (is_linked && old.is_alive() != new.is_alive()).then(|| {
        let (kind, before, after) = if new.is_alive() {
            (ChangeKind::GatewayUp, "down", "alive")
        } else {
            (ChangeKind::GatewayDown, "alive", "down")
        };
        let cause = match (old.liveness, new.liveness) {
            (_, EndpointLiveness::GatewayDown) => ChangeCause::GatewayDown,
            // Another kind of mirror needs no gateway.
            (EndpointLiveness::GatewayDown, _) if old.kind == new.kind => ChangeCause::GatewayReady,
            (_, EndpointLiveness::Alive) => ChangeCause::ServiceReady,
            _ => ChangeCause::ServiceNotReady,
        };
        Change {
            before: Some(before.into()),
            after: Some(after.into()),
            cause: Some(cause),
            ..of_endpoint(kind, service, new, liveness(service, new))
        }
    });
    [moved, turned]
}

/// Returns the sentence for an endpoint with a gateway that went up or down.
fn liveness(service: &Service, endpoint: &Endpoint) -> String {
    let (key, subject) = (&service.key, subject(endpoint));
    match (endpoint.kind, endpoint.is_alive()) {
        (ServiceKind::Headless, true) => {
            format!("{subject} in {key} is up again: its gateway is ready.")
        }
        (ServiceKind::Headless, false) => {
            format!("{subject} in {key} is down: its gateway is not ready.")
        }
        (ServiceKind::Gateway, false) => format!(
            "{subject} in {key} is down: its gateway is not ready, or it has no ready endpoint."
        ),
        (_, true) => format!("{subject} in {key} is up again."),
        (_, false) => format!("{subject} in {key} is down: it has no ready endpoint."),
    }
}

/// Returns the name of an endpoint as the subject of a sentence.
fn subject(endpoint: &Endpoint) -> String {
    match (&endpoint.hostname, &endpoint.cluster) {
        (Some(hostname), Some(cluster)) => format!("Endpoint {hostname} of cluster {cluster}"),
        (Some(hostname), None) => format!("Endpoint {hostname}"),
        (None, Some(cluster)) => format!("The cluster IP of cluster {cluster}"),
        (None, None) => "The address of all clusters".to_owned(),
    }
}

fn ips(endpoint: &Endpoint) -> impl Iterator<Item = IpAddr> {
    endpoint.addresses.iter().map(|address| address.ip)
}

fn addresses(endpoint: &Endpoint) -> Line {
    let texts: Vec<String> = ips(endpoint).map(|ip| ip.to_string()).collect();
    texts.join(", ").into()
}

fn of_endpoint(kind: ChangeKind, service: &Service, endpoint: &Endpoint, text: String) -> Change {
    Change {
        cluster: endpoint.cluster.clone(),
        hostname: endpoint.hostname.clone(),
        object: only(endpoint.objects.iter().cloned()),
        ..Change::of_service(kind, &service.key, text)
    }
}

#[cfg(test)]
mod tests;
