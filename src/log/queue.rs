//! Log lines on their way to standard error, written by a thread of their own: whoever logs never waits for whoever
//! reads. Where nobody does, lines are lost, and counted.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// Octets that wait to be written at most: the warnings about ten thousand objects that come at once.
const MOST: usize = 4 << 20;
/// How long the end of the process waits for lines to be written.
const PATIENCE: Duration = Duration::from_secs(1);

/// The way to the writer. Cheap to clone: all clones are one.
#[derive(Clone)]
pub struct LogQueue(Arc<Shared>);

struct Shared {
    items: Sender<Item>,
    /// Octets of the lines that wait, the one that is being written among them.
    waiting: AtomicUsize,
    lost: Arc<AtomicU64>,
}

enum Item {
    Line(Vec<u8>),
    /// Everything before it has been written.
    Mark(SyncSender<()>),
}

/// The log of a server. When it is dropped, what waits is written, if somebody reads it.
#[must_use = "lines that wait are written when it is dropped"]
pub struct Log {
    queue: LogQueue,
    lost: Arc<AtomicU64>,
}

// === impl LogQueue ===

impl LogQueue {
    /// Starts the writer.
    ///
    /// # Errors
    ///
    /// If the system grants no thread.
    pub fn start(to: impl Write + Send + 'static) -> io::Result<(Self, Log)> {
        let (items, inbox) = channel();
        let lost = Arc::<AtomicU64>::default();
        let queue = Self(Arc::new(Shared {
            items,
            waiting: AtomicUsize::new(0),
            lost: lost.clone(),
        }));
        let log = Log {
            queue: queue.clone(),
            lost,
        };
        let shared = queue.0.clone();
        let work = move || shared.write_all(&inbox, to);
        thread::Builder::new().name("log".to_owned()).spawn(work)?;
        Ok((queue, log))
    }
}

impl Shared {
    /// Writes what comes. It ends with the process: the sender is its own.
    fn write_all(&self, inbox: &Receiver<Item>, mut to: impl Write) {
        for item in inbox {
            match item {
                Item::Line(line) => {
                    if to.write_all(&line).is_err() {
                        self.lost.fetch_add(1, Relaxed);
                    }
                    self.waiting.fetch_sub(line.len(), Relaxed);
                }
                // An error says that nobody waits any more.
                Item::Mark(reached) => _ = reached.send(()),
            }
        }
    }
}

impl Write for &LogQueue {
    /// Takes a line, or loses it.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let Shared {
            items,
            waiting,
            lost,
        } = &*self.0;
        let before = waiting.fetch_add(line.len(), Relaxed);
        if before + line.len() > MOST || items.send(Item::Line(line.to_vec())).is_err() {
            waiting.fetch_sub(line.len(), Relaxed);
            lost.fetch_add(1, Relaxed);
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

// === impl Log ===

impl Log {
    /// Returns the count of the lines that could not be written.
    pub fn lost(&self) -> Arc<AtomicU64> {
        self.lost.clone()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let (reached, mark) = sync_channel(1);
        if self.queue.0.items.send(Item::Mark(reached)).is_ok() {
            // An error says that nobody reads: there is nothing more to do.
            let _ = mark.recv_timeout(PATIENCE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{PipeWriter, Read as _, pipe};

    const LINE: [u8; 100] = [b'x'; 100];

    #[test]
    fn every_line_is_written_in_order_before_the_end() {
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
        assert_eq!(lost.load(Relaxed), 0);
    }

    #[test]
    fn without_a_reader_lines_are_lost_and_nobody_waits() {
        let (mut reader, writer) = pipe().unwrap();
        let (queue, log) = LogQueue::start(writer).unwrap();
        let lines = 2 * MOST / LINE.len();
        for _ in 0..lines {
            queue.make_writer().write_all(&LINE).unwrap();
        }
        let lost = log.lost.load(Relaxed) as usize;
        assert!((lines / 2 - 1_000..=lines / 2).contains(&lost), "{lost}");
        assert!(queue.0.waiting.load(Relaxed) <= MOST);
        // Who reads again gets what waited.
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
        assert_eq!(lost.load(Relaxed), 1);
    }
}
