//! Who asks for an explanation, and what they know besides the table.

use crate::mirror::watch::key;
use crate::mirror::{KubeObject, Namespace, ServiceKey};

/// What is known besides the table.
#[derive(Clone, Copy, Debug)]
pub struct Context<'c> {
    /// The namespaces of `--namespace`; none means all.
    pub watched: &'c [Namespace],
    /// Who explains.
    pub observer: Observer<'c>,
}

/// Who explains.
#[derive(Clone, Copy, Debug)]
pub enum Observer<'o> {
    /// A running server, which has seen what changed since it started.
    Server,
    /// A command that has read the objects once, and found this Service of the name, which no watch selects.
    Once(Option<&'o PlainService>),
}

/// A Service of this cluster that is neither headless nor a mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainService(pub(super) ServiceKey);

// === impl PlainService ===

impl PlainService {
    /// Reads a Service from its JSON, if it is one of that name, and neither headless nor a mirror.
    pub fn read(json: &str, name: &ServiceKey) -> Option<Self> {
        let object = KubeObject::read(json);
        let is_it = object.namespace() == name.namespace.as_str()
            && object.name() == name.service.as_str()
            && object.label(key::MIRRORED_SERVICE).is_none()
            && !object.is_headless();
        is_it.then(|| Self(name.clone()))
    }
}
