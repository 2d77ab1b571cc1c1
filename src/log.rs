//! Logging set-up, and how often a message is written. A log that cannot be written never stops who writes it.

mod queue;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::Cell;
use std::io::{self, IsTerminal as _};
use std::panic;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;

use tracing::error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::fmt::MakeWriter;

pub use queue::Log;

use queue::LogQueue;

use crate::clock::unix_seconds;

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// A log that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The level is no filter.
    #[error("invalid --log-level '{level}'")]
    Level {
        /// What was given.
        level: String,
        /// Why it is none.
        #[source]
        source: ParseError,
    },
    /// There is no thread for it.
    #[error("starting the thread that writes the log")]
    Thread(#[source] io::Error),
}

/// Starts the log of a command on standard error; colours only on a terminal. `level` is a `tracing` filter. A line that
/// cannot be written, for want of a reader or of room on a disk, is lost, and nothing else.
///
/// # Errors
///
/// If `level` is no filter.
pub fn start_logging(level: &str, format: LogFormat) -> Result<(), LogError> {
    start(filter(level)?, format, io::stderr);
    Ok(())
}

/// Starts the log of a server: the same, but nobody who logs waits for whoever reads.
///
/// # Errors
///
/// If `level` is no filter, or the system grants no thread.
pub fn start_queued_logging(level: &str, format: LogFormat) -> Result<Log, LogError> {
    let filter = filter(level)?;
    let (queue, log) = LogQueue::start(io::stderr()).map_err(LogError::Thread)?;
    start(filter, format, queue);
    Ok(log)
}

fn filter(level: &str) -> Result<EnvFilter, LogError> {
    // kube's client logs every failed attempt of every watch as an error; the watches report each failure once.
    // hickory has two lines for each query, and a warning for each that a client gets wrong.
    let own_business = [
        "kube_client=off",
        "hickory_server=error",
        "hickory_proto=error",
        "hickory_net=error",
    ];
    let own_business = own_business.iter().map(|directive| directive.parse());
    let filter = EnvFilter::try_new(level).and_then(|filter| {
        { own_business }.try_fold(filter, |filter, directive| {
            Ok(filter.add_directive(directive?))
        })
    });
    filter.map_err(|source| LogError::Level {
        level: level.to_owned(),
        source,
    })
}

fn start(
    filter: EnvFilter,
    format: LogFormat,
    to: impl for<'w> MakeWriter<'w> + Send + Sync + 'static,
) {
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(to)
        // It would tell of a line that could not be written by another one, and panic as that cannot be written either.
        .log_internal_errors(false)
        .with_target(false);
    match format {
        LogFormat::Text => log.with_ansi(io::stderr().is_terminal()).init(),
        LogFormat::Json => log.json().init(),
    }
    log_panics();
}

thread_local! {
    /// Whether what this thread is doing is replaced when it panics.
    static IS_REPLACED: Cell<bool> = const { Cell::new(false) };
}

/// Does what a client can ask for at any rate: if it panics, it is replaced, and told of once a minute. Any other panic
/// is told.
pub fn replaced<R>(work: impl FnOnce() -> R) -> R {
    struct Reset(bool);
    impl Drop for Reset {
        fn drop(&mut self) {
            IS_REPLACED.set(self.0);
        }
    }
    let _reset = Reset(IS_REPLACED.replace(true));
    work()
}

/// Returns whether a panic of this thread is told.
fn is_told(panics: &OnceAMinute, time: u32) -> bool {
    // A thread whose locals are gone is about to end, and not replaced.
    let is_replaced = IS_REPLACED.try_with(Cell::get).unwrap_or(false);
    !is_replaced || panics.is_due(time)
}

/// Makes panics log lines like others.
fn log_panics() {
    static PANICS: OnceAMinute = OnceAMinute::new();
    panic::set_hook(Box::new(|info| {
        if is_told(&PANICS, unix_seconds()) {
            let thread = thread::current().name().map(str::to_owned);
            let place = info.location().map(ToString::to_string);
            let backtrace = Backtrace::capture(); // none unless the environment asks for it
            let is_wanted = backtrace.status() == BacktraceStatus::Captured;
            let backtrace = is_wanted.then(|| backtrace.to_string());
            let why = info.payload_as_str();
            error!(
                thread,
                place, why, backtrace, "A thread panicked: this is a bug in global-dns"
            );
        }
    }));
}

/// Lets something be told once a minute, because a client can make it happen as often as it likes.
#[derive(Debug, Default)]
pub struct OnceAMinute(AtomicU32);

/// Writes an error and its causes on one line. Many libraries repeat a cause in the error around it: a text that was
/// said is not said again.
pub fn sentence(error: &dyn std::error::Error) -> String {
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

// === impl OnceAMinute ===

impl OnceAMinute {
    /// Makes one that has told nothing.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Returns whether it is time to tell it, in Unix seconds; then it is not, for a minute.
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
    fn it_is_told_once_a_minute() {
        let once = OnceAMinute::new();
        let told: Vec<u32> = (1_000..1_200).filter(|t| once.is_due(*t)).collect();
        assert_eq!(told, [1_000, 1_060, 1_120, 1_180]);
        assert!(once.is_due(5), "a clock that was set back keeps it quiet");
    }

    #[test]
    fn a_panic_is_told_unless_it_is_of_what_is_replaced_and_was_told_just_now() {
        let panics = OnceAMinute::new();
        let told = || is_told(&panics, 1_000);
        assert!(told() && told(), "nothing is replaced");
        assert_eq!([replaced(told), replaced(told)], [true, false]);
        assert!(told(), "the reason why a process ends");
        let panic = panic::catch_unwind(|| replaced(|| assert!(std::hint::black_box(false))));
        assert!(panic.is_err() && told(), "it is replaced no more");
        assert!(
            !replaced(|| replaced(told) || told()),
            "one within the other"
        );
    }
}
