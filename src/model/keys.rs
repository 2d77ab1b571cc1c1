//! The keys of Kubernetes objects and of services.

use std::fmt;
use std::str::FromStr;

use strum::Display;

use super::interned::{Text, intern};
use super::label::{InvalidLabel, Namespace, ServiceName};
use super::line;
use super::object_name::ObjectName;
use crate::setting_text::setting_text;

/// The kinds of Kubernetes objects that are read. There is one watch for each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display)]
pub enum Kind {
    /// `v1 Service`.
    Service,
    /// `discovery.k8s.io/v1 EndpointSlice`.
    EndpointSlice,
    /// `multicluster.linkerd.io Link`: the connection to another cluster.
    Link,
}

/// `metadata.namespace` and `metadata.name` of a Kubernetes object, unchanged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// `metadata.namespace`; empty if the object has none.
    pub namespace: Text,
    /// `metadata.name`.
    pub name: ObjectName,
}

/// The reference to a Kubernetes object in logs, reports and explanations: `Service/prod/db-0-west`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// The object's `kind`.
    pub kind: Kind,
    /// Its namespace and name.
    pub key: ObjectKey,
}

/// A service of the cluster set, of any kind. It has the same namespace and name in every cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceKey {
    /// Namespace, the same in every cluster (namespace sameness).
    pub namespace: Namespace,
    /// Name of the exported Service in its own cluster.
    pub service: ServiceName,
}

/// The versions of Links that are read, the newest first. Their names and their clusters are the same.
pub const LINK_VERSIONS: [&str; 3] = [
    "multicluster.linkerd.io/v1alpha3",
    "multicluster.linkerd.io/v1alpha2",
    "multicluster.linkerd.io/v1alpha1",
];

// === impl Kind ===

impl Kind {
    /// Every kind, in the order of their discriminants.
    pub const ALL: [Self; 3] = [Self::Service, Self::EndpointSlice, Self::Link];

    /// Returns whether a table needs the objects of the kind. Without Links, the states of clusters are unknown, and answers do
    /// not depend on them.
    pub fn is_needed(self) -> bool {
        self != Self::Link
    }
}

// === impl ObjectKey ===

impl ObjectKey {
    /// Returns the key of the Service of this cluster that has the name of a service.
    pub fn of_service(service: &ServiceKey) -> Self {
        Self {
            namespace: service.namespace.text().clone(),
            name: ObjectName::from_text(service.service.text()),
        }
    }

    /// Returns the service of the Service of this cluster with this key. Returns `None` if a name is not valid in DNS.
    pub fn own_service(&self) -> Option<ServiceKey> {
        Some(ServiceKey {
            namespace: Namespace::interned(&self.namespace).ok()?,
            service: ServiceName::interned(&self.name.text()).ok()?,
        })
    }

    /// Returns the key of another object in the same namespace.
    pub fn sibling(&self, name: &Text) -> Self {
        Self {
            namespace: self.namespace.clone(),
            name: ObjectName::from_text(name),
        }
    }

    /// Makes a key from a namespace and a name.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: intern(namespace),
            name: ObjectName::new(name),
        }
    }
}

impl ObjectRef {
    /// Returns the reference to a Service.
    pub fn service(key: &ObjectKey) -> Self {
        let (kind, key) = (Kind::Service, key.clone());
        Self { kind, key }
    }

    /// Returns the reference to an EndpointSlice.
    pub fn slice(key: &ObjectKey) -> Self {
        let (kind, key) = (Kind::EndpointSlice, key.clone());
        Self { kind, key }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ObjectKey { namespace, name } = &self.key;
        // The API server checks names, but a file may have any.
        let name = name.text();
        let (namespace, name) = (line::escaped(namespace), line::escaped(&name));
        write!(f, "{}/{namespace}/{name}", self.kind)
    }
}

impl ServiceKey {
    /// Returns the labels `S.N` of its canonical name.
    pub fn labels(&self) -> [&str; 2] {
        [self.service.as_str(), self.namespace.as_str()]
    }

    /// Returns the short names that can depend on it: its own, and the one that equals its namespace. In namespace `S`, the
    /// service `C` hides the short name `C.S.Z` of cluster `C`.
    pub fn short_names(&self) -> [ServiceName; 2] {
        [self.service.clone(), self.namespace.as_service()]
    }
}

/// Parses `NAMESPACE/SERVICE`.
impl FromStr for ServiceKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (namespace, service) = text
            .split_once('/')
            .ok_or_else(|| format!("'{text}' has no '/'; write NAMESPACE/SERVICE"))?;
        let label = |error: InvalidLabel| error.to_string();
        Ok(Self {
            namespace: namespace.parse().map_err(label)?,
            service: service.parse().map_err(label)?,
        })
    }
}

setting_text!(ServiceKey: r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$");

impl fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.service)
    }
}
