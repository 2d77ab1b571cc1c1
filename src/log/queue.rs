//! A queue of log lines, and the thread that writes them to standard error. Logging never blocks on a slow reader. If
//! the queue is full, lines are lost and counted.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

use crate::failures::Failures;

/// Maximum size of the queue in octets. It holds warnings about ten thousand objects that arrive at once.
const MAX_QUEUED: usize = 4 << 20;
/// Maximum time for writing the queued lines when the process ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The queue of the log thread. Clones share it.
#[derive(Clone)]
pub struct LogQueue(Arc<SharedQueue>);

struct SharedQueue {
    items: Sender<QueuedLine>,
    /// Octets of the queued lines, including the line that is being written.
    waiting: AtomicUsize,
    lost: Failures,
}

enum QueuedLine {
    Line(Vec<u8>),
    /// Requests a signal after everything before it has been written.
    Flush(SyncSender<()>),
}

/// The log of a server. When it is dropped, the queued lines are written, unless the reader is too slow.
#[must_use = "dropping it writes the queued lines"]
pub struct LogGuard(LogQueue);

// === impl LogQueue ===

impl LogQueue {
    /// Starts the log thread.
    ///
    /// # Errors
    ///
    /// If the system has no thread.
    pub fn start(to: impl Write + Send + 'static) -> io::Result<(Self, LogGuard)> {
        let (items, inbox) = channel();
        let queue = Self(Arc::new(SharedQueue {
            items,
            waiting: AtomicUsize::new(0),
            lost: Failures::default(),
        }));
        let shared = queue.0.clone();
        let work = move || shared.write_all(&inbox, to);
        thread::Builder::new().name("log".to_owned()).spawn(work)?;
        Ok((queue.clone(), LogGuard(queue)))
    }
}

impl SharedQueue {
    /// Writes all items. It never returns, because it holds a sender itself.
    fn write_all(&self, inbox: &Receiver<QueuedLine>, mut to: impl Write) {
        for item in inbox {
            match item {
                QueuedLine::Line(line) => {
                    if to.write_all(&line).is_err() {
                        self.lost.note();
                    }
                    self.waiting.fetch_sub(line.len(), Relaxed);
                }
                // An error means that the receiver no longer waits.
                QueuedLine::Flush(written) => _ = written.send(()),
            }
        }
    }
}

impl Write for &LogQueue {
    /// Adds a line to the queue, or counts it as lost.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let SharedQueue {
            items,
            waiting,
            lost,
        } = &*self.0;
        let before = waiting.fetch_add(line.len(), Relaxed);
        if before + line.len() > MAX_QUEUED || items.send(QueuedLine::Line(line.to_vec())).is_err()
        {
            waiting.fetch_sub(line.len(), Relaxed);
            lost.note();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'q> MakeWriter<'q> for LogQueue {
    type Writer = &'q Self;

    fn make_writer(&'q self) -> &'q Self {
        self
    }
}

// === impl LogGuard ===

impl LogGuard {
    /// Returns the lost lines.
    pub fn lost(&self) -> Failures {
        self.0.0.lost.clone()
    }
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        let (written, receiver) = sync_channel(1);
        if self.0.0.items.send(QueuedLine::Flush(written)).is_ok() {
            // An error means that the reader is too slow. Its lines are lost.
            let _ = receiver.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{PipeWriter, Read as _, pipe};

    const LINE: [u8; 100] = [b'x'; 100];

    #[test]
    fn every_line_is_written_in_order_before_exit() {
        let (mut reader, writer) = pipe().unwrap();
        let reading = thread::spawn(move || {
            let mut text = vec![0; 10_000 * 6];
            reader.read_exact(&mut text).unwrap();
            text
        });
        let (queue, log) = LogQueue::start(writer).unwrap();
        let lost = log.lost();
        let lines = || (0..10_000).map(|number| format!("{number:05}\n"));
        for line in lines() {
            queue.make_writer().write_all(line.as_bytes()).unwrap();
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
        let (queue, log) = LogQueue::start(writer).unwrap();
        let lines = 2 * MAX_QUEUED / LINE.len();
        for _ in 0..lines {
            queue.make_writer().write_all(&LINE).unwrap();
        }
        let lost = log.lost().count() as usize;
        assert!((lines / 2 - 1_000..=lines / 2).contains(&lost), "{lost}");
        assert!(queue.0.waiting.load(Relaxed) <= MAX_QUEUED);
        // A reader that continues gets the queued lines.
        let mut text = vec![0; (lines - lost) * LINE.len()];
        reader.read_exact(&mut text).unwrap();
        drop(log);
        assert_eq!(queue.0.waiting.load(Relaxed), 0);
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted() {
        let gone: PipeWriter = pipe().unwrap().1;
        let (queue, log) = LogQueue::start(gone).unwrap();
        queue.make_writer().write_all(&LINE).unwrap();
        let lost = log.lost();
        drop(log);
        assert_eq!(lost.count(), 1);
    }
}
