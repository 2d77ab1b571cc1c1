//! What the servers of a fleet say.

use serde_json::Value;

use crate::check::finding::{Fact, text};
use crate::check::told::ServerTable;

/// One cluster of a fleet.
#[derive(Clone, Debug)]
pub struct Member {
    /// The context, or the name that a flag gives to a server.
    pub context: String,
    /// Its replicas, or why none can be read.
    pub replicas: Fact<Vec<Replica>>,
}

/// What one replica says.
#[derive(Clone, Debug)]
pub struct Replica {
    /// Its pod, or its URL.
    pub name: String,
    /// Its status, or why it cannot be read.
    pub status: Fact<Value>,
    /// Its table. `None`: another replica of the cluster has the same answers.
    pub table: Option<ServerTable>,
}

impl Replica {
    /// Returns what no other process says: its cluster, its replica, and the start of its history.
    pub(super) fn id(&self) -> Option<[&str; 3]> {
        let status = self.status.as_ref().ok()?;
        Some(["cluster", "replica", "historyStart"].map(|field| text(status, field)))
    }
}
