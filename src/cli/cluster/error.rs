//! Why a cluster, or a replica in it, cannot be asked.

/// Why a cluster, or a replica in it, cannot be asked: a sentence.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{sentence}")]
pub struct ClusterError {
    sentence: String,
    /// The part that failed.
    pub part: Part,
}

/// The part of the way to a replica that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The kubeconfig, the service account, or the credentials that they name.
    Configuration,
    /// The cluster has no server, as far as is known, or cannot be reached.
    Server,
    /// Another one: there may be a server.
    Other,
}

// === impl ClusterError ===

impl ClusterError {
    pub(super) fn new(part: Part, sentence: String) -> Self {
        Self { sentence, part }
    }

    /// Returns the error that the configuration does not permit something.
    pub(super) fn unusable(what: &str, why: &str) -> Self {
        Self::new(Part::Configuration, format!("cannot {what}: {why}"))
    }
}
