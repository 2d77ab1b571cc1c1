//! The objects in texts of YAML or JSON: `Service`s and `EndpointSlice`s, alone or in lists.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::FileError;
use crate::mirror::{Kind, KubeObject, ObjectKey, ObjectRef, Watch, parse};
use crate::table::inputs::Objects;

/// How deep YAML may be nested, which takes some kilobytes of stack for each level. Kubernetes objects reach a dozen.
const DEEPEST: usize = 64;
/// How many nodes aliases may add to what a YAML text says itself: those of a thousand Services.
const EVENTS_BY_ALIASES: usize = 100_000;
/// How many octets of text aliases may add.
const OCTETS_BY_ALIASES: usize = 16 << 20;
/// How many lists may be within each other: a `List` holds a `ServiceList`, if anybody ever wrote that.
const LISTS: usize = 4;

/// What the files hold, ready to be sent: a complete list for every feed.
pub type Lists = BTreeMap<Watch, Objects>;

/// The objects of the texts that were read so far.
struct Merged<'p> {
    lists: Lists,
    /// The file that each object was found in.
    seen: BTreeMap<ObjectRef, &'p Path>,
}

/// Parses the texts of files, named by their paths.
///
/// # Errors
///
/// If a text is no YAML or JSON, holds nothing of use, or repeats an object.
pub fn parse_texts(texts: &[(&Path, String)]) -> Result<Lists, FileError> {
    let lists = Watch::ALL.into_iter().map(|watch| (watch, Objects::new()));
    let mut merged = Merged {
        lists: lists.collect(),
        seen: BTreeMap::new(),
    };
    for (path, text) in texts {
        merged.add(path, text)?;
    }
    Ok(merged.lists)
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

// === impl Merged ===

impl<'p> Merged<'p> {
    /// Adds the objects of a text.
    fn add(&mut self, path: &'p Path, text: &str) -> Result<(), FileError> {
        let (mut count, mut is_list, mut twice) = (0, false, None);
        for (index, document) in documents(path, text)?.iter().enumerate() {
            let visited = visit_objects(document, "", LISTS, &mut |kind, _, object| {
                let Some(kind) = kind_of(kind, object) else {
                    return;
                };
                count += 1;
                let key = object.key().unwrap_or_else(|| {
                    let place = format!("object {count} of {}", path.display());
                    ObjectKey::new("", &place)
                });
                if let Err(repeated) = self.take(path, kind, key, object) {
                    twice.get_or_insert(repeated);
                }
            });
            is_list |= visited.map_err(|reason| FileError::list(path, index, reason))?;
        }
        match twice {
            Some(repeated) => Err(repeated),
            None if count == 0 && !is_list => Err(FileError::Empty(path.to_path_buf())),
            None => Ok(()),
        }
    }

    /// Adds an object, unless it was seen before.
    fn take(
        &mut self,
        path: &'p Path,
        kind: Kind,
        key: ObjectKey,
        object: &KubeObject<'_>,
    ) -> Result<(), FileError> {
        let name = ObjectRef {
            kind,
            key: key.clone(),
        };
        if let Some(first) = self.seen.insert(name.clone(), path) {
            return Err(FileError::Twice {
                object: name,
                first: first.to_path_buf(),
                second: path.to_path_buf(),
            });
        }
        if let Some((watch, object)) = parse::found(kind, object) {
            self.lists.entry(watch).or_default().insert(key, object);
        }
        Ok(())
    }
}

/// Returns the kind of an object, if it is of use.
fn kind_of(kind: &str, object: &KubeObject<'_>) -> Option<Kind> {
    match (object.api_version(), kind) {
        (Some("v1") | None, "Service") => Some(Kind::Service),
        (Some("discovery.k8s.io/v1") | None, "EndpointSlice") => Some(Kind::EndpointSlice),
        _ => None,
    }
}

// === Documents and lists ===

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

/// A list of objects.
#[derive(Deserialize)]
struct List<'j> {
    #[serde(borrow)]
    items: Option<Vec<&'j RawValue>>,
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
    let items = match serde_json::from_str(json) {
        Ok(List { items }) => items.unwrap_or_default(),
        // Something else may be called like a list.
        Err(_) if !is_ours => return Ok(false),
        Err(error) => return Err(format!("a {kind} cannot be read: {error}")),
    };
    let mut is_empty = is_ours && items.is_empty();
    for item in items {
        is_empty |= visit_objects(item.get(), of_items, inner, visit)?;
    }
    Ok(is_empty)
}

#[cfg(test)]
mod tests;
