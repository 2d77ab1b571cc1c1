//! Hosts that a headless mirror lists and that have no endpoint.

use std::net::IpAddr;

use crate::model::{ClusterName, Hostname, ObjectRef};

/// A host that a headless mirror lists, of a cluster that is neither excluded nor unlinked, without a usable endpoint mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingHost {
    /// The cluster of the host, after aliases.
    pub cluster: ClusterName,
    /// Its hostname.
    pub hostname: Hostname,
    /// The address in the list. It may belong to another Service now.
    pub address: Option<IpAddr>,
    /// The headless mirror that lists it.
    pub mirror: ObjectRef,
    /// The endpoint mirror that Linkerd should have made.
    pub expected: ObjectRef,
}

// === impl MissingHost ===

impl MissingHost {
    /// Returns the labels `H` and `C`.
    pub(super) fn labels(&self) -> [&str; 2] {
        [self.hostname.as_str(), self.cluster.as_str()]
    }

    /// Returns the reason for which its name fails, as part of a sentence, and for clients (RFC 8914, EXTRA-TEXT).
    pub fn reason(&self) -> String {
        format!("endpoint mirror {} is missing", self.expected.key.name)
    }
}
