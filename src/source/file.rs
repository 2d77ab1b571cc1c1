//! YAML or JSON on disk: what `kubectl get svc,endpointslices -A -o yaml` prints, in one or several documents.
//!
//! The files of `--file` are one source: merged, and reloaded whole when one of them changes and two reads a moment
//! apart agree, so that a half-written file is never taken. A broken file, or one that says nothing, keeps the last good
//! table; an empty `List`, which `kubectl` prints of an empty cluster, says that there is nothing. Files that were read and are held (`--shrink-guard`) are read once more when [`Feeds`] says so.

mod objects;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc::error::SendError;
use tracing::{info, warn};

pub use objects::{Lists, every_object, parse_texts};

use super::{Feed, Feeds, Update, Updates};
use crate::log::sentence;
use crate::mirror::ObjectRef;

/// When files are looked at.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Between two looks at the files' metadata.
    pub poll: Duration,
    /// Between the two reads that must agree.
    pub settle: Duration,
}

/// Why files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error("reading {}", .0.display())]
    Read(PathBuf, #[source] std::io::Error),
    /// The file is neither YAML nor JSON.
    #[error("{}:{line}:{column}: {reason}", .path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, from 1; 0 if unknown.
        line: u64,
        /// Column, from 1; 0 if unknown.
        column: u64,
        /// What the parser says.
        reason: String,
    },
    /// A list cannot be taken apart.
    #[error("{}: document {document}: {reason}", .path.display())]
    List {
        /// The file.
        path: PathBuf,
        /// Which of its documents, from 1.
        document: usize,
        /// What is wrong.
        reason: String,
    },
    /// The file holds nothing of use.
    #[error("{}: holds no Kubernetes object of kind Service or EndpointSlice", .0.display())]
    Empty(PathBuf),
    /// One object occurs twice.
    #[error("{object} occurs twice, in {} and in {}", .first.display(), .second.display())]
    Twice {
        /// The object.
        object: ObjectRef,
        /// Where it was found first.
        first: PathBuf,
        /// Where it was found again.
        second: PathBuf,
    },
}

impl Default for Timing {
    /// A second until a change is seen, a tenth of it to settle.
    fn default() -> Self {
        Self {
            poll: Duration::from_secs(1),
            settle: Duration::from_millis(100),
        }
    }
}

/// Files that were read once and can be served.
pub struct Files {
    paths: Vec<PathBuf>,
    /// How the files looked before they were read.
    stamps: Vec<Stamp>,
    timing: Timing,
    /// What is sent first; taken when it is.
    first: Option<Lists>,
    last: LastRead,
}

/// How the last read of the files ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastRead {
    /// The files could be used. Until they change, that is as good as read again.
    Good,
    /// They could not be used, until they change.
    Unusable,
    /// They are to be read again even if nothing changes: what was read is held (`--shrink-guard`) and to be confirmed,
    /// could not be read, or went to somebody who panicked.
    Incomplete,
}

// === impl FileError ===

impl FileError {
    fn list(path: &Path, index: usize, reason: String) -> Self {
        let (path, document) = (path.to_path_buf(), index + 1);
        Self::List {
            path,
            document,
            reason,
        }
    }
}

// === impl Files ===

impl Files {
    /// Reads files for the first time.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, is no YAML or JSON, holds nothing of use, or repeats an object.
    pub fn open(paths: Vec<PathBuf>, timing: Timing) -> Result<Self, FileError> {
        let stamps = look(&paths);
        let mut texts = Vec::new();
        for path in &paths {
            let text = std::fs::read_to_string(path);
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

    /// Sends what the files hold, then watches them for changes, for ever.
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

    /// Looks at the files, and sends what they hold if they changed or must be read again. Fails if nobody listens any
    /// more.
    async fn poll(&mut self, feeds: &Feeds, updates: &Updates) -> Result<(), SendError<Update>> {
        let now = look(&self.paths);
        if feeds.take_due_relists() {
            self.last = LastRead::Incomplete;
        }
        if now == self.stamps && self.last != LastRead::Incomplete {
            if self.last == LastRead::Good {
                feeds.all().iter().for_each(|feed| feeds.alive(feed));
            }
            return Ok(());
        }
        let Some(read) = settled(&self.paths, self.timing.settle).await else {
            return Ok(()); // still being written: looked at again at the next poll
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

    /// Tells of files that cannot be used: on the log when that is news, in `/readyz` as long as it lasts.
    fn note_failure(&self, error: &FileError, stamps: &[Stamp], feeds: &Feeds) {
        let problem = sentence(error);
        let mut is_news = *stamps != self.stamps;
        for feed in feeds.all() {
            is_news |= feeds.failed(&feed, &problem);
        }
        if is_news {
            warn!(
                error = problem,
                "Kept the last table: a file cannot be used"
            );
        }
    }
}

// === impl LastRead ===

impl LastRead {
    /// Returns how a read ended.
    fn of(read: &Result<Lists, FileError>) -> Self {
        match read {
            Ok(_) => Self::Good,
            Err(FileError::Read(..)) => Self::Incomplete,
            Err(
                FileError::Syntax { .. }
                | FileError::List { .. }
                | FileError::Empty(_)
                | FileError::Twice { .. },
            ) => Self::Unusable,
        }
    }
}

/// Reads the files twice, a moment apart; `None` if the reads differ.
async fn settled(paths: &[PathBuf], settle: Duration) -> Option<Result<Lists, FileError>> {
    let texts = || -> Vec<_> {
        paths
            .iter()
            .map(|p| (p, std::fs::read_to_string(p)))
            .collect()
    };
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

/// Sends complete lists, as one update: to each feed what is of its watch and, where only some namespaces are followed,
/// of its own.
async fn send(mut lists: Lists, feeds: &Feeds, updates: &Updates) -> Result<(), SendError<Update>> {
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
        feeds.listed(&feed);
        (feed, objects)
    };
    updates
        .send(Update::Reset(
            feeds.all().into_iter().map(of_feed).collect(),
        ))
        .await
}

/// What tells a changed file: time, size, and for replaced files the inode behind the path. `None`: it cannot be looked
/// at.
type Stamp = Option<(SystemTime, u64, u64)>;

/// Looks at the metadata of files.
fn look(paths: &[PathBuf]) -> Vec<Stamp> {
    use std::os::unix::fs::MetadataExt;
    let stamp = |path: &PathBuf| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
    };
    paths.iter().map(stamp).collect()
}
