//! A list that is made while the watch of the same feed goes on: which of the two is newer.

use crate::mirror::{Object, ObjectKey};
use crate::table::inputs::Objects;

/// What a list that is made while the watch goes on, and the watch, know of each other.
#[derive(Default)]
pub(super) struct Overlap {
    /// Events that came since the list was begun, if one is being made.
    since: Option<Vec<Seen>>,
    /// The version of the last list: events that are not newer are in it.
    listed: Option<u64>,
}

/// An event.
struct Seen {
    version: Option<u64>,
    key: ObjectKey,
    object: Option<Object>,
}

// === impl Overlap ===

impl Overlap {
    /// Begins a list: what comes from now on may be newer.
    pub(super) fn begin(&mut self) {
        self.since = Some(Vec::new());
    }

    /// Gives the list up that was begun.
    pub(super) fn give_up(&mut self) {
        self.since = None;
    }

    /// Notes an event. Tells whether it is news: an event that the last list already had would make an object older for a
    /// moment.
    pub(super) fn note(
        &mut self,
        version: Option<u64>,
        key: &ObjectKey,
        object: Option<&Object>,
    ) -> bool {
        if is_in(version, self.listed) {
            return false;
        }
        if let Some(since) = &mut self.since {
            since.push(Seen {
                version,
                key: key.clone(),
                object: object.cloned(),
            });
        }
        true
    }

    /// Adds to a list what came while it was made, and is newer.
    pub(super) fn end(&mut self, mut objects: Objects, version: &str) -> Objects {
        self.listed = version.parse().ok();
        for seen in self.since.take().unwrap_or_default() {
            if is_in(seen.version, self.listed) {
                continue;
            }
            match seen.object {
                Some(object) => _ = objects.insert(seen.key, object),
                None => _ = objects.remove(&seen.key),
            }
        }
        objects
    }
}

/// Tells whether an event is in a list. Versions that are no numbers cannot be compared: such an event counts as newer.
fn is_in(event: Option<u64>, list: Option<u64>) -> bool {
    matches!((event, list), (Some(event), Some(list)) if event <= list)
}
