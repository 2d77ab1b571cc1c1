//! YAML or JSON on disk: what `kubectl get svc,endpointslices -A -o yaml` prints, in one or several documents.
//!
//! The files of `--file` are one source: merged, and reloaded whole when one of them changes and two reads a moment
//! apart agree, so that a half-written file is never taken. A broken file, or one that says nothing, keeps the last good
//! table; an empty `List`, which `kubectl` prints of an empty cluster, says that there is nothing. Files that were read and are held (`--shrink-guard`) are read once more when [`Feeds`] says so.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::mpsc::error::SendError;
use tracing::{info, warn};

use super::{Feed, Feeds, Update, Updates};
use crate::log::sentence;
use crate::mirror::{Kind, KubeObject, ObjectKey, ObjectRef, Watch, parse};
use crate::table::inputs::Objects;

/// When files are looked at.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Between two looks at the files' metadata.
    pub poll: Duration,
    /// Between the two reads that must agree.
    pub settle: Duration,
}

/// How deep YAML may be nested, which takes some kilobytes of stack for each level. Kubernetes objects reach a dozen.
const DEEPEST: usize = 64;
/// How many nodes aliases may add to what a YAML text says itself: those of a thousand Services.
const EVENTS_BY_ALIASES: usize = 100_000;
/// How many octets of text aliases may add.
const OCTETS_BY_ALIASES: usize = 16 << 20;
/// How many lists may be within each other: a `List` holds a `ServiceList`, if anybody ever wrote that.
const LISTS: usize = 4;

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

/// What the files hold, ready to be sent: a complete list for every feed.
pub type Lists = BTreeMap<Watch, Objects>;

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
}

/// Parses the texts of files, named by their paths.
///
/// # Errors
///
/// If a text is no YAML or JSON, holds nothing of use, or repeats an object.
pub fn parse_texts(texts: &[(&Path, String)]) -> Result<Lists, FileError> {
    let mut lists: Lists = Watch::ALL
        .into_iter()
        .map(|watch| (watch, Objects::new()))
        .collect();
    let mut seen: BTreeMap<ObjectRef, &Path> = BTreeMap::new();
    for (path, text) in texts {
        let mut count = 0;
        let mut is_list = false;
        let mut twice = None;
        let mut take = |kind: Kind, object: &KubeObject<'_>| {
            count += 1;
            let place = || format!("object {count} of {}", path.display());
            let key = object.key().unwrap_or_else(|| ObjectKey::new("", &place()));
            let name = ObjectRef {
                kind,
                key: key.clone(),
            };
            if let Some(first) = seen.insert(name.clone(), path) {
                twice.get_or_insert((name, first));
            } else if let Some((watch, object)) = parse::found(kind, object) {
                lists.entry(watch).or_default().insert(key, object);
            }
        };
        for (index, document) in documents(path, text)?.iter().enumerate() {
            let visited = visit_objects(document, "", LISTS, &mut |kind, _, object| {
                let kind = match (object.api_version(), kind) {
                    (Some("v1") | None, "Service") => Kind::Service,
                    (Some("discovery.k8s.io/v1") | None, "EndpointSlice") => Kind::EndpointSlice,
                    _ => return,
                };
                take(kind, object);
            });
            is_list |= visited.map_err(|reason| FileError::list(path, index, reason))?;
        }
        if let Some((object, first)) = twice {
            let (first, second) = (first.to_path_buf(), path.to_path_buf());
            return Err(FileError::Twice {
                object,
                first,
                second,
            });
        }
        if count == 0 && !is_list {
            return Err(FileError::Empty(path.to_path_buf()));
        }
    }
    Ok(lists)
}

/// Reads every object of files, of any kind: its kind, and the object as JSON.
///
/// # Errors
///
/// If a file cannot be read, or is no YAML or JSON.
pub fn every_object(paths: &[PathBuf]) -> Result<Vec<(String, String)>, FileError> {
    let mut objects = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| FileError::Read(path.clone(), error))?;
        for (index, document) in documents(path, &text)?.iter().enumerate() {
            let visited = visit_objects(document, "", LISTS, &mut |kind, json, _| {
                objects.push((kind.to_owned(), json.to_owned()));
            });
            visited.map_err(|reason| FileError::list(path, index, reason))?;
        }
    }
    Ok(objects)
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
        })
    }

    /// Sends what the files hold, then watches them for changes, for ever.
    pub async fn run(&mut self, feeds: Feeds, updates: Updates) {
        let Self {
            paths,
            stamps,
            timing,
            first,
        } = self;
        let mut is_good = true;
        // To be read even if nothing changed: what was read last is held (`--shrink-guard`) and to be confirmed, could not
        // be read, or went to somebody who panicked.
        let mut must_read = first.is_none();
        if let Some(first) = first.take()
            && send(first, &feeds, &updates).await.is_err()
        {
            return;
        }
        loop {
            tokio::time::sleep(timing.poll).await;
            let now = look(paths);
            must_read |= feeds.take_due_relists();
            if now == *stamps && !must_read {
                // Good files that did not change are as good as read again.
                if is_good {
                    feeds.all().iter().for_each(|feed| feeds.alive(feed));
                }
                continue;
            }
            let Some(read) = settled(paths, timing.settle).await else {
                continue; // still being written: looked at again at the next poll
            };
            must_read = matches!(read, Err(FileError::Read(..)));
            is_good = read.is_ok();
            match read {
                Ok(lists) => {
                    info!(files = paths.len(), "Reloaded files");
                    if send(lists, &feeds, &updates).await.is_err() {
                        return;
                    }
                }
                Err(error) => {
                    let problem = sentence(&error);
                    let mut is_news = now != *stamps;
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
            *stamps = now;
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

fn look(paths: &[PathBuf]) -> Vec<Stamp> {
    use std::os::unix::fs::MetadataExt;
    let stamp = |path: &PathBuf| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
    };
    paths.iter().map(stamp).collect()
}

/// Splits a text into documents: JSON if it begins like that, which is read several times as fast, else YAML.
fn documents<'t>(path: &Path, text: &'t str) -> Result<Vec<Cow<'t, str>>, FileError> {
    let syntax = |line, column, reason| FileError::Syntax {
        path: path.to_path_buf(),
        line,
        column,
        reason,
    };
    if text.trim_start().starts_with('{') {
        let values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
        let texts = values.map(|value| value.map(|value| Cow::Borrowed(value.get())));
        // What begins like JSON may be YAML in flow style all the same.
        if let Ok(documents) = texts.collect() {
            return Ok(documents);
        }
    }
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options(text))
        .map_err(|error| {
            let (line, column) = error.location().map_or((0, 0), |l| (l.line(), l.column()));
            syntax(line, column, reason(&error))
        })?;
    let texts = documents
        .iter()
        .map(|document| Cow::Owned(document.to_string()));
    Ok(texts.collect())
}

/// Limits what is made of a YAML text. Files may be large, but what comes of one is to follow its length: aliases would
/// make gigabytes of a page, and brackets within brackets take the stack.
fn options(text: &str) -> serde_saphyr::Options {
    // The library reports two octets, `a:`, as four events at most.
    let most_events = EVENTS_BY_ALIASES.saturating_add(text.len().saturating_mul(4));
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEEPEST,
            max_events: most_events,
            max_nodes: most_events,
            max_total_scalar_bytes: OCTETS_BY_ALIASES.saturating_add(text.len()),
            max_documents: usize::MAX,
            max_anchors: usize::MAX,
            max_aliases: usize::MAX,
            enforce_alias_anchor_ratio: false,
        },
    }
}

/// Returns what the parser says, without the place, which is said once already.
fn reason(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    match text.split_once(" at line ") {
        Some((reason, place)) if place.starts_with(|c: char| c.is_ascii_digit()) => {
            reason.to_owned()
        }
        _ => text,
    }
}

/// Takes lists apart, and visits every object with its kind and its JSON. Items of a typed list carry no kind of their
/// own: `kind` is what their list says. Fails, in words, if a list cannot be taken apart; `lists` may be within each
/// other. Tells whether there is a list that could hold objects of use and holds nothing.
fn visit_objects(
    json: &str,
    kind: &str,
    lists: usize,
    visit: &mut impl FnMut(&str, &str, &KubeObject<'_>),
) -> Result<bool, String> {
    #[derive(Deserialize)]
    struct List<'j> {
        #[serde(borrow)]
        items: Option<Vec<&'j RawValue>>,
    }
    let object = KubeObject::read(json);
    let kind = object.kind().unwrap_or(kind);
    let Some(of_items) = kind.strip_suffix("List") else {
        visit(kind, json, &object);
        return Ok(false);
    };
    let inner = lists
        .checked_sub(1)
        .ok_or_else(|| format!("more than {LISTS} lists are within each other"))?;
    let is_ours = ["", "Service", "EndpointSlice"].contains(&of_items);
    let list: List<'_> = match serde_json::from_str(json) {
        Ok(list) => list,
        // Something else may be called like a list.
        Err(_) if !is_ours => return Ok(false),
        Err(error) => return Err(format!("a {kind} cannot be read: {error}")),
    };
    let items = list.items.unwrap_or_default();
    let mut is_empty = is_ours && items.is_empty();
    for item in items {
        is_empty |= visit_objects(item.get(), of_items, inner, visit)?;
    }
    Ok(is_empty)
}

#[cfg(test)]
mod tests;
