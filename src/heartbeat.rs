//! The sign of progress that a loop gives. `/livez` checks it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Maximum time between two signs of a loop that only waits. A loop that waits for events makes progress.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);

/// A flag that a loop sets in each round, and that its observer clears. Clones share it. A loop owns its clone, so that the
/// observer notices its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heartbeat(Arc<Flag>);

/// The flag has cache lines of its own: a store by a busy loop then costs a nanosecond.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Flag(AtomicBool);

// === impl Heartbeat ===

impl Heartbeat {
    /// Notes progress.
    pub(crate) fn beat(&self) {
        self.0.0.store(true, Relaxed);
    }

    /// Gives signs of the progress of the runtime that runs this. It never returns.
    pub(crate) async fn follow_runtime(self) {
        loop {
            self.beat();
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Returns whether there was progress since the last call.
    pub(crate) fn take(&self) -> bool {
        self.0.0.swap(false, Relaxed)
    }

    /// Returns whether the loop has ended: nobody else has a clone.
    pub(crate) fn has_ended(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}
