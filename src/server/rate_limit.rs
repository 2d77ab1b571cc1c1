//! Response rate limiting over UDP, where source addresses can be forged. It limits the replies a second to each prefix
//! outside `--trusted`. Queries above the rate get an empty reply with TC, or no reply.
//!
//! It uses the generic cell rate algorithm (ITU-T I.371) on a sketch. Each prefix has a cell in each of two rows,
//! chosen by a hash with a random key. A cell contains the theoretical arrival time: the time when all sent replies
//! would have left at the rate. A reply is allowed if that time is less than a second ahead in either cell.
//!
//! Other prefixes in the same cells can only delay a prefix, never allow it more. So a flood with many forged addresses
//! makes some real clients use TCP, but no prefix gets more than the rate. Memory is constant, nothing is searched or
//! evicted, and threads share only single words.

use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::client_prefix::ClientPrefix;
use crate::wire::RateLimit;

/// Cells of a row. A million replies a second to random addresses leave most cells below the rate.
const CELLS: usize = 1 << 14;
/// Number of rows. Two prefixes rarely share both cells.
const ROWS: usize = 2;
/// Maximum burst in nanoseconds: a prefix may get the replies of one second at once.
const BURST: u64 = 1_000_000_000;

/// Limits the replies to each prefix. All workers share it, so that the rate applies to the whole server.
pub(super) struct RateLimiter {
    /// Nanoseconds between two replies at this rate.
    interval: u64,
    started: Instant,
    keys: RandomState,
    /// Number of queries above the rate.
    excess: AtomicU64,
    /// Theoretical arrival times row by row, in nanoseconds after the start.
    arrivals: Box<[AtomicU64]>,
}

// === impl RateLimiter ===

impl RateLimiter {
    /// Creates a limiter for this number of replies a second to each prefix.
    pub(super) fn new(per_second: NonZeroU32) -> Self {
        Self {
            interval: BURST / u64::from(per_second.get()), // 0, so no limit, above a billion a second
            started: Instant::now(),
            keys: RandomState::new(),
            excess: AtomicU64::new(0),
            arrivals: (0..ROWS * CELLS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Returns whether a client gets a reply now, and counts the reply.
    pub(super) fn admit(&self, client: IpAddr) -> RateLimit {
        self.admit_at(client, self.started.elapsed())
    }

    fn admit_at(&self, client: IpAddr, now: Duration) -> RateLimit {
        let now = now.as_nanos() as u64; // enough for five centuries
        let until = now + BURST;
        let after = |arrival: u64| arrival.max(now) + self.interval;
        let cells = self.cells(client);
        if cells.iter().any(|cell| after(cell.load(Relaxed)) <= until) {
            for cell in cells {
                // It never fails, because the closure always returns a value.
                let _ =
                    cell.fetch_update(Relaxed, Relaxed, |arrival| Some(after(arrival).min(until)));
            }
            RateLimit::Within
        } else if self.draw_slip() {
            RateLimit::Truncate
        } else {
            RateLimit::Drop
        }
    }

    /// Returns a random bit. It comes from a keyed hash, because a client that can predict it could take all slips.
    fn draw_slip(&self) -> bool {
        let drawn = self.keys.hash_one(self.excess.fetch_add(1, Relaxed));
        drawn & 1 == 0
    }

    /// Returns the cells of a client's prefix.
    fn cells(&self, client: IpAddr) -> [&AtomicU64; ROWS] {
        let hash = self.keys.hash_one(ClientPrefix::from(client));
        let index = |row: usize| (hash >> (32 * row)) as usize % CELLS;
        std::array::from_fn(|row| &self.arrivals[row * CELLS + index(row)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// For each query, the milliseconds since the previous one, and the number of the client.
    fn queries() -> impl Strategy<Value = Vec<(u64, u8)>> {
        prop::collection::vec((0_u64..20, 0_u8..4), 1..2000)
    }

    fn limiter(rate: u32) -> RateLimiter {
        RateLimiter::new(rate.try_into().unwrap())
    }

    fn client(number: u8, host: u8) -> IpAddr {
        [203, 0, number, host].into()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_prefix_gets_more_than_its_rate(
            queries in queries(), rate in 1_u32..500, noise in 0_u32..2000,
        ) {
            let limiter = limiter(rate);
            // Other clients with random addresses.
            for number in 0..noise {
                limiter.admit_at(IpAddr::from(number.wrapping_mul(2_654_435_761).to_be_bytes()), Duration::ZERO);
            }
            let mut now = Duration::ZERO;
            let mut within: [Vec<Duration>; 4] = Default::default();
            for (host, (wait, number)) in queries.into_iter().enumerate() {
                now += Duration::from_millis(wait);
                if limiter.admit_at(client(number, host as u8), now) == RateLimit::Within {
                    within[usize::from(number)].push(now);
                }
            }
            // From any reply to any later one.
            for times in within {
                for (first, start) in times.iter().enumerate().step_by(7) {
                    for (last, end) in times.iter().enumerate().skip(first) {
                        let most = (*end - *start + Duration::from_secs(1)).as_nanos() / u128::from(limiter.interval);
                        prop_assert!(((last - first) as u128) < most, "{} of {most}", last - first + 1);
                    }
                }
            }
        }
    }

    #[test]
    fn client_within_its_rate_is_always_answered() {
        let limiter = limiter(100);
        for query in 0..10_000_u64 {
            let now = Duration::from_millis(10 * query);
            assert_eq!(
                limiter.admit_at(client(1, 1), now),
                RateLimit::Within,
                "{query}"
            );
        }
    }

    #[test]
    fn prefix_shares_its_rate_and_half_of_the_excess_slips() {
        let limiter = limiter(200);
        let limit = |number: u32| limiter.admit_at(client(1, number as u8), Duration::ZERO);
        let limits: Vec<RateLimit> = (0..10_000).map(limit).collect();
        let count = |wanted| limits.iter().filter(|limit| **limit == wanted).count();
        assert_eq!(count(RateLimit::Within), 200);
        assert!(
            (4_500..5_300).contains(&count(RateLimit::Truncate)),
            "{}",
            count(RateLimit::Truncate)
        );
        // Another prefix has its own rate, unless it shares both cells with the first.
        let strangers = (0..=255).filter(|number| *number != 1);
        let within = strangers
            .filter(|n| limiter.admit_at(client(*n, 1), Duration::ZERO) == RateLimit::Within);
        assert!(within.count() >= 254);
    }

    #[test]
    fn workers_share_one_rate() {
        let limiter = limiter(1000);
        let within = |_: usize| {
            let limits = (0..5_000).map(|_| limiter.admit_at(client(1, 1), Duration::ZERO));
            limits.filter(|limit| *limit == RateLimit::Within).count()
        };
        let total: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|n| scope.spawn(move || within(n))).collect();
            threads.into_iter().map(|t| t.join().unwrap()).sum()
        });
        // Each thread may read a cell just before another counts the last reply.
        assert!((1000..=1003).contains(&total), "{total}");
    }
}
