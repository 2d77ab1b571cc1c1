//! Waiting for events. Tests never wait for a fixed time instead.

use std::fmt::Display;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

/// Maximum duration of any single event. It is long because test machines can be busy; only a failing test waits for it.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// Repeats an attempt until it returns a value. Fails after [`TIMEOUT`].
pub fn wait_for<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    wait_for_ok(what, || attempt().ok_or("not yet"))
}

/// Repeats an attempt until it succeeds. After [`TIMEOUT`], fails with the last error.
pub fn wait_for_ok<T, E: Display>(what: &str, attempt: impl FnMut() -> Result<T, E>) -> T {
    attempt_within(TIMEOUT, attempt)
        .unwrap_or_else(|error| panic!("{what}: not within {TIMEOUT:?}: {error}"))
}

/// Repeats an attempt until it succeeds. After [`TIMEOUT`], returns the last error.
pub fn eventually<T>(what: &str, attempt: impl FnMut() -> Result<T>) -> Result<T> {
    eventually_within(what, TIMEOUT, attempt)
}

/// Repeats an attempt until it succeeds. After `within`, returns the last error.
pub fn eventually_within<T>(
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
    let started = Instant::now();
    loop {
        match attempt() {
            Err(_) if started.elapsed() < within => pause(started),
            done => return done,
        }
    }
}

/// Waits between two attempts: a thirtieth of the time since the first one, because some tests measure it, but at most 20 ms.
/// With short pauses only, the attempts of waiting tests would take the time of the others.
pub(crate) fn pause(started: Instant) {
    let pause = started.elapsed() / 30;
    thread::sleep(pause.clamp(Duration::from_millis(2), Duration::from_millis(20)));
}
