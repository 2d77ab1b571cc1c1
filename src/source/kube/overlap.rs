//! The overlap of a list and the watch of the same feed: for each object, the newer of both is used.

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

/// An event of the watch.
struct QueuedEvent {
    version: Option<u64>,
    key: ObjectKey,
    object: Option<Object>,
}

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
        key: &ObjectKey,
        object: Option<&Object>,
    ) -> bool {
        if is_included(version, self.list_version) {
            return false;
        }
        if let Some(events) = &mut self.events {
            events.push(QueuedEvent {
                version,
                key: key.clone(),
                object: object.cloned(),
            });
        }
        true
    }

    /// Ends the list: adds the events since its start that are newer.
    pub(super) fn finish(&mut self, mut objects: Objects, version: &str) -> Objects {
        self.list_version = version.parse().ok();
        for event in self.events.take().unwrap_or_default() {
            if is_included(event.version, self.list_version) {
                continue;
            }
            match event.object {
                Some(object) => _ = objects.insert(event.key, object),
                None => _ = objects.remove(&event.key),
            }
        }
        objects
    }
}

/// Returns whether a list includes an event. Versions that are not numbers cannot be compared; such an event counts as
/// newer.
fn is_included(event: Option<u64>, list: Option<u64>) -> bool {
    matches!((event, list), (Some(event), Some(list)) if event <= list)
}
