//! Facts for an explanation that are not in the table.

use crate::model::key;
use crate::model::{KubeObject, Namespace, ServiceKey};

/// Facts that are not in the table.
#[derive(Clone, Copy, Debug)]
pub struct Context<'c> {
    /// The namespaces of `--namespace`; empty means all.
    pub watched: &'c [Namespace],
    /// The program that explains.
    pub observer: Observer<'c>,
}

/// The program that explains.
#[derive(Clone, Copy, Debug)]
pub enum Observer<'o> {
    /// A running server. It knows the changes since its start.
    Server,
    /// A command that has read the objects once. It may have found a Service of the name that no watch selects.
    Command(Option<&'o PlainService>),
}

/// A Service of this cluster that is neither headless nor a mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainService(pub(super) ServiceKey);

// === impl PlainService ===

impl PlainService {
    /// Parses a Service. Returns `None` if it has another name, is headless, or is a mirror.
    pub fn read(json: &str, name: &ServiceKey) -> Option<Self> {
        let object = KubeObject::read(json);
        let is_match = object.namespace() == name.namespace.as_str()
            && object.name() == name.service.as_str()
            && object.label(key::MIRRORED_SERVICE).is_none()
            && !object.is_headless();
        is_match.then(|| Self(name.clone()))
    }
}
