//! The limiter of lists: one list at a time for each API server, with growing pauses while lists fail.
//!
//! Lists are the most expensive requests for an API server. If it is overloaded for one feed, it is overloaded for all.
//! All feeds of a process therefore share one turn, in the order of their requests. If a list fails because of the
//! server or the network, all feeds wait. No behavior of an API server makes a process list more often than this.

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

use super::super::backoff::Backoff;
use super::failure::{Failure, LIST_GROWTH, LIST_PAUSE};

/// The limiter of one API server.
#[derive(Debug)]
pub(super) struct ListLimiter(Mutex<Turn>);

/// The turn to list. One watch at a time holds it.
#[derive(Debug)]
struct Turn {
    not_before: Instant,
    backoff: Backoff,
}

// === impl ListLimiter ===

impl Default for ListLimiter {
    fn default() -> Self {
        Self(Mutex::new(Turn {
            not_before: Instant::now(),
            backoff: Backoff::new(LIST_PAUSE, LIST_GROWTH),
        }))
    }
}

impl ListLimiter {
    /// Waits for the turn, then lists. If the list fails because of the server, the next one waits.
    ///
    /// # Errors
    ///
    /// If the list fails.
    pub(super) async fn list<T>(
        &self,
        request: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let mut turn = self.0.lock().await;
        let list = turn.run(request).await;
        if list.is_ok() {
            turn.backoff.reset();
        }
        list
    }

    /// Waits for the turn, then sends a request that is cheaper than a list. Its success does not reset the pauses,
    /// because lists may still fail.
    ///
    /// # Errors
    ///
    /// If the request fails.
    pub(super) async fn check<T>(
        &self,
        request: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        self.0.lock().await.run(request).await
    }
}

// === impl Turn ===

impl Turn {
    async fn run<T>(
        &mut self,
        request: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        sleep_until(self.not_before).await;
        let result = request.await;
        if let Err(failure) = &result
            && failure.is_server_wide()
        {
            self.not_before = Instant::now() + failure.pause(&mut self.backoff);
        }
        result
    }
}
