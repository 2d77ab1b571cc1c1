//! Sets up logging and limits repeated messages. A failed write to the log never stops the program.

mod filter;
mod queue;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::Cell;
use std::io::{self, IsTerminal as _};
use std::panic;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::EnumString;
use tracing::error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

pub use filter::LogFilter;
pub use queue::LogGuard;

use queue::LogQueue;

use crate::clock::unix_seconds;

/// The format of log lines.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema, EnumString,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum LogFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object for each line.
    Json,
}

/// Starts logging to standard error for a command. Colors are used only on a terminal. A line that cannot be written,
/// because the reader is gone or the disk is full, is lost.
pub fn start_logging(filter: &LogFilter, format: LogFormat) {
    start(filter.with_noisy_crates(), format, io::stderr);
}

/// Starts logging to standard error for a server. In addition, a queue decouples the server from a slow reader.
///
/// # Errors
///
/// If the system has no thread.
pub fn start_queued_logging(filter: &LogFilter, format: LogFormat) -> io::Result<LogGuard> {
    let (queue, log) = LogQueue::start(io::stderr())?;
    start(filter.with_noisy_crates(), format, queue);
    Ok(log)
}

fn start(
    filter: EnvFilter,
    format: LogFormat,
    to: impl for<'w> MakeWriter<'w> + Send + Sync + 'static,
) {
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(to)
        // It would report a failed write with another line, and panic if that fails, too.
        .log_internal_errors(false)
        .with_target(false);
    match format {
        LogFormat::Text => log.with_ansi(io::stderr().is_terminal()).init(),
        LogFormat::Json => log.json().init(),
    }
    log_panics();
}

thread_local! {
    /// Whether the log lines about panics of this thread are limited.
    static LIMITS_PANIC_LOG: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` and limits the log lines about its panics to one a minute. Use it for work that recovers from panics and
/// that clients can trigger at any rate. Other panics are always logged.
pub fn with_limited_panic_log<R>(work: impl FnOnce() -> R) -> R {
    struct Reset(bool);
    impl Drop for Reset {
        fn drop(&mut self) {
            LIMITS_PANIC_LOG.set(self.0);
        }
    }
    let _reset = Reset(LIMITS_PANIC_LOG.replace(true));
    work()
}

/// Returns whether a panic of this thread is logged.
fn is_panic_logged(panics: &LogLimiter, time: u32) -> bool {
    // Without thread locals, the thread is about to end, so its panic is logged.
    let is_limited = LIMITS_PANIC_LOG.try_with(Cell::get).unwrap_or(false);
    !is_limited || panics.is_due(time)
}

/// Logs panics as error messages.
fn log_panics() {
    static PANICS: LogLimiter = LogLimiter::new();
    panic::set_hook(Box::new(|info| {
        if is_panic_logged(&PANICS, unix_seconds()) {
            let thread = thread::current().name().map(str::to_owned);
            let place = info.location().map(ToString::to_string);
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

/// Limits a log message to one a minute, because clients can trigger it at any rate.
#[derive(Debug, Default)]
pub struct LogLimiter(AtomicU32);

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

// === impl LogLimiter ===

impl LogLimiter {
    /// Creates a limiter that allows the next message.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_is_logged_once_a_minute() {
        let limiter = LogLimiter::new();
        let logged: Vec<u32> = (1_000..1_200).filter(|t| limiter.is_due(*t)).collect();
        assert_eq!(logged, [1_000, 1_060, 1_120, 1_180]);
        assert!(
            limiter.is_due(5),
            "a clock that was set back blocks messages"
        );
    }

    #[test]
    fn panic_log_is_limited_only_for_work_that_recovers() {
        let panics = LogLimiter::new();
        let is_logged = || is_panic_logged(&panics, 1_000);
        assert!(is_logged() && is_logged(), "no limit");
        let limited = [(); 2].map(|()| with_limited_panic_log(is_logged));
        assert_eq!(limited, [true, false]);
        assert!(is_logged(), "other work is not limited");
        let panic = panic::catch_unwind(|| {
            with_limited_panic_log(|| assert!(std::hint::black_box(false)));
        });
        assert!(panic.is_err() && is_logged(), "the limit ends with a panic");
        assert!(
            !with_limited_panic_log(|| with_limited_panic_log(is_logged) || is_logged()),
            "nested work is limited"
        );
    }
}
