//! The source that reads YAML or JSON files: the output of `kubectl get svc,endpointslices -A -o yaml`, in one or more
//! documents.
//!
//! The files of `--file` are merged into one source. If one of them changes, all are reloaded. They are read twice with
//! a short pause, and used if both reads are equal, so a half-written file is never used. If a file is invalid or
//! contains no relevant object, the last table stays in use. An empty `List`, which `kubectl` prints for an empty
//! cluster, is valid and empties the table.

mod objects;

use std::fs::{File, metadata};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::anyhow;
use tokio::sync::oneshot;
use tracing::info;

pub use objects::{Lists, parse_texts, reason};

use super::{Feed, Feeds, Update, Updates, log_problem};
use crate::model::{Kind, Problem, ProblemKind};
use crate::table::links::LinkList;
use crate::table::store::Objects;

/// The pause between the two reads that must be equal. Programs that write a file do not pause for so long.
const SETTLE: Duration = Duration::from_millis(100);

/// The interval between checks of the files' metadata.
const POLL: Duration = Duration::from_secs(1);

/// Maximum size of the objects of a file in octets: 100,000 objects of 2.5 KiB.
const MAX_OBJECTS: u64 = 256 << 20;
/// Maximum size of another file in octets: that of a ConfigMap or a Secret.
pub const MAX_MOUNTED: u64 = 1 << 20;

/// The files of `--file`, read once successfully.
pub struct Files {
    paths: Vec<PathBuf>,
    /// The stamps of the files before the last read. None: they must be read again, also without a change.
    stamps: Vec<Stamp>,
    /// The content of the first read, until it is sent.
    first: Option<Lists>,
    /// Whether the last read was valid. If so, each poll without a change counts as activity.
    is_valid: bool,
}

// === impl Files ===

impl Files {
    /// Reads files for the first time.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, is not YAML or JSON, contains no relevant object, or repeats an object.
    pub fn open(paths: Vec<PathBuf>) -> anyhow::Result<Self> {
        let stamps = read_stamps(&paths);
        let first = Some(parse_texts(&read_all(&paths)?)?);
        Ok(Self {
            paths,
            stamps,
            first,
            is_valid: true,
        })
    }

    /// Sends the objects of the files, and again after each change, until the receiver of the updates is closed.
    pub async fn run(&mut self, feeds: Feeds, updates: Updates) {
        let follow = async {
            match self.first.take() {
                Some(first) => send(first, &feeds, &updates),
                None => self.stamps.clear(), // the update loop panicked
            }
            loop {
                tokio::time::sleep(POLL).await;
                self.poll(&feeds, &updates).await;
            }
        };
        tokio::select! {
            () = follow => {}
            () = updates.closed() => {}
        }
    }

    /// Checks the files. If they changed or must be read again, sends their objects.
    async fn poll(&mut self, feeds: &Feeds, updates: &Updates) {
        let now = read_stamps(&self.paths);
        if now == self.stamps {
            feeds
                .all()
                .into_iter()
                .filter(|_| self.is_valid)
                .for_each(|feed| feeds.note_activity(&feed));
            return;
        }
        let Some(read) = read_settled(&self.paths).await else {
            return; // the next poll reads again
        };
        let has_changed = !self.stamps.is_empty();
        // What cannot be read, such as with too many open files, may be readable later without a change.
        self.stamps = if read.is_ok() { now } else { Vec::new() };
        let parsed = read.and_then(|texts| parse_texts(&texts));
        self.is_valid = parsed.is_ok();
        match parsed {
            Ok(lists) => {
                info!(files = self.paths.len(), "Reloaded files");
                send(lists, feeds, updates)
            }
            Err(error) => note_failure(&error, has_changed, feeds),
        }
    }
}

/// The texts of files.
type Texts<'p> = Vec<(&'p Path, String)>;

/// Reads files twice, with a pause. Returns `None` if the reads differ.
async fn read_settled(paths: &[PathBuf]) -> Option<anyhow::Result<Texts<'_>>> {
    let first = read_all(paths);
    tokio::time::sleep(SETTLE).await;
    match (first, read_all(paths)) {
        (Ok(first), Ok(second)) if first == second => Some(Ok(second)),
        (Err(_), Err(error)) => Some(Err(error)),
        _ => None,
    }
}

/// Reads the texts of files.
fn read_all(paths: &[PathBuf]) -> anyhow::Result<Texts<'_>> {
    let texts = paths.iter().map(|path| Ok((&**path, read_objects(path)?)));
    texts.collect()
}

/// Reports files that cannot be used: in the log once for each change and failure, and in `/readyz` until they are valid.
fn note_failure(error: &anyhow::Error, has_changed: bool, feeds: &Feeds) {
    let failure = error.to_string();
    let noted = feeds
        .all()
        .into_iter()
        .map(|feed| feeds.note_failure(&feed, &failure));
    // One line for the files, not one for each feed.
    if noted.flatten().count() > 0 || has_changed {
        log_problem(&Problem::new(ProblemKind::SourceUnavailable, failure));
    }
}

/// Sends complete lists as one update. Each feed gets the objects of its watch and, if it has one, of its namespace.
fn send(mut lists: Lists, feeds: &Feeds, updates: &Updates) {
    let of_feed = |feed: Feed| {
        let objects = match &feed.namespace {
            None => lists.remove(&feed.kind).unwrap_or_default(),
            Some(namespace) => lists
                .get(&feed.kind)
                .into_iter()
                .flatten()
                .filter(|(key, _)| *key.namespace == *namespace.as_str())
                .map(|(key, object)| (key.clone(), object.clone()))
                .collect(),
        };
        (feed, objects)
    };
    let lists: Vec<(Feed, Objects)> = feeds.all().into_iter().map(of_feed).collect();
    let mut links = lists.iter().filter(|(feed, _)| feed.kind == Kind::Link);
    let has_links = links.any(|(_, links)| !links.is_empty());
    // A person writes files, so they are not doubted.
    updates.send(Update::Reset {
        lists,
        is_certain: true,
        outcome: oneshot::channel().0,
    });
    for feed in feeds.all() {
        feeds.note_listed(&feed, (!has_links).then_some(LinkList::NotGiven));
    }
}

/// The metadata that shows a change of a file: its inode, which changes if the file is replaced, and when its text or its permissions
/// last changed. `None`: the metadata cannot be read.
type Stamp = Option<(u64, i64, i64)>;

/// Reads the metadata of files.
fn read_stamps(paths: &[PathBuf]) -> Vec<Stamp> {
    use std::os::unix::fs::MetadataExt;
    let stamp = |path: &PathBuf| {
        let metadata = metadata(path).ok()?;
        Some((metadata.ino(), metadata.ctime(), metadata.ctime_nsec()))
    };
    paths.iter().map(stamp).collect()
}

// === Reading ===

/// The path that means standard input.
const STANDARD_INPUT: &str = "-";

/// Reads the objects of a file, or of standard input. The latter can be read only once, so its text is kept.
fn read_objects(path: &Path) -> anyhow::Result<String> {
    static TEXT: OnceLock<String> = OnceLock::new();
    let text = match TEXT.get() {
        _ if path.as_os_str() != STANDARD_INPUT => read_text(path, MAX_OBJECTS),
        Some(text) => Ok(text.clone()),
        None => io::read_to_string(io::stdin()).map(|text| TEXT.get_or_init(|| text).clone()),
    };
    text.map_err(|error| {
        let remedy = match error.kind() {
            ErrorKind::IsADirectory => "; name each of its files with --file",
            ErrorKind::Unsupported => "; --file - reads standard input",
            _ => "",
        };
        anyhow!("cannot read {}: {error}{remedy}", path.display())
    })
}

/// Reads a text as [`read_regular`].
///
/// # Errors
///
/// As [`read_regular`], and if it is no UTF-8.
pub fn read_text(path: &Path, max: u64) -> io::Result<String> {
    String::from_utf8(read_regular(path, max)?).map_err(io::Error::other)
}

/// Reads a regular file of at most `max` octets. Another one may have no end, or nobody who writes it.
///
/// # Errors
///
/// If it is not such a file, or cannot be read.
pub fn read_regular(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let metadata = metadata(path)?;
    // To read a directory is an error of the system.
    if metadata.is_dir() || metadata.is_file() && metadata.len() <= max {
        let mut contents = Vec::new();
        // A file that grows meanwhile is read again.
        File::open(path)?.take(max).read_to_end(&mut contents)?;
        return Ok(contents);
    }
    let why = format!("it is not a regular file of at most {} MiB", max >> 20);
    Err(io::Error::new(ErrorKind::Unsupported, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a change, it may be readable later: the process may have had too many open files.
    #[tokio::test(start_paused = true)]
    async fn file_that_cannot_be_read_is_read_again() {
        let mut files = Files {
            paths: vec!["/".into()], // a directory
            stamps: vec![None],
            first: None,
            is_valid: true,
        };
        files.poll(&Feeds::new(&[]), &Updates::default()).await;
        assert!(!files.is_valid && files.stamps.is_empty());
    }
}
