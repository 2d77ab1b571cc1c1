//! Objects that only `check` reads: slices of headless mirrors, Endpoints, Links, and the probe Services of gateways. Only the
//! fields that checks need are parsed. Invalid objects are ignored.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::model::Kind;
use crate::model::key;

/// Selects mirrors, their Endpoints and their slices. Linkerd labels Services and Endpoints alike, and Kubernetes copies the
/// labels of Endpoints to slices.
pub const MIRRORS: &str = "mirror.linkerd.io/mirrored-service=true";
/// Selects mirrors of whole Services, without endpoint mirrors, and their slices.
pub const SERVICE_MIRRORS: &str =
    "mirror.linkerd.io/mirrored-service=true,!mirror.linkerd.io/headless-mirror-svc-name";
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

/// Annotation: ports without protocol detection by the proxy.
const OPAQUE_PORTS: &str = "config.linkerd.io/opaque-ports";
/// Ports that are opaque without an annotation, by default in Linkerd.
const OPAQUE_BY_DEFAULT: [u16; 8] = [25, 587, 3306, 4444, 5432, 6379, 9300, 11211];
/// Prefixes of port names and application protocols that the proxy knows.
const DETECTED: [&str; 4] = ["http", "grpc", "h2c", "kubernetes.io/h2c"];

/// A slice of a mirror, with its addresses without a hostname.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorSlice {
    /// Its namespace.
    pub namespace: String,
    /// The name of its Service.
    pub service: String,
    /// Addresses without a hostname. In a headless mirror, these are gateway addresses.
    pub without_hostname: Vec<String>,
}

/// The Endpoints of a mirror. Linkerd writes them, and the controller `endpointslice-mirroring-controller` of Kubernetes
/// copies them to slices.
///
/// That controller writes no slice for Endpoints without an address, not even an empty one
/// (`pkg/controller/endpointslicemirroring/reconciler.go`), so that only Endpoints with an address count here. Addresses that
/// are not ready count: those are copied, too, and show that a gateway is down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorEndpoints {
    /// Their namespace.
    pub namespace: String,
    /// Their name, which is that of the mirror.
    pub name: String,
    /// Whether a slice of the mirror exists.
    pub has_slice: bool,
}

/// A Link of this cluster to another cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// `spec.targetClusterName`: the cluster name in the label of its mirrors.
    pub cluster: String,
    /// `spec.selector` differs from the default, `mirror.linkerd.io/exported=true`.
    pub has_own_selector: bool,
    /// `status.mirrorServices`.
    pub services: Vec<LinkedService>,
}

/// The status of a Service in a Link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedService {
    /// The Service's namespace.
    pub namespace: String,
    /// Its name in the other cluster.
    pub name: String,
    /// The reason why it is not mirrored.
    pub failure: Option<LinkFailure>,
}

/// A condition of a Link: a Service is not mirrored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkFailure {
    /// `reason`: one word.
    pub reason: String,
    /// `message`.
    pub message: String,
}

/// A headless mirror, with the ports that may need to be marked opaque.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorPorts {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// TCP ports of unknown protocol, if no annotation lists opaque ports: `26257 (sql)`.
    pub unmarked: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawObject {
    metadata: RawMetadata,
    spec: RawSpec,
    status: RawStatus,
    endpoints: Option<Vec<RawEndpoint>>,
    subsets: Option<Vec<RawSubset>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawMetadata {
    namespace: String,
    name: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSpec {
    target_cluster_name: Option<String>,
    selector: Option<RawSelector>,
    #[serde(rename = "clusterIP")]
    cluster_ip: Option<String>,
    ports: Option<Vec<RawPort>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawPort {
    name: Option<String>,
    port: u16,
    protocol: Option<String>,
    app_protocol: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawStatus {
    mirror_services: Vec<RawLinked>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawLinked {
    remote_ref: RawRef,
    conditions: Vec<RawCondition>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawRef {
    namespace: String,
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: String,
    message: String,
}

/// The parts of a label selector that the default selector can have.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSelector {
    match_labels: BTreeMap<String, String>,
    match_expressions: Vec<RawExpression>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
struct RawExpression {
    key: String,
    operator: String,
    #[serde(default)]
    values: Vec<String>,
}

impl RawSelector {
    /// Returns whether it selects exactly `mirror.linkerd.io/exported=true`, in one of the two forms.
    fn is_default(&self) -> bool {
        let labels = self
            .match_labels
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()));
        let expressions = self.match_expressions.iter().map(|expression| {
            let is_one = expression.operator == "In" && expression.values.len() == 1;
            let value = expression.values.first().filter(|_| is_one);
            (
                expression.key.as_str(),
                value.map_or("", |value| value.as_str()),
            )
        });
        labels.chain(expressions).eq([(key::EXPORTED, "true")])
    }
}

#[derive(Debug, Deserialize)]
struct RawEndpoint {
    #[serde(default)]
    addresses: Vec<String>,
    hostname: Option<String>,
}

/// An entry of `subsets` of Endpoints.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSubset {
    addresses: Option<Vec<IgnoredAny>>,
    not_ready_addresses: Option<Vec<IgnoredAny>>,
}

fn parse(json: &str) -> Option<RawObject> {
    serde_json::from_str(json).ok()
}

impl RawMetadata {
    /// Returns whether [`MIRRORS`] selects the object.
    fn is_mirror(&self) -> bool {
        self.labels.get(key::MIRRORED_SERVICE).map(String::as_str) == Some("true")
    }

    /// Returns whether [`SERVICE_MIRRORS`] selects the object.
    fn is_service_mirror(&self) -> bool {
        self.is_mirror() && !self.labels.contains_key(key::HEADLESS_MIRROR)
    }
}

impl RawSubset {
    /// Returns whether it has an address, ready or not.
    fn has_address(&self) -> bool {
        [&self.addresses, &self.not_ready_addresses]
            .into_iter()
            .any(|list| list.as_ref().is_some_and(|list| !list.is_empty()))
    }
}

/// Parses an EndpointSlice. Returns `None` if [`SERVICE_MIRRORS`] does not select it.
pub fn mirror_slice(json: &str) -> Option<MirrorSlice> {
    let slice = parse(json)?;
    let is_selected = slice.metadata.is_service_mirror();
    let labels = &slice.metadata.labels;
    let service = labels.get(key::SERVICE_NAME).filter(|_| is_selected)?;
    let endpoints = slice.endpoints.iter().flatten();
    let without_hostname = endpoints.filter(|e| e.hostname.as_ref().is_none_or(String::is_empty));
    Some(MirrorSlice {
        service: service.clone(),
        without_hostname: without_hostname.flat_map(|e| e.addresses.clone()).collect(),
        namespace: slice.metadata.namespace,
    })
}

/// Parses the Endpoints of mirrors that have an address, and finds out whether each has a slice.
pub fn mirror_endpoints<'j>(
    endpoints: impl Iterator<Item = &'j str>,
    slices: impl Iterator<Item = &'j str>,
) -> Vec<MirrorEndpoints> {
    let mirror = |json: &str| parse(json).filter(|object| object.metadata.is_mirror());
    let copied: BTreeSet<(String, String)> = slices
        .filter_map(|json| {
            let RawMetadata {
                namespace,
                mut labels,
                ..
            } = mirror(json)?.metadata;
            Some((namespace, labels.remove(key::SERVICE_NAME)?))
        })
        .collect();
    let with_address = endpoints.filter_map(|json| {
        let RawObject {
            metadata, subsets, ..
        } = mirror(json)?;
        let mut subsets = subsets.iter().flatten();
        let name = (metadata.namespace, metadata.name);
        subsets.any(RawSubset::has_address).then_some(name)
    });
    with_address
        .map(|name| {
            let has_slice = copied.contains(&name);
            let (namespace, name) = name;
            MirrorEndpoints {
                namespace,
                name,
                has_slice,
            }
        })
        .collect()
}

/// Parses a Link.
pub fn link(json: &str) -> Option<Link> {
    let RawObject { spec, status, .. } = parse(json)?;
    Some(Link {
        cluster: spec.target_cluster_name?,
        has_own_selector: spec.selector.is_some_and(|selector| !selector.is_default()),
        services: status
            .mirror_services
            .into_iter()
            .map(linked_service)
            .collect(),
    })
}

fn linked_service(service: RawLinked) -> LinkedService {
    let is_failure = |one: &RawCondition| one.kind == "Mirrored" && one.status == "False";
    let failure = service.conditions.into_iter().find(is_failure);
    LinkedService {
        namespace: service.remote_ref.namespace,
        name: service.remote_ref.name,
        failure: failure.map(
            |RawCondition {
                 reason, message, ..
             }| LinkFailure { reason, message },
        ),
    }
}

/// Parses a Service. Returns `None` if it is not a headless mirror.
pub fn mirror_ports(json: &str) -> Option<MirrorPorts> {
    let RawObject { metadata, spec, .. } = parse(json)?;
    if !metadata.is_service_mirror() || spec.cluster_ip.as_deref() != Some("None") {
        return None;
    }
    // Any value shows that the owner of the exported Service has decided.
    let is_decided = metadata.annotations.contains_key(OPAQUE_PORTS);
    let ports = spec.ports.into_iter().flatten();
    let unmarked = ports.filter(|port| !is_decided && port.is_unmarked());
    let describe = |port: RawPort| match port.name {
        Some(name) => format!("{} ({name})", port.port),
        None => port.port.to_string(),
    };
    Some(MirrorPorts {
        namespace: metadata.namespace,
        name: metadata.name,
        unmarked: unmarked.map(describe).collect(),
    })
}

impl RawPort {
    /// Returns whether the port may need to be marked opaque, because its protocol is unknown.
    fn is_unmarked(&self) -> bool {
        let is_detected = |text: &Option<String>| {
            let begins = |text: &String| DETECTED.iter().any(|start| text.starts_with(start));
            text.as_ref().is_some_and(begins)
        };
        self.protocol.as_deref().unwrap_or("TCP") == "TCP"
            && !OPAQUE_BY_DEFAULT.contains(&self.port)
            && !is_detected(&self.name)
            && !is_detected(&self.app_protocol)
    }
}

/// Returns the name of an object and the value of its label. Returns `None` if [`UNWATCHED_OBJECTS`] does not select
/// it.
pub fn unwatched_object(kind: Kind, json: &str) -> Option<String> {
    let RawMetadata {
        namespace,
        name,
        labels,
        ..
    } = parse(json)?.metadata;
    let value = labels.get(key::MIRRORED_SERVICE);
    let value = value.filter(|value| *value != "true")?;
    Some(format!("{kind}/{namespace}/{name} ('{value}')"))
}

/// Returns the version of Linkerd that created a gateway's probe Service: `linkerd/helm edge-26.8.3`. Returns `None`
/// for any other Service.
pub fn linkerd_version(json: &str) -> Option<String> {
    let metadata = parse(json)?.metadata;
    let is_probe = metadata.labels.get(GATEWAY).map(String::as_str) == Some("true");
    metadata
        .annotations
        .get(CREATED_BY)
        .filter(|_| is_probe)
        .cloned()
}

#[cfg(test)]
mod tests;
