//! The documents of a server, as far as a fleet needs them. Servers of other versions may have other fields, and other values
//! of enumerations.

use serde::Deserialize;

use crate::report::{ClusterReport, KnownItems, ProblemReport, SchemaVersion, ServiceReport};

/// `/api/v1/status`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaStatus {
    /// The version of the document's format.
    pub schema_version: SchemaVersion,
    /// The version of the server.
    pub version: String,
    /// `--cluster-name`.
    pub cluster: String,
    /// The name of its host.
    pub replica: String,
    /// The zones, with final dots.
    pub zones: Vec<String>,
    /// The state of the table: `loading` or `ready`.
    pub state: String,
    /// Since when the state holds, if it is known.
    #[serde(default)]
    pub since: Option<String>,
    /// The hash of all answers.
    pub table_hash: Option<u64>,
    /// This cluster, and those of Links.
    pub clusters: Vec<ClusterReport>,
}

/// `/api/v1/table`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerTable {
    /// The version of the document's format.
    pub schema_version: SchemaVersion,
    /// All services.
    pub services: Vec<ServiceReport>,
    /// The problems of the server and of the table.
    pub problems: KnownItems<ProblemReport>,
}

// === impl ReplicaStatus ===

impl ReplicaStatus {
    /// Returns whether the table is confirmed by its source. Another one may differ because it is old.
    pub fn is_current(&self) -> bool {
        self.state == "ready"
    }
}
