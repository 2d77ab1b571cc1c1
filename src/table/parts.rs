//! Sorts the objects of one service by kind.

use super::inputs::Inputs;
use crate::mirror::{
    EndpointMirror, FederatedService, HeadlessMirror, ImportSlice, LocalService, Object, ObjectKey,
    Policy, ServiceImport, ServiceKey, ServiceMirror,
};

/// The objects of one service by kind, except slices of Services.
#[derive(Debug, Default)]
pub(super) struct Parts<'i> {
    /// Headless mirrors (rule M2).
    pub(super) headless: Vec<(&'i ObjectKey, &'i HeadlessMirror)>,
    /// Endpoint mirrors (rule M1).
    pub(super) endpoints: Vec<(&'i ObjectKey, &'i EndpointMirror)>,
    /// Mirrors with a cluster IP.
    pub(super) mirrors: Vec<(&'i ObjectKey, &'i ServiceMirror)>,
    /// Federated services.
    pub(super) federated: Vec<(&'i ObjectKey, &'i FederatedService)>,
    /// The Service of this cluster (rule M5).
    pub(super) local: Option<&'i LocalService>,
    /// Its annotations (rules K6, K8), also for a moment after it is gone, while other objects remain.
    pub(super) policy: Option<&'i Policy>,
    /// The ServiceImport.
    pub(super) import: Option<(&'i ObjectKey, &'i ServiceImport)>,
    /// Slices of the ServiceImport.
    pub(super) import_slices: Vec<(&'i ObjectKey, &'i ImportSlice)>,
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
                Object::ServiceMirror(mirror) => parts.mirrors.push((key, mirror)),
                Object::FederatedService(federated) => parts.federated.push((key, federated)),
                Object::ServiceImport(import) => parts.import = Some((key, import)),
                Object::ImportSlice(slice) => parts.import_slices.push((key, slice)),
                Object::ReadySlice(_)
                | Object::ListedHosts(_)
                | Object::Slice(_)
                | Object::Skipped(_) => {}
            }
        }
        parts.policy = match parts.local {
            Some(local) => Some(&local.policy),
            None if parts.is_empty() => None,
            None => inputs
                .state(service)
                .and_then(|state| state.policy.as_ref()),
        };
        parts
    }

    fn is_empty(&self) -> bool {
        self.headless.is_empty()
            && self.endpoints.is_empty()
            && self.mirrors.is_empty()
            && self.federated.is_empty()
            && self.import.is_none()
    }

    /// Returns whether a headless mirror of the service exists.
    pub(super) fn is_mirrored(&self) -> bool {
        !self.headless.is_empty()
    }
}
