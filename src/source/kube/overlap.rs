//! The overlap of a list and the watch of the same feed: for each object, the newer of both is used.

use super::requests::apply;
use crate::model::{Object, ObjectKey};
use crate::table::store::Objects;

/// The shared state of a watch and the list beside it.
#[derive(Default)]
pub(super) struct Overlap {
    /// Events since the start of the current list; `None` if no list is running.
    events: Option<Vec<QueuedEvent>>,
    /// The version of the last list. It includes all events up to this version.
    list_version: Option<u64>,
    /// The last version seen in a list or an event.
    last_version: Option<String>,
}

/// The version of a list that may have any version.
const ANY_VERSION: &str = "0";

/// A change: the object's key, and the object, unless it was deleted.
type Change = (ObjectKey, Option<Object>);

/// An event of the watch: its version and its change.
type QueuedEvent = (Option<u64>, Change);

// === impl Overlap ===

impl Overlap {
    /// Starts a list. Later events may be newer than the list. Returns the version that it must not be older than.
    pub(super) fn begin(&mut self) -> String {
        self.events = Some(Vec::new());
        let last = self.last_version.as_deref();
        last.unwrap_or(ANY_VERSION).to_owned()
    }

    /// Abandons the current list.
    pub(super) fn abandon(&mut self) {
        self.events = None;
    }

    /// Notes an event: its version, and its change unless it is a bookmark. Returns the change if it is to be applied: an
    /// event that the last list includes would restore an older state of the object.
    pub(super) fn note_event(
        &mut self,
        version: Option<&str>,
        change: Option<Change>,
    ) -> Option<Change> {
        let number = version.and_then(|version| version.parse().ok());
        if is_included(number, self.list_version) {
            return None;
        }
        if let Some(version) = version {
            let last = self.last_version.get_or_insert_default();
            last.replace_range(.., version);
        }
        let change = change?;
        if let Some(events) = &mut self.events {
            events.push((number, change.clone()));
        }
        Some(change)
    }

    /// Ends the list: adds the events since its start that are newer.
    pub(super) fn finish(&mut self, objects: &mut Objects, version: &str) {
        self.list_version = version.parse().ok();
        self.last_version = Some(version.to_owned());
        for (version, change) in self.events.take().unwrap_or_default() {
            if !is_included(version, self.list_version) {
                apply(objects, change);
            }
        }
    }
}

/// Returns whether a list includes an event. Versions that are not numbers cannot be compared; such an event counts as
/// newer.
fn is_included(event: Option<u64>, list: Option<u64>) -> bool {
    matches!((event, list), (Some(event), Some(list)) if event <= list)
}
