//! Intervals of the requests to the API server.

use std::time::Duration;

/// Intervals of the requests to the API server.
#[derive(Clone, Copy, Debug)]
pub struct WatchTiming {
    /// The requested duration of a watch. A connection that is silent for longer is broken.
    pub watch_timeout: Duration,
    /// The interval, without jitter, at which each watch is relisted.
    pub relist: Duration,
}

impl WatchTiming {
    /// Those of a server.
    pub const SERVE: Self = Self {
        watch_timeout: Duration::from_secs(40),
        relist: Duration::from_secs(12 * 60 * 60),
    };
}
