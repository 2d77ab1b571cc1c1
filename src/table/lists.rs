//! Lists of parts of a table.

use super::content::Table;
use super::service::Service;

// === impl Table ===

impl Table {
    /// Returns the names of all namespaces with services, in no particular order.
    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.services.namespaces()
    }

    /// Returns whether a namespace has services, with or without endpoints.
    pub fn has_namespace(&self, namespace: &str) -> bool {
        self.services.has_namespace(namespace)
    }

    /// Returns the services of a namespace, including those without endpoints, in no particular order.
    pub fn services_in(&self, namespace: &str) -> impl Iterator<Item = &Service> {
        self.services.in_namespace(namespace)
    }

    /// Returns all short names, in no particular order.
    pub fn short_names(&self) -> impl Iterator<Item = &str> {
        self.short_names.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the services whose names wait for expected clusters (rule K8), sorted. The cost does not depend on the other
    /// services.
    pub fn waiting_services(&self) -> impl Iterator<Item = &Service> {
        self.waiting.iter().filter_map(|key| self.find(key))
    }

    /// Returns the number of services whose names wait for expected clusters.
    pub fn waiting_count(&self) -> usize {
        self.waiting.size()
    }
}
