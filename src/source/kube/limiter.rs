//! Lists of one API server: one at a time, and with growing pauses while they fail.
//!
//! Lists are what costs an API server most, and one that is overloaded for one feed is overloaded for all. So all feeds
//! of a process share one turn, which they take in the order in which they asked. If a list fails because of the server
//! or the way to it, everybody waits. What an API server does can so never make a process list more often than this.

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

use super::super::backoff::Backoff;
use super::failure::{Failure, LIST_GROWTH, LIST_PAUSE};

/// Limits how often an API server is asked for lists.
#[derive(Debug)]
pub(super) struct ListLimiter(Mutex<Turn>);

/// Held by the watch whose turn it is to list.
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
    /// Waits for the turn, makes a list, and notes how it went.
    ///
    /// # Errors
    ///
    /// If the list fails.
    pub(super) async fn list<T>(
        &self,
        request: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let mut turn = self.0.lock().await;
        let listed = turn.take(request).await;
        if listed.is_ok() {
            turn.backoff.reset();
        }
        listed
    }

    /// The same for a request that costs less than a list: that it succeeds does not mean that lists do.
    ///
    /// # Errors
    ///
    /// If the request fails.
    pub(super) async fn check<T>(
        &self,
        request: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        self.0.lock().await.take(request).await
    }
}

// === impl Turn ===

impl Turn {
    async fn take<T>(
        &mut self,
        request: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        sleep_until(self.not_before).await;
        let result = request.await;
        if let Err(failure) = &result
            && failure.is_of_the_server()
        {
            self.not_before = Instant::now() + failure.pause(&mut self.backoff);
        }
        result
    }
}
