//! The facts that the checks need.

use serde::Deserialize;

use super::dns::ZoneFacts;
use super::end_to_end::EndToEnd;
use super::finding::Fact;
use super::objects::CheckedObjects;
use super::permissions::ApiServerStatus;
use crate::model::{Namespace, ProblemKind};
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
    /// The zones.
    pub zones: Zones,
    /// The objects that the table is not built from.
    pub objects: CheckedObjects,
    /// The namespaces that flags name, and whether each exists.
    pub namespaces: Fact<Vec<(Namespace, bool)>>,
    /// The conflicts that a running server reports.
    pub server_problems: Fact<Vec<ServerProblem>>,
    /// Replies of name servers, by zone.
    pub dns: Vec<ZoneFacts>,
    /// The way of one name from a program to an endpoint.
    pub end_to_end: Fact<EndToEnd>,
}
