//! Waiting for events, which is the only way to wait.

use std::fmt::Display;
use std::thread;
use std::time::{Duration, Instant};

/// How long any single event may take before a test gives up: long, because machines are busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Tries until there is a value, or fails with what was awaited.
pub fn wait_for<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    wait_for_ok(what, || attempt().ok_or("not yet"))
}

/// Tries until it works, or fails with what was awaited and what the last try said.
pub fn wait_for_ok<T, E: Display>(what: &str, mut attempt: impl FnMut() -> Result<T, E>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match attempt() {
            Ok(value) => return value,
            Err(error) if Instant::now() > deadline => {
                panic!("{what}: not within {} s: {error}", PATIENCE.as_secs())
            }
            // Short: some tests measure.
            Err(_) => thread::sleep(Duration::from_millis(2)),
        }
    }
}
