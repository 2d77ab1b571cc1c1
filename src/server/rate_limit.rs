//! Response rate limiting: how many replies a second a prefix outside `--trusted` gets over UDP, where anybody can ask in
//! anybody's name. What is above is cut down to a hint to come by TCP, or not answered.
//!
//! It is the generic cell rate algorithm (ITU-T I.371) over a sketch. Each prefix has a cell in each of two rows, chosen by
//! a hash with a key of this process. A cell holds the theoretical arrival time: when all replies that were sent would have
//! left at the rate. A reply is due if that is less than a second away in either cell. Others in its cells can only make
//! a prefix wait, never give it more, so a flood in many names makes some honest clients come by TCP, and nobody is sent
//! more than the rate. Memory is fixed, nothing is ever searched or thrown out, and the only thing shared between threads
//! is one word at a time.

use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::wire::RateLimit;

/// Cells in a row: a million replies a second to names out of the air leave most of them with room.
const CELLS: usize = 1 << 14;
/// Rows: two strangers rarely meet in both.
const ROWS: usize = 2;
/// How much of the future may be spent at once, in nanoseconds: a prefix may take a second's replies together.
const BURST: u64 = 1_000_000_000;

/// Limits the replies to each prefix. Shared by all workers, so that the rate is that of the server.
pub(super) struct RateLimiter {
    /// Nanoseconds between two replies at the rate.
    interval: u64,
    started: Instant,
    keys: RandomState,
    /// Counts the queries above the rate.
    above: AtomicU64,
    /// Row by row, theoretical arrival times: nanoseconds after the start.
    arrivals: Box<[AtomicU64]>,
}

// === impl RateLimiter ===

impl RateLimiter {
    /// Makes one that lets so many replies a second go to each prefix.
    pub(super) fn new(per_second: NonZeroU32) -> Self {
        Self {
            interval: BURST / u64::from(per_second.get()), // four billion a second are no limit
            started: Instant::now(),
            keys: RandomState::new(),
            above: AtomicU64::new(0),
            arrivals: (0..ROWS * CELLS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Says what a client may have now, and counts it if that is a reply.
    pub(super) fn count(&self, client: IpAddr) -> RateLimit {
        self.count_at(client, self.started.elapsed())
    }

    fn count_at(&self, client: IpAddr, now: Duration) -> RateLimit {
        let now = now.as_nanos() as u64; // five centuries fit
        let until = now + BURST;
        let after = |arrival: u64| arrival.max(now) + self.interval;
        let cells = self.cells(client);
        if cells.iter().any(|cell| after(cell.load(Relaxed)) <= until) {
            for cell in cells {
                // Never an error: there is always a next value.
                let _ =
                    cell.fetch_update(Relaxed, Relaxed, |arrival| Some(after(arrival).min(until)));
            }
            RateLimit::Within
        } else if self.is_lucky() {
            RateLimit::Slip
        } else {
            RateLimit::Drop
        }
    }

    /// Draws by a hash that nobody else can make: who knew the order could make it the others' turn only.
    fn is_lucky(&self) -> bool {
        let drawn = self.keys.hash_one(self.above.fetch_add(1, Relaxed));
        drawn & 1 == 0
    }

    /// Returns the cells of a client's prefix.
    fn cells(&self, client: IpAddr) -> [&AtomicU64; ROWS] {
        let hash = self.keys.hash_one(prefix(client));
        let index = |row: usize| (hash >> (32 * row)) as usize % CELLS;
        std::array::from_fn(|row| &self.arrivals[row * CELLS + index(row)])
    }
}

/// Returns what a source is counted under: who has one address of a /24, or of a /56, has them all.
fn prefix(client: IpAddr) -> u64 {
    match client {
        IpAddr::V4(v4) => u64::from(u32::from(v4) >> 8),
        // The first bit tells the families apart.
        IpAddr::V6(v6) => 1 << 63 | (u128::from(v6) >> (128 - 56)) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Milliseconds that pass before a query comes, and who is asking.
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
            // Others, in names out of the air.
            for number in 0..noise {
                limiter.count_at(IpAddr::from(number.wrapping_mul(2_654_435_761).to_be_bytes()), Duration::ZERO);
            }
            let mut now = Duration::ZERO;
            let mut within: [Vec<Duration>; 4] = Default::default();
            for (host, (wait, number)) in queries.into_iter().enumerate() {
                now += Duration::from_millis(wait);
                if limiter.count_at(client(number, host as u8), now) == RateLimit::Within {
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
    fn who_asks_slowly_is_always_answered() {
        let limiter = limiter(100);
        for query in 0..10_000_u64 {
            let now = Duration::from_millis(10 * query);
            assert_eq!(
                limiter.count_at(client(1, 1), now),
                RateLimit::Within,
                "{query}"
            );
        }
    }

    #[test]
    fn a_prefix_shares_its_rate_and_half_of_what_is_above_it_slips() {
        let limiter = limiter(200);
        let limit = |number: u32| limiter.count_at(client(1, number as u8), Duration::ZERO);
        let limits: Vec<RateLimit> = (0..10_000).map(limit).collect();
        let count = |wanted| limits.iter().filter(|limit| **limit == wanted).count();
        assert_eq!(count(RateLimit::Within), 200);
        assert!(
            (4_500..5_300).contains(&count(RateLimit::Slip)),
            "{}",
            count(RateLimit::Slip)
        );
        // Another prefix has its own, unless it meets the first in both rows.
        let strangers = (0..=255).filter(|number| *number != 1);
        let within = strangers
            .filter(|n| limiter.count_at(client(*n, 1), Duration::ZERO) == RateLimit::Within);
        assert!(within.count() >= 254);
    }

    #[test]
    fn prefixes_are_24_and_56_bits_long() {
        let same =
            |one: &str, other: &str| prefix(one.parse().unwrap()) == prefix(other.parse().unwrap());
        assert!(same("192.0.2.1", "192.0.2.254"));
        assert!(!same("192.0.2.1", "192.0.3.1"));
        assert!(same("2001:db8:0:1::1", "2001:db8:0:ff:1::"));
        assert!(!same("2001:db8:0:1::1", "2001:db8:0:100::1"));
        assert!(!same("0.0.1.0", "::1"));
    }

    #[test]
    fn workers_together_keep_to_the_rate() {
        let limiter = limiter(1000);
        let within = |_: usize| {
            let limits = (0..5_000).map(|_| limiter.count_at(client(1, 1), Duration::ZERO));
            limits.filter(|limit| *limit == RateLimit::Within).count()
        };
        let total: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|n| scope.spawn(move || within(n))).collect();
            threads.into_iter().map(|t| t.join().unwrap()).sum()
        });
        // Each may have looked at a cell just before another counted the last.
        assert!((1000..=1003).contains(&total), "{total}");
    }
}
