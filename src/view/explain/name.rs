//! The name that is explained: what it means, the service that it is about, and the problems that concern it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::nearest::{Part, part_of_object, parts_of_address};
use crate::model::{ClusterName, Port, Problem, ProblemKind, ServiceKey, join_texts, list_some};
use crate::table::{Claim, NoOwner, Service, ShortName, Table};
use crate::view::{ListedEndpoint, NameReply, Shown};
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
        let mut read = Self {
            reading: read(zones, table, name),
            reply: NameReply::of_name(zones, &shown.published, name),
            service: None,
            endpoints: Vec::new(),
            key: None,
            shown,
            table,
            name,
            labels,
            grammar,
        };
        read.service = match &read.reading {
            Reading::View(_, view) => Some(view.service),
            Reading::Failing(_, service, _) => Some(service),
            _ => read.service_of_labels(),
        };
        read.endpoints.extend(
            read.service
                .iter()
                .flat_map(|one| read.reply.endpoints(one)),
        );
        // The records have indexes of this order.
        read.endpoints.sort_by_key(|one| !one.is_returned);
        read.key = read
            .service
            .map(|service| service.key.clone())
            .or_else(|| read.key_of_labels().filter(|_| zone.is_some()));
        read
    }

    /// Returns the service of the last labels.
    fn service_of_labels(&self) -> Option<&'t Service> {
        let canonical = match self.labels.as_slice() {
            [.., service, namespace] => self.table.service(namespace, service),
            _ => None,
        };
        if *self.grammar != Grammar::Global {
            return canonical;
        }
        canonical
            .filter(|service| !yields(self.table, service))
            .or_else(|| self.table.short_service(self.labels.last()?))
    }

    fn key_of_labels(&self) -> Option<ServiceKey> {
        let [.., service, namespace] = self.labels.as_slice() else {
            return None;
        };
        format!("{namespace}/{service}").parse().ok()
    }

    /// Describes the meaning of the name.
    pub(super) fn describe(&self) -> String {
        let zones = &self.shown.server.zones;
        match &self.reading {
            Reading::Outside => {
                if let Some(address) = self.address() {
                    let parts = parts_of_address(self.table, address);
                    let text = parts.first().map(Part::describe);
                    return text.unwrap_or_else(|| "not the address of an endpoint".to_owned());
                }
                format!(
                    "in none of the zones of this server ({})",
                    join_texts(zones.iter().map(|zone| &zone.name), " ")
                )
            }
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
                let (service, counts) = (describe_service(&service.key), counted(&self.endpoints));
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
        let [host, cluster] = view
            .covered()
            .first()
            .map(|one| one.labels())
            .unwrap_or_default();
        let mut counted_ones = self.endpoints.clone();
        if view.scope >= Scope::Cluster {
            text += &format!(", cluster '{cluster}'");
            counted_ones.retain(|one| one.cluster() == cluster);
        }
        if view.scope == Scope::Host {
            text += &format!(", endpoint '{host}'");
            counted_ones.retain(|one| one.endpoint.labels()[0] == host);
        }
        let describe_port = |port: &Port| {
            let (name, protocol) = (port.name.as_ref()?, port.protocol.label());
            Some(format!(", port '{name}' over {protocol}"))
        };
        text += &view.port.and_then(describe_port).unwrap_or_default();
        text += &counted(&counted_ones);
        if view.scope < Scope::Cluster {
            text += &self.describe_lacking(view.service);
        }
        text
    }

    /// Names the linked clusters that lack a service which others of them have (L2b).
    fn describe_lacking(&self, service: &Service) -> String {
        let mut lacking = self.table.linked_clusters();
        let linked = lacking.len();
        for own in service.all_clusters() {
            lacking.remove(own);
        }
        if lacking.is_empty() || lacking.len() == linked {
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
        let federated = service.federated.iter();
        if federated.clone().any(|one| one.as_str() == cluster) {
            let all = list_some(federated, MAX_CLUSTERS);
            return format!(
                "one address stands for the clusters {all}, so that none has a name of its own"
            );
        }
        let is_linked = self
            .table
            .linked_clusters()
            .into_iter()
            .any(|one| one.as_str() == cluster);
        if is_linked {
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
        if let Some(name) = link
            .map(|link| &link.cluster)
            .filter(|name| name.as_str() != cluster)
        {
            return format!("clusterAliases renames cluster '{cluster}' to '{name}'");
        }
        let mut own = service.all_clusters();
        let is_known = self.table.knows_cluster(cluster) || own.any(|one| one.as_str() == cluster);
        match self.table.nearest_cluster(cluster) {
            _ if is_known => format!("the service has no endpoint in cluster '{cluster}'"),
            Some(nearest) => format!(
                "no mirror and no Link names a cluster '{cluster}'; the nearest name is '{nearest}'"
            ),
            None => format!("no mirror and no Link names a cluster '{cluster}'"),
        }
    }

    /// Describes why the name does not exist.
    fn describe_missing(&self, reason: MissingReason) -> String {
        let (watched, zones) = (&self.shown.server.namespaces, &self.shown.server.zones);
        let own = self.labels.iter().filter(|label| !label.starts_with('_'));
        let own: Vec<&str> = own.copied().collect();
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
                return describe_no_owner(name, short);
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
        let concerns = |problem: &&Problem| match (&problem.service, problem.objects.first()) {
            (Some(own), _) => key == Some(own),
            // Only the name of the object is known.
            (None, Some(object)) => key.is_some_and(|key| {
                let [service, namespace] = key.labels();
                object.key.name.text().contains(service) && *object.key.namespace == *namespace
            }),
            (None, None) => match (&problem.name, &problem.cluster) {
                (Some(name), _) => self.is_concerned(problem.kind, name),
                (None, Some(cluster)) => {
                    let mut clusters = self
                        .service
                        .iter()
                        .flat_map(|service| service.all_clusters());
                    *self.grammar == Grammar::Cluster(cluster.clone())
                        || clusters.any(|own| own == cluster)
                }
                (None, None) => false,
            },
        };
        let non_member = key.and_then(|key| self.table.non_member(key));
        self.table
            .problems()
            .filter(concerns)
            .chain(non_member)
            .cloned()
            .collect()
    }

    /// Returns whether the problem of a name concerns this one: it is this one, hides it, or is the short name of its service.
    fn is_concerned(&self, kind: ProblemKind, name: &str) -> bool {
        let own = self.labels.join(".");
        // A name that is hidden hides the names below it. Below an ambiguous short name, no name exists.
        let hides = kind == ProblemKind::Shadowed
            || matches!(&self.reading, Reading::Missing(_, MissingReason::NoOwner));
        let is_below = |own: &str, name: &str| {
            let labels = own.strip_suffix(name);
            labels.is_some_and(|labels| labels.ends_with('.'))
        };
        let is_own = own == name || hides && is_below(&own, name);
        let is_short = |service: &Service| {
            let service = service.key.service.as_str();
            name == service || is_below(name, service)
        };
        is_own || self.service.is_some_and(is_short)
    }
}

fn describe_service(key: &ServiceKey) -> String {
    format!("service '{}' in namespace '{}'", key.service, key.namespace)
}

/// Returns how many of the endpoints the replies contain.
fn counted(endpoints: &[ListedEndpoint<'_>]) -> String {
    let returned = endpoints.iter().filter(|one| one.is_returned).count();
    match endpoints.len() {
        0 => ": no endpoints".to_owned(),
        1 => format!(": {returned} of 1 endpoint"),
        count => format!(": {returned} of {count} endpoints"),
    }
}

/// Describes a short name without an owner.
fn describe_no_owner(name: &str, short: &ShortName) -> String {
    let reason = match short.owner.as_ref().err() {
        Some(NoOwner::Ambiguous) => {
            let namespaces = list_some(short.namespaces(Claim::Headless), MAX_NAMESPACES);
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
    let namespaces = list_some(short.namespaces(Claim::Other), MAX_NAMESPACES);
    format!("{reason}; namespaces that have it: {namespaces}")
}
