//! A Kubernetes object as its JSON says it, as far as we read it.
//!
//! A list may hold a hundred thousand objects of some kilobytes each, most of which are annotations and managed fields
//! that nobody here asks for: those are passed over where they stand, and what is kept points into the text. `metadata`
//! is read first, the rest when the object turns out to be ours, so that one odd field spoils one object and that object
//! still has a name.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use super::ObjectKey;
use super::watch::key;

/// A Kubernetes object of any kind, read from JSON.
#[derive(Debug)]
pub struct KubeObject<'j> {
    json: &'j str,
    head: Head<'j>,
    /// Why `metadata` cannot be read.
    problem: Option<String>,
}

/// A text, pointing into the JSON where nothing in it is escaped.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct JsonText<'j>(#[serde(borrow)] Cow<'j, str>);

/// What tells objects apart.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Head<'j> {
    #[serde(borrow)]
    api_version: Option<JsonText<'j>>,
    #[serde(borrow)]
    kind: Option<JsonText<'j>>,
    #[serde(borrow)]
    metadata: Option<Metadata<'j>>,
}

/// `metadata`, as far as we read it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata<'j> {
    #[serde(borrow)]
    name: Option<JsonText<'j>>,
    #[serde(borrow)]
    namespace: Option<JsonText<'j>>,
    #[serde(borrow)]
    resource_version: Option<JsonText<'j>>,
    #[serde(borrow)]
    labels: Option<Pairs<'j>>,
    #[serde(borrow)]
    annotations: Option<Pairs<'j>>,
}

/// The labels, or annotations, that [`key`] names.
#[derive(Debug, Default)]
struct Pairs<'j> {
    known: Vec<(&'static str, Cow<'j, str>)>,
    /// One whose value is no text, in words.
    odd: Option<String>,
}

/// `spec` of a Service, as far as we read it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec<'j> {
    /// `clusterIP`.
    #[serde(rename = "clusterIP", borrow)]
    pub cluster_ip: Option<JsonText<'j>>,
    /// `clusterIPs`.
    #[serde(rename = "clusterIPs", borrow)]
    pub cluster_ips: Option<Vec<JsonText<'j>>>,
    /// `ports`.
    #[serde(borrow)]
    pub ports: Option<Vec<KubePort<'j>>>,
}

/// One of `ports`, of a Service or of a slice.
#[derive(Debug, Deserialize)]
pub struct KubePort<'j> {
    /// `name`.
    #[serde(borrow)]
    pub name: Option<JsonText<'j>>,
    /// `protocol`.
    #[serde(borrow)]
    pub protocol: Option<JsonText<'j>>,
    /// `port`.
    pub port: Option<i32>,
}

/// The body of an EndpointSlice, as far as we read it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SliceBody<'j> {
    /// `addressType`.
    #[serde(borrow)]
    pub address_type: Option<JsonText<'j>>,
    /// `endpoints`.
    #[serde(borrow)]
    pub endpoints: Option<Vec<KubeEndpoint<'j>>>,
    /// `ports`.
    #[serde(borrow)]
    pub ports: Option<Vec<KubePort<'j>>>,
}

/// One of the `endpoints` of an EndpointSlice.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KubeEndpoint<'j> {
    /// `addresses`.
    #[serde(borrow)]
    pub addresses: Option<Vec<JsonText<'j>>>,
    /// `hostname`.
    #[serde(borrow)]
    pub hostname: Option<JsonText<'j>>,
    /// `targetRef`.
    #[serde(borrow)]
    pub target_ref: Option<TargetRef<'j>>,
    /// `conditions`.
    pub conditions: Option<Conditions>,
}

/// `targetRef` of an endpoint.
#[derive(Debug, Deserialize)]
pub struct TargetRef<'j> {
    /// `uid`.
    #[serde(borrow)]
    pub uid: Option<JsonText<'j>>,
}

/// `conditions` of an endpoint.
#[derive(Debug, Deserialize)]
pub struct Conditions {
    /// `ready`.
    pub ready: Option<bool>,
}

// === impl ServiceSpec ===

impl<'j> ServiceSpec<'j> {
    /// Returns `clusterIPs`, or `clusterIP` alone: API servers fill in the list, people who write a file do not.
    pub fn addresses(&self) -> &[JsonText<'j>] {
        match self.cluster_ips.as_deref() {
            Some(all @ [_, ..]) => all,
            _ => self.cluster_ip.as_slice(),
        }
    }
}

// === impl KubeObject ===

impl<'j> KubeObject<'j> {
    /// Reads the beginning of an object. It never fails: what makes no sense is remembered.
    pub fn read(json: &'j str) -> Self {
        let (head, problem) = match serde_json::from_str(json) {
            Ok(head) => (head, None),
            Err(error) => (Self::kind_alone(json), Some(error.to_string())),
        };
        Self {
            json,
            head,
            problem,
        }
    }

    /// Reads what kind of object it is, where `metadata` makes no sense.
    fn kind_alone(json: &'j str) -> Head<'j> {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Kind<'j> {
            #[serde(borrow)]
            api_version: Option<JsonText<'j>>,
            #[serde(borrow)]
            kind: Option<JsonText<'j>>,
        }
        let Kind { api_version, kind } = serde_json::from_str(json).unwrap_or_default();
        let metadata = None;
        Head {
            api_version,
            kind,
            metadata,
        }
    }

    /// Returns `apiVersion`, if there is one: items of lists have none.
    pub fn api_version(&self) -> Option<&str> {
        self.head.api_version.as_deref()
    }

    /// Returns `kind`, if there is one: items of lists have none.
    pub fn kind(&self) -> Option<&str> {
        self.head.kind.as_deref()
    }

    /// Returns the key of the object, or `None` if it has no name.
    pub fn key(&self) -> Option<ObjectKey> {
        self.metadata()?.name.as_ref()?;
        Some(ObjectKey::new(self.namespace(), self.name()))
    }

    /// Returns `metadata.name`, or nothing.
    pub fn name(&self) -> &str {
        let name = self
            .metadata()
            .and_then(|metadata| metadata.name.as_deref());
        name.unwrap_or_default()
    }

    /// Returns `metadata.namespace`, or nothing.
    pub fn namespace(&self) -> &str {
        let namespace = self
            .metadata()
            .and_then(|metadata| metadata.namespace.as_deref());
        namespace.unwrap_or_default()
    }

    /// Returns `metadata.resourceVersion`.
    pub fn resource_version(&self) -> Option<&str> {
        self.metadata()?.resource_version.as_deref()
    }

    /// Returns the value of a label that [`key`] names.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata()?.labels.as_ref()?.get(key)
    }

    /// Returns the value of an annotation that [`key`] names.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata()?.annotations.as_ref()?.get(key)
    }

    /// Says why no selector can be asked about the object: it cannot be read, has no name, or a label that is no text.
    pub fn problem(&self) -> Option<String> {
        let labels = || self.metadata()?.labels.as_ref()?.odd.clone();
        let nameless = || {
            self.key()
                .is_none()
                .then(|| "metadata.name is missing".to_owned())
        };
        self.problem.clone().or_else(labels).or_else(nameless)
    }

    /// Reads `spec` as that of a Service.
    ///
    /// # Errors
    ///
    /// If it is not like one.
    pub fn service_spec(&self) -> Result<ServiceSpec<'j>, serde_json::Error> {
        #[derive(Deserialize)]
        struct Service<'j> {
            #[serde(borrow)]
            spec: Option<ServiceSpec<'j>>,
        }
        let service: Service<'j> = serde_json::from_str(self.json)?;
        Ok(service.spec.unwrap_or_default())
    }

    /// Tells whether it is a headless Service, as the API server's field selector does, which does not look at the rest
    /// of `spec`: one that cannot be read is not to vanish.
    pub fn is_headless(&self) -> bool {
        #[derive(Deserialize)]
        struct Service<'j> {
            #[serde(borrow)]
            spec: Spec<'j>,
        }
        #[derive(Deserialize)]
        struct Spec<'j> {
            #[serde(rename = "clusterIP", borrow)]
            cluster_ip: JsonText<'j>,
        }
        let service: Result<Service<'_>, _> = serde_json::from_str(self.json);
        service.is_ok_and(|service| &*service.spec.cluster_ip == "None")
    }

    /// Reads the body as that of an EndpointSlice.
    ///
    /// # Errors
    ///
    /// If it is not like one.
    pub fn slice_body(&self) -> Result<SliceBody<'j>, serde_json::Error> {
        serde_json::from_str(self.json)
    }

    fn metadata(&self) -> Option<&Metadata<'j>> {
        self.head.metadata.as_ref()
    }
}

impl Deref for JsonText<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

// === impl Pairs ===

impl Pairs<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        let found = self.known.iter().find(|(known, _)| *known == key)?;
        Some(&found.1)
    }
}

impl<'de: 'j, 'j> Deserialize<'de> for Pairs<'j> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor)
    }
}

struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Pairs<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of texts")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Pairs<'de>, M::Error> {
        let mut pairs = Pairs::default();
        while let Some(name) = map.next_key::<JsonText<'de>>()? {
            let known = key::ALL.into_iter().find(|known| *known == &*name);
            match (known, map.next_value()?) {
                (Some(known), Scalar::Text(value)) => pairs.known.push((known, value)),
                (None, Scalar::Text(_)) => {}
                (_, Scalar::Other(value)) => {
                    let odd = || format!("label {} is {value}, which is no text", &*name);
                    pairs.odd.get_or_insert_with(odd);
                }
            }
        }
        Ok(pairs)
    }
}

/// The value of a label.
enum Scalar<'j> {
    Text(Cow<'j, str>),
    Other(String),
}

impl<'de: 'j, 'j> Deserialize<'de> for Scalar<'j> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&'de serde_json::value::RawValue>::deserialize(deserializer)?;
        Ok(match serde_json::from_str::<JsonText<'de>>(raw.get()) {
            Ok(text) => Self::Text(text.0),
            Err(_) => Self::Other(raw.get().to_owned()),
        })
    }
}

#[cfg(test)]
mod tests;
