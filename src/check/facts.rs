//! The facts that the checks need.

use serde::Deserialize;

use super::dns::DnsFacts;
use super::end_to_end::EndToEnd;
use super::finding::Fact;
use super::objects::{Link, MirrorEndpoints, MirrorPorts, MirrorSlice};
use super::permissions::ApiServerStatus;
use crate::model::{Mcs, Namespace, ProblemKind};
use crate::table::{Rules, Table};
use crate::zone::Zones;

/// A cause of problems of a running server, as in `attention` of `/api/v1/status`.
#[derive(Clone, Debug, Deserialize)]
pub struct ServerProblem {
    /// The kind.
    pub kind: ProblemKind,
    /// What it concerns, if it is one thing.
    pub subject: String,
    /// What is wrong in this case, if it is one problem.
    pub detail: String,
    /// The number of problems.
    pub count: u32,
}

/// The facts that the checks need.
#[derive(Debug)]
pub struct Facts {
    /// The API server and the permissions of the caller.
    pub api: Fact<ApiServerStatus>,
    /// The rules that the table was built by.
    pub rules: Rules,
    /// The first complete table.
    pub table: Fact<Table>,
    /// Whether ServiceImports are read.
    pub mcs: Mcs,
    /// The zones.
    pub zones: Zones,
    /// Slices of headless mirrors. The table is not built from them.
    pub mirror_slices: Fact<Vec<MirrorSlice>>,
    /// Endpoints of mirrors, which Linkerd writes, and whether Kubernetes has copied them.
    pub mirror_endpoints: Fact<Vec<MirrorEndpoints>>,
    /// The Links of this cluster.
    pub links: Fact<Vec<Link>>,
    /// The namespaces that flags name, and whether each exists.
    pub namespaces: Fact<Vec<(Namespace, bool)>>,
    /// Ports of headless mirrors.
    pub mirror_ports: Fact<Vec<MirrorPorts>>,
    /// Objects that no watch selects because of the value of a label.
    pub unwatched_objects: Fact<Vec<String>>,
    /// The conflicts that a running server reports.
    pub server_problems: Fact<Vec<ServerProblem>>,
    /// The versions of Linkerd that created the gateways' probe Services.
    pub linkerd_versions: Fact<Vec<String>>,
    /// Replies of name servers, by zone.
    pub dns: DnsFacts,
    /// The way of one name from a program to an endpoint.
    pub end_to_end: Fact<EndToEnd>,
}
