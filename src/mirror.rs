//! What Linkerd and Kubernetes say, in our own words: the domain types.
//!
//! Everything left of [`build`](crate::table::build()) speaks these types. They are made in one place, [`parse`], out of
//! Kubernetes objects, and checked there once: a [`ServiceName`] is a DNS label and an address is one that a client may
//! be sent to. Nothing here knows a Kubernetes client or a DNS library.

mod interned;
pub mod label;
mod object;
mod object_name;
pub mod parse;
mod subject;
pub mod watch;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use smallvec::SmallVec;

pub use interned::{Ports, Text, intern};
pub use label::{ClusterName, Hostname, InvalidLabel, Namespace, PortName, ServiceName};
pub use object::KubeObject;
pub use object_name::ObjectName;
pub use subject::Subject;
pub use watch::{Kind, Watch};

/// `metadata.namespace` and `metadata.name` of a Kubernetes object, as they are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectKey {
    /// `metadata.namespace`; empty if the object has none.
    pub namespace: Text,
    /// `metadata.name`.
    pub name: ObjectName,
}

/// Names one Kubernetes object in logs, reports and explanations: `Service/prod/db-0-west`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// The object's `kind`.
    pub kind: Kind,
    /// Its namespace and name.
    pub key: ObjectKey,
}

/// A headless service within the cluster set: the same namespace and name in every cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ServiceKey {
    /// Namespace, the same in every cluster (namespace sameness).
    pub namespace: Namespace,
    /// Name of the exported Service in its own cluster.
    pub service: ServiceName,
}

/// One Kubernetes object, reduced to what matters here. There may be some hundred thousands of them: what they hold is
/// boxed, so that each takes what its own kind needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Object {
    /// The mirror of a headless Service of another cluster (`nginx-east`).
    HeadlessMirror(Box<HeadlessMirror>),
    /// The Service that stands for one remote pod (`nginx-set-0-east`).
    EndpointMirror(Box<EndpointMirror>),
    /// A headless Service of this cluster.
    LocalService(Box<LocalService>),
    /// An EndpointSlice of an endpoint mirror, or of a mirror with a cluster IP.
    GatewaySlice(GatewaySlice),
    /// An EndpointSlice of a headless mirror.
    ListedHosts(Box<ListedHosts>),
    /// An EndpointSlice of a headless Service of this cluster.
    Slice(Box<Slice>),
    /// An object that cannot or must not be used (rule M9).
    Skipped(Arc<Skip>),
}

/// A mirror Service with `clusterIP: None`: the parent of [`EndpointMirror`]s (rule M2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadlessMirror {
    /// Label `mirror.linkerd.io/cluster-name`, before aliases.
    pub cluster: ClusterName,
    /// The exported Service.
    pub service: ServiceKey,
    /// What the exported Service asks of us by annotation.
    pub wishes: Wishes,
}

/// A mirror Service with a cluster IP of its own that stands for one remote endpoint (rule M1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointMirror {
    /// Label `mirror.linkerd.io/cluster-name`, before aliases.
    pub cluster: ClusterName,
    /// The exported Service that the endpoint belongs to.
    pub service: ServiceKey,
    /// The remote endpoint's hostname.
    pub hostname: Hostname,
    /// Label `mirror.linkerd.io/headless-mirror-svc-name`: the name of the [`HeadlessMirror`].
    pub parent: Text,
    /// `spec.clusterIPs`: synthetic endpoint IPs, usable by meshed clients only.
    #[serde(with = "addresses")]
    pub addresses: SmallVec<[IpAddr; 1]>,
    /// `spec.ports`, which are what the cluster IP listens on.
    pub ports: Ports,
}

/// A headless Service of the source cluster itself (rule M5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalService {
    /// Its own namespace and name.
    pub service: ServiceKey,
    /// Label `mirror.linkerd.io/exported`.
    pub export: Export,
    /// What the Service asks of us by annotation.
    pub wishes: Wishes,
}

/// How a Service of this cluster is exported, by its label `mirror.linkerd.io/exported`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Export {
    /// There is no label.
    No,
    /// `true`: through a gateway, the only way for a headless Service.
    Gateway,
    /// `remote-discovery`, for networks without gateways.
    RemoteDiscovery,
    /// Another value. By default no Link selects it; one with a selector of its own may.
    Other,
}

/// An EndpointSlice of an endpoint mirror, or of a mirror with a cluster IP: its liveness (rule M3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewaySlice {
    /// Label `kubernetes.io/service-name`: the mirror in the same namespace that the slice belongs to.
    pub mirror: Text,
    /// Whether a gateway address is ready; `None` if there is no address at all.
    pub ready: Option<bool>,
}

/// An EndpointSlice of a headless mirror: what Linkerd says that there is. Nothing is answered from it: its ports are those
/// of the remote pods, it can be overwritten with gateway addresses, and it says nothing of gateways.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedHosts {
    /// Label `kubernetes.io/service-name`: the headless mirror in the same namespace that the slice belongs to.
    pub mirror: Text,
    /// The endpoints that have a hostname, sorted, each once.
    pub hosts: Box<[ListedHost]>,
}

/// One entry of a headless mirror's slice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ListedHost {
    /// The remote pod's hostname.
    pub hostname: Hostname,
    /// The cluster IP of its endpoint mirror, as Linkerd knew it last; `None` if a client must not be sent there.
    pub address: Option<IpAddr>,
}

/// An EndpointSlice of a headless Service of this cluster (rule M5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// Label `kubernetes.io/service-name`: the Service in the same namespace that the slice belongs to.
    pub service: Text,
    /// `endpoints`.
    pub endpoints: Box<[SliceEndpoint]>,
    /// `ports`: what the pods listen on.
    pub ports: Ports,
    /// What of it was left out: one skip for each reason.
    pub left_out: Box<[Skip]>,
}

/// One entry of a slice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceEndpoint {
    /// The first of `addresses`, the only one that consumers use; `None` if a client must not be sent there.
    pub address: Option<IpAddr>,
    /// `hostname`, if it is a DNS label.
    pub hostname: Option<Hostname>,
    /// `targetRef.uid`: tells one dual-stack pod from two pods with one hostname.
    pub target: Option<Text>,
    /// `conditions.ready`; absent means ready.
    pub ready: bool,
}

/// A port, by name and protocol.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Port {
    /// Port number.
    pub number: u16,
    /// Port name; a single port may have none.
    pub name: Option<PortName>,
    /// Transport protocol.
    pub protocol: Protocol,
}

/// `protocol` of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// `TCP`, also where the field is absent.
    Tcp,
    /// `UDP`.
    Udp,
    /// `SCTP`.
    Sctp,
}

/// What the owner of an exported Service asks of us by annotation; Linkerd copies it to the mirrors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wishes {
    /// `global-dns/ttl`: seconds.
    pub ttl: Option<u32>,
    /// `global-dns/gateway-down`.
    pub gateway_down: Option<GatewayDown>,
    /// Annotations of ours whose value makes no sense, as `name=value`.
    pub unreadable: Vec<String>,
}

/// What becomes of endpoints whose gateway is down (rule M4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GatewayDown {
    /// Left out, even if that empties a name.
    Exclude,
    /// Left out, unless that would leave the name with no endpoint at all.
    LastResort,
    /// Answered like the others.
    Include,
}

/// Why an object or an endpoint is left out, and the words for whoever wonders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skip {
    /// The kind of reason, a metric label.
    pub reason: SkipReason,
    /// One sentence that names the thing and the value.
    pub detail: String,
    /// The service and the cluster that the object speaks of, where it is a mirror, and as far as they can be read.
    pub about: Option<(ServiceKey, ClusterName)>,
}

/// Characters of a [`Skip`]'s sentence, at most: who writes annotations of 200 KB must not fill memory, logs and reports
/// with them.
const LONGEST_DETAIL: usize = 400;

/// What a flat mirror is skipped as.
const FLAT_MIRROR: &str = "a flat (remote-discovery) mirror";

/// The reasons for leaving something out (rule M9). A closed set, so that it can be a metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkipReason {
    /// Not a Kubernetes object of its kind.
    Undecodable,
    /// An endpoint mirror without a headless mirror of the same cluster and service (M2).
    NoParent,
    /// The annotation names another namespace than the object lives in (M1).
    NamespaceMismatch,
    /// A name that is no DNS label, or would exceed the limits of DNS.
    BadName,
    /// An address that no client can be sent to, or none at all.
    BadAddress,
    /// A ClusterIP mirror, a flat (remote-discovery) or a federated service (M10).
    NotHeadless,
    /// Of a cluster that `--exclude-cluster` names.
    ExcludedCluster,
}

/// Addresses as a list, for serde.
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

// === impl ObjectKey ===

impl ObjectKey {
    /// Names the Service of this cluster with a service's name.
    pub fn of_service(service: &ServiceKey) -> Self {
        Self {
            namespace: service.namespace.text().clone(),
            name: ObjectName::from_text(service.service.text()),
        }
    }

    /// Names another object in the namespace of this one.
    pub fn beside(&self, name: &Text) -> Self {
        Self {
            namespace: self.namespace.clone(),
            name: ObjectName::from_text(name),
        }
    }

    /// Makes a key out of a namespace and a name.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: intern(namespace),
            name: ObjectName::new(name),
        }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.kind, self.key.namespace, self.key.name)
    }
}

impl ServiceKey {
    /// The labels `S.N` of its canonical name.
    pub fn labels(&self) -> [&str; 2] {
        [self.service.as_str(), self.namespace.as_str()]
    }
}

impl fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.service)
    }
}

// === impl LocalService ===

impl LocalService {
    /// Tells whether Links select the Service by default, as rule M5 asks.
    pub fn is_exported(&self) -> bool {
        self.export == Export::Gateway
    }
}

// === impl Port ===

impl Port {
    /// Tells whether this is the port of the labels `_name._protocol`.
    pub fn is_named(&self, name: &str, protocol: &str) -> bool {
        self.protocol.label() == protocol && self.name.as_ref().is_some_and(|n| n.as_str() == name)
    }
}

// === impl Protocol ===

impl Protocol {
    /// Returns the label `R` of SRV owner names, without the underscore (RFC 2782).
    pub fn label(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        }
    }
}

// === impl GatewayDown ===

impl GatewayDown {
    /// Reads the value of `--gateway-down` and of the annotation `global-dns/gateway-down`.
    pub fn from_value(value: &str) -> Option<Self> {
        match value {
            "last-resort" => Some(Self::LastResort),
            "include" => Some(Self::Include),
            "exclude" => Some(Self::Exclude),
            _ => None,
        }
    }
}

// === impl Skip ===

impl Skip {
    /// Makes a skip.
    pub fn new(reason: SkipReason, detail: impl Into<String>) -> Self {
        let mut detail = detail.into();
        if let Some((end, _)) = detail.char_indices().nth(LONGEST_DETAIL) {
            detail.truncate(end);
            detail.push('…');
            detail.shrink_to_fit();
        }
        Self {
            reason,
            detail,
            about: None,
        }
    }

    /// Tells whether the object is a flat (remote-discovery) mirror.
    pub fn is_flat(&self) -> bool {
        self.reason == SkipReason::NotHeadless && self.detail == FLAT_MIRROR
    }

    /// Returns the service and the cluster of a mirror of another kind (M10).
    pub fn other_kind(&self) -> Option<&(ServiceKey, ClusterName)> {
        let about = self.about.as_ref();
        about.filter(|_| self.reason == SkipReason::NotHeadless)
    }
}

impl SkipReason {
    /// Every reason, for metrics that show zeros too.
    pub const ALL: [Self; 7] = [
        Self::Undecodable,
        Self::NoParent,
        Self::NamespaceMismatch,
        Self::BadName,
        Self::BadAddress,
        Self::NotHeadless,
        Self::ExcludedCluster,
    ];

    /// Returns the reason's name in logs, metrics and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Undecodable => "undecodable",
            Self::NoParent => "no-parent",
            Self::NamespaceMismatch => "namespace-mismatch",
            Self::BadName => "bad-name",
            Self::BadAddress => "bad-address",
            Self::NotHeadless => "not-headless",
            Self::ExcludedCluster => "excluded-cluster",
        }
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests;
