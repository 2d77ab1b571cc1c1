//! The parser of YAML and JSON texts: it returns their `Service`s, `EndpointSlice`s and `Link`s, which may
//! be in lists.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{anyhow, bail};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use serde_saphyr::{Error, UserMessageFormatter};

use crate::model::{Kind, KubeObject, LINK_VERSIONS, ObjectKey, ObjectRef, parse};
use crate::table::store::Objects;

/// The maximum depth of YAML. Each level takes some kilobytes of stack. Kubernetes objects have about a dozen levels.
const MAX_DEPTH: usize = 64;
/// The maximum number of events that aliases may add to those of the text itself: as many as in a thousand Services.
const MAX_ALIAS_EVENTS: usize = 100_000;
/// The maximum number of octets that aliases may add.
const MAX_ALIAS_OCTETS: usize = 16 << 20;
/// The maximum depth of nested lists, such as a `ServiceList` in a `List`.
const MAX_NESTED_LISTS: usize = 4;

/// The objects of the files: a complete list of each kind.
pub type Lists = BTreeMap<Kind, Objects>;

/// The merged objects of several texts.
struct MergedObjects<'p> {
    lists: Lists,
    /// The file of each object.
    seen: BTreeMap<ObjectRef, &'p Path>,
    /// Whether the current text has a relevant object or an empty list of them.
    is_relevant: bool,
}

/// A document of a file.
struct FileDocument<'p> {
    path: &'p Path,
    /// Its place in the file, for errors.
    place: String,
}

/// A list of objects.
#[derive(Deserialize)]
struct ObjectList<'j> {
    #[serde(borrow)]
    items: Option<Vec<&'j RawValue>>,
}

/// Parses the texts of files. The paths are for error messages.
///
/// # Errors
///
/// If a text is not YAML or JSON, contains no relevant object, or repeats an object.
pub fn parse_texts(texts: &[(&Path, String)]) -> anyhow::Result<Lists> {
    let mut merged = MergedObjects {
        lists: Kind::ALL.map(|kind| (kind, Objects::new())).into(),
        seen: BTreeMap::new(),
        is_relevant: false,
    };
    for (path, text) in texts {
        merged.is_relevant = false;
        for (json, number) in documents(path, text)?.iter().zip(1..) {
            let place = format!("{}: document {number}", path.display());
            merged.add(&FileDocument { path, place }, json, "", MAX_NESTED_LISTS)?;
        }
        if !merged.is_relevant {
            bail!("{}: contains no Service or EndpointSlice", path.display());
        }
    }
    Ok(merged.lists)
}

// === impl MergedObjects ===

impl<'p> MergedObjects<'p> {
    /// Adds the objects of a document or of a list in it. Items of a typed list have no kind; `kind` is the one from their list. Lists
    /// may be nested up to `lists` deep.
    fn add(
        &mut self,
        document: &FileDocument<'p>,
        json: &str,
        kind: &str,
        lists: usize,
    ) -> anyhow::Result<()> {
        let place = &document.place;
        let object = KubeObject::read(json);
        let of_object = object.type_meta().kind;
        let kind = if of_object.is_empty() {
            kind
        } else {
            &of_object
        };
        let Some(of_items) = kind.strip_suffix("List") else {
            return kind_of(kind, &object)
                .map_or(Ok(()), |kind| self.insert(document.path, kind, &object));
        };
        let Some(inner) = lists.checked_sub(1) else {
            bail!("{place}: lists are nested more than {MAX_NESTED_LISTS} deep");
        };
        let is_relevant = ["", "Service", "EndpointSlice"].contains(&of_items);
        let items = match serde_json::from_str(json) {
            Ok(ObjectList { items }) => items.unwrap_or_default(),
            // A kind may end in `List` without being a list.
            Err(_) if !is_relevant => return Ok(()),
            Err(error) => bail!("{place}: cannot parse a {kind}: {error}"),
        };
        self.is_relevant |= is_relevant && items.is_empty();
        items
            .iter()
            .try_for_each(|item| self.add(document, item.get(), of_items, inner))
    }

    fn insert(
        &mut self,
        path: &'p Path,
        kind: Kind,
        object: &KubeObject<'_>,
    ) -> anyhow::Result<()> {
        self.is_relevant = true;
        let key = object.key().unwrap_or_else(|| {
            let place = format!("object {} of {}", self.seen.len() + 1, path.display());
            ObjectKey::new("", &place)
        });
        let name = ObjectRef {
            kind,
            key: key.clone(),
        };
        if let Some(first) = self.seen.insert(name.clone(), path) {
            let (first, second) = (first.display(), path.display());
            bail!("{name} occurs twice, in {first} and in {second}");
        }
        let objects = self.lists.entry(kind).or_default();
        objects.extend(parse::read(kind, object).map(|object| (key, object)));
        Ok(())
    }
}

/// Returns the kind of an object, if it is read.
fn kind_of(kind: &str, object: &KubeObject<'_>) -> Option<Kind> {
    match (&*object.type_meta().api_version, kind) {
        ("v1" | "", "Service") => Some(Kind::Service),
        ("discovery.k8s.io/v1" | "", "EndpointSlice") => Some(Kind::EndpointSlice),
        (version, "Link") if LINK_VERSIONS.contains(&version) => Some(Kind::Link),
        _ => None,
    }
}

// === Documents and lists ===

/// Splits a text into documents. A text that starts like JSON is parsed as JSON first, which is several times as fast.
fn documents<'t>(path: &Path, text: &'t str) -> anyhow::Result<Vec<Cow<'t, str>>> {
    if text.trim_start().starts_with('{') {
        let texts = serde_json::Deserializer::from_str(text).into_iter();
        let documents = texts.map(|json: serde_json::Result<&RawValue>| Ok(json?.get().into()));
        // A text that starts like JSON may be YAML in flow style.
        if let Ok(documents) = documents.collect::<serde_json::Result<_>>() {
            return Ok(documents);
        }
    }
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options(text))
        .map_err(|error| {
            let (line, column) = error.location().map_or((0, 0), |l| (l.line(), l.column()));
            anyhow!("{}:{line}:{column}: {}", path.display(), reason(&error))
        })?;
    let texts = documents.iter().map(|document| document.to_string().into());
    Ok(texts.collect())
}

/// Returns the limits for parsing a YAML text. Files may be large, but the result must be proportional to the length of
/// the text. Aliases could expand a page to gigabytes, and nested brackets could overflow the stack.
fn options(text: &str) -> serde_saphyr::Options {
    // The library reports at most four events for two octets, such as `a:`.
    let most_events = MAX_ALIAS_EVENTS.saturating_add(text.len().saturating_mul(4));
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_events: most_events,
            max_nodes: most_events,
            max_total_scalar_bytes: MAX_ALIAS_OCTETS.saturating_add(text.len()),
            max_documents: usize::MAX,
            max_anchors: usize::MAX,
            max_aliases: usize::MAX,
            enforce_alias_anchor_ratio: false,
        },
    }
}

/// Returns why a text cannot be read, in the words for users, without the position, which the error has already, and without the numbers
/// of a limit.
pub fn reason(error: &Error) -> String {
    let error = error.without_snippet();
    let text = match error {
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("'{key}' occurs twice"),
        Error::MultipleDocuments { .. } => "a second document begins here".to_owned(),
        _ => error.render_with_formatter(&UserMessageFormatter),
    };
    let parts = text.split(" at line ");
    let mut parts = parts.flat_map(|part| part.split(": limits breached"));
    parts.next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests;
