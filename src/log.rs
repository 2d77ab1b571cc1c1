//! Logging: its levels, and its queue and thread. It never blocks or stops the program: if standard error is slow or gone, lines are lost
//! and counted. Messages that clients can trigger are limited.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};
use std::{fmt, panic, thread};

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::EnumString;
use tracing::error;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

use crate::clock::unix_seconds;
use crate::failures::Failures;
use crate::setting_text::setting_text;

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
    let lines = tracing_subscriber::fmt::layer()
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

// === Levels ===
//
// `tracing` takes every other word for the name of a module. With `warning` or `a b`, it would log messages of modules of
// that name only, so there would be no log at all.

/// Limits the messages of crates, whatever the level is. The client of kube logs every failed attempt of every watch as an error,
/// but the watches report each failure once. hickory logs two lines for each query, and a warning for each malformed query.
const NOISY_CRATES: &str =
    "kube_client=off,hickory_server=error,hickory_proto=error,hickory_net=error";

/// A valid value of `--log-level`.
#[derive(Clone)]
pub struct LogFilter(String);

// === impl LogFilter ===

impl LogFilter {
    /// Returns the filter with the limits of noisy crates.
    fn with_noisy_crates(&self) -> Targets {
        let directives = format!("{self},{NOISY_CRATES}");
        directives.parse().expect("the directives are checked")
    }
}

impl FromStr for LogFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split(',').find(|part| !is_directive(part)) {
            None => Ok(Self(text.to_owned())),
            Some(part) => Err(format!(
                "'{part}' is neither a level nor a directive; levels are error, warn, info, debug, trace and off; a directive is \
                 MODULE=LEVEL, such as global_dns::source=debug; commas separate them"
            )),
        }
    }
}

impl fmt::Display for LogFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns whether a text is a level, or a directive: the name of a module, `=`, and a level.
fn is_directive(text: &str) -> bool {
    let (module, level) = text.rsplit_once('=').unwrap_or(("all", text));
    // The parser takes an empty level for `error`.
    let is_level = !level.is_empty() && level.parse::<LevelFilter>().is_ok();
    is_level
        && !module.is_empty()
        && module
            .chars()
            .all(|c: char| c.is_ascii_alphanumeric() || "_:-".contains(c))
}

setting_text!(LogFilter: r"^\S+$");

// === The queue ===

/// Maximum size of the queue in octets. It holds warnings about ten thousand objects that arrive at once.
const MAX_QUEUED: usize = 4 << 20;
/// Maximum time for writing the queued lines when the process ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause between two looks at the queue when the process ends.
const PAUSE: Duration = Duration::from_millis(1);

/// The queue of the log thread.
struct LogQueue {
    lines: Sender<Vec<u8>>,
    /// Octets of the lines that wait or are being written.
    octets: AtomicUsize,
    lost: Failures,
}

/// The log of a process. When it is dropped, the queued lines are written, unless the reader is too slow.
#[must_use = "dropping it writes the queued lines"]
pub struct LogGuard(Arc<LogQueue>);

// === impl LogQueue ===

impl LogQueue {
    /// Starts the log thread. It ends with the process.
    ///
    /// # Errors
    ///
    /// If the system has no thread.
    fn start(mut to: impl Write + Send + 'static) -> io::Result<LogGuard> {
        let (lines, waiting) = channel::<Vec<u8>>();
        let queue = Arc::new(Self {
            lines,
            octets: AtomicUsize::default(),
            lost: Failures::default(),
        });
        let of_thread = queue.clone();
        let write_lines = move || {
            for line in waiting {
                if to.write_all(&line).is_err() {
                    of_thread.lost.note();
                }
                of_thread.octets.fetch_sub(line.len(), Relaxed);
            }
        };
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(write_lines)?;
        Ok(LogGuard(queue))
    }
}

impl Write for &LogQueue {
    /// Adds a line to the queue, or counts it as lost.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let octets = self.octets.fetch_add(line.len(), Relaxed) + line.len();
        if octets > MAX_QUEUED || self.lines.send(line.to_vec()).is_err() {
            self.octets.fetch_sub(line.len(), Relaxed);
            self.lost.note();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

// === impl LogGuard ===

impl LogGuard {
    /// Returns the lost lines.
    pub fn lost(&self) -> Failures {
        self.0.lost.clone()
    }
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        // The lines of a reader that is too slow are lost.
        let end = Instant::now() + FLUSH_TIMEOUT;
        while self.0.octets.load(Relaxed) > 0 && Instant::now() < end {
            thread::sleep(PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeWriter, Read as _, pipe};

    use tracing::Level;

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

    #[test]
    fn levels_and_directives_are_valid() {
        for good in [
            "info",
            "WARN",
            "off",
            "info,global_dns::source=debug",
            "global_dns::source=debug",
            "hickory-server=off,error",
        ] {
            let filter = good.parse::<LogFilter>().unwrap();
            let targets = filter.with_noisy_crates();
            assert!(
                !targets.would_enable("kube_client::client", &Level::ERROR),
                "{good}"
            );
        }
    }

    #[test]
    fn other_words_are_refused_and_named() {
        for (bad, part) in [
            ("warning", "warning"),
            ("a b", "a b"),
            ("", ""),
            ("info,", ""),
            ("info, warn", " warn"),
            ("info,=", "="),
            ("=info", "=info"),
            ("global_dns", "global_dns"),
            ("global_dns=", "global_dns="),
            ("global_dns=verbose", "global_dns=verbose"),
            ("global dns=info", "global dns=info"),
            ("[watch=info", "[watch=info"),
            ("info;global_dns=debug", "info;global_dns=debug"),
        ] {
            let refused = bad.parse::<LogFilter>().map(|_| ()).unwrap_err();
            assert!(
                refused.starts_with(&format!("'{part}' is neither")),
                "{bad}"
            );
        }
    }

    /// A line of 100 octets.
    const LINE: &[u8] = &{
        let mut line = [b'x'; 100];
        line[99] = b'\n';
        line
    };

    #[test]
    fn every_line_is_written_in_order_before_exit() {
        let (mut reader, writer) = pipe().unwrap();
        let reading = thread::spawn(move || {
            let mut text = vec![0; 10_000 * 6];
            reader.read_exact(&mut text).unwrap();
            text
        });
        let log = LogQueue::start(writer).unwrap();
        let queue = log.0.clone();
        let lost = log.lost();
        let lines = || (0..10_000).map(|number| format!("{number:05}\n"));
        for line in lines() {
            (&*queue).write_all(line.as_bytes()).unwrap();
        }
        drop(log);
        assert_eq!(
            reading.join().unwrap(),
            lines().collect::<String>().as_bytes()
        );
        assert_eq!(lost.count(), 0);
    }

    #[test]
    fn full_queue_drops_lines_without_blocking() {
        let (mut reader, writer) = pipe().unwrap();
        let log = LogQueue::start(writer).unwrap();
        let queue = log.0.clone();
        let lines = 2 * MAX_QUEUED / LINE.len();
        for _ in 0..lines {
            (&*queue).write_all(LINE).unwrap();
        }
        let lost = log.lost().count() as usize;
        assert!((lines / 2 - 1_000..=lines / 2).contains(&lost), "{lost}");
        assert!(queue.octets.load(Relaxed) <= MAX_QUEUED);
        // A reader that continues gets the queued lines.
        let mut text = vec![0; (lines - lost) * LINE.len()];
        reader.read_exact(&mut text).unwrap();
        drop(log);
        assert_eq!(queue.octets.load(Relaxed), 0);
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted() {
        let gone: PipeWriter = pipe().unwrap().1;
        let log = LogQueue::start(gone).unwrap();
        (&*log.0).write_all(LINE).unwrap();
        let lost = log.lost();
        drop(log);
        assert_eq!(lost.count(), 1);
    }
}
