//! The [`Table`]: all services, the owners of short names, and the indexes that answers need.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rpds::RedBlackTreeSetSync;

use super::index::{HostKey, Index};
use super::links::LinkStates;
use super::rules::NonMember;
use super::service::Service;
use super::services::Services;
use super::shared::SharedMap;
use super::short_name::ShortName;
use super::store::Skipped;
use crate::model::{ClusterName, Namespace, Problem, ServiceKey, ServiceName};

/// All that is served at one time. A clone is cheap, because it shares its content with the original.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub(super) services: Services,
    pub(super) short_names: SharedMap<ServiceName, Arc<ShortName>>,
    /// Headless Services of this cluster that are not members. Their endpoints are not served.
    pub(super) non_members: SharedMap<ServiceKey, NonMember>,
    pub(super) skipped: Skipped,
    /// The clusters of Linkerd's mirrors and the state of their Links.
    pub(super) links: Arc<LinkStates>,
    /// The clusters that something here knows (rule K5a).
    pub(super) known_clusters: KnownClusters,
    /// The services whose names wait for expected clusters (rule K8).
    pub(super) waiting: RedBlackTreeSetSync<ServiceKey>,
    /// Services by the hosts that their headless mirrors list and that have no endpoint mirror (rule M1b).
    pub(super) listed_hosts: Index<HostKey>,
    /// The problems of links: one for each cluster that nobody maintains, and one if the states are unknown. Sorted.
    pub(super) link_problems: Arc<[Problem]>,
    /// Problems of names, which concern several services.
    pub(super) name_problems: Arc<BTreeMap<NameScope, Vec<Problem>>>,
}

/// The clusters that something here knows. They are no part of what is served: the problems that follow from them are.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownClusters(pub(super) Arc<BTreeSet<ClusterName>>);

impl PartialEq for KnownClusters {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The names that a list of problems concerns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NameScope {
    /// The names of the zone itself.
    Zone,
    /// A short name.
    ShortName(ServiceName),
    /// Canonical names in a namespace.
    Namespace(Namespace),
}

// === impl Table ===

impl Table {
    /// Returns the services of all namespaces.
    pub fn all(&self) -> &Services {
        &self.services
    }

    /// Returns a service.
    pub fn service(&self, namespace: &str, service: &str) -> Option<&Service> {
        self.services.service(namespace, service)
    }

    /// Returns the service of a key.
    pub fn find(&self, key: &ServiceKey) -> Option<&Service> {
        self.service(key.namespace.as_str(), key.service.as_str())
    }

    /// Returns the clusters of Linkerd's mirrors and the state of their Links.
    pub fn links(&self) -> &LinkStates {
        &self.links
    }

    /// Returns the service that owns a short name.
    pub fn short_service(&self, service: &str) -> Option<&Service> {
        self.short_name(service)?.owner.as_deref().ok()
    }

    /// Returns the owner of a short name and the namespaces with such a service, if a namespace has the service.
    pub fn short_name(&self, service: &str) -> Option<&ShortName> {
        self.short_names.get(service).map(AsRef::as_ref)
    }

    /// Returns all services, including those without endpoints, in no particular order.
    pub fn services(&self) -> impl Iterator<Item = &Service> {
        self.services.iter()
    }

    /// Returns all services, including those without endpoints, sorted by namespace and name.
    pub fn sorted_services(&self) -> Vec<&Service> {
        self.services.sorted()
    }
}
