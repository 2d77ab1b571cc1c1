//! The past events of the stand-in. Each watch sees an event by its own selectors, as on a real API server.

use serde_json::{Value, json};

use super::ApiRequest;

/// A change of an object.
pub(super) struct PastEvent {
    pub(super) version: u64,
    /// The object before it. `None`: it was created.
    before: Option<Value>,
    /// The object after it. `None`: it was deleted.
    after: Option<Value>,
}

// === impl PastEvent ===

impl PastEvent {
    /// Notes a change. An object after it has a version, and a deletion has the given one.
    pub(super) fn new(version: u64, before: Option<Value>, after: Option<Value>) -> Self {
        let own = after.as_ref().and_then(|object| {
            let version = object["metadata"]["resourceVersion"].as_str();
            version?.parse().ok()
        });
        Self {
            version: own.unwrap_or(version),
            before,
            after,
        }
    }

    /// Returns the event on a watch: an object that its selectors no longer match is deleted.
    pub(super) fn seen_by(&self, request: &ApiRequest) -> Option<Value> {
        let [before, after] = [&self.before, &self.after]
            .map(|object| object.as_ref().filter(|object| request.selects(object)));
        let (kind, object) = match (before, after) {
            (None, None) => return None,
            (None, Some(object)) => ("ADDED", object.clone()),
            (Some(_), Some(object)) => ("MODIFIED", object.clone()),
            (Some(object), None) => {
                let mut object = object.clone();
                object["metadata"]["resourceVersion"] = json!(self.version.to_string());
                ("DELETED", object)
            }
        };
        Some(json!({"type": kind, "object": object}))
    }
}
