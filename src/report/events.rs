//! The JSON of `/api/v1/events`: changes of answers with their IDs and times.

use serde::{Deserialize, Serialize};

use super::SchemaVersion;
use crate::model::{Line, Timestamp};
use crate::table::change::Change;

/// The response of `/api/v1/events`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventsReport<E> {
    /// Version of the document's format.
    pub schema_version: SchemaVersion,
    /// The time since which all events are known, in UTC, to the second (RFC 3339).
    pub known_since: String,
    /// The events, the newest last.
    pub events: Vec<E>,
}

/// A change, with the time at which its table was published.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// Increases by one with each event of a process. The first part of the number differs between processes. It is
    /// less than 2⁵³, so that JavaScript represents it exactly.
    pub id: u64,
    /// The time in UTC, to the second (RFC 3339).
    pub time: String,
    /// The same time, exactly.
    #[serde(skip)]
    pub moment: Timestamp,
    /// The change.
    #[serde(flatten)]
    pub change: Change,
}

/// An event in the history of a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryEvent {
    /// The ID of the event.
    pub id: u64,
    /// The time in UTC, to the second (RFC 3339).
    pub time: String,
    /// The kind of the change.
    pub kind: String,
    /// The cluster, if the change concerns one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// A sentence.
    pub text: Line,
}

// === impl HistoryEvent ===

impl From<&Event> for HistoryEvent {
    fn from(event: &Event) -> Self {
        let change = &event.change;
        Self {
            id: event.id,
            time: event.time.clone(),
            kind: <&str>::from(change.kind).to_owned(),
            cluster: change.cluster.as_ref().map(ToString::to_string),
            text: change.text.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ServiceKey;
    use crate::table::change::ChangeKind;
    use serde_json::json;

    #[test]
    fn fields_that_do_not_apply_are_absent() {
        let event = |change| Event {
            id: 1,
            time: "2026-11-22T15:00:00Z".to_owned(),
            moment: Timestamp::default(),
            change,
        };
        let scene = Change::new(ChangeKind::Demo, "A scene.");
        let key = ServiceKey {
            namespace: "prod".parse().unwrap(),
            service: "db".parse().unwrap(),
        };
        let moved = Change {
            services: [key].into(),
            cluster: Some("west".parse().unwrap()),
            endpoints: vec!["db-0".into()],
            before: Some("192.0.2.1".into()),
            after: Some("192.0.2.2".into()),
            cause: Some("seen".into()),
            ..Change::new(ChangeKind::Address, "Moved.")
        };
        let report = EventsReport {
            schema_version: SchemaVersion,
            known_since: "2026-11-22T14:00:00Z".to_owned(),
            events: vec![event(scene), event(moved)],
        };
        let time = "2026-11-22T15:00:00Z";
        assert_eq!(
            serde_json::to_value(&report).unwrap(),
            json!({"schemaVersion": 2, "knownSince": "2026-11-22T14:00:00Z", "events": [
                {"id": 1, "time": time, "kind": "demo", "text": "A scene.", "count": 1},
                {
                    "id": 1, "time": time, "kind": "address", "services": ["prod/db"], "cluster": "west",
                    "endpoints": ["db-0"], "before": "192.0.2.1", "after": "192.0.2.2", "cause": "seen",
                    "text": "Moved.", "count": 1,
                },
            ]})
        );
    }
}
