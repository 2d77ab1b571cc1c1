//! The name that is explained: what it means, the service that it is about, and the problems that concern it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::nearest::{part_of_object, parts_of_address};
use crate::model::{ClusterName, Problem, ProblemKind, ServiceKey, join_texts, list_some};
use crate::table::{Claim, NoOwner, Service, ShortName, Table};
use crate::view::{ListedEndpoint, NameReply, Shown, nearest_hint};
use crate::zone::{Grammar, MissingReason, Name, Reading, Scope, View, read, yields};

/// Maximum number of namespaces in a sentence.
const MAX_NAMESPACES: usize = 30;
/// Maximum number of clusters in a sentence.
const MAX_CLUSTERS: usize = 5;
/// Why there is no service, and what to do.
const NO_MIRROR: &str =
    "it has no mirror here; export it in its cluster, and check that the cluster is linked";

/// A name, as it was read from the table.
pub(super) struct ReadName<'t> {
    pub shown: &'t Shown<'t>,
    pub table: &'t Table,
    pub name: &'t Name,
    pub reading: Reading<'t>,
    /// What the replies for it contain.
    pub reply: NameReply<'t>,
    /// The service that it is about, or that the longest part of it that exists is about.
    pub service: Option<&'t Service>,
    /// All endpoints of that service, those that the replies contain first.
    pub endpoints: Vec<ListedEndpoint<'t>>,
    /// The key of that service, or of one that does not exist.
    pub key: Option<ServiceKey>,
    /// The labels below the zone, without `svc` in a zone with the grammar `mcs`.
    labels: Vec<&'t str>,
    grammar: &'t Grammar,
}

// === impl ReadName ===

impl<'t> ReadName<'t> {
    pub(super) fn new(shown: &'t Shown<'_>, table: &'t Table, name: &'t Name) -> Self {
        let zones = &*shown.server.zones;
        let zone = zones.find(name);
        let grammar = zone.map_or(&Grammar::Global, |(zone, _)| &zone.grammar);
        let count = zone.map_or(name.count(), |(_, count)| count);
        let mut labels: Vec<&str> = name.labels(count).into_iter().flatten().collect();
        labels.pop_if(|last| *grammar == Grammar::Mcs && *last == "svc");
        let reading = read(zones, table, name);
        let service = match &reading {
            Reading::View(_, view) => Some(view.service),
            Reading::Failing(_, service, _) => Some(*service),
            _ => service_of_labels(table, grammar, &labels),
        };
        let reply = NameReply::of_name(zones, &shown.published, name);
        let endpoints = service.iter().flat_map(|one| reply.endpoints(one));
        let mut endpoints: Vec<ListedEndpoint<'_>> = endpoints.collect();
        // The records have indexes of this order.
        endpoints.sort_by_key(|one| !one.is_returned);
        let key = match (service, labels.as_slice()) {
            (Some(service), _) => Some(service.key.clone()),
            (None, [.., service, namespace]) if zone.is_some() => {
                format!("{namespace}/{service}").parse().ok()
            }
            (None, _) => None,
        };
        Self {
            shown,
            table,
            name,
            reading,
            reply,
            service,
            endpoints,
            key,
            labels,
            grammar,
        }
    }

    /// Describes the meaning of the name.
    pub(super) fn describe(&self) -> String {
        let zones = &self.shown.server.zones;
        match &self.reading {
            Reading::Outside => match self.address() {
                Some(address) => match parts_of_address(self.table, address).first() {
                    Some(part) => part.describe(),
                    None => "not the address of an endpoint".to_owned(),
                },
                None => format!(
                    "in none of the zones of this server ({})",
                    join_texts(zones.iter().map(|zone| &zone.name), " ")
                ),
            },
            Reading::Apex(zone, _) => format!("the apex of zone {}", zone.name),
            Reading::NsHost(zone) if zone.ns_addresses.is_empty() => {
                "this server's own name; its address is not known: set answers.nsAddresses"
                    .to_owned()
            }
            Reading::NsHost(_) => "this server's own name".to_owned(),
            Reading::Version(_) => "the version of the Kubernetes DNS specification".to_owned(),
            Reading::Empty(_) => {
                "an empty non-terminal: names exist below it, and it has no records".to_owned()
            }
            Reading::Failing(_, service, failure) => {
                let counts = counted(self.endpoints.iter());
                let service = describe_service(&service.key);
                format!("{service}{counts}; the name fails: {failure}")
            }
            Reading::View(_, view) => self.describe_view(view),
            Reading::Missing(_, reason) => self.describe_missing(*reason),
        }
    }

    /// Returns the address, if it is one rather than a name.
    pub(super) fn address(&self) -> Option<IpAddr> {
        let text = self.name.to_string();
        text.trim_end_matches('.').parse().ok()
    }

    /// Describes the part of a service that the name stands for.
    fn describe_view(&self, view: &View<'_>) -> String {
        let mut text = describe_service(&view.service.key);
        let first = view.covered().first();
        let [host, cluster] = first.map(|one| one.labels()).unwrap_or_default();
        if view.scope >= Scope::Cluster {
            text += &format!(", cluster '{cluster}'");
        }
        if view.scope == Scope::Host {
            text += &format!(", endpoint '{host}'");
        }
        if let Some(port) = view.port
            && let Some(name) = &port.name
        {
            text += &format!(", port '{name}' over {}", port.protocol.label());
        }
        text += &counted(self.endpoints.iter().filter(|one| match view.scope {
            Scope::Service => true,
            Scope::Cluster => one.cluster() == cluster,
            Scope::Host => one.endpoint.labels() == [host, cluster],
        }));
        if view.scope == Scope::Service {
            text += &self.describe_lacking(view.service);
        }
        text
    }

    /// Names the linked clusters that lack a service which others of them have (L2b).
    fn describe_lacking(&self, service: &Service) -> String {
        let linked = self.table.linked_clusters();
        let own = service.all_clusters().collect();
        let lacking = &linked - &own;
        if lacking.is_empty() || lacking.len() == linked.len() {
            return String::new();
        }
        let lacking = list_some(lacking, MAX_CLUSTERS);
        format!("; linked, without this service: {lacking}")
    }

    /// Describes why the cluster before the name of a service, as the labels have it, has no name.
    fn describe_no_cluster(&self, labels: &[&str]) -> String {
        let Some(service) = self.service else {
            return "a service without endpoints in that cluster".to_owned();
        };
        let [name, namespace] = service.key.labels();
        let cluster = match labels {
            // The zone says the cluster.
            _ if let Grammar::Cluster(cluster) = self.grammar => cluster.as_str(),
            [.., cluster, own, last] if [*own, *last] == [name, namespace] => cluster,
            [.., cluster, _] => cluster,
            _ => "",
        };
        if is_among(service.federated.iter(), cluster) {
            let all = list_some(&service.federated, MAX_CLUSTERS);
            return format!(
                "one address stands for the clusters {all}, so that none has a name of its own"
            );
        }
        if is_among(self.table.linked_clusters(), cluster) {
            return format!(
                "cluster '{cluster}' is linked, and this service is not mirrored from it: export it there with ports, and with \
                hostnames if it is headless"
            );
        }
        let pods = service.clusters_of_host(cluster);
        if let Some(first) = pods.first() {
            let example = format!("{cluster}.{first}.{name}.{namespace}");
            let all = list_some(&pods, MAX_CLUSTERS);
            return format!(
                "'{cluster}' is a pod in {all}: its name has the cluster before the service, such as {example}"
            );
        }
        let link = ClusterName::interned(cluster).ok();
        let link = link.and_then(|link| self.table.links.clusters.get(&link));
        if let Some(link) = link.filter(|link| link.cluster.as_str() != cluster) {
            let name = &link.cluster;
            return format!("clusterAliases renames cluster '{cluster}' to '{name}'");
        }
        if self.table.knows_cluster(cluster) || is_among(service.all_clusters(), cluster) {
            return format!("the service has no endpoint in cluster '{cluster}'");
        }
        let nearest = nearest_hint(self.table, cluster);
        format!("no mirror and no Link names a cluster '{cluster}'{nearest}")
    }

    /// Describes why the name does not exist.
    fn describe_missing(&self, reason: MissingReason) -> String {
        let (watched, zones) = (&self.shown.server.namespaces, &self.shown.server.zones);
        let mut own = self.labels.clone();
        own.retain(|label| !label.starts_with('_'));
        let short = own.last().and_then(|label| self.table.short_name(label));
        match (reason, own.as_slice(), short) {
            (MissingReason::NoForm, ..) => match self.grammar {
                Grammar::Mcs => {
                    "not a valid form of name: those of KEP-1645 look like db.prod.svc, db-0.west.db.prod.svc and _sql._tcp.db.prod.svc"
                }
                Grammar::Cluster(_) => {
                    "not a valid form of name: those of one cluster look like db.prod and db-0.db.prod, and with _sql._tcp before them"
                }
                Grammar::Global => {
                    "not a valid form of name: names look like db.prod, west.db.prod and db-0.west.db.prod, also without the \
                     namespace, and with _sql._tcp before them"
                }
            },
            (MissingReason::NoOwner, [.., name], Some(short)) => {
                return describe_no_owner(self.table, name, short);
            }
            (MissingReason::NoService | MissingReason::NoOwner, [.., service, namespace], _) => {
                if let Some(part) = part_of_object(self.table, &own.join("."))
                    && zones.iter().all(|zone| part.name_in(zone).is_none())
                {
                    return part.describe();
                }
                let is_watched =
                    watched.is_empty() || watched.iter().any(|one| one.as_str() == *namespace);
                let why = if is_watched {
                    NO_MIRROR
                } else {
                    "the setting namespaces does not have this one"
                };
                return format!("no service '{service}' in namespace '{namespace}': {why}");
            }
            (MissingReason::NoService | MissingReason::NoOwner, ..) => {
                "a short name that no service has"
            }
            (MissingReason::NoEndpoint, ..) => "a service without endpoints",
            (MissingReason::NoCluster, labels, _) => {
                return self.describe_no_cluster(labels);
            }
            (MissingReason::NoHost, ..) => "a cluster without an endpoint of that hostname",
            (MissingReason::NoPort, ..) => "a name without an endpoint with that port",
        }
        .to_owned()
    }

    /// Returns the problems of the service, of its objects and clusters, and of the name itself. If there is no service: those of the
    /// objects that would make one.
    pub(super) fn problems(&self) -> BTreeSet<Problem> {
        let key = self.key.as_ref();
        let clusters = self.service.iter().flat_map(|one| one.all_clusters());
        let clusters: BTreeSet<&ClusterName> = clusters.chain(self.grammar.cluster()).collect();
        let concerns = |one: &&Problem| {
            if one.service.is_some() {
                one.service.as_ref() == key
            } else if let Some(object) = one.objects.first() {
                // Only the name of the object is known.
                key.map(ServiceKey::labels)
                    .is_some_and(|[service, namespace]| {
                        object.key.name.text().contains(service)
                            && *object.key.namespace == *namespace
                    })
            } else if let Some(name) = &one.name {
                self.is_concerned(one.kind, name)
            } else {
                one.cluster
                    .as_ref()
                    .is_some_and(|one| clusters.contains(one))
            }
        };
        let non_member = key.and_then(|key| self.table.non_member(key));
        let problems = self.table.problems().filter(concerns);
        problems.chain(non_member).cloned().collect()
    }

    /// Returns whether the problem of a name concerns this one: it is this one, hides it, or is the short name of its service.
    fn is_concerned(&self, kind: ProblemKind, name: &str) -> bool {
        let own = self.labels.join(".");
        // A name that is hidden hides the names below it. Below an ambiguous short name, no name exists.
        let hides = kind == ProblemKind::Shadowed
            || matches!(&self.reading, Reading::Missing(_, MissingReason::NoOwner));
        let is_within = |one: &str, name: &str| {
            let before = one.strip_suffix(name);
            before.is_some_and(|labels| labels.is_empty() || labels.ends_with('.'))
        };
        let is_short = |service: &Service| is_within(name, service.key.service.as_str());
        own == name || hides && is_within(&own, name) || self.service.is_some_and(is_short)
    }
}

/// Returns the service of the last labels.
fn service_of_labels<'t>(
    table: &'t Table,
    grammar: &Grammar,
    labels: &[&str],
) -> Option<&'t Service> {
    let canonical = match labels {
        [.., service, namespace] => table.service(namespace, service),
        _ => None,
    };
    if *grammar != Grammar::Global {
        return canonical;
    }
    canonical
        .filter(|service| !yields(table, service))
        .or_else(|| table.short_service(labels.last()?))
}

/// Returns whether one of some clusters has a name.
fn is_among<'c>(clusters: impl IntoIterator<Item = &'c ClusterName>, name: &str) -> bool {
    clusters.into_iter().any(|one| one.as_str() == name)
}

fn describe_service(key: &ServiceKey) -> String {
    format!("service '{}' in namespace '{}'", key.service, key.namespace)
}

/// Returns how many of the endpoints the replies contain.
fn counted<'t>(endpoints: impl Iterator<Item = &'t ListedEndpoint<'t>> + Clone) -> String {
    let returned = endpoints.clone().filter(|one| one.is_returned).count();
    match endpoints.count() {
        0 => ": no endpoints".to_owned(),
        1 => format!(": {returned} of 1 endpoint"),
        count => format!(": {returned} of {count} endpoints"),
    }
}

/// Describes a short name without an owner.
fn describe_no_owner(table: &Table, name: &str, short: &ShortName) -> String {
    let claimants = |claims: &[Claim]| {
        let name = name.parse().unwrap_or_default();
        let services = claims
            .iter()
            .flat_map(|claim| table.claimants(&name, *claim));
        let namespaces: BTreeSet<_> = services.map(|one| &one.namespace).collect();
        list_some(namespaces, MAX_NAMESPACES)
    };
    let reason = match short.owner.as_ref().err() {
        Some(NoOwner::Ambiguous) => {
            let namespaces = claimants(&[Claim::Headless]);
            return format!("ambiguous: '{name}' exists in the namespaces {namespaces}");
        }
        Some(NoOwner::Pinned(namespace)) => {
            format!("'{name}' is pinned to namespace '{namespace}', which has no such service")
        }
        Some(NoOwner::Off) => "short names are off".to_owned(),
        Some(NoOwner::Unpinned) | None => {
            format!("no setting assigns the short name '{name}' to a namespace (shortNames.pinned)")
        }
    };
    let namespaces = claimants(&[Claim::Other, Claim::OtherWithSettings, Claim::Headless]);
    format!("{reason}; namespaces that have it: {namespaces}")
}
