//! The objects that only `check` reads: slices of headless mirrors, Links, and the probe Services of gateways. Each is
//! read from its JSON, as far as it is looked at; what makes no sense is nothing.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::mirror::Kind;
use crate::mirror::watch::key;

/// Selects mirrors that are no endpoint mirrors, and their slices.
pub const WHOLE_MIRRORS: &str =
    "mirror.linkerd.io/mirrored-service=true,!mirror.linkerd.io/headless-mirror-svc-name";
/// Selects what no watch does, neither as a mirror nor as an object of this cluster.
pub const ODD_LABELS: &str =
    "mirror.linkerd.io/mirrored-service,mirror.linkerd.io/mirrored-service!=true";
/// Selects the probe Services of gateways.
pub const PROBES: &str = "mirror.linkerd.io/mirrored-gateway=true";
/// The API group of Links.
pub const LINKS_GROUP: &str = "multicluster.linkerd.io";

/// Label of the probe Services of gateways.
const GATEWAY: &str = "mirror.linkerd.io/mirrored-gateway";
/// Annotation: the tool that made an object, with its version.
const CREATED_BY: &str = "linkerd.io/created-by";

/// Annotation: ports whose protocol the proxy must not detect.
const OPAQUE_PORTS: &str = "config.linkerd.io/opaque-ports";
/// Ports that are opaque without an annotation: Linkerd's defaults.
const OPAQUE_BY_DEFAULT: [u16; 8] = [25, 587, 3306, 4444, 5432, 6379, 9300, 11211];
/// How names and application protocols of ports begin whose protocol the proxy knows.
const DETECTED: [&str; 4] = ["http", "grpc", "h2c", "kubernetes.io/h2c"];

/// A slice of a mirror that is no endpoint mirror, as far as it is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadlessSlice {
    /// Its namespace.
    pub namespace: String,
    /// The Service that it belongs to.
    pub service: String,
    /// Addresses without a hostname: of a headless mirror these are gateways.
    pub nameless: Vec<String>,
}

/// A Link: a cluster that is mirrored from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// `spec.targetClusterName`, which mirrors have in their label.
    pub cluster: String,
    /// `spec.selector` is not the one by default, `mirror.linkerd.io/exported=true`.
    pub has_own_selector: bool,
    /// `status.mirrorServices`.
    pub services: Vec<LinkedService>,
}

/// What a Link says of a Service of its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedService {
    /// The Service's namespace.
    pub namespace: String,
    /// Its name over there.
    pub name: String,
    /// Why it is not mirrored, if the Link says so.
    pub failure: Option<Failure>,
}

/// A condition of a Link that says that a Service is not mirrored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// `reason`, one word.
    pub reason: String,
    /// `message`.
    pub message: String,
}

/// A headless mirror, with the ports that may have to be marked opaque.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorPorts {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// TCP ports of unknown protocol, if no annotation says which ports are opaque: `26257 (sql)`.
    pub unmarked: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawObject {
    metadata: RawMetadata,
    spec: RawSpec,
    status: RawStatus,
    endpoints: Option<Vec<RawEndpoint>>,
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

/// A label selector, as far as it can be the one by default.
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
    /// Tells whether it selects `mirror.linkerd.io/exported=true` and nothing else, in one of the two forms.
    fn is_default(&self) -> bool {
        let labels = self.match_labels.iter();
        let labels = labels.map(|(key, value)| (key.as_str(), value.as_str()));
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

fn raw(json: &str) -> Option<RawObject> {
    serde_json::from_str(json).ok()
}

impl RawMetadata {
    /// Tells whether [`WHOLE_MIRRORS`] selects the object.
    fn is_whole_mirror(&self) -> bool {
        self.labels.get(key::MIRRORED_SERVICE).map(String::as_str) == Some("true")
            && !self.labels.contains_key(key::HEADLESS_MIRROR)
    }
}

/// Reads an EndpointSlice, if [`WHOLE_MIRRORS`] selects it.
pub fn headless_slice(json: &str) -> Option<HeadlessSlice> {
    let slice = raw(json)?;
    let is_selected = slice.metadata.is_whole_mirror();
    let labels = &slice.metadata.labels;
    let service = labels.get(key::SERVICE_NAME).filter(|_| is_selected)?;
    let endpoints = slice.endpoints.iter().flatten();
    let nameless = endpoints.filter(|e| e.hostname.as_ref().is_none_or(String::is_empty));
    Some(HeadlessSlice {
        service: service.clone(),
        nameless: nameless.flat_map(|e| e.addresses.clone()).collect(),
        namespace: slice.metadata.namespace,
    })
}

/// Reads a Link.
pub fn link(json: &str) -> Option<Link> {
    let RawObject { spec, status, .. } = raw(json)?;
    Some(Link {
        cluster: spec.target_cluster_name?,
        has_own_selector: spec.selector.is_some_and(|selector| !selector.is_default()),
        services: status.mirror_services.into_iter().map(linked).collect(),
    })
}

fn linked(service: RawLinked) -> LinkedService {
    let is_failure = |one: &RawCondition| one.kind == "Mirrored" && one.status == "False";
    let failure = service.conditions.into_iter().find(is_failure);
    LinkedService {
        namespace: service.remote_ref.namespace,
        name: service.remote_ref.name,
        failure: failure.map(
            |RawCondition {
                 reason, message, ..
             }| Failure { reason, message },
        ),
    }
}

/// Reads a Service, if it is a headless mirror.
pub fn mirror_ports(json: &str) -> Option<MirrorPorts> {
    let RawObject { metadata, spec, .. } = raw(json)?;
    if !metadata.is_whole_mirror() || spec.cluster_ip.as_deref() != Some("None") {
        return None;
    }
    // Any value is a decision of the exported Service's owner.
    let is_decided = metadata.annotations.contains_key(OPAQUE_PORTS);
    let ports = spec.ports.into_iter().flatten();
    let unmarked = ports.filter(|port| !is_decided && port.is_unmarked());
    let words = |port: RawPort| match port.name {
        Some(name) => format!("{} ({name})", port.port),
        None => port.port.to_string(),
    };
    Some(MirrorPorts {
        namespace: metadata.namespace,
        name: metadata.name,
        unmarked: unmarked.map(words).collect(),
    })
}

impl RawPort {
    /// Tells whether the port may have to be marked opaque: its protocol is not known.
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

/// Names an object, if [`ODD_LABELS`] selects it, with the value of the label.
pub fn odd_label(kind: Kind, json: &str) -> Option<String> {
    let RawMetadata {
        namespace,
        name,
        labels,
        ..
    } = raw(json)?.metadata;
    let value = labels.get(key::MIRRORED_SERVICE);
    let value = value.filter(|value| *value != "true")?;
    Some(format!("{kind}/{namespace}/{name} ('{value}')"))
}

/// Reads who made a Service, if it is a gateway's probe Service: `linkerd/helm edge-26.8.3`.
pub fn maker(json: &str) -> Option<String> {
    let metadata = raw(json)?.metadata;
    let is_probe = metadata.labels.get(GATEWAY).map(String::as_str) == Some("true");
    metadata
        .annotations
        .get(CREATED_BY)
        .filter(|_| is_probe)
        .cloned()
}

#[cfg(test)]
mod tests;
