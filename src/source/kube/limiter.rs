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
#[derive(Debug, Default)]
pub(super) struct ListLimiter(Mutex<Turn>);

/// The turn to send a request. One watch at a time holds it.
#[derive(Debug, Default)]
struct Turn {
    not_before: Option<Instant>,
    /// The pauses after lists.
    lists: Backoff,
    /// The pauses after checks. Lists may fail although these cheaper requests succeed.
    checks: Backoff,
}

/// What a turn is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    /// A list.
    List {
        /// Whether the same watch is lost again and again.
        is_repeated: bool,
    },
    /// A request that is cheaper than a list.
    Check,
}

// === impl ListLimiter ===

impl ListLimiter {
    /// Waits for the turn, then sends a request. The next one waits if it fails because of the server, or if it is a repeated list.
    ///
    /// # Errors
    ///
    /// If the request fails.
    pub(super) async fn run<T>(
        &self,
        purpose: Purpose,
        request: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let mut turn = self.0.lock().await;
        if let Some(time) = turn.not_before {
            sleep_until(time).await;
        }
        let result = request.await;
        let (pauses, is_repeated) = match purpose {
            Purpose::List { is_repeated } => (&mut turn.lists, is_repeated),
            Purpose::Check => (&mut turn.checks, false),
        };
        let pause = match &result {
            Err(failure) if failure.is_server_wide() => pauses.next(),
            Ok(_) if is_repeated => pauses.next(),
            Ok(_) => {
                pauses.reset();
                Duration::ZERO
            }
            Err(_) => Duration::ZERO,
        };
        turn.not_before = Some(Instant::now() + pause);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::backoff::LONGEST_PAUSE;
    use super::*;

    const LIST: Purpose = Purpose::List { is_repeated: false };

    #[tokio::test(start_paused = true)]
    async fn checks_that_succeed_do_not_shorten_the_pauses_of_lists() {
        let limiter = ListLimiter::default();
        let list = async || {
            let overloaded = Failure::Broken("the server is overloaded".to_owned());
            let failed = limiter.run(LIST, async { Err::<(), _>(overloaded) });
            failed.await.unwrap_err();
        };
        let check = async || {
            let start = Instant::now();
            limiter.run(Purpose::Check, async { Ok(()) }).await.unwrap();
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
