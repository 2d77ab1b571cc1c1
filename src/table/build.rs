//! Inputs → table: rules M1–M10. Pure: values in, a value out; no clock, no I/O, no lock, no log.
//!
//! [`build`] makes the services anew that changed and shares the others with the table before. Building everything at
//! once gives the same table (short-name incumbency aside); a property test says so.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::inputs::{Dirty, Inputs};
use super::{Address, Conflict, ConflictKind, Endpoint, Origin, Repeats, Service, Table, short};
use crate::mirror::{
    ClusterName, GatewayDown, Hostname, Kind, Namespace, ObjectRef, Port, ServiceKey, ServiceName,
    Skip, SkipReason, Wishes,
};

/// What the operator wants of the model: the flags that decide over membership and names.
#[derive(Clone, Debug)]
pub struct Rules {
    /// `--cluster-name`: this cluster's name, in every cluster the same.
    pub cluster_name: ClusterName,
    /// `--cluster-alias LINK=NAME`: names of links → names of clusters.
    pub cluster_aliases: BTreeMap<ClusterName, ClusterName>,
    /// `--exclude-cluster`, by the name after aliases.
    pub excluded_clusters: BTreeSet<ClusterName>,
    /// `--ttl`, seconds.
    pub ttl: u32,
    /// `--ttl-max`, seconds: what an annotation may ask for.
    pub ttl_max: u32,
    /// `--gateway-down`.
    pub gateway_down: GatewayDown,
    /// `--local-members`.
    pub local_members: LocalMembers,
    /// `--short-names`.
    pub short_names: ShortNames,
    /// `--short-name S=N`.
    pub pinned_names: BTreeMap<ServiceName, Namespace>,
    /// `--default-namespace`.
    pub default_namespace: Option<Namespace>,
    /// Octets of the longest zone's name on the wire: decides which names exceed DNS limits (RFC 1035 section 2.3.4).
    pub longest_zone: usize,
    /// `--reverse-zone`: names of addresses are asked for, which takes an index.
    pub has_reverse_zones: bool,
}

/// Which headless Services of this cluster join (rule M5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalMembers {
    /// Those that are exported or have a mirror of the same name.
    Matching,
    /// Those that are exported.
    Exported,
    /// None.
    Off,
}

/// Which names without a namespace are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShortNames {
    /// Every service's.
    On,
    /// Only those that a flag assigns to a namespace.
    Pinned,
    /// None.
    Off,
}

/// The outcome of a build.
#[derive(Debug)]
pub struct Built {
    /// The next table.
    pub table: Table,
    /// It answers some question otherwise than the one before.
    pub answers_moved: bool,
}

/// Builds the table that follows `last` after the services in `dirty` changed.
pub fn build(last: &Table, inputs: &Inputs, dirty: &Dirty, rules: &Rules) -> Built {
    let mut table = last.clone();
    table.skipped = inputs.skipped().clone();
    table.changed = inputs.changed().clone();
    let mut answers_moved = false;
    for key in dirty {
        let old = last.service(key.namespace.as_str(), key.service.as_str());
        let new = build_service(key, inputs, rules);
        if old == new.as_ref() {
            continue;
        }
        answers_moved |= !same_answers(old, new.as_ref());
        if rules.has_reverse_zones {
            index_addresses(&mut table, key, old, new.as_ref());
        }
        put(&mut table, key, new);
    }
    settle(&mut table, dirty);
    let names: BTreeSet<&ServiceName> = dirty.iter().map(|key| &key.service).collect();
    answers_moved |= short::assign(last, &mut table, &names, rules);
    table.conflicts = short::conflicts(&table);
    Built {
        table,
        answers_moved,
    }
}

/// Notes which addresses lead to a service now.
fn index_addresses(
    table: &mut Table,
    key: &ServiceKey,
    old: Option<&Service>,
    new: Option<&Service>,
) {
    let ips = |service: Option<&Service>| -> BTreeSet<IpAddr> {
        let endpoints = service.into_iter().flat_map(|service| &service.endpoints);
        endpoints
            .flat_map(|endpoint| &endpoint.addresses)
            .map(|address| address.ip)
            .collect()
    };
    let (old, new) = (ips(old), ips(new));
    if old == new {
        return;
    }
    let addresses = Arc::make_mut(&mut table.addresses);
    for gone in old.difference(&new) {
        if let Some(services) = addresses.get_mut(gone) {
            services.remove(key);
            if services.is_empty() {
                addresses.remove(gone);
            }
        }
    }
    for added in new.difference(&old) {
        addresses.entry(*added).or_default().insert(key.clone());
    }
}

fn put(table: &mut Table, key: &ServiceKey, service: Option<Service>) {
    let namespace = table.namespaces.entry(key.namespace.clone()).or_default();
    let services = &mut Arc::make_mut(namespace).services;
    match service {
        Some(service) => services.insert(key.service.clone(), Arc::new(service)),
        None => services.remove(&key.service),
    };
}

/// Settles what is true of whole namespaces, once for all the services that changed in them.
fn settle(table: &mut Table, dirty: &Dirty) {
    let namespaces: BTreeSet<&Namespace> = dirty.iter().map(|key| &key.namespace).collect();
    for name in namespaces {
        let Some(namespace) = table.namespaces.get_mut(name) else {
            continue;
        };
        if namespace.services.is_empty() {
            table.namespaces.remove(name);
            continue;
        }
        let has_names = namespace
            .services
            .values()
            .any(|service| !service.endpoints.is_empty());
        if namespace.has_names != has_names {
            Arc::make_mut(namespace).has_names = has_names;
        }
    }
}

/// An endpoint as one object tells it, before equal names are united.
struct Draft {
    endpoint: Endpoint,
    /// The link, or this cluster, that the object speaks for.
    source: Source,
    /// The pod of a local endpoint: one pod has one endpoint per address family.
    target: Option<Arc<str>>,
    ready: bool,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Local,
    Link(ClusterName),
}

/// Builds one service; `None` if no object speaks of it.
fn build_service(key: &ServiceKey, inputs: &Inputs, rules: &Rules) -> Option<Service> {
    let mut skipped = Vec::new();
    let mut wishes: Vec<&Wishes> = Vec::new();
    let mut since = Vec::new();
    let mut mirrors = Vec::new();
    for (object, mirror) in inputs.headless_mirrors(key) {
        let cluster = rules.name_of(&mirror.cluster);
        if rules.excluded_clusters.contains(&cluster) {
            skipped.push((service_ref(object), excluded(&cluster)));
            continue;
        }
        mirrors.push((cluster, service_ref(object)));
        wishes.push(&mirror.wishes);
        since.extend(mirror.created);
    }
    mirrors.sort();
    let is_mirrored = !mirrors.is_empty();
    let mut drafts = mirrored(key, inputs, rules, &mut skipped);

    let local = inputs.local_service(key);
    let local = local.filter(|local| match rules.local_members {
        LocalMembers::Matching => is_mirrored || local.exported,
        LocalMembers::Exported => local.exported,
        LocalMembers::Off => false,
    });
    if let Some(local) = local {
        wishes.push(&local.wishes);
        since.extend(local.created);
        drafts.extend(locals(key, inputs, rules));
    }
    if !is_mirrored && local.is_none() && skipped.is_empty() {
        return None;
    }

    drafts.retain(|draft| match exceeds_limits(key, &draft.endpoint, rules) {
        Some(skip) => {
            skipped.extend(
                draft
                    .endpoint
                    .objects
                    .iter()
                    .map(|object| (object.clone(), skip.clone())),
            );
            false
        }
        None => true,
    });
    let mut conflicts = cluster_conflicts(key, &drafts);
    conflicts.extend(kind_conflict(key, inputs, rules, &mirrors));
    conflicts.extend(local.filter(|local| !local.exported).map(|_| Conflict {
        kind: ConflictKind::NotExported,
        name: key.to_string(),
        detail: format!(
            "cluster '{}' is a member here only: its Service is not exported",
            rules.cluster_name
        ),
    }));
    let (ready, not_ready): (Vec<Draft>, Vec<Draft>) = drafts.into_iter().partition(|d| d.ready);
    let mut endpoints = unite(key, ready, &mut conflicts);
    let mut not_ready = unite(key, not_ready, &mut Vec::new());
    not_ready.retain(|e| {
        !endpoints
            .iter()
            .any(|r| same_host(r, e) && r.addresses == e.addresses)
    });
    mark_repeats(&mut endpoints);
    let wished = agree(key, &wishes, rules, &mut conflicts);
    Some(Service {
        key: key.clone(),
        ttl: wished.0,
        gateway_down: wished.1,
        endpoints,
        not_ready,
        mirrors,
        is_known: is_mirrored || local.is_some(),
        since: since.into_iter().min(),
        skipped,
        conflicts,
    })
}

// === Members ===

/// Reads the endpoints of other clusters (rules M1, M2, M3, M6).
fn mirrored(
    key: &ServiceKey,
    inputs: &Inputs,
    rules: &Rules,
    skipped: &mut Vec<(ObjectRef, Skip)>,
) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for (object, mirror) in inputs.endpoint_mirrors(key) {
        let cluster = rules.name_of(&mirror.cluster);
        let parent = inputs.parent_of(object, mirror);
        let skip = match parent {
            _ if rules.excluded_clusters.contains(&cluster) => Some(excluded(&cluster)),
            None => {
                let detail = format!("there is no headless mirror '{}'", mirror.parent);
                Some(Skip::new(SkipReason::NoParent, detail))
            }
            Some(parent) if parent.cluster != mirror.cluster || parent.service != *key => {
                let detail = format!(
                    "headless mirror '{}' is of {} in cluster '{}', not of {key} in cluster '{}'",
                    mirror.parent, parent.service, parent.cluster, mirror.cluster
                );
                Some(Skip::new(SkipReason::NoParent, detail))
            }
            Some(_) => None,
        };
        if let Some(skip) = skip {
            skipped.push((service_ref(object), skip));
            continue;
        }
        drafts.push(Draft {
            endpoint: Endpoint {
                cluster,
                hostname: mirror.hostname.clone(),
                addresses: distinct(mirror.addresses.iter().copied()),
                ports: sorted(mirror.ports.iter().cloned()),
                alive: is_alive(inputs, object),
                origin: Origin::Mirror,
                objects: vec![service_ref(object)],
            },
            source: Source::Link(mirror.cluster.clone()),
            target: None,
            ready: true,
        });
    }
    drafts
}

/// Rule M3: its own slices say that a gateway address is ready; no slice, or none with an endpoint, means alive.
fn is_alive(inputs: &Inputs, mirror: &crate::mirror::ObjectKey) -> bool {
    let mut gateways = inputs
        .mirror_slices(mirror)
        .flat_map(|slice| &slice.endpoints)
        .peekable();
    gateways.peek().is_none() || gateways.any(|gateway| gateway.ready)
}

/// Reads the endpoints of this cluster (rule M5).
fn locals(key: &ServiceKey, inputs: &Inputs, rules: &Rules) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for (object, slice) in inputs.local_slices(key) {
        for endpoint in &slice.endpoints {
            let Some(address) = endpoint.address else {
                continue;
            };
            let hostname = endpoint.hostname.clone();
            drafts.push(Draft {
                endpoint: Endpoint {
                    cluster: rules.cluster_name.clone(),
                    hostname: hostname.unwrap_or_else(|| Hostname::from_address(address)),
                    addresses: distinct([address]),
                    ports: sorted(slice.ports.iter().cloned()),
                    alive: true,
                    origin: Origin::Local,
                    objects: vec![ObjectRef {
                        kind: Kind::EndpointSlice,
                        key: object.clone(),
                    }],
                },
                source: Source::Local,
                target: endpoint.target.clone(),
                ready: endpoint.ready,
            });
        }
    }
    drafts
}

/// Rule M9: an endpoint whose longest name, `H.C.S.N.Z`, would exceed 255 octets is left out.
fn exceeds_limits(key: &ServiceKey, endpoint: &Endpoint, rules: &Rules) -> Option<Skip> {
    let labels = [
        endpoint.hostname.as_str(),
        endpoint.cluster.as_str(),
        key.service.as_str(),
        key.namespace.as_str(),
    ];
    let octets = labels.iter().map(|label| label.len() + 1).sum::<usize>() + rules.longest_zone;
    let detail = || {
        format!(
            "name {}.<zone> would take {octets} octets, more than 255",
            labels.join(".")
        )
    };
    (octets > 255).then(|| Skip::new(SkipReason::BadName, detail()))
}

/// Unites endpoints with one name, so that cluster and hostname occur once; reports what is no dual-stack pod.
fn unite(key: &ServiceKey, drafts: Vec<Draft>, conflicts: &mut Vec<Conflict>) -> Vec<Endpoint> {
    let mut united: BTreeMap<(ClusterName, Hostname), Draft> = BTreeMap::new();
    for draft in drafts {
        let name = (
            draft.endpoint.cluster.clone(),
            draft.endpoint.hostname.clone(),
        );
        let Some(first) = united.get_mut(&name) else {
            united.insert(name, draft);
            continue;
        };
        let is_one = first.endpoint.addresses == draft.endpoint.addresses
            || (first.target.is_some() && first.target == draft.target);
        if !is_one {
            let (cluster, hostname) = &name;
            let objects = first.endpoint.objects.iter().chain(&draft.endpoint.objects);
            let objects: Vec<String> = objects.map(ToString::to_string).collect();
            conflicts.push(Conflict {
                kind: ConflictKind::Endpoint,
                name: key.to_string(),
                detail: format!(
                    "'{hostname}' of cluster '{cluster}' is claimed by {}; united",
                    objects.join(" and ")
                ),
            });
        }
        let (one, other) = (&mut first.endpoint, draft.endpoint);
        let ips = one
            .addresses
            .iter()
            .chain(&other.addresses)
            .map(|address| address.ip);
        one.addresses = distinct(ips.collect::<Vec<_>>());
        one.ports = sorted(one.ports.drain(..).chain(other.ports));
        one.alive |= other.alive;
        one.origin = one.origin.min(other.origin);
        one.objects.extend(other.objects);
        one.objects.sort();
        one.objects.dedup();
    }
    conflicts.sort();
    conflicts.dedup();
    united.into_values().map(|draft| draft.endpoint).collect()
}

/// Marks addresses that an endpoint before has too, live endpoints first.
fn mark_repeats(endpoints: &mut [Endpoint]) {
    let mut of_service: BTreeSet<IpAddr> = BTreeSet::new();
    let mut of_cluster: BTreeSet<(ClusterName, IpAddr)> = BTreeSet::new();
    for alive in [true, false] {
        for endpoint in endpoints
            .iter_mut()
            .filter(|endpoint| endpoint.alive == alive)
        {
            for address in &mut endpoint.addresses {
                let new_in_cluster = of_cluster.insert((endpoint.cluster.clone(), address.ip));
                let new_in_service = of_service.insert(address.ip);
                address.repeats = match (new_in_service, new_in_cluster) {
                    (true, _) => Repeats::Nothing,
                    (false, true) => Repeats::Service,
                    (false, false) => Repeats::Cluster,
                };
            }
        }
    }
}

/// Rule M6: two sources of one cluster name are united and reported.
fn cluster_conflicts(key: &ServiceKey, drafts: &[Draft]) -> Vec<Conflict> {
    let mut sources: BTreeMap<&ClusterName, BTreeSet<&Source>> = BTreeMap::new();
    for draft in drafts {
        sources
            .entry(&draft.endpoint.cluster)
            .or_default()
            .insert(&draft.source);
    }
    let doubles = sources.into_iter().filter(|(_, sources)| sources.len() > 1);
    let conflict = |(cluster, sources): (&ClusterName, BTreeSet<&Source>)| Conflict {
        kind: ConflictKind::ClusterName,
        name: key.to_string(),
        detail: format!(
            "cluster name '{cluster}' stands for {}; united",
            sources
                .into_iter()
                .map(Source::words)
                .collect::<Vec<_>>()
                .join(" and ")
        ),
    };
    doubles.map(conflict).collect()
}

/// Reports a service that is headless in one cluster, and not in another.
fn kind_conflict(
    key: &ServiceKey,
    inputs: &Inputs,
    rules: &Rules,
    mirrors: &[(ClusterName, ObjectRef)],
) -> Option<Conflict> {
    let others: BTreeSet<ClusterName> = inputs
        .other_kinds(key)
        .map(|link| rules.name_of(link))
        .collect();
    let headless: BTreeSet<&ClusterName> = mirrors.iter().map(|(cluster, _)| cluster).collect();
    let names = |clusters: Vec<&str>| clusters.join(", ");
    (!others.is_empty() && !headless.is_empty()).then(|| Conflict {
        kind: ConflictKind::Headless,
        name: key.to_string(),
        detail: format!(
            "headless in {}, but not in {}",
            names(headless.into_iter().map(ClusterName::as_str).collect()),
            names(others.iter().map(ClusterName::as_str).collect()),
        ),
    })
}

/// Settles what the members ask for by annotation: the smallest TTL, and the gateway rule that answers most.
fn agree(
    key: &ServiceKey,
    wishes: &[&Wishes],
    rules: &Rules,
    conflicts: &mut Vec<Conflict>,
) -> (u32, GatewayDown) {
    let mut report = |detail: String| {
        let kind = ConflictKind::Annotation;
        conflicts.push(Conflict {
            kind,
            name: key.to_string(),
            detail,
        });
    };
    let ttls: BTreeSet<u32> = wishes.iter().filter_map(|wishes| wishes.ttl).collect();
    if ttls.len() > 1 {
        report(format!(
            "members ask for TTLs {ttls:?}; the smallest is used"
        ));
    }
    let ttl = ttls.first().map_or(rules.ttl, |ttl| *ttl);
    if !(1..=rules.ttl_max).contains(&ttl) && !ttls.is_empty() {
        report(format!(
            "TTL {ttl} is not between 1 and {}; the nearest is used",
            rules.ttl_max
        ));
    }
    let downs: BTreeSet<GatewayDown> = wishes.iter().filter_map(|w| w.gateway_down).collect();
    if downs.len() > 1 {
        report(
            "members ask for different gateway-down rules; the one that answers most is used"
                .to_owned(),
        );
    }
    let unreadable: BTreeSet<&String> = wishes.iter().flat_map(|w| &w.unreadable).collect();
    for annotation in unreadable {
        report(format!("annotation {annotation} makes no sense"));
    }
    let ttl = if ttls.is_empty() {
        ttl
    } else {
        ttl.clamp(1, rules.ttl_max)
    };
    (ttl, downs.last().copied().unwrap_or(rules.gateway_down))
}

// === Whether answers moved ===

/// Tells whether two versions of a service answer every question alike.
fn same_answers(one: Option<&Service>, other: Option<&Service>) -> bool {
    let endpoints = |service: Option<&Service>| service.map_or(0, |s| s.endpoints.len());
    match (one, other) {
        (Some(one), Some(other)) if !one.endpoints.is_empty() => {
            one.ttl == other.ttl
                && one.endpoints.len() == other.endpoints.len()
                && one
                    .endpoints
                    .iter()
                    .zip(&other.endpoints)
                    .all(|(a, b)| same_rows(a, b))
                && (same_liveness(one, other) || shown(one) == shown(other))
        }
        (one, other) => endpoints(one) == 0 && endpoints(other) == 0,
    }
}

fn same_rows(one: &Endpoint, other: &Endpoint) -> bool {
    let ips = |endpoint: &Endpoint| endpoint.addresses.iter().map(|a| a.ip).collect::<Vec<_>>();
    same_host(one, other) && one.ports == other.ports && ips(one) == ips(other)
}

fn same_host(one: &Endpoint, other: &Endpoint) -> bool {
    one.cluster == other.cluster && one.hostname == other.hostname
}

fn same_liveness(one: &Service, other: &Service) -> bool {
    let pairs = one.endpoints.iter().zip(&other.endpoints);
    one.gateway_down == other.gateway_down && pairs.into_iter().all(|(a, b)| a.alive == b.alive)
}

/// Lists what each owner name shows of the endpoints that it covers: the service's and the clusters' names, each with
/// and without each port.
fn shown(service: &Service) -> Vec<bool> {
    let named = |port: &Port| port.name.clone().map(|name| (name, port.protocol));
    let ports: BTreeSet<_> = service
        .endpoints
        .iter()
        .flat_map(|e| &e.ports)
        .filter_map(named)
        .collect();
    let clusters = service
        .clusters()
        .map(|cluster| service.in_cluster(cluster.as_str()));
    let mut shown = Vec::new();
    for scope in std::iter::once(service.endpoints.as_slice()).chain(clusters) {
        for port in std::iter::once(None).chain(ports.iter().map(Some)) {
            let has_port = |e: &&Endpoint| {
                port.is_none_or(|(name, protocol)| e.has_port(name.as_str(), protocol.label()))
            };
            let dead = service.shows_dead(false, scope.iter().filter(has_port));
            shown.extend(scope.iter().map(|e| has_port(&e) && (e.alive || dead)));
        }
    }
    shown
}

// === Small things ===

impl Rules {
    /// Returns the name of the cluster that a link leads to.
    pub fn name_of(&self, link: &ClusterName) -> ClusterName {
        self.cluster_aliases.get(link).unwrap_or(link).clone()
    }
}

impl Source {
    fn words(&self) -> String {
        match self {
            Self::Local => "this cluster".to_owned(),
            Self::Link(link) => format!("link '{link}'"),
        }
    }
}

fn service_ref(key: &crate::mirror::ObjectKey) -> ObjectRef {
    ObjectRef {
        kind: Kind::Service,
        key: key.clone(),
    }
}

fn excluded(cluster: &ClusterName) -> Skip {
    Skip::new(
        SkipReason::ExcludedCluster,
        format!("cluster '{cluster}' is excluded"),
    )
}

fn distinct(ips: impl IntoIterator<Item = IpAddr>) -> Vec<Address> {
    let ips: BTreeSet<IpAddr> = ips.into_iter().collect();
    ips.into_iter()
        .map(|ip| Address {
            ip,
            repeats: Repeats::Nothing,
        })
        .collect()
}

fn sorted(ports: impl Iterator<Item = Port>) -> Vec<Port> {
    ports.collect::<BTreeSet<_>>().into_iter().collect()
}
