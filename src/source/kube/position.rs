//! The position of a feed in the history of the API server.

use crate::mirror::KubeObject;

/// The position of a feed.
pub(super) struct Position {
    /// The last version seen.
    pub(super) version: String,
    pub(super) trust: Trust,
}

/// Whether it is certain that the server has reached a version.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// The server has sent the version.
    Certain,
    /// The connection broke. The server behind it may have been replaced or restored from a backup.
    Doubtful,
}

// === impl Position ===

impl Position {
    /// Starts at the version of a list.
    pub(super) fn new(version: String) -> Self {
        Self {
            version,
            trust: Trust::Certain,
        }
    }

    /// Advances to the version of an object.
    pub(super) fn advance_to(&mut self, object: &KubeObject<'_>) {
        if let Some(seen) = object.resource_version() {
            self.version.replace_range(.., seen);
        }
    }

    /// Returns whether the server must confirm that it has reached the version.
    pub(super) fn is_doubtful(&self) -> bool {
        self.trust == Trust::Doubtful
    }
}
