//! The objects that only `check` reads: slices of headless mirrors, Links, and the probe Services of gateways. Each is
//! read from its JSON, as far as it is looked at; what makes no sense is nothing.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::mirror::watch::key;

/// Selects the slices of mirrors that are no endpoint mirrors.
pub const HEADLESS_SLICES: &str =
    "mirror.linkerd.io/mirrored-service=true,!mirror.linkerd.io/headless-mirror-svc-name";
/// Selects the probe Services of gateways.
pub const PROBES: &str = "mirror.linkerd.io/mirrored-gateway=true";
/// The API group of Links.
pub const LINKS_GROUP: &str = "multicluster.linkerd.io";

/// Label of the probe Services of gateways.
const GATEWAY: &str = "mirror.linkerd.io/mirrored-gateway";
/// Annotation: the tool that made an object, with its version.
const CREATED_BY: &str = "linkerd.io/created-by";

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
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawObject {
    metadata: RawMetadata,
    spec: RawSpec,
    endpoints: Option<Vec<RawEndpoint>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawMetadata {
    namespace: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSpec {
    target_cluster_name: Option<String>,
    selector: Option<RawSelector>,
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

/// Reads an EndpointSlice, if [`HEADLESS_SLICES`] selects it.
pub fn headless_slice(json: &str) -> Option<HeadlessSlice> {
    let slice = raw(json)?;
    let labels = &slice.metadata.labels;
    let is_selected = labels.get(key::MIRRORED_SERVICE).map(String::as_str) == Some("true")
        && !labels.contains_key(key::HEADLESS_MIRROR);
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
    let spec = raw(json)?.spec;
    Some(Link {
        cluster: spec.target_cluster_name?,
        has_own_selector: spec.selector.is_some_and(|selector| !selector.is_default()),
    })
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
mod tests {
    use super::*;
    use serde_json::json;

    fn slice(labels: serde_json::Value) -> String {
        json!({
            "metadata": {"namespace": "prod", "name": "db-east-x", "labels": labels},
            "endpoints": [
                {"addresses": ["10.96.1.1"], "hostname": "db-0"},
                {"addresses": ["198.51.100.10"]},
            ],
        })
        .to_string()
    }

    #[test]
    fn addresses_without_a_hostname_are_told_from_the_others() {
        let text = slice(json!({
            "kubernetes.io/service-name": "db-east",
            "mirror.linkerd.io/mirrored-service": "true",
        }));
        let expected = HeadlessSlice {
            namespace: "prod".to_owned(),
            service: "db-east".to_owned(),
            nameless: vec!["198.51.100.10".to_owned()],
        };
        assert_eq!(headless_slice(&text), Some(expected));
    }

    #[test]
    fn slices_of_endpoint_mirrors_and_of_others_are_none() {
        let of_endpoint_mirror = slice(json!({
            "kubernetes.io/service-name": "db-0-east",
            "mirror.linkerd.io/mirrored-service": "true",
            "mirror.linkerd.io/headless-mirror-svc-name": "db-east",
        }));
        let of_others = slice(json!({"kubernetes.io/service-name": "db"}));
        for text in [of_endpoint_mirror.as_str(), &of_others, "{}", "no JSON"] {
            assert_eq!(headless_slice(text), None, "{text}");
        }
    }

    #[test]
    fn links_name_their_clusters() {
        let text = json!({"metadata": {"name": "a-link"}, "spec": {"targetClusterName": "east"}});
        let east = Link {
            cluster: "east".to_owned(),
            has_own_selector: false,
        };
        assert_eq!(link(&text.to_string()), Some(east));
        assert_eq!(link("{}"), None);
    }

    #[test]
    fn a_selector_of_a_link_is_told_from_the_one_by_default() {
        let exported = "mirror.linkerd.io/exported";
        let one_of = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        for (selector, is_own) in [
            (json!(null), false),
            (json!({"matchLabels": {exported: "true"}}), false),
            (one_of(exported, "In", &["true"]), false),
            (json!({"matchLabels": {exported: "to-west"}}), true),
            (json!({"matchLabels": {"team.example/global": "yes"}}), true),
            (
                json!({"matchLabels": {exported: "true", "tier": "db"}}),
                true,
            ),
            (one_of(exported, "In", &["true", "to-west"]), true),
            (one_of(exported, "NotIn", &["true"]), true),
            (one_of(exported, "Exists", &[]), true),
            (json!({}), true),
        ] {
            let text = json!({"spec": {"targetClusterName": "east", "selector": selector}});
            let link = link(&text.to_string()).unwrap();
            assert_eq!(link.has_own_selector, is_own, "{text}");
        }
    }

    #[test]
    fn only_probe_services_tell_who_made_them() {
        let service = |labels: serde_json::Value| {
            let annotations = json!({"linkerd.io/created-by": "linkerd/helm edge-26.8.3"});
            json!({"metadata": {"labels": labels, "annotations": annotations}}).to_string()
        };
        let probe = service(json!({"mirror.linkerd.io/mirrored-gateway": "true"}));
        assert_eq!(maker(&probe).as_deref(), Some("linkerd/helm edge-26.8.3"));
        assert_eq!(maker(&service(json!({}))), None);
    }
}
