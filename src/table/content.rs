//! The [`Table`]: all services, the owners of short names, and the indexes that answers need.

use std::collections::BTreeSet;
use std::sync::Arc;

use rpds::RedBlackTreeSetSync;

use super::endpoint::{Endpoint, ServiceKind};
use super::links::LinkStates;
use super::service::Service;
use super::shared::{SharedMap, set};
use super::short_name::ShortName;
use super::store::Skipped;
use crate::model::{ClusterName, Hostname, Namespace, Problem, ServiceKey, ServiceName, Text};

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
    /// The clusters that something here knows (rule K5a).
    pub(super) known_clusters: Arc<BTreeSet<ClusterName>>,
    /// The hosts that headless mirrors list and that have no endpoint mirror, each with its service (rule M1b).
    pub(super) listed_hosts: RedBlackTreeSetSync<HostOfService>,
    /// The problems of links: one for each cluster that nobody maintains, and one if the states are unknown. Sorted.
    pub(super) link_problems: Arc<[Problem]>,
    /// The problems of names that names of zones hide. Sorted.
    pub(super) zone_problems: Arc<[Problem]>,
}

/// A host that a headless mirror lists: its namespace, its hostname, and the service. A Service with the name of the host can stand
/// for it (rule M1b). Without a service, it comes before those with one.
pub(super) type HostOfService = (Text, Text, Option<ServiceKey>);

/// The services of one namespace.
#[derive(Clone, Debug, Default, PartialEq)]
struct NamespaceServices {
    services: SharedMap<ServiceName, Arc<Service>>,
    /// Number of services that have names. If it is not zero, names exist below the namespace's name (RFC 8020).
    with_names: usize,
}

thread_local! {
    /// Number of times that this thread has begun to list the services of a namespace or of all namespaces.
    pub(crate) static LISTINGS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

// === impl Table ===

impl Table {
    /// Returns a service.
    pub fn service(&self, namespace: &str, service: &str) -> Option<&Service> {
        self.shared(namespace, service).map(AsRef::as_ref)
    }

    /// Returns the service of a key.
    pub fn find(&self, key: &ServiceKey) -> Option<&Service> {
        self.service(key.namespace.as_str(), key.service.as_str())
    }

    /// Returns a service that tables share.
    pub(super) fn shared(&self, namespace: &str, service: &str) -> Option<&Arc<Service>> {
        self.namespaces.get(namespace)?.services.get(service)
    }

    /// Returns all services, including those without endpoints, in no particular order.
    pub fn services(&self) -> impl Iterator<Item = &Service> {
        #[cfg(test)]
        LISTINGS.set(LISTINGS.get() + 1);
        let namespaces = self.namespaces.iter();
        let services = namespaces.flat_map(|(_, namespace)| namespace.services.iter());
        services.map(|(_, service)| service.as_ref())
    }

    /// Returns all services, including those without endpoints, sorted by namespace and name.
    pub fn sorted_services(&self) -> Vec<&Service> {
        let mut services: Vec<_> = self.services().collect();
        services.sort_by_key(|service| &service.key);
        services
    }

    /// Returns the services of a namespace, including those without endpoints, in no particular order.
    pub fn services_in(&self, namespace: &str) -> impl Iterator<Item = &Service> {
        #[cfg(test)]
        LISTINGS.set(LISTINGS.get() + 1);
        let namespace = self.namespaces.get(namespace).into_iter();
        let services = namespace.flat_map(|namespace| namespace.services.iter());
        services.map(|(_, service)| service.as_ref())
    }

    /// Returns whether a namespace has services, with or without endpoints.
    pub fn has_namespace(&self, namespace: &str) -> bool {
        self.namespaces.get(namespace).is_some()
    }

    /// Returns whether names exist below the name of a namespace. If so, it is an empty non-terminal (RFC 8020).
    pub fn has_names_in(&self, namespace: &str) -> bool {
        let namespace = self.namespaces.get(namespace);
        namespace.is_some_and(|namespace| namespace.with_names > 0)
    }

    /// Returns whether a service has names.
    pub fn has_names(&self) -> bool {
        let mut namespaces = self.namespaces.iter();
        namespaces.any(|(_, namespace)| namespace.with_names > 0)
    }

    /// Replaces a service with its new version. Returns whether they differ.
    pub(super) fn replace(&mut self, key: &ServiceKey, new: Option<Arc<Service>>) -> bool {
        let ServiceKey { namespace, service } = key;
        let old = self.shared(namespace.as_str(), service.as_str());
        if old == new.as_ref() {
            return false; // the shared maps are not copied
        }
        let has_names = |service: Option<&Arc<Service>>| {
            service.is_some_and(|service| service.has_names_at(&[]))
        };
        let (had_names, has_names) = (has_names(old), has_names(new.as_ref()));
        let gone = old.map_or_else(Vec::new, |old| listed_hosts(old));
        let added = new.as_deref().map_or_else(Vec::new, listed_hosts);
        for host in gone {
            self.listed_hosts.remove_mut(&host);
        }
        for host in added {
            self.listed_hosts.insert_mut(host);
        }
        let changed = self.namespaces.get(namespace).cloned();
        let mut changed = changed.unwrap_or_default();
        // The namespace is removed first, so that its nodes are copied once for each build and not for each of its services.
        self.namespaces.remove_mut(namespace);
        changed.with_names = changed.with_names + usize::from(has_names) - usize::from(had_names);
        set(&mut changed.services, service, new);
        if !changed.services.is_empty() {
            self.namespaces.insert_mut(namespace.clone(), changed);
        }
        true
    }

    /// Returns the service that owns a short name.
    pub fn short_service(&self, service: &str) -> Option<&Service> {
        self.short_name(service)?.owner.as_deref().ok()
    }

    /// Returns whether a service owns its short name.
    pub fn owns_short_name(&self, key: &ServiceKey) -> bool {
        let owner = self.short_service(key.service.as_str());
        owner.is_some_and(|owner| owner.key == *key)
    }

    /// Returns the owner of a short name and the namespaces with such a service, if a namespace has the service.
    pub fn short_name(&self, service: &str) -> Option<&ShortName> {
        self.short_names.get(service)
    }
}

/// Returns the hosts of a service that depend on a Service of their own, or may do so.
fn listed_hosts(service: &Service) -> Vec<HostOfService> {
    let missing = service.missing.iter();
    let missing = missing.map(|host| (&host.mirror.key.namespace, &host.hostname));
    // An endpoint of several objects has the kind of the first one.
    let is_adopted = |endpoint: &&Endpoint| {
        let is_mirror = matches!(endpoint.kind, ServiceKind::Gateway | ServiceKind::Flat);
        is_mirror || endpoint.objects.len() > 1
    };
    let adopted = service.endpoints.iter().filter(is_adopted);
    let adopted = adopted.flat_map(|endpoint| {
        let namespaces = endpoint.objects.iter().map(|object| &object.key.namespace);
        namespaces.filter_map(|namespace| Some((namespace, endpoint.hostname.as_ref()?)))
    });
    let host = |(namespace, hostname): (&Text, &Hostname)| {
        let key = Some(service.key.clone());
        (namespace.clone(), hostname.text().clone(), key)
    };
    missing.chain(adopted).map(host).collect()
}
