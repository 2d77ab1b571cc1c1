//! What holds of any text in the place of a Kubernetes object.

use global_dns::mirror::watch::key;
use global_dns::mirror::{Kind, KubeObject, Object, SkipReason, Watch, parse};
use serde_json::Value;

use super::memory::holds_at_most;

/// Reads octets as an object of each kind, by every watch.
pub fn check(octets: &[u8]) {
    let Ok(text) = str::from_utf8(octets) else {
        return; // the list reader replaces what is no UTF-8; JSON is a text
    };
    read(text);
    // As it comes out of a watch: read by another library before, without doubles.
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        let text = value.to_string();
        read(&text);
        for kind in [Kind::Service, Kind::EndpointSlice] {
            check_not_lost(kind, &value, &text);
        }
    }
}

fn read(text: &str) {
    // What is kept of an object is a part of it, in pieces that are larger than in JSON: `[{},{},…`.
    let most = 64 * 1024 + 200 * text.len() as u64;
    holds_at_most(most, "reading an object", || {
        let object = KubeObject::read(text);
        for kind in [Kind::Service, Kind::EndpointSlice] {
            if let Some((watch, found)) = parse::found(kind, &object) {
                assert_eq!(watch.kind(), kind);
                check_kept(&found);
            }
            if object.problem().is_some() {
                let found = parse::found(kind, &object).map(|(_, object)| reason(&object));
                assert_eq!(found, Some(Some(SkipReason::Undecodable)), "lost: {text}");
            }
        }
        for watch in Watch::ALL {
            check_kept(&parse::object(watch, &object));
        }
    });
}

/// What is kept can be saved and read again (`--snapshot`), and is short where it is told to people.
fn check_kept(object: &Object) {
    let saved = serde_json::to_string(object).unwrap();
    assert_eq!(&serde_json::from_str::<Object>(&saved).unwrap(), object);
    if let Object::Skipped(skip) = object {
        assert!(!skip.detail.is_empty() && skip.detail.chars().count() <= 401);
    }
}

pub fn reason(object: &Object) -> Option<SkipReason> {
    match object {
        Object::Skipped(skip) => Some(skip.reason),
        _ => None,
    }
}

/// An object that an API server would select is found, and by the watch that it would be sent over; an object that
/// nobody can be asked about is undecodable.
fn check_not_lost(kind: Kind, value: &Value, text: &str) {
    let found = parse::found(kind, &KubeObject::read(text));
    let Some((watch, object)) = found else {
        assert_eq!(selected(kind, value), None, "lost: {text}");
        assert!(value["metadata"]["name"].is_string(), "lost: {text}");
        return;
    };
    if reason(&object) != Some(SkipReason::Undecodable) {
        assert_eq!(selected(kind, value), Some(watch), "{text}");
    }
}

/// The watch whose selectors match, by the words of DESIGN's paragraph on watches.
pub fn selected(kind: Kind, object: &Value) -> Option<Watch> {
    let label = |key: &str| object["metadata"]["labels"][key].as_str();
    let is_mirror = label(key::MIRRORED_SERVICE) == Some("true");
    let is_marked = label(key::MIRRORED_SERVICE).is_some();
    let is_of_others = label(key::MCS_SERVICE).is_some()
        || label(key::SOURCE_CLUSTER).is_some()
        || label(key::MANAGED_BY) == Some("endpointslice-mesh-controller.cilium.io");
    match kind {
        Kind::Service if is_mirror => Some(Watch::MirrorServices),
        Kind::Service => {
            let is_headless = object["spec"]["clusterIP"].as_str() == Some("None");
            (is_headless && !is_marked).then_some(Watch::LocalServices)
        }
        Kind::EndpointSlice if is_mirror => Some(Watch::MirrorSlices),
        Kind::EndpointSlice if is_marked || is_of_others => None,
        Kind::EndpointSlice if label(key::HEADLESS).is_some() => Some(Watch::LocalSlices),
        Kind::EndpointSlice => {
            let is_managed = label(key::MANAGED_BY) == Some("endpointslice-controller.k8s.io");
            (!is_managed).then_some(Watch::ForeignSlices)
        }
    }
}
