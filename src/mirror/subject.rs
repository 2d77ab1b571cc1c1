//! The subject of an object: the service or the Service that it belongs to.

use super::{ClusterName, Object, ServiceKey, Text};

/// The subject of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject<'o> {
    /// The object is a Service that belongs to this service.
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
            Self::LocalService(local) => Subject::Service(&local.service),
            Self::GatewaySlice(slice) => Subject::SliceOf(&slice.mirror),
            Self::ListedHosts(listed) => Subject::SliceOf(&listed.mirror),
            Self::Slice(slice) => Subject::SliceOf(&slice.service),
            Self::Skipped(skip) => match skip.other_kind() {
                Some((service, _)) => Subject::Service(service),
                None => Subject::Nothing,
            },
        }
    }

    /// Returns the cluster of a mirror, before aliases.
    pub fn cluster(&self) -> Option<&ClusterName> {
        match self {
            Self::HeadlessMirror(mirror) => Some(&mirror.cluster),
            Self::EndpointMirror(mirror) => Some(&mirror.cluster),
            Self::Skipped(skip) => skip.other_kind().map(|(_, cluster)| cluster),
            Self::LocalService(_)
            | Self::GatewaySlice(_)
            | Self::ListedHosts(_)
            | Self::Slice(_) => None,
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
            Self::LocalService(_)
            | Self::GatewaySlice(_)
            | Self::ListedHosts(_)
            | Self::Slice(_)
            | Self::Skipped(_) => None,
        }
    }
}
