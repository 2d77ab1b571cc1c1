//! The subject of an object: the service or the Service that it belongs to.

use super::{Object, ServiceKey, Text};

/// The subject of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject<'o> {
    /// The object is a Service, a ServiceImport or the slice of a ServiceImport, and belongs to this service.
    Service(&'o ServiceKey),
    /// The object is a slice of the Service with this name in the same namespace. It has the subject of that Service.
    SliceOf(&'o Text),
    /// The object has no known subject.
    Nothing,
}

// === impl Object ===

impl Object {
    /// Returns the subject of the object.
    pub fn subject(&self) -> Subject<'_> {
        match self {
            Self::HeadlessMirror(mirror) => Subject::Service(&mirror.service),
            Self::EndpointMirror(mirror) => Subject::Service(&mirror.service),
            Self::ServiceMirror(mirror) => Subject::Service(&mirror.service),
            Self::FederatedService(federated) => Subject::Service(&federated.service),
            Self::LocalService(local) => Subject::Service(&local.service),
            Self::ReadySlice(slice) => Subject::SliceOf(&slice.service),
            Self::ListedHosts(listed) => Subject::SliceOf(&listed.mirror),
            Self::Slice(slice) => Subject::SliceOf(&slice.service),
            Self::ServiceImport(import) => Subject::Service(&import.service),
            Self::ImportSlice(slice) => Subject::Service(&slice.service),
            Self::Skipped(_) => Subject::Nothing,
        }
    }

    /// Returns a description of what a mirror mirrors. Rule M8 compares the old and the new description.
    pub fn identity(&self) -> Option<String> {
        let Subject::Service(service) = self.subject() else {
            return None;
        };
        match self {
            Self::HeadlessMirror(mirror) => {
                Some(format!("{service} in cluster '{}'", mirror.cluster))
            }
            Self::EndpointMirror(mirror) => {
                let (hostname, cluster) = (&mirror.hostname, &mirror.cluster);
                Some(format!("'{hostname}' of {service} in cluster '{cluster}'"))
            }
            Self::ServiceMirror(mirror) => {
                Some(format!("{service} in cluster '{}'", mirror.cluster))
            }
            Self::FederatedService(_)
            | Self::LocalService(_)
            | Self::ReadySlice(_)
            | Self::ListedHosts(_)
            | Self::Slice(_)
            | Self::ServiceImport(_)
            | Self::ImportSlice(_)
            | Self::Skipped(_) => None,
        }
    }
}
