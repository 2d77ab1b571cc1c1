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
    /// The pauses after lists.
    lists: Backoff,
    /// The pauses after checks. Lists may fail although these cheaper requests succeed.
    checks: Backoff,
}

// === impl ListLimiter ===

impl Default for ListLimiter {
    fn default() -> Self {
        Self(Mutex::new(Turn {
            not_before: Instant::now(),
            lists: Backoff::of_requests(),
            checks: Backoff::of_requests(),
        }))
    }
}

impl ListLimiter {
    /// Waits for the turn, then lists. The next request waits if the list fails because of the server, or if `is_repeated`: the
    /// same watch is lost again and again.
    ///
    /// # Errors
    ///
    /// If the list fails.
    pub(super) async fn list<T>(
        &self,
        is_repeated: bool,
        request: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        self.run(request, is_repeated, |turn| &mut turn.lists).await
    }

    /// Waits for the turn, then sends a request that is cheaper than a list. The next one waits if it fails because of the server.
    ///
    /// # Errors
    ///
    /// If the request fails.
    pub(super) async fn check<T>(
        &self,
        request: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        self.run(request, false, |turn| &mut turn.checks).await
    }

    async fn run<T>(
        &self,
        request: impl Future<Output = Result<T, Failure>>,
        is_repeated: bool,
        pauses: impl FnOnce(&mut Turn) -> &mut Backoff,
    ) -> Result<T, Failure> {
        let mut turn = self.0.lock().await;
        sleep_until(turn.not_before).await;
        let result = request.await;
        let pauses = pauses(&mut turn);
        let pause = match &result {
            Err(failure) if failure.is_server_wide() => pauses.next(),
            Ok(_) if is_repeated => pauses.next(),
            Ok(_) => {
                pauses.reset();
                Duration::ZERO
            }
            Err(_) => Duration::ZERO,
        };
        turn.not_before = Instant::now() + pause;
        result
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::backoff::LONGEST_PAUSE;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn checks_that_succeed_do_not_shorten_the_pauses_of_lists() {
        let limiter = ListLimiter::default();
        let list = async || {
            let overloaded = Failure::Broken("the server is overloaded".to_owned());
            let failed = limiter.list(false, async { Err::<(), _>(overloaded) });
            failed.await.unwrap_err();
        };
        let check = async || {
            let start = Instant::now();
            limiter.check(async { Ok(()) }).await.unwrap();
            start.elapsed()
        };
        for _ in 0..5 {
            list().await;
            check().await;
        }
        list().await;
        assert_eq!(check().await, LONGEST_PAUSE);
    }
}
