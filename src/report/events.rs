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
