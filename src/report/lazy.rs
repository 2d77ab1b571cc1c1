//! Lists of JSON documents that are never in memory as a whole.

use serde::Serialize;
use serde::ser::Serializer;

/// A list whose items are made when they are written.
pub(super) struct Lazy<I>(pub(super) I);

impl<I: Iterator<Item: Serialize> + Clone> Serialize for Lazy<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.clone())
    }
}
