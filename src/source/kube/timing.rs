//! Intervals of the requests to the API server.

use std::time::Duration;

/// Intervals of the requests to the API server.
#[derive(Clone, Copy, Debug)]
pub struct WatchTiming {
    /// The requested duration of a watch. A connection that is silent for longer is broken.
    pub watch_timeout: Duration,
    /// The interval, without jitter, at which one watch in turn is relisted.
    pub relist: Duration,
}
