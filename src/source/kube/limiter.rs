//! The limiter of lists: one list at a time for each API server, with growing pauses while lists fail.
//!
//! Lists are the most expensive requests for an API server. If it is overloaded for one feed, it is overloaded for all.
//! All feeds of a process therefore share one turn to list, in the order of their requests. If a list fails because of the
//! server or the network, all feeds wait. They also wait after lists that succeed, if watches are lost again and again. So no
//! behavior of an API server makes a process list more often than every 15 seconds for long. Each informer of client-go
//! lists every 30 to 60 seconds then.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

use super::super::backoff::Backoff;
use super::responses::RequestFailure;

/// The limiters of one API server.
#[derive(Debug, Default)]
pub(super) struct Limiters {
    /// That of lists.
    pub(super) lists: Limiter,
    /// That of checks before a watch goes on. They wait for no list, and lists may fail although these cheaper requests succeed.
    pub(super) checks: Limiter,
}

/// The limiter of one kind of requests.
#[derive(Debug, Default)]
pub(super) struct Limiter(Mutex<RequestTurn>);

/// The turn to send a request. One watch at a time holds it.
#[derive(Debug, Default)]
struct RequestTurn {
    not_before: Option<Instant>,
    pauses: Backoff,
}

// === impl Limiter ===

impl Limiter {
    /// Waits for the turn, then sends a request. The next one waits if it fails because of the server, or if `is_repeated`: the same
    /// watch is lost again and again.
    ///
    /// # Errors
    ///
    /// If the request fails.
    pub(super) async fn run<T>(
        &self,
        is_repeated: bool,
        request: impl Future<Output = Result<T, RequestFailure>>,
    ) -> Result<T, RequestFailure> {
        let mut turn = self.0.lock().await;
        if let Some(time) = turn.not_before {
            sleep_until(time).await;
        }
        let result = request.await;
        let pause = match &result {
            Err(failure) if failure.is_server_wide() => turn.pauses.next(),
            Ok(_) if is_repeated => turn.pauses.next(),
            Ok(_) => {
                turn.pauses.reset();
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

    #[tokio::test(start_paused = true)]
    async fn lists_that_fail_because_of_the_server_delay_those_of_all_feeds() {
        let limiter = Limiter::default();
        let list = async |result: Result<(), RequestFailure>| {
            let start = Instant::now();
            _ = limiter.run(false, async { result }).await;
            start.elapsed()
        };
        for _ in 0..6 {
            list(Err(RequestFailure::Broken(
                "the server is overloaded".to_owned(),
            )))
            .await;
        }
        assert_eq!(list(Ok(())).await, LONGEST_PAUSE);
        assert_eq!(list(Ok(())).await, Duration::ZERO);
    }
}
