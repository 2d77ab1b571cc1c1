//! Logging set-up. A log that cannot be written never stops who writes it.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::IsTerminal;
use std::panic;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;

use tracing::error;
use tracing_subscriber::EnvFilter;

use crate::source::unix_seconds;

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts logging to standard error; colours only on a terminal. `level` is a `tracing` filter. A line that cannot be
/// written, for want of a reader or of room on a disk, is lost, and nothing else.
///
/// # Errors
///
/// If `level` is no filter.
pub fn start_logging(
    level: &str,
    format: LogFormat,
) -> Result<(), tracing_subscriber::filter::ParseError> {
    // kube's client logs every failed attempt of every watch as an error; the watches report each failure once.
    // hickory has two lines for each query, and a warning for each that a client gets wrong.
    let mut filter = EnvFilter::try_new(level)?;
    for own_business in [
        "kube_client=off",
        "hickory_server=error",
        "hickory_proto=error",
        "hickory_net=error",
    ] {
        filter = filter.add_directive(own_business.parse()?);
    }
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // It would tell of a line that could not be written by another one, and panic as that cannot be written either.
        .log_internal_errors(false)
        .with_target(false);
    match format {
        LogFormat::Text => log.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => log.json().init(),
    }
    log_panics();
    Ok(())
}

/// Makes panics log lines like others: a thread that panics is replaced, if it answers queries, so there may be many.
fn log_panics() {
    static PANICS: Seldom = Seldom::new();
    panic::set_hook(Box::new(|info| {
        if PANICS.is_due(unix_seconds()) {
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
pub struct Seldom(AtomicU32);

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

// === impl Seldom ===

impl Seldom {
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
        let seldom = Seldom::new();
        let told: Vec<u32> = (1_000..1_200).filter(|t| seldom.is_due(*t)).collect();
        assert_eq!(told, [1_000, 1_060, 1_120, 1_180]);
        assert!(seldom.is_due(5), "a clock that was set back keeps it quiet");
    }
}
