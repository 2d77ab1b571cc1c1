//! A queue of log lines, and the thread that writes them to standard error. Logging never blocks on a slow reader. If
//! the queue is full, lines are lost and counted.

use std::io::{self, Write};
use std::mem::take;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::failures::Failures;

/// Maximum size of the queue in octets. It holds warnings about ten thousand objects that arrive at once.
const MAX_QUEUED: usize = 4 << 20;
/// Maximum time for writing the queued lines when the process ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The queue of the log thread.
#[derive(Default)]
pub struct LogQueue {
    lines: Mutex<Lines>,
    changed: Condvar,
    lost: Failures,
}

#[derive(Default)]
struct Lines {
    waiting: Vec<u8>,
    /// Octets of the lines that are being written.
    written: usize,
}

/// The log of a process. When it is dropped, the queued lines are written, unless the reader is too slow.
#[must_use = "dropping it writes the queued lines"]
pub struct LogGuard(pub(super) Arc<LogQueue>);

// === impl Lines ===

impl Lines {
    fn octets(&self) -> usize {
        self.waiting.len() + self.written
    }
}

// === impl LogQueue ===

impl LogQueue {
    /// Starts the log thread.
    ///
    /// # Errors
    ///
    /// If the system has no thread.
    pub fn start(to: impl Write + Send + 'static) -> io::Result<LogGuard> {
        let queue = Arc::new(Self::default());
        let shared = queue.clone();
        let work = move || shared.write_lines(to);
        thread::Builder::new().name("log".to_owned()).spawn(work)?;
        Ok(LogGuard(queue))
    }

    /// Writes all lines. It never returns.
    fn write_lines(&self, mut to: impl Write) {
        let mut lines = self.lines.lock();
        loop {
            let is_idle = |lines: &mut Lines| lines.waiting.is_empty();
            self.changed.wait_while(&mut lines, is_idle);
            let text = take(&mut lines.waiting);
            lines.written = text.len();
            let written = MutexGuard::unlocked(&mut lines, || to.write_all(&text));
            lines.written = 0;
            if written.is_err() {
                let ends = text.iter().filter(|octet| **octet == b'\n');
                ends.for_each(|_| self.lost.note());
            }
            self.changed.notify_all();
        }
    }
}

impl Write for &LogQueue {
    /// Adds a line to the queue, or counts it as lost.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut lines = self.lines.lock();
        if lines.octets() + line.len() > MAX_QUEUED {
            self.lost.note();
        } else {
            lines.waiting.extend_from_slice(line);
            self.changed.notify_all();
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
        let LogQueue { lines, changed, .. } = &*self.0;
        // The lines of a reader that is too slow are lost.
        let is_unwritten = |lines: &mut Lines| lines.octets() > 0;
        changed.wait_while_for(&mut lines.lock(), is_unwritten, FLUSH_TIMEOUT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{PipeWriter, Read as _, pipe};

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
        assert!(queue.lines.lock().octets() <= MAX_QUEUED);
        // A reader that continues gets the queued lines.
        let mut text = vec![0; (lines - lost) * LINE.len()];
        reader.read_exact(&mut text).unwrap();
        drop(log);
        assert_eq!(queue.lines.lock().octets(), 0);
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
