//! Converts Kubernetes objects to domain types, or to the reason for which they are skipped (rules M1, M7, M9).
//!
//! The sources call [`reduce`] for every object of a watch, and [`select_and_parse`] for every object of a file. One reader
//! for each source of objects parses them. An object that cannot be used becomes [`Object::Skipped`], so that one invalid
//! object never stops a watch. Only the labels and annotations of [`key`](super::key) are read: Linkerd copies even
//! `last-applied-configuration` of the remote object to its mirrors.

use std::sync::Arc;

use super::keys::Kind;
use super::watch::Watch;
use super::{KubeObject, Object, ObjectKey, Problem, ProblemKind, linkerd, local};

/// Reduces an object that `watch` lists or reports to the fields in use. Returns `None` if the object does not matter, such
/// as most Services of a cluster.
pub fn reduce(watch: Watch, object: &KubeObject<'_>) -> Option<(ObjectKey, Object)> {
    let is_selected = watch.selects(object);
    is_selected.then(|| Some((object.key()?, parse_object(watch, object))))?
}

/// Returns the watch that selects an object, and the parsed object. Selectors cannot be evaluated on an object without
/// a name or with a label that is not a string. Such an object is skipped as undecodable, so that it appears in
/// reports.
pub fn select_and_parse(kind: Kind, object: &KubeObject<'_>) -> Option<(Watch, Object)> {
    let Some(detail) = object.problem() else {
        return Watch::for_object(kind, object).map(|watch| (watch, parse_object(watch, object)));
    };
    let watch = Watch::ALL.into_iter().find(|watch| watch.kind() == kind)?;
    Some((
        watch,
        skipped(Problem::new(ProblemKind::UnusableObject, detail)),
    ))
}

/// Parses an object that `watch` selected.
pub fn parse_object(watch: Watch, object: &KubeObject<'_>) -> Object {
    let parsed = match watch {
        Watch::Services if linkerd::is_mirror(object) => {
            linkerd::read_service(object).map(Object::from)
        }
        Watch::Services => local::read_service(object),
        Watch::MirrorSlices => linkerd::read_slice(object).map(Object::Slice),
        Watch::LocalSlices | Watch::ForeignSlices => local::read_slice(object).map(Object::Slice),
        Watch::ExportedSlices => local::read_ready_slice(object).map(Object::Slice),
        Watch::Links => linkerd::read_link(object).map(Object::Link),
    };
    parsed.unwrap_or_else(skipped)
}

fn skipped(skip: Problem) -> Object {
    Object::Skipped(Arc::new(skip))
}

#[cfg(test)]
mod tests;
