//! The JSON of `/api/v1/events`: changes of answers with their IDs and times.

use serde::{Deserialize, Serialize};

use super::SchemaVersion;
use crate::table::change::{Change, ChangeKind};

/// The response of `/api/v1/events`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventsReport<E> {
    /// Version of the document's format.
    pub schema_version: SchemaVersion,
    /// The events, the newest last.
    pub events: Vec<E>,
}

/// A change, with the time at which its table was published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Increases by one with each event of a process. The first part of the number differs between processes. It is
    /// less than 2⁵³, so that JavaScript represents it exactly.
    pub id: u64,
    /// The time in UTC, to the second (RFC 3339).
    pub time: String,
    /// The kind of the change.
    pub kind: ChangeKind,
    /// The namespace, if the change concerns one service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The service, if the change concerns one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The cluster, if the change concerns one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The endpoint, if the change concerns one that has a hostname.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// A sentence.
    pub text: String,
}

// === impl Event ===

impl Event {
    /// Makes the event of a change.
    pub fn new(id: u64, time: String, change: Change) -> Self {
        Self {
            id,
            time,
            kind: change.kind,
            namespace: change.namespace.map(|label| label.to_string()),
            service: change.service.map(|label| label.to_string()),
            cluster: change.cluster.map(|label| label.to_string()),
            hostname: change.hostname.map(|label| label.to_string()),
            text: change.text.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ServiceKey;
    use serde_json::json;

    #[test]
    fn fields_that_do_not_apply_are_absent() {
        let time = || "2026-11-22T15:00:00Z".to_owned();
        let change = Change::new(ChangeKind::ListHeld, "A list is held.".to_owned());
        let event = Event::new(1, time(), change);
        assert_eq!(
            serde_json::to_value(&event).unwrap(),
            json!({"id": 1, "time": time(), "kind": "list-held", "text": "A list is held."})
        );
        let key = ServiceKey {
            namespace: "prod".parse().unwrap(),
            service: "db".parse().unwrap(),
        };
        let change = Change {
            cluster: Some("west".parse().unwrap()),
            hostname: Some("db-0".parse().unwrap()),
            ..Change::of_service(ChangeKind::EndpointAdded, &key, "Joined.".to_owned())
        };
        let event = Event::new(2, time(), change);
        let report = EventsReport {
            schema_version: SchemaVersion,
            events: vec![event],
        };
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(
            json,
            json!({"schemaVersion": 1, "events": [{
                "id": 2, "time": time(), "kind": "endpoint-added", "namespace": "prod",
                "service": "db", "cluster": "west", "hostname": "db-0", "text": "Joined.",
            }]})
        );
        let read: EventsReport<Event> = serde_json::from_value(json).unwrap();
        assert_eq!(read, report);
    }
}
