//! `--snapshot`: what the table is made from, saved in a file, so that a restarted process answers at once while the API
//! server is away.
//!
//! What is saved are the inputs after their reduction, not the table: it is built by the flags of whoever reads it. The
//! file is JSON, written aside, synced and renamed, by a thread of its own; it is whole or not there. To be of use it
//! must be of the same program, place and namespaces, and not too old: its time is when its content was last known to be
//! true, not when it last changed. A file that cannot be read or written is one line in the log, and never more.

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

use crate::VERSION;
use crate::clock::unix_seconds;
use crate::mirror::{ClusterName, Namespace, Object, ObjectKey, Watch};
use crate::table::Inputs;

/// The form of the file; another one is not read.
const FORM: u32 = 3;
/// The least time between two writes: what is lost with it is a few seconds of changes.
const INTERVAL: Duration = Duration::from_secs(5);
/// A write takes at most this share of the time between two: copying and writing a large table is work.
const SHARE: u32 = 20;
/// A file is written anew, changed or not, so many times before it is too old.
const REFRESHES: u32 = 4;

/// What a snapshot is of. Zones, and rules about names and members, do not matter: they are applied later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotOf {
    /// Where the API server is.
    pub source: String,
    /// `--cluster-name`.
    pub cluster_name: ClusterName,
    /// `--namespace`; none means all.
    pub namespaces: BTreeSet<Namespace>,
}

/// Reads the snapshot, and writes it now and then.
#[derive(Debug)]
pub struct Snapshots {
    path: PathBuf,
    max_age: Duration,
    of: SnapshotOf,
    has_changed: bool,
    last: Option<Instant>,
    outcome: Arc<Outcome>,
    writing: Option<thread::JoinHandle<()>>,
}

/// What became of writes.
#[derive(Debug, Default)]
struct Outcome {
    failures: Arc<AtomicU64>,
    /// The last one failed, which was told.
    fails: AtomicBool,
    /// How long the last one took, in milliseconds.
    took: AtomicU64,
}

/// What a snapshot holds.
#[derive(Debug)]
pub(super) struct Restored {
    /// The inputs.
    pub(super) inputs: Inputs,
    /// How long ago they were known to be true.
    pub(super) age: Duration,
}

/// What comes first in the file, and decides whether the rest can be read.
#[derive(Deserialize)]
struct Head {
    form: u32,
    program: String,
}

/// The file.
#[derive(Serialize, Deserialize)]
struct Content<Objects> {
    form: u32,
    program: String,
    of: SnapshotOf,
    /// When the objects were last known to be so, in Unix seconds.
    time: u64,
    objects: Vec<(Watch, Objects)>,
}

/// Why a snapshot is of no use.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    #[error("it makes no sense: {0}")]
    Senseless(#[from] serde_json::Error),
    #[error("it was written by version {0} in form {1}, and this is {version} with form {form}", version = VERSION, form = FORM)]
    Version(String, u32),
    #[error("it is of {} in cluster '{}', namespaces {:?}", .0.source, .0.cluster_name, .0.namespaces)]
    Other(Box<SnapshotOf>),
    #[error("it is {0} s old, which is more than --snapshot-max-age")]
    Old(u64),
    #[error("it is from the future, by {0} s")]
    Future(u64),
}

// === impl Snapshots ===

impl Snapshots {
    /// Prepares to read and write a file.
    pub fn new(path: PathBuf, max_age: Duration, of: SnapshotOf) -> Self {
        Self {
            path,
            max_age,
            of,
            has_changed: false,
            last: None,
            outcome: Arc::default(),
            writing: None,
        }
    }

    /// Returns the count of writes that failed.
    pub fn failures(&self) -> Arc<AtomicU64> {
        self.outcome.failures.clone()
    }

    /// Reads the file, if it is there and of use.
    pub(super) fn load(&self) -> Option<Restored> {
        match self.read() {
            Ok(restored) => Some(restored),
            Err(Unusable::Unreadable(error)) if error.kind() == io::ErrorKind::NotFound => {
                info!(path = %self.path.display(), "There is no snapshot yet");
                None
            }
            Err(why) => {
                warn!(path = %self.path.display(), %why, "Ignored the snapshot");
                None
            }
        }
    }

    fn read(&self) -> Result<Restored, Unusable> {
        let text = std::fs::read(&self.path)?;
        let head: Head = serde_json::from_slice(&text)?;
        if head.form != FORM || head.program != VERSION {
            return Err(Unusable::Version(head.program, head.form));
        }
        let content: Content<Vec<(ObjectKey, Object)>> = serde_json::from_slice(&text)?;
        if content.of != self.of {
            return Err(Unusable::Other(Box::new(content.of)));
        }
        let age = self.usable_age(content.time)?;
        let mut inputs = Inputs::default();
        for (watch, objects) in content.objects {
            inputs.reset(watch, None, objects.into_iter().collect());
        }
        Ok(Restored { inputs, age })
    }

    /// Returns how long ago `time`, in Unix seconds, was, if a snapshot of then is of use.
    fn usable_age(&self, time: u64) -> Result<Duration, Unusable> {
        // Clocks of one machine differ by less than that.
        const SLACK: u64 = 60;
        let now = u64::from(unix_seconds());
        if time > now + SLACK {
            return Err(Unusable::Future(time - now));
        }
        let age = now.saturating_sub(time);
        if age > self.max_age.as_secs() {
            return Err(Unusable::Old(age));
        }
        Ok(Duration::from_secs(age))
    }

    /// Notes that what is saved differs from what there is.
    pub(super) fn note_change(&mut self) {
        self.has_changed = true;
    }

    /// Saves inputs that were true `age` ago, if it is time to; returns when to ask again.
    pub(super) fn save_if_due(&mut self, inputs: &Inputs, age: Duration) -> Duration {
        let now = Instant::now();
        let is_writing = self.writing.as_ref().is_some_and(|w| !w.is_finished());
        match self.due() {
            Some(due) if now < due => return due - now,
            _ if is_writing => return INTERVAL,
            _ => {}
        }
        self.last = Some(now);
        self.has_changed = false;
        self.save(inputs.clone(), age);
        INTERVAL
    }

    /// Returns when the next write is due; `None` if there was none yet.
    fn due(&self) -> Option<Instant> {
        let refresh = (self.max_age / REFRESHES).max(INTERVAL);
        let took = Duration::from_millis(self.outcome.took.load(Relaxed));
        let interval = INTERVAL.max(took * SHARE);
        self.last.map(|last| match self.has_changed {
            true => last + interval,
            false => last + refresh.max(interval),
        })
    }

    /// Writes inputs that were true `age` ago, on a thread of its own.
    fn save(&mut self, inputs: Inputs, age: Duration) {
        let (path, of) = (self.path.clone(), self.of.clone());
        let outcome = self.outcome.clone();
        let time = u64::from(unix_seconds()).saturating_sub(age.as_secs());
        let began = std::time::Instant::now();
        let work = move || {
            outcome.note(&path, write(&path, of, time, &inputs));
            let took = began.elapsed().as_millis();
            outcome.took.store(took.try_into().unwrap_or(0), Relaxed);
        };
        let thread = thread::Builder::new().name("snapshot".to_owned());
        match thread.spawn(work) {
            Ok(writing) => self.writing = Some(writing),
            Err(error) => self.outcome.note(&self.path, Err(error)),
        }
    }
}

// === impl Outcome ===

impl Outcome {
    /// Counts a failure, and tells the first of several.
    fn note(&self, path: &Path, outcome: io::Result<()>) {
        match outcome {
            Ok(()) => self.fails.store(false, Relaxed),
            Err(error) => {
                self.failures.fetch_add(1, Relaxed);
                if !self.fails.swap(true, Relaxed) {
                    warn!(path = %path.display(), %error, "The snapshot cannot be written: trying again");
                }
            }
        }
    }
}

/// Writes aside, and puts in place what is whole.
fn write(path: &Path, of: SnapshotOf, time: u64, inputs: &Inputs) -> io::Result<()> {
    let list = |watch| -> (Watch, Vec<(&ObjectKey, &Object)>) {
        (watch, inputs.objects(watch).iter().collect())
    };
    let content = Content {
        form: FORM,
        program: VERSION.to_owned(),
        of,
        time,
        objects: Watch::ALL.into_iter().map(list).collect(),
    };
    let mut aside = path.as_os_str().to_owned();
    aside.push(".new");
    let mut file = BufWriter::new(File::create(&aside)?);
    serde_json::to_writer(&mut file, &content)?;
    file.flush()?;
    file.get_ref().sync_all()?;
    std::fs::rename(&aside, path)
}

#[cfg(test)]
mod tests;
