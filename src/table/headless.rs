//! What headless mirrors offer (kind `headless`, rules M1 to M3).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use smallvec::SmallVec;

use super::candidate::{Candidate, has_ready};
use super::context::BuildContext;
use super::endpoint::{Endpoint, EndpointLiveness, MissingHost, Rank, ServiceKind, Source};
use crate::model::{
    ClusterName, Export, Hostname, ItemKind, Kind, MAX_LISTED, Object, ObjectKey, ObjectRef, Port,
    Ports, Problem, ProblemKind, Protocol, ServiceName, Slice, SliceEndpoint, Text, list_some,
};

/// What an endpoint mirror and its headless mirror have in common (rule M2).
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Parent<'s> {
    /// The headless mirror.
    object: ObjectKey,
    /// The service, which an alias has others beside.
    service: &'s ServiceName,
    link: &'s ClusterName,
}

/// The endpoint mirrors of a service by their parents.
pub(super) type EndpointMirrors<'s> = BTreeMap<Parent<'s>, Vec<Source<'s>>>;

/// What the slices of a headless mirror say of a host.
#[derive(Default)]
struct HostInSlices<'s> {
    address: Option<IpAddr>,
    /// The ports of its pod.
    ports: SmallVec<[&'s Ports; 1]>,
    has_mirror: bool,
}

impl<'s> BuildContext<'s> {
    /// Makes the candidate of a headless mirror: the endpoints of its endpoint mirrors, which it removes from `mirrors`, and of listed
    /// hosts with a Service of their own (rule M1b).
    pub(super) fn headless_mirror(
        self,
        source: Source<'s>,
        mirrors: &mut EndpointMirrors<'s>,
    ) -> Option<Candidate<'s>> {
        let object = source.object;
        let link = source.item.link()?;
        let cluster = &self.rules.name_of(link);
        let mirrors = mirrors.remove(&Parent {
            object: object.clone(),
            service: &source.item.service,
            link,
        });
        let mut listed = self.listed_hosts(object);
        let mut endpoints =
            self.mirrored_endpoints(mirrors.unwrap_or_default(), cluster, &mut listed);
        let mut missing = Vec::new();
        let mut hosts = Vec::new();
        for (hostname, listed) in listed.iter().filter(|(_, listed)| !listed.has_mirror) {
            let host = MissingHost {
                cluster: cluster.clone(),
                hostname: (*hostname).clone(),
                address: listed.address,
                expected: object.sibling(&Text::from(format!("{hostname}-{link}"))),
            };
            hosts.push(object.service(&hostname.as_service()));
            // It may be an object that cannot be read.
            hosts.extend(host.expected.own_service());
            match self.adopt(&host, &listed.ports) {
                Some(endpoint) => endpoints.push(endpoint),
                None => missing.push(host),
            }
        }
        let clusters = [cluster.clone()].into();
        let candidate = self.candidate(source, Rank::Headless, clusters, endpoints);
        // Nobody maintains the list of an unlinked cluster.
        missing.retain(|_| !candidate.is_unlinked);
        Some(Candidate {
            missing,
            hosts,
            ..candidate
        })
    }

    /// Makes the endpoints of endpoint mirrors, and marks their hosts in the list.
    fn mirrored_endpoints(
        self,
        mirrors: Vec<Source<'s>>,
        cluster: &ClusterName,
        listed: &mut BTreeMap<&Hostname, HostInSlices<'s>>,
    ) -> Vec<Endpoint> {
        let mut dead_ports = DeadPorts::default();
        let mut unprobed = Vec::new();
        let mut slices = self.store.cursor(Kind::EndpointSlice);
        let mut endpoints = Vec::with_capacity(mirrors.len());
        for source in mirrors {
            let Some(host) = &source.item.host else {
                continue; // it is no endpoint mirror
            };
            let mut in_slices: &[&Ports] = &[];
            if let Some(listed) = listed.get_mut(&host.hostname) {
                listed.has_mirror = true;
                in_slices = &listed.ports;
            }
            let ports = &source.item.ports;
            let of_slices = PodPorts::new(in_slices);
            dead_ports.add(ports, &of_slices, &PodPorts::new(&[&host.pod_ports]));
            let of_gateway = self.store.slices_near(&mut slices, source.object);
            let has_slice = !of_gateway.is_empty();
            let is_ready = has_ready(of_gateway);
            if has_slice && is_ready.is_none() {
                unprobed.push(&host.hostname);
            }
            endpoints.push(Endpoint {
                cluster: Some(cluster.clone()),
                hostname: Some(host.hostname.clone()),
                ports: of_slices.ports_of(ports),
                // Without a slice that says so, it is alive (rule M3).
                liveness: match is_ready {
                    Some(true) | None => EndpointLiveness::Alive,
                    Some(false) => EndpointLiveness::GatewayDown,
                },
                ..Endpoint::of_item(source, ServiceKind::Headless)
            });
        }
        self.report(dead_ports.problem(cluster));
        if !unprobed.is_empty() {
            let names = list_some(unprobed, MAX_LISTED);
            let detail = format!(
                "cluster '{cluster}': no address in the slices of {names}, which count as alive"
            );
            self.report([Problem::new(ProblemKind::GatewayDown, detail).of_cluster(cluster)]);
        }
        endpoints
    }

    /// Returns the hosts that the slices of a headless mirror list, and reports those that were skipped.
    fn listed_hosts(self, mirror: &ObjectKey) -> BTreeMap<&'s Hostname, HostInSlices<'s>> {
        let mut listed: BTreeMap<&Hostname, HostInSlices<'_>> = BTreeMap::new();
        for (object, slice) in self.store.slices_of(mirror) {
            let Slice::Hosts(slice) = slice else {
                continue;
            };
            self.report(slice.problems(object));
            for host in &slice.entries {
                let listed = listed.entry(&host.hostname).or_default();
                if listed.ports.is_empty() {
                    listed.address = host.address;
                }
                listed.ports.push(&slice.ports);
            }
        }
        listed
    }

    /// Makes the endpoint of a listed host that has an exported Service with a cluster IP of its own (rule M1b). Linkerd lists the
    /// address of that Service instead of making an endpoint mirror.
    fn adopt(self, host: &MissingHost, ports: &[&Ports]) -> Option<Endpoint> {
        let object = &host.expected;
        let item = self.store.item_at(object)?;
        let cluster = item.link().map(|link| self.rules.name_of(link))?;
        let is_of_service = matches!(item.kind, ItemKind::GatewayMirror | ItemKind::FlatMirror);
        let stands_for_host = is_of_service
            && item.service.as_str() == host.hostname.as_str()
            && cluster == host.cluster
            && item.addresses.contains(&host.address?);
        if !stands_for_host {
            return None;
        }
        let source = Source { object, item };
        let mut slices = self.store.cursor(Kind::EndpointSlice);
        Some(Endpoint {
            hostname: Some(host.hostname.clone()),
            ports: PodPorts::new(ports).ports_of(&item.ports),
            ..self.cluster_ip_endpoint(source, Some(cluster), &mut slices)
        })
    }

    /// Collects the endpoint mirrors of a service. It may have thousands.
    pub(super) fn endpoint_mirrors(self) -> EndpointMirrors<'s> {
        let mut by_parent = EndpointMirrors::new();
        for source in self.items {
            if let (Some(host), Some(link)) = (&source.item.host, source.item.link()) {
                let parent = Parent {
                    object: source.object.sibling(&host.parent),
                    service: &source.item.service,
                    link,
                };
                by_parent.entry(parent).or_default().push(*source);
            }
        }
        by_parent
    }

    /// Reports the endpoint mirrors without a parent. Those of excluded clusters have a problem already.
    pub(super) fn report_orphans(self, orphans: EndpointMirrors<'_>) {
        let orphans = orphans
            .into_iter()
            .filter(|(parent, _)| !self.rules.excludes(parent.link));
        self.report(orphans.map(|(parent, mirrors)| {
        let Parent {
            object,
            service,
            link,
        } = parent;
        let ObjectKey { namespace, name } = object;
        let detail = format!(
            "no parent: headless mirror '{name}' of {namespace}/{service} in cluster '{link}' is missing or unusable"
        );
        let objects = mirrors.iter().map(|one| ObjectRef::service(one.object));
        Problem::new(ProblemKind::UnusableObject, detail)
            .of_cluster(link)
            .of_objects(objects)
    }));
    }

    /// Reports headless mirrors without endpoint mirrors, and hosts that they list without one. An endpoint mirror that cannot be used
    /// explains its host, unless the host was missing before.
    pub(super) fn report_missing(self, candidates: &[Candidate<'_>]) {
        let has_endpoint = |one: &&Candidate<'_>| !one.is_shared() && !one.endpoints.is_empty();
        let offering = candidates.iter().filter(has_endpoint);
        let offering: BTreeSet<_> = offering.flat_map(|one| &one.clusters).collect();
        let mut unusable = None;
        for candidate in candidates {
            let Source { object, item } = candidate.source;
            let missing = &candidate.missing;
            let is_mirror = item.kind == ItemKind::HeadlessMirror;
            let Some(cluster) = candidate.clusters.first().filter(|_| is_mirror) else {
                continue;
            };
            let (detail, cause) = if !missing.is_empty() {
                let names = missing.iter().map(|host| match host.address {
                    Some(address) => format!("{} ({address})", host.hostname),
                    None => host.hostname.to_string(),
                });
                let skips = self.store.skipped();
                let skip = |host: &MissingHost| skips.get(&ObjectRef::service(&host.expected));
                let cause = missing.iter().find_map(skip).map(|skip| skip.kind);
                let mut last = self.old.iter().flat_map(|old| &old.problems);
                let last = last.find(|last| {
                    last.kind == ProblemKind::MissingHost && last.cluster.as_ref() == Some(cluster)
                });
                let is_new = last.is_none_or(|last| last.cause.is_some());
                let names = list_some(names, MAX_LISTED);
                (format!("lists {names}"), cause.filter(|_| is_new))
            } else if !offering.contains(cluster) {
                // A mirror of a host that cannot be used is always the reason.
                let unusable = unusable.get_or_insert_with(|| self.unusable_mirrors());
                let cause = unusable.get(cluster).copied();
                (format!("no host of cluster '{cluster}'"), cause)
            } else {
                continue;
            };
            self.report([Problem {
                cause,
                ..Problem::new(ProblemKind::MissingHost, detail)
                    .of_cluster(cluster)
                    .of_object(ObjectRef::service(object))
            }]);
        }
    }

    /// Returns the clusters with an endpoint mirror of this service that cannot be used, each with the reason. One search for all of
    /// them: everybody who can create a Service can invent clusters.
    fn unusable_mirrors(self) -> BTreeMap<ClusterName, ProblemKind> {
        let mut unusable = BTreeMap::new();
        for (_, object) in self.store.objects_of(self.key) {
            if let Object::Skipped(problem) = object
                && let Some(link) = &problem.cluster
            {
                let cluster = self.rules.name_of(link);
                unusable.entry(cluster).or_insert(problem.kind);
            }
        }
        unusable
    }

    /// Returns the problem that other clusters have, or will have, with a headless Service that this cluster exports. Linkerd makes
    /// endpoint mirrors only of pods with a hostname.
    pub(super) fn exported_problem(self, Source { object, item }: Source<'_>) -> Option<Problem> {
        item.own()
            .filter(|own| own.export == Export::Gateway && own.is_headless())?;
        let mut dead = DeadPorts::default();
        let has_hostname =
            |pod: &SliceEndpoint| pod.hostname != Hostname::from_address(pod.address);
        for (_, slice) in self.store.slices_of(object) {
            if let Slice::Endpoints(listed) = slice
                && listed.entries.iter().any(has_hostname)
            {
                dead.add(
                    &item.ports,
                    &PodPorts::new(&[]),
                    &PodPorts::new(&[&listed.ports]),
                );
            }
        }
        dead.problem(&self.rules.cluster_name)
    }
}

// === Ports of pods ===

/// The ports of the pods of a host, one for each name and protocol, sorted by these: that in the first list.
struct PodPorts<'p>(SmallVec<[&'p Port; 4]>);

impl<'p> PodPorts<'p> {
    fn new(lists: &[&'p Ports]) -> Self {
        let mut ports: SmallVec<[&Port; 4]> = lists.iter().flat_map(|ports| ports.iter()).collect();
        ports.sort_by(|one, other| one.label().cmp(&other.label()));
        ports.dedup_by(|one, other| one.label() == other.label());
        Self(ports)
    }

    /// Returns the port with the name and protocol of another one.
    fn find(&self, port: &Port) -> Option<&'p Port> {
        self.0
            .binary_search_by(|one| one.label().cmp(&port.label()))
            .ok()
            .map(|index| self.0[index])
    }

    /// Returns the ports that a host has, of those of its mirror: those with the names that its slices have, if there are any
    /// (rule M1c). An endpoint mirror keeps the names that it was made with.
    fn ports_of(&self, ports: &Ports) -> Ports {
        let is_listed = |port: &&Port| self.find(port).is_some();
        match ports.iter().filter(is_listed).count() {
            0 => ports.clone(),
            count if count == ports.len() => ports.clone(),
            _ => Ports::interned(ports.iter().filter(is_listed).cloned()),
        }
    }
}

/// The TCP ports of a service in one cluster that its pods have under another number, each with that number. No stream from another
/// cluster reaches them: for an endpoint mirror, Linkerd's gateway connects to the pod at the port of the Service, not at its
/// `targetPort`. Mirrors with a cluster IP are not affected.
#[derive(Default)]
struct DeadPorts<'p>(BTreeSet<(&'p Port, u16)>);

impl<'p> DeadPorts<'p> {
    /// Adds the ports that have another number in the pods: in the slices that list them, or else in `targets`, the `targetPort` that
    /// the mirror was made with. Slices that have the numbers of the Service prove nothing: they may be those of the Service
    /// (linkerd2#14953).
    fn add(&mut self, ports: &'p Ports, listed: &PodPorts<'_>, targets: &PodPorts<'_>) {
        let is_other = |port: &&Port| {
            let listed = listed.find(port);
            listed.is_some_and(|listed| listed.number != port.number)
        };
        let lists_pods = ports.iter().any(|port| is_other(&port));
        for port in ports.iter().filter(|one| one.protocol == Protocol::Tcp) {
            let of_pod = listed
                .find(port)
                .filter(|_| lists_pods)
                .or_else(|| targets.find(port));
            if let Some(of_pod) = of_pod.filter(|of_pod| of_pod.number != port.number) {
                self.0.insert((port, of_pod.number));
            }
        }
    }

    /// Returns the problem of the cluster, if there is a port.
    fn problem(self, cluster: &ClusterName) -> Option<Problem> {
        if self.0.is_empty() {
            return None;
        }
        let ports = self
            .0
            .iter()
            .map(|(port, of_pods)| format!("port {} is {of_pods} in its pods", port.number));
        let detail = format!("cluster '{cluster}': {}", list_some(ports, MAX_LISTED));
        Some(Problem::new(ProblemKind::DeadPort, detail).of_cluster(cluster))
    }
}
