//! The position of a feed in the history of the API server, and the pauses after positions that have expired.

use std::time::Duration;

use tokio::time::Instant;

use super::super::backoff::{Backoff, LONGEST_PAUSE};
use super::failure::{LIST_GROWTH, LIST_PAUSE};
use crate::model::KubeObject;

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

/// The pauses between lists while versions expire repeatedly.
pub(super) struct Expiries {
    pauses: Backoff,
    /// The end of the last pause.
    last: Option<Instant>,
}

/// If no version has expired for this long, the next one that expires is relisted without a pause. It is longer than
/// any pause.
const CALM_PERIOD: Duration = Duration::from_secs(10 * 60);

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

// === impl Expiries ===

impl Expiries {
    /// Starts without an expired version.
    pub(super) fn new() -> Self {
        Self {
            pauses: Backoff::new(LIST_PAUSE, LIST_GROWTH),
            last: None,
        }
    }

    /// Returns the pause before the next list after a version has expired. Returns `None` if no other version has expired
    /// for [`CALM_PERIOD`].
    pub(super) fn next_pause(&mut self) -> Option<Duration> {
        let is_repeated = self.last.is_some_and(|last| last.elapsed() < CALM_PERIOD);
        if !is_repeated {
            self.pauses.reset();
        }
        let pause = is_repeated.then(|| self.pauses.next(LONGEST_PAUSE));
        self.last = Some(Instant::now() + pause.unwrap_or_default());
        pause
    }
}
