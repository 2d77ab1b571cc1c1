//! The origin of the API server's address and of the credentials, for messages.

use std::fmt;

/// The origin of the configuration of a client.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The kubeconfig with its context, or the pod.
    pub(super) origin: String,
    /// What to do if the API server does not answer as expected.
    pub(super) way_out: String,
}

/// Why no client of the API server could be created: a sentence that names the setting.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConnectError(pub(super) String);

// === impl Credentials ===

impl Credentials {
    /// Returns what to do if the API server does not answer as expected.
    pub fn way_out(&self) -> String {
        self.way_out.clone()
    }
}

impl fmt::Display for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin)
    }
}
