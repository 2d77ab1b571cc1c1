//! A queue of log lines, and the thread that writes them to standard error. Logging never blocks on a slow reader. If
//! the queue is full, lines are lost and counted.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::failures::Failures;

/// Maximum size of the queue in octets. It holds warnings about ten thousand objects that arrive at once.
const MAX_QUEUED: usize = 4 << 20;
/// Maximum time for writing the queued lines when the process ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause between two looks at the queue when the process ends.
const PAUSE: Duration = Duration::from_millis(1);

/// The queue of the log thread.
pub struct LogQueue {
    lines: Sender<Vec<u8>>,
    /// Octets of the lines that wait or are being written.
    octets: AtomicUsize,
    lost: Failures,
}

/// The log of a process. When it is dropped, the queued lines are written, unless the reader is too slow.
#[must_use = "dropping it writes the queued lines"]
pub struct LogGuard(pub(super) Arc<LogQueue>);

// === impl LogQueue ===

impl LogQueue {
    /// Starts the log thread. It ends with the process.
    ///
    /// # Errors
    ///
    /// If the system has no thread.
    pub fn start(mut to: impl Write + Send + 'static) -> io::Result<LogGuard> {
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
