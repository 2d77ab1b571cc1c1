//! Waiting for events, which is the only way to wait.

use std::fmt::Display;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

/// How long any single event may take before a test gives up: long, because machines are busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Tries until there is a value, or fails with what was awaited.
pub fn wait_for<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    wait_for_ok(what, || attempt().ok_or("not yet"))
}

/// Tries until it works, or fails with what was awaited and what the last try said.
pub fn wait_for_ok<T, E: Display>(what: &str, attempt: impl FnMut() -> Result<T, E>) -> T {
    attempt_within(PATIENCE, attempt)
        .unwrap_or_else(|error| panic!("{what}: not within {PATIENCE:?}: {error}"))
}

/// Tries until it works; after `within`, fails with the last reason.
pub fn eventually<T>(
    what: &str,
    within: Duration,
    attempt: impl FnMut() -> Result<T>,
) -> Result<T> {
    attempt_within(within, attempt)
        .map_err(|error| error.context(format!("waited {within:?} for {what}")))
}

fn attempt_within<T, E>(
    within: Duration,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let deadline = Instant::now() + within;
    loop {
        match attempt() {
            // Short: some tests measure.
            Err(_) if Instant::now() < deadline => thread::sleep(Duration::from_millis(2)),
            done => return done,
        }
    }
}
