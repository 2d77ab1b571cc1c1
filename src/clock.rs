//! The wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the Unix time in seconds. Returns zero if the clock is set to a time before 1970.
pub(crate) fn unix_seconds() -> u32 {
    u32::try_from(unix_milliseconds() / 1000).unwrap_or(u32::MAX)
}

/// Returns the Unix time in milliseconds. Returns zero if the clock is set to a time before 1970.
pub(crate) fn unix_milliseconds() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
