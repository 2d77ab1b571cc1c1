//! A [`Candidate`]: what one item offers for some clusters. Those of Services with a cluster IP are made here: of mirrors of whole
//! Services, federated services, and Services of this cluster (kinds `gateway`, `flat`, `federated` and `local`). The endpoints of
//! all candidates are merged, so that each cluster and hostname occurs once.

use std::collections::{BTreeSet, HashSet};

use super::context::BuildContext;
use super::endpoint::{
    Endpoint, EndpointLiveness, MissingHost, Rank, Role, ServiceKind, Source, distinct,
};
use super::rules::Rules;
use super::store::{Cursor, ServiceSlices};
use crate::model::{
    ClusterName, GatewayDown, Item, ItemKind, MAX_LISTED, ObjectRef, Port, Ports, Problem,
    ProblemKind, ServiceKey, Slice, join_texts, list_some,
};

/// What one item offers for the clusters that it stands for (rule K1).
pub(super) struct Candidate<'s> {
    /// The item: a headless mirror with all its endpoint mirrors, a mirror with a cluster IP, a federated service, or a Service
    /// of this cluster.
    pub source: Source<'s>,
    pub rank: Rank,
    /// The clusters, after aliases, at least one. A federated service has several.
    pub clusters: BTreeSet<ClusterName>,
    /// Whether no Link names these clusters any more (rule L3).
    pub is_unlinked: bool,
    /// The endpoints that can be answered.
    pub endpoints: Vec<Endpoint>,
    /// The pods of this cluster that are not ready.
    pub not_ready: Vec<Endpoint>,
    /// The hosts without an endpoint that a headless mirror lists.
    pub missing: Vec<MissingHost>,
    /// The services with the names of all hosts without an endpoint mirror that it lists.
    pub hosts: Vec<ServiceKey>,
    /// Which names it answers.
    pub role: Role,
}

/// Maximum number of distinct ports of a service. The time of an SRV answer grows with it.
const MAX_PORTS: usize = 128;

// === impl Candidate ===

impl Candidate<'_> {
    /// Returns whether it is one address of no one cluster.
    pub(super) fn is_shared(&self) -> bool {
        self.rank == Rank::Federated
    }

    /// Returns whether it is one address of several clusters. A federated service of one cluster is that cluster's.
    pub(super) fn covers_several(&self) -> bool {
        self.clusters.len() > 1
    }

    /// Returns whether its endpoints answer the name of the service.
    pub(super) fn is_answering(&self) -> bool {
        self.role == Role::Answers && !self.endpoints.is_empty()
    }
}

// === impl BuildContext ===

impl<'s> BuildContext<'s> {
    /// Makes a candidate. Endpoints of an unlinked cluster are down (rule L3).
    pub(super) fn candidate(
        self,
        source: Source<'s>,
        rank: Rank,
        clusters: BTreeSet<ClusterName>,
        mut endpoints: Vec<Endpoint>,
    ) -> Candidate<'s> {
        let links = &self.timers.links;
        let is_unlinked = links.is_item_unlinked(source.item, self.rules);
        if is_unlinked {
            for endpoint in &mut endpoints {
                endpoint.liveness = EndpointLiveness::Unlinked;
            }
        }
        Candidate {
            source,
            rank,
            clusters,
            is_unlinked,
            endpoints,
            not_ready: Vec::new(),
            missing: Vec::new(),
            hosts: Vec::new(),
            role: Role::Answers,
        }
    }

    /// Omits endpoints of a candidate whose longest name, `H.C.S.N.Z`, has more than 255 octets (rule M9).
    pub(super) fn omit_long_names(self, candidate: &mut Candidate<'_>) {
        let [service, namespace] = self.key.labels();
        let is_valid = |endpoint: &Endpoint| {
            let [hostname, cluster] = endpoint.labels();
            let labels = [hostname, cluster, service, namespace];
            let labels = labels.into_iter().filter(|label| !label.is_empty());
            let octets = labels.clone().map(|label| label.len() + 1).sum::<usize>();
            let octets = octets + self.rules.longest_zone;
            if octets <= 255 {
                return true;
            }
            let name = join_texts(labels, ".");
            let detail = format!("a name has more than 255 octets: {octets} of {name}.<zone>");
            let problem = Problem::new(ProblemKind::UnusableObject, detail);
            let objects = endpoint.objects.iter().cloned();
            self.report(objects.map(|object| problem.clone().of_object(object)));
            false
        };
        candidate.endpoints.retain(is_valid);
        candidate.not_ready.retain(is_valid);
    }

    /// Makes the candidate of a Service with a cluster IP: its address. A federated service of excluded clusters alone has none, and
    /// neither has one without a member that can be read (rule K3).
    pub(super) fn cluster_ip(
        self,
        source: Source<'s>,
        slices: &mut Cursor<'s>,
    ) -> Option<Candidate<'s>> {
        let clusters = clusters(source.item, self.rules);
        let first = clusters.first()?;
        let (rank, cluster) = match source.item.kind {
            ItemKind::Federated => (Rank::Federated, None),
            _ => (Rank::ClusterIp, Some(first.clone())),
        };
        let endpoints = vec![self.cluster_ip_endpoint(source, cluster, slices)];
        Some(self.candidate(source, rank, clusters, endpoints))
    }

    /// Makes the endpoint of the cluster IP of a Service, in one cluster or of no single one. `slices` is near those of another Service.
    pub(super) fn cluster_ip_endpoint(
        self,
        source: Source<'_>,
        cluster: Option<ClusterName>,
        slices: &mut Cursor<'s>,
    ) -> Endpoint {
        let kind = match source.item.kind {
            ItemKind::Federated => ServiceKind::Federated,
            ItemKind::FlatMirror => ServiceKind::Flat,
            ItemKind::Own(_) => ServiceKind::Local,
            _ => ServiceKind::Gateway,
        };
        let endpoint = Endpoint {
            cluster,
            ..Endpoint::of_item(source, kind)
        };
        if endpoint.is_always_alive() {
            return endpoint;
        }
        let slices = self.store.slices_near(slices, source.object);
        let has_slice = !slices.is_empty();
        let liveness = match has_ready(slices) {
            Some(true) => EndpointLiveness::Alive,
            // Linkerd removes the slice if the exported Service has no ready endpoint, and keeps it if the gateway is down.
            _ if has_slice && kind == ServiceKind::Gateway => EndpointLiveness::GatewayDown,
            _ => EndpointLiveness::NotReady,
        };
        Endpoint {
            liveness,
            ..endpoint
        }
    }
}

/// Returns the clusters of an item after aliases, without excluded ones. Members of this cluster stay, whatever is excluded.
fn clusters(item: &Item, rules: &Rules) -> BTreeSet<ClusterName> {
    let mut clusters: BTreeSet<_> = item.linked.iter().map(|link| rules.name_of(link)).collect();
    if item.has_own {
        clusters.insert(rules.cluster_name.clone());
    }
    if item.own().is_none() {
        clusters.retain(|cluster| !rules.excluded_clusters.contains(cluster));
    }
    clusters
}

/// Returns whether one of the slices of a Service has a ready address. Returns `None` if none says so.
pub(super) fn has_ready(slices: ServiceSlices<'_>) -> Option<bool> {
    let ready = slices.into_iter().filter_map(|(_, slice)| match slice {
        Slice::Addresses { ready, .. } => *ready,
        // A slice that Kubernetes does not manage, of a Service without a selector.
        Slice::Endpoints(listed) => listed.entries.iter().map(|one| one.ready).max(),
        Slice::Hosts(_) => None,
    });
    ready.max() // one that is ready is enough
}

// === Merging ===

/// The endpoints of all candidates, sorted by cluster and hostname.
pub(super) struct Merged {
    pub endpoints: Vec<Endpoint>,
    pub not_ready: Vec<Endpoint>,
}

impl BuildContext<'_> {
    /// Merges the endpoints of candidates, and those that are not ready. Both lists are sorted by cluster and hostname.
    pub(super) fn merge(self, candidates: Vec<Candidate<'_>>, gateway_down: GatewayDown) -> Merged {
        let mut endpoints = Vec::new();
        let mut not_ready = Vec::new();
        for candidate in candidates {
            let role = candidate.role;
            if role != Role::Omitted {
                let with_role = |one| Endpoint { role, ..one };
                endpoints.extend(candidate.endpoints.into_iter().map(with_role));
                not_ready.extend(candidate.not_ready.into_iter().map(with_role));
            }
        }
        // Endpoints of one name keep their order. Most are sorted already, which takes one comparison each.
        endpoints.sort_by(|one, other| one.name().cmp(&other.name()));
        if endpoints
            .windows(2)
            .any(|pair| pair[0].name() == pair[1].name())
        {
            let groups = endpoints.chunk_by(|one, other| one.name() == other.name());
            endpoints = groups.map(|all| self.unite(all, gateway_down)).collect();
        }
        // A pod may be ready in another slice.
        not_ready.retain(|pod| {
            endpoints
                .binary_search_by(|one| one.name().cmp(&pod.name()))
                .map_or(true, |index| endpoints[index].addresses != pod.addresses)
        });
        not_ready.sort_by(|one, other| one.name().cmp(&other.name()));
        self.limit_ports(&mut endpoints);
        mark_duplicates(&mut endpoints);
        Merged {
            endpoints,
            not_ready,
        }
    }

    /// Unites endpoints of one name, such as those of two Links to one cluster. What is down of one goes while another is alive (rules
    /// M4, M6, L3), unless the name includes it. Addresses that belong to no single cluster have no name but that of the service: if
    /// they are of several steps, those of the step that answers count (rule K5).
    fn unite(self, all: &[Endpoint], gateway_down: GatewayDown) -> Endpoint {
        if let [only] = all {
            return only.clone();
        }
        let mut all: Vec<&Endpoint> = all.iter().collect();
        let roles = all.iter().map(|one| one.role);
        let role = roles.fold(Role::Omitted, Ord::min);
        all.retain(|one| one.cluster.is_some() || one.role == role);
        // An explanation names all sources.
        let objects = objects_of(&all).into_iter().cloned().collect();
        let is_linked = |one: &&Endpoint| one.liveness != EndpointLiveness::Unlinked;
        let has_linked = all.iter().any(is_linked);
        let mut sources = all.clone();
        sources.retain(|one| !has_linked || is_linked(one));
        let addresses = &sources[0].addresses;
        // If each is of a Link of its own, the problem of the cluster name says that.
        let link = |one: &&Endpoint| self.store.item_at(&one.objects[0].key)?.link();
        let links: Option<BTreeSet<_>> = sources.iter().map(link).collect();
        let is_of_links = links.is_some_and(|links| links.len() == sources.len());
        if !is_of_links && sources.iter().any(|one| one.addresses != *addresses) {
            self.report([Endpoint::conflict(&sources)]);
        }
        let has_alive = all.iter().any(|one| one.is_alive());
        all.retain(|one| match gateway_down {
            GatewayDown::LastResort => !has_alive || one.is_alive(),
            GatewayDown::Include => !has_linked || is_linked(one),
        });
        Endpoint {
            role,
            objects,
            ..Endpoint::merged(&all)
        }
    }

    /// Removes ports, if there are too many distinct ones: a reply must not cost more than its size. The first in order stay.
    fn limit_ports(self, endpoints: &mut [Endpoint]) {
        let lists: HashSet<&Ports> = endpoints
            .chunk_by(|one, other| one.ports == other.ports)
            .map(|endpoints| &endpoints[0].ports)
            .collect();
        let ports: BTreeSet<&Port> = lists.into_iter().flat_map(|ports| ports.iter()).collect();
        let count = ports.len();
        let last = ports.into_iter().nth(MAX_PORTS - 1).cloned();
        let Some(last) = last.filter(|_| count > MAX_PORTS) else {
            return;
        };
        for endpoint in endpoints {
            if endpoint.ports.last().is_some_and(|port| *port > last) {
                let few = endpoint.ports.iter().take_while(|port| **port <= last);
                endpoint.ports = Ports::interned(few.cloned());
            }
        }
        let last = last.number;
        let detail = format!("{count} ports; the first {MAX_PORTS} count, up to number {last}");
        self.report([Problem::new(ProblemKind::TooManyPorts, detail)]);
    }
}

impl Endpoint {
    /// Reports endpoints of one name.
    pub(super) fn conflict(all: &[&Self]) -> Problem {
        let name = all[0].describe();
        let count = all.len();
        let objects = list_some(objects_of(all), MAX_LISTED);
        let detail = format!("{name} has {count} entries, in {objects}; merged");
        Problem {
            cluster: all[0].cluster.clone(),
            ..Problem::new(ProblemKind::Endpoint, detail)
        }
    }

    /// Merges endpoints of one name, all at once: the time must not grow with the square of their number.
    pub(super) fn merged(all: &[&Self]) -> Self {
        let first = all[0];
        if all.len() == 1 {
            return first.clone();
        }
        let lists: HashSet<&Ports> = all.iter().map(|one| &one.ports).collect();
        let ports = lists.iter().flat_map(|ports| ports.iter().cloned());
        let addresses = all.iter().flat_map(|one| one.addresses.iter());
        Self {
            addresses: distinct(addresses.map(|address| address.ip)),
            ports: if lists.len() > 1 {
                ports.collect()
            } else {
                first.ports.clone()
            },
            liveness: all
                .iter()
                .map(|one| one.liveness)
                .fold(first.liveness, Ord::min),
            objects: objects_of(all).into_iter().cloned().collect(),
            ..first.clone()
        }
    }
}

/// Returns the source objects of endpoints.
fn objects_of<'e>(all: &[&'e Endpoint]) -> BTreeSet<&'e ObjectRef> {
    all.iter().flat_map(|one| one.objects.iter()).collect()
}

/// Marks addresses that an earlier endpoint also has. Endpoints that fewer rules omit come first.
fn mark_duplicates(endpoints: &mut [Endpoint]) {
    let count = endpoints.len();
    let mut in_service = HashSet::with_capacity(count);
    let mut in_cluster = HashSet::with_capacity(count);
    let mut in_order: Vec<&mut Endpoint> = endpoints.iter_mut().collect();
    in_order.sort_by_key(|endpoint| endpoint.liveness);
    for endpoint in in_order {
        let cluster = &endpoint.cluster;
        let is_selected = endpoint.role == Role::Answers;
        for address in endpoint.addresses.iter_mut() {
            address.repeats_in_service = is_selected && !in_service.insert(address.ip);
            address.repeats_in_cluster = !in_cluster.insert((cluster, address.ip));
        }
    }
}
