//! Limits of messages that clients can trigger at any rate.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Limits a log message to one a minute, because clients can trigger it at any rate.
#[derive(Default)]
pub struct LogLimiter(AtomicU32);

// === impl LogLimiter ===

impl LogLimiter {
    /// Returns whether the message may be logged at `time`, in Unix seconds. If so, it is blocked for a minute.
    pub fn is_due(&self, time: u32) -> bool {
        const MINUTE: u32 = 60;
        let last = self.0.load(Relaxed);
        time.abs_diff(last) >= MINUTE
            && self
                .0
                .compare_exchange(last, time, Relaxed, Relaxed)
                .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_is_logged_once_a_minute() {
        let limiter = LogLimiter::default();
        let logged: Vec<u32> = (1_000..1_200).filter(|t| limiter.is_due(*t)).collect();
        assert_eq!(logged, [1_000, 1_060, 1_120, 1_180]);
        assert!(
            limiter.is_due(5),
            "a clock that was set back blocks messages"
        );
    }
}
