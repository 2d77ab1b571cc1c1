//! Latencies from a write in the API server to the changed answer.

use std::time::{Duration, Instant};

use crate::output::print_line;

/// Times at which a write was sent and acknowledged.
#[derive(Clone, Copy)]
pub struct WriteTimes {
    /// Time at which the write was sent.
    pub sent: Instant,
    /// Time at which the API server's acknowledgment arrived.
    pub acknowledged: Instant,
}

/// Latencies of several writes.
#[derive(Default)]
pub struct Latencies {
    /// Includes the processing time of the API server.
    since_sent: Vec<Duration>,
    /// Zero if the changed answer came before the acknowledgment.
    since_acknowledged: Vec<Duration>,
}

// === impl Latencies ===

impl Latencies {
    /// Adds a write and the time of the changed answer.
    pub fn add(&mut self, written: WriteTimes, answered: Instant) {
        self.since_sent
            .push(answered.saturating_duration_since(written.sent));
        self.since_acknowledged
            .push(answered.saturating_duration_since(written.acknowledged));
    }

    /// Returns the number of samples.
    pub fn count(&self) -> usize {
        self.since_sent.len()
    }

    /// Prints one line of results.
    pub fn print(&self, what: &str) {
        let (acknowledged, sent) = (summary(&self.since_acknowledged), summary(&self.since_sent));
        print_line(&format!(
            "{what}: write to answer {acknowledged}; from sending the write {sent}"
        ));
    }
}

/// Formats durations as `3.1 ms (p50 of 5, slowest 4.0 ms)`.
pub fn summary(samples: &[Duration]) -> String {
    let mut sorted = samples.to_vec();
    sorted.sort();
    let ms = |index: usize| {
        sorted
            .get(index)
            .map_or(f64::NAN, |sample| sample.as_secs_f64() * 1e3)
    };
    match sorted.len() {
        0 => "no sample".to_owned(),
        1 => format!("{:.1} ms", ms(0)),
        n => format!(
            "{:.1} ms (p50 of {n}, slowest {:.1} ms)",
            ms((n - 1) / 2),
            ms(n - 1)
        ),
    }
}
