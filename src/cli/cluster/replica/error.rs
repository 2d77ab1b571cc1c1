//! The reasons why no replica can be reached.

/// The reason why no replica can be reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplicaError {
    /// The API server did not respond.
    #[error("cannot reach the API server at {url}: {reason}")]
    NoApiServer {
        /// The URL of the API server.
        url: String,
        /// The reason.
        reason: String,
    },
    /// The user lacks a permission.
    #[error("cannot {action} at {url}: {reason}; {missing}")]
    Forbidden {
        /// The failure.
        action: String,
        /// The URL of the API server.
        url: String,
        /// The response of the API server.
        reason: String,
        /// The permission.
        missing: MissingPermission,
    },
    /// There are several releases.
    #[error("found several servers: {}; choose one with {}", .found.join(", "), .flag)]
    Several {
        /// Their names.
        found: Vec<String>,
        /// The flag that decides.
        flag: &'static str,
    },
    /// Nothing has the labels of the chart.
    #[error("no Deployment or DaemonSet of global-dns in any namespace")]
    None,
    /// No pod is ready.
    #[error("no ready pod of global-dns in namespace {0}")]
    NotReady(String),
    /// The request failed for another reason.
    #[error("cannot {action} at {url}: {reason}")]
    Failed {
        /// The failure.
        action: String,
        /// The URL of the API server.
        url: String,
        /// The reason.
        reason: String,
    },
}

/// A permission to reach a replica. Its text says how to grant it, or what needs less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MissingPermission {
    /// To find the release.
    #[error(
        "grant \"list\" on deployments and daemonsets in all namespaces, or set --server-namespace or --server"
    )]
    Workloads,
    /// To find its pods.
    #[error("grant \"list\" on pods, or set --server")]
    Pods,
    /// To reach a pod.
    #[error("grant \"get\" and \"create\" on pods/portforward, or set --server")]
    PortForward,
}

// === impl ReplicaError ===

impl ReplicaError {
    /// Returns whether it is not known which server the user means, so that the user must say it.
    pub fn is_undecided(&self) -> bool {
        match self {
            Self::Forbidden { missing, .. } => *missing != MissingPermission::PortForward,
            Self::Several { .. } => true,
            Self::NoApiServer { .. } | Self::None | Self::NotReady(_) | Self::Failed { .. } => {
                false
            }
        }
    }

    /// Returns whether the cluster has no server, as far as is known, or cannot be reached.
    pub fn has_no_server(&self) -> bool {
        matches!(self, Self::NoApiServer { .. } | Self::None)
    }
}
