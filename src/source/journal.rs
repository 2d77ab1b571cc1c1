//! `--journal-max`: the events in files beside the snapshot, so that they outlive the process.
//!
//! Each line is the JSON of an event as in `/api/v1/events`, with its exact time. A thread of its own reads the files at the start,
//! and appends events afterwards. Recording an event waits for neither. If the disk is full or too slow, events are lost
//! and counted, and everything else goes on.
//!
//! There are two files: when the current one has half of the limit, it replaces the older one. A line that is torn, damaged, too
//! long or foreign costs itself only. A process holds a lock while it writes, so that of two processes with one volume, the
//! second one writes when the first one has ended.

use std::fs::{File, Metadata, TryLockError};
use std::io::{self, BufRead, BufReader, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tracing::info;

use super::log_problem;
use crate::failures::Failures;
use crate::model::{Problem, ProblemKind, Timestamp};
use crate::report::events::Event;
use crate::table::change::Change;

/// Maximum number of events that wait for the disk.
const MAX_QUEUED: usize = 4096;
/// Maximum number of events that are written at once.
const MAX_BATCH: usize = 256;
/// Maximum length of a line in octets. An event has some 400.
const MAX_LINE: usize = 8 * 1024;
/// Maximum time for writing the events in the queue when the process ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
/// How often a file is opened again, because another process replaced it meanwhile.
const MAX_REPLACED: usize = 10;

/// The writer and reader of the journal.
#[derive(Debug)]
pub struct Journal {
    items: Sender<JournalItem>,
    /// The number of events in the queue.
    waiting: Arc<AtomicUsize>,
    lost: Failures,
    files: JournalFiles,
}

/// The files of a journal.
#[derive(Clone, Debug)]
pub struct JournalFiles {
    current: PathBuf,
    older: PathBuf,
    /// Maximum size of both files together, in octets.
    max: u64,
}

#[derive(Debug)]
enum JournalItem {
    Event(Arc<Event>),
    /// Requests a signal after everything before it has been written.
    Flush(SyncSender<()>),
}

/// A line of the journal.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct JournalLine<E> {
    /// The exact time.
    unix_milliseconds: u64,
    #[serde(flatten)]
    event: E,
}

/// The part of a line that is read. The time as text follows from the exact one.
#[derive(Deserialize)]
struct ReadEvent {
    id: u64,
    #[serde(flatten)]
    change: Change,
}

/// The thread that writes.
struct Writer {
    files: JournalFiles,
    waiting: Arc<AtomicUsize>,
    lost: Failures,
    file: Option<File>,
    /// Whether the last write failed. The first of several failures is logged.
    is_failing: bool,
}

// === impl JournalFiles ===

impl JournalFiles {
    /// Returns the files beside a snapshot.
    pub fn beside(snapshot: &Path, max: u64) -> Self {
        let with = |end: &str| {
            let mut path = snapshot.as_os_str().to_owned();
            path.push(end);
            PathBuf::from(path)
        };
        Self {
            current: with(".journal"),
            older: with(".journal.old"),
            max,
        }
    }

    /// Calls `each` with every event, the oldest first, and the length of its line. Returns the first error; it costs the rest
    /// of one file. The memory for it is bounded, whatever the files hold.
    pub(super) fn read(&self, mut each: impl FnMut(Event, usize)) -> io::Result<()> {
        // In this order: a file that is rotated meanwhile is read once.
        let current = open_to_read(&self.current);
        let older = open_to_read(&self.older);
        let is_same = match (&current, &older) {
            (Ok(Some((_, one))), Ok(Some((_, other)))) => is_same_file(one, other),
            _ => false,
        };
        let mut result = Ok(());
        for file in [older, current].into_iter().skip(usize::from(is_same)) {
            let read = file.and_then(|file| match file {
                Some((file, metadata)) => self.read_file(file, &metadata, &mut each),
                None => Ok(()),
            });
            result = result.and(read);
        }
        result
    }

    fn read_file(
        &self,
        mut file: File,
        metadata: &Metadata,
        each: &mut impl FnMut(Event, usize),
    ) -> io::Result<()> {
        // A foreign file may be larger than any of ours.
        let start = metadata.len().saturating_sub(self.max);
        file.seek(SeekFrom::Start(start))?;
        let mut reader = BufReader::new(file);
        if start > 0 {
            reader.skip_until(b'\n')?;
        }
        let mut line = Vec::new();
        loop {
            line.clear();
            let limit = MAX_LINE as u64 + 1;
            if (&mut reader).take(limit).read_until(b'\n', &mut line)? == 0 {
                return Ok(());
            }
            if line.last() != Some(&b'\n') {
                reader.skip_until(b'\n')?;
            } else if let Some(event) = parse(&line) {
                each(event, line.len());
            }
        }
    }
}

/// Opens a regular file, if it exists. Opening a pipe would wait for its other end.
fn open_to_read(path: &Path) -> io::Result<Option<(File, Metadata)>> {
    match regular(path) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    Ok(Some((file, metadata)))
}

/// Returns the metadata of a regular file.
fn regular(path: &Path) -> io::Result<Metadata> {
    let metadata = std::fs::metadata(path)?;
    if metadata.is_file() {
        Ok(metadata)
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}

fn is_same_file(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Reads a line. Returns `None` if it is none of ours.
fn parse(line: &[u8]) -> Option<Event> {
    let line: JournalLine<ReadEvent> = serde_json::from_slice(line).ok()?;
    let moment = Timestamp(line.unix_milliseconds);
    let time = moment.to_text();
    let event = Event {
        id: line.event.id,
        time,
        moment,
        change: line.event.change,
    };
    (!event.time.is_empty()).then_some(event)
}

/// Writes an event as a line. Returns `None` if it is too long to be read again.
fn line_of(event: &Event) -> Option<Vec<u8>> {
    let line = JournalLine {
        unix_milliseconds: event.moment.0,
        event,
    };
    let mut line = serde_json::to_vec(&line).ok()?;
    line.push(b'\n');
    (line.len() <= MAX_LINE).then_some(line)
}

// === impl Journal ===

impl Journal {
    /// Starts the thread. It reads the files, calls `restore` with the journal, and then writes events.
    ///
    /// # Errors
    ///
    /// If the system has no thread.
    pub(super) fn start(
        files: JournalFiles,
        lost: Failures,
        restore: impl FnOnce(&JournalFiles) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let (items, inbox) = channel();
        let journal = Self {
            items,
            waiting: Arc::default(),
            lost: lost.clone(),
            files: files.clone(),
        };
        let mut writer = Writer {
            files,
            waiting: journal.waiting.clone(),
            lost,
            file: None,
            is_failing: false,
        };
        let work = move || {
            if let Err(error) = restore(&writer.files) {
                writer.report("cannot read", &error);
            }
            writer.write_all(&inbox);
        };
        thread::Builder::new()
            .name("journal".to_owned())
            .spawn(work)?;
        Ok(journal)
    }

    /// Returns the files.
    pub(super) fn files(&self) -> &JournalFiles {
        &self.files
    }

    /// Adds an event to the queue, or counts it as lost. It never waits.
    pub(super) fn write(&self, event: Arc<Event>) {
        let is_full = self.waiting.fetch_add(1, Relaxed) >= MAX_QUEUED;
        if is_full || self.items.send(JournalItem::Event(event)).is_err() {
            self.waiting.fetch_sub(1, Relaxed);
            self.lost.note();
        }
    }

    /// Waits until the events in the queue are written, unless the disk is too slow.
    pub(super) fn flush(&self) {
        let (written, is_written) = sync_channel(1);
        if self.items.send(JournalItem::Flush(written)).is_ok() {
            _ = is_written.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

// === impl Writer ===

impl Writer {
    fn write_all(mut self, inbox: &Receiver<JournalItem>) {
        while let Ok(first) = inbox.recv() {
            let queued = inbox.try_iter().take(MAX_BATCH);
            let (mut events, mut flushes) = (Vec::new(), Vec::new());
            for item in std::iter::once(first).chain(queued) {
                match item {
                    JournalItem::Event(event) => events.push(event),
                    JournalItem::Flush(written) => flushes.push(written),
                }
            }
            self.write_batch(&events);
            self.waiting.fetch_sub(events.len(), Relaxed);
            if !flushes.is_empty()
                && let Some(file) = &self.file
            {
                // The process ends, and perhaps the node.
                _ = file.sync_all();
            }
            for written in flushes {
                // An error means that the receiver no longer waits.
                _ = written.send(());
            }
        }
    }

    /// Writes events. Counts those that could not be written.
    fn write_batch(&mut self, events: &[Arc<Event>]) {
        let mut events = events.iter();
        while !events.as_slice().is_empty() {
            let remaining = events.len();
            if let Err(error) = self.write_some(&mut events) {
                // The end of the file may be torn, so that it is opened again.
                self.file = None;
                (0..remaining).for_each(|_| self.lost.note());
                self.report("cannot write", &error);
                return;
            }
            self.is_failing = false;
        }
    }

    /// Writes the events that the current file has room for, and rotates it if there are more.
    fn write_some(&mut self, events: &mut std::slice::Iter<'_, Arc<Event>>) -> io::Result<()> {
        let mut file = match self.file.take() {
            Some(file) if self.is_current(&file)? => file,
            _ => self.open()?,
        };
        let half = self.files.max / 2;
        let mut size = file.metadata()?.len();
        let mut lines = Vec::new();
        while let Some(event) = events.as_slice().first() {
            let line = line_of(event);
            let length = line.as_ref().map_or(0, Vec::len) as u64;
            if size + length > half && size > 0 {
                break;
            }
            events.next();
            match line {
                Some(line) => lines.extend(line),
                None => self.lost.note(),
            }
            size += length;
        }
        file.write_all(&lines)?;
        if events.as_slice().is_empty() {
            self.file = Some(file);
        } else {
            std::fs::rename(&self.files.current, &self.files.older)?;
        }
        Ok(())
    }

    /// Returns whether a file still has its name.
    fn is_current(&self, file: &File) -> io::Result<bool> {
        match std::fs::metadata(&self.files.current) {
            Ok(named) => Ok(is_same_file(&named, &file.metadata()?)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Opens the current file, and waits until no other process writes it.
    fn open(&self) -> io::Result<File> {
        for _ in 0..MAX_REPLACED {
            let path = &self.files.current;
            match regular(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut options = File::options();
            let mut file = options.read(true).append(true).create(true).open(path)?;
            if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
                info!(path = %path.display(), "Another process writes the journal; waiting until it ends");
                file.lock()?;
            } // Some file systems have no locks.
            if !self.is_current(&file)? {
                continue;
            }
            let is_torn = match file.seek(SeekFrom::End(-1)) {
                Ok(_) => {
                    let mut last = [0];
                    file.read_exact(&mut last)?;
                    last != *b"\n"
                }
                Err(_) => false, // it is empty
            };
            if is_torn {
                file.write_all(b"\n")?;
            }
            return Ok(file);
        }
        Err(io::Error::other("other processes replace it all the time"))
    }

    /// Logs the first of several failures.
    fn report(&mut self, what: &str, error: &io::Error) {
        if !std::mem::replace(&mut self.is_failing, true) {
            let path = self.files.current.display();
            let detail = format!("{what} {path}: {error}");
            log_problem(&Problem::new(ProblemKind::JournalFailed, detail));
        }
    }
}

#[cfg(test)]
mod tests;
