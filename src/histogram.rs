//! Counts of durations by buckets.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Upper bounds of the buckets in microseconds. An answer takes a few of these, a change of answers some thousands.
pub(crate) const BOUNDS: [u64; 18] = [
    5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000,
    500_000, 1_000_000, 5_000_000,
];

/// The number of durations in each bucket, and their sum.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    /// The last one has the durations above all bounds.
    pub(crate) buckets: [AtomicU64; BOUNDS.len() + 1],
    pub(crate) nanoseconds: AtomicU64,
}

// === impl Histogram ===

impl Histogram {
    /// Counts a duration `count` times.
    pub(crate) fn add(&self, duration: Duration, count: u64) {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.iter().position(|bound| nanoseconds <= bound * 1000);
        self.buckets[bucket.unwrap_or(BOUNDS.len())].fetch_add(count, Relaxed);
        self.nanoseconds
            .fetch_add(nanoseconds.saturating_mul(count), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_counts_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        let histogram = Histogram::default();
        for (nanoseconds, count) in [(0, 1), (5_000, 2), (5_001, 4), (5_000_000_001, 8)] {
            histogram.add(Duration::from_nanos(nanoseconds), count);
        }
        let counts = [0, 1, BOUNDS.len()].map(|index| histogram.buckets[index].load(Relaxed));
        assert_eq!(counts, [3, 4, 8]);
        let sum = 2 * 5_000 + 4 * 5_001 + 8 * 5_000_000_001;
        assert_eq!(histogram.nanoseconds.load(Relaxed), sum);
    }
}
