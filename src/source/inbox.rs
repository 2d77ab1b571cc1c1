//! What a source has sent and the update loop has not applied yet: one entry for each object.
//!
//! A newer copy of an object replaces the older one. So a burst of changes of one object costs one build, and what waits needs no more
//! memory than the objects. Nothing holds up the source: it reads while services are built.

use std::collections::BTreeMap;
use std::mem::take;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::feeds::Feed;
use crate::model::{Kind, Object, ObjectKey, ObjectRef};
use crate::table::links::LeasePoll;
use crate::table::store::Objects;

/// A change that a source reports.
#[derive(Debug)]
pub enum Update {
    /// One object was added, modified or deleted.
    Apply(ObjectChange),
    /// Complete lists that were read at the same time.
    Reset {
        /// Each feed with all its objects.
        lists: Vec<(Feed, Objects)>,
        /// Whether they are applied although one of them lacks most objects of its feed.
        is_certain: bool,
        /// Gets what became of them.
        outcome: oneshot::Sender<Outcome>,
    },
    /// The Leases of mirror controllers (rule L1).
    Leases(LeasePoll),
}

/// A change of one object.
#[derive(Debug)]
pub struct ObjectChange {
    /// The object's kind.
    pub kind: Kind,
    /// The object's key.
    pub key: ObjectKey,
    /// The object, reduced to the fields in use. `None`: it was deleted.
    pub object: Option<Object>,
    /// When the change arrived.
    pub arrival: Instant,
}

/// What became of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// They were not applied: one lacks most objects of its feed.
    Doubted,
    /// They were applied.
    Applied {
        /// Whether they differ from what was known.
        is_news: bool,
    },
}

/// The sender that a source uses.
#[derive(Clone, Debug, Default)]
pub struct Updates(Arc<SharedInbox>);

/// The receiver. When it is dropped, the source must end.
#[derive(Debug)]
pub(super) struct Inbox(Arc<SharedInbox>);

#[derive(Debug, Default)]
struct SharedInbox {
    waiting: Mutex<WaitingUpdates>,
    /// Notified when something waits, or the source has ended.
    news: Notify,
    /// Cancelled when the receiver is dropped.
    closed: CancellationToken,
}

#[derive(Debug, Default)]
struct WaitingUpdates {
    /// In the order of their arrival.
    updates: Vec<Update>,
    /// The places of the objects that arrived since the last list. A copy that follows a list must not come before it.
    places: BTreeMap<ObjectRef, usize>,
    has_ended: bool,
}

// === impl Updates ===

impl Updates {
    /// Returns the receiver of these updates. There is one.
    pub(super) fn inbox(&self) -> Inbox {
        Inbox(self.0.clone())
    }

    /// Sends an update. Without a receiver, the source must end.
    pub fn send(&self, update: Update) {
        self.0.waiting.lock().add(update);
        self.0.news.notify_one();
    }

    /// Tells the receiver that the source has ended.
    pub(super) fn end(&self) {
        self.0.waiting.lock().has_ended = true;
        self.0.news.notify_one();
    }

    /// Waits until the receiver does not exist any more.
    pub async fn closed(&self) {
        self.0.closed.cancelled().await;
    }
}

// === impl Inbox ===

impl Inbox {
    /// Takes what waits, in an order in which it can be applied.
    pub(super) fn take(&self) -> Vec<Update> {
        let mut waiting = self.0.waiting.lock();
        waiting.places.clear();
        take(&mut waiting.updates)
    }

    /// Waits until something has arrived since the last call, or the source has ended.
    pub(super) async fn wait(&self) {
        self.0.news.notified().await;
    }

    /// Returns whether the source has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.0.waiting.lock().has_ended
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.0.closed.cancel();
    }
}

// === impl WaitingUpdates ===

impl WaitingUpdates {
    fn add(&mut self, update: Update) {
        match update {
            Update::Apply(change) => {
                let object = ObjectRef {
                    kind: change.kind,
                    key: change.key.clone(),
                };
                let next = self.updates.len();
                let place = *self.places.entry(object).or_insert(next);
                match self.updates.get_mut(place) {
                    // The time is that of the first change that is not answered.
                    Some(Update::Apply(older)) => older.object = change.object,
                    _ => self.updates.push(Update::Apply(change)),
                }
            }
            Update::Reset { .. } => {
                self.places.clear();
                self.updates.push(update);
            }
            Update::Leases(_) => self.updates.push(update),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{mirror, parsed};

    fn change(name: &str, is_there: bool) -> Update {
        let (key, object) = parsed(Kind::Service, &mirror("prod", name, "east"));
        Update::Apply(ObjectChange {
            kind: Kind::Service,
            key,
            object: is_there.then_some(object),
            arrival: Instant::now(),
        })
    }

    fn list() -> Update {
        let lists = vec![(
            Feed {
                kind: Kind::Service,
                namespace: None,
            },
            Objects::new(),
        )];
        Update::Reset {
            lists,
            is_certain: true,
            outcome: oneshot::channel().0,
        }
    }

    /// Returns what waits: the name of an object, with a mark if it was deleted, or `list`.
    fn taken(inbox: &Inbox) -> Vec<String> {
        let text = |update: Update| match update {
            Update::Apply(ObjectChange { key, object, .. }) => {
                let mark = if object.is_some() { "" } else { " deleted" };
                format!("{}{mark}", key.name)
            }
            Update::Reset { .. } => "list".to_owned(),
            Update::Leases(_) => "leases".to_owned(),
        };
        inbox.take().into_iter().map(text).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn newer_copy_of_an_object_replaces_the_older_one() {
        let updates = Updates::default();
        let inbox = updates.inbox();
        for number in 0..1000 {
            updates.send(change("a", number % 2 == 0));
            updates.send(change("b", true));
        }
        inbox.wait().await;
        assert_eq!(taken(&inbox), ["a-east deleted", "b-east"]);
        assert_eq!(taken(&inbox), [""; 0]);
    }

    #[test]
    fn copies_before_and_after_a_list_are_applied_before_and_after_it() {
        let updates = Updates::default();
        let inbox = updates.inbox();
        updates.send(change("a", true));
        updates.send(list());
        updates.send(change("a", true));
        updates.send(change("a", false));
        assert_eq!(taken(&inbox), ["a-east", "list", "a-east deleted"]);
    }

    #[tokio::test]
    async fn source_learns_that_nobody_receives_any_more() {
        let updates = Updates::default();
        drop(updates.inbox());
        updates.closed().await;
    }
}
