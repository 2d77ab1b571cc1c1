//! Converts Kubernetes objects to domain types, or to the reason for which they are skipped (rules M1, M7, M9).
//!
//! The sources call [`read`] for every object of a file, and [`reduce`] for every object of a list or an event. One reader for each
//! source of objects parses them. An object that cannot be used becomes [`Object::Skipped`], so that one invalid object never
//! stops a watch. Only the labels and annotations of [`key`] are read: Linkerd copies even
//! `last-applied-configuration` of the remote object to its mirrors.

use std::sync::Arc;

use super::key::controller;
use super::keys::Kind;
use super::{
    KubeObject, Object, ObjectKey, Problem, ProblemKind, Slice, SliceContent, key, linkerd, local,
    slice,
};

/// Returns the key of an object and what this server uses of it. Returns `None` if the object does not matter, such as a slice
/// of an ordinary Service, or has no name.
pub fn reduce(kind: Kind, object: &KubeObject<'_>) -> Option<(ObjectKey, Object)> {
    Some((object.key()?, read(kind, object)?))
}

/// Reads an object. Returns `None` if it does not matter. An object without a name, or with a label that is not a string,
/// may be of any kind of service. It is skipped as unusable, so that it appears in reports.
pub fn read(kind: Kind, object: &KubeObject<'_>) -> Option<Object> {
    if let Some(detail) = object.problem() {
        return Some(skipped(Problem::new(ProblemKind::UnusableObject, detail)));
    }
    let read = match kind {
        Kind::Service if linkerd::is_mirror(object) => {
            linkerd::read_service(object).map(Object::from)
        }
        Kind::Service if local::is_own(object) => local::read_service(object),
        Kind::Service => return None,
        Kind::EndpointSlice => read_slice(object)?.map(Object::Slice),
        Kind::Link => linkerd::read_link(object).map(Object::Link),
    };
    Some(read.unwrap_or_else(skipped))
}

/// Reads a slice. Returns `None` if it does not matter. Its labels say so: the controllers of slices copy the labels of a Service
/// to its slices.
fn read_slice(slice: &KubeObject<'_>) -> Option<Result<Slice, Problem>> {
    let has = |key| slice.label(key).is_some();
    let manager = slice.label(key::MANAGED_BY);
    if has(key::MCS_SERVICE) {
        None
    } else if linkerd::is_mirror(slice) {
        Some(slice::read(slice, |body| {
            linkerd::slice_content(slice, body)
        }))
    } else if has(key::MIRRORED_SERVICE)
        || has(key::SOURCE_CLUSTER)
        || manager == Some(controller::CILIUM_MESH)
    {
        None
    } else if has(key::HEADLESS) || manager != Some(controller::KUBERNETES) {
        // Slices that somebody else writes for a Service without a selector have no headless label.
        Some(slice::read(slice, |body| {
            SliceContent::Endpoints(slice::listed(body, slice::endpoint))
        }))
    } else {
        has(key::EXPORTED).then(|| slice::read(slice, slice::readiness))
    }
}

fn skipped(skip: Problem) -> Object {
    Object::Skipped(Arc::new(skip))
}

#[cfg(test)]
mod tests;
