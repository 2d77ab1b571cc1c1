//! Checks of any text as a Kubernetes object.

use global_dns::model::key;
use global_dns::model::{Kind, KubeObject, Object, ProblemKind, parse};
use serde_json::Value;

use super::memory::holds_at_most;

/// What an object is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Service,
    /// A slice of a mirror.
    MirrorSlice,
    /// A slice with the pods of a Service of this cluster.
    PodSlice,
    /// A slice that says whether pods of an exported Service are ready.
    ReadySlice,
    Link,
}

/// Parses octets as an object of each kind.
pub fn check(octets: &[u8]) {
    let Ok(text) = str::from_utf8(octets) else {
        return; // JSON is UTF-8, and the list reader replaces invalid octets
    };
    read(text);
    // In a watch, another library has parsed the object before, which removes duplicate keys.
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        let text = value.to_string();
        read(&text);
        for kind in [Kind::Service, Kind::EndpointSlice] {
            check_selection(kind, &value, &text);
        }
    }
}

fn read(text: &str) {
    // The parsed object holds parts of the JSON, which may need more memory than the text: `[{},{},…`.
    let limit = 64 * 1024 + 200 * text.len() as u64;
    holds_at_most(limit, "reading an object", || {
        let object = KubeObject::read(text);
        for kind in Kind::ALL {
            let found = parse::read(kind, &object);
            found.iter().for_each(check_detail);
            if object.problem().is_some() {
                let found = found.map(|object| skip_reason(&object));
                assert_eq!(
                    found,
                    Some(Some(ProblemKind::UnusableObject)),
                    "the object is lost: {text}"
                );
            }
        }
    });
}

/// Asserts that the detail of a skip is short.
fn check_detail(object: &Object) {
    if let Object::Skipped(skip) = object {
        assert!(!skip.detail.is_empty() && skip.detail.chars().count() <= 401);
    }
}

/// Returns the skip reason of an object.
pub fn skip_reason(object: &Object) -> Option<ProblemKind> {
    match object {
        Object::Skipped(skip) => Some(skip.kind),
        _ => None,
    }
}

/// Asserts that an object is read if it has a role, or is undecodable.
fn check_selection(kind: Kind, value: &Value, text: &str) {
    let Some(object) = parse::read(kind, &KubeObject::read(text)) else {
        assert_eq!(role_of(kind, value), None, "the object is lost: {text}");
        assert!(
            value["metadata"]["name"].is_string(),
            "the object is lost: {text}"
        );
        return;
    };
    if skip_reason(&object) != Some(ProblemKind::UnusableObject) {
        assert!(role_of(kind, value).is_some(), "{text}");
    }
}

/// Returns the role of an object if it matters, independently of the server's code.
pub fn role_of(kind: Kind, object: &Value) -> Option<Role> {
    let label = |key: &str| object["metadata"]["labels"][key].as_str();
    let is_mirror = label(key::MIRRORED_SERVICE) == Some("true");
    let has_mirror_label = label(key::MIRRORED_SERVICE).is_some();
    let is_of_mcs = label(key::MCS_SERVICE).is_some();
    let has_other_owner = label(key::SOURCE_CLUSTER).is_some()
        || label(key::MANAGED_BY) == Some("endpointslice-mesh-controller.cilium.io");
    match kind {
        Kind::Service => {
            let is_foreign = has_mirror_label || is_of_mcs;
            (is_mirror || !is_foreign).then_some(Role::Service)
        }
        Kind::Link => Some(Role::Link),
        // Also with labels of Linkerd: an object of both worlds belongs to the Multi-Cluster Services API.
        Kind::EndpointSlice if is_of_mcs => None,
        Kind::EndpointSlice if is_mirror => Some(Role::MirrorSlice),
        Kind::EndpointSlice if has_mirror_label || has_other_owner => None,
        Kind::EndpointSlice if label(key::HEADLESS).is_some() => Some(Role::PodSlice),
        Kind::EndpointSlice => {
            let is_managed = label(key::MANAGED_BY) == Some("endpointslice-controller.k8s.io");
            match (is_managed, label(key::EXPORTED)) {
                (false, _) => Some(Role::PodSlice),
                (true, exported) => exported.map(|_| Role::ReadySlice),
            }
        }
    }
}
