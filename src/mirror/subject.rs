//! What an object speaks of: all that the inputs need to know of it, whatever its kind.

use super::{ClusterName, Object, ServiceKey, Text};

/// What an object speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject<'o> {
    /// It is a Service, and part of this service.
    Service(&'o ServiceKey),
    /// It is a slice of the Service with this name in its own namespace, and speaks of what that Service speaks of.
    SliceOf(&'o Text),
    /// Nothing that is known.
    Nothing,
}

// === impl Object ===

impl Object {
    /// Returns what the object speaks of.
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

    /// Returns the cluster that a mirror is of, before aliases.
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

    /// Says, in words, of what a usable mirror is a mirror: rule M8 compares it with what it was before.
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
