//! Sorts the objects of one service by kind.

use super::inputs::Inputs;
use crate::mirror::{
    ClusterName, EndpointMirror, HeadlessMirror, LocalService, Object, ObjectKey, ServiceKey,
};

/// The objects of one service by kind, except slices.
#[derive(Debug, Default)]
pub(super) struct Parts<'i> {
    /// Headless mirrors (rule M2).
    pub(super) headless: Vec<(&'i ObjectKey, &'i HeadlessMirror)>,
    /// Endpoint mirrors (rule M1).
    pub(super) endpoints: Vec<(&'i ObjectKey, &'i EndpointMirror)>,
    /// The headless Service of this cluster (rule M5).
    pub(super) local: Option<&'i LocalService>,
    /// Links that mirror the service, but not as a headless service.
    pub(super) other_kinds: Vec<&'i ClusterName>,
}

// === impl Parts ===

impl<'i> Parts<'i> {
    /// Collects the objects of a service.
    pub(super) fn collect(service: &ServiceKey, inputs: &'i Inputs) -> Self {
        let mut parts = Self::default();
        for (key, object) in inputs.objects_of(service) {
            match object {
                Object::HeadlessMirror(mirror) => parts.headless.push((key, mirror)),
                Object::EndpointMirror(mirror) => parts.endpoints.push((key, mirror)),
                Object::LocalService(local) => parts.local = Some(local),
                Object::Skipped(_) => parts.other_kinds.extend(object.cluster()),
                Object::GatewaySlice(_) | Object::ListedHosts(_) | Object::Slice(_) => {}
            }
        }
        parts
    }

    /// Returns whether a headless mirror of the service exists.
    pub(super) fn is_mirrored(&self) -> bool {
        !self.headless.is_empty()
    }
}
