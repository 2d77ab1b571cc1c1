//! Sets up logging and limits repeated messages. A failed write to the log never stops the program.

mod filter;
mod queue;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _};
use std::panic;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::EnumString;
use tracing::error;
use tracing_subscriber::fmt;
use tracing_subscriber::prelude::*;

pub use filter::LogFilter;
pub use queue::LogGuard;

use queue::LogQueue;

use crate::clock::unix_seconds;

/// The format of log lines.
#[derive(Deserialize, Serialize, JsonSchema, EnumString)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object for each line.
    Json,
}

/// Limits a log message to one a minute, because clients can trigger it at any rate.
#[derive(Default)]
pub struct LogLimiter(AtomicU32);

// === impl LogLimiter ===

impl LogLimiter {
    /// Returns whether the message may be logged at `time`, in Unix seconds. If so, it is blocked for a minute.
    pub fn is_due(&self, time: u32) -> bool {
        const MINUTE: u32 = 60;
        let last = self.0.load(Relaxed);
        time.abs_diff(last) >= MINUTE
            && self
                .0
                .compare_exchange(last, time, Relaxed, Relaxed)
                .is_ok()
    }
}

/// Starts logging to standard error. A queue decouples the program from a slow reader. Colors are used only on a terminal. A line that
/// cannot be written, because the reader is gone or the disk is full, is lost.
///
/// # Errors
///
/// If the system has no thread.
pub fn start_logging(filter: &LogFilter, format: LogFormat) -> io::Result<LogGuard> {
    let guard = LogQueue::start(io::stderr())?;
    let lines = fmt::layer()
        .with_writer(guard.0.clone())
        // It would report a failed write with another line, and panic if that fails, too.
        .log_internal_errors(false)
        .with_target(false);
    let log = tracing_subscriber::registry().with(filter.with_noisy_crates());
    match format {
        LogFormat::Text => log.with(lines.with_ansi(io::stderr().is_terminal())).init(),
        LogFormat::Json => log.with(lines.json()).init(),
    }
    log_panics();
    Ok(guard)
}

/// Returns whether a panic at a place is logged: once a minute, because clients may trigger it at any rate.
fn is_panic_logged(place: &str, time: u32) -> bool {
    static PLACES: Mutex<BTreeMap<String, LogLimiter>> = Mutex::new(BTreeMap::new());
    PLACES
        .lock()
        .entry(place.to_owned())
        .or_default()
        .is_due(time)
}

/// Logs panics as error messages.
fn log_panics() {
    panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        if is_panic_logged(&place, unix_seconds()) {
            let thread = thread::current().name().map(str::to_owned);
            let backtrace = Backtrace::capture(); // empty unless RUST_BACKTRACE enables it
            let is_captured = backtrace.status() == BacktraceStatus::Captured;
            let backtrace = is_captured.then(|| backtrace.to_string());
            let why = info.payload_as_str();
            error!(
                thread,
                place, why, backtrace, "A thread panicked: this is a bug in global-dns"
            );
        }
    }));
}

/// Returns an error and its causes on one line. Many libraries repeat a cause in the text of the outer error, so a
/// repeated text is omitted.
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_at_one_place_is_logged_once_a_minute() {
        let logged = ["a.rs:1", "a.rs:1", "a.rs:2"].map(|place| is_panic_logged(place, 1_000));
        assert_eq!(logged, [true, false, true]);
        assert!(is_panic_logged("a.rs:1", 1_060));
    }

    #[test]
    fn message_is_logged_once_a_minute() {
        let limiter = LogLimiter::default();
        let logged: Vec<u32> = (1_000..1_200).filter(|t| limiter.is_due(*t)).collect();
        assert_eq!(logged, [1_000, 1_060, 1_120, 1_180]);
        assert!(
            limiter.is_due(5),
            "a clock that was set back blocks messages"
        );
    }
}
