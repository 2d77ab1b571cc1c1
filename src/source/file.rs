//! The source that reads YAML or JSON files: the output of `kubectl get svc,endpointslices -A -o yaml`, in one or more
//! documents.
//!
//! The files of `--file` are merged into one source. If one of them changes, all are reloaded. They are read twice with
//! a short pause, and used if both reads are equal, so a half-written file is never used. If a file is invalid or
//! contains no relevant object, the last table stays in use. An empty `List`, which `kubectl` prints for an empty
//! cluster, is valid and empties the table. If the content is held (`--shrink-guard`), the files are read again when
//! [`Feeds`] requests it.

mod objects;
mod read;

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc::error::SendError;
use tracing::{info, warn};

pub use objects::{Lists, parse_texts, read_objects};
pub use read::FileError;

use read::read_text;

use super::{Feed, Feeds, Update, Updates, log_problem};
use crate::log::error_chain;
use crate::model::{Problem, ProblemKind, Watch};
use crate::table::links::UnknownReason;
use crate::table::store::Objects;

/// Intervals of the file source.
#[derive(Clone, Copy, Debug)]
pub struct FileTiming {
    /// The interval between checks of the files' metadata.
    pub poll: Duration,
    /// The pause between the two reads that must be equal.
    pub settle: Duration,
}

impl Default for FileTiming {
    /// Returns a poll interval of one second and a settle time of a tenth of it.
    fn default() -> Self {
        Self {
            poll: Duration::from_secs(1),
            settle: Duration::from_millis(100),
        }
    }
}

/// The files of `--file`, read once successfully.
pub struct Files {
    paths: Vec<PathBuf>,
    /// The stamps of the files before the last read.
    stamps: Vec<Stamp>,
    timing: FileTiming,
    /// The content of the first read, until it is sent.
    first: Option<Lists>,
    last: LastRead,
}

/// The result of the last read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastRead {
    /// The files are valid. Each poll without a change counts as activity.
    Good,
    /// The files are invalid. They are read again when they change.
    Unusable,
    /// The files must be read again even without a change: their content is held (`--shrink-guard`), a file could not
    /// be read, or the update loop panicked.
    Incomplete,
}

// === impl Files ===

impl Files {
    /// Reads files for the first time.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, is not YAML or JSON, contains no relevant object, or repeats an object.
    pub fn open(paths: Vec<PathBuf>, timing: FileTiming) -> Result<Self, FileError> {
        let stamps = read_stamps(&paths);
        let mut texts = Vec::new();
        for path in &paths {
            let text = read_text(path);
            texts.push((
                path.as_path(),
                text.map_err(|e| FileError::Read(path.clone(), e))?,
            ));
        }
        let first = parse_texts(&texts)?;
        Ok(Self {
            paths,
            stamps,
            timing,
            first: Some(first),
            last: LastRead::Good,
        })
    }

    /// Sends the objects of the files, and again after each change, until the receiver of the updates is closed.
    pub async fn run(&mut self, feeds: Feeds, updates: Updates) {
        match self.first.take() {
            Some(first) => {
                if send(first, &feeds, &updates).await.is_err() {
                    return;
                }
            }
            None => self.last = LastRead::Incomplete,
        }
        loop {
            tokio::time::sleep(self.timing.poll).await;
            if self.poll(&feeds, &updates).await.is_err() {
                return;
            }
        }
    }

    /// Checks the files. If they changed or must be read again, sends their objects. Fails if the receiver of the
    /// updates is closed.
    async fn poll(&mut self, feeds: &Feeds, updates: &Updates) -> Result<(), SendError<Update>> {
        let now = read_stamps(&self.paths);
        if feeds.take_due_relists() {
            self.last = LastRead::Incomplete;
        }
        if now == self.stamps && self.last != LastRead::Incomplete {
            if self.last == LastRead::Good {
                feeds
                    .all()
                    .iter()
                    .for_each(|feed| feeds.note_activity(feed));
            }
            return Ok(());
        }
        let Some(read) = read_settled(&self.paths, self.timing.settle).await else {
            return Ok(()); // still being written; the next poll reads again
        };
        self.last = LastRead::of(&read);
        match read {
            Ok(lists) => {
                info!(files = self.paths.len(), "Reloaded files");
                send(lists, feeds, updates).await?;
            }
            Err(error) => self.note_failure(&error, &now, feeds),
        }
        self.stamps = now;
        Ok(())
    }

    /// Reports files that cannot be used: in the log once for each change, and in `/readyz` until they are valid.
    fn note_failure(&self, error: &FileError, stamps: &[Stamp], feeds: &Feeds) {
        let failure = error_chain(error);
        let mut is_new = *stamps != self.stamps;
        for feed in feeds.all() {
            is_new |= feeds.note_failure(&feed, &failure).is_some();
        }
        if is_new {
            // One line for the files, not one for each feed.
            log_problem(&Problem::new(ProblemKind::SourceFailed, failure));
        }
    }
}

// === impl LastRead ===

impl LastRead {
    /// Returns the result of a read.
    fn of(read: &Result<Lists, FileError>) -> Self {
        match read {
            Ok(_) => Self::Good,
            Err(FileError::Read(..)) => Self::Incomplete,
            Err(
                FileError::Syntax { .. }
                | FileError::List { .. }
                | FileError::Empty(_)
                | FileError::Duplicate { .. },
            ) => Self::Unusable,
        }
    }
}

/// Reads the files twice, with a pause. Returns `None` if the reads differ.
async fn read_settled(paths: &[PathBuf], settle: Duration) -> Option<Result<Lists, FileError>> {
    let texts = || -> Vec<_> { paths.iter().map(|p| (p, read_text(p))).collect() };
    let first = texts();
    tokio::time::sleep(settle).await;
    let mut same = Vec::new();
    for ((path, one), (_, other)) in first.into_iter().zip(texts()) {
        match (one, other) {
            (Ok(one), Ok(other)) if one == other => same.push((path.as_path(), other)),
            (Err(_), Err(error)) => return Some(Err(FileError::Read(path.clone(), error))),
            _ => return None,
        }
    }
    Some(parse_texts(&same))
}

/// Sends complete lists as one update. Each feed gets the objects of its watch and, if it has one, of its namespace.
async fn send(mut lists: Lists, feeds: &Feeds, updates: &Updates) -> Result<(), SendError<Update>> {
    let imports = lists
        .get(&Watch::ServiceImports)
        .map_or(0, |list| list.len());
    if imports > 0 && !feeds.watches().contains(&Watch::ServiceImports) {
        warn!(imports, "Ignored ServiceImports; --mcs reads them");
    }
    let of_feed = |feed: Feed| {
        let objects = match &feed.namespace {
            None => lists.remove(&feed.watch).unwrap_or_default(),
            Some(namespace) => {
                let all = lists.get(&feed.watch).into_iter().flatten();
                let own = all.filter(|(key, _)| *key.namespace == *namespace.as_str());
                own.map(|(key, object)| (key.clone(), object.clone()))
                    .collect()
            }
        };
        (feed, objects)
    };
    let lists: Vec<(Feed, Objects)> = feeds.all().into_iter().map(of_feed).collect();
    let mut links = lists.iter().filter(|(feed, _)| feed.watch == Watch::Links);
    let has_links = links.any(|(_, links)| !links.is_empty());
    for (feed, _) in &lists {
        feeds.note_definition(feed, (!has_links).then_some(UnknownReason::NotGiven));
        feeds.note_listed(feed);
    }
    updates.send(Update::Reset(lists)).await
}

/// The metadata that shows a change of a file: time, size and inode, which changes if the file is replaced. `None`: the
/// metadata cannot be read.
type Stamp = Option<(SystemTime, u64, u64)>;

/// Reads the metadata of files.
fn read_stamps(paths: &[PathBuf]) -> Vec<Stamp> {
    use std::os::unix::fs::MetadataExt;
    let stamp = |path: &PathBuf| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
    };
    paths.iter().map(stamp).collect()
}
