//! Counts of durations by buckets.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The number of durations in each of `N` buckets, and above them. The bounds are those of its user.
#[derive(Debug)]
pub(crate) struct Histogram<const N: usize> {
    buckets: [AtomicU64; N],
    above: AtomicU64,
    nanoseconds: AtomicU64,
}

// === impl Histogram ===

impl<const N: usize> Histogram<N> {
    /// Counts a duration `count` times. `bounds` are the upper bounds of the buckets in microseconds, ascending.
    pub(crate) fn add(&self, bounds: &[u64; N], duration: Duration, count: u64) {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let bucket = bounds
            .iter()
            .position(|bound| nanoseconds <= bound.saturating_mul(1000));
        let bucket = self.bucket(bucket.unwrap_or(N));
        bucket.fetch_add(count, Relaxed);
        let sum = nanoseconds.saturating_mul(count);
        self.nanoseconds.fetch_add(sum, Relaxed);
    }

    /// Returns the counter of a bucket. The one after the last bucket has the durations above it.
    pub(crate) fn bucket(&self, index: usize) -> &AtomicU64 {
        self.buckets.get(index).unwrap_or(&self.above)
    }

    /// Returns the counter of the sum, in nanoseconds.
    pub(crate) fn nanoseconds(&self) -> &AtomicU64 {
        &self.nanoseconds
    }
}

impl<const N: usize> Default for Histogram<N> {
    fn default() -> Self {
        Self {
            buckets: std::array::from_fn(|_| AtomicU64::default()),
            above: AtomicU64::default(),
            nanoseconds: AtomicU64::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_counts_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        let histogram = Histogram::<2>::default();
        let bounds = [10, 100];
        for (nanoseconds, count) in [(0, 1), (10_000, 2), (10_001, 4), (100_001, 8)] {
            histogram.add(&bounds, Duration::from_nanos(nanoseconds), count);
        }
        let counts = [0, 1, 2].map(|index| histogram.bucket(index).load(Relaxed));
        assert_eq!(counts, [3, 4, 8]);
        let sum = 2 * 10_000 + 4 * 10_001 + 8 * 100_001;
        assert_eq!(histogram.nanoseconds().load(Relaxed), sum);
    }
}
