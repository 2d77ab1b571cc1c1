//! `--snapshot`: the store in a file, so that a restarted process can answer while the API server is unreachable.
//!
//! The file contains the reduced objects, not the table. The table is built with the flags of the process that reads the
//! file. A separate thread writes JSON to a temporary file, syncs it and renames it, so the file is always complete.
//!
//! A snapshot is used if it has the same program version, source, cluster name, namespaces and watches, and is not too
//! old. Its time is when its content was last confirmed, not when it last changed. A file that cannot be read or written
//! causes one log message and no other failure.
//!
//! The file also has the times since which problems hold ([`Earlier`]). They are used even if the objects are not, because
//! another version of the program wrote them or other watches are needed now.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tracing::{info, warn};

use super::log_problem;
use crate::VERSION;
use crate::clock::unix_seconds;
use crate::failures::Failures;
use crate::model::{ClusterName, Namespace, Object, ObjectKey, Problem, ProblemKind, Watch};
use crate::table::links::Links;
use crate::table::{Earlier, Store, Table};

/// The version of the file format. Files of other versions are ignored.
const FORMAT: u32 = 10;
/// The shortest time between two writes. A crash loses a few seconds of changes.
const INTERVAL: Duration = Duration::from_secs(5);
/// The interval between writes is at least this many times the duration of a write, which is expensive for large
/// tables.
const INTERVAL_FACTOR: u32 = 20;
/// Number of times that an unchanged file is rewritten within `--snapshot-max-age`.
const REFRESHES: u32 = 4;

/// The scope of a snapshot. Zones and rules are not part of it, because they are applied when it is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotScope {
    /// The URL of the API server, or `files`.
    pub source: String,
    /// `--cluster-name`.
    pub cluster_name: ClusterName,
    /// `--namespace`; empty: all.
    pub namespaces: BTreeSet<Namespace>,
    /// The watches. The objects of another watch would be missing, or would never change.
    pub watches: BTreeSet<Watch>,
}

/// The reader and writer of the snapshot.
#[derive(Debug)]
pub struct Snapshots {
    path: PathBuf,
    max_age: Duration,
    scope: SnapshotScope,
    has_changed: bool,
    last_write: Option<Instant>,
    status: Arc<WriteStatus>,
    writer: Option<thread::JoinHandle<()>>,
}

/// The status of the writes.
#[derive(Debug, Default)]
struct WriteStatus {
    failures: Failures,
    /// Whether the last write failed. The first of several failures is logged.
    is_failing: AtomicBool,
    /// The duration of the last write in milliseconds.
    duration: AtomicU64,
}

/// A snapshot that was read.
#[derive(Debug)]
pub(super) struct RestoredSnapshot {
    /// The objects.
    pub(super) store: Store,
    /// The time since they were last confirmed.
    pub(super) age: Duration,
}

/// The first fields of the file. They decide whether the rest can be parsed.
#[derive(Deserialize)]
struct SnapshotHead {
    form: u32,
    program: String,
}

/// The content of the file.
#[derive(Serialize, Deserialize)]
struct SnapshotContent<Objects> {
    form: u32,
    program: String,
    of: SnapshotScope,
    /// The time when the objects were last confirmed, in Unix seconds.
    time: u64,
    objects: Vec<(Watch, Objects)>,
    /// What held, and since when.
    #[serde(default)]
    earlier: Earlier,
}

/// The part of the file that other versions of this program also read.
#[derive(Deserialize)]
struct SnapshotTimes {
    of: TimesScope,
    time: u64,
    earlier: Earlier,
}

/// What [`SnapshotTimes`] must have in common with this process.
#[derive(Deserialize)]
struct TimesScope {
    source: String,
    cluster_name: ClusterName,
}

/// What a snapshot consists of.
pub(super) struct Saved<'s> {
    /// The objects.
    pub(super) store: &'s Store,
    /// The table of these objects.
    pub(super) table: &'s Table,
    /// The states of links.
    pub(super) links: &'s Links,
}

/// The reason why a snapshot cannot be used.
#[derive(Debug, thiserror::Error)]
enum SnapshotError {
    #[error("cannot read it: {0}")]
    Unreadable(#[from] io::Error),
    #[error("it is invalid: {0}")]
    Invalid(#[from] serde_json::Error),
    #[error("it has version {0}, format {1}; this program has version {version}, format {format}", version = VERSION, format = FORMAT)]
    Version(String, u32),
    #[error("it belongs to source {}, cluster '{}', namespaces {:?}, and has {} watches", .0.source, .0.cluster_name, .0.namespaces, .0.watches.len())]
    OtherScope(Box<SnapshotScope>),
    #[error("it is {0} s old, which is more than --snapshot-max-age")]
    TooOld(u64),
    #[error("its time is {0} s in the future")]
    Future(u64),
}

// === impl Snapshots ===

impl Snapshots {
    /// Creates the reader and writer of a file.
    pub fn new(path: PathBuf, max_age: Duration, scope: SnapshotScope) -> Self {
        Self {
            path,
            max_age,
            scope,
            has_changed: false,
            last_write: None,
            status: Arc::default(),
            writer: None,
        }
    }

    /// Returns the failed writes.
    pub fn failures(&self) -> Failures {
        self.status.failures.clone()
    }

    /// Reads since when facts hold. Returns `None` if the file does not tell it.
    pub(super) fn load_earlier(&self) -> Option<Earlier> {
        let text = std::fs::read(&self.path).ok()?;
        let saved: SnapshotTimes = serde_json::from_slice(&text).ok()?;
        let (own, of) = (&self.scope, &saved.of);
        let is_own = (&own.source, &own.cluster_name) == (&of.source, &of.cluster_name);
        (is_own && self.usable_age(saved.time).is_ok()).then_some(saved.earlier)
    }

    /// Reads the file. Returns `None` if it does not exist or cannot be used.
    pub(super) fn load(&self) -> Option<RestoredSnapshot> {
        match self.read() {
            Ok(restored) => Some(restored),
            Err(SnapshotError::Unreadable(error)) if error.kind() == io::ErrorKind::NotFound => {
                info!(path = %self.path.display(), "No snapshot exists yet");
                None
            }
            Err(why) => {
                warn!(path = %self.path.display(), %why, "Ignored the snapshot");
                None
            }
        }
    }

    fn read(&self) -> Result<RestoredSnapshot, SnapshotError> {
        let text = std::fs::read(&self.path)?;
        let head: SnapshotHead = serde_json::from_slice(&text)?;
        if head.form != FORMAT || head.program != VERSION {
            return Err(SnapshotError::Version(head.program, head.form));
        }
        let content: SnapshotContent<Vec<(ObjectKey, Object)>> = serde_json::from_slice(&text)?;
        if content.of != self.scope {
            return Err(SnapshotError::OtherScope(Box::new(content.of)));
        }
        let age = self.usable_age(content.time)?;
        let mut store = Store::default();
        for (watch, objects) in content.objects {
            store.reset(watch, None, objects.into_iter().collect());
        }
        Ok(RestoredSnapshot { store, age })
    }

    /// Returns the age of a snapshot with a time in Unix seconds. Fails if the age is not allowed.
    fn usable_age(&self, time: u64) -> Result<Duration, SnapshotError> {
        // The clock of a node is corrected by less than this.
        const SLACK: u64 = 60;
        let now = u64::from(unix_seconds());
        if time > now + SLACK {
            return Err(SnapshotError::Future(time - now));
        }
        let age = now.saturating_sub(time);
        if age > self.max_age.as_secs() {
            return Err(SnapshotError::TooOld(age));
        }
        Ok(Duration::from_secs(age))
    }

    /// Notes that the store has changed since the last write.
    pub(super) fn note_change(&mut self) {
        self.has_changed = true;
    }

    /// Saves what was confirmed `age` ago, if a write is due. Returns when to call again.
    pub(super) fn save_if_due(&mut self, saved: Saved<'_>, age: Duration) -> Duration {
        let now = Instant::now();
        let is_writing = self.writer.as_ref().is_some_and(|w| !w.is_finished());
        match self.due() {
            Some(due) if now < due => return due - now,
            _ if is_writing => return INTERVAL,
            _ => {}
        }
        self.last_write = Some(now);
        self.has_changed = false;
        self.save(saved, age);
        INTERVAL
    }

    /// Returns when the next write is due, or `None` for the first one, which is due at once.
    fn due(&self) -> Option<Instant> {
        let refresh = (self.max_age / REFRESHES).max(INTERVAL);
        let duration = Duration::from_millis(self.status.duration.load(Relaxed));
        let interval = INTERVAL.max(duration * INTERVAL_FACTOR);
        self.last_write.map(|last| {
            if self.has_changed {
                last + interval
            } else {
                last + refresh.max(interval)
            }
        })
    }

    /// Writes what was confirmed `age` ago, on a separate thread.
    fn save(&mut self, saved: Saved<'_>, age: Duration) {
        let (store, table) = (saved.store.clone(), saved.table.clone());
        let links = saved.links.clone();
        let (path, scope) = (self.path.clone(), self.scope.clone());
        let status = self.status.clone();
        let time = u64::from(unix_seconds()).saturating_sub(age.as_secs());
        let started = std::time::Instant::now();
        let work = move || {
            let earlier = Earlier::of(&table, links);
            status.note(&path, write(&path, scope, time, &store, earlier));
            let duration = started.elapsed().as_millis();
            let duration = u64::try_from(duration).unwrap_or(0);
            status.duration.store(duration, Relaxed);
        };
        let thread = thread::Builder::new().name("snapshot".to_owned());
        match thread.spawn(work) {
            Ok(writer) => self.writer = Some(writer),
            Err(error) => self.status.note(&self.path, Err(error)),
        }
    }
}

// === impl WriteStatus ===

impl WriteStatus {
    /// Notes the result of a write. Counts failures and logs the first of several.
    fn note(&self, path: &Path, result: io::Result<()>) {
        match result {
            Ok(()) => self.is_failing.store(false, Relaxed),
            Err(error) => {
                self.failures.note();
                if !self.is_failing.swap(true, Relaxed) {
                    let detail = format!("{}: {error}", path.display());
                    log_problem(&Problem::new(ProblemKind::SnapshotFailed, detail));
                }
            }
        }
    }
}

/// Writes the content to a temporary file and renames it.
fn write(
    path: &Path,
    of: SnapshotScope,
    time: u64,
    store: &Store,
    earlier: Earlier,
) -> io::Result<()> {
    let list = |watch| -> (Watch, Vec<(&ObjectKey, &Object)>) {
        (watch, store.objects(watch).iter().collect())
    };
    let needed = Watch::ALL.into_iter().filter(|watch| watch.is_needed());
    let content = SnapshotContent {
        form: FORMAT,
        program: VERSION.to_owned(),
        of,
        time,
        objects: needed.map(list).collect(),
        earlier,
    };
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let mut file = BufWriter::new(File::create(&temporary)?);
    serde_json::to_writer(&mut file, &content)?;
    file.flush()?;
    file.get_ref().sync_all()?;
    std::fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests;
