//! The keys of Kubernetes objects and of services. Names of objects have a form that needs little memory for a hundred thousand
//! objects.

use std::fmt;
use std::str::FromStr;

use strum::Display;

use super::interned::{Text, intern};
use super::label::{Namespace, ServiceName};
use super::line;
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
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// `metadata.namespace`; empty if the object has none.
    pub namespace: Text,
    /// `metadata.name`.
    pub name: ObjectName,
}

/// `metadata.name` of an object.
///
/// Kubernetes names an EndpointSlice after its Service, with a hyphen and five generated characters
/// (`metadata.generateName`). Such a name has two parts here. A slice shares the text of the name of its Service, and
/// in an ordered map the slices of one Service are adjacent. The split depends only on the name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    stem: Text,
    /// The generated characters. Zeros if there are none.
    generated: [u8; GENERATED],
}

/// Number of characters that the API server appends to `metadata.generateName`.
const GENERATED: usize = 5;

/// The alphabet of generated characters (`k8s.io/apimachinery/pkg/util/rand`).
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

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

    /// Returns a service in the namespace of an item with this key. The reader has checked the name of the namespace.
    pub fn service(&self, name: &ServiceName) -> ServiceKey {
        ServiceKey {
            namespace: Namespace::of_checked(self.namespace.clone()),
            service: name.clone(),
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
        Self {
            kind: Kind::Service,
            key: key.clone(),
        }
    }

    /// Returns the reference to an EndpointSlice.
    pub fn slice(key: &ObjectKey) -> Self {
        Self {
            kind: Kind::EndpointSlice,
            key: key.clone(),
        }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ObjectKey { namespace, name } = &self.key;
        // The API server checks names, but a file may have any.
        let name = name.text();
        let namespace = line::escaped(namespace);
        let name = line::escaped(&name);
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
        Ok(Self {
            namespace: namespace.parse()?,
            service: service.parse()?,
        })
    }
}

setting_text!(ServiceKey: r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$");

impl fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.service)
    }
}

// === impl ObjectName ===

impl ObjectName {
    /// Makes the name of an object.
    pub fn new(name: &str) -> Self {
        let (stem, generated) = split(name);
        Self {
            stem: intern(stem),
            generated,
        }
    }

    /// Makes a name from a shared text. The text stays shared if it is not split.
    pub fn from_text(name: &Text) -> Self {
        let (stem, generated) = split(name);
        let is_whole = stem.len() == name.len();
        Self {
            stem: if is_whole { name.clone() } else { stem.into() },
            generated,
        }
    }

    /// Returns the whole name.
    pub fn text(&self) -> Text {
        match self.generated {
            [0, ..] => self.stem.clone(),
            _ => self.to_string().into(),
        }
    }

    /// Returns the part before the generated characters. If there are none, returns the whole name.
    pub fn stem(&self) -> &Text {
        &self.stem
    }

    /// Returns the first name with this stem in the order of names.
    pub fn first_of(stem: Text) -> Self {
        Self {
            stem,
            generated: [0; GENERATED],
        }
    }
}

/// Splits a name into its stem and the generated characters.
fn split(name: &str) -> (&str, [u8; GENERATED]) {
    let whole = (name, [0; GENERATED]);
    let Some((stem, generated)) = name.rsplit_once('-') else {
        return whole;
    };
    match <[u8; GENERATED]>::try_from(generated.as_bytes()) {
        Ok(generated) if generated.iter().all(|c| ALPHABET.contains(c)) => (stem, generated),
        _ => whole,
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.stem)?;
        match (self.generated, str::from_utf8(&self.generated)) {
            ([0, ..], _) | (_, Err(_)) => Ok(()),
            (_, Ok(generated)) => write!(f, "-{generated}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_unchanged_by_the_split() {
        for (name, stem) in [
            ("db-0-east", "db-0-east"),
            ("db-0-east-7xk2p", "db-0-east"),
            // Kubernetes generates no vowels, and always five characters.
            ("db-0-north", "db-0-north"),
            ("db-0-east-7xk2", "db-0-east-7xk2"),
            ("db-0-east-7xk2pq", "db-0-east-7xk2pq"),
            ("db-7xk2p-7xk2p", "db-7xk2p"),
            ("7xk2p", "7xk2p"),
            ("-7xk2p", ""),
            ("", ""),
            ("datenbank-ü7xk", "datenbank-ü7xk"),
        ] {
            let made = ObjectName::new(name);
            assert_eq!(made.to_string(), name);
            assert_eq!(&*made.text(), name);
            assert_eq!(&**made.stem(), stem, "{name}");
            assert_eq!(made, ObjectName::from_text(&name.into()));
        }
        assert_ne!(
            ObjectName::new("db-0-east"),
            ObjectName::new("db-0-east-7xk2p")
        );
        assert_ne!(
            ObjectName::new("db-0-east-7xk2p"),
            ObjectName::new("db-0-east-7xk2q")
        );
    }
}
