//! Objects that only `check` reads: mirrors with their Endpoints and slices, the probe Services of gateways, and Links.
//!
//! They are parsed with the types of Kubernetes, because checks need fields that the server does not read. Invalid objects are
//! ignored.

use k8s_openapi::Metadata;
pub use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{EndpointSubset, ServicePort};
pub use k8s_openapi::api::core::v1::{
    Endpoints, Namespace as KubeNamespace, Service as KubeService,
};
pub use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::finding::Fact;
use crate::model::{Kind, key};

/// Selects mirrors, their Endpoints and their slices. Linkerd labels Services and Endpoints alike, and Kubernetes copies the
/// labels of Endpoints to slices.
pub const MIRRORS: &str = "mirror.linkerd.io/mirrored-service=true";
/// Selects Services that this cluster exports through its gateway.
pub const EXPORTED: &str = "mirror.linkerd.io/exported=true";
/// Selects the Deployments of gateways.
pub const GATEWAYS: &str = "component=gateway,linkerd.io/extension=multicluster";
/// Selects objects that no watch selects, neither as a mirror nor as an object of this cluster.
pub const UNWATCHED_OBJECTS: &str =
    "mirror.linkerd.io/mirrored-service,mirror.linkerd.io/mirrored-service!=true";
/// Selects the probe Services of gateways.
pub const PROBE_SERVICES: &str = "mirror.linkerd.io/mirrored-gateway=true";
/// The API group of Links.
pub const LINKS_GROUP: &str = "multicluster.linkerd.io";

/// Label of the probe Services of gateways.
const GATEWAY: &str = "mirror.linkerd.io/mirrored-gateway";
/// Annotation: the tool that created an object, with its version.
const CREATED_BY: &str = "linkerd.io/created-by";

/// Annotation: the time for which a proxy keeps an address that it does not use.
const CACHE_TIMEOUT: &str = "config.linkerd.io/proxy-outbound-discovery-cache-unused-timeout";
/// Annotation: ports without protocol detection by the proxy. It replaces the default.
const OPAQUE_PORTS: &str = "config.linkerd.io/opaque-ports";
/// The value of [`OPAQUE_PORTS`] that is the default in Linkerd.
pub(super) const OPAQUE_BY_DEFAULT: &str = "25,587,3306,4444,5432,6379,9300,11211";
/// Prefixes of port names and application protocols that the proxy knows.
const DETECTED: [&str; 4] = ["http", "grpc", "h2c", "kubernetes.io/h2c"];

/// A type of Kubernetes objects.
pub trait KubeType: DeserializeOwned + Metadata<Ty = ObjectMeta> {}

impl<T: DeserializeOwned + Metadata<Ty = ObjectMeta>> KubeType for T {}

/// The objects that only `check` reads. There may be more than a check is about.
#[derive(Debug)]
pub struct CheckedObjects {
    /// Mirrors, probe Services of gateways, and Services that no watch selects.
    pub services: Fact<Vec<KubeService>>,
    /// Slices of mirrors, and those that no watch selects.
    pub slices: Fact<Vec<EndpointSlice>>,
    /// Endpoints of mirrors.
    pub endpoints: Fact<Vec<Endpoints>>,
    /// The Links of this cluster.
    pub links: Fact<Vec<Link>>,
    /// The gateways of this cluster.
    pub gateways: Gateways,
}

/// The gateways of a cluster in the namespaces of Links, each or the reason why it is not known. `None`: the cluster exports no
/// headless Service.
pub type Gateways = Fact<Option<Vec<Fact<Gateway>>>>;

/// A gateway of this cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// The namespace and the name of its Deployment.
    pub name: String,
    /// The annotation `CACHE_TIMEOUT` of its pods.
    pub cache_timeout: Option<String>,
}

/// A Link of this cluster to another cluster.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Link {
    /// `spec`.
    pub spec: CheckedLinkSpec,
    /// `status`.
    #[serde(default)]
    pub status: LinkStatus,
}

/// `spec` of a Link.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckedLinkSpec {
    /// The cluster name in the label of its mirrors.
    pub target_cluster_name: String,
    /// Selects the Services that are mirrored.
    pub selector: Option<LabelSelector>,
}

/// `status` of a Link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LinkStatus {
    /// The Services that are to be mirrored.
    pub mirror_services: Vec<LinkedService>,
}

/// The status of a Service in a Link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LinkedService {
    /// The Service in the other cluster.
    pub remote_ref: RemoteRef,
    /// Its conditions, such as `Mirrored`.
    pub conditions: Vec<LinkCondition>,
}

/// The name of a Service in another cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RemoteRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// A condition of a Service in a Link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct LinkCondition {
    /// `type`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True` or `False`.
    pub status: String,
    /// One word.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

/// Parses objects of Kubernetes. Ignores invalid ones.
pub fn parse_all<T: KubeType>(objects: impl IntoIterator<Item: AsRef<str>>) -> Vec<T> {
    // Managed fields are larger than the rest of most objects, and no check reads them.
    let strip = |mut object: T| {
        object.metadata_mut().managed_fields = None;
        object
    };
    parse(objects).map(strip).collect()
}

/// Parses Links. Ignores invalid ones.
pub fn parse_links(objects: impl IntoIterator<Item: AsRef<str>>) -> Vec<Link> {
    parse(objects).collect()
}

fn parse<T: DeserializeOwned>(
    objects: impl IntoIterator<Item: AsRef<str>>,
) -> impl Iterator<Item = T> {
    let objects = objects.into_iter();
    objects.filter_map(|json| serde_json::from_str(json.as_ref()).ok())
}

// === Labels ===

fn label<'o>(metadata: &'o ObjectMeta, key: &str) -> Option<&'o str> {
    metadata.labels.as_ref()?.get(key).map(String::as_str)
}

fn annotation<'o>(metadata: &'o ObjectMeta, key: &str) -> Option<&'o str> {
    metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// Returns whether [`MIRRORS`] selects an object.
fn is_mirror(metadata: &ObjectMeta) -> bool {
    label(metadata, key::MIRRORED_SERVICE) == Some("true")
}

/// Returns whether an object belongs to the mirror of a whole Service.
fn is_service_mirror(metadata: &ObjectMeta) -> bool {
    is_mirror(metadata) && label(metadata, key::HEADLESS_MIRROR).is_none()
}

/// Returns the namespace and the name of an object.
fn name_of(metadata: &ObjectMeta) -> (&str, &str) {
    let [namespace, name] = [&metadata.namespace, &metadata.name].map(Option::as_deref);
    (namespace.unwrap_or_default(), name.unwrap_or_default())
}

/// Describes an object with the value of its label, if [`UNWATCHED_OBJECTS`] selects it.
pub(super) fn unwatched_object(kind: Kind, metadata: &ObjectMeta) -> Option<String> {
    let value = label(metadata, key::MIRRORED_SERVICE).filter(|value| *value != "true")?;
    let (namespace, name) = name_of(metadata);
    Some(format!("{kind}/{namespace}/{name} ('{value}')"))
}

// === Mirrors ===

/// Returns the namespace and the name of the mirror that a slice belongs to.
pub(super) fn mirror_of_slice(slice: &EndpointSlice) -> Option<(&str, &str)> {
    let service =
        label(&slice.metadata, key::SERVICE_NAME).filter(|_| is_mirror(&slice.metadata))?;
    Some((name_of(&slice.metadata).0, service))
}

/// Returns the namespace and the name of the mirror that Endpoints belong to, if they have an address, ready or not. Linkerd
/// writes them, and the controller `endpointslice-mirroring-controller` of Kubernetes copies them to slices.
///
/// That controller writes no slice for Endpoints without an address, not even an empty one
/// (`pkg/controller/endpointslicemirroring/reconciler.go`). Addresses that are not ready are copied, too, and show that a
/// gateway is down.
pub(super) fn mirror_of_endpoints(endpoints: &Endpoints) -> Option<(&str, &str)> {
    let has_address = |subset: &EndpointSubset| {
        [&subset.addresses, &subset.not_ready_addresses]
            .into_iter()
            .flatten()
            .any(|list| !list.is_empty())
    };
    let has_address = endpoints.subsets.iter().flatten().any(has_address);
    (has_address && is_mirror(&endpoints.metadata)).then(|| name_of(&endpoints.metadata))
}

/// Returns the mirror of a whole Service that a slice belongs to, with the addresses that have no hostname. In a headless
/// mirror, these are gateway addresses.
pub(super) fn addresses_without_hostname(
    slice: &EndpointSlice,
) -> Option<((&str, &str), Vec<&String>)> {
    let mirror = mirror_of_slice(slice).filter(|_| is_service_mirror(&slice.metadata))?;
    let endpoints = slice.endpoints.iter();
    let nameless = endpoints.filter(|one| one.hostname.as_ref().is_none_or(String::is_empty));
    Some((mirror, nameless.flat_map(|one| &one.addresses).collect()))
}

/// Returns the headless mirror of an endpoint mirror, with the TCP ports of unknown protocol that are not opaque, such as
/// `26257 (sql)`. Returns `None` for any other Service. The annotation of the headless mirror has no effect.
pub(super) fn unmarked_ports(service: &KubeService) -> Option<((&str, &str), Vec<String>)> {
    let (metadata, spec) = (&service.metadata, service.spec.as_ref()?);
    let headless = label(metadata, key::HEADLESS_MIRROR).filter(|_| is_mirror(metadata))?;
    let opaque = annotation(metadata, OPAQUE_PORTS).unwrap_or(OPAQUE_BY_DEFAULT);
    let is_opaque = |port: i32| {
        let mut ranges = opaque.split(',');
        ranges.any(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let [first, last] = [first, last].map(|number| number.trim().parse::<i32>());
            first.is_ok_and(|first| last.is_ok_and(|last| (first..=last).contains(&port)))
        })
    };
    let ports = spec.ports.iter().flatten();
    let unmarked = ports.filter(|port| is_unknown(port) && !is_opaque(port.port));
    let describe = |port: &ServicePort| match &port.name {
        Some(name) => format!("{} ({name})", port.port),
        None => port.port.to_string(),
    };
    let ports = unmarked.map(describe).collect();
    Some(((name_of(metadata).0, headless), ports))
}

/// Returns whether the protocol of a port is unknown.
fn is_unknown(port: &ServicePort) -> bool {
    let is_detected = |text: &Option<String>| {
        let begins = |text: &String| DETECTED.iter().any(|start| text.starts_with(start));
        text.as_ref().is_some_and(begins)
    };
    port.protocol.as_deref().unwrap_or("TCP") == "TCP"
        && !is_detected(&port.name)
        && !is_detected(&port.app_protocol)
}

/// Returns whether Linkerd can mirror a Service of this cluster with a mirror for each pod.
pub fn is_exported_headless(service: &KubeService) -> bool {
    let spec = service.spec.as_ref();
    let is_headless = spec.is_some_and(|spec| spec.cluster_ip.as_deref() == Some("None"));
    is_headless && label(&service.metadata, key::EXPORTED) == Some("true")
}

/// Returns the version of Linkerd that created a gateway's probe Service: `linkerd/helm edge-26.8.3`. Returns `None`
/// for any other Service.
pub(super) fn linkerd_version(service: &KubeService) -> Option<&str> {
    let is_probe = label(&service.metadata, GATEWAY) == Some("true");
    annotation(&service.metadata, CREATED_BY).filter(|_| is_probe)
}

// === impl Gateway ===

impl Gateway {
    /// Reads the annotation of a gateway's pods as Linkerd's injector does: that of the template, else that of the namespace.
    ///
    /// # Errors
    ///
    /// If the annotation of the namespace counts, and the namespace cannot be read.
    pub fn read(deployment: &Deployment, namespace: &Fact<KubeNamespace>) -> Fact<Self> {
        let spec = deployment.spec.as_ref();
        let template = spec.and_then(|spec| spec.template.metadata.as_ref());
        let own = template.and_then(|metadata| annotation(metadata, CACHE_TIMEOUT));
        let value = match (own, namespace) {
            (None, Err(reason)) => return Err(reason.clone()),
            (None, Ok(namespace)) => annotation(&namespace.metadata, CACHE_TIMEOUT),
            _ => own,
        };
        let (namespace, name) = name_of(&deployment.metadata);
        Ok(Self {
            name: format!("{namespace}/{name}"),
            cache_timeout: value.map(str::to_owned),
        })
    }
}

// === impl Link ===

impl Link {
    /// Returns the cluster name in the label of its mirrors.
    pub(super) fn cluster(&self) -> &str {
        &self.spec.target_cluster_name
    }

    /// Returns whether it selects Services by other labels than `mirror.linkerd.io/exported=true`, in one of the two forms.
    pub(super) fn has_own_selector(&self) -> bool {
        let Some(selector) = &self.spec.selector else {
            return false;
        };
        let labels = selector.match_labels.iter().flatten();
        let labels = labels.map(|(key, value)| (key, "In", std::slice::from_ref(value)));
        let expressions = selector.match_expressions.iter().flatten().map(|one| {
            let values = one.values.as_deref().unwrap_or_default();
            (&one.key, one.operator.as_str(), values)
        });
        let (exported, value) = (key::EXPORTED.to_owned(), ["true".to_owned()]);
        let default = [(&exported, "In", value.as_slice())];
        !labels.chain(expressions).eq(default)
    }
}

// === impl LinkedService ===

impl LinkedService {
    /// Returns the condition that it is not mirrored.
    pub(super) fn failure(&self) -> Option<&LinkCondition> {
        let mut conditions = self.conditions.iter();
        conditions.find(|one| one.kind == "Mirrored" && one.status == "False")
    }
}

#[cfg(test)]
mod tests;
