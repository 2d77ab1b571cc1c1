//! Reads the fields of a Kubernetes object that this server uses from its JSON.
//!
//! A list may have a hundred thousand objects of some kilobytes each. Most of their content is annotations and managed
//! fields, which are skipped without a copy. The fields that are read borrow from the text. `metadata` is read first,
//! and the rest only if the object matters: the endpoints of most slices are never looked at. An invalid field affects one
//! object only, and the name of that object is still known.

use std::borrow::{Borrow, Cow};
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::ops::Deref;
use std::slice;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::{
    Few, Namespace, ObjectKey, Port, PortName, Ports, Problem, ProblemKind, Protocol, ServiceKey,
    ServiceName, Timestamp, key,
};

/// A Kubernetes object of any kind, read from JSON.
#[derive(Debug)]
pub struct KubeObject<'j> {
    json: &'j str,
    metadata: Metadata<'j>,
    /// The reason for which `metadata` cannot be read.
    problem: Option<String>,
}

/// A text, which is empty if it is absent or null. It borrows from the JSON if it has no escapes.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(from = "Option<GivenText<'j>>", bound(deserialize = "'de: 'j"))]
pub struct JsonText<'j>(Cow<'j, str>);

/// A text that is not null.
#[derive(Debug, Deserialize)]
struct GivenText<'j>(#[serde(borrow)] Cow<'j, str>);

/// The type of an object. Items of lists have none.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'j"))]
pub struct TypeMeta<'j> {
    /// `apiVersion`.
    pub api_version: JsonText<'j>,
    /// `kind`.
    pub kind: JsonText<'j>,
}

/// The fields of `metadata` that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'j"))]
struct Metadata<'j> {
    name: JsonText<'j>,
    namespace: JsonText<'j>,
    resource_version: JsonText<'j>,
    creation_timestamp: JsonText<'j>,
    #[serde(borrow)]
    labels: Option<Pairs<'j>>,
    #[serde(borrow)]
    annotations: Option<Pairs<'j>>,
}

/// Labels or annotations.
type Pairs<'j> = BTreeMap<JsonText<'j>, PairValue<'j>>;

/// The value of a label or an annotation.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum PairValue<'j> {
    Text(#[serde(borrow)] GivenText<'j>),
    /// A value that is not a string, which only a file can have.
    Invalid(Value),
}

/// The fields that are read of an object besides its metadata.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'j"))]
pub struct ObjectBody<'j> {
    /// `spec` of a Service, a Link or a Lease.
    pub spec: Option<Spec<'j>>,
    /// `endpoints` of an EndpointSlice.
    pub endpoints: Option<Vec<KubeEndpoint<'j>>>,
    /// `ports` of an EndpointSlice.
    pub ports: Option<Vec<KubePort<'j>>>,
}

/// The fields of `spec` that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'j"))]
pub struct Spec<'j> {
    /// `clusterIP` of a Service.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: JsonText<'j>,
    /// `clusterIPs` of a Service.
    #[serde(rename = "clusterIPs")]
    pub cluster_ips: Option<Vec<JsonText<'j>>>,
    /// `ports` of a Service.
    pub ports: Option<Vec<KubePort<'j>>>,
    /// `selector` of a Service.
    pub selector: Option<BTreeMap<String, IgnoredAny>>,
    /// `targetClusterName` of a Link.
    pub target_cluster_name: JsonText<'j>,
    /// `targetClusterDomain` of a Link.
    pub target_cluster_domain: JsonText<'j>,
    /// `holderIdentity` of a Lease.
    pub holder_identity: JsonText<'j>,
    /// `renewTime` of a Lease.
    pub renew_time: JsonText<'j>,
}

/// An entry of `ports` of a Service or a slice.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'j"))]
pub struct KubePort<'j> {
    /// `name`.
    pub name: JsonText<'j>,
    /// `protocol`.
    pub protocol: JsonText<'j>,
    /// `port`.
    pub port: Option<i32>,
    /// `targetPort`: a number or a name. Slices have none.
    pub target_port: Option<Value>,
}

/// An entry of `endpoints` of an EndpointSlice.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'j"))]
pub struct KubeEndpoint<'j> {
    /// `addresses`.
    pub addresses: Option<Vec<JsonText<'j>>>,
    /// `hostname`.
    pub hostname: JsonText<'j>,
    /// `targetRef`.
    pub target_ref: Option<TargetRef<'j>>,
    /// `conditions`.
    pub conditions: Option<Conditions>,
}

/// `targetRef` of an endpoint.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'j"))]
pub struct TargetRef<'j> {
    /// `uid`.
    pub uid: JsonText<'j>,
}

/// `conditions` of an endpoint.
#[derive(Debug, Deserialize)]
pub struct Conditions {
    /// `ready`.
    pub ready: Option<bool>,
}

// === impl Spec ===

impl<'j> Spec<'j> {
    /// Returns whether the Service is headless.
    pub fn is_headless(&self) -> bool {
        &*self.cluster_ip == "None"
    }

    /// Reads the cluster IPs: `clusterIPs`, or only `clusterIP` if that list is absent. API servers fill in the list, but files often
    /// omit it.
    ///
    /// # Errors
    ///
    /// If there is none, or clients cannot use one.
    pub fn addresses(&self) -> Result<Few<IpAddr>, Problem> {
        let given = match self.cluster_ips.as_deref() {
            Some(all @ [_, ..]) => all,
            _ => slice::from_ref(&self.cluster_ip),
        };
        let given = given.iter().filter(|ip| !ip.is_empty());
        let addresses: Few<IpAddr> = given
            .map(|ip| usable_address(ip))
            .collect::<Result<_, _>>()?;
        if addresses.is_empty() {
            return Err(unusable(
                "spec.clusterIPs and spec.clusterIP contain no address",
            ));
        }
        Ok(addresses)
    }

    /// Returns the ports of the Service.
    pub fn ports(&self) -> Ports {
        ports(self.ports.as_deref())
    }

    /// Returns the ports of the pods behind the Service, as far as `targetPort` is a number. If it is absent, it is the port itself.
    pub fn pod_ports(&self) -> Ports {
        let target = |one: &KubePort<'_>| match &one.target_port {
            Some(target) => target.as_i64(),
            None => one.port.map(i64::from),
        };
        let ports = self.ports.iter().flatten();
        Ports::interned(ports.filter_map(|one| port(one, target(one)?)))
    }
}

/// Reads a list of ports.
pub(super) fn ports(ports: Option<&[KubePort<'_>]>) -> Ports {
    let ports = ports.into_iter().flatten();
    Ports::interned(ports.filter_map(|one| port(one, one.port?.into())))
}

// === impl KubeObject ===

impl<'j> KubeObject<'j> {
    /// Reads `metadata` of an object. It never fails: [`KubeObject::problem`] returns the error. What follows `metadata` is
    /// not looked at.
    pub fn read(json: &'j str) -> Self {
        let mut metadata = None;
        let mut reader = serde_json::Deserializer::from_str(json);
        // The reader complains if something follows.
        let problem = reader
            .deserialize_map(MetadataVisitor(&mut metadata))
            .err()
            .filter(|_| metadata.is_none());
        Self {
            json,
            metadata: metadata.unwrap_or_default(),
            problem: problem.map(|error| error.to_string()),
        }
    }

    /// Reads the type of the object.
    pub fn type_meta(&self) -> TypeMeta<'j> {
        serde_json::from_str(self.json).unwrap_or_default()
    }

    /// Returns the key of the object, or `None` if it has no name.
    pub fn key(&self) -> Option<ObjectKey> {
        let has_name = !self.name().is_empty();
        has_name.then(|| ObjectKey::new(self.namespace(), self.name()))
    }

    /// Returns `metadata.name`, or an empty string.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Returns `metadata.namespace`, or an empty string.
    pub fn namespace(&self) -> &str {
        &self.metadata.namespace
    }

    /// Returns the key of a service in the namespace of the object.
    ///
    /// # Errors
    ///
    /// If a name is not a label.
    pub fn service_key(&self, service: &str) -> Result<ServiceKey, Problem> {
        let namespace = self.namespace();
        if namespace.is_empty() {
            return Err(unusable(
                "metadata.namespace is missing: name the namespace of the Service",
            ));
        }
        let namespace =
            Namespace::interned(namespace).map_err(unusable_field("metadata.namespace"))?;
        let service =
            ServiceName::interned(service).map_err(unusable_field("the name of its service"))?;
        Ok(ServiceKey { namespace, service })
    }

    /// Returns `metadata.resourceVersion`, or an empty string.
    pub fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }

    /// Returns `metadata.creationTimestamp` in Unix seconds. Returns `None` if it is absent or invalid.
    pub fn created(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(Timestamp::from_text(&self.metadata.creation_timestamp)?.seconds())
    }

    /// Returns the value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        value(self.metadata.labels.as_ref()?, key)
    }

    /// Returns the value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        value(self.metadata.annotations.as_ref()?, key)
    }

    /// Returns the annotations that look like settings of this server and are none: their prefix is like its own, such as
    /// `globaldns/` or `global-dns.io/`, or their name has a typing error.
    pub fn unknown_settings(&self) -> impl Iterator<Item = &str> {
        self.metadata
            .annotations
            .iter()
            .flatten()
            .map(|(name, _)| &**name)
            .filter(|name| {
                let prefix = name.split_once('/').map_or("", |(prefix, _)| prefix);
                let letters = prefix.chars().filter(char::is_ascii_alphanumeric);
                letters.take(9).eq("globaldns".chars()) && !key::SETTINGS.contains(name)
            })
    }

    /// Returns why selectors cannot be evaluated on the object: its metadata is invalid, it has no name, or a label is
    /// not a string.
    pub fn problem(&self) -> Option<String> {
        if self.problem.is_some() {
            return self.problem.clone();
        }
        for (name, value) in self.metadata.labels.iter().flatten() {
            if let PairValue::Invalid(value) = value {
                let name = &**name;
                return Some(format!(
                    "the value of label {name} is not a string: {value}"
                ));
            }
        }
        let is_nameless = self.name().is_empty();
        is_nameless.then(|| "metadata.name is missing".to_owned())
    }

    /// Reads what follows `metadata`.
    ///
    /// # Errors
    ///
    /// If it does not match the schema of its kind.
    pub fn body(&self) -> Result<ObjectBody<'j>, Problem> {
        serde_json::from_str(self.json).map_err(unusable)
    }

    /// Reads `spec`. It is empty if it is absent or null.
    ///
    /// # Errors
    ///
    /// If the object does not match the schema of its kind.
    pub(super) fn spec(&self) -> Result<Spec<'j>, Problem> {
        Ok(self.body()?.spec.unwrap_or_default())
    }
}

impl<'j> From<Option<GivenText<'j>>> for JsonText<'j> {
    fn from(text: Option<GivenText<'j>>) -> Self {
        Self(text.map(|text| text.0).unwrap_or_default())
    }
}

impl Deref for JsonText<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for JsonText<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Returns the value of a label or an annotation.
fn value<'o>(pairs: &'o Pairs<'_>, key: &str) -> Option<&'o str> {
    match pairs.get(key)? {
        PairValue::Text(GivenText(text)) => Some(text),
        PairValue::Invalid(_) => None,
    }
}

/// Reads `metadata`, and stops behind it.
struct MetadataVisitor<'r, 'j>(&'r mut Option<Metadata<'j>>);

impl<'de> Visitor<'de> for MetadataVisitor<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(name) = map.next_key::<JsonText<'de>>()? {
            if &*name == "metadata" {
                *self.0 = Some(
                    map.next_value::<Option<Metadata<'de>>>()?
                        .unwrap_or_default(),
                );
                return Ok(());
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

// === Fields ===

/// Returns the problem of an object that cannot be used.
pub(super) fn unusable(reason: impl fmt::Display) -> Problem {
    Problem::new(ProblemKind::UnusableObject, reason.to_string())
}

/// Makes the problem that a field, a label or an annotation cannot be used.
pub(super) fn unusable_field<E: fmt::Display>(field: &str) -> impl FnOnce(E) -> Problem {
    move |error| unusable(format!("{field}: {error}"))
}

/// Parses an address, and rejects addresses that clients cannot use.
pub(super) fn usable_address(text: &str) -> Result<IpAddr, Problem> {
    let bad = |why: &str| unusable(format!("{why}: '{text}'"));
    let address: IpAddr = text.parse().map_err(|_| bad("not an IP address"))?;
    let is_broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    match address {
        // `::ffff:127.0.0.1` reaches the same host as `127.0.0.1`. An IPv4 address must be written as one.
        _ if address != address.to_canonical() => Err(bad("an IPv4-mapped IPv6 address")),
        _ if address.is_unspecified() || is_broadcast => Err(bad("not the address of a host")),
        _ if address.is_loopback() => Err(bad("a loopback address")),
        _ if address.is_multicast() => Err(bad("a multicast address")),
        _ => Ok(address),
    }
}

/// Parses a port with its number. Returns `None` if the number is out of range or SRV has no name for the protocol. If the name is not
/// a label, the port is kept without it, so that it has an SRV record at the name without `_P._R`.
fn port(port: &KubePort<'_>, number: i64) -> Option<Port> {
    Some(Port {
        number: u16::try_from(number).ok().filter(|n| *n != 0)?,
        name: PortName::interned(&port.name).ok(),
        protocol: match &*port.protocol {
            "TCP" | "" => Protocol::Tcp,
            "UDP" => Protocol::Udp,
            "SCTP" => Protocol::Sctp,
            _ => return None,
        },
    })
}
