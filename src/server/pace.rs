//! How fast sources that are not trusted are answered over UDP, where anybody can ask in anybody's name: so many
//! replies a second go to a prefix, and what is above is cut down to a hint to come by TCP, or not answered.
//!
//! Each prefix has a cell in each of two rows, chosen by a hash with a key of this process. A cell holds when all replies
//! that were sent will be paid for, at the rate; a reply is due if that is less than a second away in either cell. Others
//! in its cells can only make a prefix wait, never give it more, so a flood in many names makes some honest clients
//! come by TCP, and nobody is sent more than the rate. Memory is fixed, nothing is ever searched or thrown out, and the
//! only thing shared between threads is one word at a time.

use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::wire::Pace;

/// Cells in a row: a million replies a second to names out of the air leave most of them with room.
const CELLS: usize = 1 << 14;
/// Rows: two strangers rarely meet in both.
const ROWS: usize = 2;
/// How much of the future may be spent at once, in nanoseconds: a prefix may take a second's replies together.
const BURST: u64 = 1_000_000_000;

/// Pays out replies to prefixes. Shared by all workers, so that the rate is that of the server.
pub(super) struct Payer {
    /// Nanoseconds that a reply costs.
    price: u64,
    started: Instant,
    keys: RandomState,
    /// Row by row, when a prefix will have paid: nanoseconds after the start.
    paid: Box<[AtomicU64]>,
}

// === impl Payer ===

impl Payer {
    /// Makes one that pays out so many replies a second to each prefix.
    pub(super) fn new(per_second: NonZeroU32) -> Self {
        Self {
            price: BURST / u64::from(per_second.get()), // four billion a second cost nothing
            started: Instant::now(),
            keys: RandomState::new(),
            paid: (0..ROWS * CELLS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Says what a client may have now.
    pub(super) fn pace(&self, client: IpAddr) -> Pace {
        self.pace_at(client, self.started.elapsed())
    }

    fn pace_at(&self, client: IpAddr, now: Duration) -> Pace {
        let now = now.as_nanos() as u64; // five centuries fit
        let until = now + BURST;
        let after = |paid: u64| paid.max(now) + self.price;
        let cells = self.cells(client);
        if cells.iter().any(|cell| after(cell.load(Relaxed)) <= until) {
            for cell in cells {
                // Never an error: there is always a next value.
                let _ = cell.fetch_update(Relaxed, Relaxed, |paid| Some(after(paid).min(until)));
            }
            Pace::Fair
        } else if fastrand::bool() {
            // By chance, so that nobody who knows the order can make it the others' turn only.
            Pace::Slip
        } else {
            Pace::Over
        }
    }

    /// Returns the cells of a client's prefix.
    fn cells(&self, client: IpAddr) -> [&AtomicU64; ROWS] {
        let hash = self.keys.hash_one(prefix(client));
        let index = |row: usize| (hash >> (32 * row)) as usize % CELLS;
        std::array::from_fn(|row| &self.paid[row * CELLS + index(row)])
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

    fn payer(rate: u32) -> Payer {
        Payer::new(rate.try_into().unwrap())
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
            let payer = payer(rate);
            // Others, in names out of the air.
            for number in 0..noise {
                payer.pace_at(IpAddr::from(number.wrapping_mul(2_654_435_761).to_be_bytes()), Duration::ZERO);
            }
            let mut now = Duration::ZERO;
            let mut fair: [Vec<Duration>; 4] = Default::default();
            for (host, (wait, number)) in queries.into_iter().enumerate() {
                now += Duration::from_millis(wait);
                if payer.pace_at(client(number, host as u8), now) == Pace::Fair {
                    fair[usize::from(number)].push(now);
                }
            }
            // From any reply to any later one.
            for times in fair {
                for (first, start) in times.iter().enumerate().step_by(7) {
                    for (last, end) in times.iter().enumerate().skip(first) {
                        let most = (*end - *start + Duration::from_secs(1)).as_nanos() / u128::from(payer.price);
                        prop_assert!(((last - first) as u128) < most, "{} of {most}", last - first + 1);
                    }
                }
            }
        }
    }

    #[test]
    fn who_asks_slowly_is_always_answered() {
        let payer = payer(100);
        for query in 0..10_000_u64 {
            let now = Duration::from_millis(10 * query);
            assert_eq!(payer.pace_at(client(1, 1), now), Pace::Fair, "{query}");
        }
    }

    #[test]
    fn a_prefix_shares_its_rate_and_half_of_what_is_above_it_slips() {
        let payer = payer(200);
        let pace = |number: u32| payer.pace_at(client(1, number as u8), Duration::ZERO);
        let paces: Vec<Pace> = (0..10_000).map(pace).collect();
        let count = |wanted| paces.iter().filter(|pace| **pace == wanted).count();
        assert_eq!(count(Pace::Fair), 200);
        assert!(
            (4_500..5_300).contains(&count(Pace::Slip)),
            "{}",
            count(Pace::Slip)
        );
        // Another prefix has its own, unless it meets the first in both rows.
        let strangers = (0..=255).filter(|number| *number != 1);
        let fair = strangers.filter(|n| payer.pace_at(client(*n, 1), Duration::ZERO) == Pace::Fair);
        assert!(fair.count() >= 254);
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
        let payer = payer(1000);
        let fair = |_: usize| {
            let paces = (0..5_000).map(|_| payer.pace_at(client(1, 1), Duration::ZERO));
            paces.filter(|pace| *pace == Pace::Fair).count()
        };
        let total: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|n| scope.spawn(move || fair(n))).collect();
            threads.into_iter().map(|t| t.join().unwrap()).sum()
        });
        // Each may have looked at a cell just before another paid for the last.
        assert!((1000..=1003).contains(&total), "{total}");
    }
}
