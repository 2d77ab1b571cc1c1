//! The [`Table`]: all services, the owners of short names, and the indexes that answers need. A [`Published`] one has numbers.

use std::collections::BTreeMap;
use std::sync::Arc;

use rpds::RedBlackTreeSetSync;
use strum::VariantArray;

use super::links::LinkStates;
use super::service::Service;
use super::shared::{SharedMap, set};
use super::store::Skipped;
use crate::model::{
    ClusterName, ClusterTerm, Namespace, Problem, ProblemKind, ServiceKey, ServiceName, Timestamp,
};

/// All that is served at one time. A clone is cheap, because it shares its content with the original.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    namespaces: SharedMap<Namespace, NamespaceServices>,
    pub(super) short_names: SharedMap<ServiceName, ShortName>,
    /// Why headless Services of this cluster are not members. Their endpoints are not served.
    pub(super) non_members: SharedMap<ServiceKey, Arc<Problem>>,
    pub(super) skipped: Skipped,
    /// The clusters of Linkerd's mirrors and the state of their Links.
    pub links: Arc<LinkStates>,
    /// The services that can stand for a host of another one, which lists it without an endpoint mirror (rule M1b), each with that one.
    pub(super) listed_hosts: ServiceIndex<ServiceKey>,
    /// The clusters that the failover order of a service names, each with the service.
    pub(super) ordered: ServiceIndex<ClusterName>,
    /// The services with a claim to their short name, by name and claim.
    claims: ServiceIndex<(ServiceName, Claim)>,
}

/// Services by something that several of them can have.
type ServiceIndex<K> = RedBlackTreeSetSync<(K, ServiceKey)>;

/// A table with the numbers that identify it.
#[derive(Debug, Default)]
pub struct Published {
    /// The table. `None` before the first complete table.
    pub table: Option<Table>,
    /// Number of swaps since the start of the process. It tells clients of the API whether their copy is current.
    pub version: u64,
    /// Number of published tables with other answers than the previous one, starting at 1.
    pub generation: u64,
    /// SOA serial (RFC 1035 section 3.3.13). It changes with the generation.
    pub serial: u32,
    /// The time since which there is a table, or none.
    pub since: Option<Timestamp>,
}

/// How two tables differ, the least first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// Not at all.
    #[default]
    None,
    /// In problems, or in what views show of services, such as endpoints that are down and answered all the same.
    State,
    /// In answers.
    Answers,
}

/// The services of one namespace.
#[derive(Clone, Debug, Default, PartialEq)]
struct NamespaceServices {
    services: SharedMap<ServiceName, Arc<Service>>,
    /// Number of services that have names. If it is not zero, names exist below the namespace's name (RFC 8020).
    with_names: usize,
    /// The number of services with names in the zone of each of these clusters. It is not zero.
    of_clusters: BTreeMap<ClusterName, usize>,
}

/// The owner of the short name `S.Z`. The history keeps one for each change of it, so that it must not have all namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShortName {
    /// The namespace whose service owns it, or the reason for which none does.
    pub owner: Result<Namespace, NoOwner>,
    /// That it is ambiguous, or one for each name of its owner, such as `C.S.Z`, that a canonical name or the zone hides. Sorted.
    pub problems: Box<[Problem]>,
}

/// The claim of a namespace to the short name of its service, the weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, VariantArray)]
pub enum Claim {
    /// The name of the service fails before anything of it exists. A setting assigns the short name to it if it is not that of
    /// another namespace.
    Failing,
    /// The same, and the Service of this cluster is headless. If it is the only one, the short name is its own without a
    /// setting, until a headless service exists.
    FailingHeadless,
    /// The service is not headless. Only a setting assigns the short name to it.
    Other,
    /// The same, beside a headless Service of this cluster that only has settings. If it is the only one, the short name is its own
    /// without a setting, until a headless service exists (rule M5).
    OtherWithSettings,
    /// The service is headless. If it is the only one, the short name is its own without a setting.
    Headless,
}

/// The reason for which a short name has no owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoOwner {
    /// `shortNames.which: none`.
    Off,
    /// `shortNames.pinned` assigns it to a namespace that does not have the service.
    Pinned(Namespace),
    /// No setting assigns it to a namespace that has the service, and it needs one: with `shortNames.which: pinned`, or because
    /// the service is not headless.
    Unpinned,
    /// Several namespaces have the service, and no setting assigns the name.
    Ambiguous,
}

// === impl Published ===

impl Published {
    /// Returns the same without the services of the table, and without the indexes of them that only builds need: they have nodes of
    /// their own for each table.
    pub(super) fn without_services(&self) -> Self {
        let table = self.table.as_ref().map(|table| Table {
            namespaces: SharedMap::default(),
            listed_hosts: ServiceIndex::default(),
            ordered: ServiceIndex::default(),
            claims: ServiceIndex::default(),
            ..table.clone()
        });
        Self { table, ..*self }
    }

    /// Returns the problem that there is no table, if there is none.
    pub fn problem(&self) -> Option<Problem> {
        if self.table.is_some() {
            return None;
        }
        Some(Problem::new(ProblemKind::NoTable, "refusing queries").holds_since(self.since))
    }
}

// === impl Table ===

impl Table {
    /// Makes a table of the past: the current one with other versions of some services, and everything else as in `rest`.
    pub(super) fn of_past(
        current: &Self,
        rest: &Self,
        versions: impl IntoIterator<Item = (ServiceKey, Option<Arc<Service>>)>,
    ) -> Self {
        let mut past = current.clone();
        for (key, version) in versions {
            past.replace(&key, version);
        }
        Self {
            namespaces: past.namespaces,
            listed_hosts: past.listed_hosts,
            ordered: past.ordered,
            claims: past.claims,
            ..rest.clone()
        }
    }

    /// Returns a service.
    pub fn service(&self, namespace: &str, service: &str) -> Option<&Service> {
        let services = &self.namespaces.get(namespace)?.services;
        services.get(service).map(AsRef::as_ref)
    }

    /// Returns the service of a key.
    pub fn find(&self, key: &ServiceKey) -> Option<&Service> {
        self.shared(key).map(AsRef::as_ref)
    }

    /// Returns the service of a key, which tables share.
    pub(super) fn shared(&self, key: &ServiceKey) -> Option<&Arc<Service>> {
        self.namespaces
            .get(&key.namespace)?
            .services
            .get(&key.service)
    }

    /// Returns all services, including those without endpoints, in no particular order.
    pub fn services(&self) -> impl Iterator<Item = &Service> {
        list(self.namespaces.values())
    }

    /// Returns all services, including those without endpoints, sorted by namespace and name.
    pub fn sorted_services(&self) -> Vec<&Service> {
        let mut services: Vec<_> = self.services().collect();
        services.sort_by_key(|service| &service.key);
        services
    }

    /// Returns the services of a namespace, including those without endpoints, in no particular order.
    pub fn services_in(&self, namespace: &str) -> impl Iterator<Item = &Service> {
        list(self.namespaces.get(namespace).into_iter())
    }

    /// Returns whether names exist below the name of a namespace. If so, it is an empty non-terminal (RFC 8020).
    pub fn has_names_in(&self, namespace: &str) -> bool {
        let namespace = self.namespaces.get(namespace);
        namespace.is_some_and(|namespace| namespace.with_names > 0)
    }

    /// Returns the same for the zone of one cluster.
    pub fn has_names_of(&self, cluster: &ClusterName, namespace: &str) -> bool {
        let namespace = self.namespaces.get(namespace);
        namespace.is_some_and(|namespace| namespace.of_clusters.contains_key(cluster))
    }

    /// Returns whether a service has names.
    pub fn has_names(&self) -> bool {
        self.namespaces
            .values()
            .any(|namespace| namespace.with_names > 0)
    }

    /// Replaces a service with its new version. Returns whether they differ.
    pub(super) fn replace(&mut self, key: &ServiceKey, new: Option<Arc<Service>>) -> bool {
        let ServiceKey { namespace, service } = key;
        let old = self.shared(key);
        if old == new.as_ref() {
            return false; // the shared maps are not copied
        }
        let old = old.cloned();
        let mut changed = self.namespaces.get(namespace).cloned().unwrap_or_default();
        // The namespace is removed first, so that its nodes are copied once for each build and not for each of its services.
        self.namespaces.remove_mut(namespace);
        if let Some(old) = &old {
            self.index(old, false);
            changed.count(old, false);
        }
        if let Some(new) = &new {
            self.index(new, true);
            changed.count(new, true);
        }
        changed.of_clusters.retain(|_, count| *count > 0);
        set(&mut changed.services, service, new);
        if !changed.services.is_empty() {
            self.namespaces.insert_mut(namespace.clone(), changed);
        }
        true
    }

    /// Adds a service to the indexes, or removes it from them.
    fn index(&mut self, service: &Service, is_added: bool) {
        let key = &service.key;
        for host in service.hosts.iter().cloned() {
            put(&mut self.listed_hosts, (host, key.clone()), is_added);
        }
        let failover = service.failover.iter();
        for term in failover.flat_map(|failover| failover.order.terms()) {
            if let ClusterTerm::Named(cluster) = term {
                put(&mut self.ordered, (cluster.clone(), key.clone()), is_added);
            }
        }
        if let Some(claim) = Claim::of(service) {
            let place = (key.service.clone(), claim);
            put(&mut self.claims, (place, key.clone()), is_added);
        }
    }

    /// Returns the services of all namespaces with a claim to a short name, sorted by namespace.
    pub fn claimants(&self, name: &ServiceName, claim: Claim) -> impl Iterator<Item = &ServiceKey> {
        services_of(&self.claims, (name.clone(), claim))
    }

    /// Returns the service that owns a short name.
    pub fn short_service(&self, service: &str) -> Option<&Service> {
        self.owner(service, self.short_name(service)?)
    }

    /// Returns the service that owns a short name that was looked up.
    pub fn owner(&self, service: &str, short: &ShortName) -> Option<&Service> {
        self.service(short.owner.as_ref().ok()?.as_str(), service)
    }

    /// Returns whether a service owns its short name.
    pub fn owns_short_name(&self, key: &ServiceKey) -> bool {
        let short = self.short_name(key.service.as_str());
        short.is_some_and(|short| short.owner.as_ref() == Ok(&key.namespace))
    }

    /// Returns the owner of a short name and the namespaces with such a service, if a namespace has the service.
    pub fn short_name(&self, service: &str) -> Option<&ShortName> {
        self.short_names.get(service)
    }
}

// === impl NamespaceServices ===

impl NamespaceServices {
    /// Counts the names of a service, or does not count them any more.
    fn count(&mut self, service: &Service, is_added: bool) {
        let change = |count: &mut usize| {
            *count = if is_added { *count + 1 } else { *count - 1 };
        };
        if service.has_names_at(&[]) {
            change(&mut self.with_names);
        }
        for cluster in &service.zone_clusters {
            change(self.of_clusters.entry(cluster.clone()).or_default());
        }
    }
}

// === impl ShortName ===

impl ShortName {
    /// Returns whether other names hide a part of those of its owner.
    pub fn has_hidden(&self) -> bool {
        self.owner.is_ok() && !self.problems.is_empty()
    }
}

/// Lists the services of namespaces.
fn list<'t>(
    namespaces: impl Iterator<Item = &'t NamespaceServices>,
) -> impl Iterator<Item = &'t Service> {
    #[cfg(test)]
    listings::LISTINGS.set(listings::LISTINGS.get() + 1);
    namespaces
        .flat_map(|namespace| namespace.services.values())
        .map(AsRef::as_ref)
}

/// Returns the services of a key, sorted.
pub(super) fn services_of<K: Ord + Clone>(
    index: &ServiceIndex<K>,
    key: K,
) -> impl Iterator<Item = &ServiceKey> {
    let first = (key.clone(), ServiceKey::default());
    index
        .range(first..)
        .take_while(move |(one, _)| *one == key)
        .map(|(_, service)| service)
}

/// Adds an entry to a set, or removes it.
fn put<T: Ord>(entries: &mut RedBlackTreeSetSync<T>, entry: T, is_added: bool) {
    if is_added {
        entries.insert_mut(entry);
    } else {
        entries.remove_mut(&entry);
    }
}

#[cfg(test)]
pub(crate) mod listings {
    thread_local! {
        /// Number of times that this thread has begun to list the services of a namespace or of all namespaces.
        pub(crate) static LISTINGS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    }
}
