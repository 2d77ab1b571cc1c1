//! What the servers of a fleet say.

use super::document::{ReplicaStatus, ServerTable};
use crate::check::Fact;
use crate::check::objects::Gateways;

/// One cluster of a fleet.
#[derive(Clone, Debug)]
pub struct Member {
    /// The context, or the name that a flag gives to a server or to files.
    pub context: String,
    /// What its server says, or why it cannot be read.
    pub facts: Fact<MemberFacts>,
}

/// What the server of a cluster says.
#[derive(Clone, Debug)]
pub struct MemberFacts {
    /// The state of the replica that the table is from.
    pub status: ReplicaStatus,
    /// The table.
    pub table: ServerTable,
    /// All replicas, also the one that the table is from.
    pub replicas: Vec<ReplicaFacts>,
    /// The gateways of the cluster.
    pub gateways: Gateways,
}

/// What one replica says.
#[derive(Clone, Debug)]
pub struct ReplicaFacts {
    /// Its pod, or how it names itself.
    pub name: String,
    /// The unique ID of its pod.
    pub id: Option<String>,
    /// Its state.
    pub status: Fact<ReplicaStatus>,
    /// The difference of its clock from that of this machine in seconds, if it is known.
    pub clock_ahead: Option<i64>,
}
