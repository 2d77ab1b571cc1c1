//! The services of all namespaces.

use std::sync::Arc;

use super::service::Service;
use super::shared::SharedMap;
use crate::model::{Namespace, ServiceKey, ServiceName};

/// The services of all namespaces. A clone is cheap, because it shares its content with the original.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Services {
    namespaces: SharedMap<Namespace, Arc<NamespaceServices>>,
}

/// The services of one namespace.
#[derive(Clone, Debug, Default, PartialEq)]
struct NamespaceServices {
    services: SharedMap<ServiceName, Arc<Service>>,
    /// Number of services that have names. If it is not zero, names exist below the namespace's name (RFC 8020).
    with_names: usize,
}

#[cfg(test)]
thread_local! {
    /// Number of times that this thread has begun to list the services of a namespace or of all namespaces.
    pub(crate) static LISTINGS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

// === impl Services ===

impl Services {
    /// Returns a service.
    pub fn service(&self, namespace: &str, service: &str) -> Option<&Service> {
        self.shared(namespace, service).map(AsRef::as_ref)
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

    /// Returns the names of all namespaces with services, in no particular order.
    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.namespaces.iter().map(|(name, _)| name.as_str())
    }

    /// Returns whether a namespace has services, with or without endpoints.
    pub fn has_namespace(&self, namespace: &str) -> bool {
        self.namespaces.get(namespace).is_some()
    }

    /// Returns the services of a namespace, including those without endpoints, in no particular order.
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Service> {
        #[cfg(test)]
        LISTINGS.set(LISTINGS.get() + 1);
        let namespace = self.namespaces.get(namespace).into_iter();
        let services = namespace.flat_map(|namespace| namespace.services.iter());
        services.map(|(_, service)| service.as_ref())
    }

    /// Returns all services, including those without endpoints, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Service> {
        #[cfg(test)]
        LISTINGS.set(LISTINGS.get() + 1);
        let namespaces = self.namespaces.iter();
        let services = namespaces.flat_map(|(_, namespace)| namespace.services.iter());
        services.map(|(_, service)| service.as_ref())
    }

    /// Returns all services, including those without endpoints, sorted by namespace and name.
    pub fn sorted(&self) -> Vec<&Service> {
        let mut services: Vec<_> = self.iter().collect();
        services.sort_by_key(|service| &service.key);
        services
    }

    /// Returns the number of services.
    pub(super) fn len(&self) -> usize {
        let namespaces = self.namespaces.iter();
        namespaces.map(|(_, one)| one.services.len()).sum()
    }

    /// Returns a service that tables share.
    pub(super) fn shared(&self, namespace: &str, service: &str) -> Option<&Arc<Service>> {
        self.namespaces.get(namespace)?.services.get(service)
    }

    /// Replaces a service with its new version. Returns whether they differ.
    pub(super) fn replace(&mut self, key: &ServiceKey, service: Option<Arc<Service>>) -> bool {
        let old = self.shared(key.namespace.as_str(), key.service.as_str());
        if old == service.as_ref() {
            return false; // the shared maps are not copied
        }
        // The namespace is removed first, so that it is copied once for each build and not for each of its services.
        let mut namespace = self.namespaces.remove(&key.namespace).unwrap_or_default();
        let changed = Arc::make_mut(&mut namespace);
        let has_names = |service: Option<&Arc<Service>>| {
            usize::from(service.is_some_and(|service| service.has_names()))
        };
        changed.with_names += has_names(service.as_ref());
        let old = match service {
            Some(service) => changed.services.insert(key.service.clone(), service),
            None => changed.services.remove(&key.service),
        };
        changed.with_names -= has_names(old.as_ref());
        if !changed.services.is_empty() {
            self.namespaces.insert(key.namespace.clone(), namespace);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{endpoint, mirror, service_keys, table};

    /// The services `db`, which has a name, and `web`, which has none, in one namespace.
    fn db_and_web() -> Services {
        let objects = [
            mirror("prod", "db", "east"),
            endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
            mirror("prod", "web", "east"),
        ];
        table(&objects).all().clone()
    }

    #[test]
    fn namespace_has_names_until_its_last_service_with_names_is_gone() {
        let mut services = db_and_web();
        assert!(services.has_names_in("prod") && services.has_names());
        let db = service_keys(&["db"]).pop_first().unwrap();
        services.replace(&db, None);
        assert!(services.has_namespace("prod"));
        assert!(!services.has_names_in("prod") && !services.has_names());
    }
}
