//! The limiter of lists: one list at a time for each API server, with growing pauses while lists fail.
//!
//! Lists are the most expensive requests for an API server. If it is overloaded for one feed, it is overloaded for all.
//! All feeds of a process therefore share one turn, in the order of their requests. If a list fails because of the
//! server or the network, all feeds wait. They also wait after lists that succeed, if watches are lost again and again. So no
//! behavior of an API server makes a process list more often than every 15 seconds for long. Each informer of client-go
//! lists every 30 to 60 seconds then.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

use super::super::backoff::Backoff;
use super::failure::Failure;

/// The limiter of one API server.
#[derive(Debug)]
pub(super) struct ListLimiter(Mutex<Turn>);

/// The turn to list. One watch at a time holds it.
#[derive(Debug)]
struct Turn {
    not_before: Instant,
    pauses: Backoff,
}

// === impl ListLimiter ===

impl Default for ListLimiter {
    fn default() -> Self {
        Self(Mutex::new(Turn {
            not_before: Instant::now(),
            pauses: Backoff::of_requests(),
        }))
    }
}

impl ListLimiter {
    /// Waits for the turn, then sends a list, or a request that is like one. The next one waits if it fails because of the
    /// server, or if `is_repeated`: the same watch is lost again and again.
    ///
    /// # Errors
    ///
    /// If the request fails.
    pub(super) async fn list<T>(
        &self,
        is_repeated: bool,
        request: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let mut turn = self.0.lock().await;
        sleep_until(turn.not_before).await;
        let result = request.await;
        let pause = match &result {
            Err(failure) if failure.is_server_wide() => failure.pause(&mut turn.pauses),
            Ok(_) if is_repeated => turn.pauses.next(),
            Ok(_) => {
                turn.pauses.reset();
                Duration::ZERO
            }
            Err(_) => Duration::ZERO,
        };
        turn.not_before = Instant::now() + pause;
        result
    }
}
