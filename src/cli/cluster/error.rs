//! Why a cluster, or a replica in it, cannot be asked.

/// Why a cluster, or a replica in it, cannot be asked: a sentence.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ClusterError(pub(super) String);

// === impl ClusterError ===

impl ClusterError {
    /// Returns the error that the configuration does not permit something.
    pub(super) fn unusable(what: &str, why: &str) -> Self {
        Self(format!("cannot {what}: {why}"))
    }
}
