//! The domain types: the parts of Kubernetes and Linkerd objects that this server uses.
//!
//! The sources and [`build`](crate::table::build()) use these types. [`parse`] selects the type for a Kubernetes object.
//! Each type has a file that parses it and checks it once: a [`ServiceName`] is a DNS label, and an address is one that
//! clients may use. This module depends neither on a Kubernetes client nor on a DNS library.

mod failover_order;
mod fields;
mod interned;
mod item;
pub mod key;
pub mod label;
mod line;
mod linkerd;
mod local;
mod mcs;
mod object;
mod object_name;
pub mod parse;
pub mod problem;
mod settings;
mod slice;
pub mod watch;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use smallvec::SmallVec;

pub use failover_order::{FailoverOrder, InvalidOrder};
pub use interned::{Ports, Text, intern};
pub use item::{ClusterSet, Clusters, Export, Item, ItemKind, MirroredHost};
pub use label::{ClusterName, Hostname, InvalidLabel, Namespace, PortName, ServiceName};
pub use line::{Line, is_deceptive};
pub use object::KubeObject;
pub use object_name::ObjectName;
pub use problem::{Family, Level, Problem, ProblemKind};
pub use settings::{GatewayDown, Settings, expected_clusters};
pub use slice::{ImportEndpoints, ListedHost, Slice, SliceContent, SliceEndpoint, SliceEndpoints};
pub use watch::{Kind, Mcs, Watch};

use fields::usable_address;

/// `metadata.namespace` and `metadata.name` of a Kubernetes object, unchanged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectKey {
    /// `metadata.namespace`; empty if the object has none.
    pub namespace: Text,
    /// `metadata.name`.
    pub name: ObjectName,
}

/// The reference to a Kubernetes object in logs, reports and explanations: `Service/prod/db-0-west`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectRef {
    /// The object's `kind`.
    pub kind: Kind,
    /// Its namespace and name.
    pub key: ObjectKey,
}

/// A service of the cluster set, of any kind. It has the same namespace and name in every cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ServiceKey {
    /// Namespace, the same in every cluster (namespace sameness).
    pub namespace: Namespace,
    /// Name of the exported Service in its own cluster.
    pub service: ServiceName,
}

/// A Kubernetes object, reduced to the fields that this server uses. Items are boxed, because there may be some hundred
/// thousand objects and slices are smaller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Object {
    /// A Service or a ServiceImport.
    Item(Box<Item>),
    /// An EndpointSlice.
    Slice(Slice),
    /// An object that cannot or must not be used (rule M9).
    Skipped(Arc<Problem>),
}

/// A port with its name and protocol.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Port {
    /// Port number.
    pub number: u16,
    /// Port name. A single port may have none.
    pub name: Option<PortName>,
    /// Transport protocol.
    pub protocol: Protocol,
}

/// `protocol` of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// `TCP`, the default if the field is absent.
    Tcp,
    /// `UDP`.
    Udp,
    /// `SCTP`.
    Sctp,
}

/// Serializes addresses as a list.
mod addresses {
    use super::{IpAddr, SmallVec};
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(super) fn serialize<S: Serializer>(addresses: &[IpAddr], to: S) -> Result<S::Ok, S::Error> {
        addresses.serialize(to)
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(
        from: D,
    ) -> Result<SmallVec<[IpAddr; 1]>, D::Error> {
        Vec::deserialize(from).map(SmallVec::from_vec)
    }
}

// === impl Object ===

impl Object {
    /// Returns the item, if the object is one.
    pub fn item(&self) -> Option<&Item> {
        match self {
            Self::Item(item) => Some(item),
            Self::Slice(_) | Self::Skipped(_) => None,
        }
    }

    /// Returns the service that the object belongs to. Slices of Services have the service of their owner.
    pub fn service(&self) -> Option<&ServiceKey> {
        match self {
            Self::Item(item) => Some(&item.service),
            Self::Slice(slice) => slice.import().map(|import| &import.service),
            Self::Skipped(_) => None,
        }
    }

    /// Returns the name of the Service that owns the object, if it is a slice of a Service.
    pub fn owner(&self) -> Option<&Text> {
        let slice = self.slice()?;
        slice.import().is_none().then_some(&slice.owner)
    }

    /// Returns the slice, if the object is one.
    pub fn slice(&self) -> Option<&Slice> {
        match self {
            Self::Slice(slice) => Some(slice),
            Self::Item(_) | Self::Skipped(_) => None,
        }
    }
}

impl From<Item> for Object {
    fn from(item: Item) -> Self {
        Self::Item(Box::new(item))
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
        Self::of(Kind::Service, key)
    }

    /// Returns the reference to an EndpointSlice.
    pub fn slice(key: &ObjectKey) -> Self {
        Self::of(Kind::EndpointSlice, key)
    }

    /// Returns the reference to a ServiceImport.
    pub fn import(key: &ObjectKey) -> Self {
        Self::of(Kind::ServiceImport, key)
    }

    fn of(kind: Kind, key: &ObjectKey) -> Self {
        let key = key.clone();
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
}

impl fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.service)
    }
}

// === impl Port ===

impl Port {
    /// Returns whether the port has the labels `_name._protocol`.
    pub fn is_named(&self, name: &str, protocol: &str) -> bool {
        self.protocol.label() == protocol && self.name.as_ref().is_some_and(|n| n.as_str() == name)
    }
}

// === impl Protocol ===

impl Protocol {
    /// Returns label `R` of SRV owner names, without the underscore (RFC 2782).
    pub fn label(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        }
    }
}

#[cfg(test)]
mod tests;
