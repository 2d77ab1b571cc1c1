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
}

/// An event of the watch: its version, the object's key, and the object, unless it was deleted.
type QueuedEvent = (Option<u64>, (ObjectKey, Option<Object>));

// === impl Overlap ===

impl Overlap {
    /// Starts a list. Later events may be newer than the list.
    pub(super) fn begin(&mut self) {
        self.events = Some(Vec::new());
    }

    /// Abandons the current list.
    pub(super) fn abandon(&mut self) {
        self.events = None;
    }

    /// Notes an event. Returns whether to apply it: an event that the last list includes would restore an older state
    /// of the object.
    pub(super) fn note_event(
        &mut self,
        version: Option<u64>,
        change: &(ObjectKey, Option<Object>),
    ) -> bool {
        let is_new = !is_included(version, self.list_version);
        if let Some(events) = self.events.as_mut().filter(|_| is_new) {
            events.push((version, change.clone()));
        }
        is_new
    }

    /// Ends the list: adds the events since its start that are newer.
    pub(super) fn finish(&mut self, objects: &mut Objects, version: &str) {
        self.list_version = version.parse().ok();
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
