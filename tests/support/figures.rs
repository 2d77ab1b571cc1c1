//! The figures: how long it took from a write to the changed answer.

use std::time::{Duration, Instant};

use crate::say::say;

/// When a write left us, and when the API server's acknowledgement arrived.
#[derive(Clone, Copy)]
pub struct Written {
    /// It left us.
    pub sent: Instant,
    /// The acknowledgement arrived.
    pub acknowledged: Instant,
}

/// Times from writes to changed answers.
#[derive(Default)]
pub struct Latencies {
    /// The API server's own work included.
    since_sent: Vec<Duration>,
    /// Zero where the changed answer was there before the acknowledgement.
    since_acknowledged: Vec<Duration>,
}

// === impl Latencies ===

impl Latencies {
    /// Adds a write and the moment of the changed answer.
    pub fn add(&mut self, written: Written, answered: Instant) {
        self.since_sent
            .push(answered.saturating_duration_since(written.sent));
        self.since_acknowledged
            .push(answered.saturating_duration_since(written.acknowledged));
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.since_sent.len()
    }

    /// Prints one line.
    pub fn print(&self, what: &str) {
        let (acknowledged, sent) = (figure(&self.since_acknowledged), figure(&self.since_sent));
        say(&format!(
            "{what}: write to answer {acknowledged}; from sending the write {sent}"
        ));
    }
}

/// `3.1 ms (p50 of 5, slowest 4.0 ms)`.
pub fn figure(samples: &[Duration]) -> String {
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
