//! Checks of any text as a Kubernetes object.

use global_dns::model::key;
use global_dns::model::{Kind, KubeObject, Object, ProblemKind, Watch, parse};
use serde_json::Value;

use super::memory::holds_at_most;

/// Parses octets as an object of each kind and for every watch.
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
        for kind in [Kind::Service, Kind::EndpointSlice] {
            if let Some((watch, found)) = parse::select_and_parse(kind, &object) {
                assert_eq!(watch.kind(), kind);
                check_detail(&found);
            }
            if object.problem().is_some() {
                let found =
                    parse::select_and_parse(kind, &object).map(|(_, object)| skip_reason(&object));
                assert_eq!(
                    found,
                    Some(Some(ProblemKind::UnusableObject)),
                    "the object is lost: {text}"
                );
            }
        }
        for watch in Watch::ALL {
            check_detail(&parse::parse_object(watch, &object));
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

/// Asserts that an object is assigned to the watch that selects it in an API server, or is undecodable.
fn check_selection(kind: Kind, value: &Value, text: &str) {
    let found = parse::select_and_parse(kind, &KubeObject::read(text));
    let Some((watch, object)) = found else {
        assert_eq!(
            expected_watch(kind, value),
            None,
            "the object is lost: {text}"
        );
        assert!(
            value["metadata"]["name"].is_string(),
            "the object is lost: {text}"
        );
        return;
    };
    if skip_reason(&object) != Some(ProblemKind::UnusableObject) {
        assert_eq!(expected_watch(kind, value), Some(watch), "{text}");
    }
}

/// Returns the watch that has the object if it matters, independently of the server's code.
pub fn expected_watch(kind: Kind, object: &Value) -> Option<Watch> {
    let label = |key: &str| object["metadata"]["labels"][key].as_str();
    let is_mirror = label(key::MIRRORED_SERVICE) == Some("true");
    let has_mirror_label = label(key::MIRRORED_SERVICE).is_some();
    let is_of_mcs = label(key::MCS_SERVICE).is_some();
    let has_other_owner = label(key::SOURCE_CLUSTER).is_some()
        || label(key::MANAGED_BY) == Some("endpointslice-mesh-controller.cilium.io");
    match kind {
        Kind::Service => {
            let is_foreign = has_mirror_label || is_of_mcs;
            (is_mirror || !is_foreign).then_some(Watch::Services)
        }
        Kind::Link => Some(Watch::Links),
        // Also with labels of Linkerd: an object of both worlds belongs to the Multi-Cluster Services API.
        Kind::EndpointSlice if is_of_mcs => None,
        Kind::EndpointSlice if is_mirror => Some(Watch::MirrorSlices),
        Kind::EndpointSlice if has_mirror_label || has_other_owner => None,
        Kind::EndpointSlice if label(key::HEADLESS).is_some() => Some(Watch::LocalSlices),
        Kind::EndpointSlice => {
            let is_managed = label(key::MANAGED_BY) == Some("endpointslice-controller.k8s.io");
            match (is_managed, label(key::EXPORTED)) {
                (false, _) => Some(Watch::ForeignSlices),
                (true, exported) => exported.map(|_| Watch::ExportedSlices),
            }
        }
    }
}
